/** The two live regions: one polite, at most a sentence in three seconds; one assertive for what needs the user and for ends. */
const PAUSE = 3000;

let waiting = '';
let timer = 0;
let last = 0;

function say(id, text) {
  const region = document.getElementById(id);
  if (region) region.textContent = text;
}

export const announce = {
  /** Says a sentence when readers have time for it; a newer one replaces one that still waits. */
  soon(text) {
    waiting = text;
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = Date.now();
      say('polite', waiting);
    }, Math.max(0, last + PAUSE - Date.now()));
  },
  now: (text) => say('assertive', text),
};
