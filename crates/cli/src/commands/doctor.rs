//! `hospes doctor`: walks the way from application to server, and says which step fails, why, and what mends it.
//! The checks change nothing and call no tool.

mod application;
mod check;
mod host;
mod report;
mod server;

use futures::future::join_all;

use self::check::DoctorChain;
use crate::args::DoctorArgs;
use crate::commands::{InterruptListener, interrupted};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::CliOutput;
use crate::settings::{default_servers, load_tolerantly};
use hospes_host::config::applications::{APPLICATIONS, Application};
use hospes_host::config::{ServerConfig, nearest};
use hospes_host::upstream::{UpstreamState, UpstreamStatus};

/// Maximum number of servers that are checked at the same time. Each may start a process.
const MAX_CONCURRENT: usize = 8;

pub(crate) async fn run(args: DoctorArgs, output: CliOutput) -> CliResult {
    if args.codes {
        output.result(report::codes());
        return Ok(());
    }
    let mut ending = InterruptListener::new()?;
    let checked = ending.unless(Box::pin(check(&args))).await;
    let chains = checked.unwrap_or_else(|| Err(interrupted("the checks were not completed")))?;
    report::print(&chains, args.verbose_report, output);
    match report::verdict(&chains) {
        report::DoctorVerdict::Faults => Err(CliError::silent(FailureCode::Usage)),
        _ => Ok(()),
    }
}

/// Runs the checks of what was named, or all of them.
async fn check(args: &DoctorArgs) -> CliResult<Vec<DoctorChain>> {
    let word = args.target.as_deref().map(str::trim);
    if let Some(url) = word.filter(|word| word.starts_with("http://") || word.starts_with("https://")) {
        return Ok(vec![server::check_url(url, args).await]);
    }
    let mut chains = Vec::new();
    let loaded = load_tolerantly(&args.files);
    if word.is_none() {
        chains.push(host::check().await);
    }
    if let Some(application) = word.and_then(Application::find) {
        return Ok(vec![
            application::check(application, true).unwrap_or_else(|| DoctorChain::new(application.id)),
        ]);
    }
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            chains.push(host::unreadable_configuration(&error));
            return Ok(chains);
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
        let applications = APPLICATIONS.iter().filter_map(|one| application::check(one, false));
        chains.extend(applications);
    }
    chains.extend(config.rejected.iter().map(server::rejected));
    chains.extend(config.skipped.iter().map(server::skipped));
    // A second process of a server could disturb the first.
    let running = match args.files.config.is_empty() {
        true => super::status::running().await.ok().map(|(_, status)| status.servers),
        false => None,
    };
    let ready = |server: &ServerConfig| {
        let same = |found: &&UpstreamStatus| found.name == server.name && found.state == UpstreamState::Ready;
        running.iter().flatten().find(same)
    };
    for group in config.servers.chunks(MAX_CONCURRENT) {
        let checked = group.iter().map(async |server| match ready(server) {
            Some(status) => server::running(status),
            None => server::check(server, args).await,
        });
        chains.extend(join_all(checked).await);
    }
    Ok(chains)
}
