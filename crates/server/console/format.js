/** Times, numbers and texts in the form in which the console shows them. */
import { language, words } from './words.js';

/** A duration in milliseconds: `0.4 s`, `14 s`, `4:12`, `1:04:10`. */
export function duration(ms) {
  if (ms === null || ms === undefined) return '';
  if (ms < 1000) return ms < 100 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return clock(ms);
}

/** A time that runs on, in minutes and seconds. */
export function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (number) => String(number).padStart(2, '0');
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** How long ago a moment was, in one word. */
export function ago(at, now = Date.now()) {
  const seconds = (now - at) / 1000;
  if (seconds < 60) return words.now;
  if (seconds < 3600) return words.minutes(Math.floor(seconds / 60));
  if (seconds < 86_400) return words.hours(Math.floor(seconds / 3600));
  return words.days(Math.floor(seconds / 86_400));
}

/** The time until a moment: `23 h 54 min`. */
export function until(at, now = Date.now()) {
  const minutes = Math.max(0, Math.round((at - now) / 60_000));
  if (minutes < 60) return words.minutes(minutes);
  return minutes < 2880 ? `${words.hours(Math.floor(minutes / 60))} ${words.minutes(minutes % 60)}` : words.days(Math.floor(minutes / 1440));
}

/** A cost in nano-dollars. */
export function cost(nano) {
  const dollars = (nano ?? 0) / 1e9;
  return dollars > 0 && dollars < 0.01 ? '<$0.01' : `$${dollars.toFixed(2)}`;
}

/** A number of tokens: `612k`, `1.9M`. */
export function tokens(count) {
  if (count < 1000) return String(count);
  if (count < 1e6) return `${count < 10_000 ? (count / 1000).toFixed(1) : Math.round(count / 1000)}k`;
  return `${(count / 1e6).toFixed(1)}M`;
}

/** The keys that send, as the keyboard names them. */
export const SEND_KEYS = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘↵' : 'Ctrl ↵';

export const number = (count) => count.toLocaleString(language());

export const time = (at) => new Date(at).toLocaleTimeString(language(), { hour12: false });

/** The end of an id, by which the command line names runs as well: ids begin with their time, so their beginnings are alike. */
export const shortId = (id) => id.replaceAll('-', '').slice(-8);

/** A folder, as short as one can tell it from others. */
export function folder(path) {
  const parts = (path ?? '').split('/').filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-1)}` : path ?? '';
}

/** Characters that cannot be seen, or that turn the direction of a text: what is shown must be what runs. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

const PICTURE_BEFORE = /\p{Extended_Pictographic}\p{Emoji_Modifier}?\ufe0f?$/u;

/** Writes characters that cannot be seen as numbers, such as ⟨U+202E⟩. Those that only join the parts of an emoji stay. */
export const visible = (text) => String(text).replace(UNSEEN, (sign, at, whole) => {
  const joins = sign === '\u200d' || sign === '\ufe0f';
  if (joins && PICTURE_BEFORE.test(whole.slice(Math.max(0, at - 6), at))) return sign;
  return `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`;
});

/** One line of a text of any length. */
export function line(text, length = 200) {
  const flat = visible(String(text).slice(0, length * 4).replace(/\s+/g, ' ').trim());
  return flat.length > length ? `${flat.slice(0, length - 1)}…` : flat;
}
