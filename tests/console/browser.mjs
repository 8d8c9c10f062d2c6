/** Pages that report what must never happen: errors in the console, uncaught exceptions, reports of the content security policy. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Addresses that a service may lack; the page then says so, or asks for the list of runs again and again. */
const OPTIONAL = /\/v1\/(events|workflows|usage|approval-rules|memory|agents|mcp\/services|runs\/[^/]+\/approvals\/[^/]+\/check)$/;

export async function launch() {
  return chromium.launch({ executablePath: process.env.DIRIGENT_TEST_BROWSER, args: ['--no-sandbox'] });
}

/** Opens a page that is signed in. `faults` collects what must not happen; `allowed` are those that a test causes itself. */
export async function openPage(browser, entrance, { width = 1440, height = 900, scheme = 'light', path: where = '/' } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale: 'en-GB' });
  const page = await context.newPage();
  page.faults = [];
  page.allowed = [];
  const note = (text) => page.allowed.some((allowed) => allowed.test(text)) || page.faults.push(text);
  page.on('console', (message) => !(message.text().includes('404') && OPTIONAL.test(message.location().url.split('?')[0])) && (message.type() === 'error' || message.type() === 'warning') && note(`console: ${message.text()}`));
  page.on('pageerror', (error) => note(`exception: ${error.stack}`));
  page.on('dialog', (dialog) => {
    note(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.addInitScript(() => addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`)));
  await page.goto(entrance.link);
  if (where !== '/') await page.goto(entrance.address + where);
  await page.locator('.connection.live').waitFor({ state: 'attached' });
  return page;
}

/** Fails if axe finds a serious fault. */
export async function checkAccess(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  for (const { id, impact, nodes } of violations.filter((one) => !serious.includes(one))) console.log(`    axe ${impact} on ${name}: ${id}: ${nodes[0].html.slice(0, 120)}`);
  if (serious.length) throw new Error(`axe on ${name}:\n${serious.map(({ id, help, nodes }) => `  ${id}: ${help}\n${nodes.slice(0, 4).map((node) => `    ${node.html.slice(0, 200)}\n      ${node.failureSummary?.split('\n').slice(1, 3).join(' ').slice(0, 240)}`).join('\n')}`).join('\n')}`);
}

export const shot = (page, name) => page.screenshot({ path: path.join(process.env.DIRIGENT_TEST_SHOTS, `${name}.png`) });
