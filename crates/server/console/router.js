/** Addresses: each view is one, so that it can be sent, opened in a tab, and reached by Back and Forward. */
import { repaint } from './view.js';

/** @type {Array<() => void>} */
const listeners = [];

/** Calls `listener` after each change of the address. */
export const onAddress = (listener) => listeners.push(listener);

/** The address as its parts and its query. */
export function address() {
  const parts = location.pathname.split('/').filter(Boolean).map(decoded);
  return { parts, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** A part of an address; as it is if it is no text in percent encoding. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Writes an address: empty values of the query are left out. */
export function href(path, query = {}) {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== ''));
  return given.size ? `${path}?${given}` : path;
}

/** Opens an address as a new entry of the browser's history. */
export function open(target) {
  if (target === location.pathname + location.search) return;
  history.pushState(null, '', target);
  changed();
}

/** Replaces the address: for selections, which Back shall not go through one by one. */
export function replace(target) {
  if (target === location.pathname + location.search) return;
  history.replaceState(null, '', target);
  changed();
}

function changed() {
  for (const listener of listeners) listener();
  repaint();
}

addEventListener('popstate', changed);

/** Follows links within the page; those with a modifier, or to elsewhere, are left to the browser. */
addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = new URL(link.href);
  if (target.origin !== location.origin || link.target || link.hasAttribute('download') || target.hash) return;
  event.preventDefault();
  if (link.dataset.replace !== undefined) replace(target.pathname + target.search);
  else open(target.pathname + target.search);
});
