/** `/chats`: conversations, the last used first. */
import { h, repaint } from '../view.js';
import { open } from '../router.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { ago, folder, line } from '../format.js';
import { icon } from '../icons.js';
import { focusComposer } from '../shell.js';
import { words } from '../words.js';

export class Chats extends LoadedPage {
  constructor() {
    super(words.places.Chats, () => api.conversations({ limit: 200 }));
    this.search = '';
    this.failed = null;
  }

  actions() {
    return [h('span', { class: 'grow' }), this.failed && h('span', { class: 'field-error', role: 'alert' }, this.failed), h('button', { class: 'button', onclick: () => this.create() }, icon('plus'), words.newChat)];
  }

  async create() {
    try {
      const made = await api.createConversation({});
      open(`/chats/${made.conversation}`);
      focusComposer();
    } catch (error) {
      this.failed = error.message;
      repaint();
    }
  }

  content({ conversations }) {
    const search = this.search.toLowerCase();
    const found = conversations.filter((one) => `${one.title} ${one.workspace}`.toLowerCase().includes(search));
    if (!conversations.length) return h('p', { class: 'muted' }, words.noChats);
    return [
      h('label', { class: 'search' }, icon('search'), h('span', { class: 'hidden-text' }, words.searchChats), h('input', { id: 'filter', type: 'search', placeholder: words.searchChats, value: this.search, oninput: (event) => ((this.search = event.target.value), repaint()) })),
      h('ul', { class: 'card link-rows' }, found.map((one) => h('li', { key: one.conversation }, h('a', { href: `/chats/${one.conversation}` },
        h('span', { class: 'cut grow' }, line(one.title, 160) || words.untitled), h('span', { class: 'muted not-phone' }, folder(one.workspace)), h('span', { class: 'muted' }, words.turns(one.turns)), h('span', { class: 'muted age' }, ago(one.used_at))))))];
  }
}
