/** `/chats/ID`: a conversation. Each turn is a run; the last is followed while it works. */
import { h, memo, repaint } from '../view.js';
import { href, open } from '../router.js';
import { api } from '../api.js';
import { failure, head, loading } from '../shell.js';
import { glyph, icon } from '../icons.js';
import { markdown } from '../markdown.js';
import { runModel } from '../run-model.js';
import { requestCard } from '../request-card.js';
import { conversation } from '../conversation.js';
import { prose } from '../tool-text.js';
import { followEnd } from '../follow-end.js';
import { slashMenu } from '../slash-menu.js';
import { cost, duration, folder, line, tokens, visible } from '../format.js';
import { words } from '../words.js';

/** Turns that are shown; earlier ones on demand. */
const TURNS = 50;

export class Chat {
  constructor(id) {
    this.id = id;
    this.value = null;
    this.error = null;
    this.text = '';
    this.said = null;
    this.sendError = null;
    this.note = null;
    this.turns = TURNS;
    this.openTurns = new Set();
    this.opened = new Map();
    this.follower = followEnd();
    this.menu = slashMenu({ onChoose: (workflow) => open(href(`/workflows/${workflow.name}`)) });
    this.load();
  }

  leave() {
    clearTimeout(this.timer);
    this.isLeft = true;
    this.run?.leave();
  }

  async load() {
    try {
      this.value = await api.conversation(this.id, { turns: this.turns });
      this.error = null;
      const last = this.value.messages?.at(-1);
      // The last turn's run is followed; a finished one ends by itself.
      if (last?.run && this.run?.id !== last.run) {
        this.run?.leave();
        this.run = runModel(last.run);
        this.run.open();
      }
      if (this.said && this.value.turns > this.said.turns) this.said = null;
    } catch (error) {
      this.error = error;
    }
    repaint();
  }

  get isWorking() {
    return Boolean(this.run?.isRunning);
  }

  view() {
    const { value } = this;
    const title = value ? line(value.title, 160) || words.untitled : words.chat;
    if (!value) return { title, main: [head(title), h('div', { class: 'page', id: 'main', tabindex: -1 }, this.error ? failure(this.error, () => this.load()) : loading())], aside: null };
    this.noticeEnd();
    return {
      title,
      main: [
        h('header', { class: 'page-head' }, h('a', { href: '/chats', class: 'muted phone-only', 'aria-label': words.places.Chats }, icon('left')), h('h1', { class: 'page-title cut' }, title), h('span', { class: 'grow' }),
          h('span', { class: 'muted not-phone', title: value.workspace }, icon('folder'), folder(value.workspace)), h('span', { class: 'muted not-phone' }, value.settings?.model ?? words.defaultModel), h('span', { class: 'muted not-phone' }, this.spent(value.usage))),
        h('div', { class: 'pane chat-pane', id: 'main', tabindex: -1, ref: this.follower.attach }, h('div', { class: 'chat' },
          value.turns > (value.messages?.length ?? 0) && h('button', { class: 'quiet', onclick: () => ((this.turns += TURNS), this.load()) }, words.showEarlier(value.turns - value.messages.length)),
          (value.messages ?? []).map((turn, at) => this.turn(turn, at === value.messages.length - 1)),
          this.said && h('p', { class: 'said-by-user', key: 'said' }, visible(this.said.text)),
          this.note && h('div', { class: 'prose', key: 'note' }, markdown(this.note)),
          !value.messages?.length && !this.said && h('p', { class: 'muted' }, words.chatEmpty))),
        this.follower.notice(),
        this.composer(),
      ],
      aside: null,
    };
  }

  /** A turn that ended while it was followed is loaded again, for its report. */
  noticeEnd() {
    const last = this.value.messages?.at(-1);
    if (last && this.run?.id === last.run && this.run.finish && !this.run.isRunning && this.endedOf !== `${last.run}/${this.run.lastSeq}`) {
      this.endedOf = `${last.run}/${this.run.lastSeq}`;
      this.load();
    }
  }

  spent(usage) {
    if (!usage) return '';
    return [words.tokenCount(tokens((usage.input_tokens ?? 0) + (usage.output_tokens ?? 0))), usage.cost && cost(usage.cost)].filter(Boolean).join(' · ');
  }

  turn(turn, isLast) {
    const run = isLast && this.run?.id === turn.run ? this.run : null;
    const report = (!run?.isRunning && run?.report) || turn.report;
    return h('section', { class: 'turn', key: `turn-${turn.turn}`, 'aria-label': words.turnLabel(turn.turn) },
      h('p', { class: 'said-by-user' }, visible(turn.message)),
      this.work(turn, run, report),
      run?.isRunning ? this.writing(run) : this.answer(turn, report),
      run && this.waiting(run));
  }

  /** Calls fold into one line; a plan is a card that opens the run. */
  work(turn, run, report) {
    const plan = run ? run.current().plan : report?.iterations?.at(-1)?.plan;
    const calls = report?.usage?.tool_calls ?? run?.usage.tool_calls ?? 0;
    const running = Boolean(run?.isRunning);
    if (plan) return this.planCard(turn, run, plan, report);
    if (!calls && !running) return null;
    const isOpen = this.openTurns.has(turn.turn);
    const lead = run?.agents.get(1);
    return h('div', { class: 'turn-work' },
      h('button', { class: 'quiet turn-fold', 'aria-expanded': String(isOpen), onclick: () => this.toggle(turn) }, icon(isOpen ? 'down' : 'right'), glyph(running ? 'running' : 'succeeded'), h('span', null, words.calls(calls)), report?.duration && !running ? h('span', { class: 'muted' }, duration(report.duration)) : null),
      isOpen && (lead ? conversation(run, lead, this.opened) : h('a', { href: `/runs/${turn.run}` }, words.openRun)));
  }

  toggle(turn) {
    if (this.openTurns.has(turn.turn)) this.openTurns.delete(turn.turn);
    else this.openTurns.add(turn.turn);
    repaint();
  }

  planCard(turn, run, plan, report) {
    const iteration = run?.current();
    const states = report?.iterations?.at(-1)?.states;
    const stateOf = (subtask, at) => (iteration ? run.stateOf(iteration, subtask) : states?.[at] ?? 'waiting');
    const all = plan.subtasks.map((subtask, at) => ({ subtask, state: stateOf(subtask, at) }));
    const done = all.filter(({ state }) => state === 'succeeded').length;
    return h('a', { class: 'card plan-link', href: `/runs/${turn.run}?tab=plan` },
      h('span', { class: 'plan-link-head' }, glyph(run?.isRunning ? 'running' : done === all.length ? 'succeeded' : 'failed'), h('b', { class: 'cut' }, line(plan.summary ?? turn.message, 120)), h('span', { class: 'muted' }, [words.ofTotal(done, all.length), report?.duration && duration(report.duration)].filter(Boolean).join(' · ')), icon('right')),
      h('span', { class: 'segments-bar', 'aria-hidden': 'true' }, all.slice(0, 40).map(({ subtask, state }) => h('span', { key: subtask.id, class: `segment ${state}` }))),
      all.length <= 8 && h('span', { class: 'plan-link-tasks' }, all.map(({ subtask, state }) => h('span', { key: subtask.id, class: 'cut' }, glyph(state, words.taskStates[state]), ' ', visible(subtask.id)))));
  }

  writing(run) {
    const lead = [...run.agents.values()].find((agent) => agent.writing && !agent.isSub);
    return h('div', { class: 'prose', key: 'writing', 'aria-busy': 'true' }, lead ? markdown(prose(lead.writing.text)) : h('p', { class: 'muted' }, words.phases[run.phase] ?? words.thinking), lead && h('span', { class: 'caret', 'aria-hidden': 'true' }));
  }

  answer(turn, report) {
    if (!report) return null;
    const text = report.answer ?? report.summary;
    const reason = typeof report.reason === 'string' ? report.reason : Object.keys(report.reason ?? {})[0];
    return [
      text && h('div', { class: 'prose', key: 'answer' }, memo(`answer/${turn.run}`, [text], () => h('div', null, markdown(text)))),
      reason && reason !== 'goal_achieved' && h('p', { class: 'muted turn-end', key: 'end' }, glyph(reason === 'failed' ? 'failed' : 'cancelled'), ' ', words.states[reason] ?? visible(reason)),
      report.changed?.length > 0 && h('p', { class: 'muted', key: 'files' }, h('a', { href: `/runs/${turn.run}?tab=changes` }, words.changedFiles(report.changed.length)))];
  }

  waiting(run) {
    const items = [...run.waiting.values()];
    return items.length > 0 && h('div', { class: 'cards' }, items.map((item, at) => requestCard({ run: run.id, state: run.info?.state, item, conversation: this.id, isFirst: at === 0, onDecided: () => this.goOn() })));
  }

  /** A turn that had stopped has new events after a decision. */
  async goOn() {
    await this.run.load();
    if (!this.run.stream) this.run.open();
  }

  composer() {
    const keydown = (event) => {
      if (this.menu.key(event, this.text)) return;
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) this.send(event);
    };
    return h('form', { class: 'composer chat-composer', 'aria-label': words.message, onsubmit: (event) => this.send(event) },
      this.menu.view(this.text),
      h('label', { class: 'hidden-text', for: 'composer' }, words.message),
      h('textarea', { id: 'composer', rows: Math.min(8, this.text.split('\n').length), placeholder: words.message, value: this.text, onkeydown: keydown, oninput: (event) => ((this.text = event.target.value), repaint()), ...this.menu.fieldProps(this.text) }),
      this.sendError && h('p', { class: 'field-error', role: 'alert' }, this.sendError),
      h('div', { class: 'composer-row' },
        h('span', { class: 'muted cut grow' }, this.isWorking ? words.guidanceWhileWorking : words.enterSends),
        this.isWorking && h('button', { class: 'button', type: 'button', onclick: () => this.stop() }, words.stop, h('kbd', { 'aria-hidden': 'true' }, 'Esc')),
        h('button', { class: 'button primary icon-button', type: 'submit', 'aria-label': words.send, disabled: !this.text.trim() || this.isSending }, icon('up'))));
  }

  async send(event) {
    event?.preventDefault();
    const text = this.text.trim();
    if (!text || this.isSending) return;
    this.isSending = true;
    this.sendError = null;
    this.note = null;
    this.said = { text, turns: this.value.turns };
    this.text = '';
    repaint();
    try {
      const sent = await api.say(this.id, { message: text });
      if (sent.answer && sent.state !== 'turn') this.note = sent.answer;
      if (sent.state === 'accepted' || sent.state === 'pending') this.note = words.sent;
      await this.load();
      this.said = null;
      // A turn that goes on has new events in the same run.
      if (this.run && !this.run.stream) this.run.open();
    } catch (error) {
      // Words that were not taken stay in the field.
      this.text = text;
      this.said = null;
      this.sendError = error.message;
    }
    this.isSending = false;
    repaint();
  }

  async stop() {
    try {
      await api.stopTurn(this.id);
    } catch (error) {
      this.sendError = error.message;
    }
    repaint();
  }

  key(event) {
    if (event.key === 'Escape' && this.isWorking && !event.target.closest?.('article.request')) {
      this.stop();
      return true;
    }
    return false;
  }
}
