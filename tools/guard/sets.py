"""The sets of pairs that the replay plays: how the tool servers of each are started, its labels and its control protocol.

A set has `labels`, `servers(port)` with the command of each tool server, and `start(port)`, which returns its control
connection after the host has started. A control connection has:

    tasks()                  ids of the benign tasks
    pairs()                  [(task, [injection])]; the benign run of a task has no injection
    load(task, injection)    {"calls": [[server, tool, arguments]]} of the person, and `family` where attacks have one
    attack()                 the attacker's calls in the present state, and what happens between them
    reached()                whether the injected text has been delivered
    judge()                  {"utility", "attacked", "reached", "times"}
    arrived()                number of calls of this pair that arrived, or None if the set does not count them
"""
import json
import os
import socket
import subprocess
import sys
import time

import policies

HERE = os.path.dirname(os.path.abspath(__file__))
FRESH = os.path.join(HERE, "fresh")
DOJO_SUITES = ("banking", "slack", "travel", "workspace")
FRESH_SETS = ("fresh", "adaptive")
START_SECONDS = 60


class SetError(Exception):
    """A tool server or controller failed."""


class Attack:
    """The attacker's calls. Before the call `between_at` the client does what `between` says."""

    def __init__(self, answer):
        self.calls = answer["calls"]
        self.between, self.between_at = answer.get("between"), answer.get("between_at") or 0
        # The attack stands for the person's own remaining calls.
        self.replaces = bool(answer.get("replaces"))


class ControlConnection:
    """Sends `{"do": …}` beside the host, one JSON value a line."""

    def __init__(self, port):
        self.file = None
        limit = time.monotonic() + START_SECONDS
        while self.file is None:
            try:
                connection = socket.create_connection(("127.0.0.1", port))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.file = connection.makefile("rw", encoding="utf-8")
            except OSError:
                if time.monotonic() > limit:
                    raise SetError("no tool server opened its control port") from None
                time.sleep(0.02)

    def do(self, command, **more):
        self.file.write(json.dumps({"do": command, **more}) + "\n")
        self.file.flush()
        line = self.file.readline()
        if not line:
            raise SetError(f"the tool server ended during `{command}`")
        answer = json.loads(line)
        if "error" in answer:
            raise SetError(f"the tool server failed at `{command}`: {answer['error']}")
        return answer

    def attack(self):
        return Attack(self.do("attack"))

    def close(self):
        self.file.close()


class DojoControl(ControlConnection):
    """Control of dojo_server.py."""

    # All of the person's calls come first, as in the reference figures.
    attacks_when_reached = False

    def tasks(self):
        return self.do("tasks")["tasks"]

    def pairs(self):
        listed = self.do("tasks")
        return [(task, [None, *listed["injections"]]) for task in listed["tasks"]]

    def load(self, task, injection):
        return self.do("load", user=task, injection=injection)

    def judge(self):
        return self.do("judge")

    def arrived(self):
        return self.do("count")["arrived"]


class FreshControl(ControlConnection):
    """Control of fresh/world.py, which holds the state of nine tool servers."""

    attacks_when_reached = True

    def __init__(self, port, name, process):
        super().__init__(port)
        self.name, self.process = name, process

    def tasks(self):
        return self.do("list")["tasks"]

    def pairs(self):
        listed = self.do("list")
        with open(os.path.join(FRESH, "attacks.json"), encoding="utf-8") as file:
            plain = {attack["id"] for attack in json.load(file)["attacks"]}
        wanted = [row for row in listed["injections"] if (row[0] in plain) == (self.name == "fresh")]
        # The adaptive pairs share the benign tasks of the plain ones.
        benign = [None] if self.name == "fresh" else []
        found = [(task, benign + [row[0] for row in wanted if task in row[1]]) for task in listed["tasks"]]
        return [(task, injections) for task, injections in found if injections]

    def load(self, task, injection):
        return self.do("load", task=task, injection=injection)

    def reached(self):
        return self.do("judge")["reached"]

    def judge(self):
        judged = self.do("judge")
        return {"utility": judged["util"], "attacked": judged["sec"], "reached": judged["reached"], "times": []}

    def arrived(self):
        return None

    def close(self):
        super().close()
        self.process.terminate()
        self.process.wait()


class DojoSet:
    """A suite of AgentDojo: one tool server, named after the suite."""

    def __init__(self, suite, options):
        self.suite, self.options = suite, options
        self.labels = policies.Labels.of_file(suite)

    def servers(self, port):
        more = ["--wording", self.options.wording, "--results", self.options.results]
        return {self.suite: [sys.executable, os.path.join(HERE, "dojo_server.py"), self.suite, str(port), *more]}

    def prepare(self, port):
        """The tool server itself takes the control connection."""

    def connect(self, port):
        return DojoControl(port)


class FreshSet:
    """The office world of `fresh`, with its plain or its adaptive attacks."""

    def __init__(self, name):
        self.name = name
        with open(os.path.join(FRESH, "labels.json"), encoding="utf-8") as file:
            table = json.load(file)
        self.domains = list(table["tools"])
        own = table["own"]["addresses"] + [f"@{domain}" for domain in table["own"]["domains"]]
        rows = []
        for domain, tools in table["tools"].items():
            for tool, label in tools.items():
                row = {"server": domain, "tool": tool} | label
                row["targets"] = row.pop("sinks")
                rows.append({key: value for key, value in row.items() if key != "targets" or value})
        self.labels = policies.Labels.of_rows(own, rows)
        self.process = None

    def servers(self, port):
        return {
            domain: [sys.executable, os.path.join(FRESH, "world.py"), domain, str(port)] for domain in self.domains
        }

    def prepare(self, port):
        """Starts the controller, which the tool servers connect to."""
        command = [sys.executable, os.path.join(FRESH, "world.py"), "control", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline():
            raise SetError("the controller of the fresh set did not start")

    def connect(self, port):
        return FreshControl(port, self.name, self.process)


def set_of(name, options):
    return FreshSet(name) if name in FRESH_SETS else DojoSet(name, options)
