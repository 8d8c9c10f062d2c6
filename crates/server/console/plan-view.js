/** The tab Plan: the graph or the list of an iteration's sub-tasks, the tally above it, and the reflection below. */
import { h } from './view.js';
import { glyph } from './icons.js';
import { graph, graphNeighbour } from './graph.js';
import { stackView } from './stacks.js';
import { taskList } from './plan-list.js';
import { ORDER } from './states.js';
import { inline } from './markdown.js';
import { line } from './format.js';
import { words } from './words.js';

/** From so many sub-tasks on, alike ones are stacked. */
export const STACK_FROM = 150;

const isPhone = () => innerWidth < 600;
export const isList = (page) => (page.query.view ?? (isPhone() ? 'list' : 'graph')) === 'list';

/** The plan's sub-tasks with their states. */
export const tasksOf = ({ run, iteration }) => (iteration.plan?.subtasks ?? []).map((subtask) => ({ ...subtask, state: run.stateOf(iteration, subtask), known: iteration.subtasks.get(subtask.id) }));

export function planView(page) {
  const { run, iteration } = page;
  if (!iteration.plan) return noPlan(page);
  const tasks = tasksOf(page);
  const filter = page.query.states;
  return h('div', { class: 'plan', key: `iteration-${iteration.number}` },
    iteration.plan.summary && h('p', { class: 'plan-summary' }, inline(line(iteration.plan.summary, 600))),
    !tasks.length ? null : isList(page) ? taskList(page, filter ? tasks.filter((task) => shown(task.state) === filter) : tasks)
      : tasks.length >= STACK_FROM ? stackView(page, tasks) : graph(page, tasks, filter),
    reflection(page, run));
}

/** The two states that need the user count as one. */
const shown = (state) => (state === 'asks' ? 'needs' : state);

/** The tally, each of which filters, and Graph or List. */
planView.tools = (page) => {
  const counts = new Map();
  for (const { state } of tasksOf(page)) counts.set(shown(state), (counts.get(shown(state)) ?? 0) + 1);
  return h('div', { class: 'plan-tools' },
    h('div', { class: `tally ${counts.size > 3 ? 'is-tight' : ''}`, role: 'group', 'aria-label': words.tally }, ORDER.filter((state) => counts.has(state)).map((state) =>
      h('button', { key: state, class: 'quiet small', 'aria-pressed': String(page.query.states === state), title: words.taskStates[state], onclick: () => page.select({ states: page.query.states === state ? null : state }) },
        glyph(state), `${counts.get(state)}`, h('span', { class: 'tally-word' }, ` ${words.tallyWords[state]}`)))),
    h('div', { class: 'segments not-phone', role: 'group', 'aria-label': words.views },
      ['graph', 'list'].map((view) => h('button', { key: view, 'aria-pressed': String(isList(page) === (view === 'list')), onclick: () => page.select({ view: view === 'graph' ? null : view }) }, words.planViews[view]))));
};

const noPlan = ({ run }) => h('div', { class: 'no-plan' }, h('p', { class: 'muted' }, run.isRunning ? words.noPlanYet : words.neverPlanned));

function reflection(page) {
  const { iteration } = page;
  const { reflection: said } = iteration;
  if (!said && !iteration.reflector) return null;
  const isOn = page.query.task === `agent-${iteration.reflector}`;
  return h('button', { class: `reflection ${isOn ? 'is-selected' : ''}`, key: 'reflection', disabled: !iteration.reflector, onclick: () => page.select({ task: isOn ? null : `agent-${iteration.reflector}` }, true) },
    glyph(!said ? 'running' : said.verdict === 'failed' ? 'failed' : said.verdict === 'ask_user' ? 'asks' : 'succeeded'),
    h('b', null, words.reflection), said && h('span', { class: 'muted' }, words.verdicts[said.verdict] ?? said.verdict), said && h('span', { class: 'cut grow-text' }, line(said.summary, 200)));
}

/** The keys of the plan: neighbours, open and close, graph or list. */
export function planKey(page, event) {
  const tasks = page.iteration.plan?.subtasks ?? [];
  if (!tasks.length) return false;
  const key = event.key.toLowerCase();
  const at = tasks.findIndex((task) => task.id === page.query.task);
  if (key === 'l') {
    page.select({ view: isList(page) ? (isPhone() ? 'graph' : null) : 'list' });
    return true;
  }
  if (key === 'j' || key === 'k') {
    const next = tasks[Math.max(0, Math.min(tasks.length - 1, at < 0 ? 0 : at + (key === 'j' ? 1 : -1)))];
    page.select({ task: next.id, call: null });
    focusTask(next.id);
    return true;
  }
  if (event.key.startsWith('Arrow') && event.target.closest?.('.node, .task-row')) {
    const from = event.target.closest('[data-task]').dataset.task;
    const next = graphNeighbour(page, from, event.key.slice(5).toLowerCase());
    if (next) focusTask(next);
    return Boolean(next);
  }
  return false;
}

export const focusTask = (id) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const node = document.querySelector(`[data-task="${CSS.escape(id)}"]`);
  node?.focus({ preventScroll: true });
  node?.scrollIntoView({ block: 'nearest' });
}));
