/** What a browser keeps for its user: theme, language, widths. A browser that keeps nothing loses nothing else. */

export function recall(name, otherwise = null) {
  try {
    return localStorage.getItem(`dirigent.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(`dirigent.${name}`);
    else localStorage.setItem(`dirigent.${name}`, value);
  } catch {
    // Private windows may refuse: the choice then holds until the page is closed.
  }
}
