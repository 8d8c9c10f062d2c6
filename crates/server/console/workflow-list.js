/** The workflows of the service, loaded once. A service that offers none leaves the list empty. */
import { api } from './api.js';
import { repaint } from './view.js';

let list = null;
let failed = null;

/** Why the list could not be loaded. */
export const workflowsFailed = () => failed;

/** All workflows by category; empty until they are loaded. */
export function workflows() {
  if (!list) {
    list = [];
    api.workflows().then((answer) => {
      list = [...(answer.workflows ?? [])].sort((a, b) => a.category.localeCompare(b.category) || a.name.localeCompare(b.name));
      repaint();
    }, (error) => {
      failed = error;
      repaint();
    });
  }
  return list;
}
