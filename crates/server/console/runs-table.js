/** The table of runs with its filters; the filter is in the address. */
import { h, repaint } from './view.js';
import { address, href, open, replace } from './router.js';
import { overview, waitingIn } from './overview.js';
import { glyph, icon } from './icons.js';
import { runState } from './states.js';
import { ago, cost, duration, folder, line, shortId } from './format.js';
import { loading } from './shell.js';
import { words } from './words.js';

/** The filters: their name in the address, and which runs they let through. */
const FILTERS = {
  all: () => true,
  running: (run) => run.state === 'running',
  waits: (run) => run.state === 'user_required' || Boolean(waitingIn(run.run)),
  achieved: (run) => run.state === 'goal_achieved',
  failed: (run) => run.state === 'failed',
  limit: (run) => /_limit$|budget/.test(run.state),
  cancelled: (run) => run.state === 'cancelled' || run.state === 'interrupted',
};

const PAGE = 50;

/** The order in which rows stood while the pointer or the focus is among them: rows then keep their place. */
let held = null;
let isHeld = false;

function ordered(runs) {
  if (!isHeld || !held) {
    held = runs.map((run) => run.run);
    return { rows: runs, changed: 0 };
  }
  const byId = new Map(runs.map((run) => [run.run, run]));
  const rows = held.map((id) => byId.get(id)).filter(Boolean);
  return { rows, changed: runs.filter((run) => !held.includes(run.run)).length };
}

const hold = (holds) => () => {
  isHeld = holds;
  if (!holds) repaint();
};

/** @param {{path: string, limit?: number}} where the address that has the filter */
export function runsTable({ path, limit = 100 }) {
  const { query } = address();
  const state = query.state in FILTERS ? query.state : 'all';
  const search = (query.q ?? '').toLowerCase();
  const found = search ? overview.runs.filter((run) => [run.goal, run.workspace, run.run].some((text) => text?.toLowerCase().includes(search))) : overview.runs;
  const matching = found.filter(FILTERS[state]);
  const count = Math.min(limit, Number(query.show) || PAGE);
  const { rows, changed } = ordered(matching.slice(0, count));
  return h('section', { class: 'runs', 'aria-label': words.places.Runs },
    h('div', { class: 'section-head' },
      h('h2', { class: 'section-title' }, words.places.Runs),
      h('div', { class: 'filters', role: 'group', 'aria-label': words.filter },
        Object.keys(FILTERS).map((name) => {
          const number = found.filter(FILTERS[name]).length;
          if (!number && name !== 'all' && name !== state) return null;
          return h('a', { key: name, class: 'chip', 'data-replace': '', href: href(path, { ...query, state: name === 'all' ? '' : name }), 'aria-current': name === state ? 'true' : null }, `${words.filters[name]} ${number}`);
        })),
      h('label', { class: 'search' }, icon('search'), h('span', { class: 'hidden-text' }, words.searchRuns),
        h('input', { id: 'filter', type: 'search', placeholder: words.searchRuns, value: query.q ?? '', oninput: (event) => replace(href(path, { ...query, q: event.target.value })) }),
        h('kbd', { 'aria-hidden': 'true' }, 'F'))),
    !overview.loaded ? loading(6)
        : !overview.runs.length ? null
          : !rows.length ? h('p', { class: 'muted' }, words.noneMatch)
            : table(rows),
    changed > 0 && h('button', { class: 'quiet', onclick: () => ((held = null), repaint()) }, words.changedSort(changed)),
    rows.length < matching.length && h('a', { class: 'quiet', 'data-replace': '', href: href(path, { ...query, show: count + PAGE }) }, words.showMore));
}

function table(rows) {
  const hasCost = rows.some((run) => run.usage?.cost);
  const hasSubtasks = rows.some((run) => run.subtasks);
  return h('div', { class: 'card table-card', onmouseenter: hold(true), onmouseleave: hold(false), onfocusin: hold(true), onfocusout: hold(false) },
    h('table', { class: 'rows' },
      h('thead', null, h('tr', null,
        h('th', { scope: 'col' }, words.columns.goal), h('th', { scope: 'col', class: 'wide-only' }, words.columns.folder), h('th', { scope: 'col' }, words.columns.state),
        hasSubtasks && h('th', { scope: 'col', class: 'wide-only' }, words.columns.subtasks),
        h('th', { scope: 'col', class: 'figure' }, words.columns.time), hasCost && h('th', { scope: 'col', class: 'figure wide-only' }, words.columns.cost), h('th', { scope: 'col', class: 'figure wide-only' }, words.columns.last))),
      h('tbody', null, rows.map((run) => row(run, hasSubtasks, hasCost)))));
}

function row(run, hasSubtasks, hasCost) {
  const state = runState(run, waitingIn(run.run));
  const to = `/runs/${run.run}`;
  const time = (run.ended_at ?? Date.now()) - run.created_at;
  // The whole row opens; the link in it is what keys and readers use.
  return h('tr', { key: run.run, onclick: (event) => !event.target.closest('a') && open(to) },
    h('td', { class: 'goal' }, glyph(state.glyph), h('a', { href: to, title: `${line(run.goal, 400)} · ${shortId(run.run)}` }, line(run.goal, 200) || shortId(run.run))),
    h('td', { class: 'wide-only muted', title: run.workspace }, folder(run.workspace)),
    h('td', { class: `tone ${state.tone}` }, state.text),
    hasSubtasks && h('td', { class: 'wide-only muted' }, doneText(run)),
    h('td', { class: 'figure muted' }, duration(time)),
    hasCost && h('td', { class: 'figure wide-only' }, cost(run.usage?.cost)),
    h('td', { class: 'figure wide-only muted' }, ago(run.ended_at ?? run.created_at)));
}

/** How many sub-tasks of the plan succeeded; the list has them of active runs. */
function doneText({ subtasks, iteration }) {
  const total = Object.values(subtasks ?? {}).reduce((sum, count) => sum + count, 0);
  return total ? `${words.doneOf(subtasks.succeeded ?? 0, total)}${iteration > 1 ? ` · ${words.iteration(iteration)}` : ''}` : '';
}
