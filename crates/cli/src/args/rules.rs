//! Arguments of the commands for the rules, the pins and the audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hospes_host::PinMode;
use hospes_host::pins::Sha256Digest;
use hospes_store::AuditEntryKind;

/// Subcommands of `hospes policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Report all mistakes of the rules, and rules that fit nothing of what the servers offer
    Check(PolicyFileArgs),
    /// Show what would be decided about a call, by which rule, and why. No server is started
    Test(PolicyTestArgs),
    /// Say the same about many calls of tools: JSON objects on standard input, one a line, answered by one line each
    ///
    /// An object has `server`, `tool` and `arguments`; an answer has `decision` and `because`.
    Batch(PolicyFileArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyFileArgs {
    /// The rules [default: policy.toml in the folder of the configuration]
    #[arg(long, value_name = "FILE", env = "HOSPES_POLICY")]
    pub(crate) policy: Option<PathBuf>,
    /// The configuration whose servers the rules are compared with, as for `hospes up`. May be repeated
    #[arg(short, long, value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    #[command(flatten)]
    pub(crate) file: PolicyFileArgs,
    /// Name of the server in the configuration
    pub(crate) server: String,
    /// The tool, as the server calls it; a URI with --resource, a prompt with --prompt
    pub(crate) name: String,
    /// The arguments, a JSON object
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// Name of the calling application
    #[arg(long, value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Name of the signed-in user
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: Option<String>,
    /// The tool is annotated as read-only, in place of the annotations that are known
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The tool is annotated as not destructive, in place of the annotations that are known
    #[arg(long)]
    pub(crate) not_destructive: bool,
    /// The tool is annotated as reaching nothing outside, in place of the annotations that are known
    #[arg(long)]
    pub(crate) closed_world: bool,
    /// The session has read private data of this server before
    #[arg(long, value_name = "SERVER")]
    pub(crate) private: Vec<String>,
    /// The session has already read untrusted text of this server
    #[arg(long, value_name = "SERVER")]
    pub(crate) untrusted: Vec<String>,
    /// It is a prompt
    #[arg(long, conflicts_with = "resource")]
    pub(crate) prompt: bool,
    /// It is a resource
    #[arg(long)]
    pub(crate) resource: bool,
}

/// Subcommands of `hospes pins`.
#[derive(Debug, Subcommand)]
pub(crate) enum PinsCommand {
    /// List the servers that were seen, and what waits
    List,
    /// Show what a server offers, what has changed, and what is conspicuous about it
    Show(PinsShowArgs),
    /// Accept a server with all that it offers now, or one thing that it offers
    Accept(PinsAcceptArgs),
    /// Reject a server, which is not started then, or one thing that it offers
    Reject(PinsItemArgs),
    /// Show the definitions that a server has had
    History(PinsItemArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PinsItemArgs {
    /// Name of the server in the configuration
    pub(crate) server: String,
    /// The tool, as the server calls it; a prompt as prompt:NAME, a template as template:URI, or instructions
    pub(crate) item: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PinsShowArgs {
    #[command(flatten)]
    pub(crate) of: PinsItemArgs,
    /// All definitions, not only what waits
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PinsAcceptArgs {
    #[command(flatten)]
    pub(crate) of: PinsItemArgs,
    /// Accept only what has this hash, as `show` prints it, without being asked
    #[arg(long, value_name = "HASH")]
    pub(crate) hash: Option<Sha256Digest>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Parses the acceptance mode of new definitions.
pub(super) fn pin_mode(text: &str) -> Result<PinMode, String> {
    PinMode::read(text).ok_or_else(|| format!("expected {}", PinMode::ALL.map(PinMode::as_str).join(", ")))
}

/// Subcommands of `hospes audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Find entries, the newest first
    Search(AuditSearchArgs),
    /// Go through the whole record and say whether it is what was recorded
    Verify(AuditVerifyArgs),
    /// Print all entries in their order, one JSON object a line
    Export(AuditExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuditSearchArgs {
    /// A text in the server, the tool, the application or the principal
    pub(crate) text: Option<String>,
    /// Only entries of this kind: call, prompt, resource, server, decision and so on
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Option<AuditEntryKind>,
    /// Only entries of this server
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Only entries of this tool, prompt or URI
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// With this decision: allow, deny, expired; of a server: started, exited, connected
    #[arg(long, value_name = "WORD")]
    pub(crate) decision: Option<String>,
    /// Not before: a moment (2026-06-01T12:00:00Z), a day, or a time ago (2h, 3d)
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<jiff::Timestamp>,
    /// Maximum number of lines
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) limit: usize,
    /// List each entry. Without this, failures of a server that follow one another and say the same are one line
    #[arg(long)]
    pub(crate) each: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// A place that an earlier `verify` printed and that was noted elsewhere: it has to be in the record still
    #[arg(long, value_name = "PLACE")]
    pub(crate) noted: Option<hospes_store::AuditPosition>,
}

#[derive(Debug, Args)]
pub(crate) struct AuditExportArgs {
    /// After the entry with this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: u64,
    /// With the arguments that were recorded, opened
    #[arg(long)]
    pub(crate) arguments: bool,
}

fn kind(text: &str) -> Result<AuditEntryKind, String> {
    let all = AuditEntryKind::ALL;
    let found = all.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| format!("expected {}", all.map(AuditEntryKind::as_str).join(", ")))
}

/// A moment, a day (in UTC), or how long ago.
fn moment(text: &str) -> Result<jiff::Timestamp, String> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Ok(moment);
    }
    if let Ok(day) = text.parse::<jiff::civil::Date>() {
        let midnight = day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|error| error.to_string())?;
        return Ok(midnight.timestamp());
    }
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| "expected a moment, a day, or a time ago such as 2h or 30m".to_owned())?;
    jiff::Timestamp::now().checked_sub(span).map_err(|error| error.to_string())
}
