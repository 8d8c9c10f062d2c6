/**
 * The places of a plan's sub-tasks: time goes down. Layers by the longest path, few crossings by barycentre sweeps, and places across by least squares with
 * minimal distances. The same plan always has the same layout. Nothing here touches the page.
 */

export const NODE = { width: 178, narrow: 132, height: 75, gapX: 12, gapY: 33 };
const SWEEPS = 8;
const PLACING_SWEEPS = 24;
/** How much the middle of the pane counts beside each neighbour. */
const PULL = 0.7;

/**
 * @typedef {{id: string, depends_on?: string[]}} Subtask
 * @typedef {{id: string, x: number, y: number, width: number, row: number}} Placed the middle of its upper edge
 * @typedef {{from: string, to: string, path: string}} Edge
 * @param {Subtask[]} subtasks
 * @param {number} width of the pane
 * @returns {{nodes: Placed[], edges: Edge[], width: number, height: number, rows: string[][]}}
 */
export function layout(subtasks, width) {
  const index = new Map(subtasks.map((subtask, at) => [subtask.id, at]));
  const parents = subtasks.map((subtask) => (subtask.depends_on ?? []).map((id) => index.get(id)).filter((at) => at !== undefined));
  const layers = layersOf(parents);
  const { items, rows, links } = withPassing(parents, layers);
  order(rows, items);
  const broken = breakRows(rows, items, width);
  place(broken, items, width);
  return { ...drawn(subtasks, broken, items, links, width), rows: broken.map((row) => row.filter((at) => items[at].node !== null).map((at) => subtasks[items[at].node].id)) };
}

/** The layer of each sub-task: one more than that of its lowest dependency. Plans have no cycles; if one had, its edges back count for nothing. */
export function layersOf(parents) {
  const layers = new Array(parents.length).fill(-1);
  const visit = (at) => {
    if (layers[at] >= 0) return layers[at];
    layers[at] = 0;
    for (const parent of parents[at]) layers[at] = Math.max(layers[at], visit(parent) + 1);
    return layers[at];
  };
  parents.forEach((_, at) => visit(at));
  return layers;
}

/** Adds a place in each row that an edge passes; the edges of one source share it. */
function withPassing(parents, layers) {
  const items = parents.map((_, at) => ({ node: at, up: [], down: [], x: 0, width: 0 }));
  const rows = [];
  const put = (at, layer) => (rows[layer] ??= []).push(at);
  parents.forEach((_, at) => put(at, layers[at]));
  const passing = new Map();
  const links = [];
  parents.forEach((from, to) => {
    for (const source of from) {
      let last = source;
      const through = [];
      for (let layer = layers[source] + 1; layer < layers[to]; layer++) {
        const name = `${source}/${layer}`;
        let at = passing.get(name);
        if (at === undefined) {
          at = items.push({ node: null, up: [last], down: [], x: 0, width: 0 }) - 1;
          passing.set(name, at);
          put(at, layer);
          items[last].down.push(at);
        }
        through.push(at);
        last = at;
      }
      items[last].down.push(to);
      items[to].up.push(last);
      links.push({ source, to, through });
    }
  });
  return { items, rows: rows.map((row) => row ?? []), links };
}

/** Orders each row so that few edges cross. */
function order(rows, items) {
  let best = rows.map((row) => [...row]);
  let fewest = crossings(best, items);
  const current = rows.map((row) => [...row]);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const isDown = sweep % 2 === 0;
    const sequence = isDown ? [...current.keys()].slice(1) : [...current.keys()].slice(0, -1).reverse();
    for (const row of sequence) {
      const at = positions(current[isDown ? row - 1 : row + 1]);
      const centre = new Map(current[row].map((item, place) => {
        const near = items[item][isDown ? 'up' : 'down'].filter((other) => at.has(other));
        return [item, near.length ? near.reduce((sum, other) => sum + at.get(other), 0) / near.length : place];
      }));
      const place = positions(current[row]);
      current[row].sort((a, b) => centre.get(a) - centre.get(b) || place.get(a) - place.get(b));
    }
    const now = crossings(current, items);
    if (now < fewest) {
      fewest = now;
      best = current.map((row) => [...row]);
    }
  }
  best.forEach((row, at) => (rows[at] = row));
}

const positions = (row) => new Map(row.map((item, at) => [item, at]));

function crossings(rows, items) {
  let total = 0;
  for (let row = 1; row < rows.length; row++) {
    const below = positions(rows[row]);
    const ends = rows[row - 1].flatMap((item) => items[item].down.map((to) => below.get(to)).filter((at) => at !== undefined).sort((a, b) => a - b));
    total += inversions(ends, rows[row].length);
  }
  return total;
}

/** Pairs in the wrong order, counted with a Fenwick tree: a plan may have a thousand edges between two rows. */
function inversions(ends, size) {
  const tree = new Int32Array(size + 1);
  let count = 0;
  ends.forEach((end, seen) => {
    let notAbove = 0;
    for (let at = end + 1; at > 0; at -= at & -at) notAbove += tree[at];
    count += seen - notAbove;
    for (let at = end + 1; at <= size; at += at & -at) tree[at]++;
  });
  return count;
}

/** Makes nodes narrow in a row with more than fit, and breaks a row that is still too long. */
function breakRows(rows, items, width) {
  const broken = [];
  for (const row of rows) {
    const nodes = row.filter((at) => items[at].node !== null).length;
    const passing = row.length - nodes;
    const needed = (each) => nodes * (each + NODE.gapX) - NODE.gapX + passing * NODE.gapX;
    const each = needed(NODE.width) <= width ? NODE.width : NODE.narrow;
    for (const at of row) items[at].width = items[at].node === null ? 0 : each;
    const parts = needed(each) <= width ? 1 : Math.ceil(needed(each) / width);
    const length = Math.ceil(row.length / parts);
    for (let from = 0; from < row.length; from += length) broken.push(row.slice(from, from + length));
  }
  return broken;
}

/** Gives each item of each row its place across. */
function place(rows, items, width) {
  const middle = width / 2;
  for (const row of rows) spread(row, items, row.map(() => middle), width);
  for (let sweep = 0; sweep < PLACING_SWEEPS; sweep++) {
    const sequence = sweep % 2 === 0 ? rows : [...rows].reverse();
    for (const row of sequence) {
      const wanted = row.map((at) => {
        const item = items[at];
        if (item.node === null) return items[item.up[0]].x;
        const near = [...item.up, ...item.down];
        return (near.reduce((sum, other) => sum + items[other].x, 0) + PULL * middle) / (near.length + PULL);
      });
      spread(row, items, wanted, width);
    }
  }
}

/** The places nearest to those wanted that keep the distances and the pane's edges: pool adjacent violators. */
function spread(row, items, wanted, width) {
  const offsets = [0];
  for (let at = 1; at < row.length; at++) offsets.push(offsets[at - 1] + (items[row[at - 1]].width + items[row[at]].width) / 2 + NODE.gapX);
  const pools = [];
  wanted.forEach((want, at) => {
    pools.push({ sum: want - offsets[at], count: 1 });
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).count >= pools.at(-1).sum / pools.at(-1).count) {
      const last = pools.pop();
      pools.at(-1).sum += last.sum;
      pools.at(-1).count += last.count;
    }
  });
  const low = items[row[0]].width / 2;
  const high = Math.max(low, width - items[row.at(-1)].width / 2 - offsets.at(-1));
  let at = 0;
  for (const pool of pools) {
    const start = Math.min(high, Math.max(low, pool.sum / pool.count));
    for (let count = 0; count < pool.count; count++, at++) items[row[at]].x = start + offsets[at];
  }
}

function drawn(subtasks, rows, items, links, width) {
  const top = new Map();
  rows.forEach((row, number) => row.forEach((at) => top.set(at, number * (NODE.height + NODE.gapY))));
  const nodes = [];
  rows.forEach((row, number) => row.forEach((at) => {
    const item = items[at];
    if (item.node !== null) nodes.push({ id: subtasks[item.node].id, x: item.x, y: top.get(at), width: item.width, row: number });
  }));
  const edges = links.map(({ source, to, through }) => {
    let [x, y] = [items[source].x, top.get(source) + NODE.height];
    let path = `M${round(x)} ${y}`;
    for (const at of [...through, to]) {
      const [nextX, nextY] = [items[at].x, top.get(at)];
      const half = (nextY - y) / 2;
      path += nextX === x ? `V${nextY}` : `C${round(x)} ${y + half} ${round(nextX)} ${nextY - half} ${round(nextX)} ${nextY}`;
      [x, y] = [nextX, nextY];
      if (at !== to) {
        y += NODE.height;
        path += `V${y}`;
      }
    }
    return { from: subtasks[source].id, to: subtasks[to].id, path };
  });
  return { nodes, edges, width, height: Math.max(0, rows.length * (NODE.height + NODE.gapY) - NODE.gapY) };
}

const round = (value) => Math.round(value * 10) / 10;
