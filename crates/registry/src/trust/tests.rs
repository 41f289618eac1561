//! Tests of the signs.

use super::*;
use serde_json::{Value, json};

const OFFICIAL_HOST: &str = "registry.modelcontextprotocol.io";

fn now() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

fn entry(server: &Value, meta: &Value) -> ServerEntry {
    let mut whole = json!({ "name": "com.example/x", "description": "x", "version": "1.0.0" });
    whole.as_object_mut().unwrap().extend(server.as_object().unwrap().clone());
    let meta = json!({ "io.modelcontextprotocol.registry/official": meta });
    ServerEntry::from_value(json!({ "server": whole, "_meta": meta })).unwrap()
}

fn old() -> Value {
    json!({ "status": "active", "publishedAt": "2025-01-01T00:00:00Z" })
}

fn warnings(entry: &ServerEntry, known: &[&'static str]) -> Vec<TrustSign> {
    let mut context = TrustContext::new(OFFICIAL_HOST, now());
    context.known_names = known.to_vec();
    trust_signs(entry, &context).into_iter().filter(TrustSign::is_warning).collect()
}

#[test]
fn the_namespace_says_what_was_proved() {
    assert_eq!(publisher("io.github.Owner/x"), EntryPublisher::GitHubAccount("Owner".to_owned()));
    assert_eq!(publisher("com.example.mail/x"), EntryPublisher::DomainOwner("mail.example.com".to_owned()));
    assert_eq!(publisher("local/x"), EntryPublisher::Unknown);
    let entry = entry(&json!({ "name": "io.github.owner/x" }), &old());
    let proved = EntryPublisher::GitHubAccount("owner".to_owned());
    let signs = trust_signs(&entry, &TrustContext::new(OFFICIAL_HOST, now()));
    assert_eq!(signs, [TrustSign::NamespaceProved(proved.clone()), TrustSign::NotAudited]);
    let elsewhere = trust_signs(&entry, &TrustContext::new("registry.example", now()));
    assert_eq!(elsewhere[0], TrustSign::NamespaceClaimed(proved));
}

#[test]
fn young_and_deprecated_entries_are_conspicuous() {
    let young = entry(&json!({}), &json!({ "publishedAt": "2026-05-20T00:00:00Z" }));
    assert_eq!(warnings(&young, &[]), [TrustSign::Young { days: 12 }]);
    let just_old = entry(&json!({}), &json!({ "publishedAt": "2026-05-02T00:00:00Z" }));
    assert_eq!(warnings(&just_old, &[]), []);
    let deprecated = entry(
        &json!({}),
        &json!({ "status": "deprecated", "statusMessage": "use y", "publishedAt": "2025-01-01T00:00:00Z" }),
    );
    assert_eq!(warnings(&deprecated, &[]), [TrustSign::Deprecated(Some("use y".to_owned()))]);
    let unknown = entry(&json!({}), &json!({}));
    assert!(trust_signs(&unknown, &TrustContext::new(OFFICIAL_HOST, now())).contains(&TrustSign::AgeUnknown));
}

#[test]
fn names_that_resemble_others_are_conspicuous() {
    let named =
        |name: &str, known: &[&'static str]| warnings(&entry(&json!({ "name": name }), &old()), known);
    let resembles = |other: &str, distance, is_yours| {
        vec![TrustSign::ResemblesName { other: other.to_owned(), distance, is_yours }]
    };
    assert_eq!(named("com.example/playwrigth", &[]), resembles("playwright", 1, false));
    assert_eq!(named("com.example/githup", &[]), resembles("github", 1, false));
    assert_eq!(named("com.example/playwright", &[]), [], "many servers have the same word in their names");
    assert_eq!(named("com.example/gitea", &[]), []);
    assert_eq!(named("com.example/tables", &["org.tables/tables"]), resembles("org.tables/tables", 0, true));
    assert_eq!(
        named("com.examp1e/tablez", &["com.example/tablez"]),
        resembles("com.example/tablez", 0, true)
    );
    assert_eq!(named("com.example/tables", &["com.example/tables"]), [], "the same server");
    assert_eq!(named("com.example/x", &["com.example/y"]), resembles("com.example/y", 1, true));
}

#[test]
fn remotes_elsewhere_are_conspicuous() {
    let remote = |url: &str| {
        let remotes = json!([{ "type": "streamable-http", "url": url }]);
        warnings(&entry(&json!({ "remotes": remotes }), &old()), &[])
    };
    assert_eq!(remote("https://example.com/mcp"), []);
    assert_eq!(remote("https://mcp.example.com/mcp"), []);
    assert_eq!(remote("https://{tenant}.example.com/mcp"), []);
    let foreign = |host: &str| {
        vec![TrustSign::ForeignRemoteHost { host: host.to_owned(), domain: Some("example.com".to_owned()) }]
    };
    assert_eq!(remote("https://evil.example/mcp"), foreign("evil.example"));
    assert_eq!(remote("https://notexample.com/mcp"), foreign("notexample.com"));
    assert_eq!(remote("https://example.com.evil.example/"), foreign("example.com.evil.example"));
    let variable = |url: &str| vec![TrustSign::VariableRemoteHost(url.to_owned())];
    assert_eq!(remote("https://{host}/mcp"), variable("https://{host}/mcp"));
    assert_eq!(remote("https://mcp.{domain}:8443/mcp"), variable("https://mcp.{domain}:8443/mcp"));
}

#[test]
fn hidden_characters_are_found_everywhere() {
    let hidden = entry(
        &json!({
            "description": "safe\u{202e}evil",
            "packages": [{ "registryType": "npm", "identifier": "x", "environmentVariables": [
                { "name": "A", "description": "a\u{200b}b\u{200b}" }
            ] }],
            "unknown": { "key": "\u{e0041}" }
        }),
        &old(),
    );
    let found = warnings(&hidden, &[]);
    let sign =
        |path: &str, character| TrustSign::HiddenText { path: path.to_owned(), characters: vec![character] };
    assert!(found.contains(&sign("description", '\u{202e}')), "{found:?}");
    assert!(
        found.contains(&sign("packages[0].environmentVariables[0].description", '\u{200b}')),
        "{found:?}"
    );
    assert!(found.contains(&sign("unknown.key", '\u{e0041}')), "{found:?}");
}

#[test]
fn changes_of_owner_and_repository_are_conspicuous() {
    let of = |name: &str, url: &str, id: &str| {
        let repository = json!({ "url": url, "source": "github", "id": id });
        entry(&json!({ "name": name, "repository": repository }), &old())
    };
    let previous = of("io.github.one/x", "https://github.com/one/x", "1");
    let signs = |entry: &ServerEntry| {
        let mut context = TrustContext::new(OFFICIAL_HOST, now());
        context.previous = Some(&previous);
        trust_signs(entry, &context).into_iter().filter(TrustSign::is_warning).collect::<Vec<_>>()
    };
    assert_eq!(signs(&of("io.github.one/x", "https://github.com/one/x", "1")), []);
    let from = "https://github.com/one/x".to_owned();
    assert_eq!(
        signs(&of("io.github.one/x", "https://github.com/one/x", "2")),
        [TrustSign::RepositoryChanged { from: from.clone() }],
        "a repository that was deleted and made again"
    );
    assert_eq!(
        signs(&of("io.github.two/x", "https://github.com/two/x", "2")),
        [TrustSign::OwnerChanged { from: "io.github.one".to_owned() }, TrustSign::RepositoryChanged { from }]
    );
    let other = of("io.github.one/x", "https://github.com/someone/x", "1");
    let repository = "https://github.com/someone/x".to_owned();
    assert_eq!(
        warnings(&other, &[]),
        [TrustSign::RepositoryOfOther { account: "one".to_owned(), repository }]
    );
}
