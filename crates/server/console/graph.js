/** The graph of a plan: edges are one SVG beneath the nodes, which are buttons. The layout is computed once per plan and width. */
import { h } from './view.js';
import { NODE, layout } from './layout.js';
import { glyph } from './icons.js';
import { clock, duration, visible } from './format.js';
import { words } from './words.js';

const MARGIN = 14;

/** Layouts by plan: plans do not change, so only the width may. */
const layouts = new WeakMap();

function layoutOf(plan, width) {
  const known = layouts.get(plan);
  if (known?.width === width) return known.made;
  const made = layout(plan.subtasks, width);
  layouts.set(plan, { width, made });
  return made;
}

function paneWidth() {
  const pane = document.querySelector('.pane');
  return Math.max(2 * NODE.narrow, Math.floor((pane?.clientWidth ?? 900) - 2 * MARGIN));
}

/** The time of a sub-task: how long it took, or has run. */
export function taskTime(known, state) {
  if (known?.observation) return state === 'skipped' ? '' : duration(known.observation.duration);
  return known?.started && (state === 'running' || state === 'needs' || state === 'asks') ? clock(Date.now() - known.started) : '';
}

export function graph(page, tasks, filter) {
  const { iteration, query } = page;
  const made = layoutOf(iteration.plan, paneWidth());
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const place = new Map(made.nodes.map((node) => [node.id, node]));
  const selected = query.task;
  const stop = byId.has(selected) ? selected : tasks[0]?.id;
  return h('div', { class: 'graph', style: { width: `${made.width}px`, height: `${made.height}px` } },
    h('svg', { class: 'edges', width: made.width, height: made.height, 'aria-hidden': 'true' }, edgePaths(made.edges, byId, selected)),
    h('ol', { class: 'layers', 'aria-label': words.planLabel }, made.rows.map((row, number) =>
      h('li', { key: number }, h('ul', null, row.map((id) => {
        const task = byId.get(id);
        return h('li', { key: id }, node(page, task, place.get(id), id === selected, id === stop, filter && (task.state === 'asks' ? 'needs' : task.state) !== filter));
      }))))));
}

function edgePaths(edges, byId, selected) {
  const paths = { plain: '', done: '', live: '', chosen: '' };
  for (const { from, to, path } of edges) {
    const target = byId.get(to)?.state;
    const kind = selected && (from === selected || to === selected) ? 'chosen' : target === 'running' ? 'live' : byId.get(from)?.state === 'succeeded' && target !== 'waiting' ? 'done' : 'plain';
    paths[kind] += path;
  }
  return Object.entries(paths).map(([kind, d]) => h('path', { key: kind, class: kind, d }));
}

function node(page, task, place, isSelected, isStop, isDimmed) {
  const needsUser = task.state === 'needs' || task.state === 'asks';
  const time = needsUser ? words.you : taskTime(task.known, task.state);
  const title = visible(task.title ?? task.id);
  const after = task.depends_on?.length ? `, ${words.after(task.depends_on.join(', '))}` : '';
  return h('button', {
    class: `node ${task.state} ${isSelected ? 'is-selected' : ''} ${isDimmed ? 'is-dimmed' : ''}`,
    'data-task': task.id,
    tabindex: isStop ? 0 : -1,
    'aria-pressed': String(isSelected),
    title,
    style: { left: `${Math.round(place.x - place.width / 2)}px`, top: `${place.y}px`, width: `${place.width}px`, height: `${NODE.height}px` },
    onclick: () => page.select({ task: isSelected ? null : task.id, call: null }, !isSelected),
  },
  h('span', { class: 'node-head' }, glyph(task.state), h('span', { class: 'node-id cut' }, visible(task.id)), h('span', { class: 'node-time', 'aria-hidden': 'true' }, time)),
  h('span', { class: 'node-title' }, title),
  h('span', { class: 'hidden-text' }, `, ${words.taskStates[task.state]}${task.agent ? `, ${visible(task.agent)}` : ''}${after}`));
}

/** The sub-task to which an arrow leads: up and down along edges, else the nearest in the row. */
export function graphNeighbour(page, from, direction) {
  const { plan } = page.iteration;
  const made = layoutOf(plan, paneWidth());
  const here = made.nodes.find((one) => one.id === from);
  if (!here) return null;
  if (direction === 'left' || direction === 'right') {
    const row = made.rows[here.row];
    return row[row.indexOf(from) + (direction === 'left' ? -1 : 1)] ?? null;
  }
  const linked = made.edges.filter((edge) => (direction === 'up' ? edge.to === from : edge.from === from)).map((edge) => made.nodes.find((one) => one.id === (direction === 'up' ? edge.from : edge.to)));
  linked.sort((a, b) => Math.abs(a.row - here.row) - Math.abs(b.row - here.row) || Math.abs(a.x - here.x) - Math.abs(b.x - here.x));
  return linked[0]?.id ?? null;
}
