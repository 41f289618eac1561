//! Which revision to speak with a server nobody has spoken to: ask the modern way first, and take anything that is no
//! modern answer for a server of the older era.
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

/// How long a probe waits for a sign of a modern server.
pub const PROBE_PATIENCE: Duration = Duration::from_secs(4);
/// How often a server may name another revision instead of answering.
pub const MAX_RETRIES: u32 = 3;

/// What the driver has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "drivers must handle every step")]
pub enum Step {
    /// Ask `server/discover` in this revision.
    Discover {
        /// The revision it is asked in.
        revision: Revision,
        /// How long to wait.
        patience: Patience,
    },
    /// Ask `initialize` for this revision. Over stdio it goes to the process that is there.
    Initialize {
        /// The revision to ask for.
        revision: Revision,
        /// How long to wait.
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

/// How long to wait for the answer.
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

/// What was agreed upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain data for the driver")]
pub struct Agreed {
    /// The revision to speak.
    pub revision: Revision,
    /// Whether the server's answer is known: a pinned modern server need not have `server/discover`.
    pub described: bool,
}

/// Why there is no revision to speak.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is explained in its own way")]
pub enum Failure {
    /// The server speaks none of ours; these are its own, as it spells them.
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

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "everything that can come of a step")]
pub enum Outcome {
    /// A `DiscoverResult`, with its `supportedVersions`.
    Discovered(Vec<String>),
    /// An `InitializeResult`, with its `protocolVersion`.
    Initialized(String),
    /// A JSON-RPC error, whatever the HTTP status and with or without an id.
    Error(RpcError),
    /// An HTTP status without a message, or an answer that is none.
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
    /// What became of the probe, if there was one.
    probe: Option<Probe>,
    sse: Sse,
}

/// What is known of the older HTTP+SSE.
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

    /// Whether the older HTTP+SSE is spoken.
    #[must_use]
    pub fn over_sse(&self) -> bool {
        self.sse == Sse::Open
    }

    /// What to do next. Stays the same until [`Negotiation::handle_outcome`] is called.
    #[must_use]
    pub fn poll_step(&self) -> &Step {
        &self.step
    }

    /// What came of the step.
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

/// Where the search begins.
fn first(pinned: Option<Revision>, known: Option<Era>) -> Step {
    match (pinned, known) {
        (Some(revision), _) if revision.is_legacy() => initialize_in(revision, Patience::Full),
        (Some(revision), _) => Step::Discover { revision, patience: Patience::Full },
        (None, Some(Era::Legacy)) => initialize(Patience::Full),
        (None, Some(Era::Modern)) => discover(Patience::Full),
        (None, None) => discover(Patience::Probe),
    }
}

/// Whether a server that answers `initialize` with this status and no message may speak the older HTTP+SSE. Up to
/// 2025-06-18 every 4xx says so (SSE-11), from 2025-11-25 on these three (SSE-12).
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
mod tests {
    use super::*;

    const MODERN: Revision = Revision::V2026_07_28;
    const LEGACY: Revision = Revision::V2025_11_25;

    fn run(mut negotiation: Negotiation, outcomes: &[Outcome]) -> (Vec<Step>, Negotiation) {
        let mut steps = vec![negotiation.poll_step().clone()];
        for outcome in outcomes {
            negotiation.handle_outcome(outcome.clone());
            steps.push(negotiation.poll_step().clone());
        }
        (steps, negotiation)
    }

    fn last(pinned: Option<Revision>, known: Option<Era>, outcomes: &[Outcome]) -> Step {
        run(Negotiation::new(pinned, known), outcomes).0.pop().unwrap()
    }

    fn discovered(versions: &[&str]) -> Outcome {
        Outcome::Discovered(versions.iter().map(ToString::to_string).collect())
    }

    fn unsupported(versions: &[&str]) -> Outcome {
        let data = serde_json::json!({ "supported": versions, "requested": "2026-07-28" });
        Outcome::Error(RpcError::new(code::UNSUPPORTED_VERSION, "no").with_data(&data))
    }

    fn error(code: i64) -> Outcome {
        Outcome::Error(RpcError::new(code, "no"))
    }

    fn agreed(revision: Revision) -> Step {
        Step::Agreed(Agreed { revision, described: true })
    }

    /// covers: VER-16 DISC-04
    #[test]
    fn a_modern_server_is_found_by_the_first_question() {
        let (steps, _) = run(Negotiation::new(None, None), &[discovered(&["2026-07-28", "2025-11-25"])]);
        assert_eq!(steps, [discover(Patience::Probe), agreed(MODERN)]);
    }

    /// covers: VER-17 VER-18 VER-21 VER-01 VER-02
    #[test]
    fn anything_but_a_modern_answer_means_the_older_era() {
        let no_answers = [
            error(code::METHOD_NOT_FOUND),
            error(code::INVALID_PARAMS),
            error(code::INVALID_REQUEST),
            error(-32000),
            error(-32004),
            Outcome::Status(400),
            Outcome::Status(404),
            Outcome::Status(500),
        ];
        for outcome in no_answers {
            let step = last(None, None, std::slice::from_ref(&outcome));
            assert_eq!(step, Step::Initialize { revision: LEGACY, patience: Patience::Full }, "{outcome:?}");
        }
        let done = last(None, None, &[Outcome::Status(400), Outcome::Initialized("2025-03-26".into())]);
        assert_eq!(done, agreed(Revision::V2025_03_26));
    }

    /// covers: VER-17 VER-13
    #[test]
    fn a_server_that_names_its_revisions_is_asked_again_in_one_of_them() {
        let again = Step::Discover { revision: MODERN, patience: Patience::Full };
        assert_eq!(last(None, None, &[unsupported(&["2026-07-28"])]), again);
        let (steps, _) =
            run(Negotiation::new(None, None), &[unsupported(&["2026-07-28"]), discovered(&["2026-07-28"])]);
        assert_eq!(steps.last(), Some(&agreed(MODERN)));
        let legacy = last(None, None, &[unsupported(&["2027-01-01", "2025-06-18"])]);
        assert_eq!(legacy, Step::Initialize { revision: Revision::V2025_06_18, patience: Patience::Full });
        assert_eq!(
            last(None, None, &[unsupported(&["2027-01-01"])]),
            Step::Failed(Failure::NothingInCommon(vec!["2027-01-01".into()]))
        );
        let stubborn = vec![unsupported(&["2026-07-28"]); 1 + MAX_RETRIES as usize];
        assert!(matches!(last(None, None, &stubborn), Step::Failed(Failure::Refused(_))));
    }

    /// covers: VER-17
    #[test]
    fn a_modern_refusal_is_not_answered_the_old_way() {
        for code in [code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY] {
            assert!(matches!(last(None, None, &[error(code)]), Step::Failed(Failure::Refused(_))));
        }
        assert_eq!(last(None, None, &[Outcome::Status(401)]), Step::Failed(Failure::Unauthorized(401)));
    }

    #[test]
    fn a_server_that_dies_of_the_probe_is_started_once_more_and_never_twice() {
        let (steps, negotiation) =
            run(Negotiation::new(None, None), &[Outcome::Exited, Outcome::Respawned, Outcome::Exited]);
        assert_eq!(
            steps,
            [
                discover(Patience::Probe),
                Step::Respawn,
                initialize(Patience::Full),
                Step::Failed(Failure::Exited)
            ]
        );
        drop(negotiation);
        // One that lives through the probe and dies of initialize has its second chance too.
        let later = last(None, None, &[error(-32601), Outcome::Exited]);
        assert_eq!(later, Step::Respawn);
    }

    #[test]
    fn a_silent_server_is_asked_the_old_way_before_it_is_given_up() {
        let (steps, _) = run(
            Negotiation::new(None, None),
            &[Outcome::Silence, Outcome::Silence, Outcome::Respawned, Outcome::Silence],
        );
        assert_eq!(
            steps[1..],
            [
                initialize(Patience::Half),
                Step::Respawn,
                initialize(Patience::Full),
                Step::Failed(Failure::Silent)
            ]
        );
        // It was only slow to start, and modern: its refusal of initialize brings the probe back.
        assert_eq!(last(None, None, &[Outcome::Silence, error(-32601)]), discover(Patience::Full));
    }

    /// covers: VER-22 VER-23
    #[test]
    fn a_remembered_era_skips_the_probe_and_may_prove_wrong() {
        assert_eq!(Negotiation::new(None, Some(Era::Legacy)).poll_step(), &initialize(Patience::Full));
        assert_eq!(last(None, Some(Era::Legacy), &[error(-32601)]), discover(Patience::Full));
        assert_eq!(last(None, Some(Era::Legacy), &[Outcome::Status(400)]), discover(Patience::Full));
        let twice = [error(-32601), error(-32601), error(-32601)];
        assert!(matches!(last(None, Some(Era::Legacy), &twice), Step::Failed(Failure::Refused(_))));
        assert_eq!(last(None, Some(Era::Modern), &[error(-32601)]), initialize(Patience::Full));
    }

    /// covers: VER-06 VER-19
    #[test]
    fn a_pinned_revision_is_spoken_or_nothing() {
        let pin = Some(Revision::V2025_06_18);
        let asked = Step::Initialize { revision: Revision::V2025_06_18, patience: Patience::Full };
        assert_eq!(Negotiation::new(pin, None).poll_step(), &asked);
        assert_eq!(
            last(pin, None, &[Outcome::Initialized("2025-06-18".into())]),
            agreed(Revision::V2025_06_18)
        );
        assert!(matches!(
            last(pin, None, &[Outcome::Initialized("2025-11-25".into())]),
            Step::Failed(Failure::NothingInCommon(_))
        ));
        assert!(matches!(last(pin, None, &[error(-32601)]), Step::Failed(Failure::Refused(_))));
        let modern = Some(MODERN);
        assert!(matches!(last(modern, None, &[error(-32600)]), Step::Failed(Failure::Refused(_))));
        assert_eq!(last(modern, None, &[Outcome::Silence]), Step::Failed(Failure::Silent));
        assert_eq!(
            last(modern, None, &[error(-32601)]),
            Step::Agreed(Agreed { revision: MODERN, described: false })
        );
    }

    /// covers: VER-06 VER-24 LIFE-14
    #[test]
    fn initialize_follows_what_the_server_names() {
        let named = RpcError::invalid_params("no")
            .with_data(&serde_json::json!({ "supported": ["2024-11-05", "2025-03-26"] }));
        assert_eq!(
            last(None, Some(Era::Legacy), &[Outcome::Error(named)]),
            Step::Initialize { revision: Revision::V2025_03_26, patience: Patience::Full }
        );
        assert_eq!(
            last(None, Some(Era::Legacy), &[unsupported(&["2026-07-28"])]),
            Step::Discover { revision: MODERN, patience: Patience::Full }
        );
        for version in ["2023-01-01", "", "2026-07-28"] {
            let step = last(None, Some(Era::Legacy), &[Outcome::Initialized(version.into())]);
            assert!(matches!(step, Step::Failed(Failure::NothingInCommon(_))), "{version}");
        }
    }

    #[test]
    fn what_cannot_be_reached_is_not_asked_another_way() {
        assert_eq!(last(None, None, &[Outcome::Unreachable]), Step::Failed(Failure::Unreachable));
        let later = last(None, None, &[Outcome::Status(404), Outcome::Unreachable]);
        assert_eq!(later, Step::Failed(Failure::Unreachable));
    }

    /// covers: SSE-12
    #[test]
    fn the_oldest_transport_is_tried_where_the_newer_one_is_not_spoken() {
        let opened = initialize(Patience::Full);
        for status in [400, 404, 405] {
            let before = [Outcome::Status(404), Outcome::Status(status)];
            assert_eq!(last(None, None, &before), Step::OpenSse);
            let [a, b] = before;
            let (steps, negotiation) = run(
                Negotiation::new(None, None),
                &[a.clone(), b.clone(), Outcome::SseOpened, Outcome::Initialized("2024-11-05".into())],
            );
            assert_eq!(steps[3..], [opened.clone(), agreed(Revision::V2024_11_05)]);
            assert!(negotiation.over_sse());
            for refused in [Outcome::Status(405), Outcome::Status(200), Outcome::Silence] {
                let step = last(None, None, &[a.clone(), b.clone(), refused]);
                assert_eq!(step, Step::Failed(Failure::NoTransport(status)));
            }
        }
        for status in [402, 406, 409, 422, 429, 500, 502] {
            let step = last(None, None, &[Outcome::Status(404), Outcome::Status(status)]);
            assert_eq!(step, Step::Failed(Failure::Status(status)));
        }
        // An answer of the protocol is an answer, and so is the wish to know who is there.
        for refused in [error(-32020), error(-32021), error(-32602), Outcome::Status(401)] {
            let step = last(None, None, &[Outcome::Status(404), refused]);
            assert!(matches!(step, Step::Failed(_)), "{step:?}");
        }
    }

    /// covers: SSE-11
    #[test]
    fn before_2025_11_25_every_refusal_may_mean_the_oldest_transport() {
        for revision in [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18] {
            for status in [400, 404, 405, 406, 415, 422] {
                assert_eq!(last(Some(revision), None, &[Outcome::Status(status)]), Step::OpenSse);
            }
            let asked = Step::Initialize { revision, patience: Patience::Full };
            assert_eq!(last(Some(revision), None, &[Outcome::Status(404), Outcome::SseOpened]), asked);
            assert_eq!(
                last(Some(revision), None, &[Outcome::Status(500)]),
                Step::Failed(Failure::Status(500))
            );
        }
        assert_eq!(last(Some(LEGACY), None, &[Outcome::Status(406)]), Step::Failed(Failure::Status(406)));
        assert_eq!(
            last(Some(MODERN), None, &[Outcome::Status(404)]),
            Step::Failed(Failure::Status(404)),
            "2026-07-28 has no such transport"
        );
    }

    #[test]
    fn a_remembered_transport_is_tried_first_and_may_prove_wrong() {
        let sse = || Negotiation::new(None, Some(Era::Legacy)).with_sse();
        assert_eq!(sse().poll_step(), &Step::OpenSse);
        assert_eq!(run(sse(), &[Outcome::SseOpened]).0[1], initialize(Patience::Full));
        let (steps, negotiation) = run(sse(), &[Outcome::Status(405), discovered(&["2026-07-28"])]);
        assert_eq!(steps[1..], [discover(Patience::Probe), agreed(MODERN)]);
        assert!(!negotiation.over_sse());
        let gone = [Outcome::Status(404), Outcome::Status(404), Outcome::Status(404)];
        assert_eq!(run(sse(), &gone).0[3], Step::Failed(Failure::NoTransport(404)), "once is enough");
        let unauthorized = Step::Failed(Failure::Unauthorized(401));
        assert_eq!(run(sse(), &[Outcome::Status(401)]).0[1], unauthorized);
        let pinned = Negotiation::new(Some(MODERN), None).with_sse();
        assert!(matches!(pinned.poll_step(), Step::Discover { .. }));
    }

    #[test]
    fn over_the_oldest_transport_nothing_else_is_tried() {
        let opened = [Outcome::Silence, Outcome::Status(405), Outcome::SseOpened];
        for (outcome, failure) in [(Outcome::Exited, Failure::Exited), (Outcome::Silence, Failure::Silent)] {
            let outcomes = [&opened[..], &[outcome]].concat();
            assert_eq!(last(None, None, &outcomes), Step::Failed(failure));
        }
        let outcomes = [&opened[..], &[error(-32601)]].concat();
        assert!(matches!(last(None, None, &outcomes), Step::Failed(Failure::Refused(_))));
    }
}
