/** The plan as a list by state, virtualised when it is long: what readers get, and phones. */
import { h } from './view.js';
import { glyph } from './icons.js';
import { taskTime } from './graph.js';
import { virtual } from './virtual.js';
import { visible } from './format.js';
import { words } from './words.js';

/** Groups in the order of what matters. Those that are done come newest first. */
const GROUPS = [['needs', ['needs', 'asks']], ['failed', ['failed']], ['running', ['running']], ['succeeded', ['succeeded']], ['waiting', ['ready', 'waiting']], ['skipped', ['skipped', 'cancelled']]];

/** @param {() => ?Element} pane what scrolls */
export function taskList(page, tasks, pane = () => document.querySelector('.pane')) {
  const rows = [];
  for (const [name, states] of GROUPS) {
    const members = tasks.filter((task) => states.includes(task.state));
    if (!members.length) continue;
    if (name === 'succeeded') members.sort((a, b) => (b.known?.ended ?? 0) - (a.known?.ended ?? 0));
    rows.push({ group: name, count: members.length }, ...members);
  }
  const draw = (row) => (row.group
    ? h('div', { key: `g-${row.group}`, class: 'task-group', role: 'row' }, h('span', { role: 'gridcell' }, words.groups[row.group]), h('span', { role: 'gridcell', class: 'count' }, row.count))
    : taskRow(page, row));
  return h('div', { class: 'task-list', role: 'treegrid', 'aria-label': words.planLabel, 'aria-rowcount': rows.length },
    rows.length > 120 ? virtual({ rows, height: 48, draw, pane }) : rows.map(draw));
}

function taskRow(page, task) {
  const isSelected = page.query.task === task.id;
  const note = [task.id, task.agent, task.calls && task.calls.map((call) => call.tool).join(', '), task.state === 'waiting' && task.depends_on?.length && words.after(task.depends_on.join(', '))].filter(Boolean).join(' · ');
  return h('div', { key: task.id, role: 'row' }, h('div', { role: 'gridcell' }, h('button', { class: `task-row ${isSelected ? 'is-selected' : ''} ${task.state}`, 'data-task': task.id, onclick: () => page.select({ task: isSelected ? null : task.id, call: null }, !isSelected) },
    glyph(task.state, words.taskStates[task.state]),
    h('span', { class: 'task-name' }, h('span', { class: 'task-title' }, visible(task.title ?? task.id)), h('span', { class: 'muted cut' }, visible(note))),
    h('span', { class: 'muted figure' }, task.state === 'needs' || task.state === 'asks' ? words.you : taskTime(task.known, task.state)))));
}
