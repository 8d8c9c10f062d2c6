/** `/settings`: language, theme and keys, which are kept in this browser; and the rules by which calls are always allowed, which the service keeps. */
import { h, repaint } from '../view.js';
import { api } from '../api.js';
import { ago, visible } from '../format.js';
import { head } from '../shell.js';
import { keep } from '../browser-store.js';
import { language, words } from '../words.js';
import { setTheme, theme } from '../theme.js';
import { hasSingleKeys, showKeys } from '../keys.js';

const choices = (legend, name, values, current, choose) => h('fieldset', null, h('legend', null, legend), values.map(([value, label]) =>
  h('label', { key: value, class: 'choice' }, h('input', { type: 'radio', name, checked: value === current, onchange: () => choose(value) }), label)));

export class Settings {
  constructor() {
    this.rules = null;
    this.failed = null;
    this.loadRules();
  }

  async loadRules() {
    try {
      this.rules = (await api.rules()).rules;
    } catch (error) {
      this.failed = error.message;
    }
    repaint();
  }

  async remove(rule) {
    try {
      await api.deleteRule(rule.id);
      await this.loadRules();
    } catch (error) {
      this.failed = error.message;
      repaint();
    }
  }

  rulesView() {
    return this.rules && h('section', { 'aria-label': words.rules }, h('h2', { class: 'section-title' }, words.rules),
      this.rules.length ? h('ul', { class: 'card fact-rows' }, this.rules.map((rule) => h('li', { key: rule.id },
        h('code', { class: 'grow' }, visible(rule.calls)), h('span', { class: 'muted' }, words.scopes[rule.scope] ?? rule.scope, rule.subject ? ` ${visible(rule.subject)}` : ''), h('span', { class: 'muted age' }, ago(rule.at)),
        h('button', { class: 'quiet danger-text', 'aria-label': `${words.remove}: ${visible(rule.calls)}`, onclick: () => this.remove(rule) }, words.remove))))
        : h('p', { class: 'muted' }, words.noRules));
  }

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
          h('button', { class: 'button', onclick: showKeys }, words.allKeys)),
        this.rulesView(),
        this.failed && h('p', { class: 'field-error', role: 'alert' }, this.failed))],
      aside: null,
    };
  }
}
