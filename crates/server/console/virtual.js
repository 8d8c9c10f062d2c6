/** Draws only those rows of a long list that can be seen, and some around them. */
import { h } from './view.js';

const AROUND = 12;

/**
 * @param {{rows: Array, height: number, draw: (row: any, at: number) => Object, pane: () => ?Element}} list all rows have one height; `pane` is what scrolls
 */
export function virtual({ rows, height, draw, pane }) {
  const scroller = pane();
  const list = scroller?.querySelector('.virtual');
  const isPage = scroller && getComputedStyle(scroller).overflowY === 'visible';
  const top = !scroller || !list ? 0 : (isPage ? 0 : scroller.getBoundingClientRect().top) - list.getBoundingClientRect().top;
  const seen = isPage ? innerHeight : scroller?.clientHeight ?? 800;
  const first = Math.max(0, Math.floor(top / height) - AROUND);
  const last = Math.min(rows.length, Math.ceil((top + seen) / height) + AROUND);
  return h('div', { class: 'virtual', style: { height: `${rows.length * height}px` } },
    rows.slice(first, last).map((row, at) => {
      const view = draw(row, first + at);
      return h('div', { key: view.key ?? first + at, class: 'virtual-row', role: 'presentation', style: { top: `${(first + at) * height}px`, height: `${height}px` } }, view);
    }));
}
