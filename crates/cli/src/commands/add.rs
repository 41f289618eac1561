//! `hospes add`: adds a server, after a person has seen what is run and what it offers.

pub(super) mod answers;
mod bundle;
mod card;
pub(super) mod draft;
mod find;
pub(super) mod plan;
pub(super) mod sandbox;
mod source;
pub(super) mod trial;
pub(super) mod view;

use std::path::Path;
use std::time::{Duration, Instant};

use hospes_host::config::{add_servers, servers_text};
use hospes_host::pins::PinState;
use hospes_host::upstream::UpstreamState;
use hospes_registry::{is_local_registry, local_name};
use secrecy::ExposeSecret as _;
use serde_json::json;

use self::draft::ServerDraft;
use self::find::FoundServer;
use self::plan::{ChosenEntry, PlanRequest, PlannedServer};
use self::source::AddSource;
use self::trial::{ServerTrial, TrialReport};
use super::config_target::ConfigTarget;
use super::{InterruptListener, file_replace, interrupted, status};
use crate::args::{AddArgs, SandboxChoice};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{self, CliOutput, announce, one_line, paint, printable};
use crate::progress::StepBar;
use crate::secrets::SecretStore;
use crate::server_record::{RecordedVersion, ServerRecord};
use crate::{deciders, paths, registry};

/// Maximum time that a running host may take to start the new server.
const HOST_WAIT: Duration = Duration::from_secs(30);
/// Maximum time that a running host may take to notice the changed configuration.
const HOST_RELOAD: Duration = Duration::from_secs(5);
/// Interval at which the running host is asked.
const HOST_POLL: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: AddArgs, output: CliOutput) -> CliResult {
    let source = AddSource::parse(args.server.as_deref(), &args.command, args.sha256.as_deref())?
        .with_options(&args)?;
    let target = ConfigTarget::read(args.config.clone())?;
    let existing = target.servers()?;
    let may_ask = output::is_interactive() && !args.yes && !args.dry_run && !output.json;
    let is_taken = |name: &str| existing.iter().any(|server| server.name == name);
    if let Some(name) = args.local_name.as_deref().filter(|name| is_taken(name)) {
        return Err(CliError::usage(format!("there is already a server `{}`", printable(name)))
            .hint("choose another --name, or remove that server first: hospes remove NAME"));
    }
    // A person accepts what the server offers. A script may add a server, and the rules decide whether it has to wait.
    let by = match (may_ask, args.yes) {
        (true, _) => Some(deciders::decider().await?),
        (false, true) => deciders::decider().await.ok(),
        (false, false) => None,
    };

    let found = find::find(source, &args, &target, may_ask, output).await?;
    let named = |full: &str| args.local_name.clone().unwrap_or_else(|| local_name(full, is_taken));
    let registry_url = registry::base_url(&args.registry, target.registry().as_deref());
    let request = PlanRequest {
        package: args.package.as_deref(),
        set: &args.set,
        secret: &args.secret,
        sha256: args.sha256.as_deref(),
        known: answers::AnswerMap::new(),
        installs: !args.no_install,
        is_registry_local: is_local_registry(&registry_url),
        may_ask,
        output,
    };
    let mut planned = match found {
        FoundServer::Bundle(file) => bundle::plan((&file, None), None, |_| {}, &named, &request)?,
        FoundServer::Entry { entry, registry } => {
            let known: Vec<&str> = existing
                .iter()
                .map(|server| server.origin.registry.as_deref().unwrap_or(&server.name))
                .collect();
            let chosen = ChosenEntry { entry: &entry, registry: registry.as_deref(), known, previous: None };
            plan::plan(&chosen, &request, &named).await?
        }
        FoundServer::Url(url) => card::plan(&url, &named, output).await?,
        FoundServer::Command(words) => {
            let program = Path::new(&words[0]);
            let stem = program.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let name = named(&format!("command/{}", stem.unwrap_or_default()));
            PlannedServer::of_draft(ServerDraft::of_command(&name, &words), &name, |_| {})?
        }
    };
    let mut is_confined = args.sandbox == SandboxChoice::Suggested;
    if is_confined && planned.sandbox.is_none() {
        return Err(CliError::usage("no sandbox can be proposed for this server")
            .hint("leave --sandbox out, and write `sandbox` into the configuration"));
    }
    if args.dry_run || !(may_ask || args.yes) {
        planned.confine(is_confined);
        show_plan(&planned, output)?;
        return match args.dry_run {
            true => Ok(()),
            false => Err(CliError::usage("nothing was added, because nobody can be asked")
                .hint("add --yes to accept this, with --set and --secret for what the server asks")),
        };
    }
    if may_ask {
        announce(&planned.screen);
        is_confined = ask_start(&planned, is_confined, output)?;
    }
    let mut ending = InterruptListener::new()?;
    let prepared = ending.unless(planned.prepare(output)).await;
    let notices = prepared.unwrap_or_else(|| Err(interrupted("nothing was added")))?;
    planned.confine(is_confined);
    let begun = Instant::now();
    let name = planned.draft.name.clone();
    let trial = ServerTrial::start(planned.draft.resolved()?, by.is_some())?;
    let work = async {
        let bar = StepBar::spinner(&format!("starting {}", printable(&name)), output);
        let report = trial.report().await;
        drop(bar);
        report
    };
    let outcome = match ending.unless(work).await {
        None => Err(interrupted("nothing was added")),
        Some(Err(failure)) => Err(failure),
        Some(Ok(Err(status))) => Err(not_started(&status, &notices, is_confined, "nothing was added")),
        Some(Ok(Ok(report))) => {
            if !output.json {
                output.say(view::report(&report, &notices, begun.elapsed().as_secs_f32()));
            }
            // In a thread, so that Ctrl-C ends the question and the server.
            let ask = move || confirm("  Accept these definitions and keep the server?", output);
            let answer = async { !may_ask || tokio::task::spawn_blocking(ask).await.unwrap_or(false) };
            match ending.unless(answer).await {
                None => Err(interrupted("nothing was added")),
                Some(false) => Err(CliError::usage("not added; nothing was changed")),
                Some(true) => conclude(&planned, &target, &trial, report, by.as_deref(), &args, output).await,
            }
        }
    };
    trial.end().await;
    let report = outcome?;
    let recipe = planned.recipe.take();
    let folder = planned.folder.take();
    let path = folder.as_ref().map(|folder| folder.path().to_owned());
    if let Some(folder) = folder {
        folder.keep();
    }
    if let Some(recipe) = recipe {
        let current = RecordedVersion::new(recipe, path, &planned.draft.entry()?);
        let record = ServerRecord::new(&target.file, &name, &registry_url, current, None);
        // The server works without it.
        if let Err(error) = record.write() {
            output.warn(error);
        }
    }
    let is_used = wait_for_host(&name).await;
    say_added(&planned.draft, &report, is_used, target.text.trim().is_empty(), output);
    Ok(())
}

fn say_added(draft: &ServerDraft, report: &TrialReport, is_used: bool, is_first: bool, output: CliOutput) {
    let (name, origin) = (&draft.name, &draft.origin);
    if output.json {
        output.value(&json!({
            "server": name,
            "registry": origin.registry,
            "version": origin.version,
            "digest": origin.digest,
            "tools": report.tools.reads + report.tools.changes,
            "running": is_used,
        }));
        return;
    }
    output.say(view::added(name, is_used));
    if is_first && is_used {
        let note = "    The built-in servers, which run without a configuration, have ended.";
        output.say(paint(output::DIM, note));
    }
    if let Some(tool) = &report.example {
        let example = format!("    Try: hospes call {} {}", printable(name), printable(tool));
        output.say(paint(output::DIM, example));
    }
}

/// Asks whether the server is started, and in which sandbox. Returns whether it is confined.
fn ask_start(planned: &PlannedServer, mut is_confined: bool, output: CliOutput) -> CliResult<bool> {
    let verb = if planned.is_installed_first() { "Install and start it?" } else { "Start it?" };
    let sandbox = planned.sandbox.as_ref().filter(|_| cfg!(target_os = "linux"));
    loop {
        let other = match (sandbox, is_confined) {
            (None, _) => "",
            (Some(_), false) => " · s with the sandbox",
            (Some(_), true) => " · s without a sandbox",
        };
        output::discard_typed_input();
        let answer = output.ask(format!("\n  {verb} [Enter yes{other} · q no] "));
        match (answer.as_deref().map(str::trim), sandbox) {
            (Some("" | "y" | "Y" | "yes"), _) => return Ok(is_confined),
            (Some("s" | "S"), Some(sandbox)) => {
                is_confined = !is_confined;
                announce(match is_confined {
                    true => view::sandbox(&sandbox.describe()),
                    false => view::sandbox("none"),
                });
            }
            _ => return Err(CliError::usage("cancelled; nothing was changed")),
        }
    }
}

fn show_plan(planned: &PlannedServer, output: CliOutput) -> CliResult {
    let server = planned.draft.entry()?;
    let text = servers_text(&[(server, comment(&planned.draft))]);
    if output.json {
        let origin = &planned.draft.origin;
        output.value(&json!({
            "server": planned.draft.name,
            "registry": origin.registry,
            "version": origin.version,
            "entry": text,
            "secrets": planned.draft.secrets.keys().collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    output.say(&planned.screen);
    output.result(text.trim_end());
    Ok(())
}

fn comment(draft: &ServerDraft) -> String {
    match &draft.origin.registry {
        Some(name) => format!("{name}, from the registry"),
        None => "Added with `hospes add`".to_owned(),
    }
}

/// Asks a question that Enter answers with yes.
pub(super) fn confirm(question: &str, output: CliOutput) -> bool {
    output::discard_typed_input();
    let answer = output.ask(format!("\n{question} [Enter yes · q no] "));
    answer.is_some_and(|answer| matches!(answer.trim(), "" | "y" | "Y" | "yes"))
}

pub(super) fn not_started(
    status: &hospes_host::upstream::UpstreamStatus,
    notices: &[String],
    is_confined: bool,
    end: &str,
) -> CliError {
    let notices: String = notices.iter().map(|notice| format!("\n  {}", one_line(notice))).collect();
    let failure = CliError::new(
        FailureCode::Unreachable,
        format!("the server did not start, and {end}\n  {}{notices}", view::failure(status)),
    );
    match (&status.hint, is_confined, notices.is_empty()) {
        (Some(hint), ..) => failure.hint(printable(hint)),
        (None, true, _) => failure.hint("it may need more than its sandbox allows: try it without"),
        (None, false, false) => failure.hint("if it needs the scripts of its packages, use --no-install"),
        (None, false, true) => failure,
    }
}

/// Accepts what the server offers, stores its secrets, and writes its entry.
async fn conclude(
    planned: &PlannedServer,
    target: &ConfigTarget,
    trial: &ServerTrial,
    report: TrialReport,
    by: Option<&str>,
    args: &AddArgs,
    output: CliOutput,
) -> CliResult<TrialReport> {
    let server = planned.draft.entry()?;
    let entries = [(server, comment(&planned.draft))];
    let text = add_servers(&target.file, &target.text, &entries).map_err(|error| {
        let file = paths::display_path(&target.file);
        CliError::usage(format!("cannot add to {file}")).with_cause(&error).hint(format!(
            "nothing was changed; write `[servers]` as a table of its own, or add this by hand:\n{}",
            servers_text(&entries)
        ))
    })?;
    match (&report.pinned, by) {
        (Some(pinned), Some(by)) => trial.accept(pinned, by).await?,
        (Some(pinned), None) if pinned.state != PinState::Accepted => output.warn(format_args!(
            "what it offers waits for a person: hospes pins accept {}",
            printable(&planned.draft.name)
        )),
        _ => {}
    }
    // First the secrets: a file that refers to missing ones would be worse than secrets that nothing refers to.
    if !planned.draft.secrets.is_empty() {
        let store = SecretStore::open_or_create(args.credentials_store, output)?;
        for (name, value) in &planned.draft.secrets {
            store.write(name, value.expose_secret())?;
        }
    }
    file_replace::replace(&target.file, &target.text, &text)?;
    Ok(report)
}

/// Waits until the running host, if there is one, uses the server. Returns whether it does.
async fn wait_for_host(name: &str) -> bool {
    let begun = Instant::now();
    loop {
        // Without a host there is nothing to wait for.
        let Ok((_, status)) = status::running().await else { return false };
        let found = status.servers.iter().find(|server| server.name == name);
        let limit = match found {
            Some(server) if server.state == UpstreamState::Ready => return true,
            Some(_) => HOST_WAIT,
            // It may be a host with another configuration.
            None => HOST_RELOAD,
        };
        if begun.elapsed() > limit {
            return false;
        }
        tokio::time::sleep(HOST_POLL).await;
    }
}
