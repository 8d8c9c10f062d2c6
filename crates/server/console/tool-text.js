/** How a person reads tool calls and what models say around them. */
import { visible } from './format.js';

/** Quotes an argument as a shell does, if it needs quotes. */
const quote = (part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", String.raw`'\''`)}'`);

/** A command as a line of a shell; it may be a text or a list of arguments. */
export const commandLine = (command) => (Array.isArray(command) ? command.map((part) => quote(String(part))).join(' ') : String(command ?? ''));

/**
 * A call in full: the text that decides, and the other parameters.
 * @returns {{kind: 'command'|'sql'|'json', text: string, rest: Object}}
 */
export function callText(tool, parameters) {
  const { command, sql, ...rest } = parameters ?? {};
  if (tool === 'execute_command' && command !== undefined) return { kind: 'command', text: commandLine(command), rest };
  if (tool === 'execute_sql' && typeof sql === 'string') return { kind: 'sql', text: sql, rest };
  return { kind: 'json', text: JSON.stringify(parameters ?? {}, null, 2), rest: {} };
}

/** The parameters of a call in a few words, for a row. */
export function callSummary(tool, parameters) {
  const given = parameters ?? {};
  if (given.command !== undefined) return visible(commandLine(given.command));
  if (typeof given.sql === 'string') return visible(given.sql);
  if (given.from && given.to) return visible(`${given.from} → ${given.to}${given.paths ? ` in ${[].concat(given.paths).join(', ')}` : ''}`);
  const said = [given.operation, given.pattern ?? given.path ?? given.url ?? given.query ?? given.question ?? given.from ?? given.agent ?? given.name];
  if (given.pattern && given.paths) said.push(`in ${[].concat(given.paths).join(', ')}`);
  const short = said.filter(Boolean).join(' ');
  return visible(short || Object.entries(given).map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`).join(', '));
}

/** What a model said besides its calls: models may write a call as JSON, in a fence or at the end. */
export function prose(content) {
  const text = (content ?? '').trim();
  const fence = text.search(/```(?:json)?\s*\{\s*"(?:tool|calls)"/);
  if (fence >= 0) return text.slice(0, fence).trim();
  const call = text.search(/(?:^|\n)\s*[[{]\s*(?:\{\s*)?"(?:tool|calls)"\s*:/);
  return call >= 0 ? text.slice(0, call).trim() : text;
}

const READS = new Set(['read', 'list', 'info', 'exists', 'stat', 'tree', 'find']);

/** Whether a call only reads, as far as its name says. */
export const isRead = (call) => call.tool === 'search' || (call.tool === 'file_operations' && READS.has(call.parameters?.operation)) || (call.tool === 'rename_symbol' && call.parameters?.preview === true);
