"""A server that does as it is told, for what honest servers do not do.

Usage: scripted.py BEHAVIOUR…   (see `behaviours` below; they can be combined)
"""

import json
import os
import signal
import sys
import threading
import time

BEHAVIOURS = set(sys.argv[1:])
write_lock = threading.Lock()
pending = {}
next_id = 1000
MODERN = "2026-07-28"


def send(message):
    message = {"jsonrpc": "2.0", **message}
    with write_lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def reply(request, result):
    if is_modern(request):
        result = {"resultType": "complete", **result}
        if request["method"].endswith("/list") or request["method"] in ("server/discover", "resources/read"):
            result = {"ttlMs": 0, "cacheScope": "private", **result}
    send({"id": request["id"], "result": result})


def fail(request, code, message, data=None):
    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    send({"id": request["id"], "error": error})


def note(method, params=None):
    send({"method": method, **({"params": params} if params is not None else {})})


def ask(method, params=None):
    """A request of the server's own; waits for the answer."""
    global next_id
    next_id += 1
    event = threading.Event()
    pending[next_id] = [event, None]
    number = next_id
    send({"id": number, "method": method, **({"params": params} if params is not None else {})})
    event.wait()
    return pending.pop(number)[1]


def is_modern(request):
    return (request.get("params") or {}).get("_meta", {}).get("io.modelcontextprotocol/protocolVersion") == MODERN


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}}
seen = []
cancelled = set()
known = []


def call(request):
    params = request["params"]
    name, arguments = params["name"], params.get("arguments") or {}
    token = params.get("_meta", {}).get("progressToken")
    if name == "echo":
        reply(request, text(arguments.get("text", "")))
    elif name == "seen":
        reply(request, text(seen))
    elif name == "params":
        reply(request, text(params))
    elif name == "env":
        reply(request, text(dict(os.environ)))
    elif name == "fail":
        fail(request, -32602, "no such thing", {"why": "because"})
    elif name == "hang":
        pass
    elif name == "die":
        sys.stderr.write("about to die\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "slow":
        for step in range(arguments["steps"]):
            time.sleep(arguments["pause"])
            if request["id"] in cancelled:
                return
            note("notifications/progress", {"progressToken": token, "progress": step + 1, "total": arguments["steps"]})
        reply(request, text("done"))
    elif name == "large":
        reply(request, text("x" * arguments["bytes"]))
    elif name == "wrong shape":
        reply(request, {"content": "no list"})
    elif name == "cancelled":
        reply(request, text(sorted(cancelled)))
    elif name == "ask":
        reply(request, text([ask(question["method"], question.get("params")) for question in arguments["questions"]]))
    elif name == "ask again and again":
        state = params.get("requestState")
        if state is None or int(state) < arguments["rounds"]:
            send({"id": request["id"], "result": {
                "resultType": "input_required",
                "requestState": str(int(state or 0) + 1),
                "inputRequests": {"who": {"method": "elicitation/create", "params": {
                    "mode": "form", "message": "Who?",
                    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "default": "nobody"}}}}}},
            }})
        else:
            reply(request, text({"responses": params.get("inputResponses"), "state": state}))
    elif name == "needs url":
        if seen.count("visited") == 0:
            seen.append("visited")
            fail(request, -32042, "look there first", {"elicitations": [
                {"mode": "url", "message": "Who?", "url": "https://example.com/sign-in", "elicitationId": "e1"}]})
        else:
            reply(request, text("welcome"))
    elif name == "known":
        reply(request, text(known))
    elif name == "announce":
        for method, params in arguments["notifications"]:
            note(method, params)
        reply(request, text("announced"))
    else:
        fail(request, -32602, f"unknown tool {name}")


def handle(message):
    if "method" not in message:
        if message.get("id") in pending:
            pending[message["id"]][1] = message.get("result", {"error": message.get("error")})
            pending[message["id"]][0].set()
        return
    method = message["method"]
    seen.append(method)
    if "id" not in message:
        if method == "notifications/initialized" and "curious" in BEHAVIOURS:
            threading.Thread(target=lambda: known.append(ask("roots/list")), daemon=True).start()
        if method == "notifications/cancelled":
            cancelled.add(message["params"]["requestId"])
        return
    if method == "server/discover":
        if "exit on discover" in BEHAVIOURS:
            sys.stderr.write("expected initialize\n")
            os._exit(1)
        if "silent on discover" in BEHAVIOURS:
            return
        if "modern" in BEHAVIOURS:
            reply(message, {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, "instructions": "Ask nicely.",
                            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}})
        elif "other versions" in BEHAVIOURS:
            fail(message, -32022, "no", {"supported": ["2031-01-01"], "requested": MODERN})
        else:
            fail(message, -32601, "Method not found")
    elif method == "initialize":
        if "modern" in BEHAVIOURS:
            fail(message, -32601, "Method not found")
        elif "silent" in BEHAVIOURS:
            pass
        elif "refuse" in BEHAVIOURS:
            fail(message, -32603, "not today")
        elif "shapeless" in BEHAVIOURS:
            reply(message, {"hello": 1})
        else:
            version = message["params"]["protocolVersion"]
            for behaviour in BEHAVIOURS:
                if behaviour.startswith("version="):
                    version = behaviour.removeprefix("version=")
            reply(message, {"protocolVersion": version, "capabilities": CAPABILITIES, "instructions": "Ask nicely.",
                            "serverInfo": {"name": "scripted", "version": "1"}})
    elif method == "tools/list":
        cursor = (message.get("params") or {}).get("cursor")
        tool = lambda name: {"name": name, "inputSchema": {"type": "object"}}
        if "circle" in BEHAVIOURS:
            reply(message, {"tools": [tool("a")], "nextCursor": "again"})
        elif cursor is None:
            reply(message, {"tools": [tool("a"), tool("b")], "nextCursor": ""})
        elif cursor == "":
            reply(message, {"tools": [], "nextCursor": "last"})
        else:
            reply(message, {"tools": [tool("c")]})
    elif method == "tools/call":
        threading.Thread(target=call, args=(message,), daemon=True).start()
    elif method == "resources/read":
        reply(message, {"contents": [{"uri": message["params"]["uri"], "text": "hello"}]})
    elif method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        seen[-1] = [method, message.get("params")] if message.get("params") else method
        reply(message, {})
    else:
        fail(message, -32601, f"Method not found: {method}")


if "exit" in BEHAVIOURS:
    sys.stderr.write("no configuration found\n")
    sys.exit(2)
if "chatty" in BEHAVIOURS:
    sys.stderr.write("ERROR: nothing is wrong\n")
    sys.stderr.flush()
if "noise" in BEHAVIOURS:
    print("Welcome to the server!", flush=True)
    print("(c) nobody", flush=True)
if "indiscreet" in BEHAVIOURS:
    print("signing in with " + os.environ["TOKEN"], flush=True)
if "ignore end" in BEHAVIOURS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "helper" in BEHAVIOURS:
    # Holds our pipes open and does not listen to reason.
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(0.1)
for line in sys.stdin:
    handle(json.loads(line))
if "ignore end" in BEHAVIOURS:
    time.sleep(60)
os._exit(0)
