//! Tools that the person calls, and the first page.

use hospes::{Call, Context, Outcome, Peer, Service as _};
use hospes_host::PERSON_APPLICATION;
use hospes_model::{ClientCapabilities, Implementation, Method, RawJson, Revision};
use hospes_store::{AuditOutcome, AuditQuery};

use super::*;

const WRITE: &str = "/api/servers/notes/call";

fn write(confirmed: bool) -> Value {
    json!({ "tool": "write", "arguments": { "path": "a", "text": "12345" }, "confirmed": confirmed })
}

/// The last line of an answer in chunks, as JSON.
fn last_line(answer: &Answer) -> Value {
    let line =
        answer.body.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{answer:?}"));
    serde_json::from_str(line).unwrap()
}

#[tokio::test]
async fn a_person_calls_a_tool_under_their_own_name() {
    let house = House::with(SessionLifetimes::default(), "[[rule]]\ndecide = 'allow'").await;
    house.ready().await;
    let browser = house.browser().await;
    let answer = browser.post(WRITE, write(true)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
    let done = last_line(&answer);
    assert_eq!(done["result"]["content"][0]["text"], "5 bytes are in a", "{done}");
    assert_eq!((&done["event"], &done["isError"]), (&json!("done"), &json!(false)));
    assert!(done["bytes"].as_u64() > Some(20) && done["micros"].is_u64(), "{done}");
    let recorded = house.audit.search(AuditQuery::new().with_server("notes").with_limit(1)).await.unwrap();
    let application = recorded[0].entry.application.clone().unwrap();
    assert!(
        application.starts_with(PERSON_APPLICATION) && application.contains("browser session"),
        "{application}"
    );

    // The first page counts it.
    let home = browser.get("/api/home").await.json();
    assert_eq!(home["edges"][0]["application"], PERSON_APPLICATION, "{home}");
    assert_eq!(home["edges"][0]["calls"], 1);
}

#[tokio::test]
async fn what_may_destroy_something_has_to_be_confirmed_and_wrong_requests_are_told() {
    let house = House::new().await;
    house.ready().await;
    let browser = house.browser().await;
    assert_eq!(browser.post(WRITE, write(false)).await.code(), "unconfirmed");
    let unknown = browser.post(WRITE, json!({ "tool": "wrte", "confirmed": true })).await;
    let failed = last_line(&unknown);
    assert!(failed["message"].as_str().unwrap().contains("did you mean write?"), "{failed}");
    let list = browser.post(WRITE, json!({ "tool": "write", "arguments": [], "confirmed": true })).await;
    assert_eq!(list.code(), "misread");
    assert_eq!(browser.post("/api/servers/nobody/call", write(true)).await.code(), "nothing");
    // Without the key of a page it is nobody's call.
    let stranger = Browser { key: "x".to_owned(), ..browser };
    assert_eq!(stranger.post(WRITE, write(true)).await.status, 401);
    let recorded = house.audit.search(AuditQuery::new().with_server("notes")).await.unwrap();
    assert!(recorded.iter().all(|one| one.entry.subject.as_deref() != Some("write")), "{recorded:?}");
}

#[tokio::test]
async fn rules_ask_the_person_too_and_a_request_that_ends_takes_the_call_with_it() {
    let house = House::with(SessionLifetimes::default(), "[[rule]]\ndecide = 'ask'\ntool = 'write'").await;
    house.ready().await;
    let browser = house.browser().await;
    let queue = house.host.guard().unwrap().approvals().clone();
    // Subscribed before each look, so that no change is missed.
    let asked = async |is_wanted: bool| {
        let mut changes = queue.subscribe();
        while queue.pending().is_empty() == is_wanted {
            changes.changed().await.unwrap();
        }
        queue.pending().pop()
    };
    let calling = tokio::spawn({
        let browser = browser.clone();
        async move { browser.post(WRITE, write(true)).await }
    });
    let approval = asked(true).await.unwrap();
    assert_eq!(approval.application.as_deref(), Some(PERSON_APPLICATION));
    browser.post(&format!("/api/approvals/{}", approval.id), json!({ "decision": "allow" })).await;
    let answer = calling.await.unwrap();
    // Whether it says before that it waits depends on how fast the decision is.
    assert_eq!(last_line(&answer)["event"], "done");

    // The second one is given up.
    let calling = tokio::spawn({
        let browser = browser.clone();
        async move { browser.post(WRITE, write(true)).await }
    });
    asked(true).await;
    calling.abort();
    asked(false).await;
    house.audit.flush().await.unwrap();
    let ended = house.audit.search(AuditQuery::new().with_server("notes").with_limit(10)).await.unwrap();
    let is_cancelled = |one: &hospes_store::RecordedEntry| one.entry.ending == Some(AuditOutcome::Cancelled);
    assert!(ended.iter().any(is_cancelled), "{ended:?}");
}

#[tokio::test]
async fn no_application_has_the_name_of_the_person() {
    let house = House::new().await;
    house.ready().await;
    for name in [PERSON_APPLICATION, "You - in the CONSOLE"] {
        let info = Implementation::new(name, "1");
        let peer = Peer::new(Revision::LATEST, Some(info), ClientCapabilities::new());
        let call = Call::new(Method::ToolsList, RawJson::empty_object(), Context::new(Arc::new(peer)));
        let Outcome::Failed(error) = house.host.gateway().call(call).await else { panic!("{name}") };
        assert!(error.message.contains("is the name of the person"), "{error:?}");
    }
}
