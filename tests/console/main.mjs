/** Runs the tests one after the other, on one server and one browser; those that only wait run beside them, in a browser of their own. */
import { launch, shot } from './browser.mjs';
import { Service, cleanUp, entrance } from './server.mjs';
import { BESIDE, tests } from './tests.mjs';

const wanted = process.argv.slice(2);
const names = Object.keys(tests).filter((name) => !wanted.length || wanted.some((word) => name.includes(word)));
const begin = Date.now();
let failed = 0;

async function run(name, given) {
  const start = Date.now();
  try {
    await tests[name](given);
    console.log(`ok    ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    if (given.browser.contexts()[0]?.pages()[0]) await shot(given.browser.contexts()[0].pages()[0], `failed-${name}`).catch(() => {});
    failed++;
    console.log(`FAIL  ${name}\n${error.stack}`);
  }
  for (const context of given.browser.contexts()) await context.close().catch(() => {});
}

const service = new Service();
await service.start();
const door = await entrance(service);
const browser = await launch();
const beside = names.filter((name) => BESIDE.includes(name)).map(async (name) => {
  const own = await launch();
  await run(name, { service, entrance: door, browser: own });
  await own.close();
});
for (const name of names) if (!BESIDE.includes(name)) await run(name, { service, entrance: door, browser });
await Promise.all(beside);
await browser.close();
door.close();
await service.kill();
cleanUp();
if (!names.length) failed++;
console.log(`${names.length} tests, ${failed} failed, ${Math.round((Date.now() - begin) / 1000)} s`);
process.exit(failed ? 1 : 0);
