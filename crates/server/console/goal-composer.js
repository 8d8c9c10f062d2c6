/** The field for a new goal, with folder, model, limits and mode. What was typed survives everything but a successful start. */
import { h, repaint } from './view.js';
import { api } from './api.js';
import { href, open } from './router.js';
import { overview, refresh } from './overview.js';
import { icon } from './icons.js';
import { keep, recall } from './browser-store.js';
import { SEND_KEYS, folder } from './format.js';
import { slashMenu } from './slash-menu.js';
import { words } from './words.js';

const draft = { goal: '', workspace: recall('workspace') ?? '', model: '', mode: 'auto', iterations: '', timeout: '', cost: '', error: null, isBusy: false };

const set = (name) => (event) => {
  draft[name] = event.target.value;
  repaint();
};

/** Starts the goal, and opens its run. */
async function start(event) {
  event?.preventDefault();
  if (draft.isBusy || !draft.goal.trim()) return;
  draft.isBusy = true;
  draft.error = null;
  repaint();
  const limits = {};
  if (draft.iterations) limits.max_iterations = Number(draft.iterations);
  if (draft.timeout) limits.timeout = `${draft.timeout}m`;
  // As a text it is in dollars.
  if (draft.cost) limits.max_cost = String(draft.cost);
  try {
    const run = await api.startRun({
      goal: draft.goal,
      ...(draft.workspace && { workspace: draft.workspace }),
      ...(draft.model && { model: draft.model }),
      ...(draft.mode !== 'auto' && { mode: draft.mode }),
      ...(Object.keys(limits).length && { limits }),
    });
    keep('workspace', draft.workspace || null);
    draft.goal = '';
    refresh();
    open(`/runs/${run.run}`);
  } catch (error) {
    draft.error = error;
  }
  draft.isBusy = false;
  repaint();
}

const menu = slashMenu({ onChoose: (workflow) => open(href(`/workflows/${workflow.name}`)) });

function keydown(event) {
  if (menu.key(event, draft.goal)) return;
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) start(event);
}

/** @param {{examples: boolean}} how with `examples`, three goals of the offline model stand below */
export function goalComposer({ examples }) {
  const folders = [...new Set(overview.runs.map((run) => run.workspace))].slice(0, 20);
  const limits = [draft.cost && `$${draft.cost}`, draft.timeout && words.minutes(draft.timeout), draft.iterations && words.iterations(draft.iterations)].filter(Boolean).join(', ');
  return h('form', { class: 'composer goal-composer', onsubmit: start, 'aria-label': words.newGoal },
    menu.view(draft.goal),
    h('label', { class: 'hidden-text', for: 'composer' }, words.whatShouldBeDone),
    h('textarea', { id: 'composer', rows: 2, placeholder: words.whatShouldBeDone, value: draft.goal, oninput: set('goal'), onkeydown: keydown, ...menu.fieldProps(draft.goal) }),
    draft.error && h('p', { class: 'field-error', role: 'alert' }, draft.error.message),
    h('div', { class: 'composer-row' },
      option(icon('folder'), draft.workspace ? folder(draft.workspace) : words.serviceFolder, words.columns.folder,
        h('label', null, words.folderField, h('input', { type: 'text', list: 'folders', spellcheck: 'false', value: draft.workspace, placeholder: '/…', oninput: set('workspace') })),
        h('datalist', { id: 'folders' }, folders.map((path) => h('option', { key: path, value: path })))),
      option(null, draft.model || words.defaultModel, words.model,
        h('label', null, words.modelField, h('input', { type: 'text', spellcheck: 'false', value: draft.model, placeholder: 'offline', oninput: set('model') }))),
      option(null, limits || words.limits, words.limits,
        h('label', null, words.costField, h('input', { type: 'number', min: 0, step: 'any', value: draft.cost, oninput: set('cost') })),
        h('label', null, words.timeField, h('input', { type: 'number', min: 1, value: draft.timeout, oninput: set('timeout') })),
        h('label', null, words.iterationsField, h('input', { type: 'number', min: 1, value: draft.iterations, oninput: set('iterations') }))),
      h('label', { class: 'select' }, h('span', { class: 'hidden-text' }, words.mode),
        h('select', { value: draft.mode, onchange: set('mode') }, h('option', { value: 'auto' }, words.modes.auto), h('option', { value: 'plan' }, words.modes.plan))),
      h('span', { class: 'grow' }),
      h('button', { class: 'button primary', type: 'submit', disabled: draft.isBusy || !draft.goal.trim() }, words.start, h('kbd', { 'aria-hidden': 'true' }, SEND_KEYS))),
    examples && h('div', { class: 'examples' }, h('span', { class: 'muted' }, words.examples),
      words.exampleGoals.map((goal) => h('button', { class: 'chip', type: 'button', onclick: () => ((draft.goal = goal), repaint()) }, goal))));
}

/** A choice that opens below its chip. */
const option = (picture, text, label, ...fields) => h('details', { class: 'option' }, h('summary', { title: label }, picture, h('span', { class: 'cut' }, text), icon('down')), h('div', { class: 'popover' }, fields));

// A click elsewhere closes the choices, as menus do.
addEventListener('click', (event) => {
  for (const details of document.querySelectorAll('details.option[open]')) if (!details.contains(event.target)) details.open = false;
});
addEventListener('keydown', (event) => {
  const details = event.key === 'Escape' && event.target.closest?.('details.option[open]');
  if (details) {
    details.open = false;
    details.querySelector('summary').focus();
    event.preventDefault();
  }
});
