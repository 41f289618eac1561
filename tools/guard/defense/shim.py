"""Runs `hospes stdio` for one server, with the server's own names of tools.

    shim.py PROGRAM WORK [OPTION ...] -- COMMAND [ARGUMENT ...]

The bench compares names with and without the gateway, and the gateway puts the server's name before them. This takes it off, and
leaves out the gateway's own tool. When the application has gone, what the gateway recorded is read with `hospes audit search`, and each
finding is printed to standard error, where the bench looks for warnings.
"""

import json
import os
import subprocess
import sys
import threading

PREFIX = "f__"


def to_gateway(line: bytes) -> bytes:
    try:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            message["params"]["name"] = PREFIX + message["params"]["name"]
            return json.dumps(message).encode() + b"\n"
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return line


def to_application(line: bytes) -> bytes:
    try:
        message = json.loads(line)
        tools = [tool for tool in message["result"]["tools"] if tool["name"].startswith(PREFIX)]
        for tool in tools:
            tool["name"] = tool["name"].removeprefix(PREFIX)
        message["result"]["tools"] = tools
        return json.dumps(message).encode() + b"\n"
    except (ValueError, KeyError, TypeError, AttributeError):
        return line


def main() -> int:
    program, work = sys.argv[1:3]
    split = sys.argv.index("--")
    options, command = sys.argv[3:split], sys.argv[split + 1 :]
    home = os.path.join(work, "home")
    os.makedirs(home, exist_ok=True)
    config = os.path.join(work, "servers.json")
    with open(config, "w") as file:
        json.dump({"mcpServers": {PREFIX[:-2]: {"command": command[0], "args": command[1:], "cwd": work}}}, file)
    environment = {"HOME": home, "PATH": os.environ.get("PATH", os.defpath)}
    gateway = subprocess.Popen(
        [program, "stdio", "-c", config, *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
    )

    def deliver() -> None:
        for line in gateway.stdout:
            sys.stdout.buffer.write(to_application(line))
            sys.stdout.buffer.flush()

    delivery = threading.Thread(target=deliver, daemon=True)
    delivery.start()
    try:
        for line in sys.stdin.buffer:
            gateway.stdin.write(to_gateway(line))
            gateway.stdin.flush()
        gateway.stdin.close()
    except OSError:
        pass
    gateway.wait()
    delivery.join()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from findings import recorded

    for finding in recorded(program, environment):
        print("finding:", finding, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
