//! Command-line arguments as parsed by clap. The commands interpret them.

mod add;
mod auth;
mod bundles;
mod client;
mod doctor;
mod files;
mod host;
mod profiles;
mod registry;
mod rules;
mod running;
mod serve;
mod state;
mod system;
mod values;

use clap::{Args, Parser, Subcommand};

pub(crate) use self::add::{AddArgs, RemoveArgs, SandboxChoice, UpdateArgs};
pub(crate) use self::auth::{AuthCommand, ClientMetadataArgs, LoginArgs, LogoutArgs, SignInServerArgs};
pub(crate) use self::bundles::BundleArgs;
pub(crate) use self::client::{CallArgs, ChatArgs, ConnectArgs, EraArg, ListArgs};
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::files::{
    ConnectApplicationArgs, DisconnectArgs, ExportArgs, ImportArgs, SecretCommand, SecretListArgs,
    SecretRemoveArgs, SecretSetArgs,
};
pub(crate) use self::host::{ConfigFileArgs, HostOptions, StdioArgs, UpArgs};
pub(crate) use self::profiles::{ProfileCommand, ProfileListArgs, ProfileShowArgs};
pub(crate) use self::registry::{RegistryOptions, SearchArgs};
pub(crate) use self::rules::{
    AuditCommand, AuditDigestArgs, AuditExportArgs, AuditSearchArgs, AuditSourceArgs, AuditVerifyArgs,
    PinsAcceptArgs, PinsCommand, PinsItemArgs, PinsShowArgs, PolicyCommand, PolicyFileArgs, PolicyInitArgs,
    PolicyTestArgs, PresetChoice,
};
pub(crate) use self::running::{ApproveArgs, ConsoleArgs, GrantsArgs, GrantsCommand, StatusArgs};
pub(crate) use self::serve::{BuiltinCommand, ServeArgs};
pub(crate) use self::state::{StateCommand, StateMigrateArgs};
pub(crate) use self::system::{
    CompletionShell, CompletionsArgs, LogsArgs, ManArgs, ServiceCommand, ServiceInstallArgs,
};
pub(crate) use self::values::application_name;
pub(crate) use self::values::is_server_name;

/// Hosts your MCP servers behind one endpoint for your AI applications.
///
/// Supports old and new protocol revisions; every application sees the tools of all servers.
#[derive(Debug, Parser)]
#[command(name = "hospes", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Start with `hospes up`, and connect your applications with `hospes connect`.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Options of every command. They stand under a heading of their own: without it they are mixed among those of the
/// command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
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
    /// Update servers that were added from the registry, or go back to the version before
    Update(UpdateArgs),
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
    /// List and show profiles: sets of servers and tools with an endpoint each
    #[command(subcommand)]
    Profile(ProfileCommand),
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
    /// Move the state of this host into the database of several nodes
    #[command(subcommand)]
    State(StateCommand),
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Widest line of an example that a terminal of 80 columns shows whole.
    const MAX_EXAMPLE: usize = 78;

    fn check(command: &clap::Command, faults: &mut Vec<String>) {
        for text in [command.get_after_help(), command.get_after_long_help(), command.get_long_about()] {
            let text = text.map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            for (at, line) in lines.iter().enumerate() {
                if is_prose(line) && lines.get(at + 1).is_some_and(|next| is_prose(next)) {
                    faults.push(format!("{}: hard break after: {line}", command.get_name()));
                }
                if line.starts_with(' ') && line.chars().count() > MAX_EXAMPLE {
                    faults.push(format!("{}: too wide: {line}", command.get_name()));
                }
            }
        }
        command.get_subcommands().for_each(|command| check(command, faults));
    }

    /// The help is wrapped at the width of the terminal, which breaks a paragraph with line ends of its own twice.
    #[test]
    fn paragraphs_of_the_help_have_no_line_ends_and_examples_fit_a_terminal() {
        let mut faults = Vec::new();
        check(&Cli::command(), &mut faults);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
