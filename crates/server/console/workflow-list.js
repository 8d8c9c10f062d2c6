/** The workflows of the service, for the page and for the menu of the composers. */
import { api } from './api.js';
import { repaint } from './view.js';

let list = null;
let failed = null;
let isLoading = false;

/** Why the list could not be loaded. */
export const workflowsFailed = () => failed;

export const hasWorkflows = () => list !== null;

/** Loads the list, or loads it again: files may have been added. What was known stays until then. */
export async function loadWorkflows() {
  if (isLoading) return;
  isLoading = true;
  try {
    const { workflows: found } = await api.workflows();
    list = [...found].sort((a, b) => a.category.localeCompare(b.category) || a.name.localeCompare(b.name));
    failed = null;
  } catch (error) {
    failed = error;
  }
  isLoading = false;
  repaint();
}

/** All workflows by category; empty until they are loaded. */
export function workflows() {
  if (!list && !failed) loadWorkflows();
  return list ?? [];
}
