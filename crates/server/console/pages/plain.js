/** The parts that the simple pages share: load once, show the frame at once, and the error with Try again. */
import { h, repaint } from '../view.js';
import { failure, head, loading } from '../shell.js';
import { words } from '../words.js';

/** A page that loads one value and shows it. */
export class LoadedPage {
  constructor(title, load) {
    this.title = title;
    this.loader = load;
    this.value = null;
    this.error = null;
    // After the constructors of the page itself, whose fields the loader may use.
    queueMicrotask(() => this.load());
  }

  async load() {
    try {
      this.value = await this.loader();
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    repaint();
  }

  /** What the page shows once its value is there. */
  content() {
    return null;
  }

  actions() {
    return null;
  }

  body() {
    if (this.error) return failure(this.error, () => this.load());
    return this.value ? this.content(this.value) : loading();
  }

  view() {
    return { title: this.title, main: [head(this.title, this.actions()), h('div', { class: 'page', id: 'main', tabindex: -1 }, this.body())], aside: this.aside?.() ?? null };
  }
}
