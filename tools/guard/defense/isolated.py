"""A server at any public address, in a network of its own.

`run` starts this file in new network and mount namespaces (Linux, root). There the name of the address leads to an address for
documentation, where a server listens: in plain text for `http:`, and for `https:` with a certificate that the gateway trusts.
Nothing leaves the machine.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
from urllib.parse import urlsplit

PUBLIC = "192.0.2.10"


def run(program, options, url):
    inside = [sys.executable, str(pathlib.Path(__file__).resolve()), program, url, *options]
    done = subprocess.run(["unshare", "--net", "--mount", *inside], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    if done.returncode:
        raise RuntimeError(f"no network of its own: {done.stderr[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def certificate(folder, host):
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test",
            "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", *key, "-keyout", "host.key", "-out", "host.csr", "-subj", f"/CN={host}")
    (folder / "names").write_text(f"subjectAltName=DNS:{host}\nbasicConstraints=CA:FALSE\n")
    openssl("x509", "-req", "-in", "host.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "host.pem",
            "-days", "2", "-extfile", "names")
    return str(folder / "host.pem"), str(folder / "host.key")


def main(program, url, options):
    from gateway import Gateway, NotStarted, Upstream

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="isolated-"))
    for command in (["ip", "link", "set", "lo", "up"], ["ip", "address", "add", f"{PUBLIC}/32", "dev", "lo"]):
        subprocess.run(command, check=True, capture_output=True)
    loopback = parts.hostname in ("127.0.0.1", "::1", "localhost")
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + ("" if loopback else f"{PUBLIC} {parts.hostname}\n"))
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True, capture_output=True)
    trust, environment = None, {}
    if parts.scheme == "https":
        trust = certificate(folder, parts.hostname)
        environment = {"SSL_CERT_FILE": str(folder / "ca.pem")}
    address = ("127.0.0.1" if loopback else PUBLIC, port)
    server = Upstream([{"name": "look", "description": "Looks."}], address=address, certificate=trust)
    try:
        gateway = Gateway(program, options, {"s": url}, environment=environment)
    except NotStarted as error:
        print(json.dumps({"served": False, "why": str(error), "warnings": [], "received": len(server.received)}))
        return
    try:
        reply = gateway.ask("/mcp/s", "tools/call", {"name": "look", "arguments": {}})
        gateway.stop()
        why = reply.refusal() or ""
        print(json.dumps({"served": bool(server.calls()), "why": why, "warnings": gateway.warnings(), "received": len(server.received)}))
    finally:
        gateway.close()
        threading.Thread(target=server.close, daemon=True).start()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
