/** The usage of today and of seven days, for Home. A service that does not add up usage has no card. */
import { h, repaint } from './view.js';
import { api } from './api.js';
import { cost, tokens } from './format.js';
import { language, words } from './words.js';

const DAY = 86_400_000;
const DAYS = 7;
const HEIGHT = 64;
const AGAIN = 60_000;

let usage = null;
let hasFailed = false;
let asked = 0;

function load() {
  if (asked && Date.now() - asked < AGAIN) return;
  asked = Date.now();
  const from = Date.now() - DAYS * DAY;
  Promise.all(['day', 'model'].map((by) => api.usage({ by, from }))).then(([days, models]) => {
    usage = { days, models };
    hasFailed = false;
    repaint();
  }, () => {
    hasFailed = true;
    repaint();
  });
}

export function usageCard() {
  load();
  // Its place is kept while it loads, so that what is below does not move under the pointer.
  if (!usage) return hasFailed ? null : card(null);
  return card(body());
}

const card = (content) => h('section', { class: 'usage-card', 'aria-label': words.places.Usage },
  h('div', { class: 'section-head' }, h('h2', { class: 'section-title' }, words.places.Usage), h('span', { class: 'grow' }), h('a', { href: '/usage', class: 'muted' }, words.byModelAndAgent)),
  h('div', { class: 'card usage-body' }, content));

function body() {
  const byDay = new Map(usage.days.rows.map((row) => [row.key, row]));
  const days = Array.from({ length: DAYS }, (_, at) => new Date(Date.now() - (DAYS - 1 - at) * DAY).toISOString().slice(0, 10));
  const { total } = usage.days;
  // Where nothing costs, as with models of one's own, tokens tell more.
  const hasCost = total.cost > 0;
  const size = (row) => (row ? (hasCost ? row.cost ?? 0 : row.input_tokens + row.output_tokens) : 0);
  const text = (row) => (hasCost ? cost(row?.cost) : words.tokenCount(tokens(size(row))));
  const most = Math.max(1, ...days.map((day) => size(byDay.get(day))));
  return [
    h('p', { class: 'usage-total' }, h('b', { class: 'form-title' }, text(byDay.get(days.at(-1)))), ' ', h('span', { class: 'muted' }, words.today), h('span', { class: 'grow' }), h('span', { class: 'muted' }, words.inSevenDays(text(total)))),
    h('div', { class: 'usage-bars', 'aria-hidden': 'true' }, days.map((day) => h('span', { key: day, title: `${day}: ${text(byDay.get(day))}` },
      h('span', { class: 'usage-bar', style: { height: `${Math.round((size(byDay.get(day)) / most) * HEIGHT)}px` } }),
      h('span', { class: 'muted' }, new Date(`${day}T12:00:00Z`).toLocaleDateString(language(), { weekday: 'narrow' }))))),
    h('ul', { class: 'plain-list' }, usage.models.rows.slice(0, 5).map((row) => h('li', { key: row.key, class: 'usage-model' }, h('span', { class: 'grow cut' }, row.key), h('span', { class: 'muted' }, words.tokenCount(tokens(row.input_tokens + row.output_tokens))), h('span', { class: 'figure' }, cost(row.cost)))))];
}
