/** `/prompts`: base system prompts; what the lead gets with one stands beside it. A stale update shows both versions. */
import { h, repaint } from '../view.js';
import { open } from '../router.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { icon } from '../icons.js';
import { visible } from '../format.js';
import { words } from '../words.js';

export class Prompts extends LoadedPage {
  constructor(name) {
    super(words.places.Prompts, () => api.systemPrompts());
    this.name = name;
    this.prompt = null;
    this.draft = '';
    this.failed = null;
    this.newName = '';
    if (name) this.loadPrompt();
  }

  async loadPrompt() {
    try {
      const { value, etag } = await api.systemPrompt(this.name);
      this.prompt = value;
      this.etag = etag;
      this.draft = value.text;
      this.enhanced = await api.enhancedPrompt(this.name).catch(() => null);
    } catch (error) {
      this.failed = error.message;
    }
    repaint();
  }

  content(answer) {
    const prompts = answer.system_prompts ?? answer.prompts ?? [];
    return h('div', { class: 'columns' },
      h('div', { class: 'column-list' },
        h('ul', { class: 'card link-rows' }, prompts.map((prompt) => h('li', { key: prompt.name }, h('a', { href: `/prompts/${encodeURIComponent(prompt.name)}`, 'aria-current': prompt.name === this.name ? 'true' : null }, h('span', { class: 'grow' }, prompt.name), h('span', { class: 'muted' }, words.version(prompt.version)))))),
        h('form', { class: 'words', onsubmit: (event) => this.create(event) }, h('label', null, words.newPrompt, h('input', { type: 'text', value: this.newName, placeholder: 'bakery', oninput: (event) => ((this.newName = event.target.value), repaint()) })), h('button', { class: 'button', type: 'submit', disabled: !this.newName.trim() }, icon('plus'), words.create))),
      h('div', { class: 'column-main' },
        this.failed && h('p', { class: 'field-error', role: 'alert' }, this.failed),
        this.prompt ? this.editor() : !this.name && h('p', { class: 'muted' }, words.choosePrompt)));
  }

  editor() {
    return [
      h('h2', { class: 'form-title' }, this.prompt.name, ' ', h('span', { class: 'muted' }, words.version(this.prompt.version))),
      this.stale && h('section', { class: 'notice' }, h('div', null, h('p', null, words.stalePrompt), h('pre', { class: 'code', tabindex: 0 }, h('code', null, visible(this.stale.text))))),
      h('div', { class: 'side-by-side' },
        h('label', null, words.basePrompt, h('textarea', { class: 'code', rows: 18, value: this.draft, oninput: (event) => ((this.draft = event.target.value), repaint()) })),
        this.enhanced && h('section', null, h('h3', { class: 'small-title' }, words.enhancedPrompt), h('pre', { class: 'code', tabindex: 0 }, h('code', null, visible(this.enhanced.system))))),
      h('div', { class: 'buttons' }, h('button', { class: 'button primary', disabled: this.draft === this.prompt.text || this.isBusy, onclick: () => this.save() }, words.save), h('button', { class: 'button danger-text', onclick: () => this.remove() }, words.remove))];
  }

  async create(event) {
    event.preventDefault();
    await this.act(async () => {
      await api.createSystemPrompt({ name: this.newName.trim(), text: words.newPromptText });
      open(`/prompts/${encodeURIComponent(this.newName.trim())}`);
    });
  }

  async save() {
    await this.act(async () => {
      await api.updateSystemPrompt(this.name, this.draft, this.etag);
      this.stale = null;
      const mine = this.draft;
      await this.loadPrompt();
      this.draft = mine;
      this.load();
    });
  }

  async remove() {
    await this.act(async () => {
      await api.deleteSystemPrompt(this.name);
      open('/prompts');
    });
  }

  async act(what) {
    this.isBusy = true;
    this.failed = null;
    try {
      await what();
    } catch (error) {
      this.failed = error.message;
      if (error.status === 412) {
        const { value, etag } = await api.systemPrompt(this.name);
        this.stale = value;
        this.etag = etag;
      }
    }
    this.isBusy = false;
    repaint();
  }
}
