/** The menu of workflows that `/` opens in a composer: categories are headings, the match is bold. */
import { h, repaint } from './view.js';
import { workflows } from './workflow-list.js';
import { words } from './words.js';

/** @param {{onChoose: (workflow: Object) => void}} how */
export function slashMenu({ onChoose }) {
  let chosen = 0;
  let closedFor = null;

  const matches = (text) => {
    const typed = /^\/(\w*)$/.exec(text);
    if (!typed || closedFor === text) return [];
    return workflows().filter((workflow) => workflow.name.toLowerCase().includes(typed[1].toLowerCase())).slice(0, 12);
  };

  return {
    fieldProps: (text) => {
      const found = matches(text);
      // The list is there before the first `/`.
      const onfocus = () => void workflows();
      return found.length ? { onfocus, 'aria-controls': 'slash-menu', 'aria-activedescendant': `slash-${Math.min(chosen, found.length - 1)}`, 'aria-autocomplete': 'list' } : { onfocus };
    },
    /** Takes a key of the field; returns true if the menu used it. */
    key(event, text) {
      const found = matches(text);
      if (!found.length) return false;
      chosen = Math.min(chosen, found.length - 1);
      if (event.key === 'ArrowDown') chosen = (chosen + 1) % found.length;
      else if (event.key === 'ArrowUp') chosen = (chosen + found.length - 1) % found.length;
      else if (event.key === 'Enter' || event.key === 'Tab') onChoose(found[chosen]);
      else if (event.key === 'Escape') closedFor = text;
      else return false;
      event.preventDefault();
      repaint();
      return true;
    },
    view(text) {
      const found = matches(text);
      if (!found.length) return null;
      const typed = text.slice(1);
      let category = null;
      return h('div', { class: 'slash-menu', id: 'slash-menu', role: 'listbox', 'aria-label': words.places.Workflows },
        found.map((workflow, at) => {
          const isNew = workflow.category !== category;
          category = workflow.category;
          const from = workflow.name.toLowerCase().indexOf(typed.toLowerCase());
          return [
            isNew && h('div', { key: `c-${category}`, class: 'slash-category', role: 'presentation' }, category),
            h('div', { key: workflow.name, id: `slash-${at}`, class: 'slash-item', role: 'option', 'aria-selected': String(at === chosen), onmousedown: (event) => (event.preventDefault(), onChoose(workflow)) },
              h('code', null, '/', workflow.name.slice(0, from), h('b', null, workflow.name.slice(from, from + typed.length)), workflow.name.slice(from + typed.length)),
              h('code', { class: 'muted' }, (workflow.parameters ?? []).filter((parameter) => parameter.required).map((parameter) => parameter.name).join(' ')), h('span', { class: 'muted cut' }, workflow.description)),
          ];
        }));
    },
  };
}
