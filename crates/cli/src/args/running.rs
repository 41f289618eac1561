//! Options of the commands that speak to the running host: `status`, `console`, `approve` and `grants`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Endpoint URL of the host [default: the host running on this machine]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// Print the link without opening a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
}

#[derive(Debug, Args)]
#[command(after_help = APPROVE_HELP)]
pub(crate) struct ApproveArgs {
    /// Print pending approvals instead of opening the screen; implied without a terminal. With --json, one a line
    #[arg(short, long, conflicts_with_all = ["allow", "deny", "follow"])]
    pub(crate) list: bool,
    /// Print pending approvals, then new ones and the outcome of each, until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["allow", "deny"])]
    pub(crate) follow: bool,
    /// Allow an approval once, by its id or the first characters of the id
    #[arg(long, value_name = "ID", conflicts_with = "deny")]
    pub(crate) allow: Option<String>,
    /// Replacement for the request, as JSON: arguments, messages, a result or the content of a form; - for standard
    /// input
    #[arg(long, value_name = "FILE", requires = "allow")]
    pub(crate) edit: Option<PathBuf>,
    /// Allow it for the requesting session, or with 2026-07-28 for the requesting process and one hour
    #[arg(long, requires = "allow", conflicts_with = "always")]
    pub(crate) session: bool,
    /// Allow it once, and remember whom or what it reaches for 30 days: calls of the same application to these targets
    /// are not asked about because they are new
    #[arg(long, requires = "allow", conflicts_with_all = ["session", "always", "edit"])]
    pub(crate) remember_targets: bool,
    /// Allow it once; the values that stand in texts of others are right for the requesting session
    #[arg(long, requires = "allow", conflicts_with_all = ["session", "always", "edit", "remember_targets"])]
    pub(crate) trust_values: bool,
    /// Always allow calls that match a rule:
    /// {"arguments": {"path": {"under": "/srv"}}, "other_arguments": [], "until": "2026-12-01T00:00:00Z"};
    /// {} matches any arguments, for 30 days
    #[arg(long, value_name = "RULE", requires = "allow")]
    pub(crate) always: Option<String>,
    /// Deny an approval, by its id or the first characters of the id
    #[arg(long, value_name = "ID")]
    pub(crate) deny: Option<String>,
    /// Reason, which is reported to the model
    #[arg(long, value_name = "TEXT", requires = "deny")]
    pub(crate) reason: Option<String>,
    /// Also deny all future calls of the same tool
    #[arg(long, requires = "deny")]
    pub(crate) block: bool,
    /// Create and print a token that lets a program decide approvals; requires a terminal
    #[arg(long, value_name = "NAME", conflicts_with_all = ["allow", "deny", "list", "follow"])]
    pub(crate) make_token: Option<String>,
    /// Lifetime of the token, in days
    #[arg(long, value_name = "DAYS", default_value = "30", requires = "make_token", value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub(crate) days: u16,
    /// List the tokens that let programs decide, without their secrets
    #[arg(long, conflicts_with_all = ["allow", "deny", "list", "follow", "make_token"])]
    pub(crate) tokens: bool,
    /// Revoke a token
    #[arg(long, value_name = "NAME", conflicts_with_all = ["allow", "deny", "list", "follow", "make_token", "tokens"])]
    pub(crate) end_token: Option<String>,
}

const APPROVE_HELP: &str = "\
In a terminal it opens a screen: d denies, o allows once, t also remembers the target, e edits first, ? lists all keys.

Programs need a token in HOSPES_APPROVE_TOKEN to decide:
  hospes approve --make-token ci                            create one
  hospes approve --json --follow                            an approval a line
  hospes approve --allow 3f9a --edit arguments.json         with edits
  hospes approve --allow 3f9a --remember-targets            remember targets
  hospes approve --deny 3f9a --reason 'not in this folder'  with a reason";

/// Options of `hospes grants`.
#[derive(Debug, Args)]
pub(crate) struct GrantsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<GrantsCommand>,
}

/// Subcommands of `hospes grants`.
#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List the lasting decisions of the running host (the default)
    List,
    /// Revoke one. Calls that are not sent yet need approval again
    Revoke {
        /// Id of the grant, or the first characters of the id
        id: String,
    },
}
