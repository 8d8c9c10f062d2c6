/** Icons and the glyphs of states, as descriptions of SVG. A glyph has a shape of its own for each state, so colour never stands alone. */
import { h } from './view.js';

const LINES = {
  home: 'M2.5 7.5 8 2.8l5.5 4.7M4 6.5v6.7h3V9.5h2v3.7h3V6.5',
  bell: 'M3.5 11.5h9c-1-1-1.3-2.2-1.3-4.5a3.2 3.2 0 0 0-6.4 0c0 2.3-.3 3.5-1.3 4.5ZM6.8 13.5h2.4',
  runs: 'M2.5 4h11M2.5 8h7.5M2.5 12h9.5',
  chat: 'M2.5 3.5h11v7.5h-6l-3 2.5v-2.5h-2Z',
  workflow: 'M2.5 2.5h4v4h-4ZM9.5 9.5h4v4h-4ZM6.5 4.5H9v7h.5',
  services: 'M2.5 2.8h11v4.4h-11ZM2.5 8.8h11v4.4h-11ZM4.8 5h.1M4.8 11h.1',
  agents: 'M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8ZM3 13.5c.4-2.3 2.3-3.5 5-3.5s4.6 1.2 5 3.5',
  prompts: 'M3.5 2.5h9v11h-9ZM6 5.5h4M6 8h4M6 10.5h2',
  memory: 'M8 3.2c-3 0-5 .8-5 1.9v5.8c0 1.1 2 1.9 5 1.9s5-.8 5-1.9V5.1c0-1.1-2-1.9-5-1.9ZM3 5.1C3 6.2 5 7 8 7s5-.8 5-1.9M3 8c0 1.1 2 1.9 5 1.9S13 9.1 13 8',
  usage: 'M3 13.5V8M8 13.5v-11M13 13.5V6M1.5 13.5h13',
  settings: 'M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M10 3v3M6 10v3',
  more: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
  plus: 'M8 3v10M3 8h10', close: 'm4 4 8 8M12 4l-8 8', right: 'm6 3.5 4.5 4.5L6 12.5', down: 'm3.5 6 4.5 4.5L12.5 6', left: 'M10 3.5 5.5 8l4.5 4.5',
  up: 'M8 13V3.5M4 7.2l4-4 4 4', search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.5 10.5l3 3', fork: 'M4.5 5.8v4.4M4.5 10.2h3c2.5 0 4-1 4-4.4M4.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM4.5 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM11.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Z',
  copy: 'M5.5 5.5h8v8h-8ZM10.5 5.5v-3h-8v8h3', undo: 'M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M3 6.5l3-3M3 6.5l3 3', again: 'M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3', folder: 'M2 4h4l1.5 1.5H14v7H2Z', sun: 'M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6ZM8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M12.6 3.4l-1.1 1.1M4.5 11.5l-1.1 1.1',
};

/** A line icon of 16 px, hidden from readers: the words beside it say the same. */
export const icon = (name) => h('svg', { class: 'icon', viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': 'true' }, h('path', { d: LINES[name] }));

export const logo = () => h('svg', { class: 'logo', viewBox: '0 0 16 16', width: 18, height: 18, 'aria-hidden': 'true' },
  h('circle', { cx: 4, cy: 12, r: 2.6 }), h('path', { d: 'M4.8 11.2 11.8 4M7.5 2.8c2.2-1 4.4 0 5.2 2.2' }));

const disc = { cx: 8, cy: 8, r: 6 };
const SHAPES = {
  waiting: () => [h('circle', { ...disc, 'stroke-dasharray': '2 1.77' })],
  ready: () => [h('circle', disc)],
  running: () => [h('circle', { ...disc, class: 'track' }), h('path', { class: 'arc', d: 'M8 2a6 6 0 0 1 6 6' }), h('circle', { class: 'point', cx: 8, cy: 8, r: 2 })],
  needs: () => [h('path', { d: 'm8 1 7 7-7 7-7-7Z' }), h('path', { class: 'mark', d: 'M8 4.6v4M8 10.8v.3' })],
  asks: () => [h('path', { d: 'm8 1 7 7-7 7-7-7Z' }), h('path', { class: 'mark', d: 'M6.5 6.4c0-2.2 3-2.2 3-.2 0 1.2-1.5 1.2-1.5 2.6M8 11v.3' })],
  succeeded: () => [h('circle', { cx: 8, cy: 8, r: 6.8 }), h('path', { class: 'mark', d: 'm5 8.2 2.1 2.1 4-4.4' })],
  failed: () => [h('path', { d: 'M5.2 1.2h5.6l4 4v5.6l-4 4H5.2l-4-4V5.2Z' }), h('path', { class: 'mark', d: 'm5.7 5.7 4.6 4.6M10.3 5.7l-4.6 4.6' })],
  skipped: () => [h('circle', disc), h('path', { d: 'm4 12 8-8' })],
  cancelled: () => [h('rect', { x: 2.5, y: 2.5, width: 11, height: 11, rx: 2 })],
  limit: () => [h('path', { d: 'M8 2.2 14.5 13.5h-13Z' })],
};

/** The glyph of a state; `label` names it for readers where no words stand beside it. */
export const glyph = (state, label) =>
  h('svg', { key: `glyph-${state}`, class: `glyph ${state}`, viewBox: '0 0 16 16', width: 14, height: 14, ...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': 'true' }) }, SHAPES[state in SHAPES ? state : 'waiting']());
