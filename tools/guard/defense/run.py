"""Scores a program with mcp-defense-bench by the stdio adapter of the bench, by our HTTP adapter, and by both.

    run.py --program PATH [--only stdio|http] [--corpus dev|benign|all] [--json FILE] [--option WORD ...]

Needs `mcp-defense-bench[fastmcp]==0.2.0`, and for one type of fixture Linux with `unshare`, `ip`, `mount`, `openssl` and root.
Each case counts once: with both adapters, the better of its two verdicts. A benign input is a false positive if either flags it.

Three totals are printed. That of the bench leaves out cases whose type of fixture no adapter plays; `strict` counts them as
missed. `decided` also leaves out what the gateway does to every input alike (signals that begin with `always`).
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time

from mcp_defense_bench.jscompat import stringify
from mcp_defense_bench.runner import open_bench
from mcp_defense_bench.scoring import RANK, WEIGHT, cap_level, level_from, score_benign, score_matched, wilson
from mcp_defense_bench.totals import subsets

import http_adapter
import stdio_adapter

AT_ONCE = 2


class Answers:
    """Gives the scorer verdicts that are there already."""

    def __init__(self, tool, types, verdicts, version):
        self.meta = {"tool": tool, "class": "runtime-proxy", "reproducible": True, "fixtureTypes": types, "version": version}
        self.verdicts = verdicts

    def assess(self, input, testcase):
        return self.verdicts[testcase["id"], "attack" if input is testcase["fixture"] else "control"]


async def assess_all(adapters, corpora):
    """Verdicts by adapter, case and arm."""
    turn, verdicts, jobs = asyncio.Semaphore(AT_ONCE), {name: {} for name in adapters}, []

    async def one(name, adapter, case, arm, fixture):
        async with turn:
            for attempt in (1, 2):
                try:
                    if name == "stdio":
                        verdict = (await adapter.assess(fixture, case)).to_dict()
                    else:
                        verdict = await asyncio.to_thread(adapter.assess, fixture, case)
                    break
                except Exception as error:
                    # A failure of the bench itself, not of the gateway: once more, and then it is told.
                    if attempt == 2:
                        raise RuntimeError(f"{name}, {case['id']}, {arm}: {error}") from error
            verdicts[name][case["id"], arm] = verdict

    for name, adapter in adapters.items():
        for cases in corpora.values():
            for case in cases:
                if case["fixture"]["type"] in types_of(adapter):
                    jobs.append(one(name, adapter, case, "attack", case["fixture"]))
                    if "benignControl" in case:
                        jobs.append(one(name, adapter, case, "control", case["benignControl"]))
    await asyncio.gather(*jobs)
    return verdicts


def types_of(adapter):
    meta = adapter.meta
    return list(meta["fixtureTypes"] if isinstance(meta, dict) else meta.fixture_types)


def better(cases, verdicts):
    """Of each case the better pair of verdicts; of each benign input the worse verdict."""
    chosen = {}
    for corpus, several in cases.items():
        for case in several:
            there = [one for one in verdicts.values() if (case["id"], "attack") in one]
            if not there:
                continue
            if corpus == "benign":
                flagged = [one for one in there if one[case["id"], "attack"]["detect"]]
                chosen[case["id"], "attack"] = (flagged or there)[0][case["id"], "attack"]
                continue

            def rank(one, case=case):
                level, flagged = level_from(one[case["id"], "attack"], one[case["id"], "control"])
                return RANK[cap_level(level, case)], not flagged

            best = max(there, key=rank)
            for arm in ("attack", "control"):
                chosen[case["id"], arm] = best[case["id"], arm]
    return chosen


def other_totals(rubric, cases, result):
    """By the bench, with cases that were not played as missed, and also without what is done to every input."""
    levels = {case["id"]: case for case in result["cases"]}
    out = {}
    for subset, vectors in subsets(rubric).items():
        bench = strict = decided = 0.0
        for vector in vectors:
            mine = [case["id"] for case in cases if case["vector"] == vector]
            bench += result["coverage"][vector]["robustCoverage"] or 0
            weights = {case: WEIGHT[levels[case]["level"]] for case in mine if case in levels}
            strict += sum(weights.values()) / len(mine)
            decided += sum(
                weight for case, weight in weights.items() if not str(levels[case]["mal"].get("signal", "")).startswith("always")
            ) / len(mine)
        out[subset] = {"vectors": len(vectors), "bench": round(bench, 2), "strict": round(strict, 2), "decided": round(decided, 2)}
    return out


def report(name, rubric, cases, result):
    print(f"\n== {name}: attacks")
    played = {case["id"]: case for case in result["cases"]}
    for vector, cell in result["coverage"].items():
        mine = [case["id"] for case in cases if case["vector"] == vector]
        levels = [played[case]["level"] + (" (control flagged)" if played[case]["falsePositive"] else "") if case in played else "unknown" for case in mine]
        print(f"  {cell['robustCoverage']:<6} {vector:30} {', '.join(levels)}")
    for subset, total in other_totals(rubric, cases, result).items():
        share = 100 * total["bench"] / total["vectors"]
        print(f"  {subset:18} {total['bench']:5.2f} of {total['vectors']} ({share:.1f} %); strict {total['strict']:.2f}; decided {total['decided']:.2f}")


def report_benign(name, result, total):
    flagged = [item for item in result["items"] if item["falsePositive"]]
    interval = wilson(len(flagged), len(result["items"]))
    print(f"\n== {name}: {len(flagged)} false positives of {len(result['items'])} benign inputs played ({total} in all), "
          f"{100 * interval['lo']:.2f}–{100 * interval['hi']:.2f} %")
    for item in flagged:
        print(f"  {item['id']}: {item['verdict'].get('signal')}")


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the program to score")
    parser.add_argument("--only", choices=["stdio", "http"])
    parser.add_argument("--corpus", choices=["dev", "benign", "all"], default="all")
    parser.add_argument("--json", help="file for all results")
    parser.add_argument("--option", action="append", default=[], help="further option of `hospes up` and `hospes stdio`")
    parser.add_argument("--commit", help="what the program was built from, for the record")
    asked = parser.parse_args()
    began = time.monotonic()
    version = subprocess.run([asked.program, "--version"], capture_output=True, text=True).stdout.strip().split(" ")[-1]
    bench = open_bench()
    corpora = {name: bench.load_cases(name) for name in (["dev", "benign"] if asked.corpus == "all" else [asked.corpus])}
    document = {"bench": "mcp-defense-bench 0.2.0", "version": version, "commit": asked.commit, "options": asked.option}
    with stdio_adapter.FixtureServers():
        adapters = {}
        if asked.only != "http":
            adapters["stdio"] = stdio_adapter.adapter(asked.program, asked.option, version)
        if asked.only != "stdio":
            adapters["http"] = http_adapter.HttpAdapter(asked.program, asked.option, version)
        verdicts = await assess_all(adapters, corpora)
    types = {name: types_of(adapter) for name, adapter in adapters.items()}
    if len(adapters) == 2:
        verdicts["both"] = better(corpora, verdicts)
        types["both"] = sorted(set(types["stdio"]) | set(types["http"]))
    for name, answers in verdicts.items():
        adapter = Answers("hospes", types[name], answers, version)
        document[name] = {}
        if "dev" in corpora:
            result = await score_matched(adapter, corpora["dev"], bench.rubric)
            report(name, bench.rubric, corpora["dev"], result)
            document[name]["dev"] = {**result, "totals": other_totals(bench.rubric, corpora["dev"], result)}
        if "benign" in corpora:
            result = await score_benign(adapter, corpora["benign"], bench.rubric)
            report_benign(name, result, len(corpora["benign"]))
            document[name]["benign"] = result
    document["seconds"] = round(time.monotonic() - began, 1)
    print(f"\n{document['seconds']} s")
    if asked.json:
        with open(asked.json, "w") as file:
            file.write(stringify(document) + "\n")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except RuntimeError as error:
        sys.exit(f"run.py: {error}")
