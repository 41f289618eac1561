//! `hospes doctor`: walks the way from application to server, and says which step fails, why, and what mends it.
//! The checks change nothing.

mod application;
mod application_entry;
mod bundle;
mod call;
mod check;
mod endpoint_search;
mod executable;
mod failed_connection;
mod fetch;
mod filters;
mod fleet;
mod host;
mod ignored;
mod launcher;
mod leftovers;
mod package;
mod port_owner;
mod report;
pub(crate) mod running_hosts;
mod server;
mod service;
mod sign_in;
mod system;

use futures::future::join_all;
use tokio::task::spawn_blocking;

use self::application::ApplicationChecks;
use self::bundle::SecretFilter;
pub(crate) use self::check::DOCTOR_CODES;
use self::check::DoctorChain;
use self::ignored::IgnoredWarnings;
use crate::args::DoctorArgs;
use crate::commands::{InterruptListener, end_with_input, interrupted};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{CliOutput, printable};
use crate::printed_secrets;
use crate::progress::StepBar;
use crate::settings::{default_servers, load_tolerantly};
use hospes_host::config::applications::{APPLICATIONS, Application};
use hospes_host::config::{HostConfig, ServerConfig, nearest, redact_url};
use hospes_host::upstream::{UpstreamState, UpstreamStatus};

/// Maximum number of servers that are checked at the same time. Each may start a process.
const MAX_CONCURRENT: usize = 8;

pub(crate) async fn run(args: DoctorArgs, output: CliOutput) -> CliResult {
    if args.codes {
        output.result(report::codes());
        return Ok(());
    }
    let mut ending = InterruptListener::new()?;
    let mut ignored = IgnoredWarnings::load();
    if !args.ignore.is_empty() || !args.no_ignore.is_empty() {
        return change_ignored(&mut ignored, &args, output);
    }
    let work = Box::pin(check(&args, output));
    let checked = match args.for_host {
        Some(_) => {
            end_with_input();
            ending.unless(check::listen(move |check| output.line(&report::step_line(check)), work)).await
        }
        None => ending.unless(work).await,
    };
    let CheckResult { mut chains, config, filter } =
        checked.unwrap_or_else(|| Err(interrupted("the checks were not completed")))?;
    ignored.apply(&mut chains);
    match args.for_host {
        Some(_) => output.line(&report::report_line(&chains)),
        None => report::print(&chains, args.verbose_report, output),
    }
    if let Some(file) = &args.bundle {
        bundle::write(file.as_deref(), &chains, config.as_ref(), &filter, output).await?;
    }
    match report::verdict(&chains) {
        report::DoctorVerdict::Faults => Err(CliError::silent(FailureCode::Usage)),
        report::DoctorVerdict::Warnings => Err(CliError::silent(FailureCode::Warnings)),
        report::DoctorVerdict::Well => Ok(()),
    }
}

fn change_ignored(ignored: &mut IgnoredWarnings, args: &DoctorArgs, output: CliOutput) -> CliResult {
    let target = args.target.as_deref();
    let of = target.map(|target| format!(" of {}", printable(target))).unwrap_or_default();
    for code in &args.ignore {
        ignored.add(code, target);
        output.say(format_args!(
            "the warning {code}{of} is ignored; `hospes doctor --no-ignore {code}` undoes it"
        ));
    }
    for code in &args.no_ignore {
        match ignored.remove(code, target) {
            true => output.say(format_args!("the warning {code}{of} is shown again")),
            false => output.say(format_args!("the warning {code}{of} was not ignored")),
        }
    }
    ignored.store()
}

/// Returns the text of the progress bar.
fn checking<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    format!("checking {} …", names.into_iter().collect::<Vec<_>>().join(", "))
}

/// Result of the checks.
struct CheckResult {
    chains: Vec<DoctorChain>,
    /// Configuration of the checked servers. `None` if it was not needed or cannot be read.
    config: Option<HostConfig>,
    /// Filter with the secrets of the whole configuration.
    filter: SecretFilter,
}

/// Runs the checks of what was named, or all of them.
async fn check(args: &DoctorArgs, output: CliOutput) -> CliResult<CheckResult> {
    let word = args.target.as_deref().map(str::trim);
    let url = word.filter(|word| word.starts_with("http://") || word.starts_with("https://"));
    // On a thread of its own: it reads secrets, and a locked keyring may ask the person meanwhile.
    let files = args.files.clone();
    let has_bundle = args.bundle.is_some();
    let load = spawn_blocking(move || {
        let loaded = load_tolerantly(&files);
        let filter = match (&loaded, has_bundle) {
            (Ok(loaded), true) => SecretFilter::new(Some(&loaded.config)),
            _ => SecretFilter::new(None),
        };
        (loaded, filter)
    });
    let load = async || load.await.map_err(|_| CliError::usage("the configuration could not be read"));
    if let Some(url) = url {
        // Before anything is said of it.
        printed_secrets::add_url(url);
        let filter = match has_bundle {
            true => load().await?.1.with_url(url),
            false => SecretFilter::new(None),
        };
        let _bar = StepBar::spinner(&checking([redact_url(url).as_str()]), output);
        return Ok(CheckResult { chains: vec![server::check_url(url, args).await], config: None, filter });
    }
    let mut chains = Vec::new();
    let (loaded, filter) = load().await?;
    let running = super::status::running().await.ok();
    if word.is_none() {
        let config = loaded.as_ref().ok().map(|loaded| &loaded.config);
        let status = running.as_ref().map(|(_, status)| status);
        chains.push(host::check(config, status, &args.files.config).await);
        if let Some(fleet) = config.and_then(|config| config.fleet.as_ref()) {
            chains.push(fleet::check(fleet).await);
        }
    }
    // Some checks wait for a server that does not answer.
    let bar = StepBar::spinner("checking the host and the applications …", output);
    let config = loaded.as_ref().ok().map(|loaded| &loaded.config);
    let is_server = |word: &str| config.is_some_and(|config| config.server(word).is_some());
    // A server may have the shown name of an application.
    let application = word.and_then(|word| {
        Application::find(word).filter(|application| application.id == word || !is_server(word))
    });
    if let Some(application) = application {
        let chains = ApplicationChecks::new(config).await.one(application).await;
        return Ok(CheckResult { chains, config: None, filter });
    }
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            chains.push(host::unreadable_configuration(&error));
            return Ok(CheckResult { chains, config: None, filter });
        }
    };
    let (mut config, is_default) = (loaded.config, loaded.files.is_empty());
    if is_default {
        config.servers = default_servers();
    }
    if let Some(word) = word {
        let known = || {
            let servers = config.servers.iter().map(|server| server.name.as_str());
            let rejected = config.rejected.iter().map(|server| server.name.as_str());
            let skipped = config.skipped.iter().map(|server| server.name.as_str());
            servers.chain(rejected).chain(skipped)
        };
        if !known().any(|name| name == word) {
            let names: Vec<&str> =
                known().chain(APPLICATIONS.iter().map(|application| application.id)).collect();
            let failure = CliError::usage(format!("`{word}` is no server, application or URL"));
            return Err(match nearest(word, names.iter().copied()) {
                Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
                None => failure.hint(format!("known names: {}", names.join(", "))),
            });
        }
        config.servers.retain(|server| server.name == word);
        config.rejected.retain(|server| server.name == word);
        config.skipped.retain(|server| server.name == word);
    } else {
        chains.extend(ApplicationChecks::new(Some(&config)).await.all().await);
    }
    chains.extend(config.rejected.iter().map(server::rejected));
    chains.extend(config.skipped.iter().map(server::skipped));
    // A second process of a server could disturb the first.
    let running = running.filter(|(_, status)| match args.for_host {
        Some(host) => status.pid == host,
        None => args.files.config.is_empty(),
    });
    let ready = |server: &ServerConfig| {
        let same = |found: &&UpstreamStatus| found.name == server.name && found.state == UpstreamState::Ready;
        let (endpoint, host) = running.as_ref()?;
        host.servers.iter().find(same).map(|status| (endpoint.as_str(), status))
    };
    for group in config.servers.chunks(MAX_CONCURRENT) {
        bar.set_text(&checking(group.iter().map(|server| server.name.as_str())));
        let checked = group.iter().map(async |server| match ready(server) {
            Some(found) => server::running((server, &config.profiles), found, args).await,
            None => server::check(server, &config.profiles, args).await,
        });
        chains.extend(join_all(checked).await);
    }
    Ok(CheckResult { chains, config: Some(config), filter })
}
