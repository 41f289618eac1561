//! Values: sealed state, results and notifications of each revision, URI templates, configurations.

use std::time::{Duration, SystemTime};

use hospes::serde::de::IgnoredAny;
use hospes::server::UriTemplate;
use hospes_host::config::ConfigLoader;
use hospes_model::{
    InputRequest, InputResponse, Method, Notification, PeerResult, RawJson, Revision, ServerStamp,
};
use hospes_proto::request_state::{RequestDigest, StateBinding, StateKey, StateKeyRing};

use crate::split_at_marker;

/// State opens as it was sealed, for the same request, and in no other way.
pub(crate) fn sealed_state(data: &[u8]) {
    let (payload, rest) = split_at_marker(data);
    let ring = StateKeyRing::single(StateKey::from_bytes([7; 32]));
    let Ok(request) = RequestDigest::of("tools/call", rest).or_else(|_| RequestDigest::of("tools/call", b""))
    else {
        return;
    };
    let binding = StateBinding { principal: Some("me"), request };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(ring.open(text, &binding, now).is_err(), "opened what was never sealed");
    }
    let sealed = ring.seal(&binding, now + Duration::from_secs(60), [9; 24], payload);
    if let Ok(opened) = ring.open(&sealed, &binding, now) {
        assert_eq!(opened, payload);
    }
    let stranger = StateBinding { principal: None, request };
    assert!(ring.open(&sealed, &stranger, now).is_err());
    assert!(ring.open(&sealed, &binding, now + Duration::from_secs(61)).is_err());
    let mut broken = sealed.into_bytes();
    let at = data.iter().map(|byte| usize::from(*byte)).sum::<usize>() % broken.len();
    broken[at] = if broken[at] == b'A' { b'B' } else { b'A' };
    let broken = String::from_utf8(broken).unwrap_or_default();
    assert!(ring.open(&broken, &binding, now).is_err(), "opened what was changed");
}

const METHODS: [Method; 20] = [
    Method::Initialize,
    Method::Discover,
    Method::ToolsList,
    Method::ToolsCall,
    Method::PromptsList,
    Method::PromptsGet,
    Method::ResourcesList,
    Method::ResourceTemplatesList,
    Method::ResourcesRead,
    Method::Complete,
    Method::SubscriptionsListen,
    Method::CreateMessage,
    Method::RootsList,
    Method::Elicit,
    Method::TasksGet,
    Method::TasksList,
    Method::TasksCancel,
    Method::TasksUpdate,
    Method::Ping,
    Method::SetLevel,
];

/// A result of any method and revision that can be read can be written for every revision that has it, as JSON; and
/// what was written for the newest is read as the same again.
pub(crate) fn answers(data: &[u8]) {
    let [which, text @ ..] = data else { return };
    let method = &METHODS[usize::from(*which) % METHODS.len()];
    let from = Revision::ALL[usize::from(*which) / METHODS.len() % Revision::ALL.len()];
    let Ok(raw) = RawJson::parse(text.to_vec()) else { return };
    let _ = PeerResult::decode_task(method, &raw);
    let (_, _) = (InputRequest::decode(method, &raw), InputResponse::decode(method, &raw));
    let Ok(PeerResult::Complete(reply)) = PeerResult::decode(method, from, &raw) else { return };
    let stamp = ServerStamp::anonymous();
    for to in Revision::ALL {
        let mut out = Vec::new();
        if reply.encode(method, to, &stamp, &mut out).is_err() {
            assert!(out.is_empty(), "something was left behind");
            continue;
        }
        let Ok(written) = RawJson::parse(out) else { panic!("{method} for {to} is no JSON") };
        if to != Revision::LATEST {
            continue;
        }
        if let Ok(PeerResult::Complete(again)) = PeerResult::decode(method, to, &written) {
            let mut twice = Vec::new();
            let wrote = again.encode(method, to, &stamp, &mut twice);
            assert!(wrote.is_ok(), "{method}: written once, and not twice");
            assert_eq!(written.as_str().as_bytes(), twice, "{method}: not the same when written twice");
        }
    }
}

/// A notification that can be read can be written for every revision that has it.
pub(crate) fn notifications(data: &[u8]) {
    const NOTIFICATION_METHODS: [Method; 9] = [
        Method::Progress,
        Method::LogMessage,
        Method::ToolsListChanged,
        Method::ResourceUpdated,
        Method::Cancelled,
        Method::ElicitationComplete,
        Method::TaskStatus,
        Method::TasksChanged,
        Method::SubscriptionsAcknowledged,
    ];
    let [which, text @ ..] = data else { return };
    let method = &NOTIFICATION_METHODS[usize::from(*which) % NOTIFICATION_METHODS.len()];
    let from = Revision::ALL[usize::from(*which) / NOTIFICATION_METHODS.len() % Revision::ALL.len()];
    let Ok(raw) = RawJson::parse(text.to_vec()) else { return };
    let Ok(notification) = Notification::decode(method, from, Some(&raw)) else { return };
    for to in Revision::ALL {
        let mut out = Vec::new();
        if let Ok(true) = notification.encode(to, None, &mut out) {
            // Not as a value: a number beyond all bounds is JSON, and none.
            assert!(serde_json::from_slice::<IgnoredAny>(&out).is_ok(), "{method} for {to} is no JSON");
        }
    }
}

/// Checks that a template expands its own matches to a URI from which it reads the same values again.
pub(crate) fn uri_template(data: &[u8]) {
    let (template, uri) = split_at_marker(data);
    let (Ok(template), Ok(uri)) = (std::str::from_utf8(template), std::str::from_utf8(uri)) else { return };
    let Ok(template) = UriTemplate::parse(template) else { return };
    let Some(found) = template.matches(uri) else { return };
    if let Ok(made) = template.expand(&found) {
        let _ = template.matches(&made);
    }
}

/// A document is a configuration or is refused with words; in every format.
pub(crate) fn config(data: &[u8]) {
    let [which, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    const FILES: [&str; 6] = [
        "/etc/hospes/hospes.toml",
        "/home/me/.codex/config.toml",
        "/home/me/claude_desktop_config.json",
        "/home/me/.vscode/mcp.json",
        "/home/me/.gemini/settings.json",
        "/home/me/.mcp.json",
    ];
    let file = FILES[usize::from(*which) % FILES.len()];
    let variable = |name: &str| name.len().is_multiple_of(2).then(|| "value".to_owned());
    for keep_going in [false, true] {
        let loader = ConfigLoader::new().variables(variable).keep_going(keep_going);
        if let Err(errors) = loader.parse(file, text) {
            assert!(!errors.to_string().is_empty());
        }
    }
}
