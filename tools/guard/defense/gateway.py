"""The gateway as a process, upstream servers that play a fixture, and an application that speaks to the gateway in plain HTTP."""

import base64
import functools
import http.client
import http.server
import json
import os
import pathlib
import queue
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import findings

REVISION = "2026-07-28"
META = "io.modelcontextprotocol/"
TASKS, UI, APP = META + "tasks", META + "ui", "text/html;profile=mcp-app"
ANY_OBJECT = {"type": "object"}


@functools.cache
def unattended(program):
    """Options by which a question that nobody answers is refused at once."""
    known = subprocess.run([program, "up", "--help"], capture_output=True, text=True).stdout
    return ("--unattended", "refuse") if "--unattended" in known else ("--approval-timeout", "1")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NotStarted(RuntimeError):
    """The gateway does not run with this configuration."""


class Upstream:
    """A server of revision 2026-07-28 over HTTP. It keeps every request that it receives."""

    def __init__(self, tools, *, address=("127.0.0.1", 0), certificate=None, on_call=None, hints=None, version="1", tasks=False, resources=None):
        self.tools = [tool if "inputSchema" in tool else {**tool, "inputSchema": ANY_OBJECT} for tool in tools]
        self.on_call = on_call or (lambda params: {"content": [{"type": "text", "text": "ok"}]})
        self.hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if hints is None else hints
        self.version, self.with_tasks, self.resources = version, tasks, resources or []
        self.received, self.sent, self.listeners, self.handlers = [], [], [], {}
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.send_response(405)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_DELETE = do_GET

            def do_POST(self):
                message = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                upstream.received.append(message)
                if message.get("method") == "subscriptions/listen":
                    return self.listen(message)
                if "id" not in message:
                    self.send_response(202)
                    self.send_header("Content-Length", "0")
                    return self.end_headers()
                answer = upstream.answer(message)
                body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def listen(self, message):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                events = queue.Queue()
                meta = {META + "subscriptionId": message["id"]}
                wanted = message["params"].get("notifications", {})
                events.put(("notifications/subscriptions/acknowledged", {"notifications": wanted}))
                upstream.listeners.append(events)
                while (event := events.get()) is not None:
                    told = {"jsonrpc": "2.0", "method": event[0], "params": {**event[1], "_meta": meta}}
                    try:
                        self.wfile.write(f"data: {json.dumps(told)}\n\n".encode())
                        self.wfile.flush()
                    except OSError:
                        return

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server(address, Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, message):
        method, params = message["method"], message.get("params", {})
        if method == "server/discover":
            capabilities = {"tools": {"listChanged": True}}
            if self.with_tasks:
                capabilities["extensions"] = {TASKS: {}}
            if self.resources:
                capabilities["resources"] = {}
                capabilities["extensions"] = {**capabilities.get("extensions", {}), UI: {"mimeTypes": [APP]}}
            info = {"name": "upstream", "version": self.version}
            return {"result": {
                "resultType": "complete", "supportedVersions": [REVISION], "capabilities": capabilities, "serverInfo": info,
                "_meta": {META + "serverInfo": info}, "ttlMs": 0, "cacheScope": "private",
            }}
        if method == "tools/list":
            return {"result": {"tools": self.tools, **self.hints}}
        if method == "tools/call":
            self.sent.append({"resultType": "complete", **self.on_call(params)})
            return {"result": self.sent[-1]}
        if method == "resources/list" and self.resources:
            shown = [{key: value for key, value in one.items() if key != "text"} for one in self.resources]
            return {"result": {"resources": shown, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}
        if method == "resources/read":
            contents = [one for one in self.resources if one["uri"] == params["uri"]]
            return {"result": {"contents": contents, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}
        if method in self.handlers:
            return {"result": {"resultType": "complete", **self.handlers[method](params)}}
        return {"error": {"code": -32601, "message": "Method not found"}}

    def notify(self, method):
        for events in self.listeners:
            events.put((method, {}))

    def calls(self, method="tools/call"):
        return [message["params"] for message in self.received if message.get("method") == method]

    def close(self):
        for events in self.listeners:
            events.put(None)
        self.server.shutdown()
        self.server.server_close()


class Reply:
    def __init__(self, status, headers, text, message):
        self.status, self.headers, self.text, self.message = status, headers, text, message or {}

    @property
    def result(self):
        return self.message.get("result") or {}

    @property
    def error(self):
        return self.message.get("error")

    def refusal(self):
        """Why there is no result, or none."""
        if self.error:
            return f"{self.status} {self.error.get('code')} {self.error.get('message')}"[:160]
        if self.status >= 400:
            return f"{self.status} {self.text[:120]}"
        if self.result.get("isError"):
            return ("tool error: " + texts(self.result))[:160]
        return None


def texts(result):
    return " ".join(str(block.get("text", "")) for block in result.get("content") or [])


class Gateway:
    """`hospes up` with a home of its own."""

    def __init__(self, program, options, servers, *, home=None, settings="", policy=None, environment=None, port=None):
        self.program, self.port = program, port or free_port()
        self.kept = home is not None
        self.home = pathlib.Path(home or tempfile.mkdtemp(prefix="gateway-"))
        self.environment = {"HOME": str(self.home), "PATH": os.environ.get("PATH", os.defpath), **(environment or {})}
        config = [settings]
        for name, server in servers.items():
            config.append(f"[servers.{json.dumps(name)}]")
            config += [server] if server.startswith(("command", "url")) else [f"url = {json.dumps(server)}"]
        (self.home / "hospes.toml").write_text("\n".join(config) + "\n")
        command = [program, "up", "-c", str(self.home / "hospes.toml"), "-l", f"127.0.0.1:{self.port}", "--console", "off"]
        command += [*unattended(program), "--pins", "first-use", *options]
        if policy is not None:
            (self.home / "rules.toml").write_text(policy)
            command += ["--policy", str(self.home / "rules.toml")]
        self.log = open(self.home / "stderr.log", "ab")
        self.process = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log
        )
        self.number = 0
        until = time.monotonic() + 15
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise NotStarted("the gateway did not start: " + self.printed()[-800:]) from None
                time.sleep(0.02)

    def send(self, method, path, headers, body=None, timeout=20):
        """Exactly these headers and this body, with `Host` and what HTTP itself needs."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        given = {name.lower() for name in headers}
        try:
            connection.putrequest(method, path, skip_host="host" in given, skip_accept_encoding=True)
            content = None if body is None else json.dumps(body).encode()
            for name, value in headers.items():
                connection.putheader(name, value)
            if content is not None:
                if "content-type" not in given:
                    connection.putheader("Content-Type", "application/json")
                if "accept" not in given:
                    connection.putheader("Accept", "application/json, text/event-stream")
                connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            response = connection.getresponse()
            got = {name.lower(): value for name, value in response.getheaders()}
            if method == "GET" and response.status == 200:
                return Reply(response.status, got, "", None)
            return self.read(response, got, (body or {}).get("id"))
        finally:
            connection.close()

    def read(self, response, headers, number):
        if "text/event-stream" not in headers.get("content-type", ""):
            text = response.read().decode(errors="replace")
            try:
                message = json.loads(text)
            except ValueError:
                message = None
            return Reply(response.status, headers, text, message if isinstance(message, dict) else None)
        seen = []
        for line in response:
            if line.startswith(b"data:") and line[5:].strip():
                message = json.loads(line[5:])
                seen.append(message)
                if message.get("id") == number and ("result" in message or "error" in message):
                    return Reply(response.status, headers, json.dumps(seen), message)
        return Reply(response.status, headers, json.dumps(seen), None)

    def ask(self, path, method, params=None, *, token=None, capabilities=None, headers=None, name=None):
        """A conforming request of revision 2026-07-28."""
        self.number += 1
        params = dict(params or {})
        params["_meta"] = {
            META + "protocolVersion": REVISION, META + "clientInfo": {"name": "bench", "version": "1"},
            META + "clientCapabilities": capabilities or {},
        }
        name = name or params.get("name") or params.get("taskId") or params.get("uri")
        sent = {"MCP-Protocol-Version": REVISION, "Mcp-Method": method, **(headers or {})}
        if name is not None:
            plain = re.fullmatch(r"[!-~]([ -~]*[!-~])?", name)
            sent["Mcp-Name"] = name if plain else f"=?base64?{base64.b64encode(name.encode()).decode()}?="
        if token:
            sent["Authorization"] = f"Bearer {token}"
        return self.send("POST", path, sent, {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})

    def ask_as_wished(self, path, method, params, **more):
        """A request that the person made: if the gateway asks whether it is wished, the person says yes, once."""
        reply = self.ask(path, method, params, **more)
        asked = reply.result.get("inputRequests") or {}
        if asked and all(key.startswith("hospes.approve.") for key in asked):
            yes = {key: {"action": "accept", "content": {"decision": "once"}} for key in asked}
            again = {**params, "inputResponses": yes, "requestState": reply.result["requestState"]}
            reply = self.ask(path, method, again, **more)
        return reply

    def session(self, path, revision="2025-03-26"):
        """Headers of a session of an older application."""
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        reply = self.send("POST", path, {}, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        headers = {"Mcp-Session-Id": reply.headers["mcp-session-id"]} if "mcp-session-id" in reply.headers else {}
        self.send("POST", path, headers, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return headers

    def tools(self, path="/mcp/s", **more):
        return self.ask(path, "tools/list", **more).result

    def printed(self):
        return (self.home / "stderr.log").read_text(errors="replace")

    def warnings(self):
        return findings.printed(self.printed()) + findings.recorded(self.program, self.environment)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(8)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def close(self):
        self.stop()
        if not self.kept:
            shutil.rmtree(self.home, ignore_errors=True)
