/**
 * Serves the console's files from the source folder in front of a running service, so that changes to them show without a build:
 *
 *   node tests/console/proxy.mjs http://127.0.0.1:7341 TOKEN_FILE
 *
 * It adds the token to each request: whoever reaches its address can use the service. It listens on a free port of this computer only.
 */
import { createReadStream, existsSync, readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream';
import { fileURLToPath } from 'node:url';

const [service, tokenFile] = process.argv.slice(2);
const folder = process.env.DIRIGENT_TEST_FILES ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../../crates/server/console');
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const API = /^\/(v1|context|health|openapi\.json|reference|mcp)(\/|\?|$)/;

const server = createServer((incoming, outgoing) => {
  const { pathname } = new URL(incoming.url, service);
  if (API.test(incoming.url)) return forward(incoming, outgoing);
  const name = pathname.startsWith('/console/') ? path.normalize(pathname.slice('/console/'.length)) : 'index.html';
  const file = path.join(folder, name);
  if (!file.startsWith(folder) || !existsSync(file)) return outgoing.writeHead(404).end();
  outgoing.writeHead(200, { 'Content-Type': TYPES[path.extname(file)], 'Content-Security-Policy': POLICY, 'Cache-Control': 'no-store' });
  return createReadStream(file).pipe(outgoing);
});

function forward(incoming, outgoing) {
  const { origin, host, cookie, ...headers } = incoming.headers;
  const { hostname, port } = new URL(service);
  const sent = request({ hostname, port, method: incoming.method, path: incoming.url, headers: { ...headers, authorization: `Bearer ${readFileSync(tokenFile, 'utf8').trim()}` } }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    // A connection that breaks off shall do so for the browser, too.
    pipeline(answer, outgoing, () => {});
  });
  sent.on('error', () => outgoing.destroy());
  outgoing.on('close', () => sent.destroy());
  incoming.pipe(sent);
}

server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
