//! Plans of remotes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::answers::{AnswerProblem, LaunchAnswers};
use super::arguments::InputFiller;
use super::choice::{LaunchChoice, LaunchObstacle};
use super::permission::NetworkSuggestion;
use super::questions::{InputPlace, placed_questions};
use super::template::{Piece, pieces};
use super::text::{PlannedText, TextPart};
use super::words;
use super::{LaunchError, LaunchPlan, LaunchWarning};
use crate::entry::{RegistryRemote, ServerEntry, TransportKind, read_escape};

/// Characters that are not encoded in a path or a query (RFC 3986 §2.3). The slash is added for paths.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');

pub(super) fn plan(
    entry: &ServerEntry,
    index: usize,
    remote: &RegistryRemote,
    answers: &LaunchAnswers,
) -> Result<LaunchPlan, LaunchError> {
    if let TransportKind::Other(kind) = &remote.kind {
        return Err(LaunchError::Obstacle(LaunchObstacle::UnknownTransport(kind.clone())));
    }
    if remote.kind == TransportKind::Stdio {
        return Err(LaunchError::Obstacle(LaunchObstacle::UnknownTransport("stdio".to_owned())));
    }
    let choice = LaunchChoice::Remote(index);
    let mut filler = InputFiller::new(placed_questions(entry, choice), answers)?;
    let mut plan = LaunchPlan::empty(entry, choice, remote.kind.clone());
    plan.version = Some(entry.version.clone());
    let url = fill_url(index, remote, &mut filler)?;
    let parsed = check_url(index, &url)?;
    if hospes_http_client::is_loopback(&parsed) {
        plan.warnings.push(LaunchWarning::LoopbackUrl);
    }
    plan.sandbox.hosts.extend(parsed.host_str().map(str::to_owned));
    plan.sandbox.network = NetworkSuggestion::Elsewhere;
    plan.url = Some(url);
    for (position, header) in remote.headers.iter().enumerate() {
        let path = || format!("remotes[{index}].headers[{position}]");
        if let Some(what) = words::header_name_problem(&header.name) {
            return Err(LaunchError::Unsafe { path: path() + ".name", what: what.to_owned() });
        }
        let Some(value) = filler.values(&header.input, InputPlace::Header(position))?.into_iter().next()
        else {
            continue;
        };
        if value.reveal().chars().any(|letter| letter.is_control()) {
            // The answer may be a secret, so it is not quoted.
            let what =
                format!("the value of the header `{}` has a line break or control character", header.name);
            return Err(LaunchError::Unsafe { path: path(), what });
        }
        plan.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(&header.name));
        plan.headers.push((header.name.clone(), value));
    }
    plan.warnings.append(&mut filler.warnings);
    Ok(plan)
}

/// Part of a URL in which a variable stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Scheme,
    Host,
    Path,
    Query,
}

fn fill_url(
    index: usize,
    remote: &RegistryRemote,
    filler: &mut InputFiller<'_>,
) -> Result<PlannedText, LaunchError> {
    let mut url = PlannedText::default();
    // The template so far, which tells the part of the URL.
    let mut before = String::new();
    for piece in pieces(&remote.url) {
        match piece {
            Piece::Text(text) => {
                url.push_plain(text);
                before.push_str(text);
            }
            Piece::Variable(name) => {
                let part = part_after(&before);
                before.push('x');
                let question = filler.find(InputPlace::Url, Some(name));
                let value = match (question, remote.variables.get(name)) {
                    (Some(placed), _) => filler.texts(placed).into_iter().next(),
                    (None, Some(input)) => input.value.as_deref().map(PlannedText::plain),
                    (None, None) => {
                        return Err(LaunchError::Unsafe {
                            path: format!("remotes[{index}].url"),
                            what: format!("the variable `{{{}}}` is not declared", read_escape(name)),
                        });
                    }
                };
                let id = question.map_or(name, |placed| placed.question.id.as_str()).to_owned();
                let Some(value) = value else {
                    let what = "an answer is required".to_owned();
                    return Err(LaunchError::Answers(vec![AnswerProblem { question: id, what }]));
                };
                let value = encode(value, part)
                    .map_err(|what| LaunchError::Answers(vec![AnswerProblem { question: id, what }]))?;
                url.append(value);
            }
        }
    }
    Ok(url)
}

fn part_after(before: &str) -> UrlPart {
    let Some((_, rest)) = before.split_once("://") else { return UrlPart::Scheme };
    if rest.contains(['?', '#']) {
        UrlPart::Query
    } else if rest.contains('/') {
        UrlPart::Path
    } else {
        UrlPart::Host
    }
}

/// Encodes a value for its part of the URL, so that it cannot leave that part.
fn encode(value: PlannedText, part: UrlPart) -> Result<PlannedText, String> {
    let text = value.reveal();
    let is_right = match part {
        UrlPart::Scheme => text == "https",
        UrlPart::Host => {
            !text.is_empty()
                && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter))
        }
        UrlPart::Path => !text.split('/').any(|segment| matches!(segment, "." | "..")),
        UrlPart::Query => true,
    };
    if !is_right {
        return Err(match part {
            UrlPart::Scheme => "the URL must begin with https".to_owned(),
            UrlPart::Host => "expected the name of a host, or a part of it, and perhaps a port".to_owned(),
            _ => "the segments `.` and `..` are not allowed in a URL".to_owned(),
        });
    }
    let set = match part {
        UrlPart::Scheme | UrlPart::Host => return Ok(value),
        UrlPart::Path => PATH,
        UrlPart::Query => UNRESERVED,
    };
    let encoded = utf8_percent_encode(&text, set).to_string();
    match value.parts() {
        // A configuration refers to the secret itself, which is not encoded there.
        [TextPart::Secret { .. }] if encoded != text => {
            Err("a secret in a URL may only have letters, digits and `-._~`".to_owned())
        }
        [TextPart::Secret { .. }] => Ok(value),
        _ => Ok(PlannedText::plain(encoded)),
    }
}

/// Checks the URL after filling: https except on this machine, a host, no credentials.
fn check_url(index: usize, url: &PlannedText) -> Result<Url, LaunchError> {
    let unsafe_url = |what: String| LaunchError::Unsafe { path: format!("remotes[{index}].url"), what };
    let shown = read_escape(&url.masked());
    let text = url.reveal();
    if text.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err(unsafe_url(format!("{shown} has spaces or control characters")));
    }
    // URL parsers repair `https:///x`, `https:x` and `\`: the host would not be where the filling took it to be.
    let is_plain =
        text.split_once("://").is_some_and(|(_, rest)| !rest.starts_with('/')) && !text.contains('\\');
    if !is_plain {
        return Err(unsafe_url(format!("{shown} must have the form https://HOST/PATH")));
    }
    let parsed = Url::parse(&text).map_err(|error| unsafe_url(format!("{shown} is not a URL: {error}")))?;
    if parsed.host_str().is_none_or(str::is_empty) {
        return Err(unsafe_url(format!("{shown} has no host")));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(unsafe_url(format!("{shown} contains credentials")));
    }
    let is_local = parsed.scheme() == "http" && hospes_http_client::is_loopback(&parsed);
    if parsed.scheme() != "https" && !is_local {
        return Err(unsafe_url(format!("{shown} must begin with https://")));
    }
    Ok(parsed)
}
