//! Extensions behind the gateway: what both sides declare, methods that only they know, and URIs that may not change their
//! scheme.

use hospes::PendingInput;
use hospes::model::{ClientCapabilities, InputRequest, RawJson, Reply, RpcError, code};
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditOutcome, AuditQuery};
use serde_json::Value;

use super::*;

const APP: &str = "ui://get-time/mcp-app.html";
const UI: &str = "io.modelcontextprotocol/ui";
const SKILL: &str = "skill://refunds/SKILL.md";

/// A program with two running instances. Its tool has a document of its own, and it has methods of extensions.
struct Clock {
    inner: hospes::BoxService,
    name: &'static str,
    /// The streams of changes that were opened.
    streams: Mutex<Vec<Context>>,
    /// The names and params of the notifications that came, with the name of this server.
    heard: Heard,
}

type Heard = Arc<Mutex<Vec<(&'static str, String, Value)>>>;

impl Service for Clock {
    async fn call(&self, call: Call) -> Outcome {
        let said = match call.method.name() {
            "tools/call"
                if call
                    .params
                    .view()
                    .arguments
                    .as_ref()
                    .is_some_and(|given| given.as_str().contains("ask")) =>
            {
                let round = call.context.round();
                match round.answers.get("q").cloned() {
                    Some(answer) => json!({ "content": [{ "type": "text", "text": answer.as_str() }] }),
                    None => {
                        let params = RawJson::from(json!({ "at": self.name }));
                        let request = InputRequest::Other { method: "acme/ask".to_owned(), params };
                        return Outcome::InputRequired(PendingInput::new(
                            vec![("q".to_owned(), request)],
                            round,
                        ));
                    }
                }
            }
            "tools/call" => json!({
                "content": [
                    { "type": "resource_link", "uri": APP, "name": "app" },
                    { "type": "text", "text": APP },
                    { "type": "resource", "resource": { "uri": APP, "text": "<p>" } },
                ],
                "_meta": { "ui": { "resourceUri": APP }, "ui/resourceUri": APP },
            }),
            "subscriptions/listen" => {
                self.streams.lock().push(call.context.clone());
                return self.inner.call(call).await;
            }
            "acme/tick" => {
                let method = Method::from_name("notifications/acme/ticked");
                let params = Some(RawJson::from(json!({ "at": self.name })));
                for stream in self.streams.lock().iter() {
                    stream.notify(Notification::Other { method: method.clone(), params: params.clone() });
                }
                json!({})
            }
            "skills/list" if self.name == "broken" => {
                return Outcome::Failed(RpcError::internal("out of order"));
            }
            // Three entries on two pages, and a cursor that comes again and again.
            "skills/list" => {
                let skill = |name: &str| {
                    let uri = format!("skill://{name}/SKILL.md");
                    json!({ "uri": uri, "frontmatter": { "name": name }, "resources": [{ "uri": uri, "size": 1 }] })
                };
                let params = call.params.raw().to_value().unwrap_or_default();
                let skills = match params["cursor"].as_str() {
                    None => vec![skill("refunds")],
                    Some("more") => vec![skill("audits"), skill(self.name)],
                    Some(_) => return Outcome::Failed(RpcError::invalid_params("unknown cursor")),
                };
                let mut listed = json!({ "skills": skills, "ttlMs": 1000, "cacheScope": "public" });
                if params["cursor"].is_null() || self.name == "b" {
                    listed["nextCursor"] = "more".into();
                }
                listed
            }
            "skills/get" => json!({ "skill": { "uri": SKILL, "resources": [{ "uri": SKILL, "size": 1 }] } }),
            "acme/where" => {
                let params = call.params.raw().to_value().unwrap_or_default();
                let without: serde_json::Map<String, Value> = params
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| *key != "_meta")
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                let mut declared = call.context.peer().capabilities.extensions.clone();
                // That is no extension before 2026-07-28, and asked for by the host itself.
                declared.remove("io.modelcontextprotocol/tasks");
                let declared = serde_json::to_value(declared).unwrap();
                json!({ "at": self.name, "params": without, "declared": declared })
            }
            _ => return self.inner.call(call).await,
        };
        Outcome::Complete(Reply::raw(Revision::LATEST, RawJson::from(said)))
    }

    async fn notified(&self, notification: Notification, _: Context) {
        let Notification::Other { method, params } = notification else { panic!("{notification:?}") };
        let mut params = params.map(|params| params.to_value().unwrap()).unwrap_or_default();
        if let Some(params) = params.as_object_mut() {
            params.remove("_meta");
        }
        self.heard.lock().push((self.name, method.name().to_owned(), params));
    }
}

fn clock(name: &'static str, extensions: &[(&str, Value)]) -> Make {
    hearing_clock(name, extensions, &Heard::default())
}

/// A clock that notes the notifications it gets.
fn hearing_clock(name: &'static str, extensions: &[(&str, Value)], heard: &Heard) -> Make {
    let heard = Arc::clone(heard);
    let extensions: Vec<(String, Value)> = extensions
        .iter()
        .map(|(identifier, settings)| ((*identifier).to_owned(), settings.clone()))
        .collect();
    Arc::new(move || {
        let meta = json!({ "ui": { "resourceUri": APP, "visibility": ["model"] }, "ui/resourceUri": APP });
        let tool = hospes::server::Tool::new("get-time").meta(serde_json::from_value(meta).unwrap());
        let server = Server::new(name, "1").tool(tool, || async { "now" }).resource(APP, name);
        let server = extensions
            .iter()
            .fold(server, |server, (identifier, settings)| server.extension(identifier, settings.clone()));
        Ok(hospes::BoxService::new(Clock {
            inner: hospes::BoxService::new(server),
            name,
            streams: Mutex::default(),
            heard: Arc::clone(&heard),
        }))
    })
}

fn two(up: Revision, a: &[(&str, Value)], b: &[(&str, Value)]) -> House {
    House::default().made_by("a", up, Duration::ZERO, clock("a", a)).made_by(
        "b",
        up,
        Duration::ZERO,
        clock("b", b),
    )
}

async fn with_extensions(gateway: crate::Gateway, down: Revision, extensions: Value) -> Client {
    let capabilities: ClientCapabilities =
        serde_json::from_value(json!({ "extensions": extensions })).unwrap();
    Client::builder().revision(down).capabilities(capabilities).in_memory(gateway).await.unwrap()
}

async fn ask(client: &Client, method: &str, params: Value) -> Result<Value, hospes::model::RpcError> {
    match client.raw(method, &RawJson::from(params)).await {
        Ok(result) => Ok(result.to_value().unwrap()),
        Err(CallError::Rpc(error)) => Err(error),
        Err(error) => panic!("{method}: {error}"),
    }
}

fn eras() -> impl Iterator<Item = (Revision, Revision)> {
    ERAS.into_iter().flat_map(|up| ERAS.map(|down| (up, down)))
}

/// Extension rows EXT-22, EXT-25 and APPS-70 of the ledger of extensions.
#[tokio::test]
async fn two_instances_of_one_app_do_not_take_each_others_place() {
    for (up, down) in eras() {
        let host = two(up, &[], &[]).start();
        let client = plain(&host, down).await;
        let tools = client.tools().all().await.unwrap();
        let named: Vec<Value> = tools.iter().map(|tool| serde_json::to_value(&tool.meta).unwrap()).collect();
        let listed: Vec<String> =
            client.resources().all().await.unwrap().into_iter().map(|resource| resource.uri).collect();
        for (at, name) in ["a", "b"].into_iter().enumerate() {
            let shown = format!("ui://{name}/get-time/mcp-app.html");
            let what = format!("{name}, {up} behind {down}");
            let want =
                json!({ "ui": { "resourceUri": shown, "visibility": ["model"] }, "ui/resourceUri": shown });
            assert_eq!(named[at], want, "{what}");
            assert!(listed.contains(&shown), "{what}: {listed:?}");
            let read = client.read(&shown).await.unwrap();
            assert_eq!(
                (read.contents[0].uri.as_str(), read.contents[0].as_text()),
                (&*shown, Some(name)),
                "{what}"
            );

            let result = client.call(&format!("{name}__get-time"), ()).await.unwrap();
            let result = serde_json::to_value(&result).unwrap();
            assert_eq!(result["content"][0]["uri"], *shown, "{what}");
            assert_eq!(result["content"][1]["text"], APP, "{what}: text is nobody's to change");
            assert_eq!(result["content"][2]["resource"]["uri"], *shown, "{what}");
            assert_eq!(result["_meta"]["ui"]["resourceUri"], *shown, "{what}");
            assert_eq!(result["_meta"]["ui/resourceUri"], *shown, "{what}");
        }
        assert!(!listed.iter().any(|uri| uri.contains("hospes://a") || uri == APP), "{listed:?}");
        let refused = client.read(APP).await.unwrap_err().to_string();
        assert!(refused.contains("ui://a/get-time/") && refused.contains("ui://b/get-time/"), "{refused}");
    }
}

/// Extension rows EXT-02, EXT-16 to EXT-19.
#[tokio::test]
async fn what_either_side_declares_reaches_the_other() {
    let (only, both) = ("acme.example/only", "acme.example/both");
    for (up, down) in eras() {
        let a = [(only, json!({ "x": { "y": 1 } })), (both, json!({ "same": [1], "other": 1 }))];
        let b = [(both, json!({ "same": [1], "other": 2, "more": true }))];
        let host = two(up, &a, &b).start();
        let mine = json!({ UI: { "mimeTypes": ["text/html;profile=mcp-app"] }, "acme.example/x": {} });
        let client = with_extensions(host.gateway(), down, mine.clone()).await;
        let what = format!("{up} behind {down}");
        let mut told = client.capabilities().unwrap().extensions.clone();
        told.remove("io.modelcontextprotocol/tasks");
        let told = serde_json::to_value(told).unwrap();
        assert_eq!(told, json!({ only: { "x": { "y": 1 } }, both: { "same": [1] } }), "{what}");
        let heard = ask(&client, "acme/where", json!({ "name": "b__x" })).await.unwrap();
        assert_eq!(heard["declared"], mine, "{what}");

        // Another application, which has none, is not taken for the first.
        let plain = plain(&host, down).await;
        let heard = ask(&plain, "acme/where", json!({ "name": "b__x" })).await.unwrap();
        assert_eq!(heard["declared"], json!({}), "{what}");
    }
}

/// Extension row EXT-16: an application of an older revision hears of extensions once, perhaps before a server is there.
#[tokio::test]
async fn the_extensions_of_a_server_that_is_still_starting_are_those_it_had() {
    let acme = "acme.example/acme";
    let folder = tempfile::tempdir().unwrap();
    for (delay, expected) in [(Duration::MAX, None), (Duration::ZERO, Some(())), (Duration::MAX, Some(()))] {
        let house = House::default().made_by("a", Revision::LATEST, delay, clock("a", &[(acme, json!({}))]));
        let house = House { memory: Some(folder.path().join("memory.json")), ..house };
        let wait = if delay.is_zero() { Duration::from_secs(30) } else { Duration::ZERO };
        let host = house.settings(|settings| settings.greeting_wait = wait).start();
        let client = plain(&host, Revision::LATEST_LEGACY).await;
        let told = client.capabilities().unwrap().extensions.get(acme).map(|_| ());
        assert_eq!(told, expected, "a server that starts after {delay:?}");
        host.stop().await;
    }
}

/// Extension rows EXT-10, EXT-22, EXT-23 and EXT-25.
#[tokio::test]
async fn a_method_of_an_extension_reaches_the_one_server_that_is_meant() {
    let skills = [("io.modelcontextprotocol/skills", json!({}))];
    for (up, down) in eras() {
        let what = format!("{up} behind {down}");
        let none = two(up, &[], &[]).start();
        let client = plain(&none, down).await;
        let refused = ask(&client, "acme/where", json!({ "x": 1 })).await.unwrap_err();
        assert_eq!(refused.code, code::METHOD_NOT_FOUND, "{what}: {refused}");

        let host = two(up, &skills, &[("acme.example/acme", json!({}))]).start();
        let client = plain(&host, down).await;
        for (params, at, own) in [
            (
                json!({ "uri": "ui://A/get-time/x", "n": 1.5 }),
                "a",
                json!({ "uri": "ui://get-time/x", "n": 1.5 }),
            ),
            (
                json!({ "ref": { "type": "t", "uri": "ui://b/x" } }),
                "b",
                json!({ "ref": { "type": "t", "uri": "ui://x" } }),
            ),
            (json!({ "name": "a__get-time" }), "a", json!({ "name": "get-time" })),
            (json!({ "name": "a__else" }), "a", json!({ "name": "else" })),
            // Nothing names a server, and one has the extension.
            (json!({ "deep": { "uri": "ui://a/x" } }), "b", json!({ "deep": { "uri": "ui://a/x" } })),
        ] {
            let heard = ask(&client, "acme/where", params.clone()).await.unwrap();
            assert_eq!((heard["at"].as_str(), &heard["params"]), (Some(at), &own), "{what}: {params}");
        }
        let got = ask(&client, "skills/get", json!({ "uri": "skill://a/refunds/SKILL.md" })).await.unwrap();
        let shown = "skill://a/refunds/SKILL.md";
        assert_eq!(got["skill"]["uri"], shown, "{what}");
        assert_eq!(got["skill"]["resources"][0], json!({ "uri": shown, "size": 1 }), "{what}");

        let host = two(up, &skills, &skills).start();
        let client = plain(&host, down).await;
        let refused = ask(&client, "skills/find", json!({})).await.unwrap_err();
        assert_eq!(refused.code, code::INVALID_PARAMS, "{what}: {refused}");
        let data = refused.data.unwrap().to_value().unwrap();
        assert_eq!(data, json!({ "servers": ["a", "b"] }), "{what}");
    }
}

/// Extension row EXT-24: a server that fails, or whose cursor never ends, hides nothing of the others.
#[tokio::test]
async fn the_lists_of_an_extension_are_one_list_in_pages_of_the_host() {
    let skills = [("io.modelcontextprotocol/skills", json!({}))];
    for (up, down) in eras() {
        let what = format!("{up} behind {down}");
        let house = two(up, &skills, &skills).made_by("broken", up, Duration::ZERO, clock("broken", &skills));
        let house = house.made_by("other", up, Duration::ZERO, clock("other", &[]));
        let host = house.settings(|settings| settings.page_size = 4).start();
        let client = plain(&host, down).await;
        let (mut seen, mut cursor) = (Vec::new(), Value::Null);
        for size in [4, 2] {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let page = ask(&client, "skills/list", params).await.unwrap();
            let listed = page["skills"].as_array().unwrap().clone();
            assert_eq!(listed.len(), size, "{what}: {page}");
            seen.extend(listed);
            cursor = page["nextCursor"].clone();
        }
        assert!(cursor.is_null(), "{what}");
        let uris: Vec<&str> = seen.iter().map(|skill| skill["uri"].as_str().unwrap()).collect();
        let expected = [
            "skill://a/a/SKILL.md",
            "skill://a/audits/SKILL.md",
            "skill://a/refunds/SKILL.md",
            "skill://b/audits/SKILL.md",
            "skill://b/b/SKILL.md",
            "skill://b/refunds/SKILL.md",
        ];
        assert_eq!(uris, expected, "{what}");
        assert_eq!(seen[0]["resources"][0]["uri"], seen[0]["uri"], "{what}");
        let refused = ask(&client, "skills/list", json!({ "cursor": "theirs" })).await.unwrap_err();
        assert_eq!(refused.code, code::INVALID_PARAMS, "{what}");
    }
}

/// Extension row EXT-28: what a server of an older revision tells without being asked reaches those who share an extension
/// with it.
#[tokio::test]
async fn notifications_of_extensions_reach_the_applications_that_share_one() {
    let (older, acme) = (Revision::LATEST_LEGACY, "acme.example/acme");
    let host = two(older, &[(acme, json!({}))], &[]).start();
    let connect = |extensions: Value| {
        let (heard, hears) = mpsc::unbounded_channel();
        let capabilities = serde_json::from_value(json!({ "extensions": extensions })).unwrap();
        let builder = Client::builder().revision(older).capabilities(capabilities);
        let builder = builder.on_notification(move |notification| drop(heard.send(notification)));
        let gateway = host.gateway();
        async move { (builder.in_memory(gateway).await.unwrap(), hears) }
    };
    let (sharing, mut hears) = connect(json!({ acme: {} })).await;
    let (other, mut hears_nothing) = connect(json!({ "acme.example/other": {} })).await;
    // The stream of changes is opened once a session stands; a notification before that reaches nobody.
    let told = async {
        loop {
            for (client, name) in [(&sharing, "a__x"), (&other, "a__x"), (&sharing, "b__x")] {
                ask(client, "acme/tick", json!({ "name": name })).await.unwrap();
            }
            if let Ok(Some(told)) = tokio::time::timeout(Duration::from_millis(50), hears.recv()).await {
                return told;
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(30), told).await.unwrap();
    let Notification::Other { method, params } = told else { panic!("{told:?}") };
    assert_eq!(method.name(), "notifications/acme/ticked");
    assert_eq!(params.unwrap().to_value().unwrap()["at"], "a");
    ask(&sharing, "acme/tick", json!({ "name": "b__x" })).await.unwrap();
    while let Ok(told) = hears.try_recv() {
        let Notification::Other { params, .. } = told else { panic!("{told:?}") };
        assert_eq!(params.unwrap().to_value().unwrap()["at"], "a", "the other server declares no extension");
    }
    other.ping().await.unwrap();
    assert!(hears_nothing.try_recv().is_err(), "it declares no extension that the server has");
}

/// Extension row EXT-30: to the server that a label names, else to all that share an extension with the application; in the
/// order in which they were sent.
#[tokio::test]
async fn notifications_of_an_application_reach_the_servers_that_they_are_for() {
    let acme = "acme.example/acme";
    for (up, down) in eras() {
        let what = format!("{up} behind {down}");
        let heard = Heard::default();
        let house = House::default()
            .made_by("a", up, Duration::ZERO, hearing_clock("a", &[(acme, json!({}))], &heard))
            .made_by("b", up, Duration::ZERO, hearing_clock("b", &[(acme, json!({}))], &heard))
            .made_by(
                "c",
                up,
                Duration::ZERO,
                hearing_clock("c", &[("acme.example/other", json!({}))], &heard),
            );
        let host = house.start();
        let sharing = with_extensions(host.gateway(), down, json!({ acme: {} })).await;
        let plain = plain(&host, down).await;
        for (client, params) in [
            (&sharing, json!({ "name": "c__get-time" })),
            (&sharing, json!({ "n": 1 })),
            (&sharing, json!({ "uri": "ui://b/get-time/x" })),
            (&plain, json!({ "n": 2 })),
            (&plain, json!({ "name": "a__get-time" })),
        ] {
            client.notify("notifications/acme/did", &RawJson::from(params)).await.unwrap();
        }
        let of = |name: &str| -> Vec<Value> {
            let heard = heard.lock();
            heard.iter().filter(|(at, ..)| *at == name).map(|(.., params)| params.clone()).collect()
        };
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        while heard.lock().len() < 5 {
            assert!(tokio::time::Instant::now() < until, "{what}: {:?}", heard.lock());
            tokio::task::yield_now().await;
            for client in [&sharing, &plain] {
                client.ping().await.unwrap();
            }
        }
        let (a, mut b, c) = (of("a"), of("b"), of("c"));
        assert!(
            a.contains(&json!({ "n": 1 })) && a.contains(&json!({ "name": "get-time" })),
            "{what}: {a:?}"
        );
        b.sort_by_key(|params| params.get("n").is_none());
        assert_eq!(b, [json!({ "n": 1 }), json!({ "uri": "ui://get-time/x" })], "{what}");
        assert_eq!(c, [json!({ "name": "get-time" })], "{what}");
        assert!(heard.lock().iter().all(|(_, method, _)| method == "notifications/acme/did"));
        let refused = sharing.notify("notifications/cancelled", &RawJson::empty_object()).await;
        assert!(refused.is_err(), "what the specification defines is not sent as an extension's");
    }
}

/// Extension rows EXT-26 and EXT-30: nobody can be asked about a notification, so it goes where a rule lets it pass.
#[tokio::test]
async fn notifications_of_an_application_go_by_the_rules_and_are_recorded() {
    let allow = "[[rule]]\ndecide = 'allow'\ntool = 'method:notifications/acme/*'\n";
    for (rules, ending) in [(allow, AuditOutcome::Done), ("", AuditOutcome::Refused)] {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::open(folder.path().join("db"), folder.path().join("key")).unwrap();
        let guard = PolicyEnforcer::new(Policy::read(rules, &PolicyEnvironment::default()).unwrap())
            .with_audit(audit.clone());
        let heard = Heard::default();
        let made = hearing_clock("a", &[], &heard);
        let host =
            House::default().made_by("a", Revision::LATEST, Duration::ZERO, made).guarded(&Arc::new(guard));
        let host = host.start();
        let client = plain(&host, Revision::LATEST).await;
        client.notify("notifications/acme/did", &RawJson::from(json!({ "name": "a__x" }))).await.unwrap();
        let search = || audit.search(AuditQuery::new().with_kind(AuditEntryKind::Call));
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        let found = loop {
            client.ping().await.unwrap();
            let found = search().await.unwrap();
            if !found.is_empty() {
                break found;
            }
            assert!(tokio::time::Instant::now() < until, "{rules}: nothing was recorded");
        };
        let entry = &found[0].entry;
        assert_eq!(entry.ending, Some(ending), "{rules}");
        assert_eq!(entry.subject.as_deref(), Some("method:notifications/acme/did"));
        assert_eq!(heard.lock().len(), usize::from(ending == AuditOutcome::Done), "{rules}");
    }
}

/// Extension row EXT-31: what a server asks by a method of an extension, its application answers if both declare one.
#[tokio::test]
async fn requests_of_an_extension_reach_the_application_that_shares_it() {
    let acme = "acme.example/acme";
    for (up, down) in eras() {
        let what = format!("{up} behind {down}");
        let host = two(up, &[(acme, json!({}))], &[]).start();
        let connect = |extensions: Value| {
            let capabilities = serde_json::from_value(json!({ "extensions": extensions })).unwrap();
            let builder = Client::builder().revision(down).capabilities(capabilities);
            let builder = builder.on_extension_request(|method, params| async move {
                Ok(RawJson::from(json!({ "method": method, "got": params.to_value().unwrap() })))
            });
            let gateway = host.gateway();
            async move { builder.in_memory(gateway).await.unwrap() }
        };
        let sharing = connect(json!({ acme: {} })).await;
        let said = sharing.call("a__get-time", json!({ "ask": 1 })).await.unwrap().all_text();
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{what}: {said}"));
        assert_eq!(said, json!({ "method": "acme/ask", "got": { "at": "a" } }), "{what}");
        // The other server declares none, another application another one, a third none at all.
        let other = connect(json!({ "acme.example/other": {} })).await;
        let none = plain(&host, down).await;
        for (client, server) in [(&sharing, "b"), (&other, "a"), (&none, "a")] {
            let refused = match client.call(&format!("{server}__get-time"), json!({ "ask": 1 })).await {
                Ok(result) => result.all_text(),
                Err(error) => error.to_string(),
            };
            assert!(refused.contains("acme/ask") && !refused.contains("got"), "{what}, {server}: {refused}");
        }
    }
}

/// Extension row EXT-26.
#[tokio::test]
async fn a_method_of_an_extension_goes_by_the_rules_and_is_recorded() {
    let allow = "[[rule]]\ndecide = 'allow'\ntool = 'method:acme/*'\narguments.n = 1\n";
    let deny = "[[rule]]\ndecide = 'deny'\ntool = 'method:**'\nreason = 'not today'\n";
    // A rule for tools of that name is no rule for it.
    let tools = "[[rule]]\ndecide = 'allow'\ntool = 'acme/where'\n";
    for (rules, n, ending) in [
        (allow.to_owned(), 1, AuditOutcome::Done),
        (format!("{allow}{deny}"), 2, AuditOutcome::Refused),
        (format!("{tools}{deny}"), 1, AuditOutcome::Refused),
        (tools.to_owned(), 1, AuditOutcome::Refused),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::open(folder.path().join("db"), folder.path().join("key")).unwrap();
        let policy = Policy::read(&rules, &PolicyEnvironment::default()).unwrap();
        let guard = Arc::new(PolicyEnforcer::new(policy).with_audit(audit.clone()));
        let host = two(Revision::LATEST, &[], &[]).guarded(&guard).start();
        let client = plain(&host, Revision::LATEST).await;
        let said = ask(&client, "acme/where", json!({ "name": "b__x", "n": n })).await;
        assert_eq!(said.is_ok(), ending == AuditOutcome::Done, "{rules}: {said:?}");
        audit.record(AuditEntry::new(AuditEntryKind::Server)).await.unwrap();
        let found = audit.search(AuditQuery::new().with_kind(AuditEntryKind::Call)).await.unwrap();
        let entries: Vec<_> = found.iter().map(|one| &one.entry).collect();
        let [entry] = entries[..] else { panic!("{rules}: {entries:?}") };
        assert_eq!(entry.ending, Some(ending), "{rules}");
        assert_eq!(
            (entry.server.as_deref(), entry.subject.as_deref()),
            (Some("b"), Some("method:acme/where"))
        );
    }
}

/// The names and URIs of one server alone are its own, and nothing of another is seen or reached.
#[tokio::test]
async fn an_endpoint_of_one_server_shows_that_servers_own_names() {
    for (up, down) in eras() {
        let what = format!("{up} behind {down}");
        let host = two(up, &[(UI, json!({ "a": 1 }))], &[(UI, json!({ "b": 1 }))]).start();
        assert!(host.gateway_of("c").is_none());
        let gateway = host.gateway_of("b").unwrap();
        let client = Client::builder().revision(down).in_memory(gateway).await.unwrap();
        let tools = client.tools().all().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["get-time"], "{what}");
        assert_eq!(serde_json::to_value(&tools[0].meta).unwrap()["ui"]["resourceUri"], APP, "{what}");
        let listed: Vec<String> =
            client.resources().all().await.unwrap().into_iter().map(|resource| resource.uri).collect();
        assert_eq!(listed, [APP], "{what}");
        assert_eq!(client.read(APP).await.unwrap().contents[0].as_text(), Some("b"), "{what}");
        let result = client.call("get-time", ()).await.unwrap();
        assert_eq!(serde_json::to_value(&result).unwrap()["content"][0]["uri"], APP, "{what}");
        let told = &client.capabilities().unwrap().extensions[UI];
        assert_eq!(told.to_value().unwrap(), json!({ "b": 1 }), "{what}");
        let heard = ask(&client, "acme/where", json!({ "uri": "ui://a/x", "name": "a__x" })).await.unwrap();
        assert_eq!(heard["at"], "b", "{what}");
        assert_eq!(heard["params"], json!({ "uri": "ui://a/x", "name": "a__x" }), "{what}");

        for foreign in ["a__get-time", "b__get-time"] {
            assert!(client.call(foreign, ()).await.is_err(), "{what}: {foreign}");
        }
        for foreign in ["ui://a/get-time/mcp-app.html", "hospes://status", "hospes://a/x"] {
            assert!(client.read(foreign).await.is_err(), "{what}: {foreign}");
        }
    }
}
