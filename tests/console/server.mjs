/** A `dirigent serve` of its own: a fresh home, a fresh folder with a small Python project, and the offline model. */
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.join(process.env.DIRIGENT_TEST_ROOT, 'service');
export const workspace = path.join(root, 'project');
const data = path.join(root, 'home/data');

const PROJECT = {
  'ledger/__init__.py': '',
  'ledger/amount.py': '"""Amounts of money, in cents."""\n\n\ndef parse_amount(text):\n    """Reads an amount; parse_amount refuses anything else."""\n    units, _, cents = text.partition(".")\n    return int(units) * 100 + int(cents or 0)\n\n\ndef format_amount(cents):\n    return f"{cents // 100}.{cents % 100:02}"\n',
  'ledger/report.py': 'from ledger.amount import format_amount, parse_amount\n\n\ndef total(lines):\n    return format_amount(sum(parse_amount(line) for line in lines))\n',
  'ledger/budget.py': 'from ledger.amount import parse_amount\n\n\nclass Budget:\n    def __init__(self, limit):\n        self.limit = parse_amount(limit)\n\n    def allows(self, text):\n        return parse_amount(text) <= self.limit\n',
  'tests/__init__.py': '',
  'tests/test_amount.py': 'import unittest\n\nfrom ledger.amount import parse_amount\nfrom ledger.budget import Budget\nfrom ledger.report import total\n\n\nclass AmountTest(unittest.TestCase):\n    def test_parse(self):\n        self.assertEqual(parse_amount("12.50"), 1250)\n\n    def test_total(self):\n        self.assertEqual(total(["1.00", "2.50"]), "3.50")\n\n    def test_budget(self):\n        self.assertTrue(Budget("10.00").allows("9.99"))\n',
  'README.md': '# Ledger\n\nAmounts are read by parse_amount.\n',
};

/** A file whose name and content must stay text, wherever they are shown. */
export const HOSTILE_NAME = 'ledger/<img src=x onerror=alert(4)>.py';
PROJECT[HOSTILE_NAME] = 'def hostile_name():\n    return "</code><script>alert(5)</script><img src=x onerror=alert(6)>"\n\n\nprint(hostile_name())\n';

const here = path.dirname(fileURLToPath(import.meta.url));

/** Commands wait for approval, except those of Python. One MCP service works, and one fails when it is started. */
const CONFIG = `[approvals]
ask = ["execute_command"]
allow = ["execute_command(command: python3 *)"]

[mcp.shop]
command = ${JSON.stringify(process.execPath)}
args = [${JSON.stringify(path.join(here, 'mcp-service.mjs'))}]
trigger_keywords = ["orders", "订单"]
env = { SHOP_TOKEN = "\${SHOP_TOKEN}" }

[mcp.broken]
command = "sh"
args = ["-c", "echo 'no such host: db.internal' >&2; exit 1"]
`;

export class Service {
  async start() {
    if (!this.port) {
      mkdirSync(path.join(root, 'home/config/dirigent'), { recursive: true });
      writeFileSync(path.join(root, 'home/config/dirigent/dirigent.toml'), CONFIG);
      for (const [name, text] of Object.entries(PROJECT)) {
        mkdirSync(path.dirname(path.join(workspace, name)), { recursive: true });
        writeFileSync(path.join(workspace, name), text);
      }
      this.port = await freePort();
    }
    const home = path.join(root, 'home');
    const env = { PATH: process.env.PATH, HOME: home, XDG_DATA_HOME: data, XDG_CONFIG_HOME: path.join(home, 'config'), XDG_STATE_HOME: path.join(home, 'state'), XDG_CACHE_HOME: path.join(home, 'cache'), PYTHONDONTWRITEBYTECODE: '1', SHOP_TOKEN: 'not-for-the-page' };
    this.child = spawn(process.env.DIRIGENT_TEST_BINARY, ['serve', '--listen', `127.0.0.1:${this.port}`, '--workspace', workspace, '--model', 'offline'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    killAtExit(this.child);
    await untilPrinted(this.child, 'Listening');
    this.address = `http://127.0.0.1:${this.port}`;
  }

  get tokenFile() {
    return path.join(data, 'dirigent/journal.db-token');
  }

  get token() {
    return readFileSync(this.tokenFile, 'utf8').trim();
  }

  /** Ends the server at once, as `kill -9` does. */
  async kill() {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await ended;
  }

  async get(address) {
    const response = await fetch(this.address + address, { headers: { Authorization: `Bearer ${this.token}` } });
    return response.json();
  }

  async post(address, body) {
    const response = await fetch(this.address + address, { method: 'POST', headers: { Authorization: `Bearer ${this.token}`, 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    return response.json();
  }

  /** The ids of all events of a run that has ended. */
  async eventIds(run) {
    const response = await fetch(`${this.address}/v1/runs/${run}/events`, { headers: { Authorization: `Bearer ${this.token}` } });
    return [...(await response.text()).matchAll(/^id: (.+)$/gm)].map((match) => match[1]);
  }

  file(name) {
    return readFileSync(path.join(workspace, name), 'utf8');
  }
}

/** What serves the page: the server itself, or the proxy in front of it. Returns the address to open. */
export async function entrance(service) {
  const proxy = process.env.DIRIGENT_TEST_PROXY;
  if (!proxy) return { address: service.address, link: `${service.address}/?token=${service.token}`, close() {} };
  const [command, ...given] = proxy.split(' ');
  const child = spawn(command, [...given, service.address, service.tokenFile], { stdio: ['ignore', 'pipe', 'inherit'] });
  killAtExit(child);
  const address = (await untilPrinted(child, 'http://')).match(/http:\/\/\S+/)[0];
  return { address, link: `${address}/`, close: () => child.kill() };
}

/** Whatever ends the tests, nothing that they started stays. */
const killAtExit = (child) => process.once('exit', () => child.kill('SIGKILL'));

function untilPrinted(child, text) {
  return new Promise((resolve, reject) => {
    let printed = '';
    child.stdout.on('data', (piece) => {
      printed += piece;
      if (printed.includes(text)) resolve(printed);
    });
    child.once('exit', (code) => reject(new Error(`ended with ${code} after printing: ${printed}`)));
  });
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export const cleanUp = () => rmSync(root, { recursive: true, force: true });
