"""openai-python as a client of the service. Prints a line for each case that passed."""

import os

import openai

client = openai.OpenAI(base_url=os.environ["DIRIGENT_URL"], api_key=os.environ["DIRIGENT_TOKEN"], max_retries=0)

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Returns the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def ask(text, model="small", **fields):
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], **fields)


def models():
    assert [model.id for model in client.models.list()] == ["default", "busy", "small", "offline"]
    assert client.models.retrieve("small").owned_by == "openai"


def plain():
    reply = ask("plain")
    assert reply.choices[0].message.content == "Hello from the model.", reply
    assert reply.choices[0].finish_reason == "stop" and reply.usage.total_tokens > 0, reply


def streaming():
    chunks = list(ask("plain", stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "Hello from the model.", chunks
    assert len(chunks) > 4 and chunks[-1].usage.total_tokens > 0, chunks


def tools():
    messages = [{"role": "user", "content": "weather"}]
    reply = client.chat.completions.create(model="small", messages=messages, tools=[WEATHER]).choices[0]
    call = reply.message.tool_calls[0]
    assert (reply.finish_reason, call.function.name, call.function.arguments) == ("tool_calls", "get_weather", '{"city":"Rome"}'), reply
    messages += [reply.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    reply = client.chat.completions.create(model="small", messages=messages, tools=[WEATHER])
    assert reply.choices[0].message.content == "It is sunny in Rome.", reply


def streamed_tools():
    with client.chat.completions.stream(
        model="small", messages=[{"role": "user", "content": "weather"}], tools=[WEATHER]
    ) as stream:
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"city":"Rome"}'), call


def system_prompt():
    reply = ask("which prompt", extra_headers={"X-System-Prompt-Id": "bakery"})
    assert reply.choices[0].message.content == "You sell bread.", reply


def fails(expected, status, code, call):
    try:
        call()
    except expected as error:
        assert error.status_code == status and error.code == code, (error.status_code, error.code)
        return error
    raise AssertionError(f"no {expected}")


def errors():
    stranger = client.with_options(api_key="wrong")
    fails(openai.AuthenticationError, 401, "invalid_api_key", lambda: stranger.models.list())
    fails(openai.NotFoundError, 404, "model_not_found", lambda: ask("plain", model="large"))
    error = fails(openai.BadRequestError, 400, None, lambda: ask("plain", stream="maybe"))
    assert error.param == "stream", error
    fails(openai.BadRequestError, 400, "upstream_rejected", lambda: ask("reject"))
    error = fails(openai.RateLimitError, 429, "rate_limit_exceeded", lambda: ask("plain", model="busy"))
    assert int(error.response.headers["retry-after"]) > 0, error.response.headers


def broken_stream():
    try:
        for _ in ask("broken", stream=True):
            pass
    except openai.APIError as error:
        assert error.code == "upstream_failed", error
    else:
        raise AssertionError("a stream that broke off seemed complete")


def cancelled():
    stream = ask("endless", stream=True)
    next(iter(stream))
    stream.close()
    try:
        client.with_options(timeout=0.5).chat.completions.create(
            model="small", messages=[{"role": "user", "content": "silent"}]
        )
    except openai.APITimeoutError:
        return
    raise AssertionError("no timeout")


for case in (models, plain, streaming, tools, streamed_tools, system_prompt, errors, broken_stream, cancelled):
    case()
    print(case.__name__, flush=True)
