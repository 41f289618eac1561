// Node's readers of URLs and paths, given the texts of a file, which is the argument. Listeners and names are as in places.py.
import dns from "node:dns";
import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import url from "node:url";

const given = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const ports = new Map(given.ports.map((port, at) => [port, "PQ"[at]]));
const observed = ["127.0.0.1", "127.0.0.2", "::1"];
const behind = { "good.example": "127.0.0.5" };
const otherwise = "127.0.0.4";
const LIMIT = 1000;
let reached = new Set();
const tries = {};
// What connected since the last text: the place, and the other end's port.
let accepted = [];
// Whether this process has connected: what opened no connection is not waited for.
let connected = false;
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...options) {
  connected = true;
  return connect.apply(this, options);
};

process.env.HOME = given.home;
process.chdir(given.home);
process.removeAllListeners("warning");

const real = dns.lookup;
dns.lookup = (host, options, done) => {
  if (typeof options === "function") [options, done] = [{}, options];
  if (typeof options === "number") options = { family: options };
  const name = String(host).toLowerCase().replace(/\.$/, "");
  // Old forms of addresses, which the system's resolver reads without asking anybody.
  if (name === "localhost" || net.isIP(name) || /^[0-9a-fx.]+$/.test(name) || name.includes("%")) {
    return real(host, options, done);
  }
  // What no name can be, no resolver finds.
  if (/^[a-z0-9_.-]+$/.test(name)) reached.add(name);
  if (!given.names.includes(name)) {
    const error = Object.assign(new Error(`not of this test: ${name}`), { code: "ENOTFOUND" });
    return process.nextTick(done, error);
  }
  const address = behind[name] ?? otherwise;
  process.nextTick(() => (options.all ? done(null, [{ address, family: 4 }]) : done(null, address, 4)));
};

const servers = [];
for (const address of [...observed, otherwise, ...Object.values(behind)]) {
  for (const port of ports.keys()) {
    const server = http.createServer((request, answer) => {
      const to = new URLSearchParams(request.url.split("?").slice(1).join("?")).get("to");
      if (to && Object.values(behind).includes(address)) {
        answer.writeHead(302, { location: to.replace(/[\r\n]|[^\x20-\x7e]/g, "") });
      }
      answer.shouldKeepAlive = false;
      answer.end();
    });
    server.on("connection", (socket) => {
      if (observed.includes(address)) accepted.push([`${address}:${ports.get(port)}`, socket.remotePort]);
    });
    await new Promise((done) => server.listen(port, address, done));
    if (observed.includes(address)) servers.push([address, port]);
    server.unref();
  }
}

// Each listener has accepted what came before: connections are accepted in their order.
async function settle() {
  const own = new Set();
  await Promise.all(
    servers.map(
      ([host, port]) =>
        new Promise((done) => {
          const socket = net.connect({ host, port, localAddress: host });
          socket.on("connect", () => {
            own.add(socket.localPort);
            socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
          });
          socket.on("data", () => socket.destroy());
          socket.on("error", () => {});
          socket.on("close", done);
        }),
    ),
  );
  for (const [place, port] of accepted) if (!own.has(port)) reached.add(place);
  accepted = [];
  connected = false;
}

const look = (contents) => {
  for (const [place, canary] of Object.entries(given.canaries)) {
    if (contents.includes(canary)) reached.add(place);
  }
};

const isOurs = (host) => {
  const bare = host.replace(/^\[|\]$/g, "");
  if (!net.isIP(bare) || bare.startsWith("127.") || ["::1", "::", "0.0.0.0"].includes(bare)) return true;
  if (/^::ffff:7f/i.test(bare)) return true;
  // Nothing leaves this machine.
  reached.add(bare);
  return false;
};

const get = (options) =>
  new Promise((done) => {
    const request = http.get(options, (answer) => answer.resume().on("close", done));
    request.setTimeout(LIMIT, () => request.destroy());
    request.on("error", done);
  });

async function fetched(text) {
  if (!isOurs(new URL(text).hostname)) return;
  const answer = await fetch(text, { signal: AbortSignal.timeout(LIMIT) });
  look(Buffer.from(await answer.arrayBuffer()));
}

// What took no scheme is given one.
const schemed = (read) => async (text) => {
  if (text.startsWith("//")) await read(`http:${text}`);
  else if (!text.includes("://") && !/^[/~.]/.test(text)) await read(`http://${text}`);
};

const asks = (parse) => async (text) => {
  const { protocol, hostname, port, path: at, pathname } = parse(text);
  if (!hostname || !isOurs(hostname)) return;
  if (protocol && !/^(https?|wss?|ftp):$/.test(protocol)) return;
  const bare = hostname.replace(/^\[|\]$/g, "");
  await get({ hostname: bare, port: port || (protocol === "http:" ? 80 : given.ports[0]), path: encodeURI(at ?? pathname ?? "/") });
};

// The host of the base is the reader's own, and nothing that the text names.
const against = (scheme) => (text) => {
  const found = new URL(text, `${scheme}://base.example/a/`);
  return found.hostname === "base.example" ? {} : found;
};

const file = (how) => async (text) => look(fs.readFileSync(how(text)));

const readers = {
  fetch: [fetched, true],
  "fetch with http://": [schemed(fetched), true],
  "URL and http": [asks((text) => new URL(text)), true],
  "url.parse and http": [asks((text) => url.parse(text)), true],
  "URL against a base": [asks(against("http")), true],
  "readFile": [file((text) => text), false],
  "readFile of a file URL": [file((text) => new URL(text)), false],
  "fileURLToPath": [file((text) => url.fileURLToPath(text)), false],
  "readFile of a URL's path": [file((text) => decodeURIComponent(new URL(text).pathname)), false],
  "readFile decoded": [file((text) => decodeURIComponent(text)), false],
  "readFile resolved": [file((text) => path.resolve(text.replace(/^~(?=\/|$)/, os.homedir()))), false],
};

process.on("uncaughtException", () => {});
for (const [index, text] of given.texts.entries()) {
  for (const [name, [read, connects]] of Object.entries(readers)) {
    // What plays with paths alone is nothing to those that only connect.
    if (connects && !given.networked[index]) continue;
    reached = new Set();
    tries[name] = (tries[name] ?? 0) + 1;
    try {
      await read(text);
    } catch {
      // That a reader refuses a text is its answer.
    }
    if (connects && connected) await settle();
    if (reached.size) {
      fs.writeSync(1, `${JSON.stringify({ text: index, reader: name, reached: [...reached].sort() })}\n`);
    }
  }
}
fs.writeSync(1, `${JSON.stringify({ tries })}\n`);
process.exit(0);
