//! The adapter: makes exchanges of what peers of either era send, and messages of what the exchanges say.
//!
//! Transports above it deal in bytes and streams, the service below it in calls. The pieces: [`modern`] and
//! [`legacy`] turn a request into a [`RunningCall`] (or answer it themselves), [`LegacySession`] is what a legacy peer
//! needs remembered, [`SessionListenCalls`] is its standing call for changes.

mod batch;
mod buffers;
mod call_stop;
mod call_timings;
mod client_info_cache;
mod legacy;
mod listen;
mod modern;
#[cfg(feature = "http")]
pub(crate) mod outcome_unknown;
mod question_round;
mod round_answers;
mod running_call;
mod service_adapter;
mod session;
#[cfg(feature = "http")]
mod session_snapshot;
mod session_tasks;
mod tasks;
mod write;

pub(crate) use batch::BatchAnswers;
pub(crate) use call_stop::{CallStopReason, CallStopSwitch};
pub(crate) use call_timings::CallTimingKey;
pub(crate) use legacy::{AdmittedRequest, InitializedSession, cancelled_request};
pub(crate) use listen::SessionListenCalls;
pub(crate) use modern::{ModernRequest, PeerCache, read_meta};
pub(crate) use running_call::{RunningCall, RunningCallOutput};
#[cfg(feature = "http")]
pub(crate) use service_adapter::StateOrigin;
pub(crate) use service_adapter::{AdapterSettings, ServiceAdapter, random_bytes};
#[cfg(feature = "http")]
pub(crate) use session::StreamAttendance;
pub(crate) use session::{CallTable, Heard, LegacySession, ModernCalls};
#[cfg(feature = "http")]
pub(crate) use session_snapshot::{RestoredSession, SessionState};
pub(crate) use write::error as write_refusal;
