//! Settings of the host, with every limit by name.

use std::path::PathBuf;
use std::time::Duration;

use hospes::client::DEFAULT_PARK_TIMEOUT;
use hospes_sandbox::SandboxHelper;

use super::restart::BackoffPolicy;

/// Time that the first lists wait for servers that are being started: the setting `start_wait`.
///
/// Servers that are not ready by then are missing from the answer, and a list change is sent once they are.
/// Applications consider a server dead after 10 s (Codex), 30 s (Claude Code) or 60 s, and with it all servers behind
/// the host. A server that hangs must therefore never delay a list longer than this.
pub const DEFAULT_START_WAIT: Duration = Duration::from_secs(5);
/// Time that the first lists wait for commands that were never started before, as far as is remembered: the setting
/// `first_start_wait`.
///
/// `npx` and `uvx` have to download first, and not every application listens for changes: it would do without the
/// server until it is started again. That is worth a longer wait, though not longer than any application has patience.
pub const DEFAULT_FIRST_START_WAIT: Duration = Duration::from_secs(8);
/// Interval between health checks of a server: the setting `health_check`. A server that leaves two consecutive checks
/// unanswered counts as gone.
pub const DEFAULT_HEALTH_CHECK: Duration = Duration::from_secs(30);
/// Time that an application's initialization waits for servers' information about themselves: the setting
/// `greeting_wait`.
pub const DEFAULT_GREETING_WAIT: Duration = Duration::from_secs(1);
/// Time that a call waits for a server that is being started: the setting `call_wait`.
pub const DEFAULT_CALL_WAIT: Duration = Duration::from_secs(20);
/// From starting or dialling a server until its lists are read: the setting `connect_timeout`. `npx` may have to
/// download first.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which unused connections are closed: the setting `idle_after`.
pub const DEFAULT_IDLE_AFTER: Duration = Duration::from_secs(600);
/// Maximum number of connections to one server: the setting `max_connections`. Applications that accept requests get
/// one each.
pub const DEFAULT_MAX_CONNECTIONS: usize = 16;
/// Maximum number of processes that start at once for each processor of the machine: the setting `max_starting` is this
/// times their number, and 4 at least.
///
/// A server that waits for its turn is `starting`, and its `connect_timeout` begins when its process does. A server
/// that hangs delays the others by 10 s at most.
pub const DEFAULT_STARTING_PER_CORE: usize = 2;
/// Maximum number of different sets of client capabilities at once: the setting `max_views`.
pub const DEFAULT_MAX_VIEWS: usize = 16;
/// Default number of items on one page: the setting `page_size`. It is large because some clients read only the first
/// page.
pub const DEFAULT_PAGE_SIZE: usize = 1000;

/// The host's settings.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HostSettings {
    /// Time that the first lists wait for servers that are being started.
    pub start_wait: Duration,
    /// Time that the first lists wait for commands that were never started before. Without a memory file all count as
    /// started before.
    pub first_start_wait: Duration,
    /// Time that an application's initialization waits for servers' information about themselves.
    pub greeting_wait: Duration,
    /// Time that a call waits for a server that is being started.
    pub call_wait: Duration,
    /// From starting or dialling a server until its lists are read.
    pub connect_timeout: Duration,
    /// Maximum number of processes that start at once.
    pub max_starting: usize,
    /// Timeout of one request, restarted by each progress notification. `None` means that only the ceiling applies.
    pub request_timeout: Option<Duration>,
    /// Time that a call of a server of an older revision waits while an application of 2026-07-28 answers its
    /// questions.
    pub park_timeout: Duration,
    /// Interval between health checks. `None` disables them.
    pub health_check: Option<Duration>,
    /// Time after which unused connections are closed.
    pub idle_after: Duration,
    /// Maximum number of different sets of client capabilities at once.
    pub max_views: usize,
    /// Maximum number of connections to one server. Applications that accept requests get one each.
    pub max_connections: usize,
    /// Number of items of one page of a list.
    pub page_size: usize,
    /// Policy for restarting servers that went away.
    pub restart: BackoffPolicy,
    /// Folders reported to servers that request roots outside a call.
    pub roots: Vec<PathBuf>,
    /// Helper that starts child processes, confines them and ends them with the host. Without it they are started
    /// directly, and servers with a sandbox are not started.
    pub helper: Option<SandboxHelper>,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            start_wait: DEFAULT_START_WAIT,
            first_start_wait: DEFAULT_FIRST_START_WAIT,
            greeting_wait: DEFAULT_GREETING_WAIT,
            call_wait: DEFAULT_CALL_WAIT,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            max_starting: default_max_starting(),
            request_timeout: None,
            park_timeout: DEFAULT_PARK_TIMEOUT,
            health_check: Some(DEFAULT_HEALTH_CHECK),
            idle_after: DEFAULT_IDLE_AFTER,
            max_views: DEFAULT_MAX_VIEWS,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            page_size: DEFAULT_PAGE_SIZE,
            restart: BackoffPolicy::default(),
            roots: Vec::new(),
            helper: None,
        }
    }
}

fn default_max_starting() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.saturating_mul(DEFAULT_STARTING_PER_CORE).max(4)
}
