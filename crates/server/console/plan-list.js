/** The plan as a list by state, virtualised when it is long: what readers get, and phones. */
import { h, repaint } from './view.js';
import { glyph } from './icons.js';
import { taskTime } from './graph.js';
import { virtual } from './virtual.js';
import { visible } from './format.js';
import { words } from './words.js';

/** Groups in the order of what matters. Those that are done come newest first. */
const GROUPS = [['needs', ['needs', 'asks']], ['failed', ['failed']], ['running', ['running']], ['succeeded', ['succeeded']], ['waiting', ['ready', 'waiting']], ['skipped', ['skipped', 'cancelled']]];

/** The order in which each list stands: group names and sub-tasks. It is kept while the user is in the list. */
const orders = new Map();

/** Whether the pointer or the focus is in a list, or it is scrolled: its rows then keep their place. */
function isInUse(scroller) {
  if (!scroller) return false;
  const isPage = getComputedStyle(scroller).overflowY === 'visible';
  return (isPage ? scrollY : scroller.scrollTop) > 0 || scroller.matches(':hover') || scroller.contains(document.activeElement);
}

const groupOf = (task) => GROUPS.find(([, states]) => states.includes(task.state))[0];

function sorted(tasks) {
  const rows = [];
  for (const [name] of GROUPS) {
    const members = tasks.filter((task) => groupOf(task) === name);
    if (name === 'succeeded') members.sort((a, b) => (b.known?.ended ?? 0) - (a.known?.ended ?? 0));
    if (members.length) rows.push({ group: name }, ...members.map(({ id }) => ({ id, in: name })));
  }
  return rows;
}

/** The rows in the order that is kept, and how many of them belong elsewhere by now. */
function ordered(key, tasks, scroller) {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  let order = orders.get(key);
  const isSame = order && order.filter((row) => row.id).length === tasks.length && order.every((row) => row.group || byId.has(row.id));
  if (!isSame || !isInUse(scroller)) orders.set(key, (order = sorted(tasks)));
  const counts = Map.groupBy(tasks, groupOf);
  return {
    rows: order.map((row) => (row.group ? { ...row, count: counts.get(row.group)?.length ?? 0 } : byId.get(row.id))),
    changed: order.filter((row) => row.id && groupOf(byId.get(row.id)) !== row.in).length,
  };
}

/** @param {() => ?Element} pane what scrolls */
export function taskList(page, tasks, pane = () => document.querySelector('.pane')) {
  const key = `${page.run.id}/${page.iteration.number}/${page.query.stack}/${page.query.states}`;
  const { rows, changed } = ordered(key, tasks, pane());
  const draw = (row) => (row.group
    ? h('div', { key: `g-${row.group}`, class: 'task-group', role: 'row' }, h('span', { role: 'gridcell' }, words.groups[row.group]), h('span', { role: 'gridcell', class: 'count' }, row.count))
    : taskRow(page, row));
  return [
    changed > 0 && h('div', { class: 'sort-rows', key: 'sort' }, h('button', { class: 'button small', onclick: () => (orders.delete(key), repaint()) }, words.changedRows(changed))),
    h('div', { class: 'task-list', key: 'rows', role: 'treegrid', 'aria-label': words.planLabel, 'aria-rowcount': rows.length },
      rows.length > 120 ? virtual({ rows, height: 48, draw, pane }) : rows.map(draw))];
}

function taskRow(page, task) {
  const isSelected = page.query.task === task.id;
  const note = [task.id, task.agent, task.calls && task.calls.map((call) => call.tool).join(', '), task.state === 'waiting' && task.depends_on?.length && words.after(task.depends_on.join(', '))].filter(Boolean).join(' · ');
  return h('div', { key: task.id, role: 'row' }, h('div', { role: 'gridcell' }, h('button', { class: `task-row ${isSelected ? 'is-selected' : ''} ${task.state}`, 'data-task': task.id, onclick: () => page.select({ task: isSelected ? null : task.id, call: null }, !isSelected) },
    glyph(task.state, words.taskStates[task.state]),
    h('span', { class: 'task-name' }, h('span', { class: 'task-title' }, visible(task.title ?? task.id)), h('span', { class: 'muted cut' }, visible(note))),
    h('span', { class: 'muted figure' }, task.state === 'needs' || task.state === 'asks' ? words.you : taskTime(task.known, task.state)))));
}
