"""A server over stdio that does what no honest one does, each tool in its own way. Between its bad deeds it answers."""

import json
import os
import sys

DEEP = 100_000
out = sys.stdout.buffer


def write(text):
    out.write(text.encode())
    out.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def misbehave(id, tool):
    if tool == "silent":
        return
    if tool == "flood":
        note = {"method": "notifications/message", "params": {"level": "error", "data": "x" * 500}}
        changed = {"method": "notifications/tools/list_changed"}
        stray = {"id": 99_999_999, "result": {}}
        for _ in range(5_000):
            send(note)
            send(changed)
            send(stray)
            write("rubbish\n")
    elif tool == "asks":
        # Of nobody who could answer, and each time under the same id.
        for _ in range(2_000):
            send({"id": 7, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
    elif tool == "half":
        line = json.dumps({"jsonrpc": "2.0", "id": id, "result": text("fine")})
        for piece in line:
            write(piece)
        write("\r\n")
        return
    elif tool == "deep":
        write('{"jsonrpc":"2.0","id":%d,"result":{"content":%s%s}}\n' % (id, "[" * DEEP, "]" * DEEP))
        return
    elif tool == "twice":
        send({"id": id, "result": text("fine")})
        send({"id": id, "result": text("again")})
        send({"id": id, "error": {"code": -32603, "message": "and again"}})
        return
    elif tool == "unknown":
        for other in (None, "x", -1, 10**30, 1.5, {}, [], True):
            send({"id": other, "result": {}})
    elif tool == "dies":
        write('{"jsonrpc":"2.0","id":%d,"result":{"conte' % id)
        os._exit(7)
    elif tool == "endless":
        piece = b"x" * (1 << 20)
        try:
            while True:
                out.write(piece)
                out.flush()
        except OSError:
            os._exit(0)
    send({"id": id, "result": text("fine")})


TOOLS = ["fine", "silent", "flood", "asks", "half", "deep", "twice", "unknown", "dies", "endless"]

for line in sys.stdin:
    asked = json.loads(line)
    id, method = asked.get("id"), asked.get("method")
    if method == "initialize":
        send({"id": id, "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "bad", "version": "1"},
        }})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        send({"id": id, "result": {"tools": tools}})
    elif method == "tools/call":
        misbehave(id, asked["params"]["name"])
    elif method and id is not None:
        send({"id": id, "result": {}})
