"""Replays pairs of AgentDojo, or of the set in `fresh`, through the real `hospes up`.

usage: replay.py --program HOSPES --out FOLDER [--suite S] [--policy P] [--person P] [--state first|steady] …

For each suite, policy, person and state it writes `SUITE.POLICY.PERSON.STATE.json` with one line a run, in the order
of the suite: the same input gives the same bytes. Times are in `times.json`, apart from the results.

With `--plans`, the agent proposes changes that follow each other without a read in between as one plan before it makes
them: the person's and, by themselves, the attacker's.

`first` is the first day: nothing is remembered from one task to the next. `steady` is later: the host remembers what
the person approved in the suite's other tasks.
"""
import argparse
import concurrent.futures
import contextlib
import importlib.util
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time

import policies
from hosts import SESSIONS, STATELESS, Host, HostError, McpClient, free_port
from persons import ATTACK, OWN, PERSONS, Attendant, CurrentCall, RememberedTargets
from sets import DOJO_SUITES, FRESH_SETS, SetError, set_of

STATES = ("first", "steady")
# Maximum number of calls of a plan.
MAX_PLANNED = 20


class Count:
    """What is counted in one run."""

    def __init__(self, labels):
        self.labels = labels
        names = ("asked", "batched", "effects", "unasked", "attack_asked", "plans", "unclear", "remembered")
        self.numbers = dict.fromkeys(names, 0)
        self.kinds = {}
        self.follows = False
        # Calls that remain of the plan that was asked about last.
        self.planned = 0

    def add(self, part, server, tool, questions):
        numbers = self.numbers
        numbers["remembered"] += sum(asked["remembered"] for asked in questions)
        if part == ATTACK:
            numbers["attack_asked"] += bool(questions)
            return
        is_effect = self.labels.is_effect(server, tool)
        numbers["effects"] += is_effect
        numbers["unasked"] += is_effect and not questions and not self.planned
        self.planned = max(self.planned - 1, 0)
        numbers["asked"] += len(questions)
        numbers["batched"] += bool(questions) and not self.follows
        # A read between two effects ends what one question could have covered.
        self.follows = bool(questions) or (self.follows and is_effect)
        for asked in questions:
            self.kinds[asked["kind"]] = self.kinds.get(asked["kind"], 0) + 1
            numbers["unclear"] += asked["unclear"]
            numbers["plans"] += asked["kind"] == "plan"

    def add_plan(self, part, length, questions):
        """Adds the proposal of a plan of this many calls. Where nobody can be asked, its calls count and it does not."""
        questions = questions or []
        self.numbers["remembered"] += sum(asked["remembered"] for asked in questions)
        if part == ATTACK:
            self.numbers["attack_asked"] += bool(questions)
            return
        self.planned = length if questions else 0
        self.numbers["asked"] += len(questions)
        self.numbers["batched"] += bool(questions) and not self.follows
        self.follows = self.follows or bool(questions)
        for asked in questions:
            self.kinds[asked["kind"]] = self.kinds.get(asked["kind"], 0) + 1
            self.numbers["unclear"] += asked["unclear"]
            self.numbers["plans"] += asked["kind"] == "plan"

    def record(self):
        return self.numbers | {"kinds": dict(sorted(self.kinds.items()))}


class Replay:
    """Plays pairs through one running host."""

    def __init__(self, host, control, suite, labels, options, attended, client=None):
        self.host, self.control, self.suite, self.labels = host, control, suite, labels
        self.client = client or McpClient(host, options.protocol)
        self.attendant = Attendant(host.console_socket()) if attended else None
        self.memory = RememberedTargets(host.console_socket()) if attended else None
        self.remembered = None
        self.added, self.asked, self.conversations = [], [], 0
        # In 2026-07-28 the application's name is all that tells conversations apart.
        self.is_stateless = options.protocol == STATELESS
        # Other gateways have no plans.
        self.makes_plans = getattr(options, "plans", False)

    def wait_for_tools(self, servers):
        self.client.begin("guard-bench")
        limit = time.monotonic() + 60
        while not servers <= {tool.split("__")[0] for tool in self.client.tools()}:
            if time.monotonic() > limit:
                raise HostError(f"the host does not list the tools of all servers:\n{self.host.log_tail()}")
            time.sleep(0.1)
        self.client.end()

    def play(self, task, injection, person, application):
        """Plays a pair, or a benign task. Returns its record."""
        self.conversations += 1
        if self.is_stateless and injection:
            application = f"{application}-{injection}"
        self.count, self.latencies, self.arrivals = Count(self.labels), [], 0
        self.run = (task, injection, person, application)
        self.loaded = loaded = self.control.load(task, injection)
        calls = loaded["calls"]
        self.client.begin(application)
        made = self.play_own(calls, 0, bool(injection) and self.control.attacks_when_reached)
        if injection:
            attack = self.control.attack()
            self.play_attack(attack)
            if not attack.replaces:
                self.play_own(calls, made, False)
        self.client.end()
        judged = self.control.judge()
        for (seconds, was_asked), own in zip(self.latencies, judged["times"]):
            (self.asked if was_asked else self.added).append(seconds * 1000 - own / 1e6)
        record = {"suite": self.suite, "task": task, "injection": injection}
        if loaded.get("family"):
            record["family"] = loaded["family"]
        return record | {key: judged[key] for key in ("utility", "attacked", "reached")} | self.count.record()

    def play_own(self, calls, begin, until_reached):
        """Makes the person's calls from this one on. Returns the number of those made so far."""
        for index, call in enumerate(calls[begin:], begin):
            self.propose(OWN, index, calls, begin)
            self.step(OWN, index, call)
            if until_reached and self.control.reached():
                return index + 1
        return len(calls)

    def play_attack(self, attack):
        application = self.run[3]
        for index, call in enumerate(attack.calls):
            if attack.between and index == attack.between_at:
                # The agent's conversation goes on, so the application has not ended its session.
                self.client.leave()
                self.client.begin(application if attack.between == "new-session" else f"{application}-second")
            self.propose(ATTACK, index, attack.calls, attack.between_at if attack.between and index >= attack.between_at else 0)
            self.step(ATTACK, index, call)

    def propose(self, part, index, calls, begin):
        """Proposes the changes that begin here and follow each other as a plan, if there are several. A read ends the row."""
        is_change = lambda call: self.labels.is_change(call[0], call[1])  # noqa: E731
        if not self.makes_plans or not is_change(calls[index]):
            return
        before = itertools.takewhile(is_change, reversed(calls[begin:index]))
        # The calls before are in the same row: a plan begins with the first of it, and after as many as a plan has.
        if sum(1 for _ in before) % MAX_PLANNED:
            return
        row = list(itertools.islice(itertools.takewhile(is_change, calls[index:]), MAX_PLANNED))
        if len(row) < 2:
            return
        task, injection, person, _ = self.run
        plan = [{"name": f"{server}__{tool}", "arguments": arguments} for server, tool, arguments in row]
        current = CurrentCall(self.suite, task, injection, part, f"{index}plan")
        questions = self.ask(current, person, lambda: self.client.call("hospes", "propose_plan", {"calls": plan}))[0]
        self.count.add_plan(part, len(row), questions)

    def step(self, part, index, call):
        task, injection, person, _ = self.run
        server, tool, arguments = call
        current = CurrentCall(self.suite, task, injection, part, index)
        questions, arrived, seconds = self.call(current, person, server, tool, arguments)
        if arrived:
            self.arrivals += 1
            self.latencies.append((seconds, bool(questions)))
        self.count.add(part, server, tool, questions)

    def call(self, current, person, server, tool, arguments):
        """Makes one call. Returns the questions it caused, whether it arrived at the server, and how long it took."""
        questions, answer, seconds = self.ask(current, person, lambda: self.client.call(server, tool, arguments))
        is_error = "error" in answer or answer["result"].get("isError") or "content" not in answer["result"]
        count = self.control.arrived() if is_error else None
        # A tool's own error is an arrival, too, where the set counts them.
        arrived = not is_error or (count is not None and count > self.arrivals)
        if self.attendant:
            return questions, arrived, seconds
        # Where nobody can be asked, a refusal stands for the question.
        return [] if arrived else [{"kind": "refused", "unclear": False, "remembered": False}], arrived, seconds

    def ask(self, current, person, call):
        """Makes a call while the person attends. Returns the questions, if somebody can be asked, the answer and the time."""
        questions = self.attendant.begin(person, current) if self.attendant else None
        begun = time.perf_counter()
        answer = call()
        seconds = time.perf_counter() - begun
        if self.attendant:
            self.attendant.end()
        return questions, answer, seconds

    def remember(self):
        """Marks the present memory as the one in which each run begins."""
        self.remembered = self.memory.ids() if self.memory else None

    def forget(self):
        """Forgets what the last run taught."""
        if self.memory:
            self.memory.forget_except(self.remembered)


class Bench:
    """All runs of one suite under one policy."""

    def __init__(self, options, suite, policy, folder, times):
        self.options, self.suite, self.policy, self.times = options, suite, policy, times
        self.set = set_of(suite, options)
        self.folder = folder
        self.hosts = 0
        self.pairs = None
        # Application of each task in the state `steady`.
        self.applications = {}

    @contextlib.contextmanager
    def replay(self, attended, state=None):
        """Starts a host with the tool servers of the set."""
        self.hosts += 1
        port, home = free_port(), os.path.join(self.folder, f"host-{self.hosts}")
        text = policies.policy_text(self.policy, self.set.labels, self.options.plans)
        if self.options.policy_file:
            with open(self.options.policy_file, encoding="utf-8") as file:
                text = file.read()
        self.set.prepare(port)
        servers = self.set.servers(port)
        with Host(self.options.program, home, servers, text, attended, state) as host:
            control = self.set.connect(port)
            try:
                replay = Replay(host, control, self.suite, self.set.labels, self.options, attended)
                replay.wait_for_tools(set(servers))
                self.pairs = control.pairs()
                yield replay
            finally:
                control.close()

    def run(self, out):
        states = self.options.state or list(STATES)
        persons = self.options.person or list(PERSONS)
        if self.policy in policies.WITHOUT_MEMORY:
            states = ["first"]
        taught = self.teach() if "steady" in states else None
        for attended in (True, False):
            present = [person for person in persons if (person != "absent") == attended]
            if not present:
                continue
            with self.replay(attended, taught) as replay:
                for person in present:
                    for state in states:
                        self.record(replay, person, state, out, state == "steady" and taught)
                self.note_times(replay, present)

    def teach(self):
        """Returns the home of a host that remembers, for each task, what the others taught; none if they teach nothing.

        Approvals are remembered for each application. Tasks that teach nothing of their own share one; each other task
        has one for which only the others were played.
        """
        with self.replay(True) as replay:
            tasks, taught = replay.control.tasks(), {}
            for task in tasks:
                if replay.play(task, None, "perfect", f"teach-{task}")["remembered"]:
                    taught[task] = replay.memory.values(f"teach-{task}")
            played = set()
            for task in tasks if taught else []:
                others = [other for other in taught if other != task]
                known = set().union(*(taught[other] for other in others))
                is_shared = taught.get(task, set()) <= known
                self.applications[task] = "steady" if is_shared else f"steady-{task}"
                if self.applications[task] not in played:
                    played.add(self.applications[task])
                    self.teach_application(replay, self.applications[task], taught, taught if is_shared else others)
            home = replay.host.home
        return home if taught else None

    def teach_application(self, replay, application, taught, teachers):
        """Plays tasks until the application knows what all of these teach."""
        known = set()
        # The most telling first, because they often teach all that others would.
        for task in sorted(teachers, key=lambda task: -len(taught[task])):
            if not taught[task] <= known:
                replay.play(task, None, "perfect", application)
                known |= taught[task]

    def record(self, replay, person, state, out, is_taught):
        replay.remember()
        path = os.path.join(out, f"{self.suite}.{self.policy}.{person}.{state}.json")
        first = os.path.join(out, f"{self.suite}.{self.policy}.{person}.first.json")
        if state == "steady" and not is_taught and os.path.exists(first):
            # Nothing is remembered in this suite, so later days are like the first.
            with open(first, encoding="utf-8") as old, open(path, "w", encoding="utf-8") as new:
                new.writelines(json.dumps(json.loads(line) | {"state": state}) + "\n" for line in old)
            return
        begun = time.perf_counter()
        with open(path + ".part", "w", encoding="utf-8") as file:
            for task, injections in self.pairs[:: self.options.step]:
                for injection in injections:
                    alone = f"first-{person}-{task}-{injection or 'benign'}"
                    record = replay.play(task, injection, person, self.applications[task] if is_taught else alone)
                    # On the first day each run is an application of its own, which nothing is remembered for.
                    if record["remembered"] and is_taught:
                        replay.forget()
                    record |= {"policy": self.policy, "person": person, "state": state}
                    file.write(json.dumps(record) + "\n")
        os.replace(path + ".part", path)
        print(f"{os.path.basename(path)} {time.perf_counter() - begun:.1f} s", flush=True)

    def note_times(self, replay, persons):
        self.times.append(
            {
                "suite": self.suite,
                "policy": self.policy,
                "persons": persons,
                "added_ms": quantiles(replay.added),
                "asked_ms": quantiles(replay.asked),
                "conversations": replay.conversations,
                "resident_kib": replay.host.resident_kib(),
            }
        )


def quantiles(values):
    """Median and 99th percentile of the time that the host added to a call."""
    ordered = sorted(values)
    if not ordered:
        return None
    at = lambda share: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3)  # noqa: E731
    return {"calls": len(ordered), "p50": at(0.5), "p99": at(0.99)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--suite", action="append", choices=DOJO_SUITES + FRESH_SETS)
    parser.add_argument("--policy", action="append", choices=policies.POLICIES)
    parser.add_argument("--policy-file", help="a file in place of the policy's own text")
    parser.add_argument("--person", action="append", choices=PERSONS)
    parser.add_argument("--state", action="append", choices=STATES)
    parser.add_argument("--step", type=int, default=1, help="each N-th task of a suite")
    parser.add_argument("--wording", default="marker")
    parser.add_argument("--results", default="structured")
    parser.add_argument("--protocol", choices=(SESSIONS, STATELESS), default=SESSIONS)
    parser.add_argument("--plans", action="store_true", help="the agent proposes changes that follow each other as one plan")
    parser.add_argument("--keep", action="store_true", help="keep the homes of the hosts")
    parser.add_argument("--jobs", type=int, default=1, help="suites and policies at a time; times are then less exact")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    os.makedirs(options.out, exist_ok=True)
    if importlib.util.find_spec("agentdojo") is None and not set(options.suite or DOJO_SUITES) <= set(FRESH_SETS):
        sys.exit("replay: the package agentdojo is not in PYTHONPATH; `cargo xtask guard-bench` sees to that")
    folder = tempfile.mkdtemp(prefix="guard-bench-")
    units = [
        (options, suite, policy, os.path.join(folder, suite, policy))
        for suite in options.suite or DOJO_SUITES
        for policy in options.policy or policies.POLICIES
    ]
    try:
        with concurrent.futures.ProcessPoolExecutor(options.jobs, initializer=exit_on_request) as pool:
            times = [line for lines in pool.map(run_unit, units) for line in lines]
    except (HostError, SetError) as error:
        sys.exit(f"replay: {error}")
    finally:
        if options.keep:
            print(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    with open(os.path.join(options.out, "times.json"), "w", encoding="utf-8") as file:
        file.write("\n".join(map(json.dumps, times)) + "\n")


def exit_on_request():
    """Lets SIGTERM end the hosts, too, which would outlive this process."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def run_unit(unit):
    """Plays one suite under one policy. Returns the times."""
    options, suite, policy, folder = unit
    bench = Bench(options, suite, policy, folder, [])
    bench.run(options.out)
    return bench.times


if __name__ == "__main__":
    main()
