/** `/usage`: by day, model and agent, as the service counts it. */
import { h } from '../view.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { cost, tokens, visible } from '../format.js';
import { words } from '../words.js';

export class Usage extends LoadedPage {
  constructor() {
    super(words.places.Usage, () => api.usage());
  }

  /** Each list of the answer is a table: the service may count by more than the page knows. */
  content(value) {
    return Object.entries(value).filter(([, rows]) => Array.isArray(rows)).map(([name, rows]) => h('section', { key: name },
      h('h2', { class: 'section-title' }, words.usageBy[name] ?? name.replaceAll('_', ' ')),
      h('div', { class: 'card table-card' }, h('table', { class: 'rows' },
        h('thead', null, h('tr', null, h('th', { scope: 'col' }, words.usageName), h('th', { scope: 'col', class: 'figure' }, words.modelCalls), h('th', { scope: 'col', class: 'figure' }, words.tokens), h('th', { scope: 'col', class: 'figure' }, words.columns.cost))),
        h('tbody', null, rows.map((row, at) => h('tr', { key: at },
          h('td', null, visible(row.day ?? row.model ?? row.name ?? row.agent ?? '')), h('td', { class: 'figure' }, row.model_calls ?? ''), h('td', { class: 'figure' }, tokens((row.input_tokens ?? 0) + (row.output_tokens ?? 0))), h('td', { class: 'figure' }, cost(row.cost)))))))));
  }
}
