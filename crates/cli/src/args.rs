//! Command-line arguments as parsed by clap. The commands interpret them.

mod add;
mod bundles;
mod files;
mod registry;
mod rules;
mod system;

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use hospes_host::{PinMode, UnattendedMode};
use hospes_servers::BUILTINS;

pub(crate) use self::add::{AddArgs, RemoveArgs};
pub(crate) use self::bundles::BundleArgs;
pub(crate) use self::files::{
    ConnectApplicationArgs, DisconnectArgs, ExportArgs, ImportArgs, SecretCommand, SecretListArgs,
    SecretRemoveArgs, SecretSetArgs,
};
pub(crate) use self::registry::{RegistryOptions, SearchArgs};
pub(crate) use self::rules::{
    AuditCommand, AuditDigestArgs, AuditExportArgs, AuditSearchArgs, AuditVerifyArgs, PinsAcceptArgs,
    PinsCommand, PinsItemArgs, PinsShowArgs, PolicyCommand, PolicyFileArgs, PolicyInitArgs, PolicyTestArgs,
    PresetChoice,
};
use self::rules::{pin_mode, preset, unattended};
pub(crate) use self::system::{
    CompletionShell, CompletionsArgs, LogsArgs, ManArgs, ServiceCommand, ServiceInstallArgs,
};
use crate::completion;
use crate::credentials::{CredentialsStore, KEPT_IN};

/// Hosts your MCP servers behind one endpoint for your AI applications.
///
/// Supports old and new protocol revisions; every application sees the tools of all servers.
#[derive(Debug, Parser)]
#[command(name = "hospes", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Start with `hospes up`; it prints the configuration for your applications.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Increase logging: -v info, -vv debug, -vvv trace (also HOSPES_LOG=filter)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print results and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Start the host: all servers behind one endpoint
    Up(UpArgs),
    /// Run the host over stdin and stdout, for applications that only launch commands
    Stdio(StdioArgs),
    /// Show the state of the running host and its servers
    Status(StatusArgs),
    /// Find out what is wrong: with the host, an application, a server or a URL
    Doctor(DoctorArgs),
    /// Open the console of the running host in a browser
    Console(ConsoleArgs),
    /// Show and decide the pending approvals of the running host
    Approve(ApproveArgs),
    /// Add a server: from the registry, a package, a URL or a command
    Add(AddArgs),
    /// Remove a server from the configuration
    Remove(RemoveArgs),
    /// Find servers in the MCP registry
    Search(SearchArgs),
    /// Import the servers that your applications are configured with
    Import(ImportArgs),
    /// Add Hospes to the configuration of an application, or list the applications
    Connect(ConnectApplicationArgs),
    /// Remove Hospes from the configuration of an application
    Disconnect(DisconnectArgs),
    /// Write the configured servers in the form of an application
    Export(ExportArgs),
    /// Pack a server into an MCP bundle, or judge a bundle
    Bundle(BundleArgs),
    /// Store, list and delete secrets that the configuration refers to
    #[command(subcommand)]
    Secret(SecretCommand),
    /// List what a server offers
    List(ListArgs),
    /// Call a tool of a server
    Call(CallArgs),
    /// Chat with a configured model that can use the tools of all servers
    Chat(ChatArgs),
    /// Run a built-in server over stdio or HTTP
    Serve(ServeArgs),
    /// Sign in to servers and sign out
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Check and test the policy rules
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Search, verify and export the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// List and revoke lasting decisions: known targets, permissions and blocks
    Grants(GrantsArgs),
    /// Review what servers offer, and accept or reject it
    #[command(subcommand)]
    Pins(PinsCommand),
    /// Print the command that upgrades this program
    Upgrade,
    /// Start the host whenever you sign in
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Print the log of the host and its servers
    Logs(LogsArgs),
    /// Print the script with which your shell completes commands, servers and tools
    Completions(CompletionsArgs),
    /// Print the manual page of the program, or write those of all commands
    Man(ManArgs),
}

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
    /// --approval-timeout) or allow-clean (the guard's question is dropped if no text of others was read before)
    /// [default: refuse]
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
    /// Record arguments too, encrypted. Without this flag only their size is recorded
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
}

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
    /// {"arguments": {"path": {"under": "/srv"}}, "destinations": [], "until": "2026-12-01T00:00:00Z"};
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
  hospes approve --make-token ci                                create one, at your terminal
  hospes approve --json --follow                                pending and new approvals, one a line
  hospes approve --allow 3f9a --edit arguments.json             allow with edited arguments
  hospes approve --allow 3f9a --remember-targets                allow, and know the recipient for 30 days
  hospes approve --deny 3f9a --reason 'not in this folder'      deny, with a reason for the model";

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

/// Options for reaching a server.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// Header for every request to a URL: 'Name: value'. May be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
    /// Environment variable for a command: NAME=value. May be repeated
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Working directory of a command
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// Protocol era to use
    #[arg(long, value_enum, default_value_t = EraArg::Auto)]
    pub(crate) era: EraArg,
    /// Maximum time to connect, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Duration,
    /// Folder that the server may work in. May be repeated
    #[arg(long = "root", value_name = "FOLDER")]
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraArg {
    /// Detect automatically
    Auto,
    /// Revisions up to 2025-11-25
    Legacy,
    /// Revision 2026-07-28
    Modern,
}

const DOCTOR_HELP: &str = "\
The checks follow the way from the application to the tools; the first fault ends it. Nothing is changed, and no tool is
called. Programs of servers are started, and ended again.

  hospes doctor                                  the host, the connected applications and all servers
  hospes doctor github                           one server of the configuration
  hospes doctor cursor                           an application
  hospes doctor https://mcp.example.com/mcp      a server that is not configured

Exit status: 0 if all is well or there are warnings only, 1 if there is a fault.";

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// Server, application or URL to check [default: everything]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// Show every check, not only those that have found something
    #[arg(short = 'a', long = "all")]
    pub(crate) verbose_report: bool,
    /// List the checks and their codes, and make none
    #[arg(long)]
    pub(crate) codes: bool,
    /// Maximum time to start and connect to a server, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET_HELP)]
pub(crate) struct ListArgs {
    /// The server: a URL, a command line in quotes, an entry of the configuration, or a built-in server
    #[arg(required_unless_present = "program", add = completion::targets())]
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
    #[arg(required = true, value_name = "TARGET TOOL NAME=VALUE", add = completion::call_words())]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) reach: ConnectArgs,
    /// All arguments as one JSON object, or @FILE; NAME=VALUE then override its members
    #[arg(long, value_name = "JSON")]
    pub(crate) input_json: Option<String>,
    /// Maximum time that the call may take without a response or progress, in seconds
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
    /// Name of a configured model [default: the first]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Maximum number of rounds of tool calls in one turn
    #[arg(long, value_name = "COUNT", default_value = "16")]
    pub(crate) max_rounds: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Sign in to a server in the browser
    Login(LoginArgs),
    /// List the servers you are signed in to
    Status,
    /// Revoke and delete the tokens for a server
    Logout(LogoutArgs),
    /// Repair the sign-in to a server: rediscover its authorization server, refresh the tokens, or sign in again
    Repair(LoginArgs),
    /// Print the client metadata document to publish at the URL that serves as the client id
    ClientMetadata(ClientMetadataArgs),
}

/// A server that can be signed in to, and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct SignInServerArgs {
    /// The server: a URL, or an entry of the configuration that has one
    #[arg(add = completion::servers())]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// Header for every request to the server: 'Name: value'. May be repeated
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
    /// Print the sign-in URL and read the final redirect URL, instead of opening a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Show a code to enter in a browser on any machine
    #[arg(long, conflicts_with = "no_browser")]
    pub(crate) device: bool,
    /// URL of this client's published metadata, used as the client id where supported
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub(crate) metadata_url: Option<String>,
    /// Id of a client already registered with the authorization server
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Environment variable that holds that client's secret
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    pub(crate) client_secret_env: Option<String>,
    /// Scope to request in addition to those that the server requires. May be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Location of the key that encrypts the tokens
    #[arg(long, value_enum, value_name = "WHERE", default_value_t, env = KEPT_IN, hide_env = true)]
    pub(crate) credentials_store: CredentialsStore,
}

#[derive(Debug, Args)]
pub(crate) struct ClientMetadataArgs {
    /// URL at which the document will be published: https, with a path
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Client name shown on the consent page
    #[arg(long, value_name = "NAME", default_value = "Hospes")]
    pub(crate) name: String,
    /// Redirect URI for browsers, if not on this machine. May be repeated
    #[arg(long = "redirect-uri", value_name = "URI")]
    pub(crate) redirect_uris: Vec<String>,
    /// Rejected: this program does not sign with a key
    #[arg(long, value_name = "URL", hide = true)]
    pub(crate) jwks_uri: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    #[command(flatten)]
    pub(crate) site: SignInServerArgs,
    /// Delete the account that a user of `hospes up` has connected there, by the name that `hospes auth status` shows
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

// The servers define their own arguments.
impl Subcommand for BuiltinCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        let servers = BUILTINS.iter().map(hospes_servers::BuiltinServer::command);
        // Unless it is disabled, `help` is listed as if it were one of the servers.
        command.subcommands(servers).subcommand_required(true).disable_help_subcommand(true)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        hospes_servers::builtin(name).is_some()
    }
}

/// Reads the name of an application, which is shown and recorded.
pub(crate) fn application_name(text: &str) -> Result<String, &'static str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let is_name = !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain);
    if is_name { Ok(text.to_owned()) } else { Err("expected up to 64 letters, digits, `-`, `_` or `.`") }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    // Negative, infinite and too large values are mistakes here; `from_secs_f64` would panic on them.
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
Each server lists its options: hospes serve files --help

  hospes serve files --write ~/notes      over stdio, for an application that launches it
  hospes serve time --http 8080           over HTTP, at http://127.0.0.1:8080/mcp

The same server as an entry of a configuration:

  [servers.notes]
  builtin = \"files\"
  args = [\"--write\", \"/home/me/notes\"]";

const TARGET_HELP: &str = "\
TARGET is one of
  https://example.com/mcp      a URL
  notes                        an entry of the configuration (--config, or the default one)
  everything                   a built-in server: everything, fetch, files, git, memory, time
  'npx -y some-server'         a command line, run without a shell
  -- npx -y some-server        the same, already split into arguments

Any other value is an error.";

const CHAT_HELP: &str = "\
A model is a table of the configuration:

  [models.fast]
  provider = \"openai\"
  model = \"gpt-5-mini\"
  api_key = \"${OPENAI_API_KEY}\"

Ctrl-C stops a turn, twice quits; /help lists the commands. Answers go to standard output, the rest to standard
error. Without a terminal each line is a turn, and calls that need your approval are denied.";

const CALL_HELP: &str = "\
Arguments are converted to the types of the tool's schema:
  name=text        text, number, true or false; repeated for each item of a list
  name:=json       a JSON value
  name=@file       the content of a file; @- is standard input, @@ a literal @
  outer.inner=x    a member of an object

TARGET is a URL, an entry of the configuration, a built-in server (`hospes serve
--help` lists them), or a command line in quotes; or the command follows after --.

Exit codes: 0 done, 1 wrong usage, 3 sign-in required, 4 unreachable, 5 the tool failed.";
