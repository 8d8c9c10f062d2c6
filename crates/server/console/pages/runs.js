/** `/runs`: the list alone. */
import { h } from '../view.js';
import { head } from '../shell.js';
import { runsTable } from '../runs-table.js';
import { words } from '../words.js';

export class Runs {
  view() {
    return { title: words.places.Runs, main: [head(words.places.Runs), h('div', { class: 'page', id: 'main', tabindex: -1 }, runsTable({ path: '/runs', limit: 200 }))], aside: null };
  }
}
