/** What a user does in the console, and what must hold meanwhile. The names begin with the requirement. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { checkAccess, compare, openPage, settled, shot, visit } from './browser.mjs';
import { HOSTILE_NAME } from './server.mjs';

const RENAME = 'Find all usages of function `parse_amount` and rename it to `parse_money`';

/** Types a goal and sends it, by keys alone. */
async function startGoal(page, goal) {
  await page.locator('body').press('n');
  await page.waitForFunction(() => document.activeElement?.id === 'composer' && document.activeElement.closest('.goal-composer'));
  await page.keyboard.insertText(goal);
  await page.keyboard.press('Control+Enter');
  await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
  return page.url().match(/runs\/([0-9a-f-]{36})/)[1];
}

const ended = (page, text) => page.locator('.state-tag', { hasText: text }).waitFor();
const clean = (page) => assert.deepEqual(page.faults, []);

async function tab(page, name) {
  await page.locator(`#tab-${name}`).click();
  await page.locator(`.pane-${name}`).waitFor();
}

/** The report of a run of `count` alike sub-tasks, 24 after them, and two more. Two thirds of them are done. */
function largeReport(count) {
  const files = Array.from({ length: count }, (_, at) => `crates/c${at % 24}/src/file_${at}.rs`);
  const subtasks = [
    { id: 'explore', title: 'Find every source file', agent: 'explore', task: 'Find them.' },
    ...files.map((file, at) => ({ id: `header-${at}`, title: `Add the licence header to ${file}`, agent: 'implement', task: 'Add it.', depends_on: ['explore'] })),
    ...Array.from({ length: 24 }, (_, at) => ({ id: `check-${at}`, title: `Check crate c${at}`, agent: 'verify', task: 'Check it.', depends_on: files.flatMap((_, file) => (file % 24 === at ? [`header-${file}`] : [])) })),
    { id: 'verify', title: 'Verify that every file has its header', agent: 'verify', task: 'Verify it.', depends_on: Array.from({ length: 24 }, (_, at) => `check-${at}`) },
  ];
  const done = Math.floor((count * 5) / 8);
  const states = subtasks.map((_, at) => (at < done ? 'succeeded' : at === done ? 'failed' : at < done + 9 ? 'running' : 'waiting'));
  return { report: { version: 1, goal: 'Add the licence header to every source file', phase: 'observing', summary: '', changed: [], confirmed_by: [], remaining: [], iteration_count: 1, usage: {}, iterations: [{ iteration: 1, plan: { summary: 'Each file, then each crate.', subtasks }, states, observations: [] }] }, first: done };
}

/** Opens a run of which only the page knows: its answers are made here. Returns the number of the first sub-task that is not done. */
async function openLarge(page, entrance, id, count) {
  const { report, first } = largeReport(count);
  const started = Date.now() - 60_000;
  await page.route(new RegExp(`/v1/runs/${id}`), (route) => (route.request().url().includes('/events')
    ? undefined // Never answered: events come from `feed`.
    : route.request().url().includes('/outputs/') ? route.fulfill({ json: { run: id, handle: 'a2.1', text: Array.from({ length: 60 }, (_, at) => `line ${at + 1}`).join('\n') } })
    : route.fulfill({ json: { run: id, state: 'running', goal: report.goal, workspace: '/srv', created_at: started, ended_at: null, seq: 1, pending_messages: [], report } })));
  await page.goto(`${entrance.address}/runs/${id}`);
  await page.locator('.plan').waitFor();
  return first;
}

/** Runs in the page: gives a run events as its stream would, and measures frames, shifts of the layout and the heap. */
async function feed({ run: id, first, seconds, perSecond }) {
  const { runModel } = await import('/console/run-model.js');
  const run = runModel(id);
  const shifts = [];
  new PerformanceObserver((list) => shifts.push(...list.getEntries().filter((entry) => !entry.hadRecentInput).map((entry) => ({ value: entry.value, what: entry.sources.map(({ node }) => `${node?.className} ${node?.textContent.slice(0, 30)}`) })))).observe({ type: 'layout-shift', buffered: false });
  globalThis.gc?.();
  const before = performance.memory?.usedJSHeapSize ?? 0;
  const [frames, begin] = [[], performance.now()];
  const total = seconds * perSecond;
  let [last, sent] = [begin, 0];
  const events = (at) => {
    const agent = 2 + (at % 8);
    return [
      { event: 'model_replied', scope: `a${agent}`, turn: at, content: `I read the file of step ${at}, and add what is missing. `.repeat(4), model: 'm', usage: { model_calls: 1, input_tokens: 900, output_tokens: 60 } },
      { event: 'tool_started', scope: `a${agent}`, effect: `a${agent}.${at}`, tool: 'apply_patch', parameters: { path: `src/file_${at}.rs` } },
      { event: 'tool_finished', scope: `a${agent}`, effect: `a${agent}.${at}`, tool: 'apply_patch', success: true, duration: 4 },
      { event: 'subtask_finished', scope: 'run', observation: { subtask: `header-${Math.min(959, first + (at >> 2))}`, title: '', duration: 10, finding: { kind: 'agent', agent, name: 'implement', result: { answer: 'done' }, work: { calls: [], changes: [] } } } },
    ][at % 4];
  };
  await new Promise((resolve) => {
    const step = (now) => {
      frames.push(now - last);
      last = now;
      for (; sent < Math.min(total, ((now - begin) / 1000) * perSecond); sent++) run.take({ ...events(sent), seq: sent + 2, at: Date.now() }, `${sent + 2}.1`);
      if (sent < total) requestAnimationFrame(step);
      else resolve();
    };
    requestAnimationFrame(step);
  });
  globalThis.gc?.();
  const sorted = frames.slice(1).sort((a, b) => b - a);
  return { events: sent, longest: sorted[0], middle: sorted[Math.floor(sorted.length / 2)], shift: shifts.reduce((sum, { value }) => sum + value, 0), moved: [...new Set(shifts.flatMap(({ what }) => what))].slice(0, 5), before, after: performance.memory?.usedJSHeapSize ?? 0 };
}

export const tests = {
  async host_5_goal_by_keyboard_to_summary_diff_and_undo({ service, entrance, browser }) {
    const page = await openPage(browser, entrance);
    const before = service.file('ledger/amount.py');
    await startGoal(page, RENAME);
    await ended(page, 'Goal achieved');
    await page.locator('.summary .prose', { hasText: 'Renamed' }).waitFor();
    assert.match(await page.locator('.confirmed').innerText(), /unittest[\s\S]*exit 0/);
    assert.equal(await page.locator('.file-list .file').count(), 4);
    assert.equal(await page.locator('.diff .del mark').first().innerText(), 'parse_amount');
    await compare(page, 'run-summary');

    // From the tab Summary to Plan with the arrow keys, then through the sub-tasks.
    await page.locator('#tab-summary').focus();
    await page.keyboard.press('ArrowRight');
    await page.locator('.graph .node').first().waitFor();
    assert.equal(await page.locator('.node').count(), 8);
    assert.equal(await page.locator('.node.succeeded').count(), 8);
    await page.locator('.node').first().focus();
    await page.keyboard.press('j');
    await page.locator('.inspector h2').waitFor();
    assert.match(page.url(), /task=explore/);
    await page.keyboard.press('j');
    assert.match(page.url(), /task=baseline/);
    await page.locator('.inspector .result', { hasText: 'Ran 3 tests' }).waitFor();
    await compare(page, 'run-graph-inspector');
    await page.keyboard.press('Escape');
    await page.locator('.inspector').waitFor({ state: 'detached' });
    await page.locator('.node').first().focus();
    await page.keyboard.press('ArrowDown');
    await page.waitForFunction(() => document.activeElement.dataset.task?.startsWith('edit-'));
    await page.keyboard.press('l');
    await page.locator('.task-row').nth(7).waitFor();

    await tab(page, 'summary');
    await page.locator('#undo').focus();
    await page.keyboard.press('Enter');
    const dialog = page.locator('#undo-dialog');
    await dialog.locator('.code', { hasText: 'ledger/amount.py' }).waitFor();
    await compare(page, 'run-undo');
    await dialog.getByRole('button', { name: 'Undo 4 files' }).click();
    await dialog.getByRole('status').waitFor();
    assert.equal(service.file('ledger/amount.py'), before);
    clean(page);
  },

  async host_5_approve_with_an_edit({ entrance, browser }) {
    const page = await openPage(browser, entrance);
    await startGoal(page, 'Run `echo first`');
    const card = page.locator('article.request');
    await card.waitFor();
    // A card takes no clicks at first, and Enter alone approves nothing.
    await card.getByRole('button', { name: /^Approve/ }).and(page.locator(':enabled')).waitFor();
    assert.ok(!(await page.evaluate(() => document.activeElement.closest('.request'))), 'no card takes the focus');
    await card.focus();
    await page.keyboard.press('Enter');
    await page.waitForTimeout(300);
    assert.ok(await card.isVisible());
    await checkAccess(page, 'approval');
    await compare(page, 'run-approval');
    await page.keyboard.press('e');
    const field = card.locator('textarea');
    await page.waitForFunction(() => document.activeElement.tagName === 'TEXTAREA' && document.activeElement.closest('.request'));
    const approve = card.getByRole('button', { name: 'Approve the edited call' });
    assert.ok(await approve.isDisabled(), 'an edit that changes nothing is none');
    const call = await field.inputValue();
    await field.fill(`${call},`);
    await card.locator('.field-error').waitFor();
    assert.ok(await approve.isDisabled(), 'an edit that is no JSON cannot be approved');
    await field.fill(call.replace('first', 'second'));
    await card.locator('ins', { hasText: 'second' }).waitFor();
    await compare(page, 'run-approval-edit');
    await page.keyboard.press('Control+Enter');
    await page.locator('.state-tag:not(:has-text("Running")):not(:has-text("wait"))').waitFor();
    await tab(page, 'plan');
    await page.locator('.node').first().click();
    await page.locator('.inspector .result', { hasText: 'second' }).waitFor();
    clean(page);
  },

  async host_5_guide_reject_and_two_tabs({ service, entrance, browser }) {
    const page = await openPage(browser, entrance);
    const run = await startGoal(page, 'Run `echo third`');
    const other = await openPage(browser, entrance, { path: '/waiting' });
    const here = page.locator('article.request').getByRole('button', { name: /^Approve/ });
    const there = other.locator('article.request', { hasText: 'echo third' }).getByRole('button', { name: /^Reject/ });
    await there.and(other.locator(':enabled')).waitFor();
    await shot(other, 'waiting');
    await there.click();
    await other.keyboard.insertText('not now');
    await here.and(page.locator(':enabled')).waitFor();
    await here.click();
    await page.locator('.state-tag:not(:has-text("Running")):not(:has-text("wait"))').waitFor();
    // The second decision does not count, and says so or has no card any more.
    other.allowed.push(/409/);
    const send = other.locator('form.words button[type=submit]');
    if (await send.count()) {
      await send.click().catch(() => {});
      await other.waitForTimeout(800);
    }
    const { report } = await service.get(`/v1/runs/${run}`);
    assert.ok(!report.rejected?.length);
    clean(page);
    clean(other);
  },

  async host_5_answer_a_question_by_keys({ service, entrance, browser }) {
    const page = await openPage(browser, entrance);
    const [, name] = service.file('ledger/amount.py').match(/def (parse_\w+)/);
    await startGoal(page, `rename ${name} to format_amount`);
    const card = page.locator('article.request');
    await card.locator('.choice').first().waitFor();
    await page.waitForTimeout(700);
    await card.focus();
    await page.keyboard.press('3');
    assert.equal(await card.locator('.is-chosen').innerText().then((text) => text.split('\n')[0].trim()), 'stop');
    await checkAccess(page, 'question');
    await compare(page, 'run-question');
    await card.locator('input:checked').press('Control+Enter');
    await ended(page, /Failed|Cancelled|Goal achieved/);
    clean(page);
  },

  async host_5_plan_first_guidance_and_cancel({ service, entrance, browser }) {
    const page = await openPage(browser, entrance);
    await page.locator('.goal-composer select').selectOption('plan');
    const run = await startGoal(page, 'Run `sh -c "sleep 1; echo slow"`');
    await page.locator('article.request').waitFor();
    await page.locator('.guidance textarea').fill('keep it short');
    await page.locator('.guidance textarea').press('Control+Enter');
    await page.locator('.guidance [role=status]', { hasText: 'Sent' }).waitFor();
    await page.getByRole('button', { name: 'Cancel run' }).click();
    await page.getByRole('group', { name: 'What runs is stopped.' }).getByRole('button', { name: 'Cancel run' }).click();
    await ended(page, 'Cancelled');
    const ids = await service.eventIds(run);
    assert.ok(ids.length > 5);
    clean(page);
  },

  async host_5_a_plan_is_approved_before_it_is_carried_out({ service, entrance, browser }) {
    const page = await openPage(browser, entrance);
    await page.locator('.goal-composer select').selectOption('plan');
    const before = service.file('ledger/amount.py');
    const [, name] = before.match(/def (parse_\w+)/);
    await startGoal(page, `Find all usages of \`${name}\` and rename it to \`read_amount\``);
    const card = page.locator('article.request');
    await card.locator('.plan-card li').nth(7).waitFor();
    assert.equal(service.file('ledger/amount.py'), before);
    await card.getByRole('button', { name: /^Approve/ }).and(page.locator(':enabled')).waitFor();
    await checkAccess(page, 'plan card');
    await shot(page, 'run-plan-card');
    await card.focus();
    await page.keyboard.press('a');
    await ended(page, 'Goal achieved');
    assert.ok(service.file('ledger/amount.py').includes('read_amount'));
    // Other tests find the old name.
    const { run } = await service.post('/v1/runs', { goal: `Find all usages of \`read_amount\` and rename it to \`${name}\`` });
    while ((await service.get(`/v1/runs/${run}`)).state === 'running') await new Promise((resolve) => setTimeout(resolve, 100));
    clean(page);
  },

  async host_5_conversation({ entrance, browser }) {
    const page = await openPage(browser, entrance, { path: '/chats' });
    await page.getByRole('button', { name: 'New chat' }).click();
    await page.waitForURL(/\/chats\/[0-9a-f-]{36}/);
    await page.locator('#composer').fill('Count the lines in README.md');
    await page.keyboard.press('Enter');
    await page.locator('.turn .prose', { hasText: '3 lines' }).waitFor();
    await page.locator('#composer').fill('Count the lines in ledger/report.py');
    await page.keyboard.press('Enter');
    await page.locator('.turn .prose', { hasText: '5 lines' }).waitFor();
    assert.equal(await page.locator('.turn').count(), 2);
    await checkAccess(page, 'chat');
    await compare(page, 'chat');
    // The menu of workflows, by keys.
    await page.locator('#composer').fill('/re');
    await page.locator('.slash-item[aria-selected=true]', { hasText: '/rename_symbol' }).waitFor();
    await checkAccess(page, 'slash menu');
    await shot(page, 'chat-slash-menu');
    await page.keyboard.press('ArrowDown');
    await page.locator('.slash-item[aria-selected=true]', { hasText: '/replace_text' }).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/workflows\/replace_text/);
    clean(page);
  },

  async host_5_memory_prompts_and_workflows({ service, entrance, browser }) {
    const page = await openPage(browser, entrance, { path: '/workflows' });
    await page.locator('.link-list a', { hasText: 'rename_symbol' }).click();
    await page.locator('#field-name').fill('format_amount');
    await page.locator('#field-new_name').fill('no name');
    await page.getByRole('button', { name: /^Run workflow/ }).click();
    await page.waitForFunction(() => document.activeElement?.id === 'field-new_name');
    await page.locator('.field-error', { hasText: 'must match' }).waitFor();
    await checkAccess(page, 'workflow');
    await compare(page, 'workflow');
    await page.locator('#field-new_name').fill('write_amount');
    await page.locator('.asked b', { hasText: 'write_amount' }).waitFor();
    await page.locator('#field-new_name').press('Control+Enter');
    await page.waitForURL(/\/runs\//);
    await ended(page, 'Goal achieved');
    assert.ok(service.file('ledger/amount.py').includes('write_amount'));

    await page.goto(`${entrance.address}/memory`);
    await page.getByLabel('A fact that agents are told').fill('The user likes <b>short</b> answers');
    await page.getByRole('button', { name: 'Add' }).and(page.locator(':enabled')).waitFor();
    await page.keyboard.press('Enter');
    const fact = page.locator('.fact-rows li', { hasText: '<b>short</b>' });
    await fact.waitFor();
    await compare(page, 'memory');
    await fact.getByRole('button').click();
    await fact.waitFor({ state: 'detached' });

    await page.goto(`${entrance.address}/prompts`);
    await page.getByLabel('New prompt').fill('bakery');
    await page.getByRole('button', { name: 'Create' }).and(page.locator(':enabled')).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/prompts\/bakery/);
    await page.getByLabel('Base').fill('You know all about bread.');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.form-title', { hasText: 'version 2' }).waitFor();
    await checkAccess(page, 'prompt');
    await compare(page, 'prompt');
    clean(page);
  },

  async host_5_always_writes_a_rule_that_settings_lists_and_deletes({ service, entrance, browser }) {
    const page = await openPage(browser, entrance);
    await startGoal(page, 'Run `echo always`');
    const card = page.locator('article.request');
    await card.getByRole('button', { name: /^Always/ }).and(page.locator(':enabled')).click();
    await card.getByLabel(/Where/).selectOption('workspace');
    assert.equal((await service.get('/v1/approval-rules')).rules.length, 0, 'the first button writes no rule');
    await shot(page, 'run-always');
    await card.locator('button[type=submit]').click();
    await ended(page, 'Goal achieved');
    // The same call does not wait again.
    await startGoal(page, 'Run `echo always`');
    await ended(page, 'Goal achieved');
    await visit(page, '/settings');
    const rule = page.locator('.fact-rows li', { hasText: 'execute_command' });
    await rule.waitFor();
    await rule.getByRole('button').click();
    await rule.waitFor({ state: 'detached' });
    assert.equal((await service.get('/v1/approval-rules')).rules.length, 0);
    clean(page);
  },

  async host_5_services_agents_and_usage({ service, entrance, browser }) {
    await service.post('/v1/runs', { goal: 'Count the lines in README.md' });
    const page = await openPage(browser, entrance, { path: '/services' });
    page.allowed.push(/502/);
    await page.locator('.link-rows a', { hasText: 'broken' }).click();
    await page.getByRole('button', { name: /^Start/ }).click();
    await page.locator('.column-main .field-error', { hasText: 'it ended with exit status: 1' }).waitFor();
    await page.locator('[role=log]', { hasText: 'no such host: db.internal' }).waitFor();
    await page.locator('.link-rows a', { hasText: 'shop' }).click();
    await page.locator('.form-title', { hasText: 'shop' }).waitFor();
    await page.getByRole('button', { name: /^Start/ }).click();
    await page.locator('.column-main li', { hasText: 'mcp__shop__find_order' }).waitFor();
    await page.locator('.link-rows a', { hasText: 'running' }).waitFor();
    const shown = await page.locator('.column-main').innerText();
    assert.ok(shown.includes('SHOP_TOKEN') && !shown.includes('not-for-the-page'), shown);
    await compare(page, 'services');
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.locator('.link-rows a', { hasText: 'stopped' }).waitFor();
    await visit(page, '/agents');
    await page.locator('.link-rows a', { hasText: 'explore' }).click();
    await page.locator('.column-main dd', { hasText: 'find_definition' }).waitFor();
    await compare(page, 'agents');
    await visit(page, '/usage');
    await page.locator('td', { hasText: 'offline' }).waitFor();
    clean(page);
  },

  async host_5_a_phone_starts_approves_and_answers({ service, entrance, browser }) {
    const page = await openPage(browser, entrance, { width: 390, height: 844 });
    await page.locator('#composer').fill('Run `echo phone`');
    await page.locator('.goal-composer button[type=submit]').tap();
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
    const approve = page.locator('article.request').getByRole('button', { name: /^Approve/ });
    await approve.and(page.locator(':enabled')).waitFor();
    // Each target is large enough for a finger.
    const small = await page.locator('article.request button, .nav a:visible, .tab').evaluateAll((nodes) => nodes.filter((node) => node.offsetParent && node.getBoundingClientRect().height < 44).map((node) => node.textContent));
    assert.deepEqual(small, []);
    await approve.tap();
    await ended(page, 'Goal achieved');
    await page.locator('.summary .prose', { hasText: 'echo phone' }).waitFor();
    const [, name] = service.file('ledger/amount.py').match(/def (parse_\w+)/);
    const [, taken] = service.file('ledger/amount.py').match(/def ((?:format|write)_\w+)/);
    const asking = await service.post('/v1/runs', { goal: `rename ${name} to ${taken}` });
    await page.locator('.nav a', { hasText: 'Waits' }).tap();
    const card = page.locator('article.request', { hasText: 'already in use' });
    await card.locator('.choice').nth(2).tap();
    await card.getByRole('button', { name: /^Answer/ }).and(page.locator(':enabled')).tap();
    await card.waitFor({ state: 'detached' });
    while ((await service.get(`/v1/runs/${asking.run}`)).state === 'running') await new Promise((resolve) => setTimeout(resolve, 100));
    await page.locator('.nav button', { hasText: 'More' }).tap();
    await page.locator('.nav a', { hasText: 'Settings' }).tap();
    await page.getByRole('heading', { name: 'Settings' }).waitFor();
    clean(page);
  },

  async host_5_a_reload_shows_the_same_and_back_leads_back({ service, entrance, browser }) {
    const { run } = await service.post('/v1/runs', { goal: 'Count the lines in README.md' });
    const page = await openPage(browser, entrance);
    await page.locator(`.rows a[href="/runs/${run}"]`).click();
    await page.locator('.summary').waitFor();
    await page.locator('#tab-plan').click();
    await page.locator('.node').click();
    await page.locator('.inspector h2').waitFor();
    const [shown, where] = [await page.locator('.inspector h2').innerText(), page.url()];
    await page.reload();
    await page.locator('.inspector h2', { hasText: shown }).waitFor();
    assert.equal(page.url(), where);
    assert.equal(await page.locator('.node.is-selected').count(), 1);
    await page.goBack();
    await page.locator('.inspector').waitFor({ state: 'detached' });
    await page.goBack();
    await page.locator('.goal-composer').waitFor();
    assert.equal(new URL(page.url()).pathname, '/');
    clean(page);
  },

  async host_5_without_a_session_the_page_says_how_to_sign_in({ service, browser }) {
    if (process.env.DIRIGENT_TEST_PROXY) return; // The proxy adds the token to each request.
    const context = await browser.newContext();
    const page = await context.newPage();
    for (const where of ['/', '/runs/last', '/?token=wrong']) {
      const answer = await page.goto(service.address + where);
      assert.equal(answer.status(), 401, where);
      await page.getByRole('heading', { name: 'Open the link to Dirigent' }).waitFor();
    }
    await checkAccess(page, 'signed out');
    await compare(page, 'signed-out');
    await page.goto(`${service.address}/?token=${service.token}`);
    await page.locator('.goal-composer').waitFor();
    assert.equal(page.url(), `${service.address}/`, 'the token leaves the address');
    const [cookie] = await context.cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.value.includes(service.token)], [true, 'Strict', false]);
    // A session that ends while the page is open.
    await context.clearCookies();
    await page.locator('.place', { hasText: 'Memory' }).click();
    await page.getByRole('heading', { name: 'Open the link again' }).waitFor();
  },

  async host_5_hostile_text_stays_text({ service, entrance, browser }) {
    const page = await openPage(browser, entrance);
    const hostile = '<img src=x onerror=alert(1)><script>alert(2)</script> [link](javascript:alert(3)) ![i](https://example.org/x.png) \u202Eevil\u200B';
    const harmless = async () => assert.equal(await page.locator('#app img, #app script, #app a[href^="javascript"], #app iframe, #app [onerror]').count(), 0);
    await startGoal(page, hostile);
    await ended(page, 'Failed');
    const title = await page.locator('h1').innerText();
    assert.ok(title.includes('<img src=x onerror=alert(1)>') && title.includes('⟨U+202E⟩evil⟨U+200B⟩'), title);
    for (const name of ['summary', 'plan', 'journal']) {
      await tab(page, name);
      await harmless();
    }
    await visit(page, '/');
    await page.locator('.rows a', { hasText: '<img src=x' }).waitFor();

    // The name of a file, its content and the output of a command.
    await startGoal(page, 'Find all usages of `hostile_name` and rename it to `harmless_name`');
    await ended(page, 'Goal achieved');
    await page.locator('.file-list .file', { hasText: HOSTILE_NAME }).click();
    await page.locator('.diff', { hasText: '<script>alert(5)</script>' }).waitFor();
    await page.locator('.diff .add mark', { hasText: 'harmless_name' }).first().waitFor();
    await harmless();
    await startGoal(page, "Run `printf '<script>alert(7)</script>\\033[31mred\\033[0m\\n'`");
    await page.locator('article.request pre', { hasText: '<script>alert(7)</script>' }).waitFor();
    await page.locator('article.request').getByRole('button', { name: /^Approve/ }).and(page.locator(':enabled')).click();
    await ended(page, 'Goal achieved');
    await tab(page, 'plan');
    await page.locator('.node').first().click();
    await page.locator('.inspector .result', { hasText: '<script>alert(7)</script>red' }).waitFor();
    await harmless();
    assert.ok(service.file(HOSTILE_NAME).includes('harmless_name'));

    // The Markdown parser on its own.
    const found = await page.evaluate(async (text) => {
      const [{ render }, { markdown }] = await Promise.all([import('/console/view.js'), import('/console/markdown.js')]);
      const box = document.createElement('div');
      render(box, markdown(`# ${text}\n\n- ${text}\n\n| a | b |\n|---|---|\n| ${text} | x |\n\n\`\`\`html\n${text}\n\`\`\`\n\n[ok](https://example.org/) https://example.org/a`));
      return { nodes: [...box.querySelectorAll('*')].map((node) => node.localName), links: [...box.querySelectorAll('a')].map((link) => link.protocol), attributes: [...box.querySelectorAll('*')].flatMap((node) => node.getAttributeNames()) };
    }, hostile);
    assert.ok(!found.nodes.some((name) => ['img', 'script', 'iframe'].includes(name)));
    assert.ok(found.links.length >= 2 && found.links.every((protocol) => protocol === 'https:'), found.links.join());
    assert.ok(!found.attributes.some((name) => name.startsWith('on')));
    clean(page);
  },

  async host_5_server_killed_and_started_again({ service, entrance, browser }) {
    const page = await openPage(browser, entrance, { height: 2600 });
    page.allowed.push(/Failed to load resource|net::ERR/);
    const run = await startGoal(page, 'Run `echo survived`');
    await page.locator('article.request').waitFor();
    await page.locator('.guidance textarea').fill('words that are being typed');
    await service.kill();
    await page.locator('.connection.reconnecting, .connection.offline').waitFor({ state: 'attached' });
    assert.equal(await page.locator('.guidance textarea').inputValue(), 'words that are being typed');
    assert.ok(await page.locator('article.request').isVisible(), 'what is on the screen stays');
    await shot(page, 'reconnecting');
    await service.start();
    await page.locator('.connection.live').waitFor({ state: 'attached' });
    assert.equal(await page.locator('.guidance textarea').inputValue(), 'words that are being typed');
    const approve = page.locator('article.request').getByRole('button', { name: /^Approve/ });
    await approve.and(page.locator(':enabled')).click();
    await ended(page, /Goal achieved|Failed/);
    await tab(page, 'journal');
    const shown = await page.locator('.journal-row').evaluateAll((rows) => rows.map((row) => row.firstChild.textContent));
    const sent = (await service.eventIds(run)).map((id) => id.split('.')[0]);
    assert.deepEqual(shown, sent, 'every event once');
    clean(page);
  },

  async host_5_access_in_both_themes_and_sizes({ service, entrance, browser }) {
    const [, name] = service.file('ledger/amount.py').match(/def (parse_\w+)/);
    const run = await service.post('/v1/runs', { goal: `Find all usages of \`${name}\` and rename it to \`${name === 'parse_money' ? 'parse_amount' : 'parse_money'}\`` });
    while ((await service.get(`/v1/runs/${run.run}`)).state === 'running') await new Promise((resolve) => setTimeout(resolve, 100));
    const waiting = await service.post('/v1/runs', { goal: 'Run `echo waiting`' });
    const screens = {
      home: '/', runs: '/runs?state=achieved', 'run-summary': `/runs/${run.run}`, 'run-plan': `/runs/${run.run}?tab=plan&task=explore`, 'run-list': `/runs/${run.run}?tab=plan&view=list`, 'run-changes': `/runs/${run.run}?tab=changes`, 'run-journal': `/runs/${run.run}?tab=journal`, 'run-waiting': `/runs/${waiting.run}`,
      waiting: '/waiting', chats: '/chats', workflows: '/workflows/rename_symbol', services: '/services/broken', agents: '/agents/explore', prompts: '/prompts/default', memory: '/memory', usage: '/usage', settings: '/settings', missing: '/memory/nowhere',
    };
    // Both sizes at once, as most of the time goes into waiting for each other.
    await Promise.all([['desktop', 1440, 900], ['phone', 390, 844]].map(async ([device, width, height]) => {
      const page = await openPage(browser, entrance, { width, height });
      const tooWide = [];
      for (const [name, where] of Object.entries(screens)) {
        for (const scheme of ['light', 'dark']) {
          await page.emulateMedia({ colorScheme: scheme });
          if (scheme === 'light') await visit(page, where);
          assert.equal(await page.locator('[role=alert]').count(), 0, `${name} shows an error`);
          await shot(page, `${device}-${scheme}-${name}`);
          await checkAccess(page, `${name}, ${device}, ${scheme}`, { onlyColours: scheme === 'dark' });
        }
        // A text of 200 % has half of the width.
        for (const narrow of device === 'phone' ? [width, 320] : [width, width / 2]) {
          await page.setViewportSize({ width: narrow, height });
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          if (wide > 0) tooWide.push(`${name}: ${wide} px at ${narrow} px: ${await page.evaluate(() => [...document.querySelectorAll('#app *')].filter((node) => node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.diff, pre, .scroll-x, .nav')).slice(0, 4).map((node) => `${node.localName}.${node.className}`).join(' '))}`);
        }
        await page.setViewportSize({ width, height });
      }
      assert.deepEqual(tooWide, []);
      clean(page);
    }));
    await service.post(`/v1/runs/${waiting.run}/cancel`, {});
  },

  async host_5_large_plans_are_stacks_and_events_move_nothing({ entrance, browser }) {
    const page = await openPage(browser, entrance);
    await openLarge(page, entrance, 'all-nodes', 110);
    assert.equal(await page.locator('.node').count(), 136);
    await openLarge(page, entrance, 'first-stacks', 124);
    assert.equal(await page.locator('.stack').count(), 4);
    const start = Date.now();
    const first = await openLarge(page, entrance, 'big', 960);
    await page.locator('.stack-map').first().waitFor();
    console.log(`    986 sub-tasks shown after ${Date.now() - start} ms`);
    assert.deepEqual(await page.locator('.stack b').allInnerTexts(), ['Find every source file', 'Add the licence header to FILE', 'Check crate NAME', 'Verify that every file has its header']);
    await page.locator('.stack-head', { hasText: '960 alike' }).click();
    await page.locator('.inspector .task-row').first().waitFor();
    assert.ok((await page.locator('.inspector .task-row').count()) < 80, 'the list is virtualised');
    await page.locator('.stack-map').first().focus();
    await page.keyboard.press('ArrowRight');
    await page.locator('.stack-name', { hasText: 'file_0.rs' }).waitFor();
    await checkAccess(page, 'stacks');
    await compare(page, 'run-986-subtasks');
    // What is typed, and where one has scrolled, outlast a thousand events; nothing moves.
    await page.locator('.guidance textarea').fill('being typed');
    const scrolled = await page.evaluate(() => (document.querySelector('.inspector-body').scrollTop = 700));
    const measured = await page.evaluate(feed, { run: 'big', first, seconds: 6, perSecond: 170 });
    console.log(`    ${measured.events} events in 6 s: frames, ms: longest ${measured.longest.toFixed(0)}, middle ${measured.middle.toFixed(0)}; layout shift ${measured.shift.toFixed(4)}`);
    assert.ok(measured.events >= 1000, `${measured.events} events`);
    assert.ok(measured.shift < 0.001, `these moved: ${measured.moved.join('; ')}`);
    assert.equal(await page.evaluate(() => document.querySelector('.inspector-body').scrollTop), scrolled);
    assert.equal(await page.locator('.guidance textarea').inputValue(), 'being typed');
    await page.locator('.stack-head .stack-tally', { hasText: '854' }).waitFor();
    clean(page);
  },

  async host_5_the_output_of_a_call_is_loaded_when_it_is_opened({ entrance, browser }) {
    const page = await openPage(browser, entrance);
    await openLarge(page, entrance, 'outputs', 24);
    await page.evaluate(async () => {
      const { runModel } = await import('/console/run-model.js');
      const run = runModel('outputs');
      const events = [
        { event: 'subtask_started', scope: 'run', subtask: 'header-20', agent: 2 },
        { event: 'agent_started', scope: 'a2', role: { sub: 'implement' }, caller: null },
        { event: 'tool_started', scope: 'a2', effect: 'a2.1', tool: 'execute_command', parameters: { command: ['seq', '60'] }, subtask: 'header-20' },
        { event: 'tool_finished', scope: 'a2', effect: 'a2.1', tool: 'execute_command', success: true, duration: 4 },
      ];
      events.forEach((event, at) => run.take({ ...event, seq: at + 2, at: Date.now() }, `${at + 2}.1`));
    });
    await page.locator('[data-task="header-20"]').click();
    await page.locator('.inspector .call-row', { hasText: 'seq 60' }).click();
    await page.locator('.inspector .result', { hasText: 'line 20' }).waitFor();
    assert.ok(!(await page.locator('.inspector .result').innerText()).includes('line 21'), 'a long output is folded');
    await page.getByRole('button', { name: 'Show all 60 lines' }).click();
    await page.locator('.inspector .result', { hasText: 'line 60' }).waitFor();
    clean(page);
  },

  async host_5_memory_over_a_minute({ entrance, browser }) {
    const page = await openPage(browser, entrance);
    page.allowed.push(/Failed to load resource|net::ERR/);
    const first = await openLarge(page, entrance, 'big', 960);
    await page.locator('.stack-map').first().waitFor();
    const measured = await page.evaluate(feed, { run: 'big', first, seconds: 60, perSecond: 50 });
    console.log(`    ${measured.events} events in a minute: heap ${(measured.before / 1e6).toFixed(1)} MB, then ${(measured.after / 1e6).toFixed(1)} MB`);
    assert.ok(measured.after < 80e6, 'less than 80 MB');
    clean(page);
  },

  async host_5_speaks_chinese({ service, entrance, browser }) {
    const waiting = await service.post('/v1/runs', { goal: 'Run `echo 等待`' });
    await Promise.all([[1440, 900], [390, 844]].map(async ([width, height]) => {
      const page = await openPage(browser, entrance, { width, height, language: 'zh' });
      for (const [name, where] of Object.entries({ home: '/', run: `/runs/${waiting.run}`, workflow: '/workflows/rename_symbol', settings: '/settings' })) {
        await visit(page, where);
        assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh');
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${name} is too wide`);
        await checkAccess(page, `${name} in Chinese`);
        await shot(page, `zh-${width}-${name}`);
      }
      await visit(page, `/runs/${waiting.run}`);
      await page.getByRole('button', { name: /^批准/ }).waitFor();
      clean(page);
    }));
    await service.post(`/v1/runs/${waiting.run}/cancel`, {});
  },

  async host_5_budgets({ entrance, browser }) {
    const folder = process.env.DIRIGENT_TEST_FILES;
    const html = readFileSync(path.join(folder, 'index.html'), 'utf8');
    const files = readdirSync(folder, { recursive: true }).map((name) => path.join(folder, name)).filter((file) => statSync(file).isFile() && !file.endsWith('.md'));
    // Modules that index.html names are fetched at once, instead of one after the other.
    for (const file of files) if (file.endsWith('.js')) assert.ok(html.includes(`/console/${path.relative(folder, file)}"`), `index.html does not name ${file}`);
    const size = files.reduce((sum, file) => sum + gzipSync(readFileSync(file)).length, 0);
    console.log(`    ${files.length} files, ${(size / 1024).toFixed(1)} KB compressed one by one`);
    assert.ok(size < 150 * 1024);
    const page = await openPage(browser, entrance);
    const measured = await page.evaluate(async () => {
      const { layout } = await import('/console/layout.js');
      const small = Array.from({ length: 150 }, (_, at) => ({ id: `t${at}`, depends_on: at < 10 ? [] : [`t${at - 10 + (at % 7)}`, `t${Math.floor(at / 2)}`].filter((id, index, all) => all.indexOf(id) === index && id !== `t${at}`) }));
      layout(small, 800);
      const start = performance.now();
      layout(small, 800);
      return { 'layout of 150 sub-tasks, ms': performance.now() - start, 'first paint, ms': performance.getEntriesByName('first-contentful-paint')[0]?.startTime };
    });
    for (const [name, value] of Object.entries(measured)) console.log(`    ${name}: ${value?.toFixed(1)}`);
    clean(page);
  },
};

/** Tests that run beside the others, as they mostly wait. */
export const BESIDE = ['host_5_memory_over_a_minute'];
