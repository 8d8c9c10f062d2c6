/** The width of the inspector, which the user drags, kept per browser. */
import { keep, recall } from './browser-store.js';

const LEAST = 360;
const MOST = 720;
const USUAL = 452;

/** Drags the edge of the inspector. */
export function dragInspector(event) {
  const start = event.clientX;
  const aside = event.target.parentElement;
  const width = aside.offsetWidth;
  const shell = document.querySelector('.shell');
  const move = (moved) => setInspectorWidth(shell, width + start - moved.clientX);
  const stop = () => {
    removeEventListener('pointermove', move);
    removeEventListener('pointerup', stop);
    keep('inspector', String(aside.offsetWidth));
  };
  addEventListener('pointermove', move);
  addEventListener('pointerup', stop);
  event.preventDefault();
}

export const setInspectorWidth = (shell, width) => shell?.style.setProperty('--inspector', `${Math.min(MOST, Math.max(LEAST, width))}px`);

export const keptInspectorWidth = () => Number(recall('inspector')) || USUAL;
