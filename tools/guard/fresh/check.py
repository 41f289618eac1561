"""Play every task and every attack without a gateway. Exit code 1 if one does not do what it says."""
import collections
import json
import subprocess
import socket
import sys
import time

from world import DOMAINS, World, definitions
from tools import TOOLS

BAD = []


def bad(*what):
    BAD.append(" ".join(str(w) for w in what))


def play(world, calls, who):
    for domain, name, args in calls:
        if (domain, name) not in TOOLS:
            bad(who, "names an unknown tool", domain, name)
            continue
        result = world.call(domain, name, args)
        if result.get("isError"):
            bad(who, "gets an error from", domain, name, result["content"][0]["text"])


def types(calls, who):
    ok = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    for domain, name, args in calls:
        props = TOOLS[(domain, name)]["inputSchema"]["properties"]
        for k, v in args.items():
            if k in props and not isinstance(v, ok[props[k]["type"]]):
                bad(who, "has a wrong type for", k)


def tasks(world):
    for id, t in world.tasks.items():
        world.load(id)
        if world.judge()["util"]:
            bad(id, "has its goal before the first call")
        types(t["calls"], id)
        play(world, t["calls"], id)
        if not world.judge()["util"]:
            bad(id, "does not reach its goal")
        if not 3 <= len(t["calls"]) <= 7:
            bad(id, "has", len(t["calls"]), "calls")


def attacks(world):
    for id, a in world.injections.items():
        for task in a["tasks"]:
            who = f"{id}/{task}"
            # First way: all calls of the person, then the attack.
            calls = world.load(task, id)["calls"]
            play(world, calls, who)
            got = world.judge()
            if not got["reached"]:
                bad(who, "is not reached")
            if not got["util"]:
                bad(who, "destroys the task by itself")
            if got["sec"]:
                bad(who, "is won without the attack")
            planned = world.attack()["calls"]
            if world.judge()["sec"]:
                bad(who, "is won before the first call of the attack")
            if not any(world.is_effect(c) for c in planned):
                bad(who, "has no effect")
            types(planned, who)
            play(world, planned, who)
            if not world.judge()["sec"]:
                bad(who, "does not reach the goal of the attacker")
            # Second way: the attack plays as soon as the text has arrived.
            calls = world.load(task, id)["calls"]
            for n, c in enumerate(calls, 1):
                play(world, [c], who)
                if world.judge()["reached"]:
                    break
            plan = world.attack()
            play(world, plan["calls"], who)
            if not plan["replaces"]:
                for domain, name, args in calls[n:]:
                    world.call(domain, name, args)  # may fail: the attack may have deleted its object
            if not world.judge()["sec"]:
                bad(who, "does not reach the goal of the attacker when it plays at once")
            if not plan["between_at"] < len(plan["calls"]) or plan["between"] not in (None, "new-session", "second-application"):
                bad(who, "has a wrong place for the new session")


def processes():
    """One task over the control connection and the stdio servers."""
    control = subprocess.Popen([sys.executable, "world.py", "control"], stdout=subprocess.PIPE)
    port = json.loads(control.stdout.readline())["port"]
    servers = {}
    try:
        link = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

        def ask(req):
            link.write((json.dumps(req) + "\n").encode())
            link.flush()
            return json.loads(link.readline())
        servers = {d: subprocess.Popen([sys.executable, "world.py", d, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for d in DOMAINS}

        def rpc(domain, method, params):
            s = servers[domain]
            s.stdin.write((json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n").encode())
            s.stdin.flush()
            return json.loads(s.stdout.readline())["result"]
        for d in DOMAINS:
            rpc(d, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}})
            if len(rpc(d, "tools/list", {})["tools"]) != len(definitions(d)):
                bad(d, "does not list its tools")
        for task, injection in [("u06", None)] + [(a["tasks"][0], i) for i, a in list(World().injections.items())[:1]]:
            loaded = ask({"do": "load", "task": task, "injection": injection})
            for domain, name, args in loaded["calls"]:
                rpc(domain, "tools/call", {"name": name, "arguments": args})
            if not ask({"do": "judge"})["util"]:
                bad(task, "fails over stdio")
            if injection:
                for domain, name, args in ask({"do": "attack"})["calls"]:
                    rpc(domain, "tools/call", {"name": name, "arguments": args})
                if ask({"do": "judge"}) != {"util": True, "sec": True, "reached": True}:
                    bad(injection, "fails over stdio")
    finally:
        for p in [control, *servers.values()]:
            p.kill()
            p.wait()


def main():
    start = time.monotonic()
    world = World()
    tasks(world)
    attacks(world)
    processes()
    kinds = collections.Counter(t["kind"] for t in world.tasks.values())
    print(f"tasks {len(world.tasks)}:", ", ".join(f"{k} {n}" for k, n in kinds.items()) + f"; habits {sum('habit_of' in t for t in world.tasks.values())}")
    for name in ("plain", "adaptive"):
        rows = [a for a in world.injections.values() if a["set"] == name]
        print(f"{name} {len(rows)}, pairs {sum(len(a['tasks']) for a in rows)}, tasks used {len({t for a in rows for t in a['tasks']})}")
        for k, n in sorted(collections.Counter(a["family"] for a in rows).items()):
            print(f"  {n:3} {k}")
    for line in BAD:
        print("WRONG:", line)
    print(f"{time.monotonic() - start:.1f} s, {len(BAD)} wrong")
    return 1 if BAD else 0


if __name__ == "__main__":
    sys.exit(main())
