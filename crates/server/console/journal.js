/** The tab Journal: every event in a row, virtualised, with a filter. */
import { h, repaint } from './view.js';
import { virtual } from './virtual.js';
import { callSummary, prose } from './tool-text.js';
import { line, time, visible } from './format.js';
import { words } from './words.js';

const ROW = 32;

export class Journal {
  constructor(run) {
    this.run = run;
    this.filter = '';
    this.open = null;
  }

  view() {
    const events = this.matching();
    const chosen = this.open !== null && this.run.events[this.open];
    return h('div', { class: 'journal' },
      h('div', { class: 'journal-head' },
        h('label', { class: 'search' }, h('span', { class: 'hidden-text' }, words.filterJournal), h('input', { id: 'filter', type: 'search', placeholder: words.filterJournal, value: this.filter, oninput: (event) => ((this.filter = event.target.value), repaint()) }), h('kbd', { 'aria-hidden': 'true' }, 'F')),
        h('span', { class: 'muted' }, this.run.events.length ? words.ofTotal(events.length, this.run.events.length) : words.loading)),
      chosen && h('div', { class: 'card journal-open' }, h('button', { class: 'quiet', onclick: () => ((this.open = null), repaint()) }, words.close), h('pre', { class: 'code', tabindex: 0 }, h('code', null, visible(JSON.stringify(chosen, null, 2))))),
      h('div', { role: 'log', 'aria-live': 'off', 'aria-label': words.tabs.journal },
        virtual({ rows: events, height: ROW, pane: () => document.querySelector('.pane'), draw: (event) => this.row(event) })));
  }

  matching() {
    if (!this.filter) return this.run.events;
    const parts = this.filter.toLowerCase().split(/\s+/);
    return this.run.events.filter((event) => parts.every((part) => `${event.seq} ${event.scope} ${event.event} ${told(event)}`.toLowerCase().includes(part)));
  }

  row(event) {
    const at = this.run.events.indexOf(event);
    return h('button', { key: at, class: `journal-row ${at === this.open ? 'is-selected' : ''}`, onclick: () => ((this.open = this.open === at ? null : at), repaint()) },
      h('span', { class: 'muted figure' }, event.seq), h('span', { class: 'muted' }, time(event.at)), h('span', null, event.scope), h('span', { class: /fail|refused|expired/.test(event.event) || event.success === false ? 'red' : '' }, event.event), h('span', { class: 'cut muted' }, told(event)));
  }
}

/** An event in a few words. */
function told(event) {
  switch (event.event) {
    case 'phase_changed': return `${event.from} → ${event.to}`;
    case 'model_replied': return line(prose(event.content) || event.content, 160);
    case 'tool_started': return line(`${event.effect} ${event.tool} ${callSummary(event.tool, event.parameters)}`, 160);
    case 'tool_finished': return line(`${event.effect} ${event.tool} ${event.error ?? ''}`, 160);
    case 'subtask_started': return line(`${event.subtask}: ${event.title}`, 160);
    case 'subtask_finished': return line(`${event.observation.subtask}: ${event.observation.finding?.result?.answer ?? event.observation.finding?.kind ?? ''}`, 160);
    case 'approval_asked': return line(`${event.approval.effect} ${event.approval.tool} ${callSummary(event.approval.tool, event.approval.parameters)}`, 160);
    case 'agent_started': return typeof event.role === 'string' ? event.role : event.role.sub;
    default: return line(event.summary ?? event.question ?? event.answer ?? event.guidance ?? event.goal ?? event.error ?? event.plan?.summary ?? event.effect ?? event.calls ?? '', 160);
  }
}
