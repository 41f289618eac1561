use hospes_model::message::{self, Frame};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderName, Method as Verbs};

use super::*;

/// A POST of `body` with these headers changed (an empty value takes one away), through both steps.
fn post(rules: &AdmissionRules, changes: &[(&str, &str)], body: &str) -> Result<MessageRoute, HttpRejection> {
    let mut map = HeaderMap::new();
    map.insert(HOST, HeaderValue::from_static("127.0.0.1:7337"));
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    map.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    change(&mut map, changes);
    let head = rules.admit(&Verbs::POST, None, &map)?;
    match message::decode(body.as_bytes()).map_err(HttpRejection::malformed)? {
        Frame::Batch(_) => rules.route_batch(&head),
        Frame::Single(message) => {
            let facts = match &message {
                JsonRpcMessage::Request(r) => {
                    RoutingFields::from_params(&Method::from_name(&r.method), r.params)
                }
                JsonRpcMessage::Notification(n) => {
                    RoutingFields::from_params(&Method::from_name(&n.method), n.params)
                }
                JsonRpcMessage::Response(_) => RoutingFields::default(),
            };
            rules.route(&head, &message, &facts)
        }
    }
}

fn change(map: &mut HeaderMap, changes: &[(&str, &str)]) {
    for (name, value) in changes {
        let name: HeaderName = name.parse().unwrap();
        match *value {
            "" => map.remove(name),
            value => map.insert(name, HeaderValue::from_str(value).unwrap()),
        };
    }
}

fn call(method: &str, params: &str, version: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"{method}","params":{{{params}{comma}"_meta":{{
            "io.modelcontextprotocol/protocolVersion":"{version}",
            "io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
}

const MODERN: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

/// The status and the code of a refusal.
fn refusal(result: Result<MessageRoute, HttpRejection>) -> (u16, i64) {
    let rejection = result.expect_err("refused");
    (rejection.status.as_u16(), rejection.error.code)
}

fn all() -> AdmissionRules {
    AdmissionRules::default()
}

const INIT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
    "capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// covers: HTTP-04 HTTP-05
#[test]
fn host_and_origin_are_each_checked_alone_and_the_refusal_names_the_setting() {
    let good = [("host", "127.0.0.1:7337"), ("origin", "http://127.0.0.1:7337")];
    assert!(post(&all(), &good, INIT).is_ok());
    for (bad, setting) in [
        (("origin", "http://evil.example.com"), "allowed_origins"),
        (("origin", "null"), "allowed_origins"),
        (("host", "evil.example.com"), "allowed_hosts"),
        (("host", ""), "allowed_hosts"),
    ] {
        let rejection = post(&all(), &[bad], INIT).unwrap_err();
        assert_eq!(rejection.status, StatusCode::FORBIDDEN, "{bad:?}");
        assert!(rejection.error.message.contains(setting), "{rejection:?}");
        assert_eq!(rejection.id, None);
    }
    let long = format!("http://{}", "x".repeat(5000));
    assert!(post(&all(), &[("origin", &long)], INIT).unwrap_err().error.message.len() < 300);
}

#[test]
fn http_2_names_the_host_in_its_authority() {
    let map = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let admit = |authority: &str| {
        let authority = authority.parse().unwrap();
        all().admit(&Verbs::POST, Some(&authority), &map).map(|_| ())
    };
    assert!(admit("localhost:1").is_ok());
    assert_eq!(admit("evil.example.com").unwrap_err().status, StatusCode::FORBIDDEN);
    assert_eq!(admit("localhost@evil.example.com").unwrap_err().status, StatusCode::FORBIDDEN);
    let mut both = map.clone();
    both.insert(HOST, HeaderValue::from_static("evil.example.com"));
    let local = "localhost".parse().unwrap();
    assert!(all().admit(&Verbs::POST, Some(&local), &both).is_err());
}

/// covers: HTTP-01 HTTP-02 HTTP-29 HTTP-42
#[test]
fn get_and_delete_belong_to_legacy_sessions() {
    let modern = AdmissionRules { revisions: RevisionSet::of_era(Era::Modern), ..all() };
    let status = |rules: &AdmissionRules, verb: Verbs, changes: &[(&str, &str)]| {
        let mut map = HeaderMap::new();
        change(&mut map, &[("host", "localhost"), ("accept", "text/event-stream")]);
        change(&mut map, changes);
        rules.admit(&verb, None, &map).map(|head| head.verb).map_err(|r| (r.status.as_u16(), r.allow))
    };
    assert_eq!(status(&all(), Verbs::GET, &[]), Ok(EndpointMethod::Get));
    assert_eq!(status(&all(), Verbs::GET, &[("accept", "application/json")]), Err((406, None)));
    assert_eq!(status(&all(), Verbs::DELETE, &[("accept", "")]), Ok(EndpointMethod::Delete));
    assert_eq!(status(&all(), Verbs::GET, &[("mcp-protocol-version", "2030-01-01")]), Err((400, None)));
    assert_eq!(status(&all(), Verbs::GET, &[MODERN]), Err((405, Some("POST"))));
    assert_eq!(status(&all(), Verbs::PUT, &[]), Err((405, Some("GET, POST, DELETE"))));
    assert_eq!(status(&modern, Verbs::GET, &[]), Err((405, Some("POST"))));
    assert_eq!(status(&modern, Verbs::DELETE, &[]), Err((405, Some("POST"))));
}

#[test]
fn media_types_and_length_are_checked_before_the_body() {
    let status = |changes: &[(&str, &str)]| refusal(post(&all(), changes, INIT)).0;
    assert_eq!(status(&[("content-type", "text/plain")]), 415);
    assert_eq!(status(&[("content-type", "")]), 415);
    assert_eq!(status(&[("accept", "application/json")]), 406);
    assert_eq!(status(&[("accept", "text/event-stream, application/json;q=0")]), 406);
    assert!(post(&all(), &[("accept", "")], INIT).is_ok());
    assert!(
        post(&all(), &[("accept", "*/*"), ("content-type", "application/json; charset=UTF-8")], INIT).is_ok()
    );
    let small = AdmissionRules { max_message_bytes: 10, ..all() };
    assert!(post(&small, &[("content-length", "10")], INIT).is_ok());
    let rejection = post(&small, &[("content-length", "11")], INIT).unwrap_err();
    assert_eq!(rejection.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(rejection.error.message.contains("max_message_bytes"));
    assert_eq!(refusal(post(&all(), &[("content-length", "99999999999999999999999")], INIT)).0, 413);
}

#[test]
fn a_header_that_appears_twice_is_refused_unless_it_is_a_list() {
    let mut map = HeaderMap::new();
    change(&mut map, &[("host", "localhost"), ("content-type", "application/json")]);
    map.append(ACCEPT, HeaderValue::from_static("text/event-stream"));
    map.append(ACCEPT, HeaderValue::from_static("application/json"));
    assert!(all().admit(&Verbs::POST, None, &map).is_ok());
    for name in [HOST, ORIGIN, CONTENT_LENGTH, headers::METHOD, headers::NAME, headers::PROTOCOL_VERSION] {
        let mut map = map.clone();
        map.insert(name.clone(), HeaderValue::from_static("localhost"));
        map.append(name.clone(), HeaderValue::from_static("evil.example.com"));
        assert_eq!(
            all().admit(&Verbs::POST, None, &map).unwrap_err().status,
            StatusCode::BAD_REQUEST,
            "{name}"
        );
    }
    // A second `Host` is refused even if it says the same.
    map.append(HOST, HeaderValue::from_static("localhost"));
    assert_eq!(all().admit(&Verbs::POST, None, &map).unwrap_err().status, StatusCode::BAD_REQUEST);
}

/// covers: SSE-06
#[test]
fn the_endpoints_of_the_older_transport_serve_one_verb_each() {
    let (stream, messages) = (SseEndpoint::Stream, SseEndpoint::Messages);
    let status = |endpoint, verb: Verbs, changes: &[(&str, &str)]| {
        let mut map = HeaderMap::new();
        change(&mut map, &[("host", "localhost"), ("content-type", "application/json")]);
        change(&mut map, changes);
        match all().admit_sse(endpoint, &verb, None, &map) {
            Ok(_) => 200,
            Err(rejection) => {
                assert_eq!(rejection.status == StatusCode::METHOD_NOT_ALLOWED, rejection.allow.is_some());
                rejection.status.as_u16()
            }
        }
    };
    assert_eq!(status(stream, Verbs::GET, &[]), 200);
    assert_eq!(status(messages, Verbs::POST, &[]), 200);
    for (endpoint, verb) in [(stream, Verbs::POST), (stream, Verbs::DELETE), (messages, Verbs::GET)] {
        assert_eq!(status(endpoint, verb, &[]), 405);
    }
    for (endpoint, verb) in [(stream, Verbs::GET), (messages, Verbs::POST)] {
        assert_eq!(status(endpoint, verb.clone(), &[("host", "evil.example.com")]), 403);
        assert_eq!(status(endpoint, verb.clone(), &[("origin", "http://evil.example.com")]), 403);
        assert_eq!(status(endpoint, verb.clone(), &[("origin", "http://localhost:1")]), 200);
        assert_eq!(status(endpoint, verb.clone(), &[("mcp-protocol-version", "2024-11-05")]), 200);
        assert_eq!(status(endpoint, verb.clone(), &[MODERN]), 400);
        assert_eq!(status(endpoint, verb, &[("content-length", "99999999999")]), 413);
    }
    assert_eq!(status(stream, Verbs::GET, &[("accept", "application/json")]), 406);
    assert_eq!(status(stream, Verbs::GET, &[("accept", "text/*;q=0.5")]), 200);
    // What it sends back is read on the stream.
    assert_eq!(status(messages, Verbs::POST, &[("accept", "application/json")]), 200);
    assert_eq!(status(messages, Verbs::POST, &[("content-type", "text/plain")]), 415);
}

/// covers: VER-14 VER-15 HHDR-03 HHDR-04 HHDR-09
#[test]
fn each_post_belongs_to_one_era() {
    let legacy = |header| Ok(MessageRoute::Legacy { header });
    let modern = Ok(MessageRoute::Modern(Revision::V2026_07_28));
    let discover = call("server/discover", "", "2026-07-28");
    assert_eq!(post(&all(), &[], INIT), legacy(None));
    assert_eq!(post(&all(), &[("mcp-protocol-version", "2025-06-18")], INIT), legacy(None));
    assert_eq!(post(&all(), &[("mcp-protocol-version", "v9"), ("mcp-method", "x")], INIT), legacy(None));
    assert_eq!(post(&all(), &[], LIST), legacy(None));
    let header = ("mcp-protocol-version", "2025-06-18");
    assert_eq!(post(&all(), &[header], LIST), legacy(Some(Revision::V2025_06_18)));
    assert_eq!(post(&all(), &[MODERN, ("mcp-method", "server/discover")], &discover), modern);
    assert_eq!(refusal(post(&all(), &[("mcp-protocol-version", "v9")], LIST)), (400, -32022));
    let old = AdmissionRules { revisions: RevisionSet::only(Revision::V2024_11_05), ..all() };
    assert_eq!(refusal(post(&old, &[header], LIST)), (400, -32022));
    assert_eq!(refusal(post(&old, &[MODERN, ("mcp-method", "server/discover")], &discover)), (400, -32022));
}

/// covers: VER-24 HHDR-10
#[test]
fn a_modern_server_tells_old_clients_what_it_speaks() {
    let modern = AdmissionRules { revisions: RevisionSet::of_era(Era::Modern), ..all() };
    let rejection = post(&modern, &[], INIT).unwrap_err();
    assert_eq!((rejection.status.as_u16(), rejection.error.code), (400, -32022));
    let data = rejection.error.data.unwrap();
    assert_eq!(data.as_str(), r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#);
    assert_eq!(refusal(post(&modern, &[], LIST)), (400, -32020));
}

/// covers: STLS-03 VER-12 HHDR-06 HHDR-07
#[test]
fn a_modern_request_without_its_metadata_or_with_another_version_is_refused() {
    let headers = [MODERN, ("mcp-method", "server/discover")];
    let bare = |meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":5,"method":"server/discover","params":{{"_meta":{meta}}}}}"#)
    };
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    assert!(post(&all(), &headers, &bare(&format!("{{{version},{capabilities}}}"))).is_ok());
    for meta in [
        "{}".to_owned(),
        "7".to_owned(),
        format!("{{{version}}}"),
        format!("{{{capabilities}}}"),
        format!("{{{version},\"io.modelcontextprotocol/clientCapabilities\":[]}}"),
        format!("{{{capabilities},\"io.modelcontextprotocol/protocolVersion\":5}}"),
        format!("{{{version},{version},{capabilities}}}"),
    ] {
        let rejection = post(&all(), &headers, &bare(&meta)).unwrap_err();
        assert_eq!((rejection.status.as_u16(), rejection.error.code), (400, -32602), "{meta}");
        assert_eq!(rejection.id, Some(RequestId::Number(5)));
    }
    let none = r#"{"jsonrpc":"2.0","id":5,"method":"server/discover"}"#;
    assert_eq!(refusal(post(&all(), &headers, none)), (400, -32602));
    // The body alone makes it modern; the header is then missing.
    let discover = call("server/discover", "", "2026-07-28");
    assert_eq!(refusal(post(&all(), &headers[1..], &discover)), (400, -32020));
    let unknown = call("server/discover", "", "v999.0.0");
    assert_eq!(refusal(post(&all(), &headers, &unknown)), (400, -32020));
    let same = [("mcp-protocol-version", "v999.0.0"), headers[1]];
    let rejection = post(&all(), &same, &unknown).unwrap_err();
    assert_eq!(rejection.error.code, -32022);
    assert_eq!(
        rejection.error.data.unwrap().as_str(),
        r#"{"supported":["2026-07-28"],"requested":"v999.0.0"}"#
    );
    let old = call("server/discover", "", "2025-11-25");
    assert_eq!(
        refusal(post(&all(), &[("mcp-protocol-version", "2025-11-25"), headers[1]], &old)),
        (400, -32022)
    );
}

/// covers: HHDR-11 HHDR-12 HHDR-13 HHDR-14
#[test]
fn the_headers_of_a_modern_request_say_what_its_body_says() {
    let method = ("mcp-method", "tools/call");
    let tool = call("tools/call", r#""name":"add ü","arguments":{"name":"other"}"#, "2026-07-28");
    let name = ("mcp-name", "=?base64?YWRkIMO8?=");
    assert!(post(&all(), &[MODERN, method, name], &tool).is_ok());
    for changes in [
        &[MODERN, name][..],
        &[MODERN, ("mcp-method", "TOOLS/CALL"), name],
        &[MODERN, ("mcp-method", "tools/list"), name],
        &[MODERN, method],
        &[MODERN, method, ("mcp-name", "add")],
        &[MODERN, method, ("mcp-name", "=?base64?YWRkIMO2?=")],
        &[MODERN, method, ("mcp-name", "=?base64?YWRkIMO8?")],
        &[MODERN, method, ("mcp-name", "=?base64?YWRkIMO8==?=")],
        &[method, name],
        &[("mcp-protocol-version", "2025-11-25"), method, name],
    ] {
        assert_eq!(refusal(post(&all(), changes, &tool)), (400, -32020), "{changes:?}");
    }
    let read = call("resources/read", r#""uri":"file:///a%20b""#, "2026-07-28");
    let headers = [MODERN, ("mcp-method", "resources/read"), ("mcp-name", "file:///a%20b")];
    assert!(post(&all(), &headers, &read).is_ok());
    let list = call("tools/list", "", "2026-07-28");
    assert!(post(&all(), &[MODERN, ("mcp-method", "tools/list"), ("mcp-name", "surplus")], &list).is_ok());
    // Blanks around a value do not count, and the missing name is for the method to refuse.
    let mut map = HeaderMap::new();
    map.insert(headers::NAME, HeaderValue::from_bytes(b"  x\t").unwrap());
    let head = AdmittedHead { name: map.get(headers::NAME), ..admitted(&[MODERN, method]) };
    let facts = RoutingFields { name: Some("x".into()), ..good_facts() };
    let route = |facts: &RoutingFields<'_>, head: &AdmittedHead<'_>| {
        all().route_request(head, &RequestId::Number(1), &Method::ToolsCall, facts).map_err(|r| r.error.code)
    };
    assert!(route(&facts, &head).is_ok());
    assert!(route(&good_facts(), &admitted(&[MODERN, method])).is_ok());
    assert_eq!(route(&good_facts(), &head), Err(-32020));
}

fn good_facts() -> RoutingFields<'static> {
    RoutingFields {
        version: Some("2026-07-28".into()),
        capabilities: true,
        modern: true,
        ..RoutingFields::default()
    }
}

fn admitted(changes: &[(&str, &str)]) -> AdmittedHead<'static> {
    let mut map = HeaderMap::new();
    change(&mut map, &[("host", "localhost"), ("content-type", "application/json")]);
    change(&mut map, changes);
    all().admit(&Verbs::POST, None, Box::leak(Box::new(map))).unwrap()
}

/// covers: HHDR-08 DEPR-07
#[test]
fn a_removed_method_with_modern_metadata_stays_modern() {
    for method in ["initialize", "ping", "logging/setLevel", "unknown/method"] {
        let body = call(method, "", "2026-07-28");
        let route = post(&all(), &[MODERN, ("mcp-method", method)], &body);
        assert_eq!(route, Ok(MessageRoute::Modern(Revision::V2026_07_28)), "{method}");
    }
}

/// covers: MSG-24 BATCH-01 BATCH-09
#[test]
fn notifications_answers_and_batches_have_rules_of_their_own() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let batch = format!("[{LIST}]");
    let header = |revision| ("mcp-protocol-version", revision);
    assert_eq!(post(&all(), &[MODERN], note), Ok(MessageRoute::Modern(Revision::V2026_07_28)));
    assert_eq!(post(&all(), &[], note), Ok(MessageRoute::Legacy { header: None }));
    assert_eq!(post(&all(), &[], answer), Ok(MessageRoute::Legacy { header: None }));
    assert_eq!(refusal(post(&all(), &[MODERN], answer)), (400, -32600));
    assert_eq!(post(&all(), &[], &batch), Ok(MessageRoute::Legacy { header: None }));
    for revision in [Revision::V2024_11_05, Revision::V2025_03_26] {
        let route = post(&all(), &[header(revision.as_str())], &batch);
        assert_eq!(route, Ok(MessageRoute::Legacy { header: Some(revision) }));
    }
    // The body alone makes a notification modern, too.
    let told =
        r#"{"jsonrpc":"2.0","method":"a/b","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}}"#;
    assert_eq!(post(&all(), &[], told), Ok(MessageRoute::Modern(Revision::V2026_07_28)));
    assert_eq!(refusal(post(&all(), &[header("2025-06-18")], &batch)), (400, -32600));
    assert_eq!(refusal(post(&all(), &[MODERN], &batch)), (400, -32600));
    assert_eq!(refusal(post(&all(), &[], "{")), (400, -32700));
}

#[test]
fn what_the_head_says_is_handed_on() {
    let head = admitted(&[
        ("mcp-protocol-version", "2025-06-18"),
        ("mcp-session-id", "s-1"),
        ("mcp-method", "m"),
        ("mcp-name", "n"),
        ("last-event-id", "3-1"),
        ("origin", "http://localhost:1"),
        ("content-length", "7"),
    ]);
    let of = |head: &AdmittedHead<'_>| {
        let values = [head.version, head.method, head.name, head.last_event_id, head.origin];
        values.map(|value| value.map(|value| value.to_str().unwrap().to_owned()))
    };
    assert_eq!((head.verb, head.session, head.content_length), (EndpointMethod::Post, Some("s-1"), Some(7)));
    let said = ["2025-06-18", "m", "n", "3-1", "http://localhost:1"];
    assert_eq!(of(&head), said.map(|value| Some(value.to_owned())));
    let bare = admitted(&[]);
    assert_eq!((bare.session, bare.content_length, of(&bare)), (None, None, [const { None }; 5]));
    assert_eq!(admitted(&[("mcp-session-id", "two words")]).session, None);
    // What is said twice in the same words is said once, but for the host.
    let mut map = HeaderMap::new();
    change(&mut map, &[("host", "localhost"), ("content-type", "application/json"), ("mcp-name", "n")]);
    map.append(headers::NAME, HeaderValue::from_static("n"));
    assert!(all().admit(&Verbs::POST, None, &map).is_ok());
}

#[test]
fn who_asks_for_a_page_beside_the_endpoint_is_looked_at_too() {
    let status = |changes: &[(&str, &str)]| {
        let mut map = HeaderMap::new();
        change(&mut map, &[("host", "localhost")]);
        change(&mut map, changes);
        all().admit_sender(None, &map).map_err(|rejection| rejection.status)
    };
    assert_eq!(status(&[]), Ok(()));
    for bad in [("host", "evil.example.com"), ("host", ""), ("origin", "http://evil.example.com")] {
        assert_eq!(status(&[bad]), Err(StatusCode::FORBIDDEN), "{bad:?}");
    }
    // Where every host is allowed, none has to be named.
    let open = AdmissionRules { hosts: AllowedHosts::any(), ..all() };
    assert!(open.admit_sender(None, &HeaderMap::new()).is_ok());
}

#[test]
fn a_member_that_stands_twice_is_seen_however_often_it_does() {
    const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    let facts = |text: String| {
        let raw: Box<serde_json::value::RawValue> = serde_json::from_str(&text).unwrap();
        let facts = RoutingFields::from_params(&Method::ToolsCall, Some(&raw));
        (facts.repeated, facts.modern)
    };
    for times in 1..=3 {
        let repeat = |member: &str| vec![member; times].join(",");
        let again = times > 1;
        assert_eq!(facts(format!("{{{}}}", repeat(r#""name":"x""#))), (again, false), "{times}");
        assert_eq!(facts(format!("{{{}}}", repeat(r#""_meta":{}"#))), (again, false), "{times}");
        assert_eq!(facts(format!("{{{}}}", repeat(r#""arguments":{}"#))), (false, false), "{times}");
        for member in [VERSION, CAPABILITIES] {
            let meta = format!("{{\"_meta\":{{{}}}}}", repeat(member));
            assert_eq!(facts(meta), (again, true), "{member} {times}");
        }
    }
    for (key, modern) in [("clientInfo", true), ("logLevel", true), ("subscriptionId", false)] {
        let meta = format!("{{\"_meta\":{{\"io.modelcontextprotocol/{key}\":1}}}}");
        assert_eq!(facts(meta), (false, modern), "{key}");
    }
}
