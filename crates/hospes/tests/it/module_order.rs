//! The order of the crate's modules: what may use what.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the crate, from the bottom up: those of a row use only those of the rows below it. Above all is
/// `lib.rs`, so no module names an item through the root of the crate (`crate::Context`).
const LAYERS: &[&[&str]] = &[
    &[
        "deprecated",
        "error",
        "icon",
        "json_schema",
        "message_content",
        "params",
        "rate",
        "redact",
        "replay_cache",
        "tasks",
    ],
    &["progress", "round"],
    &["logging"],
    &["peer"],
    &["context"],
    &["ask", "service"],
    &["exchange"],
    // The router of a server knows no transport, and a transport of a server nothing of clients.
    &["server"],
    &["transport"],
    &["client", "serve"],
    &["prelude"],
];

/// Folders or files below `src`, and the modules that they must not use.
const RULES: &[(&str, &[&str])] = &[
    // The duplex machine serves stdio, HTTP+SSE and memory alike.
    ("transport/duplex", &["transport::http_server", "transport::memory", "transport::stdio_server"]),
    ("transport/adapter", &["transport::duplex", "transport::http_server", "transport::stdio_server"]),
    // A client is above its transports, and they know of it the interface `link` alone.
    (
        "client",
        &["transport::stdio_server", "transport::http_server", "transport::adapter", "transport::duplex"],
    ),
    ("client/error.rs", &["client"]),
    (
        "client/target",
        &["client::api", "client::calls", "client::connection", "client::inbound", "client::link"],
    ),
    (
        "client/link",
        &["client::cache", "client::calls", "client::connection", "client::inbound", "client::transport"],
    ),
    (
        "client/transport",
        &[
            "client::api",
            "client::cache",
            "client::calls",
            "client::connection",
            "client::inbound",
            "client::tasks",
        ],
    ),
    (
        "client/cache",
        &["client::api", "client::calls", "client::connection", "client::inbound", "client::tasks"],
    ),
    (
        "client/inbound",
        &["client::api", "client::calls", "client::connection", "client::tasks", "client::transport"],
    ),
    ("client/connection", &["client::api", "client::calls", "client::tasks"]),
    ("client/connection/core.rs", &["client::transport"]),
];

#[test]
fn modules_use_only_what_is_below_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut broken = Vec::new();
    for (place, forbidden) in RULES {
        let files = rust_files(&source.join(place));
        assert!(!files.is_empty(), "{place} is gone: adapt the rules");
        for file in files {
            let text = fs::read_to_string(&file).expect("a source file");
            for used in used_modules(&file, &source, code_before_tests(&text)) {
                if forbidden.iter().any(|module| starts_with_module(&used, module)) {
                    broken.push(format!(
                        "{} uses {used}",
                        file.strip_prefix(&source).expect("below").display()
                    ));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn modules_of_the_crate_form_layers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layer = |module: &str| LAYERS.iter().position(|row| row.contains(&module));
    let mut broken = Vec::new();
    for file in rust_files(&source) {
        let name = file.strip_prefix(&source).expect("below").with_extension("");
        let own = name.iter().next().and_then(|part| part.to_str()).expect("a module");
        if own == "lib" {
            continue;
        }
        let own_layer = layer(own).unwrap_or_else(|| panic!("{own} is new: give it a layer"));
        let text = fs::read_to_string(&file).expect("a source file");
        for used in used_modules(&file, &source, code_before_tests(&text)) {
            let module = used.split("::").next().unwrap_or_default();
            if module != own && layer(module).is_none_or(|used_layer| used_layer >= own_layer) {
                broken.push(format!("{} uses crate::{used}", name.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Files of modules at `path`, without those of tests.
fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if name == "tests" || name == "tests.rs" {
            continue;
        }
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn code_before_tests(text: &str) -> &str {
    text.find("\nmod tests {").map_or(text, |at| &text[..at])
}

/// Modules that a file names, from the root of the crate: `client::link`. Paths that begin with `super` count in `use`
/// declarations only.
fn used_modules(file: &Path, source: &Path, text: &str) -> Vec<String> {
    let below = file.strip_prefix(source).expect("a file of the crate").with_extension("");
    let mut own: Vec<&str> = below.iter().filter_map(|part| part.to_str()).collect();
    if own.last() == Some(&"mod") {
        own.pop();
    }
    let mut used = Vec::new();
    for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        for (at, root) in line.match_indices("crate::") {
            let path = &line[at + root.len()..];
            let end = path.find(|c: char| c != ':' && c != '_' && !c.is_alphanumeric());
            used.push(path[..end.unwrap_or(path.len())].trim_end_matches(':').to_owned());
        }
        let Some((_, path)) = line.split_once("use ") else { continue };
        let path = path.split(['{', ';']).next().unwrap_or_default().trim_end_matches("::");
        if path.starts_with("super::") {
            let (mut module, mut rest) = (own.clone(), path);
            while let Some(after) = rest.strip_prefix("super::") {
                module.pop();
                rest = after;
            }
            module.push(rest);
            used.push(module.join("::"));
        }
    }
    used
}

fn starts_with_module(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
