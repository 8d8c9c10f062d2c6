/** Starts the console: chooses the page for the address, and draws it with the frame around it. */
import { paintWith, render, repaint } from './view.js';
import { address, onAddress, open } from './router.js';
import { language, words } from './words.js';
import { connectionState, overview, startOverview, waitingCount } from './overview.js';
import { applyTheme } from './theme.js';
import { startKeys } from './keys.js';
import { shell } from './shell.js';
import { Home } from './pages/home.js';
import { Waiting } from './pages/waiting.js';
import { Runs } from './pages/runs.js';
import { Run } from './pages/run.js';
import { Chats } from './pages/chats.js';
import { Chat } from './pages/chat.js';
import { Workflows } from './pages/workflows.js';
import { Services } from './pages/services.js';
import { Agents } from './pages/agents.js';
import { Prompts } from './pages/prompts.js';
import { Memory } from './pages/memory.js';
import { Usage } from './pages/usage.js';
import { Settings } from './pages/settings.js';
import { missing, signedOut } from './pages/missing.js';

/** Pages by the first part of the address: that for it alone, and that for a name after it. */
const PAGES = {
  '': [Home],
  waiting: [Waiting],
  runs: [Runs, Run],
  chats: [Chats, Chat],
  workflows: [Workflows, Workflows],
  services: [Services, Services],
  agents: [Agents, Agents],
  prompts: [Prompts, Prompts],
  memory: [Memory],
  usage: [Usage],
  settings: [Settings],
};

let page = null;
let pageName = null;

/** Makes the page for the address. A page stays while only its query changes. */
function choose() {
  const { parts } = address();
  const Page = PAGES[parts[0] ?? '']?.[parts.length > 1 ? 1 : 0];
  const name = Page === undefined ? null : Page.keepsOver ? Page.name : `${Page.name}/${parts.slice(1).join('/')}`;
  if (name === pageName && page) return;
  page?.leave?.();
  pageName = name;
  page = Page ? new Page(parts[1]) : null;
  // Each page begins at its top; on phones the whole page scrolls.
  scrollTo(0, 0);
}

let wasTitle = '';
let isFirst = true;

function paint() {
  const { title, main, aside } = overview.connection.signedOut ? signedOut() : page ? page.view() : missing();
  const app = document.getElementById('app');
  // The frame in index.html is shown until the modules have arrived.
  if (isFirst) app.replaceChildren();
  isFirst = false;
  render(app, shell({ title, main, aside, name: pageName?.split('/')[0] ?? 'missing' }));
  const waits = waitingCount();
  const full = `${waits ? `(${waits}) ` : ''}${title} · Dirigent`;
  if (full !== wasTitle) document.title = wasTitle = full;
}

document.documentElement.lang = language();
document.querySelector('.skip').textContent = words.skip;
applyTheme();
onAddress(choose);
choose();
paintWith(paint);
startOverview();
startKeys({ page: () => page, open });

// Times tick once a second while something runs, and only where somebody can see them.
setInterval(() => {
  if (!document.hidden && (overview.runs.some((run) => run.state === 'running') || connectionState() !== 'live')) repaint();
}, 1000);

