//! Arguments of the commands for the rules, the pins and the audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hospes_host::pins::Sha256Digest;
use hospes_host::{PinMode, UnattendedMode};
use hospes_policy::Preset;
use hospes_store::AuditEntryKind;

use crate::commands::audit::SyslogUrl;

use crate::completion;

/// Measured figures of the presets (docs/guard.md), for the help of `hospes policy init`.
const PRESETS_HELP: &str = "\
Measured on AgentDojo (97 tasks, 609 attacks) with an agent that follows every \
injected text and a person who answers each question rightly (docs/guard.md):
  cautious  asks about every effect:
            no attack succeeds, 1.0 questions a task
  balanced  asks about effects that a text of others may have caused:
            no attack succeeds, 0.8 questions a task, 0.4 with known targets
  open      asks about values that stand in such a text:
            fewest questions; an attack that needs no such value succeeds
The file allows plans: an application may ask for the approval of several calls \
at once.";

/// Subcommands of `hospes policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Write a policy file with a preset and commented examples
    Init(PolicyInitArgs),
    /// Report all errors in the rules, and rules that match nothing that the servers offer
    Check(PolicyFileArgs),
    /// Show the decision for a call, the rule behind it and the reason. No server is started
    Test(PolicyTestArgs),
    /// Show the decisions for many tool calls: reads one JSON object a line from standard input, prints a line for each
    ///
    /// An input object has `server`, `tool` and `arguments`; an output object has `decision` and `because`.
    Batch(PolicyFileArgs),
}

/// Value of `--preset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PresetChoice {
    /// This preset.
    Preset(Preset),
    /// No preset: rules decide alone, and without rules every call is allowed.
    Off,
}

#[derive(Debug, Args)]
#[command(after_help = PRESETS_HELP)]
pub(crate) struct PolicyInitArgs {
    /// Preset of the guard: cautious, balanced or open
    #[arg(long, value_name = "PRESET", default_value = "balanced")]
    pub(crate) preset: Preset,
    /// File to write [default: policy.toml in the configuration folder]
    #[arg(long, value_name = "FILE", env = "HOSPES_POLICY")]
    pub(crate) policy: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyFileArgs {
    /// Policy file [default: policy.toml in the configuration folder]
    #[arg(long, value_name = "FILE", env = "HOSPES_POLICY")]
    pub(crate) policy: Option<PathBuf>,
    /// Policy file of an organisation [default: the one that a host uses]
    #[arg(long, value_name = "FILE")]
    pub(crate) organization_policy: Option<PathBuf>,
    /// Configuration file whose servers the rules are checked against, as for `hospes up`. May be repeated
    #[arg(short, long, value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    #[command(flatten)]
    pub(crate) file: PolicyFileArgs,
    /// Name of the server in the configuration
    #[arg(add = completion::servers())]
    pub(crate) server: String,
    /// Name of the tool at the server; a URI with --resource, a prompt with --prompt
    #[arg(add = completion::tools())]
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
    /// Group of the signed-in user. May be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Vec<String>,
    /// Treat the tool as annotated read-only, overriding its known annotations
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Treat the tool as annotated not destructive, overriding its known annotations
    #[arg(long)]
    pub(crate) not_destructive: bool,
    /// Treat the tool as annotated closed-world, overriding its known annotations
    #[arg(long)]
    pub(crate) closed_world: bool,
    /// The session has already read private data from this server
    #[arg(long, value_name = "SERVER")]
    pub(crate) private: Vec<String>,
    /// The session has already read untrusted text from this server
    #[arg(long, value_name = "SERVER")]
    pub(crate) untrusted: Vec<String>,
    /// NAME is a prompt
    #[arg(long, conflicts_with = "resource")]
    pub(crate) prompt: bool,
    /// NAME is a resource
    #[arg(long)]
    pub(crate) resource: bool,
}

/// Subcommands of `hospes pins`.
#[derive(Debug, Subcommand)]
pub(crate) enum PinsCommand {
    /// List the known servers and what awaits review
    List,
    /// Show what a server offers, what has changed, and any warnings about it
    Show(PinsShowArgs),
    /// Accept a server with everything that it offers now, or one of its items
    Accept(PinsAcceptArgs),
    /// Reject a server, which is then not started, or one of its items
    Reject(PinsItemArgs),
    /// Show earlier and current definitions of a server
    History(PinsItemArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PinsItemArgs {
    /// Name of the server in the configuration
    #[arg(add = completion::servers())]
    pub(crate) server: String,
    /// Name of the tool at the server; a prompt as prompt:NAME, a template as template:URI, or instructions
    #[arg(add = completion::tools())]
    pub(crate) item: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PinsShowArgs {
    #[command(flatten)]
    pub(crate) of: PinsItemArgs,
    /// Show all definitions, not only those awaiting review
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PinsAcceptArgs {
    #[command(flatten)]
    pub(crate) of: PinsItemArgs,
    /// Accept only if the hash matches the one that `show` prints; does not ask for confirmation
    #[arg(long, value_name = "HASH")]
    pub(crate) hash: Option<Sha256Digest>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Parses the acceptance mode of new definitions.
pub(super) fn pin_mode(text: &str) -> Result<PinMode, String> {
    PinMode::read(text).ok_or_else(|| format!("expected {}", PinMode::ALL.map(PinMode::as_str).join(", ")))
}

/// Parses the value of `--preset`.
pub(super) fn preset(text: &str) -> Result<PresetChoice, String> {
    match text {
        "off" => Ok(PresetChoice::Off),
        _ => text.parse().map(PresetChoice::Preset).map_err(|error| format!("{error}, or `off`")),
    }
}

/// Parses the value of `--unattended`.
pub(super) fn unattended(text: &str) -> Result<UnattendedMode, String> {
    let all = UnattendedMode::ALL.map(UnattendedMode::as_str).join(", ");
    UnattendedMode::read(text).ok_or_else(|| format!("expected {all}"))
}

/// Subcommands of `hospes audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Find entries, the newest first
    Search(AuditSearchArgs),
    /// Summarize a day: calls of each server, what was asked, what passed after text of others, and what was new
    Digest(AuditDigestArgs),
    /// Verify the integrity of the whole audit log
    Verify(AuditVerifyArgs),
    /// Export entries in order, as one JSON object a line or to a syslog server
    Export(AuditExportArgs),
}

/// Choice of the audit log that a command reads.
#[derive(Debug, Args)]
pub(crate) struct AuditSourceArgs {
    /// Read the log of this machine. Without this flag, with `[fleet]`, the record of all nodes is read
    #[arg(long)]
    pub(crate) local: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditSearchArgs {
    /// Text to find in the server, the tool, the application or the principal
    pub(crate) text: Option<String>,
    /// Only entries of this kind: call, prompt, resource, server, decision, …
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Option<AuditEntryKind>,
    /// Only entries of this server
    #[arg(long, value_name = "NAME", add = completion::servers())]
    pub(crate) server: Option<String>,
    /// Only entries of this tool, prompt or URI
    #[arg(long, value_name = "NAME", add = completion::tools())]
    pub(crate) tool: Option<String>,
    /// Only entries of this node of a fleet, named by its `node_address`
    #[arg(long, value_name = "ADDRESS", conflicts_with = "local")]
    pub(crate) node: Option<String>,
    /// Only entries with this decision: allow, deny, expired; for servers: started, exited, connected
    #[arg(long, value_name = "WORD")]
    pub(crate) decision: Option<String>,
    /// Only entries since a timestamp (2026-06-01T12:00:00Z), a date, or a duration ago (2h, 3d)
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<jiff::Timestamp>,
    /// Maximum number of entries
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) limit: usize,
    /// List each entry. Without this flag, consecutive identical failures of a server are one line
    #[arg(long)]
    pub(crate) each: bool,
    #[command(flatten)]
    pub(crate) source: AuditSourceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditDigestArgs {
    /// Beginning: a timestamp (2026-06-01T12:00:00Z), a date, or a duration ago (2h, 3d) [default: 24h]
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<jiff::Timestamp>,
    #[command(flatten)]
    pub(crate) source: AuditSourceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// Position that an earlier `verify` printed. Verification fails if the log no longer contains it
    #[arg(long, value_name = "PLACE")]
    pub(crate) noted: Option<hospes_store::AuditPosition>,
    #[command(flatten)]
    pub(crate) source: AuditSourceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditExportArgs {
    /// Start after the entry with this number, which the export before printed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: u64,
    /// File to write to, readable by you alone. With `--after`, lines are added to it
    #[arg(long, value_name = "FILE", conflicts_with = "syslog")]
    pub(crate) file: Option<std::path::PathBuf>,
    /// Syslog server (RFC 5424): tls://HOST[:PORT], tcp://HOST[:PORT] or udp://HOST[:PORT]
    #[arg(long, value_name = "URL")]
    pub(crate) syslog: Option<SyslogUrl>,
    /// Authorities in PEM that the certificate of the syslog server may be of, besides the usual ones
    #[arg(long, value_name = "FILE", requires = "syslog")]
    pub(crate) syslog_ca: Option<std::path::PathBuf>,
    /// Include the recorded arguments, decrypted
    #[arg(long)]
    pub(crate) arguments: bool,
    #[command(flatten)]
    pub(crate) source: AuditSourceArgs,
}

fn kind(text: &str) -> Result<AuditEntryKind, String> {
    let all = AuditEntryKind::ALL;
    let found = all.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| format!("expected {}", all.map(AuditEntryKind::as_str).join(", ")))
}

/// A moment, a day (in UTC), or how long ago.
pub(super) fn moment(text: &str) -> Result<jiff::Timestamp, String> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Ok(moment);
    }
    if let Ok(day) = text.parse::<jiff::civil::Date>() {
        let midnight = day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|error| error.to_string())?;
        return Ok(midnight.timestamp());
    }
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "expected a timestamp, a date, or a duration ago such as 2h or 30m".to_owned())?;
    jiff::Timestamp::now().checked_sub(span).map_err(|error| error.to_string())
}
