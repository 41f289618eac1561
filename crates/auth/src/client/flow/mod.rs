//! One authorization, from a refusal to tokens, without I/O: what is to be done comes out, what came of it goes in.
//!
//! ```text
//! FindResource ─▶ FindServer ─▶ Register ─▶ Pending ─▶ Redeem ─▶ (tokens)
//!                     │                                  ▲
//!                     │             └──── Device ─▶ (tokens)
//!                     ├── client credentials, workload ──┤
//!                     └── Vouch (enterprise) ────────────┘
//! ```
//!
//! Each state is consumed to make the next, so nothing is used twice: no answer, no code, no verifier.

mod authorize;
mod device;
mod redeem;
mod redirect;
mod register;
mod resource;
mod server;
#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "scripts read better without ampersands")]
mod tests;
mod vouch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use self::authorize::Pending;
use self::device::Device;
use self::redeem::Redeem;
pub(super) use self::redirect::PENDING_SECONDS;
use self::register::Register;
use self::resource::FindResource;
use self::server::FindServer;
use self::vouch::Vouch;
use super::error::FlowError;
use super::proof::ProofKey;
use super::settings::{Registration, Settings};
use super::tokens::Tokens;
use crate::egress::FetchError;
use crate::exchange::without_query;
use crate::{Challenge, Issuer, RedirectUri, Request, Response, Scopes, Seed};

/// What is to be done next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// Send this; [`Input::Response`].
    Fetch(Request),
    /// Look up how this server knows us; [`Input::Registration`].
    Recall(Issuer),
    /// Be ready where answers come to, there if that is possible; [`Input::Listening`].
    Listen {
        /// Where the server expects us.
        preferred: Option<RedirectUri>,
    },
    /// Keep this, under its issuer; [`Input::Kept`].
    Keep(Box<Registration>),
    /// Bring the person there, and wait for what comes back; [`Input::Redirected`].
    Visit(Visit),
    /// Show the person a code, and go on; [`Input::Shown`].
    Show(Box<DevicePrompt>),
    /// Let so much time pass; [`Input::Waited`].
    Wait(Duration),
    /// It is done.
    Done(Box<Tokens>),
    /// It came to nothing.
    Failed(FlowError),
}

/// Where a person is sent.
#[derive(Clone)]
#[non_exhaustive]
pub struct Visit {
    /// The page. It is https, or on this machine.
    pub url: Url,
    /// Where the answer comes to.
    pub redirect_uri: RedirectUri,
    /// What the answer carries if it is to this question.
    pub state: String,
    /// Who asks them.
    pub issuer: Issuer,
    /// What for.
    pub scopes: Scopes,
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit")
            .field("url", &without_query(&self.url))
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// What a person enters, and where: on another machine than this one.
#[derive(Clone)]
#[non_exhaustive]
pub struct DevicePrompt {
    /// The page on which the code is entered. It is https, or on this machine.
    pub verification_uri: Url,
    /// The same with the code in it, to be shown as a picture or opened.
    pub verification_uri_complete: Option<Url>,
    /// The code.
    pub user_code: String,
    /// Who asks them.
    pub issuer: Issuer,
    /// What for.
    pub scopes: Scopes,
    /// Until when it can be entered, in seconds since 1970; half an hour at the most.
    pub ends_at: u64,
}

// Whoever knows the code can enter it.
impl fmt::Debug for DevicePrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevicePrompt")
            .field("verification_uri", &without_query(&self.verification_uri))
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// What came of it.
#[non_exhaustive]
pub enum Input {
    /// The response, or why there is none.
    Response(Result<Response, FetchError>),
    /// How the server knows us, if it does.
    Registration(Option<Box<Registration>>),
    /// Where answers come to.
    Listening(RedirectUri),
    /// It is kept.
    Kept,
    /// The URL to which the browser was sent back.
    Redirected(String),
    /// The person has the code.
    Shown,
    /// The time has passed.
    Waited,
    /// It could not be done.
    Failed(FlowError),
}

// The URL carries the code.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Response(_) => "Response(..)",
            Self::Registration(_) => "Registration(..)",
            Self::Listening(_) => "Listening(..)",
            Self::Kept => "Kept",
            Self::Redirected(_) => "Redirected(..)",
            Self::Shown => "Shown",
            Self::Waited => "Waited",
            Self::Failed(_) => "Failed(..)",
        })
    }
}

/// What leads to an authorization.
#[derive(Clone)]
#[non_exhaustive]
pub struct Cause {
    /// The MCP endpoint.
    pub endpoint: Url,
    /// What it said when it refused.
    pub challenge: Option<Challenge>,
    /// What was asked for before and is to be asked for again: more is wanted, not something else.
    pub requested_before: Scopes,
    /// The authorization servers that know us.
    pub known: Vec<Issuer>,
    /// The key that tokens are bound to where that is wanted.
    pub proof_key: Option<Arc<ProofKey>>,
    /// The authorization server to which the given client was bound when it was first used.
    pub bound: Option<Issuer>,
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cause")
            .field("endpoint", &without_query(&self.endpoint))
            .field("challenge", &self.challenge)
            .field("requested_before", &self.requested_before)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl Cause {
    /// An endpoint that refused.
    #[must_use]
    pub fn new(endpoint: Url, challenge: Option<Challenge>) -> Self {
        Self {
            endpoint,
            challenge,
            requested_before: Scopes::none(),
            known: Vec::new(),
            proof_key: None,
            bound: None,
        }
    }
}

/// One authorization.
#[derive(Debug)]
pub struct Flow {
    facts: Facts,
    state: State,
    effect: Effect,
}

/// What all states know.
#[derive(Debug)]
struct Facts {
    settings: Arc<Settings>,
    cause: Cause,
    seed: Seed,
    now: u64,
}

#[derive(Debug)]
enum State {
    Resource(FindResource),
    Server(Box<FindServer>),
    Register(Box<Register>),
    Pending(Box<Pending>),
    Device(Box<Device>),
    Vouch(Box<Vouch>),
    Redeem(Box<Redeem>),
    Over,
}

/// Where it goes from here.
type Next = Result<(State, Effect), FlowError>;

impl Flow {
    /// Begins, at `now` (seconds since 1970).
    #[must_use]
    pub fn new(settings: Arc<Settings>, cause: Cause, seed: Seed, now: u64) -> Self {
        let facts = Facts { settings, cause, seed, now };
        let mut flow = Self { state: State::Over, effect: Effect::Failed(FlowError::OutOfOrder), facts };
        let first = FindResource::begin(&flow.facts);
        flow.go(first);
        flow
    }

    /// What is to be done.
    #[must_use]
    pub fn poll_effect(&self) -> &Effect {
        &self.effect
    }

    /// Which authorization server was found, and its token endpoint, once that is known.
    #[must_use]
    pub fn server(&self) -> Option<(&Issuer, Url)> {
        let (issuer, token_endpoint) = match &self.state {
            State::Register(state) => state.server()?,
            State::Vouch(state) => state.server()?,
            State::Pending(state) => (&state.order.issuer, state.order.token_endpoint.clone()),
            State::Device(state) => (&state.order().issuer, state.order().token_endpoint.clone()),
            State::Redeem(state) => (&state.order().issuer, state.order().token_endpoint.clone()),
            State::Resource(_) | State::Server(_) | State::Over => return None,
        };
        Some((issuer, token_endpoint))
    }

    /// Whether the answer to the request that is to be sent may be tokens: it is worth something only once.
    pub(super) fn is_redeeming(&self) -> bool {
        match &self.state {
            State::Redeem(_) => true,
            State::Device(state) => state.is_polling(),
            _ => false,
        }
    }

    /// What came of it, at `now`. What was not asked for ends the flow.
    pub fn handle(&mut self, input: Input, now: u64) {
        self.facts.now = now;
        let facts = &mut self.facts;
        let next = match (std::mem::replace(&mut self.state, State::Over), input) {
            (State::Over, _) => return,
            (_, Input::Failed(error)) => Err(error),
            (State::Resource(state), Input::Response(response)) => state.handle(facts, response),
            (State::Server(state), Input::Response(response)) => state.handle(facts, response),
            (State::Register(state), input) => state.handle(facts, input),
            (State::Pending(state), Input::Redirected(url)) => state.handle(facts, &url),
            (State::Device(state), input) => state.handle(facts, input),
            (State::Vouch(state), Input::Response(response)) => state.handle(facts, response),
            (State::Redeem(state), Input::Response(response)) => state.handle(facts, response),
            _ => Err(FlowError::OutOfOrder),
        };
        self.go(next);
    }

    fn go(&mut self, next: Next) {
        (self.state, self.effect) = next.unwrap_or_else(|error| (State::Over, Effect::Failed(error)));
    }
}

/// The response, if there is one that is no failure of the other side.
fn usable(
    what: &'static str,
    url: &Url,
    response: Result<Response, FetchError>,
) -> Result<Response, FlowError> {
    match response {
        Err(why) => Err(FlowError::Fetch { what, url: without_query(url), why }),
        Ok(response) if response.status.is_server_error() || response.status.is_redirection() => {
            Err(FlowError::Status { what, url: without_query(url), status: response.status })
        }
        Ok(response) => Ok(response),
    }
}
