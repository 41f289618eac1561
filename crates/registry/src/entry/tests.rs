//! Tests of reading: what is kept, what is forgiven, and what is refused.

use super::*;
use serde_json::json;

fn read(value: &Value) -> Result<ServerEntry, EntryError> {
    ServerEntry::read(&value.to_string())
}

fn with(members: &Value) -> Value {
    let mut server = json!({ "name": "a.b/c", "description": "x", "version": "1.0.0" });
    server.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    server
}

#[test]
fn all_entries_survive_a_round() {
    for entry in hospes_registry_testkit::entries() {
        let read = ServerEntry::from_value(entry.clone()).unwrap();
        let again = ServerEntry::from_value(read.to_response()).unwrap();
        assert_eq!(read, again);
        // Numbers and truth values become texts.
        if entry["name"] != "io.github.tern/scalar-values" {
            assert_eq!(read.to_response()["server"], entry);
        }
    }
}

#[test]
fn unknown_fields_and_kinds_are_kept() {
    let server = with(&json!({
        "future": { "a": 1 },
        "packages": [{ "registryType": "maven", "identifier": "x", "future": true,
            "transport": { "type": "pigeon", "speed": 1 },
            "packageArguments": [{ "type": "starred", "future": 1 }],
            "environmentVariables": [{ "name": "A", "format": "colour", "future": 2 }] }]
    }));
    let entry = read(&server).unwrap();
    assert_eq!(entry.packages[0].registry_type, RegistryType::Other("maven".to_owned()));
    assert_eq!(entry.packages[0].transport.kind, TransportKind::Other("pigeon".to_owned()));
    assert_eq!(entry.to_response()["server"], server);
}

#[test]
fn what_registries_send_in_practice_is_forgiven() {
    let entry =
        read(&with(&json!({ "packages": null, "remotes": null, "icons": null, "_meta": null }))).unwrap();
    assert!(entry.packages.is_empty() && entry.remotes.is_empty());
    let entry = read(&with(&json!({ "packages": [{ "registryType": "npm", "identifier": "x" }] }))).unwrap();
    assert_eq!(entry.packages[0].transport.kind, TransportKind::Stdio);
}

#[test]
fn the_data_of_the_registry_is_read_and_may_be_absent() {
    let meta = json!({ OFFICIAL_META: {
        "status": "deprecated", "statusMessage": "use d", "publishedAt": "2025-09-16T10:00:00.5Z",
        "updatedAt": "no time", "isLatest": true, "future": 1
    } });
    let entry = read(&json!({ "server": with(&json!({})), "_meta": meta })).unwrap();
    let official = entry.official.unwrap();
    assert_eq!(official.status, EntryStatus::Deprecated);
    assert_eq!(official.status_message.as_deref(), Some("use d"));
    assert_eq!(official.published_at, Some("2025-09-16T10:00:00.5Z".parse().unwrap()));
    assert_eq!((official.updated_at, official.is_latest), (None, Some(true)));
    for bare in [json!({ "server": with(&json!({})) }), json!({ "server": with(&json!({})), "_meta": {} })] {
        let entry = read(&bare).unwrap();
        assert_eq!((entry.official.as_ref(), entry.status()), (None, EntryStatus::Active));
    }
}

#[test]
fn names_of_before_september_2025_are_refused_with_the_new_one() {
    let old = |members: Value| read(&with(&members)).unwrap_err().to_string();
    assert_eq!(
        old(json!({ "packages": [{ "registry_type": "npm", "identifier": "x" }] })),
        "packages[0].registry_type: this field was renamed on 2025-09-16; its name is `registryType`"
    );
    let variable = json!([{ "name": "A", "is_secret": true }]);
    assert_eq!(
        old(
            json!({ "packages": [{ "registryType": "npm", "identifier": "x", "environmentVariables": variable }] })
        ),
        "packages[0].environmentVariables[0].is_secret: this field was renamed on 2025-09-16; its name is `isSecret`"
    );
    assert!(old(json!({ "remotes": [{ "transport_type": "sse", "url": "https://a/" }] })).contains("`type`"));
    assert!(old(json!({ "version_detail": { "version": "1" } })).contains("its name is `version`"));
    // A variable may be called so, and so may the data of others.
    let variables =
        json!([{ "type": "sse", "url": "https://{is_secret}/", "variables": { "is_secret": {} } }]);
    assert!(read(&with(&json!({ "remotes": variables, "_meta": { "x": { "is_secret": 1 } } }))).is_ok());
}

#[test]
fn errors_name_the_field_and_show_hidden_characters() {
    let error = |members: Value| read(&with(&members)).unwrap_err().to_string();
    assert_eq!(error(json!({ "name": 1 })), "name: invalid type: integer `1`, expected a string");
    assert_eq!(
        error(json!({ "packages": [{ "registryType": "npm", "identifier": [] }] })),
        "packages[0].identifier: invalid type: sequence, expected a string"
    );
    let package = |members: Value| {
        let mut package = json!({ "registryType": "npm", "identifier": "x" });
        package.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        error(json!({ "packages": [package] }))
    };
    for (members, expected) in [
        (
            json!({ "environmentVariables": [{ "name": "A" }, { "name": "B", "isSecret": "yes" }] }),
            "packages[0].environmentVariables[1].isSecret: invalid type: string \"yes\", expected a boolean",
        ),
        (
            json!({ "packageArguments": [{ "type": "named", "name": "--x", "variables": { "y": { "default": [] } } }] }),
            "packages[0].packageArguments[0].variables.y.default: expected a text, found a list",
        ),
        (
            json!({ "runtimeArguments": [{ "type": "named", "isRepeated": 1 }] }),
            "packages[0].runtimeArguments[0].isRepeated: invalid type: integer `1`, expected a boolean",
        ),
        (
            json!({ "transport": { "type": "sse", "headers": [{ "name": "A", "choices": "a" }] } }),
            "packages[0].transport.headers[0].choices: invalid type: string \"a\", expected a sequence",
        ),
        (
            json!({ "environmentVariables": { "A": "x" } }),
            "packages[0].environmentVariables: invalid type: map, expected a sequence",
        ),
    ] {
        assert_eq!(package(members), expected);
    }
    assert!(error(json!({ "packages": "\u{1b}[31m" })).contains("\\u{1b}[31m"));
    assert_eq!(
        read(&json!({ "name": "a.b/c" })).unwrap_err().to_string(),
        "the entry: missing field `version`"
    );
    assert!(ServerEntry::read("{").unwrap_err().to_string().starts_with("it is not valid JSON"));
}

/// Registries have such entries. Only those who publish are told that it is no URL.
#[test]
fn an_empty_repository_is_read() {
    let entry = read(&with(&json!({ "repository": { "url": "", "source": "" } }))).unwrap();
    assert_eq!(entry.repository.unwrap().url, "");
}

#[test]
fn sizes_are_limited() {
    let error = |members: Value| read(&with(&members)).unwrap_err().to_string();
    assert_eq!(error(json!({ "title": "x".repeat(20_000) })), "title: more than 16384 bytes");
    assert_eq!(error(json!({ "icons": vec![json!({}); 600] })), "icons: more than 512 items");
    let many: serde_json::Map<_, _> = (0..600).map(|number| (number.to_string(), json!(1))).collect();
    assert_eq!(error(json!({ "x": many })), "x: more than 512 members");
    let nested = vec![vec![1; 500]; 100];
    assert_eq!(error(json!({ "x": nested })), "the entry: more than 20000 values");
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(MAX_ENTRY_BYTES));
    assert_eq!(ServerEntry::read(&long).unwrap_err().to_string(), "the entry: more than 524288 bytes");
    let deep = "[".repeat(100_000);
    assert!(ServerEntry::read(&deep).is_err());
}
