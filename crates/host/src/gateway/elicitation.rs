//! Checks of servers' elicitations before they reach a person. Each one names its server, and improper requests are
//! refused.
//!
//! The rules are the same in every revision and for all kinds of requests: during a call, for a task, and as error
//! -32042 of 2025-11-25. Hidden characters in a server's texts are made visible, and a message that imitates the host's
//! own approval prompt is refused.

use hospes::client::{UrlReview, UrlWarning};
use hospes::redact::is_secret_name;
use hospes_model::{ElicitFormParams, ElicitParams, ElicitUrlParams, InputRequest, RpcError};
use hospes_policy::{is_hidden, visible, visible_line};
use serde_json::Value;
use unicode_security::{RestrictionLevel, RestrictionLevelDetection as _, skeleton};
use url::{Host, Url};

use crate::server::confusables::{loose_skeleton, strict_skeleton};

/// Words with which the questions of this program about a call begin; a server's name follows.
const OWN_QUESTIONS: [&str; 3] = ["May I call the tool", "May I fetch the prompt", "May I read"];
/// Words that come before the server's name in them.
const OWN_SERVER: &str = "of the server";
/// The last line of such a question.
const OWN_REASON: &str = "Asked because:";
/// Maximum depth at which a form's schema is read.
const MAX_DEPTH: usize = 16;

/// Reasons an elicitation is not passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ElicitationError {
    #[error("the URL is invalid or unsafe: {0}")]
    Url(String),
    #[error("the URL is not encrypted, and its host is not this machine: `{0}`; use https")]
    NotEncrypted(String),
    #[error("the host `{0}` contains letters that look like others")]
    LookAlike(String),
    #[error("the form asks for a secret (`{0}`), which is not allowed in a form (use a URL instead)")]
    Secret(String),
    #[error("the name or value of a form field contains hidden characters: `{0}`")]
    Hidden(String),
    #[error("the message imitates an approval question of the gateway")]
    Imitation,
    #[error("the form's schema is nested too deeply")]
    Deep,
}

impl ElicitationError {
    /// Returns the error for the server.
    pub(super) fn to_rpc_error(&self) -> RpcError {
        RpcError::invalid_params(format!("elicitation rejected: {self}"))
    }
}

/// Checks one elicitation, and returns it as the person may see it, without the name of its server.
pub(super) fn screen(params: ElicitParams) -> Result<ElicitParams, ElicitationError> {
    Ok(match params {
        ElicitParams::Form(form) => ElicitParams::Form(screen_form(form)?),
        ElicitParams::Url(url) => ElicitParams::Url(screen_url(url)?),
        other => other,
    })
}

/// Returns the reason why the first improper request is refused.
pub(super) fn refusal<'r>(requests: impl Iterator<Item = &'r InputRequest>) -> Option<ElicitationError> {
    requests.into_iter().find_map(|request| match request {
        InputRequest::Elicit(params) => screen(ElicitParams::clone(params)).err(),
        _ => None,
    })
}

/// Puts the name of the server before the message of an elicitation.
pub(super) fn name_server(server: &str, params: &mut ElicitParams) {
    let message = match params {
        ElicitParams::Form(form) => &mut form.message,
        ElicitParams::Url(url) => &mut url.message,
        _ => return,
    };
    *message = format!("The server `{}` asks: {message}", visible_line(server));
}

/// Returns the request as an application receives it: screened, and with the name of its server.
pub(super) fn present(server: &str, request: InputRequest) -> Result<InputRequest, ElicitationError> {
    let InputRequest::Elicit(params) = request else { return Ok(request) };
    let mut params = screen(*params)?;
    name_server(server, &mut params);
    Ok(InputRequest::Elicit(Box::new(params)))
}

/// Returns error -32042 as an application receives it: screened, and with the name of its server. Any other error is
/// returned unchanged.
pub(super) fn present_error(server: &str, error: RpcError) -> RpcError {
    let Some(elicitations) = error.url_elicitations() else { return error };
    let presented: Result<Vec<_>, _> = elicitations
        .into_iter()
        .map(|url| {
            let mut params = ElicitParams::Url(screen_url(url)?);
            name_server(server, &mut params);
            Ok(params)
        })
        .collect();
    match presented {
        Ok(presented) => RpcError::url_elicitation_required(
            presented
                .into_iter()
                .filter_map(|params| match params {
                    ElicitParams::Url(url) => Some(url),
                    _ => None,
                })
                .collect(),
        ),
        Err(refused) => {
            let refused: ElicitationError = refused;
            refused.to_rpc_error()
        }
    }
}

fn screen_message(message: &str) -> Result<String, ElicitationError> {
    // Compared loosely, because a person does not tell look-alike letters or other spaces apart either.
    let words = |text: &str| loose_skeleton(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let seen = words(message);
    // Both parts are needed: the first words alone are ordinary English.
    let asks =
        OWN_QUESTIONS.iter().any(|own| seen.contains(&words(own))) && seen.contains(&words(OWN_SERVER));
    if asks || seen.contains(&words(OWN_REASON)) {
        return Err(ElicitationError::Imitation);
    }
    Ok(visible(message))
}

fn screen_url(mut params: ElicitUrlParams) -> Result<ElicitUrlParams, ElicitationError> {
    params.message = screen_message(&params.message)?;
    // Written out they would make another URL, so it is refused.
    if params.url.chars().any(is_hidden) {
        return Err(ElicitationError::Url("it contains hidden characters".to_owned()));
    }
    let review = UrlReview::of(&params.url).map_err(|why| ElicitationError::Url(why.to_string()))?;
    if review.warnings.contains(&UrlWarning::NotEncrypted) {
        return Err(ElicitationError::NotEncrypted(review.domain));
    }
    if review.warnings.contains(&UrlWarning::Punycode) {
        if looks_like_others(&review.domain) {
            return Err(ElicitationError::LookAlike(review.domain));
        }
        params.message = format!("{}\n\nThe host is `{}`.", params.message, review.domain);
    }
    // As a browser takes it: a name with letters beyond ASCII stands there in Punycode.
    if Url::parse(&params.url).is_ok_and(|url| matches!(url.host(), Some(Host::Domain(_)))) {
        params.url = review.url;
    }
    Ok(params)
}

/// Returns true if a label of an ASCII domain encodes letters that mix scripts or look like Latin letters.
fn looks_like_others(domain: &str) -> bool {
    let (name, read) = idna::domain_to_unicode(domain);
    // What cannot be decoded cannot be judged, so it counts as a look-alike.
    read.is_err()
        || name.split('.').filter(|label| !label.is_ascii()).any(|label| {
            label.detect_restriction_level() > RestrictionLevel::HighlyRestrictive
                || skeleton(label).all(|letter| letter.is_ascii())
                || strict_skeleton(label).is_ascii()
        })
}

fn screen_form(mut form: ElicitFormParams) -> Result<ElicitFormParams, ElicitationError> {
    form.message = screen_message(&form.message)?;
    for (name, field) in form.requested_schema.properties.0.iter() {
        let written = serde_json::to_value(field).unwrap_or_default();
        let title = written.get("title").and_then(Value::as_str).unwrap_or_default();
        let is_password = written.get("format").and_then(Value::as_str) == Some("password");
        if is_secret_name(name) || is_secret_name(title) || is_password {
            return Err(ElicitationError::Secret(visible_line(name)));
        }
    }
    let mut schema = serde_json::to_value(&form.requested_schema).unwrap_or_default();
    if show_schema(&mut schema, 0)?
        && let Ok(shown) = serde_json::from_value(schema)
    {
        form.requested_schema = shown;
    }
    Ok(form)
}

/// Makes hidden characters in the texts of a schema visible. Returns true if there were any. Values that a response has
/// to repeat cannot be changed, so a schema with hidden characters in them is refused.
fn show_schema(schema: &mut Value, depth: usize) -> Result<bool, ElicitationError> {
    if depth > MAX_DEPTH {
        return Err(ElicitationError::Deep);
    }
    let mut is_changed = false;
    match schema {
        Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                if let Some(hidden) = hides(key) {
                    return Err(hidden);
                }
                match (key.as_str(), value) {
                    ("title" | "description", Value::String(text)) => {
                        screen_message(text)?;
                        let shown = visible(text);
                        is_changed |= shown != *text;
                        *text = shown;
                    }
                    (_, value) => is_changed |= show_schema(value, depth + 1)?,
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                is_changed |= show_schema(value, depth + 1)?;
            }
        }
        Value::String(text) => {
            if let Some(hidden) = hides(text) {
                return Err(hidden);
            }
        }
        _ => {}
    }
    Ok(is_changed)
}

/// Returns the error for a name or value with hidden characters. Joiners and variation selectors of emoji do not count.
fn hides(text: &str) -> Option<ElicitationError> {
    let hidden = |letter: char| is_hidden(letter) && !matches!(letter, '\u{fe0f}' | '\u{200d}' | '\n' | '\t');
    text.chars().any(hidden).then(|| ElicitationError::Hidden(visible_line(text)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn url(url: &str) -> Result<ElicitUrlParams, ElicitationError> {
        screen_url(ElicitUrlParams::new("Sign in.", url))
    }

    #[test]
    fn only_pages_of_the_web_are_places_to_go_to() {
        for refused in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "http://example.com/",
            "https://user@example.com/",
            "https://exa\u{202e}mple.com/",
            "https://example.com/\u{200b}x",
            "https://раураl.com/",
            "https://аррӏе.com/",
            "https://xn--80ak6aa92e.com/",
            "cursor://x",
            "",
        ] {
            assert!(url(refused).is_err(), "{refused}");
        }
        for passed in
            ["https://example.com/a?b=c", "http://127.0.0.1:8080/", "http://localhost/x", "http://[::1]/"]
        {
            assert_eq!(url(passed).unwrap().url, passed);
        }
        let shown = url("https://bücher.example/").unwrap();
        assert_eq!(shown.url, "https://xn--bcher-kva.example/");
        assert!(shown.message.contains("xn--bcher-kva.example"), "{}", shown.message);
    }

    #[test]
    fn a_question_of_our_own_is_not_imitated() {
        for refused in [
            "May I call the tool `delete` of the server `files`?",
            "may  i\ncall the tool `x` of  the server `files`",
            "Мay I call the tool `x` of the server `files`",
            "M\u{200b}ay I read `x` of the server `files`?",
            "x\n\nAsked because: a rule",
        ] {
            assert_eq!(screen_message(refused), Err(ElicitationError::Imitation), "{refused}");
        }
        assert!(screen_message("May I read your calendar?").is_ok());
        assert_eq!(screen_message("Where to\u{202e}?").unwrap(), "Where to\\u{202e}?");
    }
}
