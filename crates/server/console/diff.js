/** Unified diffs: reads them, marks the words that differ, and shows them in one column or two. */
import { h } from './view.js';
import { visible } from './format.js';
import { words } from './words.js';

/** @typedef {{kind: 'hunk'|'same'|'add'|'del'|'note', text: string, old?: number, new?: number, marks?: Array<[number, number]>}} DiffLine */

/** Reads the diff of one file. @returns {DiffLine[]} */
export function readDiff(text) {
  const lines = [];
  let [before, after] = [0, 0];
  for (const raw of (text ?? '').split('\n')) {
    const hunk = raw.match(/^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      lines.push({ kind: 'hunk', text: raw });
    } else if (!before && !after && !lines.length) {
      // The head names the file, which stands above; only what says more than that is a note.
      if (/^(new file|deleted file|rename|Binary|GIT binary|old mode|new mode)/.test(raw)) lines.push({ kind: 'note', text: raw });
    } else if (raw.startsWith('+')) lines.push({ kind: 'add', text: raw.slice(1), new: after++ });
    else if (raw.startsWith('-')) lines.push({ kind: 'del', text: raw.slice(1), old: before++ });
    else if (raw.startsWith(' ')) lines.push({ kind: 'same', text: raw.slice(1), old: before++, new: after++ });
    else if (raw.startsWith('\\')) lines.push({ kind: 'note', text: raw.slice(2) });
  }
  markWords(lines);
  return lines;
}

/** Counts added and removed lines. */
export function count(text) {
  const lines = readDiff(text);
  return { added: lines.filter((line) => line.kind === 'add').length, removed: lines.filter((line) => line.kind === 'del').length };
}

/** Marks in pairs of removed and added lines what differs between their equal beginning and end. */
function markWords(lines) {
  for (let at = 0; at < lines.length; ) {
    if (lines[at].kind !== 'del') {
      at++;
      continue;
    }
    let added = at;
    while (lines[added]?.kind === 'del') added++;
    let end = added;
    while (lines[end]?.kind === 'add') end++;
    if (end - added === added - at) for (let pair = 0; pair < added - at; pair++) markPair(lines[at + pair], lines[added + pair]);
    at = end > added ? end : added;
  }
}

function markPair(removed, added) {
  const [a, b] = [removed.text, added.text];
  const word = /\w/;
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  // Whole words, as half of one says nothing.
  while (head > 0 && word.test(a[head - 1]) && (word.test(a[head] ?? '') || word.test(b[head] ?? ''))) head--;
  while (tail > 0 && word.test(a[a.length - tail]) && (word.test(a[a.length - tail - 1] ?? '') || word.test(b[b.length - tail - 1] ?? ''))) tail--;
  if (head === 0 && tail === 0) return;
  if (a.length - tail > head) removed.marks = [[head, a.length - tail]];
  if (b.length - tail > head) added.marks = [[head, b.length - tail]];
}

const marked = (line) => {
  if (!line.marks) return visible(line.text);
  const [[from, to]] = line.marks;
  return [visible(line.text.slice(0, from)), h('mark', null, visible(line.text.slice(from, to))), visible(line.text.slice(to))];
};

const SIGN = { add: '+', del: '−' };
const LIMIT = 400;

/**
 * Shows a diff. At most 400 lines until `showAll`.
 * @param {{split?: boolean, all?: boolean, showAll?: () => void}} how
 */
export function diffView(text, { split = false, all = false, showAll } = {}) {
  const lines = readDiff(text);
  const shown = all ? lines : lines.slice(0, LIMIT);
  const rows = split ? splitRows(shown) : shown.map(unifiedRow);
  return h('div', { class: `diff ${split ? 'split' : ''}`, role: 'group', 'aria-label': words.diff, tabindex: 0 },
    h('div', { class: 'diff-lines' }, rows),
    shown.length < lines.length && h('button', { class: 'quiet', onclick: showAll }, words.showAllLines(lines.length)));
}

function unifiedRow(line, at) {
  if (line.kind === 'hunk' || line.kind === 'note') return h('div', { key: at, class: `diff-line ${line.kind}` }, h('span', { class: 'diff-text' }, visible(line.text)));
  return h('div', { key: at, class: `diff-line ${line.kind}` },
    h('span', { class: 'diff-number' }, line.old ?? ''), h('span', { class: 'diff-number' }, line.new ?? ''),
    h('span', { class: 'diff-sign' }, SIGN[line.kind] ?? ''), h('span', { class: 'diff-text' }, marked(line)));
}

function splitRows(lines) {
  const rows = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    if (line.kind === 'del' || line.kind === 'add') {
      const [removed, added] = [[], []];
      while (lines[at]?.kind === 'del') removed.push(lines[at++]);
      while (lines[at]?.kind === 'add') added.push(lines[at++]);
      for (let row = 0; row < Math.max(removed.length, added.length); row++) rows.push([removed[row], added[row]]);
    } else {
      rows.push(line.kind === 'same' ? [line, line] : [line]);
      at++;
    }
  }
  const half = (line, number) => [
    h('span', { class: `diff-number ${line?.kind ?? 'none'}` }, line ? line[number] : ''),
    h('span', { class: `diff-text ${line?.kind ?? 'none'}` }, line ? marked(line) : '')];
  return rows.map(([left, right], at) => (right === undefined && left && left.kind !== 'del'
    ? h('div', { key: at, class: `diff-line ${left.kind}` }, h('span', { class: 'diff-text' }, visible(left.text)))
    : h('div', { key: at, class: 'diff-pair' }, half(left, 'old'), half(right, 'new'))));
}
