//! The console: served by `hospes up`, opened by `hospes console`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hospes_console::{
    ConfigFile, Console, ConsoleEnvironment, ConsoleServer, DeciderSettings, LocalConsole, PolicyFile,
    SessionLifetimes, TeamConsole,
};
use hospes_host::Host;
use hospes_host::config::{ConsoleConfig, Secret};
use hospes_host::deciders::DecisionSource;
use serde::Deserialize;

use super::add::page::RegistryAdder;
use super::console_setup::ProgramCommands;
use super::serve::listen_error;
use super::{connect, file_replace};
use crate::args;
use crate::exit::CliResult;
use crate::output::{CliOutput, DIM, is_result_seen, paint};
use crate::secrets::{SecretStore, check_name, check_value};
use crate::{credentials, deciders, enforcement, local_host, paths};

/// Time the redirect page is kept for the browser to read it.
const PAGE_LIFETIME: Duration = Duration::from_secs(5);

/// Output of steps that belong to a page: nothing is printed and no terminal is asked.
const SILENT: CliOutput = CliOutput { json: true, quiet: true };

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LinkReply {
    url: String,
    lifetime_ms: u64,
}

pub(crate) async fn run(args: &args::ConsoleArgs, output: CliOutput) -> CliResult {
    let wanted = async |console: &LocalConsole| console.post("links", &serde_json::json!({})).await;
    let (_, link): (_, LinkReply) =
        local_host::ask_running_host("cannot create a console link", wanted).await?;
    if output.json {
        output.value(&serde_json::json!({ "console": link.url, "lifetimeMs": link.lifetime_ms }));
        return Ok(());
    }
    output.result(&link.url);
    output.say(paint(DIM, format!("valid once, for {} minutes", link.lifetime_ms / 60_000)));
    // A program that reads the link opens it itself.
    if args.no_browser || !is_result_seen() {
        return Ok(());
    }
    // Before the attempt: a browser may start and show nothing.
    output.say(paint(DIM, "opening it in the browser; otherwise open the link yourself"));
    if !open_in_browser(&link.url).await {
        output.say(paint(DIM, "no browser could be opened"));
    }
    Ok(())
}

/// Replaces a file when a person saves a rule or a profile in the console.
fn replace_file(file: &Path, before: &str, after: &str) -> Result<(), String> {
    file_replace::replace(file, before, after).map_err(|error| error.message)
}

/// Stores or removes a secret when a person saves the settings of a server. Returns the value before.
fn write_secret(name: &str, value: Option<&Secret>) -> Result<Option<Secret>, String> {
    let write = || -> CliResult<Option<Secret>> {
        check_name(name)?;
        let wanted = credentials::store_from_environment()?;
        let store = SecretStore::open_or_create(wanted, SILENT)?;
        let before = store.read(name)?.map(Secret::new);
        match value {
            Some(value) => {
                check_value(value.reveal())?;
                store.write(name, value.reveal())?;
            }
            None => store.remove(name)?,
        }
        Ok(before)
    };
    write().map_err(|error| error.message)
}

/// Opens a link in the browser, by a page that is deleted soon. Returns false if that failed.
pub(crate) async fn open_in_browser(url: &str) -> bool {
    let Ok(page) = paths::write_redirect_page(url) else { return false };
    let is_open = webbrowser::open(&format!("file://{}", page.display())).is_ok();
    if is_open {
        tokio::time::sleep(PAGE_LIFETIME).await;
    }
    paths::remove_host_note(&page);
    is_open
}

/// Serves the console unless it is disabled: at the configured address, else at its default port, or at any free port
/// if another program uses that.
pub(super) async fn serve(
    host: &Host,
    (place, max_streams, team): (Option<ConsoleConfig>, Option<usize>, Option<TeamConsole>),
    from: DecisionSource,
    (endpoint, policy, config, files): (&str, Option<PathBuf>, Option<PathBuf>, Vec<PathBuf>),
    output: CliOutput,
) -> CliResult<Option<ConsoleServer>> {
    if from == DecisionSource::Programs {
        output
            .warn("any program of this user can decide approvals: `console.decisions_from` is \"programs\"");
    }
    let deciders = DeciderSettings::new(from).with_tokens(deciders::tokens());
    let mut environment = ConsoleEnvironment::default()
        .endpoint(endpoint)
        .streams(max_streams)
        .team(team)
        .applications(Arc::new(connect::found_applications))
        .private_folders(paths::own_folders())
        .secrets(Arc::new(write_secret))
        .adder(Arc::new(RegistryAdder { config: config.clone() }))
        .setup(Arc::new(ProgramCommands { config: config.clone(), files }));
    if let Some(file) = paths::onboarding_file() {
        environment = environment.onboarding(file);
    }
    if let Some(file) = policy.or_else(paths::policy_file) {
        environment = environment.policy(PolicyFile::new(
            file,
            enforcement::policy_environment(),
            Arc::new(replace_file),
        ));
    }
    if let Some(file) = config {
        environment = environment.config(ConfigFile::new(file, Arc::new(replace_file)));
    }
    let console = Console::in_environment(host, SessionLifetimes::default(), deciders, environment);
    let listening = match place {
        Some(ConsoleConfig::Off) => return Ok(None),
        Some(ConsoleConfig::Listen(address)) => {
            console.listen(address).await.map_err(|error| listen_error(address, "--console", &error))?
        }
        _ => {
            let usual = hospes_console::DEFAULT_LISTEN;
            // Cloned, because `listen` consumes it and a second attempt may follow.
            match console.clone().listen(usual).await {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    let any = SocketAddr::new(usual.ip(), 0);
                    console.listen(any).await.map_err(|error| listen_error(any, "--console", &error))?
                }
                listening => listening.map_err(|error| listen_error(usual, "--console", &error))?,
            }
        }
    };
    // Beside the host's note and with the same name, by which `socket_beside` finds it.
    let Some(socket) = paths::socket(std::process::id()) else { return Ok(Some(listening)) };
    let made = match paths::create_runtime_folder() {
        Ok(()) => listening.with_socket(&socket).await,
        Err(error) => Err((Box::new(listening), error)),
    };
    Ok(Some(made.unwrap_or_else(|(listening, error)| {
        output.warn(format_args!(
            "cannot create the socket that `hospes console` uses: {}: {error}",
            socket.display()
        ));
        *listening
    })))
}
