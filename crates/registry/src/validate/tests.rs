//! The rules, as a table: what is changed in a valid `server.json`, and which rules that violates.

use serde_json::{Value, json};

use super::{MAX_VIOLATIONS, validate};

/// An entry that fits all rules.
fn valid() -> Value {
    json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.owner/server", "description": "A server", "title": "Server", "version": "1.0.0",
        "websiteUrl": "https://example.com/", "repository": {
            "url": "https://github.com/owner/server", "source": "github", "id": "1", "subfolder": "src/server"
        },
        "icons": [{ "src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark" }],
        "packages": [{
            "registryType": "npm", "identifier": "@owner/server", "version": "1.0.0", "runtimeHint": "npx",
            "registryBaseUrl": "https://registry.npmjs.org", "transport": { "type": "stdio" },
            "runtimeArguments": [{ "type": "named", "name": "--silent" }],
            "packageArguments": [
                { "type": "positional", "valueHint": "folder", "isRepeated": true, "format": "filepath" },
                { "type": "named", "name": "--port", "default": "8080", "format": "number" }
            ],
            "environmentVariables": [{ "name": "KEY", "isSecret": true, "isRequired": true, "choices": ["a", "b"] }]
        }],
        "remotes": [{
            "type": "streamable-http", "url": "https://{host}/mcp", "variables": { "host": { "default": "a.example" } },
            "headers": [{ "name": "X-Key", "value": "Bearer {key}", "variables": { "key": { "isSecret": true } } }]
        }],
        "_meta": { "io.modelcontextprotocol.registry/publisher-provided": { "tool": "x" } }
    })
}

/// Sets the value at a JSON pointer, or removes it.
fn change(pointer: &str, value: Option<Value>) -> Value {
    let mut entry = valid();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = entry.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(members), Some(value)) => drop(members.insert(key.replace("~1", "/"), value)),
        (Value::Object(members), None) => drop(members.remove(key)),
        (Value::Array(items), Some(value)) => items.push(value),
        _ => panic!("{pointer}"),
    }
    entry
}

fn rules(entry: &Value) -> Vec<String> {
    validate(entry).into_iter().map(|violation| format!("{} {}", violation.path, violation.rule)).collect()
}

#[test]
fn the_entries_of_the_registry_for_tests_are_valid() {
    assert_eq!(validate(&valid()), []);
    // Entries that are listed and cannot be published.
    let bad = ["org.toolworks/unhashed", "io.github.tern/scalar-values"];
    for entry in hospes_registry_testkit::entries() {
        let name = entry["name"].as_str().unwrap();
        assert_eq!(validate(&entry).is_empty(), !bad.contains(&name), "{name}: {:?}", validate(&entry));
    }
}

/// Valid values: pointer, value, reason.
#[test]
fn what_is_allowed() {
    let schema_2025 = "https://static.modelcontextprotocol.io/schemas/2025-10-17/server.schema.json";
    for (pointer, value, reason) in [
        ("/name", json!("ab/cd"), "two characters on each side"),
        ("/name", json!("io.github.Owner-1/My_Server.2"), "upper case, digits and signs"),
        ("/$schema", json!(schema_2025), "an earlier date"),
        ("/$schema", json!(schema_2025.replace("2025-10-17", "2031-01-01")), "a date after this version"),
        ("/description", json!("é".repeat(100)), "characters count, not bytes"),
        ("/title", json!("x"), "one character"),
        ("/version", json!("2025.11.25"), "a date"),
        ("/version", json!("1.0.0-beta.1+build"), "a semantic version with all parts"),
        ("/version", json!("v1.2"), "a prefix"),
        ("/version", json!("xyz"), "any word"),
        ("/version", json!(""), "the schema gives no minimum"),
        ("/repository/url", json!("https://www.github.com/owner/server/"), "www and a slash at the end"),
        ("/repository/url", json!("http://github.com/o/s.git"), "http, and a name with a dot"),
        ("/repository", json!({ "url": "https://gitlab.com/a/b/c", "source": "gitlab" }), "groups of GitLab"),
        ("/repository/subfolder", json!(""), "an empty folder counts as none"),
        ("/unknown", json!({ "any": 1 }), "unknown fields are allowed"),
        ("/packages/0/registryType", json!("maven"), "any kind is allowed"),
        ("/packages/0/unknown", json!([]), "unknown fields of packages are allowed"),
        (
            "/packages/0/transport",
            json!({ "type": "sse", "url": "http://localhost:{--port}/{folder}" }),
            "declared names",
        ),
        (
            "/packages/0/transport",
            json!({ "type": "streamable-http", "url": "http://{KEY}:1/" }),
            "a variable",
        ),
        ("/packages/0/packageArguments/-", json!({ "type": "positional", "value": "x" }), "a fixed value"),
        ("/packages/0/fileSha256", json!("ab".repeat(32)), "a hash of any package"),
        ("/remotes/0/url", json!("https://a.example:{host}/x"), "a variable as the port"),
        ("/icons", json!([]), "no icons"),
        ("/packages/0/packageArguments/1/value", json!("-p"), "another beginning than the name"),
    ] {
        assert_eq!(validate(&change(pointer, Some(value))), [], "{reason}");
    }
}

/// Fields that are removed: pointer, violated rules.
#[test]
fn what_is_required() {
    for (pointer, expected) in [
        ("/name", "name required"),
        ("/description", "description required"),
        ("/version", "version required"),
        ("/$schema", "$schema required"),
        ("/repository/url", "repository.url required"),
        ("/repository/source", "repository.source required"),
        ("/icons/0/src", "icons[0].src required"),
        ("/packages/0/registryType", "packages[0].registryType required"),
        ("/packages/0/identifier", "packages[0].identifier required"),
        ("/packages/0/transport", "packages[0].transport required"),
        ("/packages/0/transport/type", "packages[0].transport.type required"),
        ("/packages/0/packageArguments/0/type", "packages[0].packageArguments[0].type required"),
        ("/packages/0/packageArguments/0/valueHint", "packages[0].packageArguments[0] positional-value"),
        ("/packages/0/packageArguments/1/name", "packages[0].packageArguments[1].name required"),
        ("/packages/0/environmentVariables/0/name", "packages[0].environmentVariables[0].name required"),
        ("/remotes/0/type", "remotes[0].type required"),
        ("/remotes/0/url", "remotes[0].url required"),
        ("/remotes/0/headers/0/name", "remotes[0].headers[0].name required"),
        ("/remotes/0/variables", "remotes[0].url url-variable"),
    ] {
        assert_eq!(rules(&change(pointer, None)), [expected], "{pointer}");
    }
}

/// Invalid values: pointer, value, violated rules.
#[test]
fn what_is_not_allowed() {
    for (pointer, value, expected) in [
        ("/name", json!("kbag"), "name name-slash"),
        ("/name", json!("a.b/c/d"), "name name-slash"),
        ("/name", json!(".ab/server"), "name name-namespace"),
        ("/name", json!("io_github/server"), "name name-namespace"),
        ("/name", json!("a/server"), "name name-namespace"),
        ("/name", json!("io.github.x/-server"), "name name-last-part"),
        ("/name", json!("io.github.x/server_"), "name name-last-part"),
        ("/name", json!("io.github.x/ser ver"), "name name-last-part"),
        ("/name", json!("io.github.x/sérver"), "name name-last-part"),
        ("/name", json!(format!("aa/{}", "b".repeat(198))), "name length"),
        ("/name", json!(1), "name type"),
        ("/$schema", json!("https://example.com/schema.json"), "$schema schema-url"),
        (
            "/$schema",
            json!("https://static.modelcontextprotocol.io/schemas/2025-01-27/server.schema.json"),
            "$schema schema-url",
        ),
        (
            "/$schema",
            json!("https://static.modelcontextprotocol.io/schemas/draft/server.schema.json"),
            "$schema schema-url",
        ),
        ("/description", json!(""), "description length"),
        ("/description", json!("x".repeat(101)), "description length"),
        ("/description", json!(null), "description type"),
        ("/title", json!("x".repeat(101)), "title length"),
        ("/title", json!(""), "title length"),
        ("/title", json!("   "), "title title-blank"),
        ("/version", json!("latest"), "version version-latest"),
        ("/version", json!("^1.2.3"), "version version-range"),
        ("/version", json!("~1.2"), "version version-range"),
        ("/version", json!(">=1.0.0"), "version version-range"),
        ("/version", json!("<2"), "version version-range"),
        ("/version", json!("=1.0.0"), "version version-range"),
        ("/version", json!("1.x"), "version version-range"),
        ("/version", json!("1.2.*"), "version version-range"),
        ("/version", json!("1.2.3 - 2.0.0"), "version version-range"),
        ("/version", json!("1.2 || 1.3"), "version version-range"),
        ("/version", json!("1".repeat(256)), "version length"),
        ("/version", json!(1.0), "version type"),
        ("/websiteUrl", json!("http://example.com"), "websiteUrl website-https"),
        ("/websiteUrl", json!("example.com"), "websiteUrl uri"),
        ("/websiteUrl", json!("javascript:alert(1)"), "websiteUrl website-https"),
        ("/repository", json!([]), "repository type"),
        ("/repository", json!({ "url": "", "source": "" }), "repository.url repository-url"),
        ("/repository/url", json!(""), "repository.url repository-url"),
        ("/repository/url", json!("https://bitbucket.org/o/s"), "repository.url repository-url"),
        ("/repository/url", json!("https://github.com/owner"), "repository.url repository-url"),
        (
            "/repository/url",
            json!("https://github.com/owner/server/tree/main"),
            "repository.url repository-url",
        ),
        ("/repository/url", json!("git@github.com:owner/server"), "repository.url repository-url"),
        ("/repository/source", json!("gitlab"), "repository.url repository-url"),
        ("/repository/subfolder", json!("/src"), "repository.subfolder repository-subfolder"),
        ("/repository/subfolder", json!("src/../x"), "repository.subfolder repository-subfolder"),
        ("/repository/subfolder", json!("src//x"), "repository.subfolder repository-subfolder"),
        ("/repository/subfolder", json!("src/"), "repository.subfolder repository-subfolder"),
        ("/repository/subfolder", json!("a b"), "repository.subfolder repository-subfolder"),
        ("/icons", json!({}), "icons type"),
        ("/icons/0/src", json!("http://example.com/i.png"), "icons[0].src icon-https"),
        ("/icons/0/src", json!("data:image/png;base64,AA"), "icons[0].src icon-https"),
        ("/icons/0/src", json!("i.png"), "icons[0].src uri"),
        ("/icons/0/src", json!(format!("https://example.com/{}", "i".repeat(240))), "icons[0].src length"),
        ("/icons/0/mimeType", json!("image/gif"), "icons[0].mimeType enum"),
        ("/icons/0/sizes", json!(["48"]), "icons[0].sizes[0] icon-size"),
        ("/icons/0/theme", json!("blue"), "icons[0].theme enum"),
        ("/packages", json!({}), "packages type"),
        ("/packages/-", json!("x"), "packages[1] type"),
        ("/packages/0/identifier", json!("a b"), "packages[0].identifier identifier-spaces"),
        ("/packages/0/version", json!("latest"), "packages[0].version version-latest"),
        ("/packages/0/version", json!("1.x"), "packages[0].version version-range"),
        ("/packages/0/version", json!(""), "packages[0].version length"),
        ("/packages/0/registryBaseUrl", json!("npm"), "packages[0].registryBaseUrl uri"),
        ("/packages/0/fileSha256", json!("AB".repeat(32)), "packages[0].fileSha256 file-sha256"),
        ("/packages/0/fileSha256", json!("ab"), "packages[0].fileSha256 file-sha256"),
        ("/packages/0/registryType", json!("mcpb"), "packages[0].fileSha256 bundle-hash"),
        (
            "/packages/0/transport",
            json!({ "type": "stdio", "url": "http://x" }),
            "packages[0].transport.url stdio-url",
        ),
        (
            "/packages/0/transport",
            json!({ "type": "websocket" }),
            "packages[0].transport.type transport-type",
        ),
        ("/packages/0/transport", json!({ "type": "sse" }), "packages[0].transport.url required"),
        (
            "/packages/0/transport",
            json!({ "type": "sse", "url": "http://{port}" }),
            "packages[0].transport.url url-variable",
        ),
        (
            "/packages/0/transport",
            json!({ "type": "sse", "url": "/sse" }),
            "packages[0].transport.url url-form",
        ),
        (
            "/packages/0/packageArguments/-",
            json!({ "type": "flag" }),
            "packages[0].packageArguments[2].type argument-type",
        ),
        (
            "/packages/0/packageArguments/0/isRepeated",
            json!("yes"),
            "packages[0].packageArguments[0].isRepeated type",
        ),
        (
            "/packages/0/packageArguments/1/name",
            json!("--port <port>"),
            "packages[0].packageArguments[1].name argument-name",
        ),
        (
            "/packages/0/packageArguments/1/name",
            json!("--port $PORT"),
            "packages[0].packageArguments[1].name argument-name",
        ),
        (
            "/packages/0/packageArguments/1/name",
            json!(""),
            "packages[0].packageArguments[1].name argument-name",
        ),
        (
            "/packages/0/packageArguments/1/value",
            json!("--port 80"),
            "packages[0].packageArguments[1].value argument-value-name",
        ),
        (
            "/packages/0/packageArguments/1/default",
            json!("--port"),
            "packages[0].packageArguments[1].default argument-value-name",
        ),
        (
            "/packages/0/packageArguments/1/default",
            json!(8080),
            "packages[0].packageArguments[1].default type",
        ),
        (
            "/packages/0/environmentVariables/0/format",
            json!("date"),
            "packages[0].environmentVariables[0].format enum",
        ),
        (
            "/packages/0/environmentVariables/0/choices",
            json!([1]),
            "packages[0].environmentVariables[0].choices type",
        ),
        (
            "/packages/0/environmentVariables/0/isSecret",
            json!(1),
            "packages[0].environmentVariables[0].isSecret type",
        ),
        (
            "/packages/0/postInstallInstructions",
            json!([{}]),
            "packages[0].postInstallInstructions[0].description required",
        ),
        ("/remotes/0/type", json!("stdio"), "remotes[0].type remote-type"),
        ("/remotes/0/url", json!("http://mcp.example/"), "remotes[0].url remote-https"),
        ("/remotes/0/url", json!("https://localhost/"), "remotes[0].url remote-localhost"),
        ("/remotes/0/url", json!("https://x.localhost/"), "remotes[0].url remote-localhost"),
        ("/remotes/0/url", json!("https://127.0.0.1/"), "remotes[0].url remote-localhost"),
        ("/remotes/0/url", json!("https://a b/"), "remotes[0].url url-form"),
        ("/remotes/0/url", json!("https://"), "remotes[0].url url-form"),
        ("/remotes/0/url", json!("https://mcp.example/{other}"), "remotes[0].url url-variable"),
        ("/remotes/0/variables", json!({ "host": 1 }), "remotes[0].variables.host type"),
        ("/_meta", json!([]), "_meta type"),
        (
            "/_meta/io.modelcontextprotocol.registry~1publisher-provided",
            json!({ "x": "y".repeat(4096) }),
            "_meta.io.modelcontextprotocol.registry/publisher-provided publisher-meta-size",
        ),
    ] {
        let entry = change(pointer, Some(value.clone()));
        let found = rules(&entry);
        // A variable that is no object is no declaration either.
        assert!(
            found.first().is_some_and(|first| first == expected) && found.len() <= 2,
            "{pointer} {value}: {found:?}"
        );
    }
}

#[test]
fn an_entry_of_the_first_days_is_refused_with_all_reasons() {
    let entry = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "kbag", "description": "x", "version": "1.0.0",
        "packages": [{ "registryType": "mcpb", "identifier": "kbag" }]
    });
    let expected =
        ["name name-slash", "packages[0].fileSha256 bundle-hash", "packages[0].transport required"];
    assert_eq!(rules(&entry), expected);
}

#[test]
fn the_list_of_violations_is_bounded() {
    let entry = change("/packages", Some(Value::Array(vec![json!(1); 1000])));
    assert_eq!(validate(&entry).len(), MAX_VIOLATIONS);
    for broken in [json!(null), json!([]), json!("x")] {
        assert_eq!(rules(&broken), ["the entry type"]);
    }
}
