// openai-node as a client of the service. Prints a line for each case that passed.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { env } from "node:process";

const OpenAI = createRequire(`${env.DIRIGENT_TEST_CLIENTS}/`)("openai");
const client = new OpenAI({ baseURL: env.DIRIGENT_URL, apiKey: env.DIRIGENT_TOKEN, maxRetries: 0 });

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Returns the weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

const user = (content) => [{ role: "user", content }];
const ask = (text, fields = {}, options = {}) =>
  client.chat.completions.create({ model: "small", messages: user(text), ...fields }, options);

const cases = {
  async models() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert.deepEqual(names, ["default", "busy", "small", "offline"]);
    assert.equal((await client.models.retrieve("small")).owned_by, "openai");
  },
  async plain() {
    const reply = await ask("plain");
    assert.equal(reply.choices[0].message.content, "Hello from the model.");
    assert.ok(reply.usage.total_tokens > 0);
  },
  async streaming() {
    const chunks = [];
    const stream = await ask("plain", { stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) chunks.push(chunk);
    const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
    assert.equal(text, "Hello from the model.");
    assert.ok(chunks.length > 4 && chunks.at(-1).usage.total_tokens > 0);
  },
  async tools() {
    const messages = user("weather");
    const first = (await client.chat.completions.create({ model: "small", messages, tools: [weather] })).choices[0];
    const call = first.message.tool_calls[0];
    assert.deepEqual(
      [first.finish_reason, call.function.name, call.function.arguments],
      ["tool_calls", "get_weather", '{"city":"Rome"}'],
    );
    messages.push(first.message, { role: "tool", tool_call_id: call.id, content: "sunny" });
    const reply = await client.chat.completions.create({ model: "small", messages, tools: [weather] });
    assert.equal(reply.choices[0].message.content, "It is sunny in Rome.");
  },
  async streamed_tools() {
    const stream = client.chat.completions.stream({ model: "small", messages: user("weather"), tools: [weather] });
    const call = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
    assert.deepEqual([call.function.name, call.function.arguments], ["get_weather", '{"city":"Rome"}']);
  },
  async system_prompt() {
    const reply = await ask("which prompt", {}, { headers: { "X-System-Prompt-Id": "bakery" } });
    assert.equal(reply.choices[0].message.content, "You sell bread.");
  },
  async errors() {
    const fails = async (expected, status, code, promise) => {
      const error = await promise.then(() => assert.fail("no error"), (error) => error);
      assert.ok(error instanceof expected, `${error}`);
      assert.deepEqual([error.status, error.code], [status, code]);
      return error;
    };
    const stranger = client.withOptions({ apiKey: "wrong" });
    await fails(OpenAI.AuthenticationError, 401, "invalid_api_key", stranger.models.list());
    await fails(OpenAI.NotFoundError, 404, "model_not_found", ask("plain", { model: "large" }));
    const error = await fails(OpenAI.BadRequestError, 400, null, ask("plain", { n: 1, stream_options: "maybe" }));
    assert.equal(error.param, "stream_options");
    await fails(OpenAI.BadRequestError, 400, "upstream_rejected", ask("reject"));
    const busy = await fails(OpenAI.RateLimitError, 429, "rate_limit_exceeded", ask("plain", { model: "busy" }));
    assert.ok(Number(busy.headers.get("retry-after")) > 0);
  },
  async broken_stream() {
    const read = async () => {
      for await (const _ of await ask("broken", { stream: true }));
    };
    await assert.rejects(read, (error) => error instanceof OpenAI.APIError && error.code === "upstream_failed");
  },
  async cancelled() {
    const stream = await ask("endless", { stream: true });
    for await (const _ of stream) break;
    await assert.rejects(ask("silent", {}, { timeout: 500 }), OpenAI.APIConnectionTimeoutError);
  },
};

for (const [name, run] of Object.entries(cases)) {
  await run();
  console.log(name);
}
