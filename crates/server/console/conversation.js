/** What an agent said and did, in order: time goes down. */
import { h, memo, repaint } from './view.js';
import { markdown } from './markdown.js';
import { glyph } from './icons.js';
import { callBlock } from './call-view.js';
import { isRead, prose } from './tool-text.js';
import { line, visible } from './format.js';
import { words } from './words.js';

/** Items beyond so many are shown only on demand. */
const MOST = 300;
const shownWhole = new Set();

/** @param {Map} opened which calls the user opened or closed */
export function conversation(run, agent, opened) {
  const key = `${run.id}/${agent.number}`;
  const from = shownWhole.has(key) ? 0 : Math.max(0, agent.items.length - MOST);
  const blocks = [];
  let calls = [];
  const flush = () => {
    if (calls.length) blocks.push(callCard(run, calls, opened));
    calls = [];
  };
  for (const item of agent.items.slice(from)) {
    if (item.kind === 'call') {
      const call = run.calls.get(item.effect);
      // The two calls that end the lead's and the reflector's work are shown as what they are: a plan, a verdict.
      if (call) calls.push(call);
      continue;
    }
    const said = block(item, key);
    if (said) {
      flush();
      blocks.push(said);
    }
  }
  flush();
  if (agent.writing) blocks.push(h('div', { class: 'prose small', key: 'writing', 'aria-busy': 'true' }, markdown(prose(agent.writing.text)), h('span', { class: 'caret', 'aria-hidden': 'true' })));
  return h('div', { class: 'conversation' },
    from > 0 && h('button', { class: 'quiet', onclick: () => (shownWhole.add(key), repaint()) }, words.showEarlier(from)),
    blocks,
    !blocks.length && h('p', { class: 'muted' }, agent.isEnded ? words.saidNothing : run.isRunning ? words.thinking : words.loading));
}

function block(item, key) {
  switch (item.kind) {
    case 'reply': {
      const text = prose(item.content);
      const final = finalCall(item.content);
      if (!text && !final) return null;
      return h('div', { class: 'prose small', key: `r${item.seq}` }, text && memo(`${key}/${item.seq}`, [item.content], () => h('div', null, markdown(text))), final);
    }
    case 'refused':
      return h('div', { class: 'card calls', key: `x${item.seq}` }, h('div', { class: 'call-row failed-row' }, glyph('failed'), h('b', null, visible(item.tool)), h('span', { class: 'cut' }, words.refused), h('p', { class: 'call-error' }, visible(item.error))));
    case 'guidance':
      return h('p', { class: 'said-by-user', key: `g${item.seq}` }, visible(item.guidance));
    case 'answer':
      return h('p', { class: 'said-by-user', key: `w${item.seq}` }, visible(item.answer));
    case 'error':
      return h('p', { class: 'notice bad', key: `e${item.seq}` }, glyph('failed'), h('span', null, visible(item.error)));
    default:
      return null;
  }
}

/** A plan or a verdict that a reply ends with. */
function finalCall(content) {
  const at = content.indexOf('{"tool":"submit_');
  if (at < 0) return null;
  try {
    const { tool, parameters } = JSON.parse(content.slice(at).replace(/```\s*$/, ''));
    if (tool === 'submit_plan') return h('p', { class: 'card verdict' }, glyph('succeeded'), h('span', null, words.madePlan(parameters.subtasks?.length ?? 0)), h('span', { class: 'muted' }, line(parameters.summary ?? '', 300)));
    if (tool === 'submit_reflection') return h('div', { class: 'card verdict' }, glyph(parameters.verdict === 'failed' ? 'failed' : 'succeeded'), h('b', null, words.verdicts[parameters.verdict] ?? visible(parameters.verdict)), h('div', { class: 'prose small' }, markdown(parameters.summary)));
  } catch {
    // A reply may be malformed; its agent is told, and the next one counts.
  }
  return null;
}

/** A card of calls; neighbours that only read and succeeded are one group. */
function callCard(run, calls, opened) {
  const rows = [];
  for (let at = 0; at < calls.length; ) {
    let end = at;
    while (end < calls.length && isRead(calls[end]) && calls[end].success) end++;
    if (end - at >= 4) {
      rows.push(h('details', { class: 'call-group', key: `g${calls[at].effect}` }, h('summary', { class: 'call-row' }, glyph('succeeded'), h('b', null, words.reads(end - at))), calls.slice(at, end).map((call) => callBlock(call, { opened, run }))));
      at = end;
    } else {
      rows.push(callBlock(calls[at], { opened, run }));
      at++;
    }
  }
  return h('div', { class: 'calls card', key: `c${calls[0].effect}` }, rows);
}
