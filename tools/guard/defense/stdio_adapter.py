"""The stdio proxy adapter of mcp-defense-bench with the gateway as the wrapping command, at its defaults."""

import copy
import pathlib
import subprocess
import sys
import tempfile

from mcp_defense_bench.adapters import Verdict, stdio

import findings
import gateway

HERE = pathlib.Path(__file__).resolve().parent
# Without the packages of the interpreter: these two start in some hundredths of a second.
PYTHON = [sys.executable, "-S", "-E"]


class FixtureServers:
    """Processes that serve fixtures, forked from one that has imported the bench."""

    def __enter__(self) -> "FixtureServers":
        self.folder = tempfile.TemporaryDirectory(prefix="fixtures-")
        self.path = str(pathlib.Path(self.folder.name) / "socket")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "fork_server.py"), self.path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        self.process.stdout.readline()
        self.usual = stdio.server_command
        stdio.server_command = self.command
        return self

    def command(self, fixture: pathlib.Path, invocations: pathlib.Path) -> list[str]:
        return [*PYTHON, str(HERE / "fork_server.py"), self.path, str(fixture), str(invocations)]

    def __exit__(self, *_: object) -> None:
        stdio.server_command = self.usual
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


class StdioAdapter(stdio.StdioProxyAdapter):
    """Stricter in one point: a result to which something was added, with all that it had, is a warning and not enforcement.
    What the attacker wrote still reaches the model."""

    async def assess(self, input, testcase):
        drive, runs = self._drive, []

        async def kept(fixture, *, proxied):
            runs.append(await drive(fixture, proxied=proxied))
            return runs[-1]

        self_copy = copy.copy(self)
        self_copy._drive = kept
        verdict = await stdio.StdioProxyAdapter.assess(self_copy, input, testcase)
        if verdict.enforce and not runs[1]["raised"] and all(map(only_added, runs[0]["steps"], runs[1]["steps"])):
            return Verdict(True, False, "something was added to the result")
        return verdict


def only_added(without: dict, step: dict) -> bool:
    """Whether the step with the gateway is equal to that without it, or has further blocks of content and no other difference."""
    if {**without, "content": None} != {**step, "content": None}:
        return False
    blocks = iter(step.get("content") or [])
    return all(block in blocks for block in without.get("content") or [])


def adapter(program: str, options: list[str], version: str | None = None) -> StdioAdapter:
    options = [*gateway.unattended(program), *options]

    def wrap(server: list[str], work: pathlib.Path) -> tuple[list[str], dict[str, str]]:
        return [*PYTHON, str(HERE / "shim.py"), program, str(work), *options, "--", *server], {}

    return StdioAdapter("hospes", wrap, warn_pattern=findings.WARNING.pattern, version=version)
