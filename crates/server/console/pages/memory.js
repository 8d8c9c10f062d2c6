/** `/memory`: the facts that agents are told; search, add, delete. */
import { h, repaint } from '../view.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { ago, folder, visible } from '../format.js';
import { words } from '../words.js';

export class Memory extends LoadedPage {
  constructor() {
    super(words.places.Memory, () => api.facts({ q: this.search }));
    this.search = '';
    this.text = '';
    this.workspace = '';
    this.failed = null;
  }

  content({ facts }) {
    return [
      h('form', { class: 'resume-form fact-form', onsubmit: (event) => this.add(event) },
        h('label', { class: 'grow' }, words.newFact, h('input', { type: 'text', value: this.text, oninput: (event) => ((this.text = event.target.value), repaint()) })),
        h('label', { class: 'not-phone' }, words.factFolder, h('input', { type: 'text', spellcheck: 'false', placeholder: words.factUser, value: this.workspace, oninput: (event) => ((this.workspace = event.target.value), repaint()) })),
        h('button', { class: 'button primary', type: 'submit', disabled: !this.text.trim() }, words.add)),
      this.failed && h('p', { class: 'field-error', role: 'alert' }, this.failed),
      h('label', { class: 'search spaced' }, h('span', { class: 'hidden-text' }, words.search), h('input', { id: 'filter', type: 'search', placeholder: words.search, value: this.search, oninput: (event) => {
        this.search = event.target.value;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.load(), 200);
        repaint();
      } }), h('kbd', { 'aria-hidden': 'true' }, 'F')),
      facts.length ? h('ul', { class: 'card fact-rows' }, facts.map((fact) => h('li', { key: fact.id },
        h('span', { class: 'grow' }, visible(fact.text)), h('span', { class: 'muted' }, fact.workspace ? folder(fact.workspace) : words.factUser), h('span', { class: 'muted age' }, ago(fact.at)),
        h('button', { class: 'quiet danger-text', 'aria-label': `${words.remove}: ${visible(fact.text)}`, onclick: () => this.act(() => api.deleteFact(fact.id)) }, words.remove))))
        : h('p', { class: 'muted' }, words.noFacts)];
  }

  add(event) {
    event.preventDefault();
    return this.act(async () => {
      await api.addFact({ text: this.text, ...(this.workspace && { workspace: this.workspace }) });
      this.text = '';
    });
  }

  async act(request) {
    this.failed = null;
    try {
      await request();
      await this.load();
    } catch (error) {
      this.failed = error.message;
    }
    repaint();
  }
}
