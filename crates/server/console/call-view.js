/** One call in a row that opens: a failed one is open, an edit shows its diff, a long result its first 20 lines. */
import { h, memo, repaint } from './view.js';
import { glyph, icon } from './icons.js';
import { count, diffView } from './diff.js';
import { callSummary, callText } from './tool-text.js';
import { duration, line, number, visible } from './format.js';
import { words } from './words.js';

const MOST = 40;
const FIRST = 20;
const whole = new Set();

/** @param {{opened: Map, run: Object, isAlone?: boolean}} how `opened` has what the user opened and closed */
export function callBlock(call, { opened, run, isAlone = false }) {
  const state = call.isPlanned ? 'waiting' : call.success === undefined ? 'running' : call.success ? 'succeeded' : 'failed';
  const diffs = (call.changes ?? []).filter((change) => change.diff);
  const isOpen = opened.get(call.effect) ?? (state === 'failed' || diffs.length > 0 || isAlone);
  if (isOpen && call.success !== undefined && call.output === undefined && !diffs.length && !call.isPlanned) run.loadOutput(call);
  const toggle = () => {
    opened.set(call.effect, !isOpen);
    repaint();
  };
  return h('div', { class: 'call-item', key: call.effect },
    h('button', { class: 'call-row', 'aria-expanded': String(isOpen), onclick: toggle },
      glyph(state, words.taskStates[state]), h('b', null, visible(call.tool)), h('code', { class: 'cut' }, line(callSummary(call.tool, call.parameters), 160)),
      h('span', { class: 'muted note' }, note(call, diffs)), icon(isOpen ? 'down' : 'right')),
    isOpen && h('div', { class: 'call-body' }, body(call, diffs)));
}

function note(call, diffs) {
  const parts = [];
  const exit = (call.changes ?? []).find((change) => change.change === 'process_exited');
  if (exit && exit.code !== 0) parts.push(exit.code === null ? words.bySignal : words.exit(exit.code));
  if (diffs.length) {
    const sums = diffs.map((change) => memo(`count/${call.effect}/${change.path}`, [change.diff], () => count(change.diff)));
    parts.push(`+${sums.reduce((sum, one) => sum + one.added, 0)} −${sums.reduce((sum, one) => sum + one.removed, 0)}`);
  } else if (call.output && call.success) parts.push(words.lines(call.output.split('\n').length));
  if (call.duration !== undefined) parts.push(duration(call.duration));
  return parts.join(' · ');
}

function body(call, diffs) {
  const { kind, text, rest } = callText(call.tool, call.parameters);
  const output = call.output ?? call.error ?? '';
  return [
    h('pre', { class: `code parameters ${kind}`, tabindex: 0 }, h('code', null, visible(kind === 'command' ? `$ ${text}` : kind === 'json' ? compact(call.parameters) : text), Object.keys(rest).length ? `\n${visible(compact(rest))}` : '')),
    diffs.map((change) => h('div', { key: change.path ?? change.from, class: 'call-diff' }, h('p', { class: 'muted file' }, visible(change.path ?? '')), memo(`diff/${call.effect}/${change.path}`, [change.diff, whole.has(`${call.effect}/${change.path}`)], () => diffView(change.diff, { all: whole.has(`${call.effect}/${change.path}`), showAll: () => (whole.add(`${call.effect}/${change.path}`), repaint()) })))),
    call.error && call.output && h('p', { class: 'call-error' }, visible(call.error)),
    output.trim() && !diffs.length && result(call, output),
    call.isOutputAsked && call.output === undefined && h('p', { class: 'muted file' }, words.loading),
  ];
}

/** Parameters a line each, which reads better than JSON. */
const compact = (parameters) => Object.entries(parameters ?? {}).map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`).join('\n');

function result(call, output) {
  const lines = output.replace(/\n$/, '').split('\n');
  const isCut = lines.length > MOST && !whole.has(call.effect);
  return h('div', { class: 'result' },
    h('pre', { class: `code ${call.success === false ? 'failed-text' : ''}`, tabindex: 0 }, h('code', null, visible((isCut ? lines.slice(0, FIRST) : lines).join('\n')))),
    isCut && h('button', { class: 'quiet', onclick: () => (whole.add(call.effect), repaint()) }, words.showAllLines(number(lines.length))));
}
