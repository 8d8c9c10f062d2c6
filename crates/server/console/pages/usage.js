/** `/usage`: requests, tokens and cost of 30 days, by day, model and agent. */
import { h } from '../view.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { cost, number, tokens, visible } from '../format.js';
import { words } from '../words.js';

const BY = ['day', 'model', 'agent'];

export class Usage extends LoadedPage {
  constructor() {
    super(words.places.Usage, () => Promise.all(BY.map((by) => api.usage({ by }))));
  }

  content(tables) {
    const { total } = tables[0];
    return [
      h('p', { class: 'form-title' }, cost(total.cost), ' ', h('span', { class: 'muted' }, words.inThirtyDays(number(total.requests), tokens(total.input_tokens + total.output_tokens)))),
      tables.map(({ by, rows }) => h('section', { key: by },
        h('h2', { class: 'section-title' }, words.usageBy[by]),
        rows.length ? h('div', { class: 'card table-card' }, this.table(by === 'day' ? [...rows].reverse() : rows)) : h('p', { class: 'muted' }, words.noUsage)))];
  }

  table(rows) {
    return h('table', { class: 'rows plain' },
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, words.usageName), [words.modelCalls, words.toolCalls, words.tokens, words.columns.cost].map((name) => h('th', { scope: 'col', class: 'figure' }, name)))),
      h('tbody', null, rows.map((row) => h('tr', { key: row.key },
        h('td', { class: 'goal' }, visible(row.key)), h('td', { class: 'figure' }, number(row.requests)), h('td', { class: 'figure' }, number(row.tool_calls)), h('td', { class: 'figure' }, tokens(row.input_tokens + row.output_tokens)), h('td', { class: 'figure' }, cost(row.cost))))));
  }
}
