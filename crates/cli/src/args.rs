//! Command-line arguments as they are written. Each command works out their meaning.

mod rules;

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use hospes_host::PinMode;
use hospes_servers::BUILTINS;

use self::rules::pin_mode;
pub(crate) use self::rules::{
    AuditCommand, AuditExportArgs, AuditSearchArgs, AuditVerifyArgs, PinsAcceptArgs, PinsCommand,
    PinsItemArgs, PinsShowArgs, PolicyCommand, PolicyFileArgs, PolicyTestArgs,
};
use crate::credentials::{CredentialsStore, KEPT_IN};

/// Stands between your AI applications and your MCP servers.
///
/// One endpoint in front of all servers, old and new; every application sees every tool.
#[derive(Debug, Parser)]
#[command(name = "hospes", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Start with `hospes up`; it says what to paste into your application.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Say more: -v what happens, -vv why, -vvv everything (also HOSPES_LOG=filter)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print results, and errors, as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Start the host: all servers behind one endpoint
    Up(UpArgs),
    /// Run the host over stdin and stdout, for applications that only launch commands
    Stdio(StdioArgs),
    /// Say how the running host and its servers are
    Status(StatusArgs),
    /// Open the console of the running host in a browser
    Console(ConsoleArgs),
    /// Decide about what waits for you at the running host
    Approve(ApproveArgs),
    /// List what a server offers
    List(ListArgs),
    /// Call a tool of a server
    Call(CallArgs),
    /// Talk with a model of yours that has the tools of all servers
    Chat(ChatArgs),
    /// Run a built-in server over stdio or HTTP
    Serve(ServeArgs),
    /// Sign in to servers, and out again
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Look at the rules for what may be called
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Look at the record of what was called
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at what servers offer, and accept or reject it
    #[command(subcommand)]
    Pins(PinsCommand),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigFileArgs {
    /// A configuration: ours (TOML), or any application's mcpServers file. May be repeated
    #[arg(short, long = "config", value_name = "FILE", env = "HOSPES_CONFIG")]
    pub(crate) config: Vec<PathBuf>,
    /// Pass references to variables that are not set on as they are written
    #[arg(long)]
    pub(crate) allow_unset: bool,
    /// Start nothing if the configuration of any server has a mistake. Without this the other servers are started, and
    /// the mistakes are reported
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HostOptions {
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// A folder told to servers that ask for roots, if neither the application has roots nor the configuration says
    /// which the server may have. May be repeated
    #[arg(long = "root", value_name = "FOLDER")]
    pub(crate) roots: Vec<PathBuf>,
    /// Maximum time the first lists wait for servers that are starting, in seconds [default: 5; 8 for a command that
    /// was never started before]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) start_wait: Option<Duration>,
    /// Maximum number of server processes that start at once; the others wait for their turn, and their time limit begins
    /// with it [default: twice the number of processors, and 4 at least]
    #[arg(long, value_name = "COUNT", value_parser = some_count, allow_negative_numbers = true)]
    pub(crate) max_starting: Option<usize>,
    /// Interval between health checks of servers, in seconds; 0 for never [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) health_check: Option<Duration>,
    /// Maximum time calls of older servers wait for answers to their questions, in seconds [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) park_timeout: Option<Duration>,
    /// Maximum number of connections to an older server, one for each application it can ask [default: 16]
    #[arg(long, value_name = "COUNT", value_parser = some_count, allow_negative_numbers = true)]
    pub(crate) max_connections: Option<usize>,
    /// The rules for what may be called [default: policy.toml in the folder of the configuration, if it is there; else
    /// everything may]
    #[arg(long, value_name = "FILE", env = "HOSPES_POLICY")]
    pub(crate) policy: Option<PathBuf>,
    /// Approval mode of newly seen servers: ask (you accept what they offer) or first-use (it is accepted
    /// automatically). Later changes wait for you, unless pinning is off (off) [default: ask if there are rules, else
    /// first-use]
    #[arg(long, value_name = "MODE", value_parser = pin_mode)]
    pub(crate) pins: Option<PinMode>,
    /// Time a person has to decide about a call, in seconds [default: 120]
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) approval_timeout: Option<Duration>,
    /// Maximum number of pending approvals [default: 1024]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_waiting: Option<usize>,
    /// Maximum number of pending approvals of one user, or of all users who are not signed in [default: 256]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_waiting_of_one: Option<usize>,
    /// Maximum size of all pending approvals together, in bytes [default: 67108864]
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_waiting_bytes: Option<usize>,
    /// Record arguments too, sealed; else only their size is
    #[arg(long)]
    pub(crate) audit_arguments: bool,
    /// Do not record what is called
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
    /// Time calls may continue after Ctrl-C, in seconds [default: 3]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) shutdown_timeout: Option<Duration>,
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
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The endpoint to ask, if it is not the one that runs here
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// Print the link, and open no browser
    #[arg(long)]
    pub(crate) no_browser: bool,
}

#[derive(Debug, Args)]
#[command(after_help = APPROVE_HELP)]
pub(crate) struct ApproveArgs {
    /// Print what waits, and open no screen; so without a terminal, and with --json, a matter a line
    #[arg(short, long, conflicts_with_all = ["allow", "deny", "follow"])]
    pub(crate) list: bool,
    /// Print what waits, then what comes and how each ends, until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["allow", "deny"])]
    pub(crate) follow: bool,
    /// Allow this once: an id of the list, or its first characters
    #[arg(long, value_name = "ID", conflicts_with = "deny")]
    pub(crate) allow: Option<String>,
    /// Replacement for the request, as JSON: arguments, messages, a result or the content of a form; - for standard
    /// input
    #[arg(long, value_name = "FILE", requires = "allow")]
    pub(crate) edit: Option<PathBuf>,
    /// Allow it for the session that asks, or with 2026-07-28 for the process that asks and one hour
    #[arg(long, requires = "allow", conflicts_with = "always")]
    pub(crate) session: bool,
    /// Allow it within a rule: {"arguments": {"path": {"under": "/srv"}}, "destinations": [], "until": "2026-12-01T00:00:00Z"};
    /// {} for whatever arguments, for 30 days
    #[arg(long, value_name = "RULE", requires = "allow")]
    pub(crate) always: Option<String>,
    /// Deny this: an id of the list, or its first characters
    #[arg(long, value_name = "ID")]
    pub(crate) deny: Option<String>,
    /// Reason; the model is told
    #[arg(long, value_name = "TEXT", requires = "deny")]
    pub(crate) reason: Option<String>,
    /// Deny the same tool from now on, too
    #[arg(long, requires = "deny")]
    pub(crate) block: bool,
    /// Make a token with which a program may decide, and print it; only at a terminal
    #[arg(long, value_name = "NAME", conflicts_with_all = ["allow", "deny", "list", "follow"])]
    pub(crate) make_token: Option<String>,
    /// Lifetime of the token, in days
    #[arg(long, value_name = "DAYS", default_value = "30", requires = "make_token", value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub(crate) days: u16,
    /// Print the tokens with which programs may decide, without their secrets
    #[arg(long, conflicts_with_all = ["allow", "deny", "list", "follow", "make_token"])]
    pub(crate) tokens: bool,
    /// End a token
    #[arg(long, value_name = "NAME", conflicts_with_all = ["allow", "deny", "list", "follow", "make_token", "tokens"])]
    pub(crate) end_token: Option<String>,
}

const APPROVE_HELP: &str = "\
In a terminal it opens a screen: d denies, o allows once, e edits first, ? says the rest.

For programs, which decide only with a token that you make, in HOSPES_APPROVE_TOKEN:
  hospes approve --make-token ci                                make one, at your terminal
  hospes approve --json --follow                                what waits and what comes, a line each
  hospes approve --allow 3f9a --edit arguments.json             allow other arguments
  hospes approve --deny 3f9a --reason 'not in this folder'      the model is told why";

/// Options for reaching a server.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// A header for every request to a URL: 'Name: value'. May be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
    /// A variable for a command: NAME=value. May be repeated
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// The folder a command starts in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// The era to speak
    #[arg(long, value_enum, default_value_t = EraArg::Auto)]
    pub(crate) era: EraArg,
    /// Maximum time to connect, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Duration,
    /// A folder the server may work in. May be repeated
    #[arg(long = "root", value_name = "FOLDER")]
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraArg {
    /// Find out
    Auto,
    /// Revisions up to 2025-11-25
    Legacy,
    /// Revision 2026-07-28
    Modern,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET_HELP)]
pub(crate) struct ListArgs {
    /// The server: a URL, a command line in quotes, an entry of the configuration, or a built-in server
    #[arg(required_unless_present = "program")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) reach: ConnectArgs,
    /// The server as a command with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "target")]
    pub(crate) program: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = CALL_HELP, override_usage = "hospes call [OPTIONS] TARGET TOOL [NAME=VALUE]...\n       hospes call [OPTIONS] TOOL [NAME=VALUE]... -- COMMAND [ARGS]...")]
pub(crate) struct CallArgs {
    /// The server (see below), the tool, and its arguments
    #[arg(required = true, value_name = "TARGET TOOL NAME=VALUE")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) reach: ConnectArgs,
    /// All arguments as one JSON object, or @FILE; NAME=VALUE then override its members
    #[arg(long, value_name = "JSON")]
    pub(crate) input_json: Option<String>,
    /// Maximum time of the call without an answer or progress, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// The server as a command with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) program: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) host: HostOptions,
    /// A model of the configuration, by the name of its table [default: the first]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Maximum number of times the model may ask for tools in one turn
    #[arg(long, value_name = "COUNT", default_value = "16")]
    pub(crate) max_rounds: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Sign in to a server, in the browser
    Login(LoginArgs),
    /// List the servers you are signed in to
    Status,
    /// Forget the tokens for a server
    Logout(LogoutArgs),
    /// Put the sign-in to a server right: ask it anew who gives tokens, renew them, or sign in again
    Repair(LoginArgs),
    /// Print the document to be published at a URL that is to be this client's id
    ClientMetadata(ClientMetadataArgs),
}

/// A server that can be signed in to, and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct SignInServerArgs {
    /// The server: a URL, or an entry of the configuration that has one
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// A header for every request to it: 'Name: value'. May be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
    /// Maximum time to connect, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Duration,
}

impl SignInServerArgs {
    /// Returns the connection options for any server.
    pub(crate) fn reach(&self) -> ConnectArgs {
        let (files, headers) = (self.files.clone(), self.headers.clone());
        let connect_timeout = self.connect_timeout;
        ConnectArgs {
            files,
            headers,
            env: Vec::new(),
            cwd: None,
            era: EraArg::Auto,
            connect_timeout,
            roots: Vec::new(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    #[command(flatten)]
    pub(crate) site: SignInServerArgs,
    /// Show the page's URL and read the one it ends at, instead of opening a browser here
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Show a code that is entered in a browser on any machine
    #[arg(long, conflicts_with = "no_browser")]
    pub(crate) device: bool,
    /// The URL at which this client's metadata is published, which is its id wherever that is understood
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub(crate) metadata_url: Option<String>,
    /// The id of a client that was registered with the authorization server before
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// The variable that holds that client's secret
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    pub(crate) client_secret_env: Option<String>,
    /// Scope to request in addition to those the server demands. May be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Location of the key that seals the tokens
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, env = KEPT_IN, hide_env = true)]
    pub(crate) credentials_store: CredentialsStore,
}

#[derive(Debug, Args)]
pub(crate) struct ClientMetadataArgs {
    /// URL at which the document will be published: https, with a path
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// The name that people see when they are asked
    #[arg(long, value_name = "NAME", default_value = "Hospes")]
    pub(crate) name: String,
    /// Redirect URI for browsers, if not on this machine. May be repeated
    #[arg(long = "redirect-uri", value_name = "URI")]
    pub(crate) redirect_uris: Vec<String>,
    /// Refused: this program signs with no key
    #[arg(long, value_name = "URL", hide = true)]
    pub(crate) jwks_uri: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    #[command(flatten)]
    pub(crate) site: SignInServerArgs,
    /// Forget the account that a user of `hospes up` has connected there, by the name `hospes auth status` shows
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

#[derive(Debug, Args)]
#[command(subcommand_value_name = "NAME", subcommand_help_heading = "Built-in servers")]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    pub(crate) server: BuiltinCommand,
    /// Serve over HTTP at this address instead of stdio: ADDRESS:PORT, or a port alone
    #[arg(long, value_name = "ADDR", global = true)]
    pub(crate) http: Option<String>,
    /// A name of this machine, besides loopback, that requests may be addressed to. May be repeated
    #[arg(long = "allow-host", value_name = "NAME", global = true)]
    pub(crate) allow_host: Vec<String>,
    /// Serve every caller that reaches the address, without authentication. Needed beyond loopback
    #[arg(long = "no-auth", requires = "http", global = true)]
    pub(crate) no_auth: bool,
}

/// A built-in server and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct BuiltinCommand {
    pub(crate) name: String,
    pub(crate) options: ArgMatches,
}

impl FromArgMatches for BuiltinCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, options) = matches.subcommand().ok_or_else(missing)?;
        Ok(Self { name: name.to_owned(), options: options.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

// The servers say themselves what they can be told.
impl Subcommand for BuiltinCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        let servers = BUILTINS.iter().map(hospes_servers::BuiltinServer::command);
        command.subcommands(servers).subcommand_required(true).disable_help_subcommand(true)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        hospes_servers::builtin(name).is_some()
    }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or("expected a time in seconds, such as 30 or 0.5")
}

fn some_seconds(text: &str) -> Result<Duration, &'static str> {
    seconds(text).and_then(|time| {
        if time.is_zero() { Err("expected a time above zero, in seconds") } else { Ok(time) }
    })
}

fn some_count(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|count| *count > 0).ok_or("expected a whole number above zero")
}

const SERVE_HELP: &str = "\
Each server says what it takes: hospes serve files --help

  hospes serve files --write ~/notes      over stdio, for an application that launches it
  hospes serve time --http 8080           over HTTP, at http://127.0.0.1:8080/mcp

In a configuration the same is an entry:

  [servers.notes]
  builtin = \"files\"
  args = [\"--write\", \"/home/me/notes\"]";

const TARGET_HELP: &str = "\
TARGET is one of
  https://example.com/mcp      a URL
  notes                        an entry of the configuration (--config, or the default one)
  everything                   a built-in server: everything, fetch, files, git, memory, time
  'npx -y some-server'         a command line; no shell takes part
  -- npx -y some-server        the same, taken apart already

A name that is none of these is an error, never something else.";

const CHAT_HELP: &str = "\
A model is a table of the configuration:

  [models.fast]
  provider = \"openai\"
  model = \"gpt-5-mini\"
  api_key = \"${OPENAI_API_KEY}\"

Ctrl-C stops a turn, twice leaves; /help says the rest. Answers go to standard output, the rest to standard
error. Without a terminal each line is a turn, and calls that need your approval are refused.";

const CALL_HELP: &str = "\
Arguments are turned into what the tool's schema wants:
  name=text        text, number, true or false; again for each item of a list
  name:=json       JSON as it is
  name=@file       what is in a file; @- is standard input, @@ a literal @
  outer.inner=x    a member of an object

TARGET is a URL, an entry of the configuration, a built-in server (`hospes serve
--help` lists them), or a command line in quotes; or the command follows after --.

Exit codes: 0 done, 1 wrong usage, 3 sign-in needed, 4 cannot be reached, 5 the tool failed.";
