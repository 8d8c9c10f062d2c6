/** A plan that waits for approval: what would be done, by whom, and after what. */
import { h } from './view.js';
import { inline } from './markdown.js';
import { callSummary } from './tool-text.js';
import { visible } from './format.js';
import { words } from './words.js';

export const planCard = (plan) => h('div', { class: 'plan-card', tabindex: 0, role: 'group', 'aria-label': words.planLabel },
  plan?.summary && h('p', null, inline(visible(plan.summary))),
  h('ol', null, (plan?.subtasks ?? []).map((subtask) => h('li', { key: subtask.id },
    h('b', null, visible(subtask.title ?? subtask.id)), ' ', h('code', null, visible(subtask.id)),
    h('div', { class: 'muted' },
      subtask.agent ? words.byAgent(visible(subtask.agent)) : null,
      (subtask.calls ?? []).map((call) => h('div', null, h('b', null, visible(call.tool)), ' ', h('code', null, callSummary(call.tool, call.parameters)))),
      subtask.depends_on?.length ? h('div', null, words.after(visible(subtask.depends_on.join(', ')))) : null),
    subtask.task && h('p', { class: 'task-text' }, visible(subtask.task))))));
