"""mcp-contextforge-gateway in front of a server that speaks MCP over stdio.

Its translate program gives the server an endpoint, and the gateway stands before that with its plugins. The package on PyPI
has no plugins; they are in the source archive of the same version. The folder `plugins` of that archive has to be in the
folder of the environment that the package is installed in.

The gateway runs once for all conversations: it keeps no state of a conversation, and a start takes ten seconds.
"""
import http.client
import json
import os
import pathlib
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import time

from gateways import GatewayError

SECONDS = 90
USER = "admin@example.com"
# Plugins of the shipped configuration that look at calls and results and need no service elsewhere. All of them but
# the first, which is the only one that is on by default, are disabled there. UnifiedPDPPlugin refuses every call.
GUARDS = (
    "PIIFilterPlugin",
    "SQLSanitizer",
    "SecretsDetection",
    "EncodedExfilDetector",
    "HarmfulContentDetector",
    "CodeSafetyLinterPlugin",
)
MASKS = "PIIFilterPlugin"
# Turns plugins of the shipped configuration on or off; run by the gateway's own Python, which has a YAML reader.
CHOOSE = """
import json, sys, yaml
source, target, modes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with open(source, encoding="utf-8") as file:
    config = yaml.safe_load(file)
missing = set(modes) - {plugin["name"] for plugin in config["plugins"]}
if missing:
    sys.exit(f"{source} has no plugin {', '.join(sorted(missing))}; take the folder of the version in requirements.txt")
for plugin in config["plugins"]:
    plugin["mode"] = modes.get(plugin["name"], plugin["mode"])
with open(target, "w", encoding="utf-8") as file:
    yaml.safe_dump(config, file, sort_keys=False)
"""


def modes(setting):
    """Modes of plugins that differ from the shipped ones."""
    if setting == "default":
        return {}
    chosen = dict.fromkeys(GUARDS, "enforce")
    return chosen | {MASKS: "disabled"} if setting == "unmasked" else chosen


class ContextForge:
    def __init__(self, server_command, port, program, setting):
        self.processes = []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="contextforge-"))
        try:
            self.begin(server_command, port or free_port(), pathlib.Path(program).absolute(), setting)
        except BaseException:
            self.stop()
            raise

    def begin(self, server_command, port, program, setting):
        self.python = str(program.parent / "python")
        plugins = program.parent.parent / "plugins"
        if not (plugins / "config.yaml").is_file():
            raise GatewayError(f"{plugins} is missing; copy the folder `plugins` of the package's source archive there")
        config = str(self.folder / "plugins.yaml")
        self.run("-c", CHOOSE, str(plugins / "config.yaml"), config, json.dumps(modes(setting)))
        secret = lambda: secrets.token_urlsafe(32) + "aA1!"  # noqa: E731
        self.environment = {
            "HOME": str(self.folder),
            "PATH": os.environ.get("PATH", os.defpath),
            # For the module `plugins`.
            "PYTHONPATH": str(plugins.parent),
            "JWT_SECRET_KEY": secret(),
            "AUTH_ENCRYPTION_SECRET": secret(),
            "BASIC_AUTH_PASSWORD": secret(),
            "PLATFORM_ADMIN_PASSWORD": secret(),
            "DEFAULT_USER_PASSWORD": secret(),
            "PLATFORM_ADMIN_EMAIL": USER,
            "DATABASE_URL": f"sqlite:///{self.folder}/gateway.db",
            "CACHE_TYPE": "memory",
            "PLUGINS_ENABLED": "true",
            "PLUGINS_CONFIG_FILE": config,
            # 100 requests a minute would be reached by playing.
            "RATE_LIMITING_ENABLED": "false",
            # The server is on loopback.
            "SSRF_ALLOW_LOCALHOST": "true",
            "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        }
        behind = free_port()
        path = f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}"
        server = shlex.join(["env", path, "PYTHONDONTWRITEBYTECODE=1", *server_command])
        translate = [self.python, "-m", "mcpgateway.translate", "--stdio", server, "--expose-streamable-http"]
        self.start("translate", [*translate, "--host", "127.0.0.1", "--port", str(behind)], behind)
        self.start("gateway", [str(program), "--host", "127.0.0.1", "--port", str(port)], port)
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp/"
        token = self.run("-m", "mcpgateway.utils.create_jwt_token", "-u", USER, "-e", "600", "--admin").splitlines()[-1]
        self.headers = {"Authorization": f"Bearer {token}"}
        about = {"name": "server", "url": f"http://127.0.0.1:{behind}/mcp", "transport": "STREAMABLEHTTP"}
        self.request("POST", "/gateways", about)
        listed = self.request("GET", "/tools?limit=0")
        tools = listed if isinstance(listed, list) else listed["data"]
        self.names = {tool["originalName"]: tool["name"] for tool in tools}
        if not self.names:
            raise GatewayError("the gateway lists no tool of the server")

    def tool_name(self, tool):
        return self.names.get(tool, tool)

    def run(self, *arguments):
        """Runs the gateway's Python. Returns what it prints."""
        environment = getattr(self, "environment", None)
        done = subprocess.run([self.python, *arguments], env=environment, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise GatewayError(done.stderr.strip()[-2000:])
        return done.stdout

    def start(self, name, command, port):
        """Starts a program and waits until it listens."""
        log = self.folder / f"{name}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=file, stderr=file)
        self.processes.append(process)
        limit = time.monotonic() + SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if process.poll() is not None or time.monotonic() > limit:
                    tail = log.read_text(errors="replace")[-2000:]
                    raise GatewayError(f"{name} did not start:\n{tail}") from None
                time.sleep(0.1)

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        headers = self.headers | {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        if response.status >= 300:
            raise GatewayError(f"{method} {path}: {response.status} {text[:2000]}")
        return json.loads(text)

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
