//! Options of the host, and those of the commands that run it: `up` and `stdio`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hospes_host::{PinMode, UnattendedMode};

use super::rules::{PresetChoice, pin_mode, preset, unattended};
use super::values::{application_name, profile_name, seconds, some_count, some_seconds};

#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigFileArgs {
    /// Configuration file: Hospes TOML, or the mcpServers file of any application. May be repeated
    #[arg(short, long = "config", value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Vec<PathBuf>,
    /// Keep references to unset variables unchanged instead of reporting an error
    #[arg(long)]
    pub(crate) allow_unset: bool,
    /// Start nothing if the configuration of any server is invalid. Without this flag the other servers are started
    /// and the errors are reported
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HostOptions {
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// Folder to report to servers that request roots, if neither the application nor the configuration of the server
    /// provides any. May be repeated
    #[arg(long = "root", value_name = "FOLDER")]
    pub(crate) roots: Vec<PathBuf>,
    /// Maximum time the first lists wait for servers that are starting, in seconds [default: 5; 8 for a command that
    /// was never started before]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) start_wait: Option<Duration>,
    /// Maximum number of server processes that start at once. The time limit of a queued server begins when it starts
    /// [default: twice the number of processors, at least 4]
    #[arg(long, value_name = "COUNT", value_parser = some_count, allow_negative_numbers = true)]
    pub(crate) max_starting: Option<usize>,
    /// Interval between health checks of servers, in seconds; 0 disables them [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) health_check: Option<Duration>,
    /// Maximum time that calls to older servers wait for answers to the server's requests, in seconds [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) park_timeout: Option<Duration>,
    /// Maximum number of connections to an older server; each application that it can send requests to has its own
    /// [default: 16]
    #[arg(long, value_name = "COUNT", value_parser = some_count, allow_negative_numbers = true)]
    pub(crate) max_connections: Option<usize>,
    /// Policy file [default: policy.toml in the configuration folder; without this file the preset `balanced` applies]
    #[arg(long, value_name = "FILE", env = "HOSPES_POLICY")]
    pub(crate) policy: Option<PathBuf>,
    /// Preset of the guard: cautious (asks about every effect), balanced (asks about effects that a text of others may
    /// have caused), open (asks about values from such texts) or off. It replaces the preset of the policy file
    /// [default: balanced without a policy file, else the key `preset` of the file]
    #[arg(long, value_name = "PRESET", env = "HOSPES_PRESET", value_parser = preset)]
    pub(crate) preset: Option<PresetChoice>,
    /// Treatment of a call that needs a decision while nobody can be asked: refuse, queue (it waits for
    /// --approval-timeout) or allow-clean (the guard's question is dropped if no text of others was read before, unless
    /// it is about a secret, a local address or shell characters) [default: refuse]
    #[arg(long, value_name = "MODE", value_parser = unattended)]
    pub(crate) unattended: Option<UnattendedMode>,
    /// Approval mode of newly seen servers: ask (you accept what they offer) or first-use (it is accepted
    /// automatically). Later changes need your approval, unless pinning is off (off) [default: ask with a policy file,
    /// else first-use]
    #[arg(long, value_name = "MODE", value_parser = pin_mode)]
    pub(crate) pins: Option<PinMode>,
    /// Maximum time that a call waits for approval, in seconds [default: 120]
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) approval_timeout: Option<Duration>,
    /// Maximum number of pending approvals [default: 1024]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_waiting: Option<usize>,
    /// Maximum number of pending approvals of one user, or of all users without sign-in [default: 256]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_waiting_of_one: Option<usize>,
    /// Maximum size of all pending approvals together, in bytes [default: 67108864]
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_waiting_bytes: Option<usize>,
    /// Record arguments too, encrypted, as with `[audit] arguments = true`. Otherwise only their size is recorded
    #[arg(long)]
    pub(crate) audit_arguments: bool,
    /// Disable the audit log
    #[arg(long, conflicts_with = "audit_arguments")]
    pub(crate) no_audit: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) host: HostOptions,
    /// Address to listen on: ADDRESS:PORT, or a port alone [default: 127.0.0.1:7337]
    #[arg(short, long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Address of the console: a loopback ADDRESS:PORT, a port alone, or `off` [default: 127.0.0.1:7338, or any free
    /// port if that is taken]
    #[arg(long, value_name = "ADDR")]
    pub(crate) console: Option<String>,
    /// Print lines instead of showing the live screen; implied without a terminal, with CI set or TERM=dumb
    #[arg(long)]
    pub(crate) plain: bool,
    /// Draw the live screen with ASCII characters only
    #[arg(long)]
    pub(crate) ascii: bool,
    /// Time that running calls may continue after Ctrl-C, in seconds [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) shutdown_timeout: Option<Duration>,
    /// Time for which requests are still accepted after the host is asked to end, in seconds, while /readyz reports that
    /// it is not ready. For hosts behind a load balancer [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) drain_notice: Option<Duration>,
    /// A name of this machine, besides loopback, that requests may be addressed to. May be repeated
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// A web origin, besides loopback, whose pages may send requests. May be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StdioArgs {
    #[command(flatten)]
    pub(crate) host: HostOptions,
    /// Name of the application that starts this command. It is attached to the running host; without one, the host runs
    /// in this process
    #[arg(long, value_name = "NAME", value_parser = application_name)]
    pub(crate) application: Option<String>,
    /// Serve the servers and tools of this profile only
    #[arg(long, value_name = "NAME", value_parser = profile_name, add = crate::completion::profiles())]
    pub(crate) profile: Option<String>,
}
