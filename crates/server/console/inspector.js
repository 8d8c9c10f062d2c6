/** The inspector: what waits in the run, or one sub-task: its task, what its agent said, and its calls. */
import { h, repaint } from './view.js';
import { glyph, icon } from './icons.js';
import { requestCard } from './request-card.js';
import { conversation } from './conversation.js';
import { callBlock } from './call-view.js';
import { markdown } from './markdown.js';
import { cost, duration, line, visible } from './format.js';
import { dragInspector, keptInspectorWidth, setInspectorWidth } from './inspector-width.js';
import { taskList } from './plan-list.js';
import { stacksOf, tallyOf } from './stacks.js';
import { tasksOf } from './plan-view.js';
import { followEnd } from './follow-end.js';
import { words } from './words.js';

/** What is open in the selected sub-task, by effect. */
const opened = new Map();
const follower = followEnd();

export function inspector(page) {
  const { run, query } = page;
  const waits = [...run.waiting.values()].sort((a, b) => (a.asked_at ?? 0) - (b.asked_at ?? 0));
  const over = [...run.decided.values()];
  const stack = query.stack && !query.task && iterationStack(page);
  const showsWaits = (waits.length > 0 || over.length > 0) && !query.task && !stack;
  const agent = query.task ? run.agents.get(page.selectedAgent()) : null;
  // A list, and what has ended, are read from their top.
  const talking = query.task ? agent : run.agents.get(1);
  follower.only(() => run.isRunning && Boolean(talking) && !talking.isEnded);
  const subject = showsWaits ? null : stack ? stackSubject(page, stack) : subjectOf(page, agent);
  return h('aside', {
    class: `inspector ${query.task || stack ? 'is-open' : ''}`, 'aria-label': showsWaits ? words.places.Waiting : subject.title, ref: (node) => setInspectorWidth(node.closest('.shell') ?? document.querySelector('.shell'), keptInspectorWidth()),
  },
  h('div', { class: 'drag', 'aria-hidden': 'true', onpointerdown: dragInspector }),
  waits.length > 0 && (query.task || stack) && h('div', { class: 'inspector-tabs' },
    h('button', { class: 'quiet', onclick: () => page.select({ task: null, call: null, stack: null }) }, glyph('needs'), words.places.Waiting, h('span', { class: 'count' }, waits.length)),
    h('span', { class: 'chosen cut' }, visible(query.task ?? stack.title))),
  showsWaits ? waitingCards(page, [...waits, ...over]) : [subject.head, h('div', { class: 'inspector-body', key: query.task ?? stack?.id ?? 'lead', onscroll: stack ? repaint : null, ref: stack ? null : follower.attach }, subject.body), !stack && follower.notice()]);
}

const iterationStack = (page) => page.iteration.plan && stacksOf(page.iteration.plan).find((stack) => stack.id === page.query.stack);

/** The sub-tasks of a stack, in the order of what matters. */
function stackSubject(page, stack) {
  const tasks = tasksOf(page);
  const members = stack.at.map((at) => ({ ...tasks[at], title: stack.parts.get(at) ?? tasks[at].title }));
  return {
    title: visible(stack.title),
    head: h('header', { class: 'inspector-head' },
      h('div', { class: 'inspector-title' }, h('h2', null, visible(stack.title)), h('button', { class: 'quiet icon-button', 'aria-label': words.close, title: `${words.close} (Esc)`, onclick: () => page.select({ stack: null }) }, icon('close'))),
      h('p', { class: 'stack-tally' }, tallyOf(members))),
    body: taskList(page, members, () => document.querySelector('.inspector-body')),
  };
}

function waitingCards(page, items) {
  const { run } = page;
  const goesOn = (page.iteration.plan?.subtasks ?? []).some((subtask) => run.stateOf(page.iteration, subtask) === 'running');
  return [
    h('header', { class: 'inspector-head waits' }, h('h2', null, words.places.Waiting, h('span', { class: 'count' }, run.waiting.size)), goesOn && run.isRunning && h('span', { class: 'muted' }, words.theRestGoesOn)),
    h('div', { class: 'inspector-body cards' }, items.map((item, at) => {
      const subtask = item.subtask ?? run.subtaskOf(run.agentIn(item.effect));
      return requestCard({ run: run.id, state: run.info.state, item: { ...item, subtask }, isFirst: at === 0, dependents: dependentsOf(page.iteration.plan, subtask), onDecided: () => run.load() });
    })),
  ];
}

/** By plan and sub-task, as plans do not change. */
const dependents = new WeakMap();

/** The sub-tasks that cannot start before one has ended, in plan order. */
function dependentsOf(plan, id) {
  if (!plan || !id) return [];
  if (!dependents.has(plan)) dependents.set(plan, new Map());
  const known = dependents.get(plan);
  if (!known.has(id)) known.set(id, findDependents(plan.subtasks, id));
  return known.get(id);
}

function findDependents(subtasks, id) {
  const following = new Map();
  for (const subtask of subtasks) for (const on of subtask.depends_on ?? []) following.set(on, [...(following.get(on) ?? []), subtask.id]);
  const found = new Set();
  const open = [id];
  while (open.length) for (const next of following.get(open.pop()) ?? []) if (!found.has(next)) found.add(next) && open.push(next);
  return subtasks.map((subtask) => subtask.id).filter((one) => found.has(one));
}

function subjectOf(page, agent) {
  const { run, query, iteration } = page;
  const task = iteration.plan?.subtasks.find((subtask) => subtask.id === query.task);
  const subject = agent ?? (task ? null : run.agents.get(1));
  const known = task && iteration.subtasks.get(task.id);
  const state = task ? run.stateOf(iteration, task) : subject?.isEnded ? (subject.failure ? 'failed' : 'succeeded') : run.isRunning ? 'running' : 'cancelled';
  const title = task ? visible(task.title ?? task.id) : subject ? words.roles[subject.role] ?? subject.role : words.inspectorEmpty;
  const facts = subject ? [
    [h('b', null, subject.role), ` a${subject.number}`], subject.model, subject.turn > 0 && words.turn(subject.turn), subject.calls > 0 && words.calls(subject.calls),
    subject.usage?.cost && cost(subject.usage.cost), subject.duration !== undefined && duration(subject.duration),
  ] : [task && words.callsOfPlan, known?.observation && duration(known.observation.duration)];
  return {
    title,
    head: h('header', { class: 'inspector-head' },
      h('div', { class: 'inspector-title' }, glyph(state, words.taskStates[state]), h('h2', null, title), h('button', { class: 'quiet icon-button', 'aria-label': words.close, title: `${words.close} (Esc)`, onclick: () => page.select({ task: null, call: null }) }, icon('close'))),
      h('p', { class: 'inspector-facts' }, facts.filter(Boolean).map((fact, at) => h('span', { key: at }, fact)))),
    body: [
      task?.task && h('details', { class: 'task-details' }, h('summary', null, icon('right'), h('span', { class: 'muted' }, words.task), h('span', { class: 'cut' }, line(task.task, 160))), h('div', { class: 'prose small' }, markdown(task.task))),
      subject ? conversation(page.run, subject, opened) : task ? planCalls(run, iteration, task) : h('p', { class: 'muted' }, words.nothingYet),
      result(known, state),
    ],
  };
}

/** The calls of a sub-task without an agent. */
function planCalls(run, iteration, task) {
  const effects = new Set((iteration.subtasks.get(task.id)?.observation?.finding?.calls ?? []).map((call) => call.effect));
  const started = [...run.calls.values()].filter((call) => effects.has(call.effect) || (call.subtask === task.id && !iteration.subtasks.get(task.id)?.observation));
  const shown = started.length ? started : (task.calls ?? []).map((call, at) => ({ effect: `planned-${at}`, ...call, isPlanned: true }));
  return h('div', { class: 'calls card' }, shown.map((call) => callBlock(call, { opened, run, isAlone: shown.length === 1 })));
}

function result(known, state) {
  const finding = known?.observation?.finding;
  if (!finding) return state === 'waiting' || state === 'ready' ? h('p', { class: 'muted' }, words.notStarted) : null;
  if (finding.kind === 'skipped') return h('p', { class: 'muted' }, finding.because ? words.skippedBecause(finding.because) : words.skippedByGuidance);
  const failure = finding.result?.failure;
  return failure ? h('p', { class: 'notice bad' }, glyph('failed'), h('span', null, failureText(failure))) : null;
}

/** A failure as the journal has it: an object with a kind and its data. */
export function failureText(failure) {
  if (typeof failure === 'string') return visible(failure);
  const { kind, ...data } = failure ?? {};
  const rest = Object.entries(data).map(([name, value]) => (name === 'error' || name === 'message' || name === 'reason' ? value : `${name.replaceAll('_', ' ')} ${typeof value === 'object' ? JSON.stringify(value) : value}`)).join(', ');
  return visible([kind?.replaceAll('_', ' '), rest].filter(Boolean).join(': '));
}

