/** The theme: the system's, or the one that was chosen. */
import { keep, recall } from './browser-store.js';
import { repaint } from './view.js';

export const theme = () => recall('theme') ?? 'system';

export function applyTheme() {
  const chosen = theme();
  if (chosen === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

export function setTheme(name) {
  keep('theme', name === 'system' ? null : name);
  applyTheme();
  repaint();
}

/** Whether the page is dark now. */
export const isDark = () => (theme() === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : theme() === 'dark');
