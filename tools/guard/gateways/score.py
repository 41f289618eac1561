"""Scores another gateway with the stdio adapter of mcp-defense-bench.

    score.py NAME --program PATH [--corpus dev|benign|all] [--json FILE]

The names are those of gateways.py, and so are the settings.
"""

import argparse
import asyncio
import pathlib
import sys
import time

from mcp_defense_bench.jscompat import stringify
from mcp_defense_bench.runner import open_bench
from mcp_defense_bench.scoring import score_benign, score_matched

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "defense"))

import gateways
import run
import stdio_adapter


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(gateways.GATEWAYS))
    parser.add_argument("--program", required=True)
    parser.add_argument("--corpus", choices=["dev", "benign", "all"], default="all")
    parser.add_argument("--json")
    asked = parser.parse_args()
    began = time.monotonic()
    bench = open_bench()
    corpora = {name: bench.load_cases(name) for name in (["dev", "benign"] if asked.corpus == "all" else [asked.corpus])}
    adapter = stdio_adapter.StdioAdapter(
        asked.name, lambda server, work: gateways.wrapped(asked.name, asked.program, server, work),
        warn_pattern=gateways.GATEWAYS[asked.name][1],
    )
    with stdio_adapter.FixtureServers():
        verdicts = (await run.assess_all({"stdio": adapter}, corpora))["stdio"]
    answers = run.Answers(asked.name, run.types_of(adapter), verdicts, None)
    document = {}
    if "dev" in corpora:
        document["dev"] = await score_matched(answers, corpora["dev"], bench.rubric)
        run.report(asked.name, bench.rubric, corpora["dev"], document["dev"])
    if "benign" in corpora:
        document["benign"] = await score_benign(answers, corpora["benign"], bench.rubric)
        run.report_benign(asked.name, document["benign"], len(corpora["benign"]))
    print(f"\n{time.monotonic() - began:.1f} s")
    if asked.json:
        pathlib.Path(asked.json).write_text(stringify(document) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
