/**
 * Everything that the console asks of the service. No other module uses `fetch`, so a new address changes this file only.
 * The page sends no token: the browser adds the cookie.
 */

/** An answer that is an error, or none at all (`status` 0). */
export class ApiError extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

const watchers = new Set();

/** Calls `watcher` with `true` after an answer of the service, and with `false` if it did not answer. */
export const onContact = (watcher) => watchers.add(watcher);
const contact = (answered, status) => watchers.forEach((watcher) => watcher(answered, status));

async function send(method, path, { body, headers, signal, etag } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: 'same-origin',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    contact(false, 0);
    throw new ApiError(0, 'unreachable', 'the service does not answer');
  }
  contact(response.status !== 502 && response.status !== 503, response.status);
  const text = await response.text();
  const type = response.headers.get('Content-Type') ?? '';
  if (!response.ok) {
    let problem = {};
    try {
      problem = JSON.parse(text);
    } catch {
      // A proxy in between may answer with a page.
    }
    throw new ApiError(response.status, problem.code ?? 'unknown', problem.detail ?? problem.title ?? `${response.status} ${response.statusText}`);
  }
  const value = type.includes('json') ? JSON.parse(text) : text;
  return etag ? { value, etag: response.headers.get('ETag') } : value;
}

const query = (given) => {
  const set = Object.entries(given ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return set.length ? `?${new URLSearchParams(set)}` : '';
};
const run = (id) => `/v1/runs/${encodeURIComponent(id)}`;
const context = (id) => `/context/${encodeURIComponent(id)}`;

export const api = {
  runs: (filter) => send('GET', `/v1/runs${query(filter)}`),
  startRun: (body) => send('POST', '/v1/runs', { body }),
  run: (id) => send('GET', run(id)),
  diff: (id) => send('GET', `${run(id)}/diff`),
  /** The whole output of a call, an agent or an iteration. */
  output: (id, handle) => send('GET', `${run(id)}/outputs/${encodeURIComponent(handle)}`),
  undoPreview: (id, options) => send('GET', `${run(id)}/undo${query(options)}`),
  undo: (id, body) => send('POST', `${run(id)}/undo`, { body }),
  guide: (id, body) => send('POST', `${run(id)}/guidance`, { body }),
  cancel: (id) => send('POST', `${run(id)}/cancel`, { body: {} }),
  resume: (id, body) => send('POST', `${run(id)}/resume`, { body }),
  fork: (id, body) => send('POST', `${run(id)}/fork`, { body }),
  waiting: () => send('GET', '/v1/approvals'),
  waitingOf: (id) => send('GET', `${run(id)}/approvals`),
  decide: (id, call, body) => send('POST', `${run(id)}/approvals/${encodeURIComponent(call)}`, { body }),
  checkDecision: (id, call, body) => send('POST', `${run(id)}/approvals/${encodeURIComponent(call)}/check`, { body }),
  answer: (id, body) => send('POST', `${run(id)}/answers`, { body }),

  conversations: (filter) => send('GET', `/context${query(filter)}`),
  conversation: (id, filter) => send('GET', `${context(id)}${query(filter)}`),
  createConversation: (body) => send('POST', '/context', { body }),
  changeConversation: (id, body) => send('PATCH', context(id), { body }),
  deleteConversation: (id) => send('DELETE', context(id)),
  say: (id, body) => say(`${context(id)}/messages`, body),
  decideInTurn: (id, call, body) => say(`${context(id)}/approvals/${encodeURIComponent(call)}`, body),
  answerInTurn: (id, body) => say(`${context(id)}/answers`, body),
  stopTurn: (id) => send('POST', `${context(id)}/cancel`, { body: {} }),

  systemPrompts: () => send('GET', '/v1/system-prompts'),
  systemPrompt: (name, version) => send('GET', `/v1/system-prompts/${encodeURIComponent(name)}${query({ version })}`, { etag: true }),
  enhancedPrompt: (name) => send('GET', `/v1/system-prompts/${encodeURIComponent(name)}/enhanced`),
  createSystemPrompt: (body) => send('POST', '/v1/system-prompts', { body }),
  updateSystemPrompt: (name, text, etag) => send('PUT', `/v1/system-prompts/${encodeURIComponent(name)}`, { body: { text }, headers: { 'If-Match': etag } }),
  workflows: () => send('GET', '/v1/workflows'),
  runWorkflow: (name, body) => send('POST', `/v1/workflows/${encodeURIComponent(name)}/runs`, { body }),
  services: () => send('GET', '/v1/mcp/services'),
  service: (name) => send('GET', `/v1/mcp/services/${encodeURIComponent(name)}`),
  serviceLog: (name) => send('GET', `/v1/mcp/services/${encodeURIComponent(name)}/logs`),
  startService: (name) => send('POST', `/v1/mcp/services/${encodeURIComponent(name)}/start`, { body: {} }),
  stopService: (name) => send('POST', `/v1/mcp/services/${encodeURIComponent(name)}/stop`, { body: {} }),
  agents: () => send('GET', '/v1/agents'),
  facts: (filter) => send('GET', `/v1/memory${query(filter)}`),
  addFact: (body) => send('POST', '/v1/memory', { body }),
  deleteFact: (id) => send('DELETE', `/v1/memory/${id}`),
  rules: () => send('GET', '/v1/approval-rules'),
  deleteRule: (id) => send('DELETE', `/v1/approval-rules/${id}`),
  usage: (filter) => send('GET', `/v1/usage${query(filter)}`),

  deleteSystemPrompt: (name) => send('DELETE', `/v1/system-prompts/${encodeURIComponent(name)}`),
};

/**
 * Sends a message, a decision or an answer to a conversation. With an event stream as the answer, the turn waits for the user's decisions while it runs; the page
 * follows its run, so the stream itself is not read. What begins no turn is answered with JSON.
 */
async function say(path, body) {
  let response;
  try {
    response = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' }, body: JSON.stringify(body) });
  } catch {
    contact(false, 0);
    throw new ApiError(0, 'unreachable', 'the service does not answer');
  }
  contact(true, response.status);
  if ((response.headers.get('Content-Type') ?? '').includes('event-stream')) {
    response.body.cancel().catch(() => {});
    return { state: 'turn' };
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, answer.code ?? 'unknown', answer.detail ?? response.statusText);
  return answer;
}

const RETRY = { first: 500, most: 10_000 };

/**
 * Follows the events of a run from its first, or those after `after`, until the run has ended or `close` is called. Lost connections are made again after
 * the last event, so each arrives once.
 * @param {{onEvent: (event: Object, id: string) => void, onDelta?: (delta: Object) => void, onEnd?: (reason: string) => void, after?: string}} how
 * @returns {{close: () => void}}
 */
export function followRun(id, how) {
  return follow(`${run(id)}/events`, how);
}

/**
 * Follows the states of all runs: a snapshot first, then each run that changes.
 * @param {{onSnapshot: (snapshot: Object) => void, onRun: (change: Object) => void}} how
 */
export function followAll({ onSnapshot, onRun }) {
  return follow('/v1/events', { onNamed: { snapshot: onSnapshot, run: onRun }, isEndless: true });
}

function follow(path, { onEvent, onNamed = {}, onDelta, onEnd, after, isEndless = false }) {
  const stopper = new AbortController();
  let last = after;
  let wait = RETRY.first;

  // Streams are read with `fetch`: unlike `EventSource` it tells the status, such as 204 for a run whose events are all known, and goes on after an error of a
  // server that restarts.
  async function connect() {
    try {
      const response = await fetch(`${path}${query({ after: last, deltas: onDelta ? 'true' : undefined })}`, { signal: stopper.signal, headers: { Accept: 'text/event-stream' } });
      if (response.status === 204) return onEnd?.('ended');
      contact(response.ok, response.status);
      if (response.ok) {
        wait = RETRY.first;
        const reason = await readStream(response.body, take);
        if (reason === 'ended' || (reason === 'failed' && !isEndless)) return onEnd?.(reason);
      } else if (response.status < 500 && response.status !== 429) {
        return onEnd?.('refused');
      }
    } catch (error) {
      if (stopper.signal.aborted) return undefined;
    }
    contact(false, 0);
    setTimeout(() => stopper.signal.aborted || connect(), wait);
    wait = Math.min(RETRY.most, wait * 2);
    return undefined;
  }

  function take(message) {
    const data = JSON.parse(message.data);
    if (message.event in onNamed) {
      last = message.id;
      onNamed[message.event](data);
    } else if (message.event === 'delta') onDelta?.(data);
    else if (message.event === 'end') return data.reason;
    else if (message.event === 'message') {
      last = message.id;
      onEvent(data, last);
    }
    return undefined;
  }

  connect();
  return { close: () => stopper.abort() };
}

/** Reads messages of an event stream until `take` returns something, which it returns, or the stream breaks off. */
async function readStream(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return undefined;
    text += value;
    const messages = text.split('\n\n');
    text = messages.pop();
    for (const lines of messages) {
      const message = { event: 'message', id: '', data: '' };
      for (const line of lines.split('\n')) {
        const colon = line.indexOf(':');
        if (colon < 1) continue;
        const [field, content] = [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
        if (field === 'data') message.data += (message.data ? '\n' : '') + content;
        else if (field in message) message[field] = content;
      }
      const result = message.data && take(message);
      if (result) {
        reader.cancel().catch(() => {});
        return result;
      }
    }
  }
}
