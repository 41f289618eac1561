//! Authentication of callers, and the checks of host and origin that precede all routes.
//!
//! A browser sends a cookie of `127.0.0.1` to every port there, and takes every port there for the same site. So the cookie
//! alone opens nothing: with it goes a key, which lies where only pages of our own origin find it, port and all.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hospes_host::callers::{CallerLookupError, LocalCaller as Known};
use hospes_host::deciders::Decider;
use hospes_proto::http::AllowedHosts;
use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::Console;
use crate::api::ApiError;

/// Header in which the console's pages send the key of their session.
pub(crate) const SESSION_KEY_HEADER: &str = "x-hospes-key";

/// Authenticated caller.
#[derive(Clone, Debug)]
pub(crate) enum ConsoleCaller {
    /// A browser, by its session.
    Browser(String),
    /// A program of the same user, over the Unix socket: who it is, as the system says it and not the program.
    Program(Arc<Decider>),
}

impl ConsoleCaller {
    /// Describes the caller for the audit log.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Browser(id) => format!("the person at the console, browser session {id}"),
            Self::Program(decider) => decider.describe(None),
        }
    }

    pub(crate) fn session(&self) -> Option<&str> {
        match self {
            Self::Browser(id) => Some(id),
            Self::Program(_) => None,
        }
    }
}

/// Turns away what does not come from our own pages: other names (DNS rebinding), other origins, other sites.
pub(crate) async fn check_origin(request: Request, next: Next) -> Result<Response, ApiError> {
    let path = request.uri().path();
    // To open a page one may come from anywhere: a link in an application, a bookmark.
    let is_page =
        request.method() == Method::GET && !path.starts_with("/api/") && !path.starts_with("/assets/");
    check_headers(&request, is_page)?;
    Ok(next.run(request).await)
}

fn check_headers(request: &Request, is_page: bool) -> Result<(), ApiError> {
    let headers = request.headers();
    let host =
        single_header(headers, HOST.as_str())?.ok_or(ApiError::Elsewhere("the `Host` header is missing"))?;
    // A request line with another authority means two things to two readers.
    if request.uri().authority().is_some_and(|named| named.as_str() != host)
        || !AllowedHosts::loopback().allows(host)
    {
        return Err(ApiError::Elsewhere("the `Host` header must be localhost or a loopback address"));
    }
    // Compared with the port, because another port of this machine is another origin.
    if let Some(origin) = single_header(headers, ORIGIN.as_str())?
        && origin.strip_prefix("http://") != Some(host)
    {
        return Err(ApiError::Elsewhere("only pages of the console itself may send requests"));
    }
    // `same-site` is not enough, because it covers every port of this machine. Clients that do not send the
    // header are left to the other checks.
    match single_header(headers, "sec-fetch-site")? {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if is_page && single_header(headers, "sec-fetch-dest")? == Some("document") => Ok(()),
        Some(_) => Err(ApiError::Elsewhere("only pages of the console itself may send requests")),
    }
}

/// Authenticates a browser by the cookie and the key of its session.
pub(crate) async fn authenticate_browser(
    State(console): State<Console>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let headers = request.headers();
    let secret = session_cookie(headers, &console).ok_or(ApiError::NoSession)?;
    let key = single_header(headers, SESSION_KEY_HEADER)?;
    // What opens the stream of news (the path is that below `/api`) cannot send headers; there is nothing in it but that something is new.
    if key.is_none() && request.uri().path() != "/events" {
        return Err(ApiError::NoSession);
    }
    let session = console.sessions().authenticate(&secret, key).ok_or(ApiError::NoSession)?;
    request.extensions_mut().insert(ConsoleCaller::Browser(session));
    Ok(next.run(request).await)
}

/// Marks requests over the Unix socket as those of a program, unless the connection has already identified it.
pub(crate) async fn attach_program(mut request: Request, next: Next) -> Response {
    let extensions = request.extensions_mut();
    if extensions.get::<ConsoleCaller>().is_none() {
        extensions.insert(ConsoleCaller::Program(Arc::new(Decider::Unidentified)));
    }
    next.run(request).await
}

/// Description of the decider for the audit log. Extracting it rejects requests of callers that may not decide.
pub(crate) struct AuthorizedDecider(pub(crate) String);

impl FromRequestParts<Console> for AuthorizedDecider {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<ConsoleCaller>().ok_or(ApiError::NoSession)?;
        let ConsoleCaller::Program(decider) = caller else { return Ok(Self(caller.describe())) };
        let deciders = console.deciders();
        // A token that does not hold is refused even if its bearer could decide without one.
        let token = match (bearer_token(&parts.headers)?, &deciders.tokens) {
            (Some(secret), Some(tokens)) => Some(tokens.name_of(secret).ok_or(ApiError::NoToken)?),
            (Some(_), None) => return Err(ApiError::NoToken),
            (None, _) => None,
        };
        let allowed = decider.check(deciders.from, token.as_deref());
        allowed.inspect_err(|why| tracing::warn!(who = decider.describe(None), %why, "decision refused"))?;
        Ok(Self(decider.describe(token.as_deref())))
    }
}

/// The secret that a program shows.
fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(text) = single_header(headers, AUTHORIZATION.as_str())? else { return Ok(None) };
    let (scheme, secret) = text.split_once(' ').ok_or(ApiError::NoToken)?;
    // The names of schemes are case-insensitive (RFC 9110 §11.1).
    scheme.eq_ignore_ascii_case("bearer").then_some(Some(secret.trim())).ok_or(ApiError::NoToken)
}

/// The client of a connection over the Unix socket; none for those it does not serve: another user, or a server that a host has
/// started.
pub(crate) fn identify_peer(pid: Option<u32>, uid: u32, own: u32) -> Option<ConsoleCaller> {
    // Root is let in, because it can do everything as this user anyway.
    if uid != own && uid != 0 {
        return None;
    }
    let known = pid.ok_or(CallerLookupError::System).and_then(|pid| Known::of_process(pid, uid));
    let decider = match known {
        Ok(known) if known.is_server => {
            tracing::warn!(%known, "console socket refused a connection from a server that a host has started");
            return None;
        }
        Ok(known) => Decider::of(&known),
        // Nothing says it on this system.
        Err(CallerLookupError::System) => Decider::Unidentified,
        // It is gone already, or hides.
        Err(_) => return None,
    };
    Some(ConsoleCaller::Program(Arc::new(decider)))
}

/// A header that stands at most once and is text.
fn single_header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    // Of two values two readers may take different ones, which is how checks are bypassed.
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => {
            one.to_str().map(Some).map_err(|_| ApiError::Elsewhere("a header is not plain ASCII text"))
        }
        (Some(_), Some(_)) => Err(ApiError::Elsewhere("duplicate header")),
    }
}

/// Returns the name of the session cookie. It contains the port, because cookies do not depend on the port and a
/// machine may have several consoles.
pub(crate) fn cookie_name(console: &Console) -> String {
    format!("hospes-console-{}", console.address().port())
}

fn session_cookie(headers: &HeaderMap, console: &Console) -> Option<String> {
    let wanted = cookie_name(console);
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = cookies.find(|(name, _)| *name == wanted)?;
    Some(value.to_owned())
}
