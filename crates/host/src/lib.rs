//! The MCP host: many servers behind one endpoint, with policy, approvals and an audit log.
//!
//! [`HostBuilder::start`] starts the servers of a configuration and keeps them running. [`Host::gateway`] returns all
//! of them as one [`Service`](hospes::Service), which can be served over any transport.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `host` | [`HostBuilder`] and [`Host`]: starts all servers and connects the other modules |
//! | [`config`] | configuration files of Hospes and of other applications |
//! | [`upstream`], [`server`] | connections to the servers, their supervision, and the types that several modules share |
//! | [`catalogue`] | the lists of all servers, merged into one |
//! | `gateway` | [`Gateway`]: forwards calls and answers some itself |
//! | `checks` | checks of arguments and results beside the policy |
//! | `guard` | [`PolicyEnforcer`]: rules, approvals and the audit record of each call |
//! | [`approvals`], [`deciders`] | pending decisions, and those who may decide |
//! | `metrics` | counters and histograms, in the text format of Prometheus and for OTLP; spans |
//! | [`pins`] | accepted definitions of tools and other items |
//! | [`accounts`] | accounts at servers, one for all users or one for each |
//! | [`sampling`] | sampling with models of the host |
//! | `file_problems` | [`FileProblems`]: followed files that could not be used |
//! | [`callers`] | identification of local programs |

pub mod accounts;
pub mod approvals;
pub mod callers;
pub mod catalogue;
mod checks;
pub mod config;
pub mod deciders;
mod file_problems;
mod gateway;
mod guard;
mod host;
mod metrics;
pub mod pins;
pub mod sampling;
pub mod server;
mod shell_word;
pub mod upstream;

pub use accounts::{AccountLimits, UpstreamAccounts, profile_account};
pub use approvals::{ApprovalQueue, LocalLinks};
pub use checks::CheckSettings;
pub use config::{
    DEFAULT_CALL_WAIT, DEFAULT_CONNECT_TIMEOUT, DEFAULT_FIRST_START_WAIT, DEFAULT_GREETING_WAIT,
    DEFAULT_HEALTH_CHECK, DEFAULT_IDLE_AFTER, DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_VIEWS, DEFAULT_START_WAIT,
    DEFAULT_STARTING_PER_CORE, HostSettings, PinMode,
};
pub use file_problems::{FileProblem, FileProblems};
pub use gateway::{
    Gateway, HostHealth, HostServers, HostStatus, PERSON_APPLICATION, PartHealth, PersonCall,
    PersonCallError, PersonCallEvent, ProfileStatus, ServerCounts, UnknownServerError,
};
pub use guard::{
    ApplicationCalls, CallActivity, CallProgress, CallSnapshot, HISTORY_PERIOD, HISTORY_PERIODS,
    MAX_ENDED_CALLS, ObservedCall, ServerCalls,
};
pub use guard::{DEFAULT_APPROVAL_TIMEOUT, PolicyEnforcer, SharedFlowLabels, UnattendedMode, is_unattended};
pub use host::{
    BuiltinError, BuiltinFactory, Host, HostBuilder, HostGateways, HostStartError, RequestStateConfig,
    ServerChanges, known_labels,
};
pub use metrics::{METRICS_CONTENT_TYPE, current_trace};
pub use pins::{DefaultPinMode, PinManager, PinningConfig};
pub use sampling::Sampler;
pub use server::implementation;
pub use shell_word::shell_word;
