/** The workflows of the service, loaded once. A service that offers none leaves the list empty. */
import { api } from './api.js';
import { repaint } from './view.js';

let list = null;

/** All workflows by category; empty until they are loaded. */
export function workflows() {
  if (!list) {
    list = [];
    api.workflows().then((answer) => {
      list = [...(answer.workflows ?? [])].sort((a, b) => a.category.localeCompare(b.category) || a.name.localeCompare(b.name));
      repaint();
    }, () => {});
  }
  return list;
}
