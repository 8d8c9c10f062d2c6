/** What waits in all runs, the oldest first, each call in a line. */
import { h } from './view.js';
import { overview } from './overview.js';
import { glyph } from './icons.js';
import { ago, line } from './format.js';
import { callSummary } from './tool-text.js';
import { words } from './words.js';

export function waitingItems() {
  return overview.waiting
    .flatMap((run) => [...run.approvals.map((item) => ({ run, item, isQuestion: false })), ...run.questions.map((item) => ({ run, item, isQuestion: true }))])
    .sort((a, b) => (a.item.asked_at ?? 0) - (b.item.asked_at ?? 0));
}

export function waitingRows() {
  return h('ul', { class: 'card waiting-rows' }, waitingItems().map(({ run, item, isQuestion }) =>
    h('li', { key: `${run.run}/${item.effect}` },
      glyph(isQuestion ? 'asks' : 'needs'),
      h('span', { class: 'what cut' }, isQuestion ? line(item.question, 240) : [h('strong', null, item.tool), ' ', h('code', null, line(callSummary(item.tool, item.parameters), 240))]),
      h('span', { class: 'muted cut goal' }, line(run.goal, 80)),
      h('span', { class: 'muted age' }, ago(item.asked_at ?? run.created_at)),
      h('a', { class: 'button small', href: `/runs/${run.run}` }, isQuestion ? words.answer : words.review))));
}
