/** Runs the tests one after the other, on one server and one browser. */
import { launch } from './browser.mjs';
import { Service, cleanUp, entrance } from './server.mjs';
import { tests } from './tests.mjs';

const wanted = process.argv.slice(2);
const service = new Service();
await service.start();
const door = await entrance(service);
const browser = await launch();
let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  if (wanted.length && !wanted.some((word) => name.includes(word))) continue;
  const start = Date.now();
  try {
    await test({ service, entrance: door, browser });
    console.log(`ok    ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`FAIL  ${name}\n${error.stack}`);
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
door.close();
await service.kill();
cleanUp();
console.log(failed ? `${failed} failed` : 'all passed');
process.exit(failed ? 1 : 0);
