/** `/`: a new goal, what waits for the user, usage, and the runs. */
import { h } from '../view.js';
import { goalComposer } from '../goal-composer.js';
import { overview, waitingCount } from '../overview.js';
import { waitingRows } from '../waiting-rows.js';
import { runsTable } from '../runs-table.js';
import { usageCard } from '../usage-card.js';
import { words } from '../words.js';

export class Home {
  view() {
    const isEmpty = overview.loaded && !overview.runs.length;
    return {
      title: words.places.Home,
      main: h('div', { class: 'page home', id: 'main', tabindex: -1 },
        h('h1', { class: 'hidden-text' }, words.places.Home),
        h('div', { class: 'home-top' },
          h('div', { class: 'home-first' },
            goalComposer({ examples: isEmpty }),
            waitingCount() > 0 && h('section', { 'aria-label': words.places.Waiting },
              h('h2', { class: 'section-title' }, words.places.Waiting, h('span', { class: 'count' }, waitingCount())),
              waitingRows())),
          !isEmpty && usageCard()),
        !isEmpty && runsTable({ path: '/' })),
      aside: null,
    };
  }
}
