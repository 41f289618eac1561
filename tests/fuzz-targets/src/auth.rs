//! Fuzz targets for input of an authorization client: challenges, and all responses of a sign-in.

use std::sync::Arc;
use std::time::Duration;

use hospes_auth::egress::FetchError;
use hospes_auth::metadata::{is_loopback, is_secure};
use hospes_auth::{Challenge, ClientId, FetchResponse, RedirectUri, Seed};
use hospes_oauth::flow::{AuthorizationCause, AuthorizationFlow, FlowEffect, FlowInput};
use hospes_oauth::{GrantType, OAuthClientSettings};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::split_at_marker;

/// Challenges are read as they are written, and whatever else stands there does no harm.
pub(crate) fn challenges(data: &[u8]) {
    let (lines, value) = split_at_marker(data);
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').take(16) {
        if let Ok(line) = HeaderValue::from_bytes(line) {
            headers.append(WWW_AUTHENTICATE, line);
        }
    }
    for challenge in Challenge::from_headers(&headers) {
        let _ = (challenge.scopes(), challenge.wants_more_scopes(), challenge.get("resource_metadata"));
        let written = challenge.to_string();
        if written.len() < 8 * 1024 {
            assert_eq!(Challenge::parse(&written), [challenge], "{written}");
        }
    }
    let _ = Challenge::for_tokens(&headers);
    let value = String::from_utf8_lossy(value);
    let ours = Challenge::new("Bearer").with("error_description", &value).with("scope", "a b");
    let written = ours.to_string();
    if written.len() < 8 * 1024 {
        assert_eq!(Challenge::parse(&written), [ours], "{written}");
    }
}

/// A whole sign-in to a public server, of which every answer is made up: it comes to an end, and asks and sends people
/// only where it may.
pub(crate) fn sign_in(data: &[u8]) {
    let mut answers = data.split(|byte| *byte == 0xff);
    let first = answers.next().unwrap_or_default();
    let mut settings = OAuthClientSettings::default();
    let flags = first.first().copied().unwrap_or_default();
    if flags & 1 != 0 {
        settings.grant = GrantType::Device;
    }
    if flags & 2 != 0 {
        settings.metadata_url = ClientId::new("https://hospes.example/client.json").ok();
    }
    let challenge = std::str::from_utf8(first.get(1..).unwrap_or_default()).unwrap_or_default();
    let challenge = Challenge::parse(challenge).into_iter().next();
    let endpoint = "https://m.example/mcp".parse().expect("it is a URL");
    let mut now = 1_800_000_000;
    let mut flow = AuthorizationFlow::new(
        Arc::new(settings),
        AuthorizationCause::new(endpoint, challenge),
        Seed::new(&[7; 32]),
        now,
    );
    let mut rounds = 0;
    loop {
        rounds += 1;
        assert!(rounds < 10_000, "it does not end");
        let input = match flow.poll_effect().clone() {
            FlowEffect::Fetch(request) => {
                assert!(is_secure(&request.url), "asked in the open: {request:?}");
                FlowInput::Response(response(answers.next().unwrap_or_default()))
            }
            FlowEffect::Recall(_) => FlowInput::Registration(None),
            FlowEffect::Listen { preferred } => {
                let here = RedirectUri::new("http://127.0.0.1:4000/callback").expect("it is a URI");
                FlowInput::Listening(preferred.unwrap_or(here))
            }
            FlowEffect::Keep(_) => FlowInput::Kept,
            FlowEffect::Visit(visit) => {
                assert!(is_secure(&visit.url) && !is_loopback(&visit.url), "{:?}", visit.url);
                assert!(visit.url.query().is_some_and(|query| query.contains("code_challenge_method=S256")));
                let said = String::from_utf8_lossy(answers.next().unwrap_or_default())
                    .replace("STATE", &visit.state);
                FlowInput::Redirected(format!("{}?{said}", visit.redirect_uri))
            }
            FlowEffect::Show(prompt) => {
                assert!(is_secure(&prompt.verification_uri) && !is_loopback(&prompt.verification_uri));
                assert!(prompt.ends_at <= now + 1800);
                assert!(!prompt.user_code.chars().any(char::is_control));
                FlowInput::Shown
            }
            FlowEffect::Wait(time) => {
                assert!((1..=60).contains(&time.as_secs()), "{time:?}");
                now += time.max(Duration::from_secs(1)).as_secs();
                FlowInput::Waited
            }
            FlowEffect::Done(tokens) => {
                assert!(tokens.resource.url().is_some_and(|url| url.host_str() == Some("m.example")));
                break;
            }
            FlowEffect::Failed(error) => {
                let _ = error.to_string();
                break;
            }
            _ => break,
        };
        flow.handle(input, now);
    }
}

/// A digit for the status, and the body.
fn response(answer: &[u8]) -> Result<FetchResponse, FetchError> {
    let (kind, body) = answer.split_first().map_or((b'0', answer), |(kind, body)| (*kind, body));
    let status = match kind {
        b'0' => return Err(FetchError::Timeout),
        b'1' => StatusCode::CREATED,
        b'3' => StatusCode::FOUND,
        b'4' => StatusCode::BAD_REQUEST,
        b'5' => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    Ok(FetchResponse::new(status, body.to_vec()))
}
