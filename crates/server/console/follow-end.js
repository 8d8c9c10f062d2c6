/** Keeps a scrolled pane at its end while it was within 64 px of it; else it stays, and a button leads down. */
import { h, repaint } from './view.js';
import { words } from './words.js';

const NEAR = 64;

export function followEnd() {
  let node = null;
  let isAtEnd = true;
  let missed = 0;
  const toEnd = () => {
    if (!node) return;
    node.scrollTop = node.scrollHeight;
    isAtEnd = true;
    missed = 0;
    repaint();
  };
  const changes = new MutationObserver(() => {
    if (isAtEnd && shouldFollow()) node.scrollTop = node.scrollHeight;
    else if (!isAtEnd) {
      missed++;
      repaint();
    }
  });
  let shouldFollow = () => true;
  return {
    attach(element) {
      changes.disconnect();
      node = element;
      isAtEnd = true;
      missed = 0;
      changes.observe(element, { childList: true, subtree: true });
      element.addEventListener('scroll', () => {
        const was = isAtEnd;
        isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
        if (isAtEnd && !was) {
          missed = 0;
          repaint();
        }
      });
    },
    /** Follows only while `test` holds, so that what has ended is read from its top. */
    only(test) {
      shouldFollow = test;
    },
    notice: () => (missed > 0 && !isAtEnd ? h('button', { class: 'button small to-end', onclick: toEnd }, words.newBelow) : null),
  };
}
