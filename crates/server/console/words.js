/** The words of the interface, in the language that was chosen. A word that a language lacks is English. */
import { english } from './words/en.js';
import { chinese } from './words/zh.js';
import { recall } from './browser-store.js';

const LANGUAGES = { en: english, zh: chinese };

/** The chosen language, else the browser's if there are words for it. */
export function language() {
  const chosen = recall('language');
  if (chosen in LANGUAGES) return chosen;
  return navigator.language?.startsWith('zh') ? 'zh' : 'en';
}

export const words = { ...english, ...LANGUAGES[language()] };
