//! A small MCP server as a crate, in a folder that cargo takes for its registry.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Version of the crate.
const VERSION: &str = "1.0.0";

/// The server. It has no dependencies, so it looks for the few members that it needs in the text.
const SERVER: &str = r##"use std::io::{BufRead, Write};

fn member<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let rest = line.split_once(&format!("\"{name}\":"))?.1.trim_start();
    Some(rest.split([',', '}']).next()?.trim())
}

fn main() {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let Some(id) = member(&line, "id") else { continue };
        let result = match member(&line, "method") {
            Some("\"initialize\"") => r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"loopback-clock","version":"1.0.0"}}"#,
            Some("\"tools/list\"") => r#"{"tools":[{"name":"now","description":"Returns the current time.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}"#,
            Some("\"tools/call\"") => r#"{"content":[{"type":"text","text":"now"}]}"#,
            Some("\"ping\"") => "{}",
            _ => "",
        };
        let answer = match result {
            "" => r#""error":{"code":-32601,"message":"method not found"}"#.to_owned(),
            result => format!("\"result\":{result}"),
        };
        println!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}");
        let _ = std::io::stdout().flush();
    }
}
"##;

/// Entry of the registry for the crate.
pub(crate) fn entry() -> Value {
    json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.loopback/clock-cargo", "title": "Loopback clock", "description": "The current time.",
        "version": VERSION,
        "packages": [{
            "registryType": "cargo", "identifier": "loopback-clock", "version": VERSION,
            "transport": { "type": "stdio" },
        }],
    })
}

/// Writes a home folder of cargo in which the usual registry is replaced by a folder with the crate.
pub(crate) fn write_home(home: &Path) -> std::io::Result<PathBuf> {
    let package = home.join("crates").join(format!("loopback-clock-{VERSION}"));
    std::fs::create_dir_all(package.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"loopback-clock\"\nversion = \"{VERSION}\"\nedition = \"2021\"\n\n[dependencies]\n"
    );
    let lock = format!("version = 3\n\n[[package]]\nname = \"loopback-clock\"\nversion = \"{VERSION}\"\n");
    let config = format!(
        "[source.crates-io]\nreplace-with = \"folder\"\n[source.folder]\ndirectory = {:?}\n",
        home.join("crates")
    );
    let checksums = json!({ "files": {}, "package": null }).to_string();
    let files = [
        (package.join("Cargo.toml"), manifest.as_str()),
        (package.join("Cargo.lock"), &lock),
        (package.join("src/main.rs"), SERVER),
        (package.join(".cargo-checksum.json"), &checksums),
        (home.join("config.toml"), &config),
    ];
    for (file, content) in files {
        std::fs::write(file, content)?;
    }
    Ok(home.to_owned())
}
