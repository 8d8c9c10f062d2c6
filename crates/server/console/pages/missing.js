/** What stands in the place of a page that does not exist, or that nobody may see without the link. */
import { h } from '../view.js';
import { head } from '../shell.js';
import { words } from '../words.js';

const note = (title, text) => ({
  title,
  main: [head(title), h('div', { class: 'page', id: 'main', tabindex: -1 }, h('p', { class: 'prose' }, text))],
  aside: null,
});

export const missing = () => note(words.missing, words.missingText);
export const signedOut = () => note(words.signedOut, words.signedOutText);
