# The places that the readers of this folder can reach: listeners on loopback addresses, names that only this process
# resolves, and files with unique contents. A place counts as reached when it was seen to be, never because of a text.
import json
import re
import select
import socket
import socketserver
import sys
import threading
from urllib.parse import parse_qs, urlsplit

# What the listeners of the names answer at; those addresses are in no text.
BEHIND = {"good.example": "127.0.0.5"}
OTHERWISE = "127.0.0.4"
NAME = re.compile(r"[a-z0-9_.-]+")
OBSERVED = ("127.0.0.1", "127.0.0.2", "::1")


class Places:
    """Reads the file with the texts (`ports`, `home`, `names`, `canaries`, `texts`, `networked`: which are no mere paths)."""

    def __init__(self, file, listens=True):
        with open(file, encoding="utf-8") as given:
            given = json.load(given)
        self.texts, self.home = given["texts"], given["home"]
        self.ports = {given["ports"][0]: "P", given["ports"][1]: "Q"}
        self.names = set(given["names"])
        self.canaries, self.networked = given["canaries"], given["networked"]
        self.reached = set()
        self.lock = threading.Lock()
        self.tries = {}
        self.real = socket.getaddrinfo
        self.syncing, self.servers, self.connected, self.watches = set(), [], True, False
        for address in (*OBSERVED, OTHERWISE, *BEHIND.values()) if listens else ():
            for port in self.ports:
                self._listen(address, port)

    def _listen(self, address, port):
        places = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 1

            def handle(self):
                try:
                    line = self.rfile.readline(65536).decode("latin-1")
                    if line.startswith("SYNC "):
                        self.wfile.write(b"ok\n")
                        return
                    to = ""
                    parts = line.split(" ")
                    # An open redirector, as many sites have one: it goes wherever its address says.
                    if address in BEHIND.values() and len(parts) > 1:
                        query = parse_qs(urlsplit(parts[1]).query)
                        to = (query.get("to") or [""])[0].replace("\r", "").replace("\n", "")
                    head = "HTTP/1.1 200 OK\r\n"
                    if to:
                        head = f"HTTP/1.1 302 Found\r\nLocation: {to}\r\n"
                    self.wfile.write(f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode("latin-1", "replace"))
                except OSError:
                    pass

        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        class Listener(socketserver.ThreadingTCPServer):
            address_family, allow_reuse_address, daemon_threads, request_queue_size = family, True, True, 128

            def get_request(self):
                accepted = super().get_request()
                if accepted[1][1] in places.syncing:
                    places.syncing.discard(accepted[1][1])
                elif address in OBSERVED:
                    places.reach(f"{address}:{places.ports[port]}")
                return accepted

        server = Listener((address, port), Handler)
        self.servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 60}, daemon=True).start()

    def reach(self, place):
        with self.lock:
            self.reached.add(place)

    def settle(self):
        """Waits until each listener has accepted what came before: connections are accepted in their order."""
        for server in self.servers:
            if server.server_address[0] not in OBSERVED:
                continue
            one = socket.socket(server.address_family, socket.SOCK_STREAM)
            one.bind((server.server_address[0], 0))
            self.syncing.add(one.getsockname()[1])
            one.connect(server.server_address)
            one.sendall(b"SYNC \n")
            select.select([one], [], [], 2)
            one.close()
        self.connected = not self.watches

    def look(self, contents):
        """Notes the files whose contents are in what a reader got."""
        if isinstance(contents, str):
            contents = contents.encode("utf-8", "replace")
        for place, canary in self.canaries.items():
            if canary.encode() in contents:
                self.reach(place)

    def resolve(self, host, port=0, *rest, **more):
        """`socket.getaddrinfo` that knows the names of the tests and asks no network."""
        if host is None:
            return self.real(host, port, *rest, **more)
        # As the real one does it with what is not ASCII.
        text = host.decode("latin-1") if isinstance(host, bytes) else host
        name = text if text.isascii() else text.encode("idna").decode("ascii")
        if "\0" in name:
            raise ValueError("embedded null character")
        try:
            flags = {"type": socket.SOCK_STREAM, "flags": socket.AI_NUMERICHOST}
            found = self.real(name, port, **flags)
        except socket.gaierror:
            lower = name.lower().removesuffix(".")
            if lower == "localhost":
                return self.real("localhost", port, type=socket.SOCK_STREAM)
            # What no name can be, no resolver finds.
            if NAME.fullmatch(lower):
                self.reach(lower)
            if lower not in self.names:
                raise
            return self.real(BEHIND.get(lower, OTHERWISE), port, **flags)
        address = found[0][4][0].split("%")[0].removeprefix("::ffff:")
        if not address.startswith("127.") and address not in ("::1", "::", "0.0.0.0"):
            # Nothing leaves this machine.
            self.reach(address)
            raise socket.gaierror(socket.EAI_NONAME, "not of this test")
        return found

    def watch(self):
        """Notes whether this process connects at all: what opened no connection is not waited for."""
        real, places = socket.socket.connect, self

        def connect(one, address):
            places.connected = True
            return real(one, address)

        socket.socket.connect = connect
        self.connected, self.watches = False, True

    def each(self, readers):
        """Gives each text to each reader, and prints what was reached."""
        for index, text in enumerate(self.texts):
            for name, read in readers.items():
                # What plays with paths alone is nothing to those that only connect.
                if getattr(read, "connects", True) and not self.networked[index]:
                    continue
                with self.lock:
                    self.reached = set()
                self.tries[name] = self.tries.get(name, 0) + 1
                try:
                    read(text)
                except Exception:  # noqa: BLE001 - that a reader refuses a text is its answer
                    pass
                if self.connected and getattr(read, "connects", True):
                    self.settle()
                with self.lock:
                    if self.reached:
                        print(json.dumps({"text": index, "reader": name, "reached": sorted(self.reached)}))
        print(json.dumps({"tries": self.tries}))
        sys.stdout.flush()


def offline(reader):
    """Marks a reader that opens no connection."""
    reader.connects = False
    return reader
