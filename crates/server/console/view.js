/**
 * The smallest part of a view library that the console needs: descriptions of elements (`h`), and `render`, which changes the page only where a
 * description differs from the one before. All text becomes text nodes, so nothing from a model, a tool or a file can become markup.
 */

const SVG = 'http://www.w3.org/2000/svg';
/** Set as properties: the attribute of the same name is only the initial value. */
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'open', 'selected', 'indeterminate']);

/**
 * @typedef {{tag: string, props: Object, key: ?(string|number), children: Array<VNode|string>, node?: Node}} VNode
 */

/** Describes an element. Children may be nested lists; `null`, `undefined` and booleans are left out. @returns {VNode} */
export function h(tag, props, ...children) {
  const given = props ?? {};
  return { tag, props: given, key: given.key ?? null, children: flatten(children, []) };
}

function flatten(children, into) {
  for (const child of children) {
    if (Array.isArray(child)) flatten(child, into);
    else if (child === null || child === undefined || typeof child === 'boolean') continue;
    else into.push(typeof child === 'object' ? child : { tag: '#text', text: String(child), props: {}, key: null, children: [] });
  }
  return into;
}

const memory = new Map();

/** Returns the last description for `key` while `inputs` are identical, so that `render` skips it. */
export function memo(key, inputs, make) {
  const last = memory.get(key);
  if (last && last.inputs.length === inputs.length && last.inputs.every((input, at) => Object.is(input, inputs[at]))) return last.view;
  const view = make();
  memory.delete(key);
  memory.set(key, { inputs, view });
  // The oldest go first, as a map keeps the order of insertion.
  if (memory.size > 400) memory.delete(memory.keys().next().value);
  return view;
}

const rendered = new WeakMap();

/** Makes the children of `container` those of `views`. */
export function render(container, ...views) {
  const next = flatten(views, []);
  patchChildren(container, rendered.get(container) ?? [], next, false);
  rendered.set(container, next);
}

function create(view, inSvg) {
  if (view.tag === '#text') return (view.node = document.createTextNode(view.text));
  const isSvg = inSvg || view.tag === 'svg';
  const node = isSvg ? document.createElementNS(SVG, view.tag) : document.createElement(view.tag);
  view.node = node;
  for (const child of view.children) node.append(create(child, isSvg));
  for (const name in view.props) setProp(node, name, view.props[name], undefined);
  view.props.ref?.(node);
  return node;
}

function setProp(node, name, value, last) {
  if (name === 'key' || name === 'ref' || value === last && name !== 'value' && name !== 'checked') return;
  if (name === 'style') {
    for (const rule in last) if (!value || !(rule in value)) node.style.removeProperty(rule);
    for (const rule in value) if (value[rule] !== last?.[rule]) node.style.setProperty(rule, value[rule]);
  } else if (name.startsWith('on')) {
    // What a handler returns means nothing: `false` would keep links from being followed.
    node[name] = value ? (event) => void value(event) : null;
  } else if (PROPERTIES.has(name) && !(node instanceof SVGElement)) {
    if (node[name] !== value) node[name] = value ?? '';
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? '' : value);
  }
}

function patch(last, next, inSvg) {
  next.node = last.node;
  if (last === next) return;
  const node = next.node;
  if (next.tag === '#text') {
    if (last.text !== next.text) node.data = next.text;
    return;
  }
  const isSvg = inSvg || next.tag === 'svg';
  patchChildren(node, last.children, next.children, isSvg);
  for (const name in last.props) if (!(name in next.props)) setProp(node, name, undefined, last.props[name]);
  for (const name in next.props) setProp(node, name, next.props[name], last.props[name]);
}

const same = (a, b) => a.tag === b.tag && a.key === b.key;

function patchChildren(parent, last, next, inSvg) {
  if (last === next) return;
  // The equal beginning and end, which is nearly always everything.
  let start = 0;
  const shorter = Math.min(last.length, next.length);
  while (start < shorter && same(last[start], next[start])) {
    patch(last[start], next[start], inSvg);
    start++;
  }
  let tail = 0;
  while (tail < shorter - start && same(last[last.length - 1 - tail], next[next.length - 1 - tail])) {
    patch(last[last.length - 1 - tail], next[next.length - 1 - tail], inSvg);
    tail++;
  }
  const lastEnd = last.length - tail;
  const nextEnd = next.length - tail;
  if (start === lastEnd && start === nextEnd) return;
  // Nodes that stay are taken by key; the others are made or removed.
  const kept = new Map();
  for (let at = start; at < lastEnd; at++) if (last[at].key !== null) kept.set(last[at].tag + '/' + last[at].key, last[at]);
  const used = new Set();
  let before = nextEnd < next.length ? next[nextEnd].node : last.length > lastEnd ? last[lastEnd].node : null;
  const nodes = [];
  for (let at = start; at < nextEnd; at++) {
    const view = next[at];
    const old = view.key === null ? undefined : kept.get(view.tag + '/' + view.key);
    if (old && !used.has(old)) {
      used.add(old);
      patch(old, view, inSvg);
      nodes.push(view.node);
    } else {
      nodes.push(create(view, inSvg));
    }
  }
  for (let at = start; at < lastEnd; at++) if (!used.has(last[at])) last[at].node.remove();
  for (let at = nodes.length - 1; at >= 0; at--) {
    if (nodes[at].nextSibling !== before || nodes[at].parentNode !== parent) parent.insertBefore(nodes[at], before);
    before = nodes[at];
  }
}

let painting = null;
let frame = 0;

/** Sets what draws the page. It runs at most once a frame, after `repaint` was called. */
export function paintWith(paint) {
  painting = paint;
  repaint();
}

/** Asks for the page to be drawn in the next frame. */
export function repaint() {
  if (frame || !painting) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    painting();
  });
}
