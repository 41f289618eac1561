"""Other gateways that a person can install today, in front of any server that speaks MCP over stdio.

    gateways.py NAME --program PATH [--setting SETTING] [--port PORT] -- COMMAND [ARGUMENT ...]

starts the server and the gateway and prints the address of an endpoint (Streamable HTTP, plain JSON answers). In Python,
`start(server_command, port, name, program)` returns the address; `stop(address)` ends everything. Tools have their own names.

Each gateway runs with nobody there to answer it, and with one of its settings:

    strictest    the strictest one that it ships and with which tools can still be used
    default      what its own `init`, or its shipped file, sets
    labelled     the strictest, and the labels of the benchmark's label file (sluice)
    deny         what no rule names is denied (mcp-firewall)
    unmasked     the strictest, without the plugin that masks addresses (contextforge, see contextforge.py)

The server is started once. Each session of the endpoint (`initialize`) has a gateway process of its own with an empty home, so
that nothing that the gateway remembers goes from one conversation to the next; the session before it is ended. Every gateway
below is a program that wraps the command of a server, so a relay stands for the command, which hands its streams to the server
that is running. `none` is the relay alone, to check the figures without a gateway.
"""

import argparse
import atexit
import functools
import http.server
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

SECONDS = 60


class GatewayError(Exception):
    """A gateway is not installed as it has to be, or did not start."""


@functools.cache
def initial(program, file, *arguments):
    """Returns the policy file that the gateway's own command writes."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as home:
        environment = {"HOME": home, "PATH": os.environ.get("PATH", os.defpath)}
        done = subprocess.run([program, *arguments], cwd=home, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise GatewayError(f"`{program} {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return (pathlib.Path(home) / file).read_text()


def sluice(program, work, setting="strictest", labels=()):
    """The policy of `sluice init`. What it would only warn about is blocked, unless the setting is `default`."""
    policy = initial(program, ".sluice/policy.toml", "init")
    if setting != "default":
        policy = policy.replace('= "warn"', '= "block"')
    if setting == "labelled":
        policy += "".join(map(sluice_label, labels))
    (work / "policy.toml").write_text(policy)
    return [program, "run", "--policy", str(work / "policy.toml"), "--name", "server", "--"], {"SLUICE_SESSION": secrets.token_hex(8)}


def sluice_label(row):
    """A row of the benchmark's label file as sluice has it; none means that the tool has no label."""
    tools = row["tool"] if isinstance(row["tool"], list) else [row["tool"]]
    names = {"private": "private", "untrusted": "untrusted", "outbound": "sink"}
    labels = json.dumps([names[key] for key in names if row.get(key)])
    return "".join(f"\n[[tools]]\nmatch = {json.dumps(tool)}\nlabels = {labels}\n" for tool in tools)


def tessera(program, work, setting="strictest", labels=()):
    """What it would ask a person is denied, which is its default. Its default strictness is `balanced`."""
    strictness = [] if setting == "default" else ["--strictness", "paranoid"]
    return [program, "run", *strictness, "--approve", "deny", "--ledger", str(work / "ledger.jsonl"), "--"], {}


def mcp_firewall(program, work, setting="strictest", labels=()):
    """The configuration of `mcp-firewall init`, with the highest sensitivity. Without a terminal it approves what it would ask."""
    text = initial(program, "mcp-firewall.yaml", "init", "--output", "mcp-firewall.yaml")
    if setting != "default":
        text = text.replace("sensitivity: medium", "sensitivity: high").replace("detectPII: false", "detectPII: true")
    if setting == "deny":
        text = text.replace("defaultAction: prompt", "defaultAction: deny")
    config = work / "mcp-firewall.yaml"
    config.write_text(text)
    return [program, "wrap", "--config", str(config), "--"], {}


def none(program, work, setting="default", labels=()):
    """No gateway: the relay alone."""
    return [], {}


# By name: how the command that wraps a server begins, and lines of standard error by which it warns.
GATEWAYS = {
    "sluice": (sluice, r"^\[sluice\] .*(warn|findings|changed|injection|BLOCKED| output: )"),
    "tessera": (tessera, r"(?i)\b(warn|blocked|denied)"),
    "mcp-firewall": (mcp_firewall, r"(?i)(alert|denied|blocked|redact|inject)"),
    "none": (none, r"$^"),
}
# Settings by name; that of the gateway on the command line is `strictest` by default.
SETTINGS = {
    "sluice": ("strictest", "labelled", "default"),
    "tessera": ("strictest", "default"),
    "mcp-firewall": ("strictest", "default", "deny"),
    "none": ("default",),
    "contextforge": ("strictest", "default", "unmasked"),
}


def wrapped(name, program, command, work, setting="strictest", labels=()):
    """The command with the gateway before it, and its environment."""
    work = pathlib.Path(work)
    (work / "home").mkdir(exist_ok=True)
    prefix, environment = GATEWAYS[name][0](program, work, setting, labels)
    return [*prefix, *command], {"HOME": str(work / "home"), "PATH": os.environ.get("PATH", os.defpath), **environment}


class Server:
    """The server, started once. Its streams are those of the relay that connected last."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.path = str(folder / "relay")
        self.relay = None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(4)
        threading.Thread(target=self.accept, daemon=True).start()
        threading.Thread(target=self.deliver, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.relay = peer
            threading.Thread(target=self.read, args=(peer,), daemon=True).start()

    def read(self, peer):
        for line in peer.makefile("rb"):
            if peer is self.relay:
                self.process.stdin.write(line)
                self.process.stdin.flush()

    def deliver(self):
        for line in self.process.stdout:
            try:
                if self.relay:
                    self.relay.sendall(line)
            except OSError:
                pass

    def stop(self):
        self.listener.close()
        self.process.terminate()
        self.process.wait()


RELAY = """
import os, socket, sys, threading
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
def up():
    while data := os.read(0, 65536):
        peer.sendall(data)
    os._exit(0)
threading.Thread(target=up, daemon=True).start()
while data := peer.recv(65536):
    while data:
        data = data[os.write(1, data):]
"""


class Session:
    """One conversation: a process of the gateway."""

    def __init__(self, gateway, server):
        self.id = secrets.token_hex(16)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="gateway-"))
        (self.work / "relay.py").write_text(RELAY)
        relay = [sys.executable, "-S", "-E", str(self.work / "relay.py"), server.path]
        name, program, setting, labels = gateway
        command, environment = wrapped(name, program, relay, self.work, setting, labels)
        self.log = open(self.work / "log", "wb")
        self.process = subprocess.Popen(
            command, cwd=self.work, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        self.answers, self.changed = {}, threading.Condition()
        self.writing = threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if "id" in message and "method" not in message:
                with self.changed:
                    self.answers[message["id"]] = message
                    self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def send(self, message):
        with self.writing:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        if "id" not in message or "method" not in message:
            return None
        with self.changed:
            self.changed.wait_for(lambda: message["id"] in self.answers or self.process.poll() is not None, SECONDS)
            if message["id"] in self.answers:
                return self.answers.pop(message["id"])
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "the gateway did not answer"}}

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(2)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.work, ignore_errors=True)


class Endpoint:
    # What a request needs, and the name of a tool.
    headers, tool_name = {}, staticmethod(lambda tool: tool)

    def __init__(self, server_command, port, *gateway):
        name, program, *setting = gateway
        with tempfile.TemporaryDirectory(prefix="gateway-") as work:
            # A program that does not work is told before anything is started.
            wrapped(name, program, [], work, *setting)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="server-"))
        self.server = Server(server_command, self.folder)
        self.session, self.lock = None, threading.Lock()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def answer(self, status, message=None, headers=()):
                body = b"" if message is None else json.dumps(message).encode()
                self.send_response(status)
                if body:
                    self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                for key, value in headers:
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.answer(405)

            def do_DELETE(self):
                with endpoint.lock:
                    endpoint.end()
                self.answer(200)

            def do_POST(self):
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if message.get("method") == "initialize":
                    with endpoint.lock:
                        endpoint.end()
                        endpoint.session = Session(gateway, endpoint.server)
                    session = endpoint.session
                else:
                    session = endpoint.session
                    if session is None or self.headers.get("Mcp-Session-Id") != session.id:
                        return self.answer(404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no such session"}})
                told = session.send(message)
                self.answer(200 if told else 202, told, [("Mcp-Session-Id", session.id)])

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/mcp"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def end(self):
        if self.session:
            self.session.stop()
            self.session = None

    def stop(self):
        self.http.shutdown()
        self.http.server_close()
        self.end()
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


RUNNING = {}


def open_endpoint(server_command, port=0, name="sluice", program=None, setting="strictest", labels=()):
    """Starts the server and the gateway. Returns the endpoint: `url`, `headers`, `tool_name(tool)`."""
    program = program or shutil.which(name) or name
    if name == "contextforge":
        import contextforge

        endpoint = contextforge.ContextForge(server_command, port, program, setting)
    else:
        endpoint = Endpoint(server_command, port, name, program, setting, labels)
    RUNNING[endpoint.url] = endpoint
    return endpoint


def start(server_command, port=0, name="sluice", program=None, setting="strictest"):
    """Starts the server and the gateway. Returns the address of the endpoint."""
    return open_endpoint(server_command, port, name, program, setting).url


def stop(url):
    RUNNING.pop(url).stop()


@atexit.register
def stop_all():
    for url in list(RUNNING):
        stop(url)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(GATEWAYS))
    parser.add_argument("--program", help="the gateway's program; found by its name by default")
    parser.add_argument("--setting", default="strictest", help="see above")
    parser.add_argument("--port", type=int, default=0)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    asked = parser.parse_args(sys.argv[1:split])
    print(start(sys.argv[split + 1 :], asked.port, asked.name, asked.program, asked.setting), flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
