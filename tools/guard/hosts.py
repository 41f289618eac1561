"""A host (`hospes up`) with the tool servers of one suite, a client of its MCP endpoint, and a client of its console."""
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

START_SECONDS = 60
SESSIONS = "2025-06-18"
STATELESS = "2026-07-28"
# Begin of the answer to `GET /api/approvals`.
OPEN = '{"open":'


class HostError(Exception):
    """The host did not start, or answered with something unexpected."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Host:
    """A running `hospes up`. `attended` gives it a console at which programs may decide."""

    def __init__(self, program, folder, servers, policy, attended, state=None, arguments=()):
        self.home = folder
        if state:
            shutil.copytree(state, folder)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        config = os.path.join(folder, "hospes.toml")
        with open(config, "w", encoding="utf-8") as file:
            if attended:
                # Without questions of servers to the person, all applications share one connection to the tool server.
                file.write('[console]\ndecisions_from = "programs"\nquestions = false\n')
            for name, command in servers.items():
                file.write(f"[servers.{name}]\ncommand = {json.dumps(command)}\n")
                file.write(f"env.PYTHONPATH = {json.dumps(os.environ.get('PYTHONPATH', ''))}\n")
                file.write('env.PYTHONDONTWRITEBYTECODE = "1"\nenv.PYTHONHASHSEED = "0"\n')
        command = [program, "up", "--json", "-c", config, "-l", "127.0.0.1:0", "--pins", "first-use"]
        command += ["--console", "127.0.0.1:0" if attended else "off", "--start-wait", str(START_SECONDS)]
        if policy is not None:
            path = os.path.join(folder, "policy.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(policy)
            command += ["--policy", path]
        elif "--preset" in help_text(program):
            # Without a policy file a preset applies.
            command += ["--preset", "off"]
        if not attended:
            # Older programs have no flag for a host that nobody attends, and refuse when nobody can be asked.
            has_flag = "--unattended" in help_text(program)
            command += ["--unattended", "refuse"] if has_flag else ["--approval-timeout", "1"]
        command += arguments
        environment = {"HOME": folder, "XDG_RUNTIME_DIR": os.path.join(folder, "run"), "PATH": os.environ["PATH"]}
        os.makedirs(environment["XDG_RUNTIME_DIR"], mode=0o700, exist_ok=True)
        self.log = os.path.join(folder, "host.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            self.endpoint = self.greeting()["endpoint"]
        except BaseException:
            self.stop()
            raise

    def greeting(self):
        text = ""
        for line in self.process.stdout:
            text += line
            try:
                greeting = json.loads(text)
            except ValueError:
                continue
            # Nothing may wait for a reader of what it prints later.
            threading.Thread(target=self.process.stdout.read, daemon=True).start()
            return greeting
        raise HostError(f"the host did not start:\n{self.log_tail()}")

    def log_tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-25:])

    def address(self):
        return self.endpoint.split("/")[2].rsplit(":", 1)

    def console_socket(self):
        sockets = glob.glob(os.path.join(self.home, "run", "hospes", "*.sock"))
        if not sockets:
            raise HostError("the host has no console socket")
        return sockets[0]

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmRSS")), 0)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


HELP = {}


def help_text(program):
    if program not in HELP:
        HELP[program] = subprocess.run([program, "up", "--help"], capture_output=True, text=True).stdout
    return HELP[program]


class McpClient:
    """An application. `begin` starts a conversation: a session, or in 2026-07-28 only a name of the application."""

    path, headers = "/mcp", {}

    def __init__(self, host, revision=SESSIONS):
        address, port = host.address()
        # Sessions that the application has left open.
        self.left = []
        self.connection = http.client.HTTPConnection(address, int(port), timeout=150)
        self.revision = revision
        self.session = None
        self.number = 0

    def post(self, message, method, name=None):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.session or self.revision == STATELESS:
            headers["MCP-Protocol-Version"] = self.revision
        if self.revision == STATELESS:
            headers["Mcp-Method"] = method
            if name:
                headers["Mcp-Name"] = name
        self.connection.request("POST", self.path, json.dumps(message).encode(), headers | self.headers)
        response = self.connection.getresponse()
        body = response.read().decode()
        self.session = response.getheader("Mcp-Session-Id") or self.session
        if response.getheader("Content-Type", "").startswith("text/event-stream"):
            answers = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:") and line[5:].strip()]
            return next((answer for answer in answers if answer.get("id") == message.get("id")), None)
        return json.loads(body) if body else None

    def request(self, method, params, name=None):
        self.number += 1
        if self.revision == STATELESS:
            params = params | {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": self.revision,
                    "io.modelcontextprotocol/clientInfo": {"name": self.application, "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            }
        answer = self.post({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}, method, name)
        if answer is None:
            raise HostError(f"no answer to {method}")
        return answer

    def begin(self, application):
        self.application, self.session, self.number = application, None, 0
        if self.revision == STATELESS:
            return
        info = {"name": application, "version": "1"}
        self.request("initialize", {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": info})
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, "notifications/initialized")

    def leave(self):
        """Leaves the session open; `end` ends it with the current one."""
        if self.session:
            self.left.append(self.session)
            self.session = None

    def end(self):
        while self.left:
            self.end_session(self.left.pop())
        if self.session:
            self.end_session(self.session)
            self.session = None

    def end_session(self, session):
        headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": self.revision}
        self.connection.request("DELETE", self.path, headers=headers | self.headers)
        self.connection.getresponse().read()

    def tool_name(self, server, tool):
        return f"{server}__{tool}"

    def call(self, server, tool, arguments):
        name = self.tool_name(server, tool)
        return self.request("tools/call", {"name": name, "arguments": arguments}, name)

    def tools(self):
        return [tool["name"] for tool in self.request("tools/list", {})["result"]["tools"]]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=150)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ConsoleApi:
    """The console's JSON API, over its socket."""

    def __init__(self, path):
        self.path = path

    def request(self, method, path, body=None):
        """Returns status and JSON."""
        status, text = self.request_text(method, path, body)
        return status, json.loads(text) if text else None

    def request_text(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        # A connection for each request, because the console closes idle ones.
        connection = UnixConnection(self.path)
        connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def open_approvals(self):
        """Returns the pending approvals. Those that are over, which follow in the answer, are not parsed."""
        status, text = self.request_text("GET", "/api/approvals")
        if status != 200:
            raise HostError(f"GET /api/approvals: {status} {text}")
        if not text.startswith(OPEN):
            return json.loads(text)["open"]
        return json.JSONDecoder().raw_decode(text, len(OPEN))[0]

    def get(self, path):
        status, answer = self.request("GET", path)
        if status != 200:
            raise HostError(f"GET {path}: {status} {answer}")
        return answer
