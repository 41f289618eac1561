"""The stdio proxy adapter of mcp-defense-bench with the gateway as the wrapping command, at its defaults."""

import pathlib
import subprocess
import sys
import tempfile

from mcp_defense_bench.adapters import stdio

import findings

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


def adapter(program: str, options: list[str], version: str | None = None) -> stdio.StdioProxyAdapter:
    def wrap(server: list[str], work: pathlib.Path) -> tuple[list[str], dict[str, str]]:
        return [*PYTHON, str(HERE / "shim.py"), program, str(work), *options, "--", *server], {}

    return stdio.StdioProxyAdapter("hospes", wrap, warn_pattern=findings.WARNING.pattern, version=version)
