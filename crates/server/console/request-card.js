/**
 * The card of a call that waits for approval, or of a question. What is shown is what runs: the call stands in full, signs that cannot be seen are written as
 * numbers, and the decision carries the digest of the call that was shown.
 */
import { h, repaint } from './view.js';
import { api } from './api.js';
import { refresh } from './overview.js';
import { glyph } from './icons.js';
import { inline } from './markdown.js';
import { callText, commandLine } from './tool-text.js';
import { SEND_KEYS, folder, until, visible } from './format.js';
import { hasSingleKeys } from './keys.js';
import { planCard } from './plan-card.js';
import { words } from './words.js';

/** A card that appears under the pointer or under typing decides nothing. */
const GUARD = 600;
/** Lines and signs of a call that are shown before "Show the rest". */
const LINES = 60;
const SIGNS = 6000;
/** More sub-tasks that follow than this are counted, not named. */
const MOST_NAMES = 8;

/** What the page knows of each card: drafts survive that the card is drawn anew. Keyed by run, effect and digest. */
const cards = new Map();
let focused = null;

function cardOf(run, item) {
  const key = `${run}/${item.effect}/${item.digest ?? ''}`;
  let card = cards.get(key);
  if (!card) cards.set(key, (card = { key, shownAt: performance.now(), mode: null, text: '', edited: '', choice: null, isWhole: false, isBusy: false, error: null, outcome: null, rule: null }));
  return card;
}

const isGuarded = (card) => performance.now() - card.shownAt < GUARD;

/**
 * @param {{run: string, state: string, item: Object, conversation?: string, isFirst?: boolean, dependents?: string[], onDecided?: () => void}} given
 */
export function requestCard(given) {
  const card = cardOf(given.run, given.item);
  // Buttons become active by themselves once the card was there long enough.
  if (isGuarded(card) && !card.timer) card.timer = setTimeout(repaint, GUARD + 20);
  const isQuestion = given.item.kind === 'question';
  const expired = given.item.expires_at && given.item.expires_at < Date.now();
  const isMain = focused === card.key || (focused === null && given.isFirst) || !cards.has(focused);
  return h('article', {
    key: card.key,
    class: `request ${isMain ? 'is-main' : ''} ${given.item.decision || expired ? 'is-over' : ''}`,
    tabindex: 0,
    'aria-label': isQuestion ? words.askedBy(given.item.agent ?? words.theRun) : words.wantsToUse(given.item.agent ?? words.thePlan, given.item.tool),
    onfocusin: () => focus(card),
    onpointerdown: () => focus(card),
    onkeydown: (event) => keydown(event, given, card, isQuestion),
  }, isQuestion ? question(given, card, isMain) : approval(given, card, isMain, expired));
}

function focus(card) {
  if (focused === card.key) return;
  focused = card.key;
  repaint();
}

function head(state, title, note, effect) {
  return h('header', { class: 'request-head' }, glyph(state), h('div', null, h('h3', null, title), note && h('p', { class: 'muted' }, note)), h('code', { class: 'handle' }, effect));
}

function approval(given, card, isMain, expired) {
  const { item } = given;
  const { kind, text, rest } = callText(item.tool, item.parameters);
  const isPlan = item.tool === 'submit_plan';
  const isCut = !isPlan && !card.isWhole && (text.length > SIGNS || text.split('\n').length > LINES);
  const shown = isCut ? text.slice(0, SIGNS).split('\n').slice(0, LINES).join('\n') : text;
  const who = item.agent ?? words.thePlan;
  const facts = [
    item.workspace && [kind === 'command' ? words.facts.in : words.facts.folder, h('code', null, visible(item.workspace))],
    item.parameters?.connection && [words.facts.connection, h('code', null, visible(item.parameters.connection))],
    item.network !== undefined && [words.facts.network, item.network ? words.facts.yes : words.facts.no],
    ...Object.entries(rest).filter(([name]) => name !== 'connection').map(([name, value]) => [name, h('code', null, visible(typeof value === 'string' ? value : JSON.stringify(value)))]),
    given.dependents?.length && given.dependents.length <= MOST_NAMES ? [words.facts.then, given.dependents.join(', ')] : item.dependents > 0 && [words.facts.then, words.dependents(item.dependents)],
    item.expires_at && [words.facts.expires, words.in(until(item.expires_at))],
    item.digest && [words.facts.digest, h('code', null, item.digest.slice(0, 12))],
  ].filter(Boolean);
  return [
    head('needs', [h('b', null, who), ' ', isPlan ? words.proposesPlan : [words.wants, ' ', h('b', null, item.tool)]], item.subtask && words.forSubtask(item.subtask), item.effect),
    isPlan && card.mode !== 'edit' && planCard(item.parameters),
    card.mode === 'edit' ? editor(given, card)
      : !isPlan && h('pre', { class: `call ${kind}`, tabindex: 0 }, h('code', null, kind === 'command' ? h('span', { class: 'prompt', 'aria-hidden': 'true' }, '$ ') : null, visible(shown))),
    isCut && h('p', { class: 'notice' }, words.callIsCut(text.split('\n').length), ' ', h('button', { class: 'button small', onclick: () => ((card.isWhole = true), repaint()) }, words.showTheRest)),
    h('dl', { class: 'facts' }, facts.map(([name, value]) => [h('dt', null, name), h('dd', null, value)])),
    card.error && h('p', { class: 'field-error', role: 'alert' }, card.error),
    item.decision || expired ? h('p', { class: 'muted' }, expired ? words.decisions.expired : words.decisions[item.decision] ?? item.decision) : decisions(given, card, isMain, isCut),
  ];
}

function decisions(given, card, isMain, isCut) {
  const isOff = card.isBusy || isGuarded(card);
  if (card.outcome) return h('p', { class: 'muted', role: 'status' }, card.outcome, given.state !== 'running' && !given.conversation && [' ', resumeButton(given)]);
  if (card.mode === 'guide' || card.mode === 'reject') return wordsForm(given, card);
  if (card.mode === 'edit') {
    const fault = editFault(card);
    return h('div', { class: 'buttons' },
      h('button', { class: 'button primary', disabled: isOff || Boolean(fault) || card.edited === card.original, onclick: () => decide(given, card, { answer: 'edit', parameters: JSON.parse(card.edited) }) }, words.approveEdited),
      h('button', { class: 'quiet', onclick: () => ((card.mode = null), (card.error = null), repaint()) }, words.discardEdit));
  }
  if (card.mode === 'always') return alwaysForm(given, card);
  const button = (name, key, act, off) => h('button', { class: `button ${name === 'approve' && isMain ? 'primary' : ''}`, disabled: isOff || off, onclick: act }, words.actions[name], h('kbd', { 'aria-hidden': 'true' }, key));
  return h('div', { class: 'buttons' },
    button('approve', 'A', () => decide(given, card, { answer: 'approve' }), isCut),
    button('edit', 'E', () => openEdit(given, card)),
    button('guide', 'G', () => openWords(card, 'guide')),
    button('reject', 'R', () => openWords(card, 'reject')),
    (given.item.suggestions ?? []).length > 0 && h('button', { class: 'quiet', disabled: isOff, onclick: () => ((card.mode = 'always'), repaint()) }, words.actions.always));
}

/* Edit: the call as JSON, in which what differs from the call that was shown is counted. */

function openEdit(given, card) {
  card.mode = 'edit';
  card.original = JSON.stringify(given.item.parameters, null, 2);
  card.edited ||= card.original;
  repaint();
  focusField(card);
}

function editFault(card) {
  try {
    const value = JSON.parse(card.edited);
    if (!value || typeof value !== 'object' || Array.isArray(value)) return words.editNoObject;
    return card.checked?.text === card.edited ? card.checked.fault : null;
  } catch (error) {
    return words.editNoJson(error.message);
  }
}

const CHECK_AFTER = 300;

/** Has the service check the edit against the tool's schema and the rules, while it is typed. Nothing is decided. */
function typed(given, card, text) {
  card.edited = text;
  clearTimeout(card.checking);
  card.checking = setTimeout(async () => {
    if (editFault(card) || text === card.original) return;
    const fault = await api.checkDecision(given.run, given.item.effect, { digest: given.item.digest, answer: 'edit', parameters: JSON.parse(text) }).then(() => null, (error) => (error.status === 422 || error.status === 409 ? error.message : null));
    card.checked = { text, fault };
    repaint();
  }, CHECK_AFTER);
  repaint();
}

function editor(given, card) {
  const { item } = given;
  const fault = editFault(card);
  const changed = fault ? [] : differences(item.parameters, JSON.parse(card.edited));
  return h('div', { class: 'editor' },
    h('label', null, h('span', { class: 'hidden-text' }, words.editLabel(item.tool)),
      h('textarea', { class: 'code', 'data-field': card.key, rows: Math.min(16, card.edited.split('\n').length + 1), spellcheck: 'false', value: card.edited, 'aria-invalid': String(Boolean(fault)), oninput: (event) => typed(given, card, event.target.value) })),
    fault ? h('p', { class: 'field-error' }, fault)
      : changed.length ? h('dl', { class: 'facts changed' }, changed.map(([name, was, now]) => [h('dt', null, name), h('dd', null, was !== undefined && h('del', null, visible(text(name, was))), ' ', now !== undefined && h('ins', null, visible(text(name, now))))]))
        : h('p', { class: 'muted' }, words.editSame),
    h('p', { class: 'muted' }, words.editOnce));
}

const text = (name, value) => (typeof value === 'string' ? value : name === 'command' ? commandLine(value) : JSON.stringify(value));

function differences(before, after) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after)])];
  return names.filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after[name])).map((name) => [name, before?.[name], after[name]]);
}

/* Guide and Reject: a line for words. */

function openWords(card, mode) {
  card.mode = mode;
  repaint();
  focusField(card);
}

const focusField = (card) => requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector(`[data-field="${CSS.escape(card.key)}"]`)?.focus()));

function wordsForm(given, card) {
  const isReject = card.mode === 'reject';
  const submit = (event) => {
    event.preventDefault();
    if (!isReject && !card.text.trim()) return;
    decide(given, card, isReject ? { answer: 'reject', ...(card.text.trim() && { reason: card.text }) } : { answer: 'guide', guidance: card.text });
  };
  return h('form', { class: 'words', onsubmit: submit },
    h('label', null, isReject ? words.rejectLabel : words.guideLabel, h('input', { type: 'text', 'data-field': card.key, value: card.text, oninput: (event) => ((card.text = event.target.value), repaint()) })),
    isReject && h('p', { class: 'muted' }, words.rejectEnds(given.item.subtask, given.dependents ?? [])),
    h('div', { class: 'buttons' },
      h('button', { class: `button ${isReject ? 'danger' : 'primary'}`, type: 'submit', disabled: card.isBusy || (!isReject && !card.text.trim()) }, isReject ? words.actions.reject : words.actions.guide),
      h('button', { class: 'quiet', type: 'button', onclick: () => ((card.mode = null), repaint()) }, words.back)));
}

/* Always: the rule that would be written and where; a second button writes it. */

function alwaysForm(given, card) {
  const suggestions = given.item.suggestions;
  const rule = card.rule ?? (card.rule = { calls: suggestions[0], within: 'run' });
  const scopes = ['run', ...(given.conversation ? ['conversation'] : []), 'workspace', 'everywhere'];
  return h('form', { class: 'words', onsubmit: (event) => (event.preventDefault(), decide(given, card, { answer: 'always', calls: rule.calls, within: rule.within })) },
    h('fieldset', null, h('legend', null, words.alwaysWhat), suggestions.map((calls) =>
      h('label', { class: 'choice', key: calls }, h('input', { type: 'radio', name: `rule-${card.key}`, checked: rule.calls === calls, onchange: () => ((rule.calls = calls), repaint()) }), h('code', null, visible(calls))))),
    h('label', null, words.alwaysWhere, h('select', { value: rule.within, onchange: (event) => ((rule.within = event.target.value), repaint()) }, scopes.map((scope) => h('option', { value: scope }, words.scopes[scope])))),
    h('p', { class: 'muted' }, words.ruleWritten(visible(rule.calls), words.scopes[rule.within])),
    h('div', { class: 'buttons' },
      h('button', { class: 'button primary', type: 'submit', disabled: card.isBusy }, words.saveRule),
      h('button', { class: 'quiet', type: 'button', onclick: () => ((card.mode = null), repaint()) }, words.back)));
}

async function decide(given, card, decision) {
  if (card.isBusy || isGuarded(card)) return;
  clearTimeout(card.checking);
  card.isBusy = true;
  card.error = null;
  repaint();
  try {
    const body = { digest: given.item.digest, ...decision };
    // A turn of a conversation that has stopped goes on with the decision.
    const answer = await (given.conversation && given.state !== 'running' ? api.decideInTurn(given.conversation, given.item.effect, body) : api.decide(given.run, given.item.effect, body));
    card.outcome = answer.state === 'pending' ? words.keptUntilResumed : words.decisions[decision.answer];
    card.mode = null;
    // The next card is the main one.
    if (focused === card.key) focused = null;
    given.onDecided?.();
    refresh();
  } catch (error) {
    card.error = error.status === 409 ? `${words.decidedElsewhere} ${error.message}` : error.message;
    if (error.status === 409) refresh();
  }
  card.isBusy = false;
  repaint();
}

/* Questions */

function question(given, card, isMain) {
  const { item } = given;
  const choices = item.choices ?? [];
  const isOther = choices.length === 0 || card.choice === choices.length;
  const answer = isOther ? card.text : choices[card.choice];
  const submit = (event) => {
    event?.preventDefault();
    sendAnswer(given, card, answer);
  };
  const isOver = item.decision;
  return [
    head('asks', [h('b', null, item.agent ?? words.theRun), ' ', words.asksYou], item.subtask && words.forSubtask(item.subtask), item.effect),
    h('p', { class: 'question' }, inline(visible(item.question))),
    isOver ? h('p', { class: 'muted' }, words.decisions[item.decision])
      : card.outcome ? h('p', { class: 'muted', role: 'status' }, card.outcome, given.state !== 'running' && !given.conversation && [' ', resumeButton(given)])
        : h('form', { class: 'words', onsubmit: submit },
          choices.length > 0 && h('div', { class: 'choices', role: 'radiogroup', 'aria-label': words.choices },
            [...choices, words.anotherAnswer].map((choice, at) => h('label', { key: at, class: `choice card-choice ${card.choice === at ? 'is-chosen' : ''}` },
              h('input', { type: 'radio', name: `choice-${card.key}`, checked: card.choice === at, onchange: () => choose(card, at, choices.length) }),
              h('span', null, at < choices.length ? visible(choice) : choice), at < 9 && h('kbd', { 'aria-hidden': 'true' }, at + 1)))),
          isOther && h('label', null, h('span', { class: choices.length ? 'hidden-text' : '' }, words.yourAnswer),
            h('input', { type: 'text', 'data-field': card.key, value: card.text, oninput: (event) => ((card.text = event.target.value), repaint()) })),
          card.error && h('p', { class: 'field-error', role: 'alert' }, card.error),
          h('div', { class: 'buttons' },
            h('button', { class: `button ${isMain ? 'primary' : ''}`, type: 'submit', disabled: card.isBusy || isGuarded(card) || !answer?.trim() }, words.answer, h('kbd', { 'aria-hidden': 'true' }, SEND_KEYS)))),
  ];
}

function choose(card, at, count) {
  card.choice = at;
  repaint();
  if (at === count) focusField(card);
}

async function sendAnswer(given, card, answer) {
  if (card.isBusy || isGuarded(card) || !answer?.trim()) return;
  card.isBusy = true;
  card.error = null;
  repaint();
  try {
    const body = { question: given.item.effect, answer };
    const sent = await (given.conversation && given.state !== 'running' ? api.answerInTurn(given.conversation, body) : api.answer(given.run, body));
    card.outcome = sent.state === 'pending' ? words.keptUntilResumed : words.answered(answer);
    given.onDecided?.();
    refresh();
  } catch (error) {
    card.error = error.message;
  }
  card.isBusy = false;
  repaint();
}

const resumeButton = (given) => h('button', { class: 'button small', onclick: () => api.resume(given.run, {}).then(refresh, (error) => ((cardOf(given.run, given.item).error = error.message), repaint())) }, words.resume);

/** The keys of a focused card. None of them is Enter, which alone approves nothing. */
function keydown(event, given, card, isQuestion) {
  const isTyping = event.target.closest('input:not([type=radio]), textarea, select');
  if ((event.ctrlKey || event.metaKey) && event.key === 'Enter') {
    const form = event.target.closest('form');
    if (isQuestion && form) form.requestSubmit();
    else if (card.mode === 'edit' && !editFault(card) && card.edited !== card.original) decide(given, card, { answer: 'edit', parameters: JSON.parse(card.edited) });
    else return;
    event.preventDefault();
    return;
  }
  if (event.key === 'Escape' && card.mode) {
    card.mode = null;
    event.preventDefault();
    event.stopPropagation();
    document.querySelector(`[data-field="${CSS.escape(card.key)}"]`)?.closest('article')?.focus();
    repaint();
    return;
  }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || card.isBusy || isGuarded(card) || card.mode || card.outcome || !hasSingleKeys()) return;
  if (isQuestion) {
    const at = Number(event.key) - 1;
    if (at >= 0 && at <= (given.item.choices ?? []).length && given.item.choices?.length) {
      choose(card, at, given.item.choices.length);
      event.preventDefault();
    }
    return;
  }
  const approve = event.currentTarget.querySelector('.buttons .button');
  const act = {
    a: () => !approve?.disabled && decide(given, card, { answer: 'approve' }),
    e: () => openEdit(given, card),
    g: () => openWords(card, 'guide'),
    r: () => openWords(card, 'reject'),
  }[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
}
