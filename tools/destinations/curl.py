# What curl makes of the texts of a file, which is the argument. A SOCKS proxy sees the hosts as curl has read them, and
# connects nowhere but to the listeners; curl connects by itself where the host is an address.
import os
import socket
import socketserver
import struct
import subprocess
import sys
import threading

from places import Places

places = Places(sys.argv[1])
ENVIRONMENT = {"HOME": places.home, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
LIMITS = ["--max-time", "2", "--connect-timeout", "1", "--silent", "--location", "--max-redirs", "3", "--insecure", "-q"]
numeric = False


class Socks(socketserver.StreamRequestHandler):
    timeout = 2

    def handle(self):
        global numeric
        try:
            self.rfile.read(self.rfile.read(2)[1])
            self.wfile.write(b"\5\0")
            kind = self.rfile.read(4)[3]
            size = {1: 4, 4: 16}.get(kind) or self.rfile.read(1)[0]
            host = self.rfile.read(size)
            port = struct.unpack("!H", self.rfile.read(2))[0]
            name = host.decode("latin-1")
            if kind != 3:
                name = socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, host)
            try:
                places.real(name, 0, flags=socket.AI_NUMERICHOST)
                numeric = True
            except (socket.gaierror, ValueError):
                numeric |= name.lower().rstrip(".") == "localhost"
            address = places.resolve(name, port)[0][4]
            self.wfile.write(b"\5\0\0\1\0\0\0\0\0\0")
            with socket.create_connection(address[:2], 1) as there:
                there.settimeout(1)
                # One request and one answer are all that is needed.
                self.connection.settimeout(1)
                there.sendall(self.connection.recv(65536))
                while answer := there.recv(65536):
                    self.connection.sendall(answer)
        except (OSError, IndexError, struct.error, UnicodeError, ValueError):
            pass


class Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True


proxy = Proxy(("127.0.0.1", 0), Socks)
threading.Thread(target=proxy.serve_forever, daemon=True).start()
THROUGH = ["--noproxy", "", "--proxy", f"socks5h://127.0.0.1:{proxy.server_address[1]}"]
LIVE = set("$`\\\"'*~")


def run(arguments):
    try:
        done = subprocess.run(
            arguments, cwd=places.home, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5, check=False,
        )
    except (OSError, ValueError):
        return
    places.look(done.stdout)


def curl(flags):
    def reader(text):
        global numeric
        numeric = False
        run(["curl", *LIMITS, *THROUGH, *flags, "--", text])
        if numeric:
            run(["curl", *LIMITS, "--noproxy", "*", *flags, "--", text])

    return reader


def without_globs(text):
    if set("[]{}").intersection(text):
        globoff(text)


def in_a_shell(text):
    if LIVE.intersection(text):
        through = " ".join(f"'{word}'" for word in [*LIMITS, *THROUGH])
        run(["sh", "-c", f"curl {through} {text}"])


globoff = curl(["--globoff"])
places.each({"curl": curl([]), "curl --globoff": without_globs, "sh -c curl TEXT": in_a_shell})
