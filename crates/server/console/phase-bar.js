/** The iteration, its phases and the meters. Acting and Observing are a joined pair, as they overlap. */
import { h } from './view.js';
import { glyph, icon } from './icons.js';
import { clock, cost, duration, tokens } from './format.js';
import { words } from './words.js';

const PHASES = ['planning', 'acting', 'observing', 'reflecting'];

export function phaseBar(page) {
  const { run, iteration } = page;
  const isCurrent = iteration.number === run.iteration;
  const phase = isCurrent ? run.phase : 'complete';
  const at = PHASES.indexOf(phase);
  const started = [...iteration.subtasks.values()];
  const running = started.filter((subtask) => subtask.state === 'running').length;
  const results = started.filter((subtask) => subtask.observation).length;
  const total = iteration.plan?.subtasks.length ?? 0;
  const passed = (name) => (at < 0 ? iteration.phases.some((one) => one.phase === name) || Boolean(iteration.plan && name !== 'reflecting') : PHASES.indexOf(name) < at);
  const stateOf = (name) => {
    const isAsking = name === 'reflecting' && [...run.waiting.values()].some((item) => item.kind === 'question' && !item.agent);
    if (name === phase && isAsking) return 'asks';
    if (run.isRunning && name === phase) return 'running';
    // Others still start while the first results come in.
    if (run.isRunning && name === 'acting' && phase === 'observing' && running) return 'running';
    return passed(name) ? 'succeeded' : 'waiting';
  };
  const note = {
    planning: spent(iteration, 'planning'),
    acting: run.isRunning && isCurrent && running ? words.countRunning(running) : total ? words.countSubtasks(total) : '',
    observing: total && results ? words.ofTotal(results, total) : '',
    reflecting: iteration.reflection ? words.verdicts[iteration.reflection.verdict] ?? '' : '',
  };
  // Numbers that grow move nothing beside them.
  const room = { acting: run.isRunning && note.acting ? words.countRunning(10) : '', observing: run.isRunning ? words.ofTotal(total, total) : '' };
  return h('div', { class: 'phase-bar' },
    iterationMenu(page),
    h('ol', { class: 'phases', 'aria-label': words.phasesLabel }, PHASES.map((name) => {
      const state = stateOf(name);
      const isBlue = state === 'running';
      return h('li', { key: name, class: `phase ${state} ${name === 'observing' ? 'joined' : ''}`, 'aria-current': run.isRunning && name === phase ? 'step' : null },
        glyph(state, words.taskStates[state]), h('span', { class: 'phase-name' }, words.phases[name]), (note[name] || room[name]) && h('span', { class: `phase-note ${isBlue ? 'blue' : ''}`, style: room[name] ? { width: `${room[name].length}ch` } : null }, note[name]));
    })),
    meters(page));
}

/** How long a phase of an iteration took. */
function spent(iteration, name) {
  const at = iteration.phases.findIndex((one) => one.phase === name);
  const end = iteration.phases[at + 1]?.at;
  return at >= 0 && end ? duration(end - iteration.phases[at].at) : '';
}

function iterationMenu(page) {
  const { run, iteration } = page;
  const most = run.info.limits?.max_iterations;
  const text = most ? words.iterationOf(iteration.number, most) : words.iteration(iteration.number);
  if (run.iterations.size < 2) return h('span', { class: 'iteration' }, text);
  return h('details', { class: 'option iteration' }, h('summary', null, text, icon('down')),
    h('div', { class: 'popover' }, [...run.iterations.keys()].map((number) => h('button', { key: number, class: 'quiet', 'aria-current': number === iteration.number ? 'true' : null, onclick: (event) => {
      event.target.closest('details').open = false;
      page.select({ iteration: number === run.iteration ? null : number, task: null });
    } }, words.iteration(number)))));
}

function meters({ run }) {
  const usage = (!run.isRunning && run.report?.usage) || run.usage;
  const limits = run.info.limits ?? {};
  const sent = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const elapsed = run.isRunning ? Date.now() - run.info.created_at : run.report?.duration ?? (run.info.ended_at ?? Date.now()) - run.info.created_at;
  return h('div', { class: `meters ${run.isRunning ? 'is-running' : ''}` },
    !run.isRunning && h('span', { class: 'meter-text' }, h('b', null, usage.model_calls ?? 0), ` ${words.modelCalls}`),
    !run.isRunning && h('span', { class: 'meter-text not-phone tool-calls' }, h('b', null, usage.tool_calls ?? 0), ` ${words.toolCalls}`),
    meter(words.columns.cost, usage.cost ?? 0, run.isRunning && limits.max_cost, cost, run.isRunning),
    meter(words.tokens, sent, run.isRunning && limits.max_tokens, tokens, run.isRunning),
    meter(words.columns.time, elapsed, run.isRunning && limits.timeout, run.isRunning ? clock : duration, run.isRunning));
}

/** A meter where something is limited, a number where nothing is; its name is left out where the number says it. Amber from 80 %. */
function meter(name, value, limit, text, isNamed) {
  const isTokens = name === words.tokens;
  if (!limit) return h('span', { class: 'meter-text', key: name, title: name }, isNamed && h('span', { class: 'muted' }, `${name} `), h('b', null, text(value)), !isNamed && (isTokens ? ` ${name.toLowerCase()}` : h('span', { class: 'hidden-text' }, ` ${name}`)));
  const share = Math.min(1, value / limit);
  const isNear = share >= 0.8;
  return h('div', { class: `meter ${isNear ? 'near' : ''}`, key: name, role: 'meter', 'aria-label': name, 'aria-valuenow': Math.round(value), 'aria-valuemin': 0, 'aria-valuemax': limit, 'aria-valuetext': `${words.ofTotal(text(value), text(limit))}${isNear ? `, ${words.nearlyUsed}` : ''}` },
    h('span', null, h('span', { class: 'muted' }, `${name} `), h('b', null, text(value)), h('span', { class: 'muted' }, ` ${words.of} ${text(limit)}`)),
    h('span', { class: 'meter-track' }, h('span', { class: 'meter-fill', style: { width: `${share * 100}%` } })));
}
