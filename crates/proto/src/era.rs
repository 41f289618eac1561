//! Negotiation of the revision with an unknown server. The client asks the modern way first; any answer that is not
//! modern means a server of the legacy era.
//!
//! ```text
//!                 ┌─ discovered ───────────────────────────────────────► Agreed (modern)
//!  Discover ──────┼─ -32022, a modern revision in common ─► Discover ┄┄┄► (at most MAX_RETRIES)
//!   ▲  (probe)    ├─ exited ─► Respawn ─┐ (once)
//!   │             └─ anything else ─────┴► Initialize ── initialized ──► Agreed (legacy)
//!   └── an error that names a modern revision, or a remembered era that ┤ ▲
//!       proved wrong                                                    │ │ opened
//!                                      no message, status 400, 404, 405 └► OpenSse (once)
//! ```
//!
//! A remembered era starts at its own state; a pinned revision never leaves it. A probe never costs more than one
//! restart: the process that did not understand it is asked again the old way before it is given up.

use std::time::Duration;

use hospes_model::{Era, Revision, RpcError, code};
use serde::Deserialize;

/// Time to wait for the response of a modern server to a probe.
pub const PROBE_PATIENCE: Duration = Duration::from_secs(4);
/// Maximum number of times that a server may name another revision instead of answering.
pub const MAX_RETRIES: u32 = 3;

/// Next step for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "drivers must handle every step")]
pub enum Step {
    /// Ask `server/discover` in this revision.
    Discover {
        /// The revision it is asked in.
        revision: Revision,
        /// Time to wait.
        patience: Patience,
    },
    /// Ask `initialize` for this revision. Over stdio it goes to the process that is there.
    Initialize {
        /// The revision to ask for.
        revision: Revision,
        /// Time to wait.
        patience: Patience,
    },
    /// Start the server again.
    Respawn,
    /// Open a stream of the older HTTP+SSE at the same URL; what follows goes over that (SSE-11, SSE-12).
    OpenSse,
    /// Speak this revision.
    Agreed(Agreed),
    /// Give up.
    Failed(Failure),
}

/// Time to wait for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "drivers must know each")]
pub enum Patience {
    /// [`PROBE_PATIENCE`]: silence is an answer too.
    Probe,
    /// Half of the time there is for connecting: there is another way to try.
    Half,
    /// All the time there is for connecting.
    Full,
}

/// Result of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain data for the driver")]
pub struct Agreed {
    /// The revision to speak.
    pub revision: Revision,
    /// True if the description of the server is known: a pinned modern server need not have `server/discover`.
    pub described: bool,
}

/// Reasons the negotiation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is explained in its own way")]
pub enum Failure {
    /// The server supports none of the client's revisions; these are its own, as it spells them.
    NothingInCommon(Vec<String>),
    /// The server answered the last step with an error.
    Refused(RpcError),
    /// The server said nothing.
    Silent,
    /// The server's process ended.
    Exited,
    /// The server wants to know who is there (401, 403).
    Unauthorized(u16),
    /// The server answered with this status and no message; it speaks the older HTTP+SSE as little.
    NoTransport(u16),
    /// The server answered with this status and no message.
    Status(u16),
    /// There is no way to the server.
    Unreachable,
}

/// Outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "everything that can come of a step")]
pub enum Outcome {
    /// A `DiscoverResult`, with its `supportedVersions`.
    Discovered(Vec<String>),
    /// An `InitializeResult`, with its `protocolVersion`.
    Initialized(String),
    /// A JSON-RPC error, whatever the HTTP status and with or without an id.
    Error(RpcError),
    /// An HTTP status without a message, or with a body that is not an answer.
    Status(u16),
    /// Nothing, for as long as [`Patience`] said.
    Silence,
    /// The process ended.
    Exited,
    /// No connection could be opened.
    Unreachable,
    /// The step [`Step::Respawn`] was done.
    Respawned,
    /// The step [`Step::OpenSse`] was done. Where it cannot be, the outcome is the status, or any other.
    SseOpened,
}

/// Finds the revision to speak.
#[derive(Debug)]
pub struct Negotiation {
    pinned: Option<Revision>,
    known: Option<Era>,
    step: Step,
    retries: u32,
    respawned: bool,
    /// State of the probe, if there was one.
    probe: Option<Probe>,
    sse: Sse,
}

/// Knowledge about the older HTTP+SSE transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sse {
    Untried,
    /// This status of the newer transport led there.
    Tried(u16),
    /// It was remembered.
    Remembered,
    Open,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Silent,
    Answered,
}

impl Negotiation {
    /// Begins. `pinned` allows one revision only; `known` is the era that was found the last time.
    #[must_use]
    pub fn new(pinned: Option<Revision>, known: Option<Era>) -> Self {
        let step = first(pinned, known);
        Self { pinned, known, step, retries: 0, respawned: false, probe: None, sse: Sse::Untried }
    }

    /// Begins with the older HTTP+SSE, which was found the last time. If that proves wrong, everything is found out
    /// again. It has no modern revision.
    #[must_use]
    pub fn with_sse(mut self) -> Self {
        if self.pinned.is_none_or(Revision::is_legacy) {
            self.sse = Sse::Remembered;
            self.step = Step::OpenSse;
        }
        self
    }

    /// Returns true if the older HTTP+SSE transport is in use.
    #[must_use]
    pub fn over_sse(&self) -> bool {
        self.sse == Sse::Open
    }

    /// Returns the next step. It stays the same until [`Negotiation::handle_outcome`] is called.
    #[must_use]
    pub fn poll_step(&self) -> &Step {
        &self.step
    }

    /// Handles the outcome of the current step.
    pub fn handle_outcome(&mut self, outcome: Outcome) {
        self.step = match self.step {
            Step::Agreed(_) | Step::Failed(_) => return,
            _ if outcome == Outcome::Unreachable => Step::Failed(Failure::Unreachable),
            Step::Discover { revision, .. } => self.after_discover(revision, outcome),
            Step::Initialize { revision, .. } => self.after_initialize(revision, outcome),
            Step::Respawn => initialize(Patience::Full),
            Step::OpenSse => self.after_sse(&outcome),
        };
    }

    fn after_sse(&mut self, outcome: &Outcome) -> Step {
        match (outcome, std::mem::replace(&mut self.sse, Sse::Refused)) {
            (Outcome::SseOpened, _) => {
                self.sse = Sse::Open;
                initialize_in(self.pinned.unwrap_or(Revision::LATEST_LEGACY), Patience::Full)
            }
            (Outcome::Status(status @ (401 | 403)), _) => Step::Failed(Failure::Unauthorized(*status)),
            (_, Sse::Tried(status)) => Step::Failed(Failure::NoTransport(status)),
            _ => first(self.pinned, None),
        }
    }

    fn after_discover(&mut self, revision: Revision, outcome: Outcome) -> Step {
        let silent = matches!(outcome, Outcome::Silence);
        self.probe = Some(if silent { Probe::Silent } else { Probe::Answered });
        match outcome {
            Outcome::Discovered(supported) => match self.best(&supported) {
                Some(revision) if revision.is_legacy() => initialize_in(revision, Patience::Full),
                Some(revision) => Step::Agreed(Agreed { revision, described: true }),
                None => Step::Failed(Failure::NothingInCommon(supported)),
            },
            // A recognised modern error: the server is modern whatever it dislikes.
            Outcome::Error(error) if error.code == code::UNSUPPORTED_VERSION => {
                let supported = supported(&error);
                self.retries += 1;
                match self.best(&supported) {
                    Some(_) if self.retries > MAX_RETRIES => Step::Failed(Failure::Refused(error)),
                    // Even when it is the one just used: the server says so.
                    Some(revision) if !revision.is_legacy() => {
                        Step::Discover { revision, patience: Patience::Full }
                    }
                    Some(revision) => initialize_in(revision, Patience::Full),
                    None => Step::Failed(Failure::NothingInCommon(supported)),
                }
            }
            Outcome::Error(error)
                if matches!(error.code, code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY) =>
            {
                Step::Failed(Failure::Refused(error))
            }
            Outcome::Status(status @ (401 | 403)) => Step::Failed(Failure::Unauthorized(status)),
            // The answer of a server that lacks only this method, when it is known to be modern.
            Outcome::Error(error) if self.pinned.is_some() && error.code == code::METHOD_NOT_FOUND => {
                Step::Agreed(Agreed { revision, described: false })
            }
            Outcome::Error(error) if self.pinned.is_some() => Step::Failed(Failure::Refused(error)),
            Outcome::Status(status) if self.pinned.is_some() => Step::Failed(Failure::Status(status)),
            Outcome::Silence if self.pinned.is_some() => Step::Failed(Failure::Silent),
            Outcome::Exited if self.pinned.is_some() => Step::Failed(Failure::Exited),
            Outcome::Exited => self.respawn(),
            Outcome::Silence => initialize(Patience::Half),
            // Never keyed to one code: whatever it says, it is no modern answer.
            _ => initialize(Patience::Full),
        }
    }

    fn after_initialize(&mut self, asked: Revision, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Initialized(version) => match version.parse::<Revision>() {
                Ok(revision) if self.pinned.is_none_or(|pin| pin == revision) && revision.is_legacy() => {
                    Step::Agreed(Agreed { revision, described: true })
                }
                _ => Step::Failed(Failure::NothingInCommon(vec![version])),
            },
            Outcome::Error(error) => {
                let supported = supported(&error);
                match self.best(&supported) {
                    Some(revision) if revision != asked && self.retries < MAX_RETRIES => {
                        self.retries += 1;
                        if revision.is_legacy() {
                            initialize_in(revision, Patience::Full)
                        } else {
                            Step::Discover { revision, patience: Patience::Full }
                        }
                    }
                    None if !supported.is_empty() => Step::Failed(Failure::NothingInCommon(supported)),
                    // It may be modern after all: the remembered era was wrong, or the probe came too early.
                    _ if self.pinned.is_none() && self.may_probe_again() => {
                        self.retries += 1;
                        discover(Patience::Full)
                    }
                    _ => Step::Failed(Failure::Refused(error)),
                }
            }
            Outcome::Status(status @ (401 | 403)) => Step::Failed(Failure::Unauthorized(status)),
            Outcome::Status(_) if self.pinned.is_none() && self.known.is_some() && self.probe.is_none() => {
                discover(Patience::Full)
            }
            Outcome::Status(status) if may_be_sse(status, asked) => match self.sse {
                Sse::Untried => {
                    self.sse = Sse::Tried(status);
                    Step::OpenSse
                }
                _ => Step::Failed(Failure::NoTransport(status)),
            },
            Outcome::Status(status) => Step::Failed(Failure::Status(status)),
            Outcome::Silence
                if self.probe == Some(Probe::Silent) && !self.respawned && self.sse != Sse::Open =>
            {
                self.respawn()
            }
            Outcome::Silence => Step::Failed(Failure::Silent),
            Outcome::Exited if self.probe.is_some() => self.respawn(),
            _ => Step::Failed(Failure::Exited),
        }
    }

    fn may_probe_again(&self) -> bool {
        self.retries == 0 && self.probe != Some(Probe::Answered) && self.sse != Sse::Open
    }

    fn respawn(&mut self) -> Step {
        if std::mem::replace(&mut self.respawned, true) || self.sse == Sse::Open {
            Step::Failed(Failure::Exited)
        } else {
            Step::Respawn
        }
    }

    /// The newest revision that both sides speak.
    fn best(&self, supported: &[String]) -> Option<Revision> {
        let common = supported.iter().filter_map(|version| version.parse::<Revision>().ok());
        common.filter(|revision| self.pinned.is_none_or(|pin| pin == *revision)).max()
    }
}

/// Returns the first step of the negotiation.
fn first(pinned: Option<Revision>, known: Option<Era>) -> Step {
    match (pinned, known) {
        (Some(revision), _) if revision.is_legacy() => initialize_in(revision, Patience::Full),
        (Some(revision), _) => Step::Discover { revision, patience: Patience::Full },
        (None, Some(Era::Legacy)) => initialize(Patience::Full),
        (None, Some(Era::Modern)) => discover(Patience::Full),
        (None, None) => discover(Patience::Probe),
    }
}

/// Returns true if the server may support the older HTTP+SSE. It has answered `initialize` with this status and without
/// a message. Up to 2025-06-18 every 4xx means so (SSE-11), from 2025-11-25 on these three (SSE-12).
fn may_be_sse(status: u16, asked: Revision) -> bool {
    matches!(status, 400 | 404 | 405) || ((400..500).contains(&status) && asked < Revision::V2025_11_25)
}

fn discover(patience: Patience) -> Step {
    Step::Discover { revision: Revision::LATEST, patience }
}

fn initialize(patience: Patience) -> Step {
    initialize_in(Revision::LATEST_LEGACY, patience)
}

fn initialize_in(revision: Revision, patience: Patience) -> Step {
    Step::Initialize { revision, patience }
}

/// The revisions that an error names in `data.supported`.
fn supported(error: &RpcError) -> Vec<String> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let data = error.data.as_ref().and_then(|data| data.decode::<Data>().ok());
    data.map(|data| data.supported).unwrap_or_default()
}

#[cfg(test)]
#[path = "era_tests.rs"]
mod tests;
