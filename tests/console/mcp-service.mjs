/** An MCP service over standard input and output with two tools, for the page of services. */
import { createInterface } from 'node:readline';

console.error('ready to answer');
const tools = [
  { name: 'find_order', description: 'Finds an order by its number. <b>Not bold</b>.', inputSchema: { type: 'object', properties: { number: { type: 'integer' } }, required: ['number'] } },
  { name: 'list_orders', description: 'Lists the orders of a day.', inputSchema: { type: 'object', properties: { day: { type: 'string' } } } },
];
const ANSWERS = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'shop', version: '1.0.0' } }),
  'tools/list': () => ({ tools }),
  'tools/call': () => ({ content: [{ type: 'text', text: 'Order 7: 2 loaves' }] }),
  ping: () => ({}),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = ANSWERS[method];
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(answer ? { result: answer(params ?? {}) } : { error: { code: -32601, message: `no method ${method}` } }) }));
});
