//! Times and limits of a relay. All nodes of a fleet have to use the same.

use std::time::Duration;

use crate::relay::RelayError;

/// Longest lifetime or interval. Longer ones are cut, so that sums of times and durations never overflow.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Times and limits that all engines use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelaySettings {
    /// Duration of a node's lease at the engine. Default: 1.5 s.
    pub lease: Duration,
    /// Time before the end of its lease at which a node stops acting. Default: 0.2 s.
    pub lease_margin: Duration,
    /// Longest time for which an isolated primary may acknowledge writes (`min-replicas-max-lag`). Default: 5 s.
    pub max_replica_lag: Duration,
    /// Time after a change of the engine's identity within which missing sessions are in doubt and sessions of others
    /// are not adopted. It has to be longer than `lease` and `max_replica_lag` together. Default: 7 s.
    pub recovery_window: Duration,
    /// Time for which a closed session is remembered. Default: 10 min.
    pub tombstone: Duration,
    /// Limits.
    pub limits: RelayLimits,
}

impl Default for RelaySettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_millis(1500),
            lease_margin: Duration::from_millis(200),
            max_replica_lag: Duration::from_secs(5),
            recovery_window: Duration::from_secs(7),
            tombstone: Duration::from_secs(10 * 60),
            limits: RelayLimits::default(),
        }
    }
}

/// Limits of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayLimits {
    /// Maximum number of streams of a session whose events are kept. Default: 16.
    pub max_streams: usize,
    /// Maximum number of events of a stream; the oldest are dropped. Default: 256.
    pub max_stream_events: usize,
    /// Maximum number of bytes of events of a stream, beyond the last one. Default: 1 MiB.
    pub max_stream_bytes: usize,
    /// Maximum number of pending answers of a session. Default: 1,024.
    pub max_pending_answers: usize,
    /// Maximum number of entries of a session. Default: 4,096.
    pub max_session_entries: usize,
    /// Maximum number of bytes of an event, record, entry or note. Default: 16 MiB.
    pub max_payload_bytes: usize,
    /// Maximum number of labels of a data flow. Default: 64.
    pub max_flow_labels: usize,
    /// Maximum number of bytes of a label. Default: 256.
    pub max_label_bytes: usize,
    /// Maximum number of bytes of a hint. Default: 1 KiB.
    pub max_hint_bytes: usize,
    /// Number of hints that wait, to be sent or for each receiver. Default: 1,024.
    pub hint_queue: usize,
}

impl Default for RelayLimits {
    fn default() -> Self {
        Self {
            max_streams: 16,
            max_stream_events: 256,
            max_stream_bytes: 1024 * 1024,
            max_pending_answers: 1024,
            max_session_entries: 4096,
            max_payload_bytes: 16 * 1024 * 1024,
            max_flow_labels: 64,
            max_label_bytes: 256,
            max_hint_bytes: 1024,
            hint_queue: 1024,
        }
    }
}

impl RelayLimits {
    /// Checks the size of a payload.
    pub(crate) fn check_payload(&self, bytes: usize) -> Result<(), RelayError> {
        check("max_payload_bytes", self.max_payload_bytes, bytes)
    }

    /// Checks labels that are added.
    pub(crate) fn check_labels(&self, labels: &[&str]) -> Result<(), RelayError> {
        check("max_flow_labels", self.max_flow_labels, labels.len())?;
        labels.iter().try_for_each(|label| check("max_label_bytes", self.max_label_bytes, label.len()))
    }

    /// Error for too many streams whose answers are pending.
    pub(crate) fn streams_exceeded(&self) -> RelayError {
        RelayError::LimitExceeded { limit: "max_streams", maximum: self.max_streams }
    }

    /// Error for too many pending answers.
    pub(crate) fn pending_exceeded(&self) -> RelayError {
        RelayError::LimitExceeded { limit: "max_pending_answers", maximum: self.max_pending_answers }
    }

    /// Error for too many entries.
    pub(crate) fn entries_exceeded(&self) -> RelayError {
        RelayError::LimitExceeded { limit: "max_session_entries", maximum: self.max_session_entries }
    }

    /// Error for too many labels.
    pub(crate) fn labels_exceeded(&self) -> RelayError {
        RelayError::LimitExceeded { limit: "max_flow_labels", maximum: self.max_flow_labels }
    }
}

fn check(limit: &'static str, maximum: usize, value: usize) -> Result<(), RelayError> {
    if value > maximum { Err(RelayError::LimitExceeded { limit, maximum }) } else { Ok(()) }
}
