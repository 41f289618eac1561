//! Resolution of the server named on the command line: a URL, a configuration entry, a built-in server, or a command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hospes::client::{Client, ClientBuilder, ConnectError, Target};
use hospes::model::Era;
use hospes_host::config::{
    EraChoice, FleetConfig, SandboxConfig, ServerConfig, ServerTransport, nearest, redact_url,
};
use hospes_host::upstream::confine_command;
use hospes_oauth::{CredentialStore, NO_SIGN_IN_HINT, PreregisteredOAuthClient, RESOURCE_MISMATCH_HINT};

use crate::args::{ConnectArgs, EraArg};
use crate::commands::{InterruptListener, auth, interrupted};
use crate::credentials::{self, LazyStore};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::fleet::FleetTokenStore;
use crate::output::CliOutput;
use crate::program_sources::downloader;
use crate::settings::{check_folders, launch_helper, load};
use crate::shown_commands::shown_command;
use crate::{builtins, output, printed_secrets, profiles, prompt};

/// Hint for servers that require sign-in.
pub(crate) const SIGN_IN: &str =
    "sign in with `hospes auth login TARGET`, or pass your own token with `--header 'Authorization: …'`";

/// Hint for servers that offer no sign-in.
pub(crate) const OWN_TOKEN: &str =
    "the server offers no sign-in: pass a token of your own with `--header 'Authorization: Bearer …'`";

/// Time limit of a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a connection to a server that its program downloads first.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);

/// A resolved server and its settings.
#[derive(Debug)]
pub(crate) struct ServerTarget {
    pub(crate) target: Target,
    pub(crate) era: Option<Era>,
    /// Roots of the server, from the configuration.
    pub(crate) roots: Vec<PathBuf>,
    /// Client registered with the server's authorization server, from the configuration.
    pub(crate) client: Option<PreregisteredOAuthClient>,
    /// Scopes to request at a sign-in, from the configuration.
    pub(crate) scopes: Vec<String>,
    /// Fleet of the configuration, whose database has the tokens.
    pub(crate) fleet: Option<FleetConfig>,
}

impl ServerTarget {
    /// Creates a target that no configuration has.
    fn bare(target: Target, era: Option<Era>) -> Self {
        Self { target, era, roots: Vec::new(), client: None, scopes: Vec::new(), fleet: None }
    }
}

/// Resolves the server named on the command line. A word that matches nothing is an error; nothing is guessed.
pub(crate) fn find(word: Option<&str>, program: &[String], reach: &ConnectArgs) -> CliResult<ServerTarget> {
    let era = match reach.era {
        EraArg::Auto => None,
        EraArg::Legacy => Some(Era::Legacy),
        EraArg::Modern => Some(Era::Modern),
    };
    let found = |target| Ok(ServerTarget::bare(target, era));
    if let Some((first, rest)) = program.split_first() {
        let command = Target::command(first).args(rest);
        return found(apply_flags(command.into(), reach)?);
    }
    let word = word.ok_or_else(|| CliError::usage("no server was given"))?.trim();
    if word.starts_with("http://") || word.starts_with("https://") {
        if let Err(error) = url::Url::parse(word) {
            let shown = redact_url(word);
            return Err(CliError::usage(format!("`{shown}` is not a URL")).with_cause(&error));
        }
        return found(apply_flags(parse_url(word), reach)?);
    }
    let loaded = load(&reach.files)?;
    // Before the built-in servers, because an entry may have the name of one, with its own arguments.
    if let Some(server) = loaded.config.server(word) {
        tracing::info!("{word} is an entry of {}", server.source.file().display());
        let found = entry_target(server)?;
        return Ok(ServerTarget {
            target: apply_flags(found.target, reach)?,
            era: era.or(found.era),
            fleet: loaded.config.fleet.clone(),
            ..found
        });
    }
    if let Some(rejected) = loaded.config.rejected.iter().find(|rejected| rejected.name == word) {
        let mistakes = rejected.errors.full_text().replace('\n', "; ");
        return Err(CliError::usage(format!("the entry of the server `{word}` has mistakes: {mistakes}"))
            .hint(format!("`{}` says what mends it", shown_command("doctor", word))));
    }
    if builtins::names().any(|name| name == word) {
        return found(apply_flags(builtin(word, builtins::default_arguments(word))?, reach)?);
    }
    // Last, and only with blanks or for an existing program: a misspelt name must not be run.
    if word.contains(char::is_whitespace) || is_program(word) {
        let target = Target::parse(word);
        if let Target::Invalid { why, .. } = &target {
            return Err(CliError::usage(format!("`{word}` is not a valid command line: {why}")));
        }
        return found(apply_flags(target, reach)?);
    }
    let mut names: Vec<&str> = loaded.config.servers.iter().map(|server| server.name.as_str()).collect();
    // An entry may have the name of a built-in server.
    for name in builtins::names().filter(|name| loaded.config.server(name).is_none()) {
        names.push(name);
    }
    let mut failure = CliError::usage(format!(
        "`{word}` is not a URL, an entry of the configuration, a built-in server or a program"
    ));
    failure = match nearest(word, names.iter().copied()) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint(format!(
            "known names are {}; a command line goes in quotes or after `--`",
            names.join(", ")
        )),
    };
    Err(failure)
}

/// Resolves a server of the configuration that has the secrets of a profile.
pub(crate) fn find_of_profile(name: &str, profile: &str, reach: &ConnectArgs) -> CliResult<ServerTarget> {
    let loaded = load(&reach.files)?;
    profiles::find(profile, &loaded.config.profiles)?;
    let mut own = loaded.config.profile_servers.iter();
    let is_own = |server: &&ServerConfig| server.name == name && server.profile.as_deref() == Some(profile);
    let Some(server) = own.find(is_own) else {
        let problem = format!("the profile `{profile}` replaces no secret of a server `{name}`");
        return Err(CliError::usage(problem).hint(
            "without secrets of its own, a profile uses the account of everybody: leave out `--profile`",
        ));
    };
    let found = entry_target(server)?;
    let fleet = loaded.config.fleet.clone();
    Ok(ServerTarget { target: apply_flags(found.target, reach)?, fleet, ..found })
}

/// Returns the target of an entry of the configuration.
pub(crate) fn entry_target(server: &ServerConfig) -> CliResult<ServerTarget> {
    let client = match &server.transport {
        ServerTransport::Http(http) => http.client.as_ref().and_then(|client| client.given()),
        _ => None,
    };
    let scopes = match &server.transport {
        ServerTransport::Http(http) => http.scopes.clone(),
        _ => Vec::new(),
    };
    let roots = server.roots.clone().unwrap_or_default();
    let era = server.era.map(EraChoice::era);
    Ok(ServerTarget { roots, client, scopes, ..ServerTarget::bare(entry(server)?, era) })
}

/// Returns the target of a URL.
pub(crate) fn url_target(url: &str) -> CliResult<ServerTarget> {
    match parse_url(url) {
        Target::Invalid { why, .. } => {
            Err(CliError::usage(format!("`{}` is not valid: {why}", redact_url(url))))
        }
        target => Ok(ServerTarget::bare(target, None)),
    }
}

/// Returns the target of a URL that was typed. Errors show it without its secrets.
fn parse_url(url: &str) -> Target {
    printed_secrets::add_url(url);
    match Target::parse(url) {
        Target::Url(target) => target.shown_as(redact_url(url)).into(),
        other => other,
    }
}

/// Connects without a person who could answer questions. The inner error of a failure is that of the connection; the
/// outer one is that of its preparation.
pub(crate) async fn probe(
    found: ServerTarget,
    timeout: Duration,
) -> Result<Client, Result<ConnectError, CliError>> {
    let builder = Client::builder().info(hospes_host::implementation()).connect_timeout(timeout);
    let mut builder = with_era(builder, found.era);
    if !found.roots.is_empty() {
        builder = builder.roots(&found.roots);
    }
    let signs_in = matches!(found.target, Target::Url(_));
    let prepare = || {
        let store = if signs_in && found.fleet.is_none() { credentials::open_lazily()? } else { None };
        with_tokens(found.target, found.client, store, found.fleet)
    };
    let target = prepare().map_err(Err)?;
    builder.connect(target).await.map_err(Ok)
}

fn with_era(builder: ClientBuilder, era: Option<Era>) -> ClientBuilder {
    match era {
        Some(Era::Legacy) => builder.revision(hospes::model::Revision::LATEST_LEGACY),
        Some(Era::Modern) => builder.revision(hospes::model::Revision::LATEST),
        None => builder,
    }
}

fn entry(server: &ServerConfig) -> CliResult<Target> {
    match &server.transport {
        ServerTransport::Builtin(server) => {
            let args: Vec<&str> = server.args.iter().map(|arg| arg.reveal()).collect();
            builtin(&server.name, &args)
        }
        ServerTransport::Stdio(_) | ServerTransport::Http(_) => {
            let found = hospes_host::upstream::target(server, launch_helper().as_ref());
            found.map_err(|problem| {
                let failure = CliError::new(FailureCode::Unreachable, &*problem.message);
                match problem.hint {
                    Some(hint) => failure.hint(&*hint),
                    None => failure,
                }
            })
        }
        _ => Err(CliError::usage(format!("`{}` can only be used by `hospes up`", server.name))),
    }
}

/// Creates the target for a built-in server, which runs in a child process of this program.
fn builtin(name: &str, args: &[&str]) -> CliResult<Target> {
    let program = std::env::current_exe().map_err(|error| {
        CliError::usage("cannot determine the path of the hospes executable").with_cause(&error)
    })?;
    Ok(Target::command(program).args(["serve", name]).args(args).into())
}

fn is_program(word: &str) -> bool {
    let is_file = |file: &Path| file.is_file();
    if word.contains(std::path::MAIN_SEPARATOR) {
        return is_file(Path::new(word));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_file(&folder.join(word)))
}

/// Applies the flags of the command line.
fn apply_flags(target: Target, reach: &ConnectArgs) -> CliResult<Target> {
    match target {
        Target::Command(mut command) => {
            if !reach.headers.is_empty() {
                return Err(CliError::usage("--header applies to URLs only, but the server is a command"));
            }
            for pair in &reach.env {
                let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                    return Err(CliError::usage(format!("--env: expected NAME=value, got `{pair}`")));
                };
                printed_secrets::add_variable(name, value);
                command = command.env(name, value);
            }
            if let Some(folder) = &reach.cwd {
                check_folders("--cwd", std::slice::from_ref(folder))?;
                command = command.cwd(folder);
            }
            // An entry of the configuration comes with its sandbox.
            if command.launcher.is_some() {
                return Ok(command.into());
            }
            // If the program is missing, the client reports it.
            let guarded =
                confine_command(command.clone(), &SandboxConfig::default(), launch_helper().as_ref());
            Ok(guarded.map_or(command, |(guarded, _)| guarded).into())
        }
        Target::Url(mut url) => {
            if !reach.env.is_empty() || reach.cwd.is_some() {
                return Err(CliError::usage(
                    "--env and --cwd apply to commands only, but the server is a URL",
                ));
            }
            for header in &reach.headers {
                let Some((name, value)) = header.split_once(':').filter(|(name, _)| !name.trim().is_empty())
                else {
                    return Err(CliError::usage("--header: expected 'Name: value'"));
                };
                printed_secrets::add_header(name.trim(), value.trim());
                url = url.header(name.trim(), value.trim());
            }
            Ok(url.into())
        }
        other => Ok(other),
    }
}

/// Connects to the server.
pub(crate) async fn connect(
    found: ServerTarget,
    reach: &ConnectArgs,
    output: CliOutput,
    ending: &mut InterruptListener,
) -> CliResult<Client> {
    let downloader = match &found.target {
        Target::Command(command) => downloader(&command.program),
        _ => None,
    };
    let limit = reach.connect_timeout.unwrap_or_else(|| default_limit(downloader));
    let builder = Client::builder().info(hospes_host::implementation()).connect_timeout(limit);
    let mut builder = with_era(builder, found.era);
    check_folders("--root", &reach.roots)?;
    let roots = if reach.roots.is_empty() { &found.roots } else { &reach.roots };
    if !roots.is_empty() {
        builder = builder.roots(roots);
    }
    builder = answer_questions(builder, output);
    let signs_in = matches!(found.target, Target::Url(_));
    let store = if signs_in && found.fleet.is_none() { credentials::open_lazily()? } else { None };
    let target = with_tokens(found.target, found.client, store.clone(), found.fleet)?;
    let Some(connected) = ending.unless(builder.connect(target)).await else {
        return Err(interrupted("the connection was not yet established"));
    };
    connected.map_err(|error| {
        let is_silent = error.hint.as_deref().is_some_and(|hint| hint.contains("connect_timeout"));
        let mut failure = CliError::from(error);
        if let Some(name) = downloader.filter(|_| is_silent) {
            return failure.hint(format!(
                "{name} may still be downloading the package; try again, or raise --connect-timeout"
            ));
        }
        // No token was sent because the store could not be opened, which is the cause to report.
        if failure.code == FailureCode::Unauthorized
            && let Some(why) = store.and_then(|store| store.failure())
        {
            return why;
        }
        let is_mismatch = failure.hint.as_deref() == Some(RESOURCE_MISMATCH_HINT);
        if signs_in && failure.code == FailureCode::Unauthorized && !is_mismatch {
            let offers_none = failure.hint.as_deref() == Some(NO_SIGN_IN_HINT);
            failure.hint = Some(if offers_none { OWN_TOKEN } else { SIGN_IN }.to_owned());
        }
        // The host has answered, and names its profiles.
        if failure.message.contains("unknown profile `") {
            failure.hint = None;
        }
        // Here the time limit is set by a flag.
        failure.hint = failure.hint.map(|hint| hint.replace("connect_timeout", "--connect-timeout"));
        failure
    })
}

/// Returns the time limit of a connection without one of its own. The first start of a downloaded package takes long.
fn default_limit(downloader: Option<&str>) -> Duration {
    if downloader.is_some() { DOWNLOAD_LIMIT } else { CONNECT_LIMIT }
}

/// Authorizes requests with the tokens of an earlier sign-in, unless an `Authorization` header is given.
fn with_tokens(
    target: Target,
    client: Option<PreregisteredOAuthClient>,
    store: Option<Arc<LazyStore>>,
    fleet: Option<FleetConfig>,
) -> CliResult<Target> {
    let Target::Url(url) = target else { return Ok(target) };
    if url.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        return Ok(url.into());
    }
    // A token could be read in transit. Servers that need none are reachable over http too.
    if url::Url::parse(&url.url).is_ok_and(|url| !hospes_auth::metadata::is_secure(&url)) {
        return Ok(url.into());
    }
    let store = match fleet {
        Some(fleet) => Some(FleetTokenStore::new(fleet) as Arc<dyn CredentialStore>),
        None => store.map(|store| store as _),
    };
    let oauth = auth::client(&url.url, client, store)?;
    Ok(url.authorizer(Arc::new(oauth)).into())
}

/// Lets the person answer questions of servers, if there is a person.
fn answer_questions(builder: ClientBuilder, output: CliOutput) -> ClientBuilder {
    // Without a person the capability is not declared, so that servers do not ask and wait.
    if !output::is_interactive() {
        return builder;
    }
    builder.elicitation(move |params| prompt::elicit(params, output)).elicitation_urls()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn programs_that_download_first_have_more_time() {
        for name in ["npx", "/usr/bin/uvx", "npx.cmd", "docker", "dnx"] {
            assert_eq!(default_limit(downloader(OsStr::new(name))), DOWNLOAD_LIMIT, "{name}");
        }
        for name in ["node", "npx-like", "/opt/docker/server"] {
            assert_eq!(default_limit(downloader(OsStr::new(name))), CONNECT_LIMIT, "{name}");
        }
    }
}
