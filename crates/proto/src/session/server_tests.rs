use std::time::Duration;

use hospes_model::{Implementation, RawJson};
use serde_json::json;

use super::*;
use crate::session::ElapsedLimit;

type Session = ServerSession<&'static str, &'static str>;

#[expect(clippy::disallowed_methods, reason = "a test needs one instant to count from")]
fn start() -> Instant {
    Instant::now()
}

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn params(version: &str, capabilities: serde_json::Value) -> InitializeParams {
    let capabilities = RawJson::from(capabilities).decode::<ClientCapabilities>().unwrap();
    InitializeParams::new(version, capabilities, Implementation::new("c", "1"))
}

fn new() -> Session {
    Session::new(RevisionSet::ALL, SessionLimits::default())
}

fn ready(version: &str, capabilities: serde_json::Value) -> Session {
    let mut session = new();
    session.initialize(params(version, capabilities)).unwrap();
    notify(&mut session, &Method::Initialized, &json!({}));
    session
}

fn notify(session: &mut Session, method: &Method, params: &serde_json::Value) -> ServerEvent<&'static str> {
    session.handle_notification(start(), method, Some(&raw(params)))
}

fn request(session: &mut Session, id: i64, method: &str) -> Result<RequestAction, i64> {
    session.handle_request(&RequestId::Number(id), &Method::from_name(method)).map_err(|error| error.code)
}

/// covers: LIFE-01 LIFE-08 PING-01
#[test]
fn only_ping_and_initialize_come_before_the_handshake() {
    let mut session = new();
    assert_eq!(request(&mut session, 1, "ping"), Ok(RequestAction::Ping));
    assert_eq!(request(&mut session, 2, "tools/list"), Err(-32600));
    assert_eq!(request(&mut session, 3, "initialize"), Ok(RequestAction::Initialize));
    assert!(matches!(notify(&mut session, &Method::Initialized, &json!({})), ServerEvent::Ignored));
    assert_eq!(
        session.check_client_request(&Method::RootsList),
        Err(ClientRequestError::NotReady(Method::RootsList))
    );
    session.initialize(params("2025-06-18", json!({"roots": {}}))).unwrap();
    assert_eq!(
        session.check_client_request(&Method::RootsList),
        Err(ClientRequestError::NotReady(Method::RootsList))
    );
    assert_eq!(session.check_client_request(&Method::Ping), Ok(()));
    assert_eq!(request(&mut session, 4, "initialize"), Err(-32600));
    assert!(session.initialize(params("2025-06-18", json!({}))).is_err());
    assert!(matches!(notify(&mut session, &Method::Initialized, &json!({})), ServerEvent::Initialized));
    assert!(matches!(notify(&mut session, &Method::Initialized, &json!({})), ServerEvent::Ignored));
    assert_eq!(session.check_client_request(&Method::RootsList), Ok(()));
    assert!(matches!(request(&mut session, 5, "tools/list"), Ok(RequestAction::Call)));
}

#[test]
fn a_client_that_asks_is_ready_even_if_its_notification_is_late() {
    let mut session = new();
    session.initialize(params("2025-06-18", json!({"roots": {}}))).unwrap();
    assert!(request(&mut session, 2, "tools/list").is_ok());
    assert_eq!(session.check_client_request(&Method::RootsList), Ok(()));
    assert!(matches!(notify(&mut session, &Method::Initialized, &json!({})), ServerEvent::Initialized));
}

/// covers: LIFE-03 VER-03 VER-04 VER-05 VER-10
#[test]
fn the_version_is_negotiated() {
    for (asked, answered) in [
        ("2024-11-05", Revision::V2024_11_05),
        ("2025-11-25", Revision::V2025_11_25),
        ("2026-07-28", Revision::V2025_11_25),
        ("tomorrow", Revision::V2025_11_25),
    ] {
        let mut session = new();
        assert_eq!(session.initialize(params(asked, json!({}))).unwrap().revision, answered);
        assert_eq!(session.initialized().unwrap().client.protocol_version, asked);
    }
    let mut modern = Session::new(RevisionSet::only(Revision::V2026_07_28), SessionLimits::default());
    let error = modern.initialize(params("2025-11-25", json!({}))).unwrap_err();
    assert!(error.data.unwrap().as_str().contains("2026-07-28"));
}

/// covers: ERR-01 MSG-20
#[test]
fn methods_of_other_revisions_and_directions_are_not_found() {
    let mut session = ready("2025-03-26", json!({}));
    for method in
        ["server/discover", "subscriptions/listen", "tasks/list", "roots/list", "notifications/progress"]
    {
        assert_eq!(request(&mut session, 1, method), Err(-32601), "{method}");
    }
    assert!(request(&mut session, 1, "acme/custom").is_ok());
    assert!(request(&mut ready("2025-11-25", json!({})), 1, "tasks/list").is_ok());
}

/// covers: CAP-01 CAP-05 LIFE-11
#[test]
fn the_client_is_asked_only_for_what_it_declared_in_a_revision_that_has_it() {
    let session = ready("2025-06-18", json!({"sampling": {}}));
    assert_eq!(session.check_client_request(&Method::CreateMessage), Ok(()));
    assert_eq!(
        session.check_client_request(&Method::RootsList),
        Err(ClientRequestError::NotDeclared(Method::RootsList))
    );
    assert_eq!(
        session.check_client_request(&Method::Elicit),
        Err(ClientRequestError::NotDeclared(Method::Elicit))
    );
    let session = ready("2025-03-26", json!({"elicitation": {}}));
    let (method, revision) = (Method::Elicit, Revision::V2025_03_26);
    assert_eq!(
        session.check_client_request(&Method::Elicit),
        Err(ClientRequestError::NotInRevision { method, revision })
    );
    let toward_server = session.check_client_request(&Method::ToolsCall);
    assert!(matches!(toward_server, Err(ClientRequestError::NotInRevision { .. })));
}

/// covers: CANC-06 CANC-12 CANC-09
#[test]
fn a_cancelled_request_is_stopped_and_not_answered() {
    let mut session = ready("2025-11-25", json!({}));
    assert_eq!(request(&mut session, 7, "tools/call"), Ok(RequestAction::Call));
    let ticket = session.begin(&RequestId::Number(7), "work").unwrap();
    assert_eq!(request(&mut session, 7, "tools/call"), Err(-32600));
    for nonsense in
        [json!({}), json!({"requestId": null}), json!({"requestId": 8}), json!({"requestId": "7"}), json!([])]
    {
        assert!(matches!(notify(&mut session, &Method::Cancelled, &nonsense), ServerEvent::Ignored));
    }
    assert!(matches!(session.handle_notification(start(), &Method::Cancelled, None), ServerEvent::Ignored));
    let event = notify(&mut session, &Method::Cancelled, &json!({"requestId": 7, "reason": "bored"}));
    let ServerEvent::Cancelled { id, stop, reason } = event else { panic!("{event:?}") };
    assert_eq!((id, stop, reason.as_deref()), (RequestId::Number(7), "work", Some("bored")));
    assert_eq!(session.finish(&RequestId::Number(7), ticket), None);
    assert!(matches!(
        notify(&mut session, &Method::Cancelled, &json!({"requestId": 7})),
        ServerEvent::Ignored
    ));
}

/// covers: TIME-02 TIME-04 PROG-08
#[test]
fn questions_to_the_client_have_time_limits_that_progress_puts_off() {
    let (t, second) = (start(), Duration::from_secs(1));
    let mut session = ready("2025-11-25", json!({"sampling": {}}));
    let limits = TimeLimits { timeout: Some(10 * second), max_timeout: Some(60 * second) };
    let id = session.begin_client_request(t, &Method::CreateMessage, limits, "waiter").unwrap();
    let progress = raw(&json!({"progressToken": id, "progress": 1}));
    let event = session.handle_notification(t + 9 * second, &Method::Progress, Some(&progress));
    assert!(matches!(event, ServerEvent::Progress { id: about, .. } if about == id));
    assert_eq!(session.waiter(id), Some(&mut "waiter"));
    assert!(session.handle_timeout(t + 18 * second).is_empty());
    let expired = session.handle_timeout(t + 19 * second);
    assert_eq!((expired[0].id, expired[0].value, expired[0].ran), (id, "waiter", ElapsedLimit::Timeout));
    assert_eq!(session.handle_response(Some(&RequestId::Number(id))), None);
    let event = session.handle_notification(t, &Method::Progress, Some(&progress));
    assert!(matches!(event, ServerEvent::Ignored));
    assert_eq!(session.stray_response_count(), 1);
}

/// covers: BATCH-01 BATCH-09
#[test]
fn batches_belong_to_the_revisions_that_have_them() {
    assert!(!new().has_batches());
    assert!(ready("2024-11-05", json!({})).has_batches());
    assert!(ready("2025-03-26", json!({})).has_batches());
    assert!(!ready("2025-06-18", json!({})).has_batches());
}

#[test]
fn subscriptions_are_a_bounded_set() {
    let limits = SessionLimits { max_subscriptions: 2, ..SessionLimits::default() };
    let mut session = Session::new(RevisionSet::ALL, limits);
    assert_eq!(session.subscribe("a:1"), Ok(true));
    assert_eq!(session.subscribe("a:1"), Ok(false));
    assert_eq!(session.subscribe("a:2"), Ok(true));
    assert!(session.subscribe("a:3").unwrap_err().message.contains("max_subscriptions"));
    assert!(session.unsubscribe("a:1") && !session.unsubscribe("a:1"));
    assert!(session.is_subscribed("a:2") && !session.is_subscribed("a:1"));
    assert_eq!(session.subscriptions().collect::<Vec<_>>(), ["a:2"]);
}

/// covers: LIFE-12
#[test]
fn the_end_of_the_transport_ends_everything() {
    let mut session = ready("2025-11-25", json!({"roots": {}}));
    let ticket = session.begin(&RequestId::Number(1), "work").unwrap();
    session.begin_client_request(start(), &Method::RootsList, TimeLimits::NONE, "waiter").unwrap();
    assert_eq!(session.close(), (vec!["work"], vec!["waiter"]));
    assert_eq!(session.finish(&RequestId::Number(1), ticket), None);
    assert_eq!(request(&mut session, 2, "ping"), Err(-32600));
    assert_eq!(session.check_client_request(&Method::Ping), Err(ClientRequestError::Closed));
    assert!(session.is_closed() && session.initialized().is_none() && session.poll_timeout().is_none());
    assert!(matches!(notify(&mut session, &Method::RootsListChanged, &json!({})), ServerEvent::Ignored));
}

#[test]
fn a_question_is_answered_or_given_up_once() {
    let limits = SessionLimits { max_open_questions: 2, ..SessionLimits::default() };
    let mut session = Session::new(RevisionSet::ALL, limits);
    session.initialize(params("2025-11-25", json!({"roots": {}}))).unwrap();
    notify(&mut session, &Method::Initialized, &json!({}));
    let now = start();
    let limits = TimeLimits { timeout: Some(Duration::from_secs(1)), max_timeout: None };
    let ask =
        |session: &mut Session, waiter| session.begin_client_request(now, &Method::RootsList, limits, waiter);
    let one = ask(&mut session, "one").unwrap();
    assert_eq!(session.poll_timeout(), Some(now + Duration::from_secs(1)));
    let two = ask(&mut session, "two").unwrap();
    assert_eq!(ask(&mut session, "three"), Err(ClientRequestError::TooMany(2)));
    assert_eq!(session.handle_response(Some(&one.into())), Some("one"));
    assert_eq!(session.handle_response(Some(&one.into())), None);
    assert_eq!(session.handle_response(Some(&"who?".into())), None);
    assert_eq!(session.handle_response(None), None);
    assert_eq!((session.cancel(two), session.cancel(two)), (Some("two"), None));
    assert_eq!(session.waiter(two), None);
    // An answer without an id is about nothing of ours.
    assert_eq!(session.stray_response_count(), 2);
}

#[test]
fn what_a_client_tells_is_told_apart() {
    let mut session = ready("2025-11-25", json!({"roots": {"listChanged": true}}));
    let told = |session: &mut Session, method| notify(session, &method, &json!({}));
    assert!(matches!(told(&mut session, Method::RootsListChanged), ServerEvent::RootsListChanged));
    let custom = Method::from_name("acme/told");
    assert!(matches!(told(&mut session, custom), ServerEvent::Other));
    let of_text = json!({"progressToken": "text", "progress": 1});
    assert!(matches!(notify(&mut session, &Method::Progress, &of_text), ServerEvent::Ignored));
}

/// covers: CAP-05
#[test]
fn each_question_needs_its_own_capability() {
    let questions = [
        (Method::CreateMessage, "sampling"),
        (Method::RootsList, "roots"),
        (Method::Elicit, "elicitation"),
        (Method::TasksGet, "tasks"),
        (Method::TasksResult, "tasks"),
        (Method::TasksCancel, "tasks"),
        (Method::TasksList, "tasks"),
    ];
    for (method, _) in &questions {
        for (_, declared) in &questions {
            let session = ready("2025-11-25", json!({ *declared: {} }));
            let needed = questions.iter().any(|(one, needs)| one == method && needs == declared);
            let refused = Err(ClientRequestError::NotDeclared(method.clone()));
            assert_eq!(
                session.check_client_request(method),
                if needed { Ok(()) } else { refused },
                "{method}, {declared}"
            );
        }
    }
    assert_eq!(ready("2025-11-25", json!({})).check_client_request(&Method::from_name("acme/asks")), Ok(()));
}

#[test]
fn who_has_hung_up_is_asked_nothing_and_still_answered() {
    let mut session = ready("2025-11-25", json!({"roots": {}}));
    let ticket = session.begin(&RequestId::Number(1), "work").unwrap();
    session.begin_client_request(start(), &Method::RootsList, TimeLimits::NONE, "waiter").unwrap();
    assert_eq!(session.close_inbound(), ["waiter"]);
    assert_eq!(session.check_client_request(&Method::Ping), Err(ClientRequestError::Closed));
    assert!(!session.is_closed());
    assert_eq!(session.revision(), Some(Revision::V2025_11_25));
    assert_eq!(
        (session.served().len(), session.served().is_served(&RequestId::Number(1), ticket)),
        (1, true)
    );
    assert_eq!(session.finish(&RequestId::Number(1), ticket), Some("work"));
    assert_eq!(new().revision(), None);
}
