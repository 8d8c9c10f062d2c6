/**
 * A run as the page knows it: the service's snapshot, and what its events add. An event with an id not above the last changes nothing, so each counts once
 * however often a connection is lost.
 */
import { api, followRun } from './api.js';
import { announce } from './announce.js';
import { refresh } from './overview.js';
import { repaint } from './view.js';
import { words } from './words.js';

/** How long a run that nobody looks at is followed, in ms. */
const LINGER = 10_000;

/** @typedef {{id: string, state: string, started?: number, ended?: number, agent?: ?number, observation?: Object}} SubtaskState */

export class RunModel {
  constructor(id) {
    this.id = id;
    this.info = null;
    this.error = null;
    this.events = [];
    this.lastSeq = 0;
    this.lastPart = 0;
    /** Iterations by number, from 1: `{number, plan, subtasks: Map, phases: [], reflection}` */
    this.iterations = new Map();
    this.iteration = 1;
    this.phase = 'idle';
    this.phaseSince = 0;
    this.agents = new Map();
    this.calls = new Map();
    /** Calls and questions that wait, by effect. */
    this.waiting = new Map();
    this.decided = new Map();
    this.usage = { model_calls: 0, tool_calls: 0, input_tokens: 0, output_tokens: 0, cost: 0 };
    this.guidance = [];
    this.diff = null;
    this.isCaughtUp = false;
    this.stream = null;
    this.version = 0;
  }

  get report() {
    return this.info?.report;
  }

  get isRunning() {
    return this.info?.state === 'running';
  }

  /** Whether the run was left by its process, and nobody carries it on. */
  get isStalled() {
    return this.info?.state === 'interrupted';
  }

  /** Loads the snapshot, and follows the events. */
  async open() {
    clearTimeout(this.timer);
    if (document.hidden && this.isPaused) return;
    if (this.stream) return;
    this.stream = { close() {} };
    await this.load();
    this.follow();
  }

  follow() {
    this.stream?.close();
    this.stream = followRun(this.id, {
      after: this.lastSeq ? `${this.lastSeq}.${this.lastPart}` : undefined,
      onEvent: (event, id) => this.take(event, id),
      onDelta: (delta) => this.takeDelta(delta),
      onEnd: () => this.ended(),
    });
  }

  async load() {
    try {
      this.info = await api.run(this.id);
      this.error = null;
      this.takeWaiting(this.report);
      this.takeStates(this.report);
      if ([...this.waiting.values()].some((item) => item.kind === 'approval' && !item.isDetailed)) this.detail();
    } catch (error) {
      this.error = error;
    }
    this.changed();
  }

  /** Stops following after a while, as browsers allow six connections to a host. */
  leave() {
    this.timer = setTimeout(() => {
      this.stream?.close();
      this.stream = null;
    }, LINGER);
  }

  async ended() {
    this.stream?.close();
    this.stream = null;
    this.isCaughtUp = true;
    await this.load();
    // A run that was resumed meanwhile has a new stream.
    if (this.isRunning) setTimeout(() => this.open(), 1000);
    refresh();
  }

  changed() {
    this.version++;
    repaint();
  }

  take(event, id) {
    const [seq, part] = id.split('.').map(Number);
    if (seq < this.lastSeq || (seq === this.lastSeq && part <= this.lastPart)) return;
    [this.lastSeq, this.lastPart] = [seq, part];
    this.events.push(event);
    HANDLERS[event.event]?.call(this, event);
    this.changed();
  }

  /** A piece of a reply that is being written. Pieces that were missed leave a gap until the reply is complete. */
  takeDelta({ agent, turn, start, text }) {
    const of = this.agentOf(agent);
    if (!of.writing || of.writing.turn !== turn || start === 0) of.writing = { turn, text: '', bytes: 0 };
    if (start > of.writing.bytes) of.writing.text += ' … ';
    of.writing.text += text;
    of.writing.bytes = start + new TextEncoder().encode(text).length;
    this.changed();
  }

  agentOf(number) {
    let agent = this.agents.get(number);
    if (!agent) this.agents.set(number, (agent = { number, role: '', items: [], calls: 0, turn: 0, usage: null, started: 0, iteration: this.iteration }));
    return agent;
  }

  /** The agent that a scope such as `a3` names, `null` for the run itself. */
  agentIn(scope) {
    const match = /^a(\d+)/.exec(scope ?? '');
    return match ? this.agentOf(Number(match[1])) : null;
  }

  current() {
    return this.iterationOf(this.iteration);
  }

  iterationOf(number) {
    let iteration = this.iterations.get(number);
    if (!iteration) this.iterations.set(number, (iteration = { number, plan: null, subtasks: new Map(), phases: [], reflection: null }));
    return iteration;
  }

  /** Adds what the report says is waiting: it knows the sub-task, and who depends on it. */
  takeWaiting(report) {
    if (!report) return;
    const now = new Set();
    for (const approval of report.waiting ?? []) {
      now.add(approval.effect);
      this.waiting.set(approval.effect, { kind: 'approval', ...this.waiting.get(approval.effect), ...approval });
    }
    for (const question of report.questions ?? []) {
      if (!question.effect) continue;
      now.add(question.effect);
      this.waiting.set(question.effect, { kind: 'question', ...this.waiting.get(question.effect), ...question });
    }
    for (const effect of this.waiting.keys()) if (!now.has(effect) && this.info.seq >= (this.waiting.get(effect).seq ?? 0)) this.waiting.delete(effect);
  }

  /** The states that the service gives are right; those from events may be less exact. */
  takeStates(report) {
    for (const given of report?.iterations ?? []) {
      const iteration = this.iterationOf(given.iteration);
      this.takePlan(iteration, given.plan);
      (given.plan?.subtasks ?? []).forEach((subtask, at) => {
        const known = iteration.subtasks.get(subtask.id);
        if (known && given.states?.[at]) known.state = given.states[at];
      });
      for (const observation of given.observations ?? []) this.observe(iteration, observation);
      iteration.reflection ??= given.reflection ?? null;
      this.iteration = Math.max(this.iteration, given.iteration);
    }
    if (report?.phase) this.phase = report.phase;
  }

  takePlan(iteration, plan) {
    if (!plan?.subtasks || iteration.plan) return;
    iteration.plan = plan;
    for (const subtask of plan.subtasks) if (!iteration.subtasks.has(subtask.id)) iteration.subtasks.set(subtask.id, { id: subtask.id, state: 'waiting' });
  }

  observe(iteration, observation) {
    const known = iteration.subtasks.get(observation.subtask) ?? { id: observation.subtask };
    known.observation = observation;
    const { finding } = observation;
    if (finding?.kind === 'agent') {
      known.agent = finding.agent;
      this.agentOf(finding.agent).subtask ??= observation.subtask;
      for (const call of finding.work?.calls ?? []) this.addResult(call.effect, call.tool, call.parameters, { success: call.success, output: call.output, error: call.error, duration: call.duration });
    }
    for (const call of finding?.kind === 'calls' ? finding.calls : []) {
      const { outcome, output, error, message } = call.result ?? {};
      this.addResult(call.effect, call.call?.tool, call.call?.parameters, { success: outcome === 'success', output: output ?? (typeof error === 'string' ? error : message), duration: call.result?.duration, changes: call.result?.changes, subtask: observation.subtask });
    }
    if (observation.subtask === 'lead' && !iteration.plan) iteration.lead = known;
  }

  addResult(effect, tool, parameters, result) {
    if (!effect) return;
    const call = this.callOf(effect, tool, parameters);
    for (const name in result) if (result[name] !== undefined && (call[name] === undefined || name === 'output' || name === 'subtask')) call[name] = result[name];
  }

  callOf(effect, tool, parameters) {
    let call = this.calls.get(effect);
    if (!call) this.calls.set(effect, (call = { effect, tool, parameters }));
    return call;
  }

  /** Loads the output of a call that has ended: events do not have it before their sub-task has ended, and may shorten it. */
  async loadOutput(call) {
    if (call.isOutputAsked) return;
    call.isOutputAsked = true;
    const text = await api.output(this.id, call.effect).then((output) => output.text, () => '');
    call.output ??= text;
    this.changed();
  }

  /** The sub-task that an agent works for, directly or for an agent that called it. */
  subtaskOf(agent) {
    for (let at = agent, steps = 0; at && steps < 20; at = at.caller && this.agentIn(at.caller), steps++) if (at.subtask) return at.subtask;
    return null;
  }

  /** The state of a sub-task as the page shows it, which also says that it needs the user. @returns {string} */
  stateOf(iteration, subtask) {
    const known = iteration.subtasks.get(subtask.id);
    const state = known?.state ?? 'waiting';
    if (state === 'running' || state === 'waiting') {
      const asks = this.waitsFor(iteration, subtask.id);
      if (asks) return asks.kind === 'question' ? 'asks' : 'needs';
    }
    if (state === 'waiting' && iteration.number === this.iteration && (subtask.depends_on ?? []).every((id) => iteration.subtasks.get(id)?.state === 'succeeded')) return 'ready';
    return state;
  }

  waitsFor(iteration, id) {
    if (iteration.number !== this.iteration) return undefined;
    return [...this.waiting.values()].find((item) => (item.subtask ?? this.subtaskOf(this.agentIn(item.effect))) === id);
  }
}

const isSuccess = (finding) => (finding.kind === 'agent' ? finding.result?.answer !== undefined : finding.kind === 'calls' && finding.calls.every((call) => call.result?.outcome === 'success'));

/** What each event changes. `this` is the run. */
const HANDLERS = {
  phase_changed({ to, iteration, at }) {
    this.iteration = Math.max(this.iteration, iteration);
    this.phase = to;
    this.phaseSince = at;
    this.iterationOf(iteration).phases.push({ phase: to, at });
  },
  plan_made({ plan }) {
    // A second plan in one iteration replaces the first.
    const iteration = this.current();
    if (iteration.plan && JSON.stringify(iteration.plan) !== JSON.stringify(plan)) {
      iteration.plan = null;
      iteration.subtasks = new Map();
    }
    this.takePlan(iteration, plan);
  },
  subtask_started({ subtask, agent, at }) {
    const known = this.current().subtasks.get(subtask) ?? { id: subtask };
    this.current().subtasks.set(subtask, known);
    known.started = at;
    known.agent = agent;
    if (!known.observation) known.state = 'running';
    if (agent !== null) this.agentOf(agent).subtask = subtask;
  },
  subtask_finished({ observation, at }) {
    const iteration = this.current();
    this.observe(iteration, observation);
    const known = iteration.subtasks.get(observation.subtask);
    if (!known) return;
    known.ended = at;
    const { finding } = observation;
    known.state = finding.kind === 'skipped' ? 'skipped' : isSuccess(finding) ? 'succeeded' : 'failed';
    const done = [...iteration.subtasks.values()].filter((one) => one.observation).length;
    if (this.isCaughtUp || Date.now() - at < 5000) announce.soon(words.subtaskDone(observation.subtask, words.taskStates[known.state], done, iteration.subtasks.size));
  },
  agent_started({ scope, role, caller, at }) {
    const agent = this.agentIn(scope);
    agent.role = typeof role === 'string' ? role : role.sub;
    agent.isSub = typeof role !== 'string';
    agent.caller = caller;
    agent.started = at;
    agent.iteration = this.iteration;
    if (agent.role === 'reflector') this.current().reflector = agent.number;
  },
  agent_finished({ scope, failure, usage, duration }) {
    const agent = this.agentIn(scope);
    Object.assign(agent, { failure, usage, duration, isEnded: true, writing: null });
  },
  model_replied({ scope, turn, content, model, usage, seq }) {
    const agent = this.agentIn(scope);
    agent.turn = turn;
    agent.model = model;
    agent.writing = null;
    agent.items.push({ kind: 'reply', content, turn, seq });
    for (const name in usage) this.usage[name] = (this.usage[name] ?? 0) + usage[name];
  },
  model_failed({ scope, error, seq }) {
    this.agentIn(scope)?.items.push({ kind: 'error', error, seq });
  },
  tool_started({ scope, effect, tool, parameters, subtask, at, seq }) {
    const call = this.callOf(effect, tool, parameters);
    Object.assign(call, { parameters, started: at, seq });
    const agent = this.agentIn(scope);
    if (agent) {
      agent.items.push({ kind: 'call', effect, seq });
      agent.calls++;
    } else {
      call.subtask = subtask;
    }
  },
  tool_finished({ effect, tool, success, code, error, duration, changes, metadata }) {
    Object.assign(this.callOf(effect, tool), { success, code, error, duration, changes, metadata });
    this.usage.tool_calls++;
    if (changes?.some((change) => /^file_|files/.test(change.change) || change.files)) this.diff = null;
  },
  tool_refused({ scope, tool, parameters, error, seq }) {
    this.agentIn(scope)?.items.push({ kind: 'refused', tool, parameters, error, seq });
  },
  approval_asked({ approval, seq }) {
    this.waiting.set(approval.effect, { ...this.waiting.get(approval.effect), kind: 'approval', seq, ...approval });
    if (Date.now() - approval.asked_at < 5000) this.detail();
  },
  approval_decided({ effect, answer, seq }) {
    this.decide(effect, answer, seq);
  },
  approval_expired({ effect, seq }) {
    this.decide(effect, 'expired', seq);
  },
  question_asked({ effect, agent, question, choices, at, seq }) {
    this.waiting.set(effect, { kind: 'question', effect, agent, question, choices: choices ?? [], asked_at: at, seq, ...this.waiting.get(effect) });
    if (Date.now() - at < 5000) refresh();
  },
  question_answered({ effect, answer, seq }) {
    this.decide(effect, 'answered', seq);
    this.agentIn(effect)?.items.push({ kind: 'answer', answer, seq });
  },
  question_expired({ effect, seq }) {
    this.decide(effect, 'expired', seq);
  },
  reflected({ verdict, summary, question, choices, confirmed_by }) {
    this.current().reflection = { verdict, summary, question, choices, confirmed_by };
  },
  guided({ guidance, immediate, scope, seq, at }) {
    this.guidance.push({ guidance, immediate, iteration: this.iteration, at });
    this.agentIn(scope)?.items.push({ kind: 'guidance', guidance, seq });
  },
  run_finished({ reason, summary }) {
    this.finish = { reason: typeof reason === 'string' ? reason : reason?.reason, summary };
    for (const agent of this.agents.values()) agent.writing = null;
  },
  resumed() {
    this.finish = null;
  },
};

Object.assign(RunModel.prototype, {
  decide(effect, answer, seq) {
    const item = this.waiting.get(effect);
    // A decision of before, read again from the journal, does not concern a call that waits anew.
    if (!item || (item.seq && item.seq > seq)) return;
    this.waiting.delete(effect);
    this.decided.set(effect, { ...item, decision: answer, decidedAt: Date.now() });
    setTimeout(() => {
      this.decided.delete(effect);
      this.changed();
    }, 3000);
    refresh();
  },
  /** Asks what the event does not say: the sub-task, its dependents, and the rules that would allow the call. */
  async detail() {
    refresh();
    try {
      const { approvals } = await api.waitingOf(this.id);
      for (const approval of approvals) {
        const known = this.waiting.get(approval.effect);
        if (known) Object.assign(known, approval, { isDetailed: true });
      }
      this.changed();
    } catch {
      // The card shows what the event said.
    }
  },
});

let background = 0;

// A tab in the background has no stream after a while, and goes on after its last event when it is shown again.
document.addEventListener('visibilitychange', () => {
  clearTimeout(background);
  if (document.hidden) {
    background = setTimeout(() => models.forEach((model) => {
      model.isPaused = Boolean(model.stream);
      model.stream?.close();
      model.stream = null;
    }), LINGER);
  } else {
    models.forEach((model) => {
      if (model.isPaused) model.open();
      model.isPaused = false;
    });
  }
});

/** Runs that were looked at last, so that going back shows them at once. */
const models = new Map();

/** The model of a run; the 8 used last stay in memory. */
export function runModel(id) {
  let model = models.get(id);
  if (model) models.delete(id);
  else model = new RunModel(id);
  models.set(id, model);
  if (models.size > 8) models.delete(models.keys().next().value);
  return model;
}
