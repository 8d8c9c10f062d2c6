/** What the whole page knows of all runs: their list, what waits for the user, and whether the service answers. */
import { api, followAll, onContact } from './api.js';
import { announce } from './announce.js';
import { repaint } from './view.js';
import { line } from './format.js';
import { words } from './words.js';

const OFFLINE_AFTER = 10_000;
const LISTED = 200;

export const overview = {
  /** @type {Array<Object>} the newest 200 runs */
  runs: [],
  /** @type {Array<Object>} runs with `approvals` and `questions` */
  waiting: [],
  loaded: false,
  connection: { lost: 0, last: 0, signedOut: false },
};

/** How many calls and questions wait in all runs. */
export const waitingCount = () => overview.waiting.reduce((sum, run) => sum + run.approvals.length + run.questions.length, 0);

/** What waits in a run. */
export const waitingIn = (id) => overview.waiting.find((run) => run.run === id);

/** `live`, `reconnecting` or `offline`. */
export function connectionState(now = Date.now()) {
  const { lost } = overview.connection;
  return !lost ? 'live' : now - lost < OFFLINE_AFTER ? 'reconnecting' : 'offline';
}

onContact((answered, status) => {
  const { connection } = overview;
  const was = connectionState();
  if (status === 401) connection.signedOut = true;
  if (answered) {
    connection.last = Date.now();
    connection.lost = 0;
    if (status !== 401) connection.signedOut = false;
  } else if (!connection.lost) {
    connection.lost = Date.now();
  }
  if (was !== connectionState() || status === 401) repaint();
});

let lastText = '';
let known = null;
let stream = null;

/** Begins to follow all runs by one stream. */
export function startOverview() {
  if (document.hidden || stream) return;
  stream = followAll({
    onSnapshot({ runs }) {
      overview.runs = runs;
      overview.loaded = true;
      changed();
    },
    onRun({ run }) {
      const others = overview.runs.filter((one) => one.run !== run.run);
      overview.runs = run.removed ? others : [...others, run].sort((a, b) => b.created_at - a.created_at).slice(0, LISTED);
      changed();
    },
  });
}

/** Loads what waits again if the numbers in the list say that it has changed. */
function changed() {
  const text = JSON.stringify(overview.runs.map((run) => [run.run, run.waiting, run.state === 'user_required']).filter(([, waiting, isOver]) => isOver || waiting?.approvals || waiting?.questions));
  if (text !== lastText) {
    lastText = text;
    refresh();
  }
  tell();
  repaint();
}

/** Loads what waits. After a decision, this is faster than the stream. */
export async function refresh() {
  try {
    overview.waiting = (await api.waiting()).runs;
    tell();
  } catch {
    // The foot says that the service does not answer; what waited stays on the screen.
  }
  repaint();
}

/** Announces what is new among what waits, and runs that ended. */
function tell() {
  const now = new Set(overview.waiting.flatMap((run) => [...run.approvals, ...run.questions].map((item) => `${run.run}/${item.effect}`)));
  if (known && [...now].some((item) => !known.has(item))) announce.now(words.needYou(now.size));
  known = now;
  for (const run of overview.runs) {
    const before = states.get(run.run);
    if (before === 'running' && run.state !== 'running') announce.now(`${line(run.goal, 80)}: ${words.states[run.state] ?? run.state}`);
    states.set(run.run, run.state);
  }
}

const states = new Map();

/** How long the stream stays open in the background: browsers allow six connections to a host. */
const BACKGROUND = 10_000;
let background = 0;

document.addEventListener('visibilitychange', () => {
  clearTimeout(background);
  if (document.hidden) {
    background = setTimeout(() => {
      stream?.close();
      stream = null;
    }, BACKGROUND);
  } else {
    startOverview();
  }
});
