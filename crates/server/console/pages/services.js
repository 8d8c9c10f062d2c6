/** `/services` */
import { h } from '../view.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { visible } from '../format.js';
import { words } from '../words.js';

export class Services extends LoadedPage {
  constructor() {
    super(words.places.Services, () => api.services());
  }

  content(value) {
    return h('pre', { class: 'code', tabindex: 0 }, h('code', null, visible(JSON.stringify(value, null, 2))));
  }
}
