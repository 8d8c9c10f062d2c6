/** `/workflows` */
import { h } from '../view.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { visible } from '../format.js';
import { words } from '../words.js';

export class Workflows extends LoadedPage {
  constructor() {
    super(words.places.Workflows, () => api.workflows());
  }

  content(value) {
    return h('pre', { class: 'code', tabindex: 0 }, h('code', null, visible(JSON.stringify(value, null, 2))));
  }
}
