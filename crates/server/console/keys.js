/** The keys of the whole page. A page handles its own in `key(event)`, which returns true for those it took. */
import { recall } from './browser-store.js';
import { h, render } from './view.js';
import { words } from './words.js';
import { focusComposer } from './shell.js';

const GO = { h: '/', r: '/runs', c: '/chats', s: '/services', w: '/waiting' };

let wentAt = 0;

/** Whether single letters are keys: they can be switched off, as they disturb speech input. */
export const hasSingleKeys = () => recall('keys') !== 'off';

const isTyping = (target) => target.closest?.('input, textarea, select, [contenteditable]');

export function startKeys({ page, open }) {
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    if (page()?.key?.(event)) {
      event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (!hasSingleKeys() && event.key.length === 1) return;
    if (global(event, open)) event.preventDefault();
  });
}

function global(event, open) {
  const key = event.key.toLowerCase();
  if (Date.now() - wentAt < 1200 && key in GO) {
    wentAt = 0;
    open(GO[key]);
    return true;
  }
  switch (key) {
    case 'g':
      wentAt = Date.now();
      return true;
    case 'n':
      open('/');
      focusComposer();
      return true;
    case 'w':
      open('/waiting');
      return true;
    case 'f':
      return focus('filter');
    case '/':
      return focus('composer');
    case '?':
      showKeys();
      return true;
    default:
      return false;
  }
}

function focus(id) {
  const field = document.getElementById(id);
  field?.focus();
  return Boolean(field);
}

/** All keys, in a dialog. */
export function showKeys() {
  if (document.querySelector('dialog.keys')) return;
  const dialog = document.createElement('dialog');
  dialog.className = 'keys';
  dialog.setAttribute('aria-label', words.allKeys);
  render(dialog,
    h('h2', null, words.allKeys),
    h('dl', null, words.keys.map(([key, what]) => [h('dt', null, key.split(' ').map((part) => h('kbd', null, part))), h('dd', null, what)])),
    h('button', { class: 'button', onclick: () => dialog.close() }, words.close));
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
}
