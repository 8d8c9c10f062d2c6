/** `/runs/ID`: head, phases, the tabs, and the inspector. Each selection is in the address. */
import { h, repaint } from '../view.js';
import { address, href, open, replace } from '../router.js';
import { api } from '../api.js';
import { failure, head, loading } from '../shell.js';
import { glyph, icon } from '../icons.js';
import { runModel } from '../run-model.js';
import { runState } from '../states.js';
import { overview, refresh } from '../overview.js';
import { line, shortId } from '../format.js';
import { phaseBar } from '../phase-bar.js';
import { planView, planKey } from '../plan-view.js';
import { Changes } from '../changes.js';
import { summary } from '../summary.js';
import { Journal } from '../journal.js';
import { inspector } from '../inspector.js';
import { GuidanceComposer } from '../guidance-composer.js';
import { hasSingleKeys } from '../keys.js';
import { words } from '../words.js';

export class Run {
  constructor(id) {
    this.id = id;
    this.run = runModel(id);
    this.run.open();
    this.changes = new Changes(this.run);
    this.journal = new Journal(this.run);
    this.composer = new GuidanceComposer(this.run, () => this.selectedAgent());
    this.actionError = null;
    this.asks = null;
  }

  leave() {
    this.run.leave();
  }

  get query() {
    return address().query;
  }

  /** The iteration on the screen: the newest, unless the address names another. */
  get iteration() {
    const number = Number(this.query.iteration);
    return this.run.iterations.get(number) ?? this.run.iterationOf(this.run.iteration);
  }

  tab() {
    const { tab } = this.query;
    const isOver = this.run.info && !this.run.isRunning;
    const allowed = isOver ? ['summary', 'plan', 'changes', 'journal'] : ['plan', 'changes', 'journal', 'summary'];
    return allowed.includes(tab) ? tab : allowed[0];
  }

  select(values, push = false) {
    (push ? open : replace)(href(location.pathname, { ...this.query, ...values }));
  }

  selectedAgent() {
    const { task } = this.query;
    if (!task) return null;
    if (task === 'lead') return 1;
    if (/^agent-\d+$/.test(task)) return Number(task.slice(6));
    return this.iteration.subtasks.get(task)?.agent ?? null;
  }

  view() {
    const { run } = this;
    if (run.info?.state !== undefined) this.followAgain();
    const goal = line(run.info?.goal ?? '', 300);
    const title = goal || words.run;
    if (run.error && !run.info) return { title: words.run, main: [head(words.run), h('div', { class: 'page', id: 'main', tabindex: -1 }, failure(run.error, () => run.load()))], aside: null };
    if (!run.info) return { title, main: [head(words.run), h('div', { class: 'page', id: 'main', tabindex: -1 }, loading())], aside: null };
    const tab = this.tab();
    const aside = this.inspectorOpen(tab) ? inspector(this) : null;
    return {
      title,
      main: [
        h('div', { class: 'run-top' }, this.head(goal), this.notice(), phaseBar(this)),
        h('div', { class: 'run-body' },
          this.tabs(tab),
          h('div', { class: `pane pane-${tab}`, id: 'main', tabindex: -1, key: tab, role: 'tabpanel', 'aria-labelledby': `tab-${tab}`, onscroll: repaint, ref: (node) => observeSize(node) },
            tab === 'plan' ? planView(this) : tab === 'summary' ? summary(this) : tab === 'changes' ? h('div', { class: 'page' }, this.changes.view()) : this.journal.view()),
          this.run.isRunning || run.isStalled || run.info.state === 'user_required' ? this.composer.view() : null),
      ],
      aside,
    };
  }

  /** A run that was carried on elsewhere has events again. */
  followAgain() {
    const listed = overview.runs.find((one) => one.run === this.run.info.run);
    if (listed?.state === 'running' && !this.run.isRunning && !this.run.stream) this.run.open();
  }

  inspectorOpen(tab) {
    if (tab === 'journal' && !this.query.task) return false;
    if (this.query.task || this.query.stack) return true;
    if (this.run.waiting.size && this.run.info.state !== 'cancelled') return true;
    return tab === 'plan' && this.run.isRunning && !this.iteration.plan;
  }

  head(goal) {
    const { run } = this;
    const waits = { approvals: [...run.waiting.values()].filter((item) => item.kind === 'approval'), questions: [...run.waiting.values()].filter((item) => item.kind === 'question') };
    const state = runState(run.info, waits);
    return h('header', { class: 'page-head' },
      h('nav', { class: 'crumbs', 'aria-label': words.crumbs }, h('a', { href: '/runs', class: 'muted', 'aria-label': words.places.Runs }, h('span', { class: 'phone-only' }, icon('left')), h('span', { class: 'not-phone' }, words.places.Runs)), h('span', { class: 'not-phone muted', 'aria-hidden': 'true' }, '/')),
      h('h1', { class: 'page-title cut', title: goal }, goal),
      h('code', { class: 'run-id not-phone', title: run.info.run }, shortId(run.info.run)),
      h('span', { class: `state-tag ${state.tone}`, role: 'status' }, glyph(state.glyph), h('span', null, state.text)),
      h('span', { class: 'grow' }),
      this.actionError && h('span', { class: 'field-error', role: 'alert' }, this.actionError),
      this.asks ? this.confirm() : this.actions());
  }

  actions() {
    const { run } = this;
    const isOver = !run.isRunning;
    const canResume = isOver && run.info.state !== 'goal_achieved' && run.info.state !== 'cancelled';
    return h('div', { class: 'head-actions' },
      isOver && h('button', { class: 'button quiet-button not-phone', onclick: () => this.act(() => api.fork(run.id, {}), (forked) => open(`/runs/${forked.run}`)) }, icon('fork'), words.fork),
      isOver && h('button', { class: 'button quiet-button not-phone', onclick: () => this.act(() => api.startRun({ goal: run.info.goal, workspace: run.info.workspace }), (again) => open(`/runs/${again.run}`)) }, icon('again'), words.runAgain),
      canResume && h('button', { class: 'button', onclick: () => this.resume({}) }, words.resume),
      run.isRunning && h('button', { class: 'button danger-text', onclick: () => this.ask('cancel') }, words.cancelRun));
  }

  ask(what) {
    this.asks = what;
    repaint();
    requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById('confirm-no')?.focus()));
  }

  confirm() {
    const done = () => {
      this.asks = null;
      repaint();
    };
    return h('div', { class: 'head-actions', role: 'group', 'aria-label': words.cancelSure },
      h('span', { class: 'muted not-phone' }, words.cancelSure),
      h('button', { class: 'button danger', onclick: () => this.act(() => api.cancel(this.run.id)).then(done) }, words.cancelRun),
      h('button', { class: 'button', id: 'confirm-no', onclick: done }, words.goOn));
  }

  resume(body) {
    return this.act(() => api.resume(this.run.id, body), () => setTimeout(() => this.run.open(), 300));
  }

  async act(request, then) {
    this.actionError = null;
    try {
      const answer = await request();
      then?.(answer);
      refresh();
    } catch (error) {
      this.actionError = error.message;
    }
    repaint();
  }

  notice() {
    const { run } = this;
    if (run.isStalled) return h('p', { class: 'notice', role: 'status' }, words.nobodyCarries, ' ', h('button', { class: 'button small', onclick: () => this.resume({}) }, words.resume));
    return run.info.pending_messages?.length ? h('p', { class: 'notice' }, words.pendingMessages(run.info.pending_messages.length)) : null;
  }

  tabs(current) {
    const { run } = this;
    const isOver = !run.isRunning;
    const count = { plan: this.iteration.plan?.subtasks.length, changes: run.report?.changed?.length || null, journal: run.events.length };
    const names = isOver ? ['summary', 'plan', 'changes', 'journal'] : ['plan', 'changes', 'journal'];
    const keydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = names[(names.indexOf(current) + step + names.length) % names.length];
      this.select({ tab: next });
      requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus()));
    };
    return h('div', { class: 'tab-bar' },
      h('div', { class: 'tabs', role: 'tablist', 'aria-label': words.views, onkeydown: keydown }, names.map((name) =>
        h('button', { key: name, id: `tab-${name}`, class: 'tab', role: 'tab', 'aria-selected': String(name === current), 'aria-controls': name === current ? 'main' : null, tabindex: name === current ? 0 : -1, onclick: () => this.select({ tab: name, ...(name !== 'plan' && { task: null }) }) },
          words.tabs[name], count[name] ? h('span', { class: 'count' }, count[name]) : null))),
      current === 'plan' && this.iteration.plan?.subtasks.length ? planView.tools(this) : null);
  }

  key(event) {
    const isTyping = event.target.closest?.('input, textarea, select');
    if (event.key === 'Escape' && !isTyping && (this.query.task || this.query.stack)) {
      this.select(this.query.task ? { task: null, call: null } : { stack: null });
      return true;
    }
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !hasSingleKeys()) return false;
    if (event.target.closest?.('article.request, [role=tablist]')) return false;
    if (event.key === '[' || event.key === ']') {
      const number = this.iteration.number + (event.key === '[' ? -1 : 1);
      if (this.run.iterations.has(number)) this.select({ iteration: number === this.run.iteration ? null : number, task: null });
      return true;
    }
    return this.tab() === 'plan' ? planKey(this, event) : false;
  }
}

/** Panes are laid out for their width, so a change of it draws anew. */
const sizes = new ResizeObserver((entries) => {
  if (entries.some((entry) => Math.abs((widths.get(entry.target) ?? 0) - entry.contentRect.width) > 1 && widths.set(entry.target, entry.contentRect.width))) repaint();
});
const widths = new WeakMap();
const observeSize = (node) => sizes.observe(node);
