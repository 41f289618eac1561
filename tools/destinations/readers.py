# Python's readers of URLs and paths, given the texts of a file, which is the argument.
import functools
import glob
import os
import socket
import sys
import unicodedata
import urllib.parse
import urllib.request
import warnings

import httpx
import requests
import urllib3

from places import Places, offline

warnings.simplefilter("ignore")
places = Places(sys.argv[1])
places.watch()
socket.getaddrinfo = places.resolve
socket.gethostbyname = lambda host: places.resolve(host, 0)[0][4][0]
socket.gethostbyname_ex = lambda host: (host, [], [socket.gethostbyname(host)])
os.environ["HOME"] = places.home
os.chdir(places.home)
LIMIT = 1
plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
session = requests.Session()
session.trust_env = False
client = httpx.Client(trust_env=False, timeout=LIMIT, follow_redirects=True, verify=False)
pool = urllib3.PoolManager(timeout=LIMIT, retries=urllib3.Retry(3, connect=0, read=0))


def urllib_open(text):
    with plain.open(text, timeout=LIMIT) as answer:
        places.look(answer.read(4096))


def requests_get(text):
    session.get(text, timeout=LIMIT, verify=False)


def httpx_get(text):
    client.get(text)


def urllib3_get(text):
    pool.request("GET", text)


def with_scheme(read):
    # What programs do with what looks like a host: each lets the library find it.
    def reader(text):
        if text.startswith("//"):
            read(f"http:{text}")
        elif "://" not in text and not text.startswith(("/", "~", ".")):
            read(f"http://{text}")

    return reader


def host_and_port(text):
    # As `nc` and database clients take their target.
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        host, port = text, str(next(iter(places.ports)))
    socket.create_connection((host.strip("[]"), int(port)), LIMIT).close()


def parsed_host(text):
    # Programs that take the host out of a URL and connect by themselves.
    parts = urllib.parse.urlsplit(text)
    if parts.hostname:
        socket.create_connection((parts.hostname, parts.port or next(iter(places.ports))), LIMIT).close()


def file_of(path):
    with open(path, "rb") as file:
        places.look(file.read(4096))


def there(folder):
    def read(how):
        @offline
        @functools.wraps(how)
        def reader(text):
            # From where it is taken matters to a relative path alone.
            if folder != places.home and (text.startswith(("/", "~", "$")) or "://" in text):
                return
            os.chdir(folder)
            try:
                for path in how(text):
                    file_of(path)
            finally:
                os.chdir(places.home)

        return reader

    return read


def expanded(text):
    return [os.path.expandvars(os.path.expanduser(text))]


def of_url(text):
    # A `file:` URL of any kind, or one around it, by its path alone.
    parts = urllib.parse.urlsplit(text)
    return [urllib.request.url2pathname(parts.path)]


readers = {
    "urllib": urllib_open,
    "requests": requests_get,
    "httpx": httpx_get,
    "urllib3": urllib3_get,
    "urllib with http://": with_scheme(urllib_open),
    "requests with http://": with_scheme(requests_get),
    "httpx with http://": with_scheme(httpx_get),
    "host:port": host_and_port,
    "urlsplit": parsed_host,
}
ways = {
    "open": lambda text: [text],
    "open decoded": lambda text: [urllib.parse.unquote(text)],
    "open decoded twice": lambda text: [urllib.parse.unquote(urllib.parse.unquote(text))],
    "open normalized": lambda text: [unicodedata.normalize("NFKC", text)],
    "open trimmed": lambda text: [text.strip()],
    "open of a URL": of_url,
    "expanduser": expanded,
    "glob": lambda text: glob.glob(os.path.expanduser(text))[:8],
    "normpath": lambda text: [os.path.normpath(os.path.expanduser(text))],
}
for where, folder in {"home": places.home, "the root": "/", "work": os.path.join(places.home, "work")}.items():
    for name, way in ways.items():
        readers[f"{name}, from {where}"] = there(folder)(way)
places.each(readers)
