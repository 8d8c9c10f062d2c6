/** Pages that report what must never happen: errors in the console, uncaught exceptions, reports of the content security policy. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Chromium's sandbox does not work for root. */
export async function launch() {
  return chromium.launch({ executablePath: process.env.DIRIGENT_TEST_BROWSER, args: ['--no-sandbox', '--font-render-hinting=none', '--js-flags=--expose-gc', '--enable-precise-memory-info'] });
}

/** Opens a page that is signed in. `faults` collects what must not happen; `allowed` are those that a test causes itself. */
export async function openPage(browser, entrance, { width = 1440, height = 900, scheme = 'light', path: where = '/', language } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale: 'en-GB', reducedMotion: 'reduce', hasTouch: width < 600 });
  const page = await context.newPage();
  page.setDefaultTimeout(Number(process.env.DIRIGENT_TEST_TIMEOUT ?? 30_000));
  page.faults = [];
  page.allowed = [];
  const note = (text) => page.allowed.some((allowed) => allowed.test(text)) || page.faults.push(text);
  page.on('console', (message) => (message.type() === 'error' || message.type() === 'warning') && note(`console: ${message.text()} ${message.location().url}`));
  page.on('pageerror', (error) => note(`exception: ${error.stack}`));
  page.on('dialog', (dialog) => {
    note(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.addInitScript((chosen) => {
    addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    if (chosen) localStorage.setItem('dirigent.language', chosen);
  }, language);
  await page.goto(entrance.link);
  if (where !== '/') await page.goto(entrance.address + where);
  await page.locator('.connection.live').waitFor({ state: 'attached' });
  return page;
}

/** Goes to an address of the console without loading it anew, as its own links do. Waits until what it shows has arrived. */
export async function visit(page, where) {
  await page.evaluate((target) => {
    history.pushState(null, '', target);
    dispatchEvent(new PopStateEvent('popstate'));
  }, where);
  await settled(page);
}

/** Waits until nothing loads any more. */
export async function settled(page) {
  await page.locator('h1').first().waitFor({ state: 'attached' });
  await page.evaluate(() => new Promise((resolve) => {
    let quiet = 0;
    const step = () => {
      quiet = document.querySelector('.loading') ? 0 : quiet + 1;
      if (quiet > 8) resolve();
      else setTimeout(step, 20);
    };
    step();
  }));
}

/**
 * Fails if axe finds a serious fault.
 * @param {{onlyColours?: boolean}} how with `onlyColours`, checks what may differ from a screen of the same structure that was checked before
 */
export async function checkAccess(page, name, { onlyColours = false } = {}) {
  if (!(await page.evaluate(() => Boolean(globalThis.axe)))) await page.evaluate(axe);
  const runOnly = onlyColours ? { type: 'rule', values: ['color-contrast'] } : { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] };
  const violations = await page.evaluate(async (rules) => {
    const result = await globalThis.axe.run(document, { resultTypes: ['violations'], runOnly: rules });
    return result.violations.map(({ id, help, impact, nodes }) => ({ id, help, impact, nodes: nodes.slice(0, 4).map(({ html, failureSummary }) => ({ html: html.slice(0, 200), summary: failureSummary?.split('\n').slice(1, 3).join(' ').slice(0, 240) })) }));
  }, runOnly);
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  for (const { id, impact, nodes } of violations.filter((one) => !serious.includes(one))) console.log(`    axe ${impact} on ${name}: ${id}: ${nodes[0].html.slice(0, 120)}`);
  if (serious.length) throw new Error(`axe on ${name}:\n${serious.map(({ id, help, nodes }) => `  ${id}: ${help}\n${nodes.map((node) => `    ${node.html}\n      ${node.summary}`).join('\n')}`).join('\n')}`);
}

const shots = () => process.env.DIRIGENT_TEST_SHOTS;
const baselines = () => process.env.DIRIGENT_TEST_BASELINES;

/** Keeps a screenshot as an artefact. */
export const shot = (page, name) => page.screenshot({ path: path.join(shots(), `${name}.png`) });

/** Baselines are smaller than the screen by this factor: what remains is where things are, and their colours. */
const SMALLER = 8;
/** A cell differs from this difference of a colour on. */
const DIFFERS = 40;
/** The share of cells that may differ: times and ids do. */
const MOST = 0.02;

/**
 * Keeps a screenshot, and compares it with the baseline of this name. With `DIRIGENT_UPDATE_BASELINES=1`, it becomes the baseline.
 * The comparison is coarse: it finds parts that are missing, elsewhere, or of another colour. With another font than that of the baselines, everything is
 * elsewhere, and the result is only printed.
 */
export async function compare(page, name) {
  const now = await shot(page, name);
  const [file, fontFile] = [path.join(baselines(), `${name}.png`), path.join(baselines(), 'font-width.txt')];
  const isUpdate = Boolean(process.env.DIRIGENT_UPDATE_BASELINES);
  if (!isUpdate && !existsSync(file)) throw new Error(`there is no baseline ${name}: make it with DIRIGENT_UPDATE_BASELINES=1, and look at it`);
  const before = isUpdate ? undefined : readFileSync(file).toString('base64');
  const context = await page.context().browser().newContext();
  const helper = await context.newPage();
  const { small, share, font } = await helper.evaluate(measure, { now: now.toString('base64'), before, smaller: SMALLER, differs: DIFFERS });
  await context.close();
  if (isUpdate) {
    mkdirSync(baselines(), { recursive: true });
    writeFileSync(file, Buffer.from(small, 'base64'));
    writeFileSync(fontFile, font);
    return;
  }
  const isSameFont = font === readFileSync(fontFile, 'utf8');
  console.log(`    ${name}: ${(share * 100).toFixed(1)} % differs from its baseline${isSameFont ? '' : ', which has another font'}`);
  if (isSameFont && share > MOST) throw new Error(`${name} differs from its baseline in ${(share * 100).toFixed(1)} % of its area: look at the screenshot, and make it the baseline with DIRIGENT_UPDATE_BASELINES=1 if it is right`);
}

/** Runs in a page of its own: makes the small form of a screenshot, the share of cells that differ from the baseline, and the width of a text in the system's font. */
async function measure({ now, before, smaller, differs }) {
  const load = async (data) => createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
  const image = await load(now);
  const [width, height] = [Math.round(image.width / smaller), Math.round(image.height / smaller)];
  const pixels = async (source) => {
    const canvas = new OffscreenCanvas(width, height);
    const drawing = canvas.getContext('2d');
    drawing.imageSmoothingQuality = 'high';
    drawing.drawImage(source, 0, 0, width, height);
    return { canvas, data: drawing.getImageData(0, 0, width, height).data };
  };
  const mine = await pixels(image);
  const bytes = new Uint8Array(await (await mine.canvas.convertToBlob({ type: 'image/png' })).arrayBuffer());
  const small = btoa(String.fromCharCode(...bytes));
  const text = new OffscreenCanvas(1, 1).getContext('2d');
  text.font = '13px system-ui';
  const font = text.measureText('A plan of 12 sub-tasks').width.toFixed(1);
  if (!before) return { small, font };
  const theirs = await pixels(await load(before));
  let count = 0;
  for (let at = 0; at < mine.data.length; at += 4) if ([0, 1, 2].some((part) => Math.abs(mine.data[at + part] - theirs.data[at + part]) > differs)) count++;
  return { small, font, share: count / (width * height) };
}
