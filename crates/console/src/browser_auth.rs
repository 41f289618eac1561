//! Authentication of callers, and the checks of host and origin that precede all routes.
//!
//! A browser sends a cookie of `127.0.0.1` to every port of that address and treats all its ports as the same site. So
//! the cookie alone authenticates nothing: requests also need a key, which is stored where only pages of the console's
//! own origin, including its port, can read it.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hospes_host::callers::local_socket::LocalPeer;
use hospes_host::callers::{CallerLookupError, LocalCaller as Known};
use hospes_host::deciders::{Decider, DecisionAuthor, TeamDecider};
use hospes_proto::http::AllowedHosts;
use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method};
use subtle::ConstantTimeEq as _;

use crate::api_error::ApiError;
use crate::client_quota::ConsoleClient;
use crate::console::Console;
use crate::sessions::hash_text;
use crate::team::{SESSION_COOKIE, TeamConsole, TeamPerson};

/// Header in which the console's pages send the key of their session.
pub(crate) const SESSION_KEY_HEADER: &str = "x-hospes-key";

/// Authenticated caller.
#[derive(Clone, Debug)]
pub(crate) enum ConsoleCaller {
    /// A browser, identified by its session.
    Browser(String),
    /// A person of a team, who is signed in with a browser.
    Person(Arc<TeamPerson>),
    /// A program of the same user, over the Unix socket. The system reports its identity, not the program.
    Program(Arc<LocalProgram>),
}

/// A program at the other end of the local socket.
#[derive(Debug)]
pub(crate) struct LocalProgram {
    pub(crate) decider: Decider,
    /// Id of its process, where the system reports it.
    process: Option<u32>,
}

impl ConsoleCaller {
    /// Describes the caller for the audit log.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Browser(id) => format!("the person at the console, browser session {id}"),
            Self::Person(person) => {
                format!("{}, at the console, browser session {}", person.principal, person.session)
            }
            Self::Program(program) => program.decider.describe(None),
        }
    }

    /// Returns the client whose use of limited places is counted.
    pub(crate) fn client(&self) -> ConsoleClient {
        match self {
            Self::Browser(id) => ConsoleClient::Browser(id.clone()),
            // One share for all sessions of a person.
            Self::Person(person) => ConsoleClient::Browser(person.principal.clone()),
            Self::Program(program) => match program.decider {
                Decider::Terminal { .. } => ConsoleClient::Terminal(program.process),
                _ => ConsoleClient::Program(program.process),
            },
        }
    }

    pub(crate) fn session(&self) -> Option<&str> {
        match self {
            Self::Browser(id) => Some(id),
            Self::Person(person) => Some(&person.session),
            Self::Program(_) => None,
        }
    }

    /// Returns the person of a team. `None` for callers who see everything: the person of this machine, and its programs.
    pub(crate) fn person(&self) -> Option<&TeamPerson> {
        match self {
            Self::Person(person) => Some(person),
            Self::Browser(_) | Self::Program(_) => None,
        }
    }

    /// Returns the person of a team as somebody who reads and decides approvals.
    pub(crate) fn decider(&self) -> Option<TeamDecider> {
        self.person().map(TeamPerson::decider)
    }

    /// Returns true if something of this principal may be shown to the caller.
    pub(crate) fn owns(&self, principal: Option<&str>) -> bool {
        self.person().is_none_or(|person| person.owns(principal))
    }

    /// Returns the principal to which the record that the caller reads is limited, if it is.
    pub(crate) fn record_limit(&self) -> Option<&str> {
        let person = self.person().filter(|person| !person.reads_everybody())?;
        Some(&person.principal)
    }
}

/// Rejects requests that do not come from the console's own pages: other host names (DNS rebinding), other origins,
/// other sites.
pub(crate) async fn check_origin(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let path = request.uri().path();
    // A page may be opened from anywhere, such as a link in an application or a bookmark.
    let is_page =
        request.method() == Method::GET && !path.starts_with("/api/") && !path.starts_with("/assets/");
    check_headers(&request, is_page, console.team())?;
    Ok(next.run(request).await)
}

fn check_headers(request: &Request, is_page: bool, team: Option<&TeamConsole>) -> Result<(), ApiError> {
    let headers = request.headers();
    let host =
        single_header(headers, HOST.as_str())?.ok_or(ApiError::Elsewhere("the `Host` header is missing"))?;
    // A request line with another authority than `Host` would be ambiguous.
    let is_ambiguous = request.uri().authority().is_some_and(|named| named.as_str() != host);
    let is_own = team.map_or_else(
        || AllowedHosts::loopback().allows(host),
        |team| team.authority().eq_ignore_ascii_case(host),
    );
    if is_ambiguous || !is_own {
        return Err(ApiError::Elsewhere(match team {
            None => "the `Host` header must be localhost or a loopback address",
            Some(_) => {
                "the `Host` header must be that of `console.team.public_url`; a proxy has to pass it on"
            }
        }));
    }
    // Compared including the port, because another port of this machine is another origin.
    let origin = single_header(headers, ORIGIN.as_str())?;
    let is_own = |origin: &str| match team {
        None => origin.strip_prefix("http://") == Some(host),
        Some(team) => origin == team.origin(),
    };
    // With a team, a proxy or a browser that leaves one of the headers out gets no change done.
    let is_change = team.is_some() && !matches!(*request.method(), Method::GET | Method::HEAD);
    if !origin.map_or(!is_change, is_own) {
        return Err(ApiError::Elsewhere("only pages of the console itself may send requests"));
    }
    // `same-site` is not enough, because it covers every port of this machine. Clients that do not send the
    // header are left to the other checks.
    match single_header(headers, "sec-fetch-site")? {
        Some("same-origin") => Ok(()),
        None | Some("none") if !is_change => Ok(()),
        Some(_) if is_page && single_header(headers, "sec-fetch-dest")? == Some("document") => Ok(()),
        _ => Err(ApiError::Elsewhere("only pages of the console itself may send requests")),
    }
}

/// Authenticates a browser by the cookie and the key of its session.
pub(crate) async fn authenticate_browser(
    State(console): State<Console>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if let Some(team) = console.team() {
        let secret = check_session_headers(team, &request)?;
        let person = team.authenticate(&secret).await?.ok_or(ApiError::NoPerson)?;
        request.extensions_mut().insert(ConsoleCaller::Person(person));
        return Ok(next.run(request).await);
    }
    let headers = request.headers();
    let secret = cookie(headers, &cookie_name(&console)).ok_or(ApiError::NoSession)?;
    let key = single_header(headers, SESSION_KEY_HEADER)?;
    // The browser API that opens the event stream (the path is relative to `/api`) cannot send headers. The stream only
    // says that something has changed.
    if key.is_none() && request.uri().path() != "/events" {
        return Err(ApiError::NoSession);
    }
    let session = console.sessions().authenticate(&secret, key).ok_or(ApiError::NoSession)?;
    request.extensions_mut().insert(ConsoleCaller::Browser(session));
    Ok(next.run(request).await)
}

/// Returns the secret of a person's session from its cookie. A change also needs the key of the session.
fn check_session_headers(team: &TeamConsole, request: &Request) -> Result<String, ApiError> {
    let headers = request.headers();
    let secret = cookie(headers, &team.cookie_name(SESSION_COOKIE)).ok_or(ApiError::NoPerson)?;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let key = single_header(headers, SESSION_KEY_HEADER)?.unwrap_or_default();
        if !bool::from(team_session_key(&secret).as_bytes().ct_eq(key.as_bytes())) {
            return Err(ApiError::Elsewhere(
                "the key of the session is missing or wrong; load the page again",
            ));
        }
    }
    Ok(secret)
}

/// Returns the key of a session, which pages send with each change. Only pages of the console's origin can read it.
fn team_session_key(secret: &str) -> String {
    hash_text(&format!("key of the session {secret}"))
}

/// Returns the key of the session that a request belongs to, for the page of a person.
pub(crate) fn session_key_for_page(headers: &HeaderMap, console: &Console) -> Option<String> {
    let secret = cookie(headers, &console.team()?.cookie_name(SESSION_COOKIE))?;
    Some(team_session_key(&secret))
}

/// Header with which this program says that a person uses it at a terminal. It counts where the system does not report that
/// (see [`Decider::OwnProgram`]).
pub(crate) const TERMINAL_HEADER: &str = "x-hospes-terminal";

/// Marks requests over the local socket as those of a program: the one that the connection has identified.
pub(crate) async fn attach_program(mut request: Request, next: Next) -> Response {
    let says_terminal = request.headers().get(TERMINAL_HEADER).is_some_and(|value| value == "yes");
    let extensions = request.extensions_mut();
    let program = match extensions.get::<ConsoleCaller>() {
        Some(ConsoleCaller::Program(program)) if !says_terminal => Arc::clone(program),
        Some(ConsoleCaller::Program(program)) => Arc::new(LocalProgram {
            decider: program.decider.clone().with_terminal_claim(),
            process: program.process,
        }),
        Some(ConsoleCaller::Browser(_) | ConsoleCaller::Person(_)) | None => {
            Arc::new(LocalProgram { decider: Decider::Unidentified, process: None })
        }
    };
    extensions.insert(ConsoleCaller::Program(program));
    next.run(request).await
}

/// Description of the decider for the audit log. Extracting it rejects requests of callers that may not decide.
pub(crate) struct AuthorizedDecider(pub(crate) String);

impl FromRequestParts<Console> for AuthorizedDecider {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, ApiError> {
        let AuthorizedAuthor(author) = AuthorizedAuthor::from_request_parts(parts, console).await?;
        Ok(Self(author.into_description()))
    }
}

/// Author of a decision about an approval. Extracting it rejects requests of callers that may not decide.
pub(crate) struct AuthorizedAuthor(pub(crate) DecisionAuthor);

impl FromRequestParts<Console> for AuthorizedAuthor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<ConsoleCaller>().ok_or(ApiError::NoSession)?;
        let ConsoleCaller::Program(program) = caller else {
            let by = caller.describe();
            return Ok(Self(match caller.decider() {
                Some(person) => DecisionAuthor::team_person(by, person),
                None => DecisionAuthor::person(by),
            }));
        };
        let decider = &program.decider;
        let deciders = console.deciders();
        // An invalid token is refused even if the caller could decide without one.
        let token = match (bearer_token(&parts.headers)?, &deciders.tokens) {
            (Some(secret), Some(tokens)) => Some(tokens.name_of(secret).ok_or(ApiError::NoToken)?),
            (Some(_), None) => return Err(ApiError::NoToken),
            (None, _) => None,
        };
        let allowed = decider.check(deciders.from, token.as_deref());
        allowed.inspect_err(|why| tracing::warn!(who = decider.describe(None), %why, "decision refused"))?;
        Ok(Self(decider.author(token.as_deref())))
    }
}

/// Returns the bearer token of a program.
fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(text) = single_header(headers, AUTHORIZATION.as_str())? else { return Ok(None) };
    let (scheme, secret) = text.split_once(' ').ok_or(ApiError::NoToken)?;
    // Scheme names are case-insensitive (RFC 9110 §11.1).
    scheme.eq_ignore_ascii_case("bearer").then_some(Some(secret.trim())).ok_or(ApiError::NoToken)
}

/// Identifies the client of a connection over the local socket. Returns `None` for clients that are not served: servers
/// that a host has started, and processes that cannot be inspected.
pub(crate) fn identify_peer(peer: LocalPeer) -> Option<ConsoleCaller> {
    let LocalPeer { pid, uid, .. } = peer;
    let known = pid.ok_or(CallerLookupError::System).and_then(|pid| Known::of_process(pid, uid));
    let decider = match known {
        Ok(known) if known.is_server => {
            tracing::warn!(%known, "console socket refused a connection from a server that a host has started");
            return None;
        }
        Ok(known) => Decider::of(&known),
        // This system does not report the process.
        Err(CallerLookupError::System) => Decider::Unidentified,
        // The process has ended or is hidden.
        Err(_) => return None,
    };
    Some(ConsoleCaller::Program(Arc::new(LocalProgram { decider, process: pid })))
}

/// Returns a header that may appear at most once and must be text.
fn single_header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    // With two values, two readers may use different ones, which is a way to bypass checks.
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

/// Returns the value of a cookie. Of two with the same name, neither is used, because an attacker may have planted one.
pub(crate) fn cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = cookies.filter(|(name, _)| *name == wanted);
    let (_, value) = found.next()?;
    found.next().is_none().then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Extension, Router, middleware};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    async fn description(decider: Decider, header: Option<&str>) -> String {
        let describe = async |Extension(caller): Extension<ConsoleCaller>| caller.describe();
        let program = LocalProgram { decider, process: None };
        let routes = Router::new()
            .route("/", get(describe))
            .layer(middleware::from_fn(attach_program))
            .layer(Extension(ConsoleCaller::Program(Arc::new(program))));
        let mut request = axum::http::Request::get("/");
        if let Some(value) = header {
            request = request.header(TERMINAL_HEADER, value);
        }
        let response = routes.oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn only_this_program_is_believed_to_be_at_a_terminal() {
        let own = || Decider::OwnProgram { program: "hospes".to_owned() };
        let other = Decider::Program { program: "python3".to_owned() };
        assert!(description(own(), Some("yes")).await.starts_with("the person at the terminal"));
        for (decider, header) in [(own(), None), (own(), Some("no")), (other, Some("yes"))] {
            let said = description(decider, header).await;
            assert!(said.starts_with("a program without a terminal"), "{said}");
        }
    }
}
