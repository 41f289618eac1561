"""A server with one tool that opens the files that its arguments name, and returns what it read. argv: TOOL ARGUMENT ..."""

import json
import sys

TOOL, ARGUMENTS = sys.argv[1], sys.argv[2:]
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in ARGUMENTS}}


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "opener", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": TOOL, "description": "Converts a file.", "inputSchema": SCHEMA}]}
    if method == "tools/call":
        read = []
        for value in params.get("arguments", {}).values():
            try:
                with open(value, "rb") as file:
                    read.append(f"{len(file.read())} bytes of {value}")
            except OSError as error:
                return {"isError": True, "content": [{"type": "text", "text": str(error)}]}
        return {"content": [{"type": "text", "text": "; ".join(read)}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
