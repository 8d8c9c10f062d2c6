/** `/settings`: language, theme, keys. They are kept in this browser. */
import { h, repaint } from '../view.js';
import { head } from '../shell.js';
import { keep } from '../browser-store.js';
import { language, words } from '../words.js';
import { setTheme, theme } from '../theme.js';
import { hasSingleKeys, showKeys } from '../keys.js';

const choices = (legend, name, values, current, choose) => h('fieldset', null, h('legend', null, legend), values.map(([value, label]) =>
  h('label', { key: value, class: 'choice' }, h('input', { type: 'radio', name, checked: value === current, onchange: () => choose(value) }), label)));

export class Settings {
  view() {
    return {
      title: words.places.Settings,
      main: [head(words.places.Settings), h('div', { class: 'page settings', id: 'main', tabindex: -1 },
        choices(words.language, 'language', [['en', 'English'], ['zh', '中文']], language(), (value) => {
          keep('language', value);
          location.reload();
        }),
        choices(words.theme, 'theme', Object.entries(words.themes), theme(), setTheme),
        h('fieldset', null, h('legend', null, words.shortcuts),
          h('label', { class: 'choice' }, h('input', { type: 'checkbox', checked: hasSingleKeys(), onchange: (event) => (keep('keys', event.target.checked ? null : 'off'), repaint()) }), words.singleKeys),
          h('button', { class: 'button', onclick: showKeys }, words.allKeys)))],
      aside: null,
    };
  }
}
