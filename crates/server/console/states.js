/** The glyphs, classes and words of the states of runs and sub-tasks. */
import { glyph } from './icons.js';
import { words } from './words.js';

const GLYPHS = { running: 'running', goal_achieved: 'succeeded', failed: 'failed', iteration_limit: 'limit', time_limit: 'limit', budget_exhausted: 'limit', user_required: 'asks', cancelled: 'cancelled', interrupted: 'cancelled', never_began: 'waiting' };
const CLASSES = { running: 'blue', goal_achieved: 'green', failed: 'red', iteration_limit: 'amber-text', time_limit: 'amber-text', budget_exhausted: 'amber-text', user_required: 'amber' };

/** What of a run's state the page shows: what waits counts more than that it runs. */
export function runState(run, waits) {
  const count = (waits?.approvals.length ?? 0) + (waits?.questions.length ?? 0);
  if (count && (run.state === 'running' || run.state === 'user_required')) return { glyph: waits.approvals.length ? 'needs' : 'asks', tone: 'amber', text: words.waitForYou(count), count };
  return { glyph: GLYPHS[run.state] ?? 'waiting', tone: CLASSES[run.state] ?? '', text: words.states[run.state] ?? run.state, count: 0 };
}

export const runGlyph = (run, waits) => glyph(runState(run, waits).glyph);

/** The order of a tally and of lists: what needs somebody first. */
export const ORDER = ['needs', 'asks', 'failed', 'running', 'succeeded', 'ready', 'waiting', 'skipped', 'cancelled'];
