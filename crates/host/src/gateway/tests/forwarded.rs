//! Every method that is forwarded to a server goes by the rules and is recorded.

use hospes::ExchangeEvent;
use hospes::model::{Direction, METHODS, MessageKind};
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditOutcome, AuditQuery};

use super::tasks::{Jobs, answers_of, peer_with_tasks};
use super::*;

/// Expected handling of a method in the table.
#[derive(Debug, PartialEq)]
enum Fate {
    /// It goes to a server: with these params, as an entry of this kind.
    Forwarded(serde_json::Value, AuditEntryKind),
    /// It is about a task of this tool.
    OfTask(&'static str),
    /// It is answered here, and no server hears of it.
    Own,
}

/// A method that is not here yet has to be put here, and through the guard.
fn fate(method: &str) -> Fate {
    let reference = json!({ "type": "ref/prompt", "name": "all__greet" });
    match method {
        "tools/call" => {
            Fate::Forwarded(json!({ "name": "all__plain", "arguments": {} }), AuditEntryKind::Call)
        }
        "prompts/get" => Fate::Forwarded(
            json!({ "name": "all__greet", "arguments": { "day": "monday" } }),
            AuditEntryKind::Prompt,
        ),
        "resources/read" => Fate::Forwarded(json!({ "uri": "notes://today" }), AuditEntryKind::Resource),
        "completion/complete" => Fate::Forwarded(
            json!({ "ref": reference, "argument": { "name": "day", "value": "m" } }),
            AuditEntryKind::Completion,
        ),
        "subscriptions/listen" => Fate::Forwarded(
            json!({ "notifications": { "resourceSubscriptions": ["notes://today"] } }),
            AuditEntryKind::Subscription,
        ),
        "tasks/get" | "tasks/cancel" => Fate::OfTask("all__slow"),
        "tasks/update" => Fate::OfTask("all__asks"),
        // Of the older revisions: the adapters make `subscriptions/listen`, `tasks/get` and calls of them, or keep them.
        "resources/subscribe"
        | "resources/unsubscribe"
        | "logging/setLevel"
        | "tasks/result"
        | "tasks/list"
        | "initialize"
        | "ping" => Fate::Own,
        // Answered from what is known of all servers.
        "server/discover" | "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            Fate::Own
        }
        other => panic!("{other}: what becomes of it, and who lets it through?"),
    }
}

fn all() -> Server {
    Jobs.into_server()
        .tool("plain", || async { "done" })
        .prompt("greet", |Args(Day { day }): Args<Day>| async move { format!("Greet on {day}") })
        .complete(Completes::prompt("greet", "day"), ["monday"])
        .resource("notes://today", "sunny")
        .resource_template("notes://days/{day}", |Args(Day { day }): Args<Day>| async move { day })
        .complete(Completes::template("notes://days/{day}", "day"), ["monday"])
}

struct Place {
    host: Host,
    guard: Arc<PolicyEnforcer>,
    audit: AuditLog,
    seen: Seen,
    _folder: tempfile::TempDir,
}

fn read(rules: &str) -> Policy {
    Policy::read(rules, &PolicyEnvironment::default()).unwrap()
}

const ALLOWED: &str = "[[rule]]\ndecide = 'allow'";
const DENIED: &str = "[[rule]]\ndecide = 'deny'\nreason = 'not today'";

impl Place {
    async fn new(up: Revision, rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::open(folder.path().join("db"), folder.path().join("key")).unwrap();
        let guard = Arc::new(PolicyEnforcer::new(read(rules)).with_audit(audit.clone()));
        let seen = Seen::default();
        let host = House::default().recorded("all", up, &seen, all).guarded(&guard).start();
        let place = Self { host, guard, audit, seen, _folder: folder };
        // Once it is listed it is there.
        place.does(&Method::ToolsList, json!({})).await.unwrap();
        place
    }

    /// Sends a method and returns the gateway's answer: an error or a refusal as text, or the reply.
    async fn does(&self, method: &Method, params: serde_json::Value) -> Result<String, String> {
        let builder = Context::builder(Arc::new(peer_with_tasks(None)));
        let context = builder.task(hospes::tasks::TaskPreference::Open).build();
        let call = Call::new(method.clone(), params.into(), context);
        if *method == Method::SubscriptionsListen {
            let mut stream = hospes::Exchange::new(hospes::BoxService::new(self.host.gateway()), call);
            let first = std::future::poll_fn(|cx| stream.poll_event(cx)).await;
            let ExchangeEvent::Notify(Notification::SubscriptionsAcknowledged(told)) = first else {
                panic!("{first:?}")
            };
            let told = told.notifications;
            let honoured = [told.resource_subscriptions, told.task_ids].concat();
            return if honoured.is_empty() { Err("not today".to_owned()) } else { Ok(honoured.concat()) };
        }
        match self.host.gateway().call(call).await {
            Outcome::Complete(reply) => {
                let text = format!("{reply:?}");
                if text.contains("not called") { Err(text) } else { Ok(text) }
            }
            other => Err(format!("{other:?}")),
        }
    }

    /// A task of this tool, by the id it has here.
    async fn begun(&self, tool: &str) -> String {
        let arguments = if tool == "all__slow" { json!({ "seconds": 3600 }) } else { json!({}) };
        let params = json!({ "name": tool, "arguments": arguments });
        let made = self.does(&Method::ToolsCall, params).await.unwrap();
        let at = made.find("all__").unwrap_or_else(|| panic!("a task: {made}"));
        made[at..].split('"').next().unwrap().to_owned()
    }

    fn cancels(&self) -> usize {
        self.seen.lock().iter().filter(|one| *one == "tasks/cancel").count()
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock())
    }

    /// Everything of a kind that was recorded, the oldest first.
    async fn recorded(&self, kind: AuditEntryKind) -> Vec<AuditEntry> {
        // What was noted is written before what is recorded after it.
        self.audit.record(AuditEntry::new(AuditEntryKind::Server)).await.unwrap();
        let found = self.audit.search(AuditQuery::new().with_kind(kind)).await.unwrap();
        found.into_iter().rev().map(|one| one.entry).collect()
    }
}

pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// covers: HOST-07 HOST-08
#[tokio::test]
async fn every_method_that_goes_on_is_judged_and_recorded() {
    for up in ERAS {
        for info in METHODS {
            let is_one = info.kind == MessageKind::Request && info.direction != Direction::ToClient;
            if !is_one {
                continue;
            }
            let Fate::Forwarded(params, kind) = fate(info.name) else { continue };
            let method = Method::from(info.name);
            for (rules, word, ending) in
                [(ALLOWED, "allow", AuditOutcome::Done), (DENIED, "deny", AuditOutcome::Refused)]
            {
                let what = format!("{method}, {word}, {up}");
                let place = Place::new(up, rules).await;
                let said = place.does(&method, params.clone()).await;
                let reached = place.seen();
                if word == "allow" {
                    assert!(said.is_ok(), "{what}: {said:?}");
                    assert!(reached.iter().any(|one| one.starts_with(info.name)), "{what}: {reached:?}");
                } else {
                    assert!(said.as_ref().is_err_and(|said| said.contains("not today")), "{what}: {said:?}");
                    assert_eq!(reached, [""; 0], "{what}");
                }
                let entries = place.recorded(kind).await;
                let [entry] = &entries[..] else { panic!("{what}: {entries:?}") };
                assert_eq!(entry.decision.as_deref(), Some(word), "{what}");
                assert_eq!(entry.ending, Some(ending), "{what}");
                assert_eq!(entry.server.as_deref(), Some("all"), "{what}");
            }
        }
    }
}

/// An older application was told that it follows what it is not told of.
#[tokio::test]
async fn a_subscription_that_the_rules_deny_is_refused_in_every_revision() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        for (rules, told) in [(ALLOWED, &["notes://today"][..]), (DENIED, &[])] {
            let place = Place::new(up, rules).await;
            let client = plain(&place.host, down).await;
            let subscription = client.subscribe("notes://today").await.unwrap();
            assert_eq!(subscription.acknowledged().resource_subscriptions, told, "{up} behind {down}");
            let entries = place.recorded(AuditEntryKind::Subscription).await;
            assert!(
                !entries.is_empty()
                    && entries.iter().all(|entry| {
                        entry.ending
                            == Some(if told.is_empty() { AuditOutcome::Refused } else { AuditOutcome::Done })
                    }),
                "{entries:?}"
            );
        }
    }
}

/// Templates are completed under the rule for reading the resource. An item that needs approval each time is neither
/// completed nor followed, because these requests cannot be approved.
#[tokio::test]
async fn what_belongs_to_something_goes_by_the_rule_for_it() {
    let template = json!({
        "ref": { "type": "ref/resource", "uri": "notes://days/{day}" }, "argument": { "name": "day", "value": "m" }
    });
    let Fate::Forwarded(prompt, _) = fate("completion/complete") else { panic!() };
    let Fate::Forwarded(follow, _) = fate("subscriptions/listen") else { panic!() };
    for decide in ["deny", "ask"] {
        let of =
            |about: &str| format!("[[rule]]\ndecide = '{decide}'\nabout = '{about}'\nreason = 'not today'");
        for (rules, method, params, kind) in [
            (of("prompt"), Method::Complete, &prompt, AuditEntryKind::Completion),
            (of("resource"), Method::Complete, &template, AuditEntryKind::Completion),
            (of("resource"), Method::SubscriptionsListen, &follow, AuditEntryKind::Subscription),
        ] {
            let place = Place::new(Revision::LATEST, &rules).await;
            let _attendance = place.guard.approvals().register_viewer(None);
            let said = place.does(&method, params.clone()).await;
            assert!(said.is_err(), "{rules}: {said:?}");
            assert_eq!(place.seen(), [""; 0], "{rules}");
            assert!(place.guard.approvals().pending().is_empty(), "{rules}");
            let entries = place.recorded(kind).await;
            let endings: Vec<_> = entries.iter().map(|entry| entry.ending).collect();
            assert_eq!(endings, [Some(AuditOutcome::Refused)], "{rules} {method}: {said:?}");
            // And for another kind of thing it says nothing.
            place.guard.replace_policy(read(&of("tool")));
            assert!(place.does(&method, params.clone()).await.is_ok(), "{rules}");
            assert_eq!(place.seen().len(), 1);
        }
    }
}

/// A task whose call is denied meanwhile ends at its server, and its progress is no longer reported.
#[tokio::test]
async fn a_task_goes_by_the_rules_for_the_call_that_began_it() {
    for up in ERAS {
        let denied = format!("[[rule]]\ndecide = 'deny'\ntool = ['slow', 'asks']\n{ALLOWED}");
        for info in METHODS.iter().filter(|info| info.direction != Direction::ToClient) {
            let method = Method::from(info.name);
            if info.kind != MessageKind::Request || (up.is_legacy() && method == Method::TasksUpdate) {
                continue;
            }
            let Fate::OfTask(tool) = fate(info.name) else { continue };
            let what = format!("{method}, {up}");
            let place = Place::new(up, ALLOWED).await;
            let id = place.begun(tool).await;
            let mut params = json!({ "taskId": id });
            if method == Method::TasksUpdate {
                params["inputResponses"] = answers_of("a");
            }
            place.seen();
            // The control: it goes.
            if method != Method::TasksCancel {
                place.does(&method, params.clone()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(place.seen(), [info.name], "{what}");
            }
            place.guard.replace_policy(read(&denied));
            let said = place.does(&method, params.clone()).await;
            let entries = place.recorded(AuditEntryKind::Task).await;
            let entry = entries.last().unwrap_or_else(|| panic!("{what}"));
            let (subject, ending) = (entry.subject.as_deref(), entry.ending);
            assert_eq!(subject, Some(tool.trim_start_matches("all__")), "{what}");
            if method == Method::TasksCancel {
                assert!(said.is_ok() && ending == Some(AuditOutcome::Done), "{what}: {said:?}");
                assert_eq!(place.cancels(), 1, "{what}");
                continue;
            }
            assert!(said.as_ref().is_err_and(|said| said.contains("was stopped")), "{what}: {said:?}");
            assert_eq!(ending, Some(AuditOutcome::Refused), "{what}");
            until("ended", || place.cancels() > 0).await;
            // Once, and then nothing more.
            for _ in 0..3 {
                assert!(place.does(&method, params.clone()).await.is_err(), "{what}");
            }
            assert_eq!(place.cancels(), 1, "{what}");
            let reached = place.seen();
            // What a cancelled task came to an older server is asked, before and after.
            assert!(up.is_legacy() || reached == ["tasks/cancel"], "{what}: {reached:?}");
            // Nor is it followed.
            let follow = json!({ "notifications": { "taskIds": [id] } });
            assert!(place.does(&Method::SubscriptionsListen, follow).await.is_err(), "{what}");
            assert!(place.seen().iter().all(|one| !one.starts_with("subscriptions")), "{what}");
        }
    }
}

/// Requests of a task go by the same rules as requests during a call, and so do the answers it would receive.
#[tokio::test]
async fn a_task_may_ask_only_what_its_server_may() {
    let place = Place::new(Revision::LATEST, ALLOWED).await;
    let (one, other) = (place.begun("all__asks").await, place.begun("all__asks").await);
    let rules = format!("[[rule]]\ndecide = 'deny'\nabout = 'elicitation'\n{ALLOWED}");
    place.guard.replace_policy(read(&rules));
    place.seen();
    let mut said = Ok(String::new());
    for _ in 0..100 {
        // It may not have come to its question yet.
        said = place.does(&Method::TasksGet, json!({ "taskId": one })).await;
        if said.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let said = said.unwrap_err();
    assert!(said.contains("requested an answer from you"), "{said}");
    until("ended", || place.cancels() > 0).await;
    place.seen();
    let answers = json!({ "taskId": other, "inputResponses": answers_of("a") });
    let said = place.does(&Method::TasksUpdate, answers).await.unwrap_err();
    assert!(said.contains("requested an answer from you"), "{said}");
    until("ended", || place.cancels() > 0).await;
    assert_eq!(place.seen(), ["tasks/cancel"]);
}

/// If calls are judged, a task that was not begun by a call here is unknown; its id may be guessed.
#[tokio::test]
async fn a_task_that_nobody_was_let_begin_is_none() {
    let place = Place::new(Revision::LATEST, ALLOWED).await;
    for method in [Method::TasksGet, Method::TasksCancel] {
        let said = place.does(&method, json!({ "taskId": "all__guessed" })).await.unwrap_err();
        assert!(said.contains("unknown or expired task"), "{said}");
    }
    assert_eq!(place.seen(), [""; 0]);
}

/// Changes of a followed resource are no longer reported once the rules deny it.
#[tokio::test]
async fn changes_are_told_as_long_as_the_rules_let_them() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (up, down)) in super::guarded::pairs().enumerate() {
        let at = |name: &str| folder.path().join(format!("{index}.{name}"));
        let audit = AuditLog::open(at("db"), at("key")).unwrap();
        let guard = Arc::new(PolicyEnforcer::new(read(ALLOWED)).with_audit(audit.clone()));
        let server = all();
        let handle = server.handle();
        let host = House::default().with("all", up, move || server.clone()).guarded(&guard).start();
        let client = plain(&host, down).await;
        client.tools().all().await.unwrap();
        let filter = SubscriptionFilter::new()
            .with_tools_list_changed(true)
            .with_resource_subscriptions(vec!["notes://today".to_owned()]);
        let mut stream = client.listen(filter).await.unwrap();
        handle.resource_updated("notes://today");
        let told = stream.next().await;
        assert!(matches!(told, Some(Notification::ResourceUpdated(_))), "{up} behind {down}: {told:?}");
        guard.replace_policy(read(DENIED));
        handle.resource_updated("notes://today");
        handle.add_tool("more", || async { "more" }).unwrap();
        let told = stream.next().await;
        assert!(matches!(told, Some(Notification::ToolsListChanged)), "{up} behind {down}: {told:?}");
    }
}

/// The application sees the host's name and the host's tool names, not those of the server.
#[tokio::test]
async fn results_name_the_host_and_argument_errors_the_tool_as_it_was_called() {
    for (up, down) in ERAS.into_iter().flat_map(|up| ERAS.map(|down| (up, down))) {
        let host = House::default()
            .with("one", up, || {
                Server::new("somebody", "7").tool("add", |Args(numbers): Args<Vec2>| async move {
                    (numbers.x + numbers.y).to_string()
                })
            })
            .start();
        let client = plain(&host, down).await;
        let result = client.call("one__add", json!({ "x": 1, "y": 2 })).await.unwrap();
        let named =
            result.meta.get(hospes::model::meta_key::SERVER_INFO).map(|info| info.to_value().unwrap());
        let named = named.map(|info| info["name"].clone());
        let expected = (!down.is_legacy()).then(|| json!("hospes"));
        assert_eq!((result.all_text().as_str(), named), ("3", expected), "{up} behind {down}");

        let result = client.call("one__add", json!({ "x": "one" })).await.unwrap();
        let said = result.all_text();
        assert!(
            result.has_failed() && said.starts_with("invalid arguments for one__add:"),
            "{up}, {down}: {said}"
        );
    }
}

#[derive(serde::Deserialize, JsonSchema)]
#[schemars(crate = "hospes::schemars")]
struct Vec2 {
    x: i64,
    y: i64,
}

/// A type with a schema that its values do not fit.
#[derive(serde::Serialize)]
struct Other {
    b: u32,
}

impl JsonSchema for Other {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Other".into()
    }

    fn json_schema(_: &mut hospes::schemars::SchemaGenerator) -> hospes::schemars::Schema {
        hospes::schemars::json_schema!({ "type": "object", "required": ["a"] })
    }
}

/// The status names the server of a result that breaks its schema. The application receives the result unchanged.
///
/// covers: TOOL-33
#[tokio::test]
async fn a_structured_result_that_breaks_its_schema_is_noticed() {
    for up in ERAS {
        let host = House::default()
            .with("one", up, || {
                Server::new("one", "1")
                    .tool("broken", || async { Json(Other { b: 1 }) })
                    .tool("fine", || async { "text" })
            })
            .start();
        let client = Client::builder().check_outputs(false).in_memory(host.gateway()).await.unwrap();
        client.call("one__fine", json!({})).await.unwrap();
        assert_eq!(host.status().servers[0].warnings, [""; 0], "{up}");
        for _ in 0..2 {
            let result = client.call("one__broken", json!({})).await.unwrap();
            assert_eq!(result.structured_content.unwrap().as_str(), r#"{"b":1}"#, "{up}");
        }
        let warnings = host.status().servers[0].warnings.clone();
        assert!(
            warnings.len() == 1 && warnings[0].contains("`broken`") && warnings[0].contains("outputSchema"),
            "{up}: {warnings:?}"
        );
    }
}
