/** The tab Summary of a run that ended: the answer, what confirms it, what is left, and the changes. */
import { h, memo, repaint } from './view.js';
import { markdown } from './markdown.js';
import { glyph } from './icons.js';
import { duration, visible } from './format.js';
import { failureText } from './inspector.js';
import { words } from './words.js';

const limit = { value: '' };

export function summary(page) {
  const { run } = page;
  const { report } = run;
  if (!report) return null;
  return h('div', { class: 'page summary' },
    h('div', { class: 'summary-columns' },
      h('div', { class: 'summary-words' },
        h('div', { class: 'prose' }, report.summary ? memo(`summary/${run.id}`, [report.summary], () => h('div', null, markdown(report.summary))) : h('p', { class: 'muted' }, words.noSummary)),
        report.answer && h('section', null, h('h2', { class: 'section-title' }, words.answerOfLead), h('div', { class: 'prose' }, markdown(report.answer))),
        reason(report),
        remaining(report),
        resume(page)),
      confirmed(run, report)),
    report.changed?.length || report.changed_during_commands?.length ? page.changes.view() : null);
}

function reason({ reason: given }) {
  const error = given?.error ?? given?.failed?.error;
  return error && h('p', { class: 'notice bad' }, glyph('failed'), h('span', null, failureText(error)));
}

function remaining({ remaining: left }) {
  if (!left?.length) return null;
  return h('section', null, h('h2', { class: 'section-title' }, words.remaining), h('ul', { class: 'plain-list' }, left.map((one, at) =>
    h('li', { key: at }, visible(one)))));
}

/** A run that ended at a limit goes on with a higher one. */
function resume(page) {
  const { state } = page.run.info;
  if (!/_limit$|budget/.test(state)) return null;
  const name = { iteration_limit: 'max_iterations', time_limit: 'timeout' }[state] ?? { tokens: 'max_tokens', cost: 'max_cost', model_calls: 'max_model_calls' }[page.run.report.reason?.budget ?? page.run.report.reason?.budget_exhausted?.budget] ?? 'max_tokens';
  const submit = (event) => {
    event.preventDefault();
    page.resume(limit.value ? { limits: { [name]: name === 'timeout' ? `${limit.value}m` : name === 'max_cost' ? String(limit.value) : Number(limit.value) } } : {});
  };
  return h('form', { class: 'resume-form', onsubmit: submit },
    h('label', null, words.limitNames[name], h('input', { type: 'number', min: 0, step: 'any', value: limit.value, oninput: (event) => ((limit.value = event.target.value), repaint()) })),
    h('button', { class: 'button primary', type: 'submit' }, words.resume));
}

function confirmed(run, report) {
  if (!report.confirmed_by?.length) return null;
  return h('section', { class: 'confirmed', 'aria-label': words.confirmedBy }, h('h2', { class: 'section-title' }, words.confirmedBy),
    h('ul', { class: 'card' }, report.confirmed_by.map((one) => {
      const call = run.calls.get(one.call);
      const notes = [one.exit_code !== undefined && words.exit(one.exit_code), call?.duration !== undefined && duration(call.duration)].filter(Boolean).join(' · ');
      return h('li', { key: one.call }, glyph(one.exit_code ? 'failed' : 'succeeded'), h('span', { class: 'confirmed-what' }, h('code', null, visible(one.command)), one.line && h('span', { class: 'muted cut' }, visible(one.line)), one.failed_before && h('span', { class: 'muted' }, words.failedBefore)), h('span', { class: 'muted' }, notes));
    })),
    h('p', { class: 'muted' }, words.namedByReflector));
}
