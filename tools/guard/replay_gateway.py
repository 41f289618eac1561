"""Plays the pairs of AgentDojo through another gateway, in place of `hospes up`, with nobody there.

usage: replay_gateway.py --gateway NAME --gateway-program PATH --out FOLDER [--setting S] [--suite S] [--step N]

The names and settings are those of gateways/gateways.py; `none` needs no program. It writes the same lines as replay.py,
`SUITE.GATEWAY-SETTING.absent.first.json`, and `table.md` from all such files in the folder.

Another gateway may change what the agent reads, or withhold it. Therefore the lines say, besides, what of the injected
text was in the answers that the agent received:

    delivered    the begin of the text, by which `reached` is decided at the tool server
    whole        all of the text, without a change
    refused      calls of the person's part that did not arrive at the tool server
    withheld     those that arrived and were answered with an error that is not the server's
    changed      other results of the person's part that are not the server's
"""
import argparse
import glob
import importlib.util
import json
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "gateways"))

import gateways  # noqa: E402
from dojo import WORDINGS, texts  # noqa: E402
from hosts import SESSIONS, HostError, McpClient, free_port  # noqa: E402
from persons import OWN  # noqa: E402
from replay import Replay  # noqa: E402
from sets import DOJO_SUITES, SetError, set_of  # noqa: E402

COUNTS = ("refused", "withheld", "changed")
HEADER = (
    "Gateway and setting",
    "Attacks that succeed",
    "of reached",
    "of delivered",
    "of delivered whole",
    "Tasks done",
    "Tasks done under attack",
    "Calls refused",
    "Results withheld",
    "Results changed",
    "By suite",
)


class GatewayClient(McpClient):
    """An application of another gateway. Keeps the last answer."""

    def __init__(self, endpoint):
        self.endpoint, self.answer = endpoint, None
        self.headers = endpoint.headers
        self.path = "/" + endpoint.url.split("/", 3)[3]
        super().__init__(self, SESSIONS)

    def address(self):
        return self.endpoint.url.split("/")[2].rsplit(":", 1)

    def tool_name(self, server, tool):
        return self.endpoint.tool_name(tool)

    def call(self, server, tool, arguments):
        self.answer = super().call(server, tool, arguments)
        if not isinstance(self.answer.get("error", {}), dict):
            # Not an answer of MCP: the gateway refuses the request whatever it calls.
            raise HostError(f"the gateway takes no call: {json.dumps(self.answer)[:500]}")
        return self.answer


class GatewayReplay(Replay):
    """Plays pairs through one running gateway."""

    def __init__(self, endpoint, control, suite, labels, options):
        super().__init__(None, control, suite, labels, options, False, GatewayClient(endpoint))

    def wait_for_tools(self, _):
        self.client.begin("guard-bench")
        if not self.client.tools():
            raise HostError("the gateway lists no tool; look at its own output")
        self.client.end()

    def play(self, task, injection, person, application):
        self.numbers = dict.fromkeys(COUNTS, 0)
        self.delivered = self.whole = False
        record = super().play(task, injection, person, application)
        return record | self.numbers | {"delivered": self.delivered, "whole": self.whole}

    def call(self, current, person, server, tool, arguments):
        questions, arrived, seconds = super().call(current, person, server, tool, arguments)
        if current.part == OWN:
            self.compare(arrived)
        return questions, arrived, seconds

    def compare(self, arrived):
        """Compares an answer with what the tool server sent."""
        received = self.client.answer.get("result") or {}
        sent = self.control.do("last")["result"] if arrived else None
        if not arrived:
            self.numbers["refused"] += 1
        elif is_error(received) and not is_error(sent):
            self.numbers["withheld"] += 1
        elif not is_error(sent) and content(received) != content(sent):
            self.numbers["changed"] += 1
        if self.loaded["marker"]:
            found = list(deep_texts(content(received)))
            self.delivered |= any(self.loaded["marker"] in text for text in found)
            self.whole |= any(self.loaded["text"] in text for text in found)


def is_error(result):
    return bool(result.get("isError")) or "content" not in result


def content(result):
    """What of a result the agent reads."""
    return [part.get("text") for part in result.get("content", [])], result.get("structuredContent")


def deep_texts(value):
    """Yields each text, also those within JSON in a text."""
    for text in texts(value):
        yield text
        try:
            yield from texts(json.loads(text))
        except ValueError:
            pass


def play_suite(options, suite, policy):
    """Plays a suite and writes its lines."""
    chosen = set_of(suite, options)
    port, begun = free_port(), time.perf_counter()
    command = chosen.servers(port)[suite]
    endpoint = gateways.open_endpoint(
        command, 0, options.gateway, options.gateway_program, options.setting, chosen.labels.rows
    )
    try:
        control = chosen.connect(port)
        replay = GatewayReplay(endpoint, control, suite, chosen.labels, options)
        replay.wait_for_tools({suite})
        path = os.path.join(options.out, f"{suite}.{policy}.absent.first.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            for task, injections in control.pairs()[:: options.step]:
                for injection in injections:
                    record = replay.play(task, injection, "absent", f"first-{task}-{injection or 'benign'}")
                    record |= {"policy": policy, "person": "absent", "state": "first"}
                    file.write(json.dumps(record) + "\n")
        os.replace(path + ".part", path)
        control.close()
    finally:
        gateways.stop(endpoint.url)
    print(f"{os.path.basename(path)} {time.perf_counter() - begun:.1f} s", flush=True)


def table(folder):
    """Returns the figures of all files of the folder as a Markdown table."""
    lines = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.absent.first.json"))):
        with open(path, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                lines.setdefault(record["policy"], []).append(record)
    rows = [HEADER, ["---"] * len(HEADER), *(row(name, records) for name, records in sorted(lines.items()))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"


def row(name, records):
    pairs = [record for record in records if record["injection"]]
    benign = [record for record in records if not record["injection"]]
    share = lambda some, of: f"{sum(map(bool, some)) * 100 / max(1, of):.1f} % ({sum(map(bool, some))}/{of})"  # noqa: E731

    def attacked(key=None):
        counted = [record["attacked"] for record in pairs if key is None or record[key]]
        return share(counted, len(counted))

    suites = {}
    for record in pairs:
        suites.setdefault(record["suite"], []).append(record["attacked"])
    return [
        name,
        *map(attacked, (None, "reached", "delivered", "whole")),
        f"{sum(record['utility'] for record in benign)}/{len(benign)}",
        share([record["utility"] for record in pairs], len(pairs)),
        *(str(sum(record[key] for record in benign)) for key in COUNTS),
        ", ".join(f"{suite} {sum(values)}/{len(values)}" for suite, values in suites.items()),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", required=True, choices=sorted(gateways.SETTINGS))
    parser.add_argument("--gateway-program", help="the gateway's program, in its own environment")
    parser.add_argument("--setting", help="default: the gateway's first")
    parser.add_argument("--out", required=True)
    parser.add_argument("--suite", action="append", choices=DOJO_SUITES)
    parser.add_argument("--step", type=int, default=1, help="each N-th task of a suite")
    parser.add_argument("--wording", choices=list(WORDINGS), default="marker")
    parser.add_argument("--results", default="structured")
    options = parser.parse_args()
    options.protocol = SESSIONS
    settings = gateways.SETTINGS[options.gateway]
    options.setting = options.setting or settings[0]
    if options.setting not in settings:
        sys.exit(f"replay_gateway: the settings of {options.gateway} are {', '.join(settings)}")
    if options.gateway != "none" and not os.access(options.gateway_program or "", os.X_OK):
        sys.exit(f"replay_gateway: name the program of {options.gateway} with --gateway-program")
    if options.gateway_program:
        options.gateway_program = os.path.abspath(options.gateway_program)
    if importlib.util.find_spec("agentdojo") is None:
        sys.exit("replay_gateway: agentdojo is missing; set PYTHONPATH to target/tools/python-guard/packages")
    # Lets SIGTERM end the gateway and the server, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.makedirs(options.out, exist_ok=True)
    policy = options.gateway if options.gateway == "none" else f"{options.gateway}-{options.setting}"
    try:
        for suite in options.suite or DOJO_SUITES:
            play_suite(options, suite, policy)
    except (HostError, SetError, gateways.GatewayError) as error:
        sys.exit(f"replay_gateway: {error}")
    text = table(options.out)
    with open(os.path.join(options.out, "table.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(f"\n{text}")


if __name__ == "__main__":
    main()
