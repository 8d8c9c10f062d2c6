/** `/agents`: the sub-agents that plans can use, with their tools and limits. */
import { h } from '../view.js';
import { address } from '../router.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { duration, visible } from '../format.js';
import { words } from '../words.js';

export class Agents extends LoadedPage {
  static keepsOver = true;

  constructor() {
    super(words.places.Agents, () => api.agents());
  }

  content({ agents, refused }) {
    const chosen = agents.find((agent) => agent.name === address().parts[1]);
    return h('div', { class: 'columns' },
      h('ul', { class: 'card link-rows' }, agents.map((agent) => h('li', { key: agent.name }, h('a', { href: `/agents/${agent.name}`, 'aria-current': agent === chosen ? 'true' : null }, h('b', { class: 'grow' }, agent.name), h('span', { class: 'muted' }, agent.access))))),
      h('div', { class: 'column-main' },
        chosen ? this.chosen(chosen) : h('p', { class: 'muted' }, words.chooseAgent),
        refused?.map((one) => h('p', { class: 'notice bad', key: one.file }, h('span', null, visible(`${one.file}${one.line ? `:${one.line}` : ''}: ${one.reason}`))))));
  }

  chosen(agent) {
    const limits = Object.entries(agent.limits ?? {}).filter(([, value]) => value !== null).map(([name, value]) => `${name.replaceAll('_', ' ')} ${name === 'timeout' ? duration(value) : value}`).join(', ');
    const facts = [[words.source, visible(agent.file ?? agent.source)], [words.model, agent.model], [words.access, agent.access], [words.tools, agent.tools.join(', ')], [words.limits, limits], [words.notes, agent.notes?.map(visible).join(' ')]];
    return [
      h('h2', { class: 'form-title' }, visible(agent.name)),
      h('p', null, visible(agent.description)),
      h('dl', { class: 'facts wide-facts' }, facts.filter(([, value]) => value).map(([name, value]) => [h('dt', null, name), h('dd', null, value)]))];
  }
}
