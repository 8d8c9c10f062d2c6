/** What the user says to a run: for the next plan, at once, or for one agent. */
import { h, repaint } from './view.js';
import { api } from './api.js';
import { SEND_KEYS } from './format.js';
import { words } from './words.js';

export class GuidanceComposer {
  constructor(run, selectedAgent) {
    this.run = run;
    this.selectedAgent = selectedAgent;
    this.text = '';
    this.target = 'next';
    this.isSure = false;
    this.note = '';
    this.error = '';
  }

  async send(event) {
    event?.preventDefault();
    const agent = this.selectedAgent();
    if (!this.text.trim() || this.isBusy) return;
    // What runs is stopped, so it is asked once.
    if (this.target === 'now' && !this.isSure) {
      this.isSure = true;
      repaint();
      return;
    }
    this.isBusy = true;
    this.error = '';
    repaint();
    try {
      const sent = await api.guide(this.run.id, { guidance: this.text, ...(this.target === 'now' && { when: 'now' }), ...(this.target === 'agent' && agent && { agent: `a${agent}` }) });
      this.note = sent.state === 'pending' ? words.keptUntilResumed : words.sent;
      this.text = '';
      this.isSure = false;
      setTimeout(() => ((this.note = ''), repaint()), 4000);
    } catch (error) {
      this.error = error.message;
    }
    this.isBusy = false;
    repaint();
  }

  view() {
    const agent = this.selectedAgent();
    if (this.target === 'agent' && !agent) this.target = 'next';
    const targets = [['next', words.targets.next], ['now', words.targets.now], ['agent', words.targets.only(agent ? `a${agent}` : '…')]];
    const keydown = (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.send(event);
    };
    return h('form', { class: 'composer guidance', 'aria-label': words.sayToRun, onsubmit: (event) => this.send(event) },
      h('label', { class: 'hidden-text', for: 'composer' }, words.sayToRun),
      h('textarea', { id: 'composer', rows: 1, placeholder: words.sayToRun, value: this.text, onkeydown: keydown, oninput: (event) => ((this.text = event.target.value), (this.isSure = false), repaint()) }),
      this.error && h('p', { class: 'field-error', role: 'alert' }, this.error),
      h('div', { class: 'composer-row' },
        h('div', { class: 'segments', role: 'group', 'aria-label': words.targetsLabel }, targets.map(([name, label]) => h('button', { key: name, type: 'button', disabled: name === 'agent' && !agent, 'aria-pressed': String(this.target === name), onclick: () => ((this.target = name), (this.isSure = false), repaint()) }, label))),
        h('span', { class: 'muted cut grow', role: 'status' }, this.note || (this.isSure ? words.stopsWork : this.run.isRunning ? words.targetNotes[this.target] : words.keptUntilResumed)),
        h('button', { class: 'button primary', type: 'submit', disabled: !this.text.trim() || this.isBusy }, this.isSure ? words.stopAndSend : words.send, h('kbd', { 'aria-hidden': 'true' }, SEND_KEYS))));
  }
}
