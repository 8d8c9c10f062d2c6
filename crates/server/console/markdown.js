/**
 * A small Markdown parser that builds descriptions of nodes, never HTML: headings, lists, tables, code, quotes, emphasis, and links of `http(s)`. It knows
 * no images and no HTML, which stay text.
 */
import { h } from './view.js';
import { visible } from './format.js';

/** The deepest nesting of blocks, and the longest line in characters, that are read as Markdown: what goes beyond stays text. */
const MAX_DEPTH = 20;
const MAX_LINE = 4_000;
let depth = 0;

/** @returns {Array} descriptions of the blocks of a text */
export function markdown(text) {
  if (depth >= MAX_DEPTH) return [h('p', null, [text])];
  depth++;
  try {
    return blocksOf(text);
  } finally {
    depth--;
  }
}

function blocksOf(text) {
  const lines = visible((text ?? '').replaceAll('\r\n', '\n')).replaceAll('\t', '    ').split('\n');
  const blocks = [];
  for (let at = 0; at < lines.length; ) at = block(lines, at, blocks);
  return blocks;
}

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const isRule = (line) => /^\s*([-*_])(\s*\1){2,}\s*$/.test(line);
const isTableRule = (line) => line !== undefined && line.includes('-') && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(line);

/** Reads the block at a line, and returns the line after it. */
function block(lines, at, blocks) {
  const first = lines[at];
  if (!first.trim()) return at + 1;
  const fence = first.match(/^\s*(```+|~~~+)\s*([\w+-]*)/);
  if (fence) {
    let end = at + 1;
    while (end < lines.length && !lines[end].trim().startsWith(fence[1])) end++;
    blocks.push(h('pre', { class: 'code', tabindex: 0, 'data-language': fence[2] || null }, h('code', null, lines.slice(at + 1, end).join('\n'))));
    return end + 1;
  }
  const heading = first.match(/^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/);
  if (heading) {
    // A page has one h1, and an answer begins below the heading of its pane.
    blocks.push(h(`h${Math.min(6, heading[1].length + 2)}`, null, inline(heading[2])));
    return at + 1;
  }
  if (isRule(first)) {
    blocks.push(h('hr', null));
    return at + 1;
  }
  if (first.includes('|') && isTableRule(lines[at + 1])) return table(lines, at, blocks);
  if (ITEM.test(first)) return list(lines, at, blocks);
  if (/^\s*>/.test(first)) {
    let end = at;
    while (end < lines.length && /^\s*>/.test(lines[end])) end++;
    blocks.push(h('blockquote', null, markdown(lines.slice(at, end).map((line) => line.replace(/^\s*>\s?/, '')).join('\n'))));
    return end;
  }
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !/^\s*(```|~~~|>|#{1,6}\s)/.test(lines[end]) && !ITEM.test(lines[end]) && !isRule(lines[end])) end++;
  const parts = lines.slice(at, end).flatMap((line, index) => (index ? [h('br', null), ...inline(line.trim())] : inline(line.trim())));
  blocks.push(h('p', null, parts));
  return end;
}

function list(lines, at, blocks) {
  const [, indent, mark] = lines[at].match(ITEM);
  const isOrdered = /\d/.test(mark);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const item = lines[next].match(ITEM);
    if (!item || item[1].length !== indent.length || /\d/.test(item[2]) !== isOrdered) break;
    const inside = [item[3]];
    next++;
    // What is indented further belongs to the item, also after an empty line.
    while (next < lines.length) {
      const isInner = lines[next].search(/\S/) > indent.length;
      const isGap = !lines[next].trim() && next + 1 < lines.length && lines[next + 1].search(/\S/) > indent.length;
      if (!isInner && !isGap) break;
      inside.push(lines[next].slice(Math.min(indent.length + 2, Math.max(0, lines[next].search(/\S/)))));
      next++;
    }
    while (next < lines.length - 1 && !lines[next].trim() && ITEM.test(lines[next + 1]) && lines[next + 1].match(ITEM)[1].length === indent.length) next++;
    const content = inside.length === 1 ? inline(inside[0]) : markdown(inside.join('\n'));
    items.push(h('li', null, content));
  }
  blocks.push(isOrdered ? h('ol', { start: parseInt(mark, 10) }, items) : h('ul', null, items));
  return next;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));

function table(lines, at, blocks) {
  const align = cells(lines[at + 1]).map((rule) => (rule.endsWith(':') ? (rule.startsWith(':') ? 'center' : 'right') : 'left'));
  const row = (line, tag) => h('tr', null, cells(line).slice(0, align.length).map((cell, column) => h(tag, { class: align[column] }, inline(cell))));
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|') && lines[end].trim()) end++;
  const body = lines.slice(at + 2, end).map((line) => row(line, 'td'));
  blocks.push(h('div', { class: 'scroll-x', tabindex: 0 }, h('table', { class: 'prose-table' }, h('thead', null, row(lines[at], 'th')), h('tbody', null, body))));
  return end;
}

const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]*?\S)\*\*|__(?=\S)([\s\S]*?\S)__(?!\w)|\*(?=[^\s*])([^*]*[^\s*])\*(?!\*)|(?<!\w)_(?=[^\s_])([^_]*[^\s_])_(?!\w)|~~(?=\S)([\s\S]*?\S)~~|!?\[([^\]]*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)|(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]])|\\([\\`*_{}[\]()#+.!|~-])/g;

/** The inline parts of a line of Markdown. */
export function inline(text) {
  if (text.length > MAX_LINE) return [text];
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    const [whole, , code, strong, strong2, emphasis, emphasis2, struck, label, target, url, escaped] = match;
    if (code !== undefined) parts.push(h('code', null, code.trim() || code));
    else if (strong ?? strong2) parts.push(h('strong', null, inline(strong ?? strong2)));
    else if (emphasis ?? emphasis2) parts.push(h('em', null, inline(emphasis ?? emphasis2)));
    else if (struck) parts.push(h('s', null, inline(struck)));
    else if (target !== undefined) parts.push(!whole.startsWith('!') && isWeb(target) ? link(target, label || target) : whole);
    else if (url) parts.push(link(url, url));
    else parts.push(escaped);
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

function isWeb(target) {
  try {
    return /^https?:$/.test(new URL(target).protocol);
  } catch {
    return false;
  }
}

// The address is the title, so that a label cannot hide where a link leads.
const link = (target, label) => h('a', { href: target, title: target, target: '_blank', rel: 'noreferrer noopener' }, label);
