#!/usr/bin/python3
"""A service for tests, which does everything that services do wrong. Each option is a fault, or something to be asked for."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

options = set(sys.argv[1:])
out = sys.stdout.buffer
writing = threading.Lock()
cancelled = []
called = []
replies = {}
calls = 0
own_id = 0
version = 0


def send_bytes(data):
    with writing:
        out.write(data)
        out.flush()


def send(message):
    message["jsonrpc"] = "2.0"
    send_bytes(json.dumps(message).encode() + b"\n")


def text(value, **more):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}], **more}


def tools():
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "seconds": {"type": "number"}}}
    names = ["echo", "wait", "env", "pid", "received", "ask", "progress", "fail", "die", "hang"]
    listed = [{"name": name, "description": f"Does {name}.", "inputSchema": schema} for name in names]
    for option in options:
        if option.startswith("lists="):
            with open(option.removeprefix("lists=")) as file:
                return json.load(file)
        if option.startswith("describes="):
            with open(option.removeprefix("describes=")) as file:
                listed[0]["description"] = file.read()
    if "changing" in options:
        listed.append({"name": "same", "description": f"Version {version}.", "inputSchema": schema})
        listed.append({"name": f"only_{version}", "inputSchema": schema})
    if "bad-schema" in options:
        listed.append({"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "strnig"}}}})
        listed.append({"name": "worse", "inputSchema": "text"})
    return listed


def ask(method, params):
    """Asks the client, and returns its answer once the main loop has read it."""
    global own_id
    own_id += 1
    name = f"own-{own_id}"
    answered = threading.Event()
    replies[name] = (answered, [])
    send({"id": name, "method": method, "params": params})
    for option in options:
        if option.startswith("withdraws="):
            # Withdraws the question as soon as there is a file of this name.
            while not os.path.exists(option.removeprefix("withdraws=")):
                time.sleep(0.01)
            send({"method": "notifications/cancelled", "params": {"requestId": name}})
            replies.pop(name)
            return {"result": "withdrawn"}
    answered.wait(10)
    return (replies.pop(name)[1] or [{"error": "no answer"}])[0]


def garbage():
    """Everything that is no answer."""
    send_bytes(b"this is no JSON\n{\"half\": \n\xff\xfe\x00\x80\n[]\n17\n{\"jsonrpc\": \"2.0\"}\n\n\r\n")
    send({"id": 999999, "result": {}})
    send({"id": "unknown", "error": {"code": -1, "message": "nobody asked"}})
    send({"method": "notifications/unheard_of", "params": {"a": 1}})
    send({"method": "notifications/progress", "params": {"progressToken": "nobody", "progress": 1}})
    send_bytes(b"x" * 50_000_000 + b"\n")


def flood():
    """Asks without end, and reads nothing any more."""
    number = 0
    while True:
        number += 1
        send({"id": f"flood-{number}", "method": "ping"})


def flip():
    """Changes the tools without end."""
    global version
    while True:
        time.sleep(0.01)
        version += 1
        send({"method": "notifications/tools/list_changed"})


def call(identifier, params):
    global version
    name, arguments = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    called.append(name)
    if name == "echo":
        result = text(arguments.get("text", ""))
    elif name == "wait":
        time.sleep(arguments["seconds"])
        result = text("waited")
    elif name == "env":
        result = text(dict(os.environ))
    elif name == "pid":
        result = text(str(os.getpid()))
    elif name == "received":
        result = text({"called": called, "cancelled": cancelled})
    elif name == "ask":
        answer = ask(arguments["text"], json.loads(arguments.get("params", "{}")))
        result = text(answer.get("result") or answer.get("error"))
    elif name == "progress":
        for step in (1, 2):
            send({"method": "notifications/progress", "params": {
                "progressToken": token, "progress": step, "total": 2, "message": f"step\n{step}"}})
        result = text("done")
    elif name == "fail":
        result = text("no such thing\nlook again", isError=True)
    elif name == "die":
        sys.stderr.write("I am dying\n")
        sys.stderr.flush()
        os._exit(7)
    else:
        send({"id": identifier, "error": {"code": -32602, "message": f"Unknown tool: {name}"}})
        return
    if "garbage" in options:
        garbage()
    if "long-line" in options:
        for _ in range(400):
            send_bytes(b"x" * 1_000_000)
        send_bytes(b"\n")
    send({"id": identifier, "result": result})
    if "garbage" in options:
        send({"id": identifier, "result": text("a second answer")})
    if "changing" in options:
        version += 1
        send({"method": "notifications/tools/list_changed"})


def handle(message):
    global calls
    method, identifier, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None:
        answered, answers = replies.get(identifier, (threading.Event(), []))
        answers.append(message)
        answered.set()
        return
    if method == "notifications/cancelled":
        cancelled.append(params.get("requestId"))
    elif method == "initialize":
        if "silent" in options:
            return
        send({"id": identifier, "result": {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "faults", "version": "1"}}})
    elif method == "notifications/initialized":
        if "dies-at-once" in options:
            os._exit(9)
        if "flood-requests" in options:
            flood()
        if "flipping" in options:
            options.add("changing")
            threading.Thread(target=flip, daemon=True).start()
    elif method == "ping":
        send({"id": identifier, "result": {}})
    elif method == "tools/list":
        send({"id": identifier, "result": {"tools": tools()}})
    elif method == "tools/call":
        calls += 1
        if "dies-on-third-call" in options and calls == 3:
            os._exit(7)
        if params["name"] == "hang":
            time.sleep(1000)
        threading.Thread(target=call, args=(identifier, params), daemon=True).start()
    elif identifier is not None:
        send({"id": identifier, "error": {"code": -32601, "message": method}})


def main():
    for option in options:
        if option.startswith("pids="):
            # Children that nobody waits for, one of which ignores SIGTERM.
            stubborn = "trap '' TERM; while :; do sleep 100; done"
            pids = [subprocess.Popen(["sh", "-c", command]).pid for command in ("sleep 1000", stubborn)]
            with open(option.removeprefix("pids="), "a") as file:
                file.write("".join(f"{pid}\n" for pid in [os.getpid(), *pids]))
    if "fails" in options:
        sys.stderr.write("cannot find the token\n")
        sys.exit(3)
    if "greets" in options:
        sys.stderr.write("ready to serve\n")
        sys.stderr.flush()
    if "flood-stderr" in options:
        def shout():
            while True:
                sys.stderr.write("noise " * 1000 + "\n")
        threading.Thread(target=shout, daemon=True).start()
    if "stubborn" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        handle(json.loads(line))
    while "stubborn" in options:
        time.sleep(100)


main()
