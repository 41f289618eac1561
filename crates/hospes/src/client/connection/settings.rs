//! Settings of a client.

use std::time::Duration;

use hospes_model::{ClientCapabilities, Era, Implementation, Revision};
use hospes_proto::frame::line::DEFAULT_MAX_MESSAGE_BYTES;
use hospes_proto::session::client::{DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_SERVER_REQUESTS, TimeLimits};

use crate::client::cache::response_cache::DEFAULT_CACHE_BYTES;
use crate::client::inbound::dispatcher::InboundDispatcher;
use crate::client::link::ClientLimits;
#[cfg(feature = "stdio")]
use crate::client::transport::child::ChildListeners;

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
/// Default maximum size of a request over stdio, in bytes. Some servers close the connection at 10 MiB.
pub const DEFAULT_MAX_REQUEST_BYTES: usize = 10 * 1024 * 1024 - 1024;

/// Default time to wait for the answer to a ping.
pub const DEFAULT_PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Servers are not pinged more often than this.
pub const MIN_PING_INTERVAL: Duration = Duration::from_secs(1);
/// Default maximum of consecutive unanswered pings.
const DEFAULT_MAX_UNANSWERED: u32 = 3;

/// Settings of a connection's health check.
///
/// Pings are sent only while no call is in flight. Calls have time limits of their own, and some servers handle one
/// request at a time. Any answer counts as a sign of life, including an error, except a proxy's report that it cannot
/// reach the server.
///
/// ```no_run
/// # use std::time::Duration;
/// # use hospes::client::{Client, HealthCheck};
/// # async fn f() -> hospes::Result<()> {
/// let check = HealthCheck::every(Duration::from_secs(30)).timeout(Duration::from_secs(5)).max_unanswered(2);
/// let client = Client::builder().health_check(check).connect("https://example.com/mcp").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) max_unanswered: u32,
}

impl HealthCheck {
    /// Pings after each such interval, at least [`MIN_PING_INTERVAL`].
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        let interval = interval.max(MIN_PING_INTERVAL);
        Self { interval, timeout: DEFAULT_PING_TIMEOUT, max_unanswered: DEFAULT_MAX_UNANSWERED }
    }

    /// Sets the time to wait for an answer; it depends on the network. The default is [`DEFAULT_PING_TIMEOUT`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// After how many unanswered pings in a row the connection is closed: at least one, by default three.
    #[must_use]
    pub fn max_unanswered(mut self, pings: u32) -> Self {
        self.max_unanswered = pings.max(1);
        self
    }
}

/// Settings of one client.
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
    #[cfg(feature = "http")]
    pub(crate) network: hospes_http_client::NetworkSettings,
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
            #[cfg(feature = "http")]
            network: hospes_http_client::NetworkSettings::default(),
        }
    }
}

/// Everything that a connection is made of besides its target.
#[derive(Default)]
pub(crate) struct ConnectOptions {
    pub(crate) settings: ClientSettings,
    pub(crate) dispatcher: InboundDispatcher,
    #[cfg(feature = "stdio")]
    pub(crate) listeners: ChildListeners,
}
