//! How the host behaves; every limit has its name here.

use std::path::PathBuf;
use std::time::Duration;

use hospes::client::DEFAULT_PARK_TIMEOUT;
use hospes_sandbox::Helper;

use crate::catalogue::DEFAULT_PAGE_SIZE;
use crate::upstream::Policy;

/// How long the first lists wait for servers that are being started: the setting `start_wait`.
///
/// What is not there by then is missing from the answer, and a change of the list is told when it comes. Applications
/// give a server 10 s (Codex), 30 s (Claude Code) or 60 s until they take it for dead, and with it all servers behind
/// this one: so one that hangs must never cost more than this.
pub const DEFAULT_START_WAIT: Duration = Duration::from_secs(5);
/// The same for commands that have never been started before, as far as is remembered: the setting `first_start_wait`.
///
/// `npx` and `uvx` have to download first, and not every application listens for changes: it would do without the
/// server until it is started again. That is worth a longer wait, though not longer than any application has patience.
pub const DEFAULT_FIRST_START_WAIT: Duration = Duration::from_secs(8);
/// How often a server is asked whether it is still there: the setting `health_check`. One that leaves two such questions
/// in a row unanswered is not.
pub const DEFAULT_HEALTH_CHECK: Duration = Duration::from_secs(30);
/// How long an application's first greeting waits for what servers say about themselves: the setting
/// `greeting_wait`.
pub const DEFAULT_GREETING_WAIT: Duration = Duration::from_secs(1);
/// How long a call waits for a server that is being started: the setting `call_wait`.
pub const DEFAULT_CALL_WAIT: Duration = Duration::from_secs(20);
/// From starting or dialling a server until its lists are read: the setting `connect_timeout`. `npx` may have to
/// download first.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long connections are kept that nobody uses: the setting `idle_after`.
pub const DEFAULT_IDLE_AFTER: Duration = Duration::from_secs(600);
/// How many connections there may be to one server, so that applications which can be asked have one each: the setting
/// `max_connections`.
pub const DEFAULT_MAX_CONNECTIONS: usize = 16;
/// Maximum number of processes that start at once for each processor of the machine: the setting `max_starting` is this times
/// their number, and 4 at least.
///
/// A server that waits for its turn is `starting`, and its `connect_timeout` begins when its process does. One that hangs
/// holds up the others for 10 s at most.
pub const DEFAULT_STARTING_PER_CORE: usize = 2;
/// How many different sets of capabilities applications may come with at once: the setting `max_views`.
pub const DEFAULT_MAX_VIEWS: usize = 16;

/// The host's settings.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// How long the first lists wait for servers that are being started.
    pub start_wait: Duration,
    /// The same for commands that have never been started before; without a memory all have been.
    pub first_start_wait: Duration,
    /// How long an application's first greeting waits for what servers say about themselves.
    pub greeting_wait: Duration,
    /// How long a call waits for a server that is being started.
    pub call_wait: Duration,
    /// From starting or dialling a server until its lists are read.
    pub connect_timeout: Duration,
    /// Maximum number of processes that start at once.
    pub max_starting: usize,
    /// For one request, counted again from each progress notification; none for no limit but the ceiling.
    pub request_timeout: Option<Duration>,
    /// How long a call of a server of an older revision waits while its questions are answered by an application of
    /// 2026-07-28.
    pub park_timeout: Duration,
    /// How often a server is asked whether it is still there; none for never.
    pub health_check: Option<Duration>,
    /// How long connections are kept that nobody uses.
    pub idle_after: Duration,
    /// How many different sets of capabilities applications may come with at once.
    pub max_views: usize,
    /// How many connections there may be to one server: applications that can be asked have one each.
    pub max_connections: usize,
    /// How many items one page of a list has.
    pub page_size: usize,
    /// When servers that went away are started again.
    pub restart: Policy,
    /// The folders told to servers that ask for roots outside of any call.
    pub roots: Vec<PathBuf>,
    /// What starts child processes, so that they are confined and nothing of them outlives the host. Without it they are
    /// started as they are, and those that are to be confined are not started.
    pub helper: Option<Helper>,
}

impl Default for Settings {
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
            restart: Policy::default(),
            roots: Vec::new(),
            helper: None,
        }
    }
}

fn default_max_starting() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.saturating_mul(DEFAULT_STARTING_PER_CORE).max(4)
}
