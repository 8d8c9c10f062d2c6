/** `/services`: MCP services with their state; for the chosen one the reason in a sentence, tools and log. Values of secrets are never here. */
import { h, repaint } from '../view.js';
import { address } from '../router.js';
import { api } from '../api.js';
import { LoadedPage } from './plain.js';
import { glyph } from '../icons.js';
import { ago, visible } from '../format.js';
import { words } from '../words.js';

const GLYPHS = { running: 'succeeded', ready: 'succeeded', starting: 'running', stopped: 'cancelled', failed: 'failed', error: 'failed' };

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
          glyph(GLYPHS[service.state] ?? 'waiting'), h('b', { class: 'grow' }, visible(service.name)), h('span', { class: 'muted' }, service.state.replaceAll('_', ' ')), h('span', { class: 'muted' }, words.toolCount(service.tools)))))),
        h('div', { class: 'column-main' }, this.shown ? this.detail() : h('p', { class: 'muted' }, words.chooseService)))];
  }

  detail() {
    const { service, log, error, isBusy } = this.shown;
    if (!service) return h('p', { class: 'field-error', role: 'alert' }, error);
    const isStopped = service.state === 'stopped' || service.last_start?.error;
    const { env, ...settings } = service.settings ?? {};
    const names = Array.isArray(env) ? env : Object.keys(env ?? {});
    return [
      h('div', { class: 'buttons' }, h('h2', { class: 'form-title' }, visible(service.name)), h('span', { class: 'grow' }),
        h('button', { class: 'button', disabled: isBusy, onclick: () => this.act(api.startService) }, isStopped ? words.start : words.startAgain),
        h('button', { class: 'button', disabled: isBusy || service.state === 'stopped', onclick: () => this.act(api.stopService) }, words.stop)),
      error && h('p', { class: 'field-error', role: 'alert' }, error),
      service.last_start?.error && h('p', { class: 'notice bad' }, glyph('failed'), h('span', null, visible(service.last_start.error))),
      h('dl', { class: 'facts wide-facts' },
        Object.entries(settings).filter(([, value]) => value !== null).map(([name, value]) => [h('dt', null, name), h('dd', null, h('code', null, visible(Array.isArray(value) ? value.join(' ') : typeof value === 'object' ? JSON.stringify(value) : value)))]),
        names.length > 0 && [h('dt', null, words.environment), h('dd', null, h('code', null, names.join(', ')), ' ', words.setNotShown)]),
      h('section', null, h('h3', { class: 'section-title' }, words.tools), h('ul', { class: 'plain-list' }, service.tools.map((tool) => h('li', { key: tool.name }, h('code', null, visible(tool.name)), ' ', h('span', { class: 'muted' }, visible(tool.summary ?? '')))))),
      h('section', null, h('h3', { class: 'section-title' }, words.log, log?.at ? h('span', { class: 'count' }, ago(log.at)) : null),
        h('pre', { class: 'code', tabindex: 0, role: 'log', 'aria-live': 'off' }, h('code', null, visible([].concat(log?.stderr ?? []).join('\n')) || words.logEmpty)))];
  }

  async act(request) {
    this.shown.isBusy = true;
    this.shown.error = null;
    repaint();
    try {
      await request(this.name);
    } catch (error) {
      this.shown.error = error.message;
      this.shown.isBusy = false;
      repaint();
      return;
    }
    await Promise.all([this.load(), this.loadService()]);
  }
}
