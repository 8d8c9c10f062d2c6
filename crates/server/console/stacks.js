/**
 * Plans of 150 sub-tasks and more: siblings with the same agent or tools, in the same row, whose titles differ in one place, are one stack, with tallies and a map
 * that has a cell for each. The list of the chosen stack stands in the inspector.
 */
import { h, repaint } from './view.js';
import { layersOf } from './layout.js';
import { glyph, icon } from './icons.js';
import { ORDER } from './states.js';
import { visible } from './format.js';
import { words } from './words.js';

/** Fewer alike sub-tasks than this are no stack of their own. */
const LEAST = 3;
const CELL = 11;
/** Maps of smaller stacks are open from the start. */
const OPEN_UP_TO = 1000;

/** @typedef {{id: string, layer: number, title: string, at: number[], parts: Map<number, string>}} Stack `at` are places in the plan, `parts` what differs */

const known = new WeakMap();

/** The stacks of a plan, from its top. They depend on the plan alone. @returns {Stack[]} */
export function stacksOf(plan) {
  let stacks = known.get(plan);
  if (!stacks) known.set(plan, (stacks = makeStacks(plan.subtasks)));
  return stacks;
}

function makeStacks(subtasks) {
  const index = new Map(subtasks.map((subtask, at) => [subtask.id, at]));
  const layers = layersOf(subtasks.map((subtask) => (subtask.depends_on ?? []).map((id) => index.get(id)).filter((at) => at !== undefined)));
  const rows = [];
  subtasks.forEach((subtask, at) => (rows[layers[at]] ??= []).push(at));
  return rows.flatMap((row, layer) => stacksOfRow(row, layer, subtasks));
}

function stacksOfRow(row, layer, subtasks) {
  const titles = new Map(row.map((at) => [at, (subtasks[at].title ?? subtasks[at].id).split(/\s+/)]));
  const who = (at) => subtasks[at].agent ?? (subtasks[at].calls ?? []).map((call) => call.tool).join(',');
  // A title with one word left out is a form; the form that most titles have wins.
  const forms = new Map();
  for (const [at, parts] of titles) {
    parts.forEach((_, place) => {
      const form = JSON.stringify([who(at), place, parts.map((part, other) => (other === place ? null : part))]);
      forms.set(form, [...(forms.get(form) ?? []), at]);
    });
  }
  const taken = new Set();
  const stacks = [];
  for (const [form, members] of [...forms].sort((a, b) => b[1].length - a[1].length)) {
    const at = members.filter((member) => !taken.has(member));
    if (at.length < LEAST) continue;
    at.forEach((member) => taken.add(member));
    const [, place, parts] = JSON.parse(form);
    const differing = new Map(at.map((member) => [member, titles.get(member)[place]]));
    const kind = [...differing.values()].every((part) => /^\d+$/.test(part)) ? 'NUMBER' : [...differing.values()].some((part) => /[/.]/.test(part)) ? 'FILE' : 'NAME';
    stacks.push({ id: `${layer}-${stacks.length}`, layer, title: parts.map((part) => part ?? kind).join(' '), at, parts: differing });
  }
  const others = row.filter((at) => !taken.has(at));
  if (others.length === 1) stacks.push({ id: subtasks[others[0]].id, layer, title: subtasks[others[0]].title ?? subtasks[others[0]].id, at: others, parts: new Map() });
  else if (others.length) stacks.push({ id: `${layer}-others`, layer, title: words.others, at: others, parts: new Map() });
  return stacks.sort((a, b) => a.at[0] - b.at[0]);
}

/** What is folded, and the cell under the pointer or the keys, by run and stack. */
const folded = new Map();
const pointed = new Map();

export function stackView(page, tasks) {
  return h('div', { class: 'stacks' }, stacksOf(page.iteration.plan).map((stack, at) => [at > 0 && h('div', { class: 'stack-link', 'aria-hidden': 'true', key: `l-${stack.id}` }), stackOf(page, stack, tasks)]));
}

export function tallyOf(members) {
  const counts = new Map();
  for (const { state } of members) counts.set(state, (counts.get(state) ?? 0) + 1);
  return ORDER.filter((state) => counts.has(state)).map((state) => h('span', { key: state, title: words.taskStates[state] }, glyph(state, words.taskStates[state]), counts.get(state)));
}

/** The state that a stack shows as a whole: what matters most among its members. */
function stateOf(members) {
  const has = (state) => members.some((task) => task.state === state);
  return ['needs', 'asks', 'running', 'failed'].find(has) ?? (members.every((task) => task.state === 'succeeded') ? 'succeeded' : has('succeeded') ? 'running' : members[0].state);
}

function stackOf(page, stack, tasks) {
  const members = stack.at.map((at) => tasks[at]);
  const key = `${page.run.id}/${stack.id}`;
  if (members.length === 1) {
    const [task] = members;
    return h('div', { class: `stack ${page.query.task === task.id ? 'is-selected' : ''}`, key: stack.id }, h('button', { class: 'stack-head', 'data-task': task.id, onclick: () => page.select({ task: task.id, stack: null }, true) },
      glyph(task.state, words.taskStates[task.state]), h('b', { class: 'cut' }, visible(stack.title)), h('span', { class: 'muted' }, visible(task.id))));
  }
  const isFolded = folded.get(key) ?? members.length > OPEN_UP_TO;
  const isChosen = page.query.stack === stack.id;
  return h('div', { class: `stack ${isChosen ? 'is-selected' : ''}`, key: stack.id },
    h('div', { class: 'stack-line' },
      h('button', { class: 'quiet icon-button', 'aria-expanded': String(!isFolded), 'aria-label': words.map, onclick: () => (folded.set(key, !isFolded), repaint()) }, icon(isFolded ? 'right' : 'down')),
      h('button', { class: 'stack-head', 'aria-pressed': String(isChosen), onclick: () => page.select({ stack: isChosen ? null : stack.id, task: null }, !isChosen) },
        glyph(stateOf(members)), h('b', { class: 'cut' }, visible(stack.title)), h('span', { class: 'muted' }, words.alike(members.length)), h('span', { class: 'stack-tally' }, tallyOf(members)))),
    !isFolded && map(page, stack, members, key));
}

function map(page, stack, members, key) {
  const width = Math.max(CELL * 10, (document.querySelector('.pane')?.clientWidth ?? 900) - 60);
  const columns = Math.floor(width / CELL);
  const rows = Math.ceil(members.length / columns);
  const under = pointed.get(key);
  const name = under !== undefined && members[under] ? `${visible(stack.parts.get(stack.at[under]) ?? members[under].title ?? members[under].id)}, ${words.taskStates[members[under].state]}` : words.mapHint;
  const point = (at) => {
    if (at < 0 || at >= members.length || at === pointed.get(key)) return;
    pointed.set(key, at);
    repaint();
  };
  const cellAt = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.floor((event.clientX - box.left) / CELL));
    return Math.floor((event.clientY - box.top) / CELL) * columns + column;
  };
  const choose = (at) => members[at] && page.select({ task: members[at].id, stack: stack.id }, true);
  const keydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step) point(Math.max(0, Math.min(members.length - 1, (pointed.get(key) ?? -1) + step)));
    else if (event.key === 'Enter') choose(pointed.get(key) ?? 0);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const id = `map-${stack.id}`;
  // The canvas exists once the page was drawn.
  queueMicrotask(() => draw(document.getElementById(id), members, columns, rows, under, page.query.task));
  return h('div', { class: 'stack-body' },
    h('canvas', { id, class: 'stack-map', tabindex: 0, role: 'img', 'aria-label': `${visible(stack.title)}: ${name}`, style: { width: `${columns * CELL}px`, height: `${rows * CELL}px` }, onpointermove: (event) => point(cellAt(event)), onclick: (event) => choose(cellAt(event)), onkeydown: keydown }),
    h('p', { class: 'stack-name', 'aria-hidden': 'true' }, name));
}

/** Draws a cell for each member: a square done, a ring running, a cross failed, a diamond that needs the user, a dash skipped, a dot waiting. */
export function draw(canvas, members, columns, rows, under, selected) {
  if (!canvas) return;
  const styles = getComputedStyle(document.documentElement);
  const color = (name) => styles.getPropertyValue(`--${name}`).trim();
  const paint = { green: color('green'), blue: color('blue'), red: color('red'), amber: color('amber-glyph'), control: color('control'), ink: color('ink') };
  const text = `${members.map((task) => task.state).join()}/${columns}/${under}/${selected}/${paint.green}`;
  if (canvas.drawn === text) return;
  canvas.drawn = text;
  const scale = devicePixelRatio || 1;
  canvas.width = columns * CELL * scale;
  canvas.height = rows * CELL * scale;
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  context.lineWidth = 1.6;
  members.forEach((task, at) => {
    const [x, y] = [(at % columns) * CELL + CELL / 2, Math.floor(at / columns) * CELL + CELL / 2];
    context.beginPath();
    switch (task.state) {
      case 'succeeded':
        context.fillStyle = paint.green;
        context.fillRect(x - 4, y - 4, 8, 8);
        break;
      case 'running':
        context.strokeStyle = paint.blue;
        context.arc(x, y, 3.2, 0, 7);
        context.stroke();
        break;
      case 'failed':
        context.strokeStyle = paint.red;
        context.moveTo(x - 3.5, y - 3.5);
        context.lineTo(x + 3.5, y + 3.5);
        context.moveTo(x + 3.5, y - 3.5);
        context.lineTo(x - 3.5, y + 3.5);
        context.stroke();
        break;
      case 'needs':
      case 'asks':
        context.fillStyle = paint.amber;
        context.moveTo(x, y - 5);
        context.lineTo(x + 5, y);
        context.lineTo(x, y + 5);
        context.lineTo(x - 5, y);
        context.fill();
        break;
      case 'skipped':
      case 'cancelled':
        context.fillStyle = paint.control;
        context.fillRect(x - 4, y - 1, 8, 2);
        break;
      default:
        context.fillStyle = paint.control;
        context.arc(x, y, 1.2, 0, 7);
        context.fill();
    }
    if (at === under || task.id === selected) {
      context.strokeStyle = paint.ink;
      context.strokeRect(x - 5, y - 5, 10, 10);
    }
  });
}
