/** `/workflows` by category, and `/workflows/NAME` with the form, filled from the address; beside it what will be asked. */
import { h, repaint } from '../view.js';
import { address, open } from '../router.js';
import { api } from '../api.js';
import { failure, head, loading } from '../shell.js';
import { hasWorkflows, loadWorkflows, workflows, workflowsFailed } from '../workflow-list.js';
import { glyph } from '../icons.js';
import { overview } from '../overview.js';
import { SEND_KEYS, visible } from '../format.js';
import { words } from '../words.js';

export class Workflows {
  static keepsOver = true;

  constructor() {
    this.forms = new Map();
    this.search = '';
    loadWorkflows();
  }

  get name() {
    return address().parts[1];
  }

  form(workflow) {
    let form = this.forms.get(workflow.name);
    if (!form) {
      const { query } = address();
      const values = Object.fromEntries(workflow.parameters.map((parameter) => [parameter.name, query[parameter.name] ?? parameter.default ?? '']));
      this.forms.set(workflow.name, (form = { values, workspace: query.workspace ?? '', left: new Set(), error: null, isBusy: false, copied: false }));
    }
    return form;
  }

  view() {
    const all = workflows();
    const workflow = all.find((one) => one.name === this.name);
    const error = workflowsFailed();
    return {
      title: workflow ? workflow.name : words.places.Workflows,
      main: [
        head(words.places.Workflows, h('span', { class: 'grow' }), h('label', { class: 'search' }, h('span', { class: 'hidden-text' }, words.search), h('input', { id: 'filter', type: 'search', placeholder: words.search, value: this.search, oninput: (event) => ((this.search = event.target.value), repaint()) }), h('kbd', { 'aria-hidden': 'true' }, 'F'))),
        h('div', { class: 'page', id: 'main', tabindex: -1 },
          error ? failure(error, loadWorkflows) : !hasWorkflows() ? loading()
            : h('div', { class: `columns ${workflow ? 'has-chosen' : ''}` }, this.list(all), h('div', { class: 'column-main' }, workflow ? this.chosen(workflow) : h('p', { class: 'muted' }, words.chooseWorkflow))))],
      aside: null,
    };
  }

  list(all) {
    const search = this.search.toLowerCase();
    const found = all.filter((one) => `${one.name} ${one.description}`.toLowerCase().includes(search));
    const categories = [...new Set(found.map((one) => one.category))];
    return h('div', { class: 'column-list' }, categories.map((category) => h('section', { key: category },
      h('h2', { class: 'small-title category' }, category),
      h('ul', { class: 'link-list' }, found.filter((one) => one.category === category).map((one) => h('li', { key: one.name },
        h('a', { href: `/workflows/${one.name}`, 'aria-current': one.name === this.name ? 'true' : null }, h('b', null, one.name), h('span', { class: 'muted cut' }, one.description))))))));
  }

  chosen(workflow) {
    const form = this.form(workflow);
    return h('div', { class: 'workflow', key: workflow.name },
      h('form', { class: 'workflow-form', novalidate: true, onsubmit: (event) => this.run(event, workflow, form) },
        h('h2', { class: 'form-title' }, workflow.name),
        h('p', { class: 'muted' }, workflow.description),
        h('p', null, h('code', null, workflow.usage)),
        workflow.parameters.map((parameter) => this.field(workflow, parameter, form)),
        h('label', null, words.folderField, h('input', { type: 'text', list: 'folders', spellcheck: 'false', placeholder: words.serviceFolder, value: form.workspace, oninput: (event) => ((form.workspace = event.target.value), repaint()) })),
        h('datalist', { id: 'folders' }, [...new Set(overview.runs.map((run) => run.workspace))].slice(0, 20).map((path) => h('option', { key: path, value: path }))),
        form.error && h('p', { class: 'field-error', role: 'alert' }, form.error),
        // The field keeps the focus: an error that appears when it is left would move the button away from the pointer.
        h('div', { class: 'buttons', onmousedown: (event) => event.preventDefault() },
          h('button', { class: 'button primary', type: 'submit', disabled: form.isBusy }, words.runWorkflow, h('kbd', { 'aria-hidden': 'true' }, SEND_KEYS)),
          h('button', { class: 'quiet', type: 'button', onclick: () => this.copy(workflow, form) }, form.copied ? words.copied : words.copyCommand))),
      h('section', { class: 'asked', 'aria-label': words.whatIsAsked }, h('h3', { class: 'section-title' }, words.whatIsAsked), h('p', { class: 'asked-text' }, preview(workflow, form.values))));
  }

  field(workflow, parameter, form) {
    const value = form.values[parameter.name];
    const id = `field-${parameter.name}`;
    const fault = form.left.has(parameter.name) ? faultOf(parameter, value) : null;
    const given = (next) => {
      form.values[parameter.name] = next;
      repaint();
    };
    const leave = () => {
      form.left.add(parameter.name);
      repaint();
    };
    const described = { id, 'aria-describedby': `${id}-note`, 'aria-invalid': String(Boolean(fault)), 'aria-required': String(parameter.required), onblur: leave };
    const input = parameter.choices ? h('select', { ...described, value, onchange: (event) => given(event.target.value) }, !parameter.required && parameter.default === null && h('option', { value: '' }, '–'), parameter.choices.map((choice) => h('option', { key: choice, value: choice }, choice)))
      : parameter.type === 'boolean' ? h('select', { ...described, value: String(value), onchange: (event) => given(event.target.value) }, ['true', 'false'].map((choice) => h('option', { key: choice, value: choice }, choice)))
        : h('input', { ...described, type: 'text', inputmode: /integer|number/.test(parameter.type) ? 'decimal' : null, spellcheck: 'false', value, oninput: (event) => given(event.target.value), onkeydown: (event) => (event.ctrlKey || event.metaKey) && event.key === 'Enter' && this.run(event, workflow, form) });
    return h('div', { class: 'field', key: parameter.name },
      h('label', { for: id }, h('b', null, parameter.name), parameter.required && h('span', { class: 'red', 'aria-hidden': 'true' }, ' *')),
      input,
      h('p', { id: `${id}-note`, class: fault ? 'field-error' : 'muted' }, fault ? [glyph('failed'), ' ', fault] : parameter.description));
  }

  async run(event, workflow, form) {
    event.preventDefault();
    for (const parameter of workflow.parameters) form.left.add(parameter.name);
    const wrong = workflow.parameters.find((parameter) => faultOf(parameter, form.values[parameter.name]));
    form.error = null;
    repaint();
    if (wrong) {
      document.getElementById(`field-${wrong.name}`)?.focus();
      return;
    }
    form.isBusy = true;
    try {
      const parameters = Object.fromEntries(workflow.parameters.map((parameter) => [parameter.name, typedValue(parameter, form.values[parameter.name])]).filter(([, value]) => value !== ''));
      const run = await api.runWorkflow(workflow.name, { parameters, ...(form.workspace && { workspace: form.workspace }) });
      open(`/runs/${run.run}`);
    } catch (error) {
      form.error = error.message;
    }
    form.isBusy = false;
    repaint();
  }

  /** The same call for a terminal. */
  async copy(workflow, form) {
    const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", String.raw`'\''`)}'`);
    const values = workflow.parameters.filter((parameter) => form.values[parameter.name] !== '' && form.values[parameter.name] !== parameter.default).map((parameter) => quoted(`${parameter.name}=${form.values[parameter.name]}`));
    form.copied = await navigator.clipboard.writeText(['dirigent workflow run', workflow.name, ...values].join(' ')).then(() => true, () => false);
    repaint();
  }
}

const typedValue = ({ type }, value) => (value === '' ? '' : type === 'boolean' ? String(value) === 'true' : /integer|number/.test(type) ? Number(value) : value);

/** What is wrong with a value. The service checks again, by the same rules. */
function faultOf(parameter, value) {
  const text = String(value ?? '').trim();
  if (!text) return parameter.required ? words.valueMissing : null;
  if (parameter.type === 'integer' && !/^[-+]?\d+$/.test(text)) return words.noInteger;
  if (parameter.type === 'number' && Number.isNaN(Number(text))) return words.noNumber;
  if (parameter.pattern) {
    try {
      if (!new RegExp(`^(?:${parameter.pattern})$`, 'u').test(text)) return words.noMatch(parameter.pattern);
    } catch {
      // The pattern is one of Rust; the few that JavaScript does not know are checked by the service alone.
    }
  }
  return null;
}

/** The template with its values; conditional parts are shown when their parameter has a value. */
function preview({ template }, values) {
  const conditions = (template ?? '').replace(/\{%\s*if (not )?(\w+)\s*%\}([\s\S]*?)(?:\{%\s*else\s*%\}([\s\S]*?))?\{%\s*endif\s*%\}/g, (_, not, name, yes, no) => (Boolean(values[name]) !== Boolean(not) ? yes : no ?? ''));
  return conditions.trim().split(/(\{\{\s*\w+\s*\}\})/).map((part, at) => {
    const name = /^\{\{\s*(\w+)\s*\}\}$/.exec(part)?.[1];
    return name ? h('b', { key: at }, visible(values[name]) || `⟨${name}⟩`) : visible(part);
  });
}
