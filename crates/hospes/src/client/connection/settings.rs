//! Settings of a client.

use std::time::Duration;

use hospes_model::{ClientCapabilities, Era, Implementation, Revision};
use hospes_proto::frame::line::DEFAULT_MAX_MESSAGE_BYTES;
use hospes_proto::session::client::{DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_SERVER_REQUESTS, TimeLimits};

use crate::client::cache::response_cache::DEFAULT_CACHE_BYTES;
use crate::client::connection::health::HealthCheck;
use crate::client::target::network::NetworkSettings;
use crate::rate::Rate;

/// Default time a call may take without an answer or progress.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Default total time of a call.
pub const DEFAULT_MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Default time for connecting. Some commands download their server first.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Default time an upstream call is kept while its questions are answered elsewhere.
pub const DEFAULT_PARK_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum number of parked calls.
pub const MAX_PARKED_CALLS: usize = 1024;
/// Default maximum number of rounds of questions per call.
pub const DEFAULT_MAX_INPUT_ROUNDS: u32 = 32;
/// Default rate of sampling requests and of elicitations that a server may send.
pub const DEFAULT_QUESTION_RATE: Rate = Rate::per_minute(120);
/// The longest request sent over stdio, unless told otherwise: there are servers whose reader gives up the connection
/// at 10 MiB.
pub const DEFAULT_MAX_REQUEST_BYTES: usize = 10 * 1024 * 1024 - 1024;

/// Limits on what is in memory at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
    pub(crate) max_in_flight: usize,
    pub(crate) max_server_requests: usize,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_message_bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct ClientSettings {
    pub(crate) info: Implementation,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) revision: Option<Revision>,
    pub(crate) era: Option<Era>,
    pub(crate) sse: bool,
    pub(crate) times: TimeLimits,
    pub(crate) connect_timeout: Duration,
    pub(crate) park_timeout: Duration,
    pub(crate) max_input_rounds: u32,
    pub(crate) checks_outputs: bool,
    pub(crate) cache_bytes: usize,
    pub(crate) health_check: Option<HealthCheck>,
    pub(crate) limits: ClientLimits,
    pub(crate) network: NetworkSettings,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            info: Implementation::new("hospes", env!("CARGO_PKG_VERSION")),
            capabilities: ClientCapabilities::new(),
            revision: None,
            era: None,
            sse: false,
            times: TimeLimits { timeout: Some(DEFAULT_TIMEOUT), max_timeout: Some(DEFAULT_MAX_TIMEOUT) },
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            park_timeout: DEFAULT_PARK_TIMEOUT,
            max_input_rounds: DEFAULT_MAX_INPUT_ROUNDS,
            checks_outputs: true,
            cache_bytes: DEFAULT_CACHE_BYTES,
            health_check: None,
            limits: ClientLimits {
                max_in_flight: DEFAULT_MAX_IN_FLIGHT,
                max_server_requests: DEFAULT_MAX_SERVER_REQUESTS,
                max_request_bytes: DEFAULT_MAX_REQUEST_BYTES,
                max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            },
            network: NetworkSettings::default(),
        }
    }
}
