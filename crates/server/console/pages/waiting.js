/** `/waiting`: every approval and question of every run, to decide in place. */
import { h } from '../view.js';
import { head, loading } from '../shell.js';
import { overview } from '../overview.js';
import { waitingItems } from '../waiting-rows.js';
import { requestCard } from '../request-card.js';
import { line, shortId } from '../format.js';
import { words } from '../words.js';

export class Waiting {
  view() {
    const items = waitingItems();
    return {
      title: words.places.Waiting,
      main: [head(words.places.Waiting), h('div', { class: 'page', id: 'main', tabindex: -1 },
        !overview.loaded ? loading() : !items.length ? h('p', { class: 'muted' }, words.nothingWaits)
          : h('div', { class: 'cards' }, items.map(({ run, item, isQuestion }, at) =>
            h('section', { key: `${run.run}/${item.effect}`, class: 'waiting-of' },
              h('h2', { class: 'small-title' }, h('a', { href: `/runs/${run.run}` }, line(run.goal, 120)), ' ', h('code', null, shortId(run.run))),
              requestCard({ run: run.run, state: run.state, conversation: run.conversation ?? undefined, item: { kind: isQuestion ? 'question' : 'approval', ...item }, isFirst: at === 0 })))))],
      aside: null,
    };
  }
}
