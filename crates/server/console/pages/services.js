/** `/services`: MCP services with their state; for the chosen one the reason in a sentence, tools and log. Values of secrets are never here. */
import { h, repaint } from '../view.js';
import { address } from '../router.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { glyph } from '../icons.js';
import { commandLine } from '../tool-text.js';
import { ago, duration, visible } from '../format.js';
import { words } from '../words.js';

const GLYPHS = { running: 'succeeded', starting: 'running', restarting: 'running', stopped: 'cancelled', disabled: 'cancelled', error: 'failed' };

export class Services extends LoadedPage {
  static keepsOver = true;

  constructor() {
    super(words.places.Services, () => api.services());
    this.shown = null;
  }

  view() {
    const name = address().parts[1];
    if (name !== this.name) {
      this.name = name;
      this.shown = null;
      if (name) this.loadService();
    }
    return super.view();
  }

  async loadService() {
    const { name } = this;
    try {
      const [service, log] = await Promise.all([api.service(name), api.serviceLog(name)]);
      if (name === this.name) this.shown = { service, log, error: null, isBusy: false };
    } catch (error) {
      this.shown = { error: error.message };
    }
    repaint();
  }

  content({ services, skipped, untrusted }) {
    return [
      untrusted && h('p', { class: 'notice' }, h('span', null, words.untrusted(visible(untrusted.file)))),
      (skipped ?? []).map((one) => h('p', { class: 'notice bad', key: one.name }, h('span', null, visible(`${one.name}: ${one.reason}`)))),
      !services.length ? h('p', { class: 'muted' }, words.noServices) : h('div', { class: 'columns' },
        h('ul', { class: 'card link-rows' }, services.map((service) => h('li', { key: service.name }, h('a', { href: `/services/${encodeURIComponent(service.name)}`, 'aria-current': service.name === this.name ? 'true' : null },
          glyph(GLYPHS[service.state] ?? 'waiting'), h('b', { class: 'grow' }, visible(service.name)), h('span', { class: `tone ${service.state === 'error' ? 'red' : ''}` }, words.serviceStates[service.state] ?? service.state.replaceAll('_', ' ')), h('span', { class: 'muted' }, words.toolCount(service.tools)))))),
        h('div', { class: 'column-main' }, this.shown ? this.detail() : h('p', { class: 'muted' }, words.chooseService)))];
  }

  detail() {
    const { service, log, error, isBusy } = this.shown;
    if (!service) return h('p', { class: 'field-error', role: 'alert' }, error);
    const { settings } = service;
    const wasStarted = service.state === 'running' || service.state === 'error';
    return [
      h('div', { class: 'buttons' }, h('h2', { class: 'form-title with-glyph' }, glyph(GLYPHS[service.state] ?? 'waiting'), visible(service.name)), h('span', { class: 'grow' }),
        h('button', { class: 'button', disabled: isBusy, onclick: () => this.act(api.startService) }, wasStarted ? words.startAgain : words.start),
        h('button', { class: 'button', disabled: isBusy || /stopped|disabled/.test(service.state), onclick: () => this.act(api.stopService) }, words.stop)),
      error && h('p', { class: 'field-error', role: 'alert' }, error),
      service.last_start?.error && h('p', { class: 'notice bad' }, glyph('failed'), h('span', null, visible(service.last_start.error))),
      h('dl', { class: 'facts wide-facts' },
        serviceFacts(settings).map(([name, ...value]) => [h('dt', null, name), h('dd', null, value)])),
      service.tools.length > 0 && h('section', null, h('h3', { class: 'section-title' }, words.tools), h('ul', { class: 'plain-list' }, service.tools.map((tool) => h('li', { key: tool.name }, h('code', null, visible(tool.name)), ' ', h('span', { class: 'muted' }, visible(tool.summary ?? '')))))),
      h('section', null, h('h3', { class: 'section-title' }, words.log, log?.at ? h('span', { class: 'count' }, ago(log.at)) : null),
        h('pre', { class: 'code', tabindex: 0, role: 'log', 'aria-live': 'off' }, h('code', null, visible([].concat(log?.stderr ?? []).join('\n')) || words.logEmpty)))];
  }

  async act(request) {
    this.shown.isBusy = true;
    this.shown.error = null;
    repaint();
    const failed = await request(this.name).then(() => null, (error) => error.message);
    // A failed start has a log, too.
    await Promise.all([this.load(), this.loadService()]);
    this.shown.error ??= failed;
    repaint();
  }
}

/** The settings of a service as names and values. Of the environment and the headers, only the names are shown. */
function serviceFacts({ command, args, url, env, headers, trigger_keywords: keywords, timeout }) {
  const code = (text) => h('code', null, visible(text));
  const names = (values) => (Array.isArray(values) ? values : Object.keys(values ?? {}));
  return [
    command && [words.serviceFacts.command, code(commandLine([command, ...(args ?? [])]))],
    url && [words.serviceFacts.url, code(url)],
    names(env).length > 0 && [words.environment, code(names(env).join(', ')), ' ', words.setNotShown],
    names(headers).length > 0 && [words.serviceFacts.headers, code(names(headers).join(', ')), ' ', words.setNotShown],
    keywords?.length > 0 && [words.serviceFacts.keywords, visible(keywords.join(', '))],
    timeout && [words.serviceFacts.timeout, words.aCall(duration(timeout))],
  ].filter(Boolean);
}
