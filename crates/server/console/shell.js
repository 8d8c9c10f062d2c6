/** The frame around every page: navigation, what runs now, the state of the connection. */
import { h, repaint } from './view.js';
import { glyph, icon, logo } from './icons.js';
import { language, words } from './words.js';
import { connectionState, overview, waitingCount, waitingIn } from './overview.js';
import { keep } from './browser-store.js';
import { line, time } from './format.js';
import { isDark, setTheme } from './theme.js';
import { runGlyph } from './states.js';

const PLACES = [
  ['/', 'home', 'Home'], ['/waiting', 'bell', 'Waiting'], ['/runs', 'runs', 'Runs'], ['/chats', 'chat', 'Chats'], ['/workflows', 'workflow', 'Workflows'],
  ['/services', 'services', 'Services'], ['/agents', 'agents', 'Agents'], ['/prompts', 'prompts', 'Prompts'], ['/memory', 'memory', 'Memory'], ['/usage', 'usage', 'Usage'], ['/settings', 'settings', 'Settings'],
];
/** Above what is set up rather than done, there is a gap. */
const GAP_BEFORE = '/services';
/** On phones, the others stand behind More. */
const PHONE = new Set(['/', '/waiting', '/runs', '/chats']);

let isMoreOpen = false;

/** @param {{title: string, main: Array, aside: ?Object, name: string}} page */
export function shell({ main, aside, name }) {
  return h('div', { class: `shell ${aside ? 'with-aside' : ''}`, 'data-page': name },
    navigation(),
    h('div', { class: 'content' },
      h('main', { class: 'main' }, connectionBar(), main),
      aside));
}

const isHere = (path) => (path === '/' ? location.pathname === '/' : location.pathname === path || location.pathname.startsWith(`${path}/`));

function place([path, picture, name]) {
  const count = path === '/waiting' ? waitingCount() : 0;
  const label = words.places[name];
  return h('li', { class: `${PHONE.has(path) ? '' : 'secondary'} ${path === GAP_BEFORE ? 'gap' : ''}` },
    h('a', { href: path, class: 'place', title: label, 'aria-current': isHere(path) ? 'page' : null, onclick: () => (isMoreOpen = false) },
      icon(picture), h('span', { class: 'place-name' }, label),
      count > 0 && h('span', { class: 'badge', 'aria-label': words.waitsCount(count) }, count)));
}

function navigation() {
  const active = overview.runs.filter((run) => run.state === 'running').slice(0, 8);
  return h('nav', { class: `nav ${isMoreOpen ? 'more-open' : ''}`, 'aria-label': words.navigation },
    h('a', { class: 'brand', href: '/', title: 'Dirigent' }, logo(), h('span', { class: 'place-name' }, 'Dirigent')),
    h('a', { class: 'button new-goal', href: '/', title: words.newGoal, onclick: focusComposer }, icon('plus'), h('span', { class: 'place-name' }, words.newGoal), h('kbd', { class: 'place-name', 'aria-hidden': 'true' }, 'N')),
    h('ul', { class: 'places' }, PLACES.map(place),
      h('li', { class: 'more' }, h('button', { class: 'place', 'aria-expanded': String(isMoreOpen), onclick: toggleMore }, icon('more'), h('span', { class: 'place-name' }, words.more)))),
    active.length > 0 && h('div', { class: 'running-now' },
      h('h2', { class: 'small-title' }, words.runningNow),
      h('ul', null, active.map((run) => h('li', { key: run.run },
        h('a', { class: 'place', href: `/runs/${run.run}`, title: line(run.goal, 300), 'aria-current': location.pathname === `/runs/${run.run}` ? 'page' : null },
          runGlyph(run, waitingIn(run.run)), h('span', { class: 'place-name cut' }, line(run.goal, 80))))))),
    foot());
}

function toggleMore() {
  isMoreOpen = !isMoreOpen;
  repaint();
}

export function focusComposer() {
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById('composer')?.focus()));
}

function foot() {
  const state = connectionState();
  return h('div', { class: 'foot' },
    h('span', { class: `connection ${state}`, role: 'status' }, h('span', { class: 'dot', 'aria-hidden': 'true' }), h('span', { class: 'place-name' }, words.connection[state])),
    h('span', { class: 'place-name tools' },
      h('button', { class: 'quiet small', lang: language() === 'en' ? 'zh' : 'en', onclick: switchLanguage, title: words.otherLanguageName }, words.otherLanguage),
      h('button', { class: 'quiet small', 'aria-label': words.switchTheme, title: words.switchTheme, onclick: () => setTheme(isDark() ? 'light' : 'dark') }, icon('sun'))));
}

function switchLanguage() {
  keep('language', language() === 'en' ? 'zh' : 'en');
  location.reload();
}

/** After 5 s without an answer, a line below the head says so. */
function connectionBar() {
  const { lost, last } = overview.connection;
  if (!lost || Date.now() - lost < 5000) return null;
  return h('p', { class: 'notice connection-bar', role: 'status' }, words.noAnswer(last ? time(last) : ''));
}

/** The head of a page. */
export function head(title, ...rest) {
  return h('header', { class: 'page-head' }, h('h1', { class: 'page-title' }, title), rest);
}

/** Grey bars in the place of rows, while something loads for longer than 200 ms. */
export const loading = (rows = 4) => h('div', { class: 'loading', role: 'status', 'aria-label': words.loading }, Array.from({ length: rows }, () => h('div', { class: 'bar' })));

/** One line that says what failed, with Try again. */
export const failure = (error, again) => h('p', { class: 'notice bad', role: 'alert' }, glyph('failed'), h('span', null, `${words.couldNotLoad} ${error.message}`), again && h('button', { class: 'button small', onclick: again }, words.tryAgain));
