/** The changes of a run to files: the list, the diff, the patch to copy, and undo. */
import { h, memo, repaint } from './view.js';
import { api } from './api.js';
import { count, diffView } from './diff.js';
import { icon } from './icons.js';
import { failure, loading } from './shell.js';
import { visible } from './format.js';
import { words } from './words.js';

export class Changes {
  constructor(run) {
    this.run = run;
    this.error = null;
    this.file = null;
    this.isSplit = false;
    this.whole = new Set();
    this.undo = null;
    this.copied = false;
  }

  /** The diff is loaded when it is first shown, and again after the run has changed a file. */
  load() {
    if (this.isLoading) return;
    this.isLoading = true;
    api.diff(this.run.id).then((diff) => {
      this.run.diff = diff;
      this.error = null;
    }, (error) => {
      this.error = error;
      this.run.diff = { files: [], commands: [] };
    }).finally(() => {
      this.isLoading = false;
      repaint();
    });
  }

  view() {
    const { diff } = this.run;
    if (!diff) {
      this.load();
      return loading(5);
    }
    if (this.error) return failure(this.error, () => ((this.run.diff = null), this.load()));
    const files = [
      ...diff.files.map((file) => ({ ...file, id: file.path })),
      ...(diff.commands ?? []).flatMap((command) => command.files.map((file) => ({ ...file, command: command.command, id: `${command.call}/${file.path}` }))),
    ].map((file) => ({ ...file, ...memo(`sum/${this.run.id}/${file.id}`, [file.diff], () => count(file.diff)) }));
    if (!files.length) return h('p', { class: 'muted' }, words.noChanges);
    const chosen = files.find((file) => file.id === this.file) ?? files[0];
    const sum = (name) => files.reduce((total, file) => total + file[name], 0);
    return h('section', { class: 'changes', 'aria-label': words.tabs.changes },
      h('div', { class: 'section-head' },
        h('h2', { class: 'section-title' }, words.tabs.changes), h('span', { class: 'muted' }, words.files(files.length)), h('span', { class: 'green' }, `+${sum('added')}`), h('span', { class: 'red' }, `−${sum('removed')}`),
        h('span', { class: 'grow' }),
        h('div', { class: 'segments not-phone', role: 'group', 'aria-label': words.diff }, [false, true].map((split) => h('button', { key: String(split), 'aria-pressed': String(this.isSplit === split), onclick: () => ((this.isSplit = split), repaint()) }, split ? words.split : words.unified))),
        h('button', { class: 'button small', onclick: () => this.copy() }, icon('copy'), this.copied ? words.copied : words.copyPatch),
        h('div', { class: 'anchor' },
          h('button', { class: 'button small', id: 'undo', disabled: this.run.isRunning, title: this.run.isRunning ? words.cancelFirst : null, 'aria-expanded': String(Boolean(this.undo)), onclick: () => (this.undo ? this.closeUndo() : this.preview({})) }, icon('undo'), words.undo),
          this.undo && this.undoDialog())),
      h('div', { class: 'card diff-card' },
        h('ul', { class: 'file-list', 'aria-label': words.fileList }, files.map((file) => h('li', { key: file.id },
          h('button', { class: 'file', 'aria-pressed': String(file === chosen), title: visible(file.path), onclick: () => ((this.file = file.id), repaint()) },
            h('span', { class: 'cut path' }, h('bdi', null, visible(file.path))), h('span', { class: 'green' }, `+${file.added}`), h('span', { class: 'red' }, `−${file.removed}`))))),
        h('div', { class: 'diff-pane' },
          h('div', { class: 'diff-head' }, h('h3', null, visible(chosen.path)), chosen.command && h('span', { class: 'muted' }, words.changedWhile(visible(chosen.command)))),
          chosen.diff ? memo(`diff/${this.run.id}/${chosen.id}`, [chosen.diff, this.isSplit, this.whole.has(chosen.id)], () => diffView(chosen.diff, { split: this.isSplit, all: this.whole.has(chosen.id), showAll: () => (this.whole.add(chosen.id), repaint()) }))
            : h('p', { class: 'muted' }, words.noDiff))));
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.run.diff.diff ?? this.run.diff.files.map((file) => file.diff).join(''));
      this.copied = true;
      setTimeout(() => ((this.copied = false), repaint()), 2000);
    } catch {
      this.error = null;
    }
    repaint();
  }

  /* Undo */

  async preview(options) {
    this.undo = { options, plan: null, error: null, isBusy: false, done: null };
    repaint();
    try {
      this.undo.plan = await api.undoPreview(this.run.id, options);
    } catch (error) {
      this.undo.error = error.message;
    }
    repaint();
    requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById('undo-dialog')?.focus()));
  }

  closeUndo() {
    this.undo = null;
    repaint();
    requestAnimationFrame(() => document.getElementById('undo')?.focus());
  }

  undoDialog() {
    const { plan, error, done, options } = this.undo;
    const keydown = (event) => {
      if (event.key !== 'Escape') return;
      event.preventDefault();
      event.stopPropagation();
      this.closeUndo();
    };
    return h('div', { class: 'popover undo-dialog', id: 'undo-dialog', role: 'dialog', tabindex: -1, 'aria-label': words.undo, onkeydown: keydown },
      !plan ? (error ? h('p', { class: 'field-error', role: 'alert' }, error) : h('p', { class: 'muted' }, words.loading))
        : done ? this.undoDone(done) : [
          h('h3', null, plan.steps.length ? words.putBack(plan.steps.length) : words.nothingToUndo),
          plan.steps.length > 0 && !plan.refused.length && h('p', null, words.nothingLost),
          plan.steps.length > 0 && h('pre', { class: 'code', tabindex: 0 }, h('code', null, plan.steps.map(stepText).join('\n'))),
          plan.refused.length > 0 && h('div', { class: 'notice bad' }, h('div', null, h('b', null, words.refusedFiles), h('ul', { class: 'plain-list' }, plan.refused.map((one, at) => h('li', { key: at }, h('code', null, visible(one.path)), ' ', one.reason !== 'changed' && visible(typeof one.reason === 'string' ? one.reason.replaceAll('_', ' ') : failureText(one.reason))))))),
          plan.refused.length > 0 && !options.skip_refused && h('label', { class: 'choice' }, h('input', { type: 'checkbox', onchange: () => this.preview({ ...options, skip_refused: true }) }), words.leaveOut),
          notUndone(plan),
          error && h('p', { class: 'field-error', role: 'alert' }, error),
          h('div', { class: 'buttons' },
            plan.steps.length > 0 && h('button', { class: 'button primary', disabled: this.undo.isBusy || (plan.refused.length > 0 && !options.skip_refused), onclick: () => this.apply() }, words.undoFiles(plan.steps.length)),
            h('button', { class: 'quiet', onclick: () => this.closeUndo() }, words.keepThem))]);
  }

  async apply() {
    this.undo.isBusy = true;
    repaint();
    try {
      this.undo.done = await api.undo(this.run.id, this.undo.options);
    } catch (error) {
      this.undo.error = error.message;
      this.undo.isBusy = false;
    }
    repaint();
  }

  undoDone({ done, failed }) {
    return [
      h('p', { role: 'status' }, words.undone((done ?? []).length)),
      failed?.length > 0 && h('ul', { class: 'plain-list red' }, failed.map((one, at) => h('li', { key: at }, visible(typeof one === 'string' ? one : JSON.stringify(one))))),
      h('div', { class: 'buttons' }, h('button', { class: 'button', onclick: () => this.closeUndo() }, words.close))];
  }
}

function failureText(reason) {
  return reason ? Object.values(reason).filter((value) => typeof value === 'string').join(': ').replaceAll('_', ' ') : '';
}

const stepText = (step) => visible(`${(words.undoSteps[step.action] ?? step.action).padEnd(9)} ${step.path ?? step.from ?? ''}${step.to ? ` → ${step.to}` : ''}${step.changed_by_others ? `  (${words.changedByOthers})` : ''}`);

/** What an undo does not undo. */
function notUndone(plan) {
  const commands = [...new Set((plan.other_changes ?? []).map((change) => change.command ?? change.table ?? change.url).filter(Boolean))];
  return commands.length > 0 && h('p', { class: 'muted' }, words.notUndone, ' ', commands.slice(0, 6).map((command, at) => [at ? ', ' : '', h('code', null, visible(command))]));
}
