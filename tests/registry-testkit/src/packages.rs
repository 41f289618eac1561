//! Small MCP servers, as packages of npm and PyPI, and as a bundle.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};

use crate::archives::{tar_gz, zip};

/// Versions of the packages `loopback-clock` of npm and PyPI. The second has one more tool.
pub const CLOCK_VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];
/// Version that corrects the second one, and offers the same. See
/// [`RegistryServer::publish_patch`](crate::RegistryServer::publish_patch).
pub const CLOCK_PATCH: &str = "1.1.1";

/// The server for Node. It has no dependencies. `CLOCK_TOKEN` is shown by the tool `token_length` as its length only; with
/// one that begins with `refused`, the server prints it and does not start.
const NODE_SERVER: &str = r##"#!/usr/bin/env node
"use strict";
const version = "@VERSION@";
if ((process.env.CLOCK_TOKEN || "").startsWith("refused")) {
  console.error(`the token ${process.env.CLOCK_TOKEN} is refused`);
  process.exit(3);
}
const tools = [
  { name: "now", description: "Returns the current time.", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } },
  { name: "token_length", description: "Returns the length of the token.", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } },
];
if (version !== "1.0.0") tools.push({ name: "set_alarm", description: "Sets an alarm.", inputSchema: { type: "object" } });
function answer(method, params) {
  switch (method) {
    case "initialize":
      return { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "loopback-clock", version } };
    case "ping": return {};
    case "tools/list": return { tools };
    case "tools/call": {
      const text = params.name === "now" ? new Date().toISOString()
        : params.name === "token_length" ? String((process.env.CLOCK_TOKEN || "").length)
        : params.name === "set_alarm" ? "set" : null;
      if (text !== null) return { content: [{ type: "text", text }] };
    }
  }
}
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.id === undefined) return;
  const result = answer(message.method, message.params || {});
  const reply = result ? { result } : { error: { code: -32601, message: "method not found" } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...reply }) + "\n");
});
"##;

/// The server for Python.
const PYTHON_SERVER: &str = r#"import datetime, json, os, sys

VERSION = "@VERSION@"
TOOLS = [
    {"name": "now", "description": "Returns the current time.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "token_length", "description": "Returns the length of the token.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
if VERSION != "1.0.0":
    TOOLS.append({"name": "set_alarm", "description": "Sets an alarm.", "inputSchema": {"type": "object"}})


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "loopback-clock", "version": VERSION}}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        name = params.get("name")
        texts = {
            "now": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "token_length": str(len(os.environ.get("CLOCK_TOKEN", ""))),
            "set_alarm": "set",
        }
        if name in texts:
            return {"content": [{"type": "text", "text": texts[name]}]}
    return None


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": "method not found"}
        else:
            reply["result"] = result
        print(json.dumps(reply), flush=True)
"#;

/// Manifest of the bundle.
pub const BUNDLE_MANIFEST: &str = r#"{
  "manifest_version": "0.3",
  "name": "loopback-clock",
  "display_name": "Loopback clock",
  "version": "1.0.0",
  "description": "The current time.",
  "author": { "name": "Hospes tests" },
  "server": {
    "type": "node",
    "entry_point": "server/index.js",
    "mcp_config": {
      "command": "node",
      "args": ["${__dirname}/server/index.js"],
      "env": { "CLOCK_TOKEN": "${user_config.token}" }
    }
  },
  "user_config": {
    "token": { "type": "string", "title": "Token", "description": "Any text", "sensitive": true, "required": true }
  }
}
"#;

/// Returns the SHA-256 of bytes, as hexadecimal digits.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Archive of the package of npm.
pub(crate) fn npm_archive(version: &str) -> Vec<u8> {
    let manifest = json!({
        "name": "loopback-clock", "version": version, "bin": { "loopback-clock": "index.js" }, "license": "MIT"
    });
    let server = NODE_SERVER.replace("@VERSION@", version);
    tar_gz(&[("package/package.json", &manifest.to_string()), ("package/index.js", &server)])
}

/// Document of the package at a registry of npm, whose base URL is given.
/// `publisher` is the account of the patch, which is listed only if it is named.
pub(crate) fn npm_document(base: &str, publisher: Option<&str>) -> Value {
    let mut versions = serde_json::Map::new();
    for version in CLOCK_VERSIONS.into_iter().chain(publisher.map(|_| CLOCK_PATCH)) {
        let publisher = publisher.filter(|_| version == CLOCK_PATCH).unwrap_or("clockmaker");
        let archive = npm_archive(version);
        let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(&archive)));
        let tarball = format!("{base}/loopback-clock/-/loopback-clock-{version}.tgz");
        let dist = json!({ "tarball": tarball, "integrity": integrity, "unpackedSize": archive.len() });
        let document = json!({
            "name": "loopback-clock", "version": version, "bin": { "loopback-clock": "index.js" }, "dist": dist,
            "_npmUser": { "name": publisher }
        });
        versions.insert(version.to_owned(), document);
    }
    let latest = if publisher.is_some() { CLOCK_PATCH } else { CLOCK_VERSIONS[1] };
    json!({ "name": "loopback-clock", "dist-tags": { "latest": latest }, "versions": versions })
}

/// Name of the wheel of a version.
pub(crate) fn wheel_name(version: &str) -> String {
    format!("loopback_clock-{version}-py3-none-any.whl")
}

/// The wheel for Python.
pub(crate) fn wheel(version: &str) -> Vec<u8> {
    let server = PYTHON_SERVER.replace("@VERSION@", version);
    let metadata = format!("Metadata-Version: 2.1\nName: loopback-clock\nVersion: {version}\n");
    let folder = format!("loopback_clock-{version}.dist-info");
    let files = [
        ("loopback_clock.py".to_owned(), server),
        (format!("{folder}/METADATA"), metadata),
        (
            format!("{folder}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: hospes\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
        ),
        (
            format!("{folder}/entry_points.txt"),
            "[console_scripts]\nloopback-clock = loopback_clock:main\n".to_owned(),
        ),
    ];
    let hash = |content: &str| URL_SAFE_NO_PAD.encode(Sha256::digest(content.as_bytes()));
    let mut record: String =
        files.iter().map(|(name, text)| format!("{name},sha256={},{}\n", hash(text), text.len())).collect();
    let record_name = format!("{folder}/RECORD");
    record.push_str(&format!("{record_name},,\n"));
    let mut named: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    named.push((&record_name, &record));
    zip(&named)
}

/// The bundle.
pub(crate) fn bundle() -> Vec<u8> {
    let server = NODE_SERVER.replace("@VERSION@", "1.0.0");
    zip(&[("manifest.json", BUNDLE_MANIFEST), ("server/index.js", &server)])
}

/// Entries for the packages. `npm` and `pypi` are the base URLs of their registries, and `bundle` is the URL of the
/// bundle.
pub(crate) fn clock_entries(npm: Option<&str>, pypi: Option<&str>, bundle_url: &str) -> Vec<Value> {
    let token =
        json!({ "name": "CLOCK_TOKEN", "description": "Any text", "isRequired": true, "isSecret": true });
    let package = |kind: &str, version: &str, base: Option<&str>, variables: Value| {
        let mut package = json!({
            "registryType": kind, "identifier": "loopback-clock", "version": version,
            "transport": { "type": "stdio" }, "environmentVariables": variables
        });
        if let Some(base) = base {
            package["registryBaseUrl"] = base.into();
        }
        package
    };
    let entry = |name: &str, version: &str, package: Value| {
        json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": format!("io.github.loopback/{name}"), "title": "Loopback clock",
            "description": "The current time.", "version": version, "packages": [package]
        })
    };
    let mut entries = Vec::new();
    for version in CLOCK_VERSIONS {
        entries.push(entry("clock-npm", version, package("npm", version, npm, json!([token]))));
        entries.push(entry("clock-pypi", version, package("pypi", version, pypi, json!([]))));
    }
    let bundle = json!({
        "registryType": "mcpb", "identifier": bundle_url, "version": "1.0.0",
        "fileSha256": sha256_hex(&bundle()), "transport": { "type": "stdio" }
    });
    entries.push(entry("clock-bundle", "1.0.0", bundle));
    entries
}
