"""The tools of one AgentDojo suite behind a thin MCP server on stdio, with a control connection beside it.

usage: dojo_server.py SUITE CONTROL_PORT [--wording marker|information|plain] [--results structured|json|yaml]

The control connection (TCP on loopback, one JSON value a line, not seen by the host) takes `{"do": ...}`:

    tasks                          {"tasks": [id], "injections": [id]}
    load {"user", "injection"}     a fresh environment; {"calls": [[server, tool, arguments]], "prompt", "text", "marker"}
    attack                         the attacker's part begins; {"calls": [[server, tool, arguments]]}
    count                          {"arrived": number of calls of this pair that arrived}
    last                           {"result": the result of the last call, as the server sent it}
    judge                          {"utility", "attacked", "reached", "arrived", "times": [ns of each arrived call]}
"""
import argparse
import json
import socketserver
import sys
import threading
import time
import warnings

warnings.filterwarnings("ignore")

from dojo import DojoSuite, WORDINGS, plain  # noqa: E402

RESULT_FORMS = ("structured", "json", "yaml")


class ToolServer:
    """Answers the host's requests and the control commands, one at a time."""

    def __init__(self, suite, results):
        self.suite = suite
        self.results = results
        self.lock = threading.Lock()
        self.last = None

    def result(self, value):
        """A tool's result: JSON text with `structuredContent`, as current SDKs send it, or one of the other forms."""
        if self.results == "yaml":
            from agentdojo.agent_pipeline.tool_execution import tool_result_to_str

            return {"content": [{"type": "text", "text": tool_result_to_str(value)}]}
        data = plain(value)
        if not isinstance(data, (dict, list)):
            return {"content": [{"type": "text", "text": str(data)}]}
        result = {"content": [{"type": "text", "text": json.dumps(data, ensure_ascii=False)}]}
        if self.results == "structured":
            result["structuredContent"] = data if isinstance(data, dict) else {"result": data}
        return result

    def call(self, params):
        begun = time.perf_counter_ns()
        with self.lock:
            try:
                self.last = self.result(self.suite.call(params["name"], params.get("arguments") or {}))
            except Exception as error:
                self.last = {"content": [{"type": "text", "text": repr(error)}], "isError": True}
            finally:
                self.suite.times.append(time.perf_counter_ns() - begun)
            return self.last

    def tools(self):
        tools = self.suite.suite.tools
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters.model_json_schema()}
            for tool in tools
        ]

    def answer(self, method, params):
        if method == "initialize":
            server = {"name": f"dojo-{self.suite.name}", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
        if method == "tools/list":
            return {"tools": self.tools()}
        if method == "tools/call":
            return self.call(params)
        return {} if method == "ping" else None

    def control(self, message):
        do = message.pop("do")
        with self.lock:
            if do == "count":
                return {"arrived": len(self.suite.times)}
            if do == "last":
                return {"result": self.last}
            answer = {name: getattr(self.suite, name) for name in ("tasks", "load", "attack", "judge")}[do](**message)
            if do == "judge":
                answer |= {"arrived": len(self.suite.times), "times": self.suite.times}
            return answer


def serve_control(server, port):
    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self):
            for line in self.rfile:
                try:
                    answer = server.control(json.loads(line))
                except Exception as error:
                    answer = {"error": repr(error)}
                self.wfile.write((json.dumps(answer, default=str) + "\n").encode())

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    listener = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite")
    parser.add_argument("port", type=int)
    parser.add_argument("--wording", choices=list(WORDINGS), default="marker")
    parser.add_argument("--results", choices=RESULT_FORMS, default="structured")
    options = parser.parse_args()
    server = ToolServer(DojoSuite(options.suite, options.wording), options.results)
    serve_control(server, options.port)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") is None or "method" not in message:
            continue
        result = server.answer(message["method"], message.get("params") or {})
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            answer["error"] = {"code": -32601, "message": f"unknown method {message['method']}"}
        else:
            answer["result"] = result
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
