//! Negotiation of the revision with an unknown server. The client probes for the modern era first; any response that is
//! not modern means a legacy server.
//!
//! ```text
//!                 ┌─ discovered ───────────────────────────────────────► NegotiatedRevision (modern)
//!  Discover ──────┼─ -32022, a modern revision in common ─► Discover ┄┄┄► (at most MAX_RETRIES)
//!   ▲  (probe)    ├─ exited ─► Respawn ─┐ (once)
//!   │             └─ anything else ─────┴► Initialize ── initialized ──► NegotiatedRevision (legacy)
//!   └── an error that names a modern revision, or a remembered era that ┤ ▲
//!       proved wrong                                                    │ │ opened
//!                                      no message, status 400, 404, 405 └► OpenSse (once)
//! ```
//!
//! A remembered era starts in its own state; a pinned revision never leaves it. A probe costs at most one restart: a
//! process that did not understand it gets `initialize` before it is given up.

use std::time::Duration;

use hospes_model::{Era, Revision, RpcError, code};
use serde::Deserialize;

/// Time to wait for the response of a modern server to a probe.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum number of times that a server may name another revision instead of answering.
pub const MAX_RETRIES: u32 = 3;

/// Next step for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "drivers must handle every step")]
pub enum NegotiationStep {
    /// Send `server/discover` in this revision.
    Discover {
        /// Revision of the request.
        revision: Revision,
        /// Time to wait.
        patience: ResponseWait,
    },
    /// Send `initialize` for this revision. Over stdio it goes to the running process.
    Initialize {
        /// Revision to request.
        revision: Revision,
        /// Time to wait.
        patience: ResponseWait,
    },
    /// Restart the server.
    Respawn,
    /// Open a stream of the older HTTP+SSE at the same URL and use it from then on (SSE-11, SSE-12).
    OpenSse,
    /// The negotiation has succeeded with this revision.
    Agreed(NegotiatedRevision),
    /// The negotiation has failed.
    Failed(NegotiationError),
}

/// Time to wait for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "drivers must know each")]
pub enum ResponseWait {
    /// [`PROBE_TIMEOUT`]. No response is a valid outcome too.
    Probe,
    /// Half of the time limit for connecting, because there is another way to try.
    Half,
    /// The whole time limit for connecting.
    Full,
}

/// Result of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain data for the driver")]
pub struct NegotiatedRevision {
    /// Agreed revision.
    pub revision: Revision,
    /// True if the description of the server is known: a pinned modern server need not have `server/discover`.
    pub described: bool,
}

/// Reasons the negotiation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is explained in its own way")]
pub enum NegotiationError {
    /// The server supports none of the client's revisions. Its own are listed as received.
    NothingInCommon(Vec<String>),
    /// The server responded to the last step with an error.
    Refused(RpcError),
    /// The server did not respond.
    Silent,
    /// The server's process ended.
    Exited,
    /// The server requires authorization (401, 403).
    Unauthorized(u16),
    /// The server responded with this status and no message, and does not support the older HTTP+SSE either.
    NoTransport(u16),
    /// The server responded with this status and no message.
    Status(u16),
    /// The server could not be reached.
    Unreachable,
}

/// Outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "everything that can come of a step")]
pub enum NegotiationOutcome {
    /// A `DiscoverResult`, with its `supportedVersions`.
    Discovered(Vec<String>),
    /// An `InitializeResult`, with its `protocolVersion`.
    Initialized(String),
    /// A JSON-RPC error, whatever the HTTP status and with or without an id.
    Error(RpcError),
    /// An HTTP status without a message, or with a body that is not a response.
    Status(u16),
    /// No response within the time of [`ResponseWait`].
    Silence,
    /// The process ended.
    Exited,
    /// No connection could be opened.
    Unreachable,
    /// [`NegotiationStep::Respawn`] is done.
    Respawned,
    /// [`NegotiationStep::OpenSse`] is done. If the stream cannot be opened, the outcome is the status or another one.
    SseOpened,
}

/// State machine that negotiates the revision.
#[derive(Debug)]
pub struct Negotiation {
    pinned: Option<Revision>,
    known: Option<Era>,
    step: NegotiationStep,
    retries: u32,
    respawned: bool,
    /// State of the probe, if there was one.
    probe: Option<ProbeProgress>,
    sse: SseFallback,
}

/// Knowledge about the older HTTP+SSE transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SseFallback {
    Untried,
    /// Tried after this status of the newer transport.
    Tried(u16),
    /// Remembered from an earlier connection.
    Remembered,
    Open,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeProgress {
    Silent,
    Answered,
}

impl Negotiation {
    /// Starts a negotiation. `pinned` allows one revision only; `known` is the era found the last time.
    #[must_use]
    pub fn new(pinned: Option<Revision>, known: Option<Era>) -> Self {
        let step = first_step(pinned, known);
        Self { pinned, known, step, retries: 0, respawned: false, probe: None, sse: SseFallback::Untried }
    }

    /// Starts with the older HTTP+SSE transport, which was found the last time. If that fails, the negotiation starts
    /// over. This transport has no modern revision.
    #[must_use]
    pub fn with_sse(mut self) -> Self {
        if self.pinned.is_none_or(Revision::is_legacy) {
            self.sse = SseFallback::Remembered;
            self.step = NegotiationStep::OpenSse;
        }
        self
    }

    /// Returns true if the older HTTP+SSE transport is in use.
    #[must_use]
    pub fn is_over_sse(&self) -> bool {
        self.sse == SseFallback::Open
    }

    /// Returns the next step. It stays the same until [`Negotiation::handle_outcome`] is called.
    #[must_use]
    pub fn poll_step(&self) -> &NegotiationStep {
        &self.step
    }

    /// Handles the outcome of the current step.
    pub fn handle_outcome(&mut self, outcome: NegotiationOutcome) {
        self.step = match self.step {
            NegotiationStep::Agreed(_) | NegotiationStep::Failed(_) => return,
            _ if outcome == NegotiationOutcome::Unreachable => {
                NegotiationStep::Failed(NegotiationError::Unreachable)
            }
            NegotiationStep::Discover { revision, .. } => self.after_discover(revision, outcome),
            NegotiationStep::Initialize { revision, .. } => self.after_initialize(revision, outcome),
            NegotiationStep::Respawn => initialize(ResponseWait::Full),
            NegotiationStep::OpenSse => self.after_sse(&outcome),
        };
    }

    fn after_sse(&mut self, outcome: &NegotiationOutcome) -> NegotiationStep {
        // Set to `Refused` until it has opened, so that no later status leads here a second time.
        match (outcome, std::mem::replace(&mut self.sse, SseFallback::Refused)) {
            (NegotiationOutcome::SseOpened, _) => {
                self.sse = SseFallback::Open;
                initialize_in(self.pinned.unwrap_or(Revision::LATEST_LEGACY), ResponseWait::Full)
            }
            (NegotiationOutcome::Status(status @ (401 | 403)), _) => {
                NegotiationStep::Failed(NegotiationError::Unauthorized(*status))
            }
            (_, SseFallback::Tried(status)) => NegotiationStep::Failed(NegotiationError::NoTransport(status)),
            _ => first_step(self.pinned, None),
        }
    }

    fn after_discover(&mut self, revision: Revision, outcome: NegotiationOutcome) -> NegotiationStep {
        let silent = matches!(outcome, NegotiationOutcome::Silence);
        self.probe = Some(if silent { ProbeProgress::Silent } else { ProbeProgress::Answered });
        match outcome {
            NegotiationOutcome::Discovered(supported) => match self.best(&supported) {
                Some(revision) if revision.is_legacy() => initialize_in(revision, ResponseWait::Full),
                Some(revision) => NegotiationStep::Agreed(NegotiatedRevision { revision, described: true }),
                None => NegotiationStep::Failed(NegotiationError::NothingInCommon(supported)),
            },
            // A known error of the modern era: the server is modern, whatever it rejects.
            NegotiationOutcome::Error(error) if error.code == code::UNSUPPORTED_VERSION => {
                let supported = supported(&error);
                self.retries += 1;
                match self.best(&supported) {
                    Some(_) if self.retries > MAX_RETRIES => {
                        NegotiationStep::Failed(NegotiationError::Refused(error))
                    }
                    // Even if it is the revision just used, because the server asks for it.
                    Some(revision) if !revision.is_legacy() => {
                        NegotiationStep::Discover { revision, patience: ResponseWait::Full }
                    }
                    Some(revision) => initialize_in(revision, ResponseWait::Full),
                    None => NegotiationStep::Failed(NegotiationError::NothingInCommon(supported)),
                }
            }
            NegotiationOutcome::Error(error)
                if matches!(error.code, code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY) =>
            {
                NegotiationStep::Failed(NegotiationError::Refused(error))
            }
            NegotiationOutcome::Status(status @ (401 | 403)) => {
                NegotiationStep::Failed(NegotiationError::Unauthorized(status))
            }
            // Response of a server that lacks only this method but is known to be modern.
            NegotiationOutcome::Error(error)
                if self.pinned.is_some() && error.code == code::METHOD_NOT_FOUND =>
            {
                NegotiationStep::Agreed(NegotiatedRevision { revision, described: false })
            }
            NegotiationOutcome::Error(error) if self.pinned.is_some() => {
                NegotiationStep::Failed(NegotiationError::Refused(error))
            }
            NegotiationOutcome::Status(status) if self.pinned.is_some() => {
                NegotiationStep::Failed(NegotiationError::Status(status))
            }
            NegotiationOutcome::Silence if self.pinned.is_some() => {
                NegotiationStep::Failed(NegotiationError::Silent)
            }
            NegotiationOutcome::Exited if self.pinned.is_some() => {
                NegotiationStep::Failed(NegotiationError::Exited)
            }
            NegotiationOutcome::Exited => self.respawn(),
            NegotiationOutcome::Silence => initialize(ResponseWait::Half),
            // Independent of the error code: any other response is not modern.
            _ => initialize(ResponseWait::Full),
        }
    }

    fn after_initialize(&mut self, asked: Revision, outcome: NegotiationOutcome) -> NegotiationStep {
        match outcome {
            NegotiationOutcome::Initialized(version) => match version.parse::<Revision>() {
                Ok(revision) if self.pinned.is_none_or(|pin| pin == revision) && revision.is_legacy() => {
                    NegotiationStep::Agreed(NegotiatedRevision { revision, described: true })
                }
                _ => NegotiationStep::Failed(NegotiationError::NothingInCommon(vec![version])),
            },
            NegotiationOutcome::Error(error) => {
                let supported = supported(&error);
                match self.best(&supported) {
                    Some(revision) if revision != asked && self.retries < MAX_RETRIES => {
                        self.retries += 1;
                        if revision.is_legacy() {
                            initialize_in(revision, ResponseWait::Full)
                        } else {
                            NegotiationStep::Discover { revision, patience: ResponseWait::Full }
                        }
                    }
                    None if !supported.is_empty() => {
                        NegotiationStep::Failed(NegotiationError::NothingInCommon(supported))
                    }
                    // It may be modern after all: the remembered era was wrong, or the probe came too early.
                    _ if self.pinned.is_none() && self.may_probe_again() => {
                        self.retries += 1;
                        discover(ResponseWait::Full)
                    }
                    _ => NegotiationStep::Failed(NegotiationError::Refused(error)),
                }
            }
            NegotiationOutcome::Status(status @ (401 | 403)) => {
                NegotiationStep::Failed(NegotiationError::Unauthorized(status))
            }
            // Without a probe so far, the remembered era may be wrong.
            NegotiationOutcome::Status(_)
                if self.pinned.is_none() && self.known.is_some() && self.probe.is_none() =>
            {
                discover(ResponseWait::Full)
            }
            NegotiationOutcome::Status(status) if may_be_sse(status, asked) => match self.sse {
                SseFallback::Untried => {
                    self.sse = SseFallback::Tried(status);
                    NegotiationStep::OpenSse
                }
                _ => NegotiationStep::Failed(NegotiationError::NoTransport(status)),
            },
            NegotiationOutcome::Status(status) => NegotiationStep::Failed(NegotiationError::Status(status)),
            // The probe may have confused the process: a new one gets `initialize` as its first message.
            NegotiationOutcome::Silence
                if self.probe == Some(ProbeProgress::Silent)
                    && !self.respawned
                    && self.sse != SseFallback::Open =>
            {
                self.respawn()
            }
            NegotiationOutcome::Silence => NegotiationStep::Failed(NegotiationError::Silent),
            NegotiationOutcome::Exited if self.probe.is_some() => self.respawn(),
            _ => NegotiationStep::Failed(NegotiationError::Exited),
        }
    }

    fn may_probe_again(&self) -> bool {
        self.retries == 0 && self.probe != Some(ProbeProgress::Answered) && self.sse != SseFallback::Open
    }

    fn respawn(&mut self) -> NegotiationStep {
        if std::mem::replace(&mut self.respawned, true) || self.sse == SseFallback::Open {
            NegotiationStep::Failed(NegotiationError::Exited)
        } else {
            NegotiationStep::Respawn
        }
    }

    /// Returns the newest revision that both sides support.
    fn best(&self, supported: &[String]) -> Option<Revision> {
        let common = supported.iter().filter_map(|version| version.parse::<Revision>().ok());
        common.filter(|revision| self.pinned.is_none_or(|pin| pin == *revision)).max()
    }
}

/// Returns the first step of the negotiation.
fn first_step(pinned: Option<Revision>, known: Option<Era>) -> NegotiationStep {
    match (pinned, known) {
        (Some(revision), _) if revision.is_legacy() => initialize_in(revision, ResponseWait::Full),
        (Some(revision), _) => NegotiationStep::Discover { revision, patience: ResponseWait::Full },
        (None, Some(Era::Legacy)) => initialize(ResponseWait::Full),
        (None, Some(Era::Modern)) => discover(ResponseWait::Full),
        (None, None) => discover(ResponseWait::Probe),
    }
}

/// Returns true if the server may support the older HTTP+SSE. It has answered `initialize` with this status and without
/// a message. Up to 2025-06-18 every 4xx status counts (SSE-11), from 2025-11-25 on these three (SSE-12).
fn may_be_sse(status: u16, asked: Revision) -> bool {
    matches!(status, 400 | 404 | 405) || ((400..500).contains(&status) && asked < Revision::V2025_11_25)
}

fn discover(patience: ResponseWait) -> NegotiationStep {
    NegotiationStep::Discover { revision: Revision::LATEST, patience }
}

fn initialize(patience: ResponseWait) -> NegotiationStep {
    initialize_in(Revision::LATEST_LEGACY, patience)
}

fn initialize_in(revision: Revision, patience: ResponseWait) -> NegotiationStep {
    NegotiationStep::Initialize { revision, patience }
}

/// Returns the revisions listed in `data.supported` of an error.
fn supported(error: &RpcError) -> Vec<String> {
    #[derive(Deserialize)]
    struct SupportedVersionsPeek {
        supported: Vec<String>,
    }
    let data = error.data.as_ref().and_then(|data| data.decode::<SupportedVersionsPeek>().ok());
    data.map(|data| data.supported).unwrap_or_default()
}

#[cfg(test)]
#[path = "era_tests.rs"]
mod tests;
