//! Manifests that are accepted and refused, and the reference tool's opinion of them.

use hospes_bundle::manifest::{ManifestVersion, OptionKind};
use hospes_bundle::{BundleManifest, ManifestError};
use serde_json::{Value, json};

use crate::reference::Reference;

/// Versions that accept a case.
#[derive(Clone, Copy, Debug)]
enum Accepted {
    Always,
    Never,
    From(&'static str),
}

use Accepted::{Always, From, Never};

/// A manifest of the version, complete but for optional keys.
fn base(version: &str) -> Value {
    json!({
        "manifest_version": version,
        "name": "demo",
        "version": "1.0.0",
        "description": "A demo",
        "author": { "name": "Ada" },
        "server": {
            "type": "node",
            "entry_point": "server.js",
            "mcp_config": { "command": "node", "args": ["${__dirname}/server.js"], "env": {} }
        }
    })
}

/// Cases: the reason, a path in the manifest, the value that is put there (or nothing: the key is removed), and the
/// versions that accept it.
fn cases() -> Vec<(&'static str, &'static str, Option<Value>, Accepted)> {
    let option = |more: Value| {
        let mut option = json!({ "type": "string", "title": "T", "description": "D" });
        option.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Some(json!({ "key": option }))
    };
    let set = |value: Value| Some(value);
    let deep = json!({ "x": { "y": [1, null, { "z": true }] } });
    vec![
        ("the least that is needed", "/$schema", set(json!("any text")), Always),
        ("a schema is a text", "/$schema", set(json!(1)), Never),
        ("name is required", "/name", None, Never),
        ("name may be empty", "/name", set(json!("")), Always),
        ("name is a text", "/name", set(json!(5)), Never),
        ("version is required", "/version", None, Never),
        ("version has any form", "/version", set(json!("latest and greatest")), Always),
        ("version is a text", "/version", set(json!(1.0)), Never),
        ("description is required", "/description", None, Never),
        ("null is no text", "/description", set(Value::Null), Never),
        ("null is not absent", "/display_name", set(Value::Null), Never),
        ("display name", "/display_name", set(json!("Demo")), Always),
        ("long description", "/long_description", set(json!("# Demo")), Always),
        ("an unknown key", "/id", set(json!("org.example.demo")), Never),
        ("an unknown key with a newline", "/a\nb", set(json!(1)), Never),
        ("author is required", "/author", None, Never),
        ("author is an object", "/author", set(json!("Ada")), Never),
        ("author is no array", "/author", set(json!([])), Never),
        ("the author's name is required", "/author/name", None, Never),
        ("an author's unknown key", "/author/twitter", set(json!("x")), Never),
        ("an address", "/author/email", set(json!("ada.l+x@mail.example.org")), Always),
        ("an address without a domain", "/author/email", set(json!("ada")), Never),
        ("an address without a dot", "/author/email", set(json!("ada@localhost")), Never),
        ("an address with two dots", "/author/email", set(json!("a..b@example.org")), Never),
        ("an address that begins with a dot", "/author/email", set(json!(".a@example.org")), Never),
        ("an address with a short ending", "/author/email", set(json!("a@example.o")), Never),
        ("an address with letters of the world", "/author/email", set(json!("ä@example.org")), Never),
        ("an address with a quote", "/author/email", set(json!("o'neil@example.org")), Always),
        ("an address in brackets", "/author/email", set(json!("<a@example.org>")), Never),
        ("an author's URL", "/author/url", set(json!("https://example.org/ada")), Always),
        ("no URL", "/author/url", set(json!("example.org/ada")), Never),
        ("a URL of another scheme", "/homepage", set(json!("mailto:ada@example.org")), Always),
        ("a URL with spaces around", "/homepage", set(json!("  https://example.org ")), Always),
        ("a URL without a host", "/homepage", set(json!("https://")), Never),
        ("a URL with a bad port", "/homepage", set(json!("https://example.org:99999/")), Never),
        ("a URL with a space in its host", "/homepage", set(json!("https://exa mple.org/")), Never),
        ("an empty URL", "/documentation", set(json!("")), Never),
        ("documentation", "/documentation", set(json!("https://example.org/docs")), Always),
        ("support", "/support", set(json!("https://example.org/issues")), Always),
        ("support is a URL", "/support", set(json!("ask us")), Never),
        (
            "a repository",
            "/repository",
            set(json!({ "type": "git", "url": "https://example.org/x.git" })),
            Always,
        ),
        (
            "a repository in scp form",
            "/repository",
            set(json!({ "type": "git", "url": "git@example.org:x" })),
            Never,
        ),
        ("a repository without a type", "/repository", set(json!({ "url": "https://example.org/x" })), Never),
        ("a repository as a text", "/repository", set(json!("https://example.org/x")), Never),
        ("screenshots", "/screenshots", set(json!(["a.png", "b.png"])), Always),
        ("screenshots are texts", "/screenshots", set(json!(["a.png", 1])), Never),
        ("screenshots are an array", "/screenshots", set(json!("a.png")), Never),
        ("keywords", "/keywords", set(json!([])), Always),
        ("keywords are texts", "/keywords", set(json!([null])), Never),
        ("license", "/license", set(json!("MIT")), Always),
        ("server is required", "/server", None, Never),
        ("the server's type is required", "/server/type", None, Never),
        ("a server of Python", "/server/type", set(json!("python")), Always),
        ("a server that is a program", "/server/type", set(json!("binary")), Always),
        ("a server of uv", "/server/type", set(json!("uv")), From("0.4")),
        ("a server of deno", "/server/type", set(json!("deno")), Never),
        ("types are in lower case", "/server/type", set(json!("Node")), Never),
        ("an entry point is required", "/server/entry_point", None, Never),
        ("a command is required", "/server/mcp_config", None, Never),
        ("a server's unknown key", "/server/transport", set(json!("stdio")), Never),
        ("a program is required", "/server/mcp_config/command", None, Never),
        ("arguments are not required", "/server/mcp_config/args", None, Always),
        ("arguments are texts", "/server/mcp_config/args", set(json!(["--port", 80])), Never),
        ("arguments are an array", "/server/mcp_config/args", set(json!("--port 80")), Never),
        ("variables are texts", "/server/mcp_config/env", set(json!({ "PORT": 80 })), Never),
        ("variables are an object", "/server/mcp_config/env", set(json!(["PORT=80"])), Never),
        ("any variable", "/server/mcp_config/env", set(json!({ "": "", "a b": "${x}" })), Always),
        ("a working folder is unknown", "/server/mcp_config/cwd", set(json!(".")), Never),
        (
            "overrides of platforms",
            "/server/mcp_config/platform_overrides",
            set(json!({ "win32": { "command": "x" }, "darwin": { "env": {} }, "freebsd": {} })),
            Always,
        ),
        (
            "an override's unknown key",
            "/server/mcp_config/platform_overrides",
            set(json!({ "win32": { "cwd": "x" } })),
            Never,
        ),
        (
            "an override in an override",
            "/server/mcp_config/platform_overrides",
            set(json!({ "win32": { "platform_overrides": {} } })),
            Never,
        ),
        ("tools", "/tools", set(json!([{ "name": "a" }, { "name": "b", "description": "B" }])), Always),
        ("a tool without a name", "/tools", set(json!([{ "description": "B" }])), Never),
        ("a tool with a schema", "/tools", set(json!([{ "name": "a", "inputSchema": {} }])), Never),
        ("tools as names", "/tools", set(json!(["a"])), Never),
        ("generated tools", "/tools_generated", set(json!(true)), Always),
        ("generated is true or false", "/tools_generated", set(json!("true")), Never),
        ("generated prompts", "/prompts_generated", set(json!(1)), Never),
        ("prompts", "/prompts", set(json!([{ "name": "p", "text": "T", "arguments": ["a"] }])), Always),
        ("a prompt without a text", "/prompts", set(json!([{ "name": "p" }])), Never),
        (
            "a prompt with arguments that are objects",
            "/prompts",
            set(json!([{ "name": "p", "text": "T", "arguments": [{}] }])),
            Never,
        ),
        (
            "ranges",
            "/compatibility",
            set(json!({ "claude_desktop": ">=1", "runtimes": { "node": ">=16", "python": "*" } })),
            Always,
        ),
        (
            "platforms",
            "/compatibility",
            set(json!({ "platforms": ["darwin", "win32", "linux", "linux"] })),
            Always,
        ),
        ("no platform", "/compatibility", set(json!({ "platforms": [] })), Always),
        ("an unknown platform", "/compatibility", set(json!({ "platforms": ["windows"] })), Never),
        ("another application", "/compatibility", set(json!({ "my_client": ">=1" })), Never),
        ("another runtime", "/compatibility", set(json!({ "runtimes": { "deno": ">=1" } })), Never),
        ("an option", "/user_config", option(json!({})), Always),
        (
            "options of all kinds",
            "/user_config",
            set(json!({
                "a": { "type": "number", "title": "A", "description": "", "min": -1.5, "max": 1e3, "default": 0 },
                "b": { "type": "boolean", "title": "B", "description": "", "default": false },
                "c": { "type": "directory", "title": "C", "description": "", "multiple": true, "default": ["${HOME}"] },
                "d": { "type": "file", "title": "D", "description": "", "required": true },
                "": { "type": "string", "title": "", "description": "", "sensitive": true }
            })),
            Always,
        ),
        (
            "an option without a title",
            "/user_config",
            set(json!({ "k": { "type": "string", "description": "" } })),
            Never,
        ),
        (
            "an option without a description",
            "/user_config",
            set(json!({ "k": { "type": "string", "title": "" } })),
            Never,
        ),
        ("an option of another type", "/user_config", option(json!({ "type": "integer" })), Never),
        ("an option with choices", "/user_config", option(json!({ "enum": ["a"] })), Never),
        (
            "a default that does not fit",
            "/user_config",
            option(json!({ "type": "number", "default": "ten" })),
            Always,
        ),
        ("a default of numbers", "/user_config", option(json!({ "default": [1, 2] })), Never),
        ("a default of nothing", "/user_config", option(json!({ "default": null })), Never),
        ("a default that is an object", "/user_config", option(json!({ "default": {} })), Never),
        (
            "a minimum above the maximum",
            "/user_config",
            option(json!({ "type": "number", "min": 2, "max": 1 })),
            Always,
        ),
        ("a minimum is a number", "/user_config", option(json!({ "min": "1" })), Never),
        ("required is true or false", "/user_config", option(json!({ "required": "yes" })), Never),
        ("options are an object", "/user_config", set(json!([])), Never),
        ("privacy policies", "/privacy_policies", set(json!(["https://example.org/privacy"])), From("0.2")),
        ("privacy policies are URLs", "/privacy_policies", set(json!(["see our site"])), Never),
        ("icons", "/icons", set(json!([{ "src": "a.png", "size": "16x16", "theme": "dark" }])), From("0.3")),
        ("an icon's size", "/icons", set(json!([{ "src": "a.png", "size": "16" }])), Never),
        ("an icon's size with signs", "/icons", set(json!([{ "src": "a.png", "size": "-1x1" }])), Never),
        ("an icon without a size", "/icons", set(json!([{ "src": "a.png" }])), Never),
        (
            "an icon's empty theme",
            "/icons",
            set(json!([{ "src": "a.png", "size": "1x1", "theme": "" }])),
            Never,
        ),
        (
            "translations",
            "/localization",
            set(json!({ "resources": "r/${LOCALE}.json", "default_locale": "zh-Hans" })),
            From("0.3"),
        ),
        (
            "translations without a placeholder",
            "/localization",
            set(json!({ "resources": "r.json", "default_locale": "en" })),
            Never,
        ),
        ("translations without a locale", "/localization", set(json!({ "resources": "${locale}" })), Never),
        (
            "a locale with an underscore",
            "/localization",
            set(json!({ "resources": "${locale}", "default_locale": "en_US" })),
            Never,
        ),
        (
            "a locale of one letter",
            "/localization",
            set(json!({ "resources": "${locale}", "default_locale": "e" })),
            Never,
        ),
        ("data of platforms", "/_meta", set(json!({ "com.example": deep })), From("0.3")),
        ("data of platforms that is a text", "/_meta", set(json!({ "com.example": "x" })), Never),
        ("data of platforms that is an array", "/_meta", set(json!({ "com.example": [] })), Never),
        ("the older name beside the newer", "/dxt_version", set(json!("VERSION")), Always),
        ("the older name with another version", "/dxt_version", set(json!("0.9")), Never),
        ("the older name with a number", "/dxt_version", set(json!(0.1)), Never),
        ("no version", "/manifest_version", None, Never),
        ("an unknown version", "/manifest_version", set(json!("0.5")), Never),
        ("a version that is a number", "/manifest_version", set(json!(0.3)), Never),
        ("a version with a space", "/manifest_version", set(json!("0.3 ")), Never),
    ]
}

fn change(manifest: &mut Value, path: &str, value: Option<Value>) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let members = manifest.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => drop(members.insert(key.to_owned(), value)),
        None => drop(members.remove(key).unwrap()),
    }
}

/// All cases of all versions, with the expectation.
fn all_cases() -> Vec<(String, Value, bool)> {
    let mut all = Vec::new();
    for version in ManifestVersion::ALL.map(ManifestVersion::as_str) {
        all.push((format!("{version}: the base"), base(version), true));
        let mut older = base(version);
        change(&mut older, "/manifest_version", None);
        change(&mut older, "/dxt_version", Some(json!(version)));
        all.push((format!("{version}: the older name alone"), older.clone(), true));
        change(&mut older, "/manifest_version", Some(json!(3)));
        all.push((format!("{version}: the older name, and a version that is a number"), older, false));
        for (reason, path, value, accepted) in cases() {
            let mut manifest = base(version);
            let value = value.map(|value| if value == "VERSION" { json!(version) } else { value });
            change(&mut manifest, path, value);
            let expected = match accepted {
                Always => true,
                Never => false,
                From(first) => version >= first,
            };
            all.push((format!("{version}: {reason}"), manifest, expected));
        }
    }
    for (name, value) in
        [("null", Value::Null), ("an array", json!([])), ("a text", json!("0.3")), ("nothing", json!({}))]
    {
        all.push((name.to_owned(), value, false));
    }
    all
}

#[test]
fn manifests_are_judged_as_the_table_says() {
    let all = all_cases();
    assert!(all.len() > 4 * 100);
    for (name, manifest, expected) in &all {
        let decoded = BundleManifest::decode(manifest.to_string().as_bytes());
        assert_eq!(decoded.is_ok(), *expected, "{name}: {decoded:?}");
    }
}

#[test]
fn the_reference_tool_judges_them_alike() {
    let Some(reference) = Reference::installed() else { return };
    let all = all_cases();
    let home = tempfile::tempdir().unwrap();
    let files: Vec<String> = (0..all.len())
        .map(|index| {
            let file = home.path().join(format!("{index}.json"));
            std::fs::write(&file, all[index].1.to_string()).unwrap();
            file.to_str().unwrap().to_owned()
        })
        .collect();
    // The function that `mcpb validate` runs; a process for each file would take a minute.
    let script = "print(input.map((file) => reference.validateManifest(file)));";
    let judged = reference.evaluate("node/validate.js", script, &json!(files));
    for ((name, _, expected), judged) in all.iter().zip(judged.as_array().unwrap()) {
        assert_eq!(judged, expected, "the reference tool on {name}");
    }
    for index in [0, 3, 15] {
        assert_eq!(
            reference.run(&["validate", &files[index]]).status.success(),
            all[index].2,
            "{}",
            all[index].0
        );
    }
}

/// Where we refuse what the reference tool accepts.
#[test]
fn texts_that_are_no_exact_json_are_refused() {
    let text = base("0.3").to_string();
    let strange = [
        text.replace("A demo", "\\ud800").into_bytes(),
        [text.as_bytes(), b"x"].concat(),
        [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        text.replace("demo", "\u{1}").into_bytes(),
        text.replace('"', "'").into_bytes(),
        text.into_bytes().into_iter().map(|byte| if byte == b'A' { 0xff } else { byte }).collect(),
        b"[".repeat(200_000),
    ];
    for text in strange {
        let error = BundleManifest::decode(&text).unwrap_err();
        assert!(matches!(error, ManifestError::Json { .. }), "{error}");
    }
    let error = BundleManifest::decode(&vec![b' '; 4 << 20 | 1]).unwrap_err();
    assert_eq!(error.to_string(), "the manifest has 4194305 bytes; at most 4194304 are read");
}

#[test]
fn an_issue_has_the_path_and_the_reason() {
    let mut manifest = base("0.2");
    change(&mut manifest, "/server/mcp_config/args", Some(json!(["a", 1])));
    change(&mut manifest, "/server/type", Some(json!("uv")));
    change(&mut manifest, "/user_config", Some(json!({ "a b": { "type": 1 } })));
    change(&mut manifest, "/x\u{1b}", Some(json!(1)));
    let error = BundleManifest::decode(manifest.to_string().as_bytes()).unwrap_err().to_string();
    let expected = [
        "server.type: expected one of node, python, binary, found \"uv\"",
        "server.mcp_config.args[1]: expected a text, found a number",
        "user_config[\"a b\"].type: expected a text, found a number",
        "user_config[\"a b\"].title: missing, but required",
        "user_config[\"a b\"].description: missing, but required",
        "[\"x\\u{1b}\"]: the format has no such key; remove it",
    ];
    assert_eq!(error.lines().collect::<Vec<_>>(), expected);
    let many: serde_json::Map<String, Value> =
        (0..50).map(|number| (format!("x{number}"), json!(1))).collect();
    let mut manifest = base("0.2");
    manifest.as_object_mut().unwrap().extend(many);
    let error = BundleManifest::decode(manifest.to_string().as_bytes()).unwrap_err().to_string();
    assert_eq!(error.lines().last(), Some("and 30 more"));
}

#[test]
fn options_keep_their_order() {
    let keys = ["zeta", "alpha", "m", "10", "2", "beta"];
    let mut manifest = base("0.3");
    let options: serde_json::Map<String, Value> = keys
        .iter()
        .map(|key| ((*key).to_owned(), json!({ "type": "file", "title": "", "description": "" })))
        .collect();
    change(&mut manifest, "/user_config", Some(Value::Object(options)));
    let manifest = BundleManifest::decode(manifest.to_string().as_bytes()).unwrap();
    let found: Vec<&str> = manifest.user_config.iter().map(|option| option.key.as_str()).collect();
    assert_eq!(found, keys);
    assert!(manifest.user_config.iter().all(|option| option.kind == OptionKind::File));
}

/// As the examples of the format that the strict schemas refuse.
#[test]
fn unknown_keys_and_a_missing_command_of_uv_are_accepted_loosely() {
    let mut manifest = base("0.4");
    change(&mut manifest, "/id", Some(json!("org.example")));
    change(&mut manifest, "/server/type", Some(json!("uv")));
    change(&mut manifest, "/server/mcp_config", None);
    change(&mut manifest, "/compatibility", Some(json!({ "my_client": ">=1" })));
    let text = manifest.to_string();
    assert!(BundleManifest::decode(text.as_bytes()).is_err());
    let loose = BundleManifest::decode_loose(text.as_bytes()).unwrap();
    assert_eq!(loose.unknown_keys, ["id"]);
    assert_eq!(loose.compatibility.clients, [("my_client".to_owned(), ">=1".to_owned())]);
    assert!(loose.server.mcp_config.is_none());
    change(&mut manifest, "/server/type", Some(json!("node")));
    assert!(BundleManifest::decode_loose(manifest.to_string().as_bytes()).is_err());
}

#[test]
fn lists_are_bounded() {
    for path in ["/keywords", "/tools"] {
        let element = if path == "/tools" { json!({ "name": "t" }) } else { json!("k") };
        let mut manifest = base("0.3");
        change(&mut manifest, path, Some(json!(vec![element.clone(); 10_000])));
        assert!(BundleManifest::decode(manifest.to_string().as_bytes()).is_ok());
        change(&mut manifest, path, Some(json!(vec![element; 10_001])));
        let error = BundleManifest::decode(manifest.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.ends_with("it has 10001 elements; at most 10000 are read"), "{error}");
    }
    let members: serde_json::Map<String, Value> =
        (0..10_001).map(|key| (key.to_string(), json!("x"))).collect();
    let mut manifest = base("0.3");
    change(&mut manifest, "/server/mcp_config/env", Some(Value::Object(members)));
    assert!(
        BundleManifest::decode(manifest.to_string().as_bytes()).unwrap_err().to_string().contains("10001")
    );
}
