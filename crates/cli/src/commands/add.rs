//! `hospes add`: adds a server, after a person has seen what is run and what it offers.

mod answers;
mod draft;
mod source;
mod trial;
mod view;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hospes_host::config::{add_servers, servers_text};
use hospes_host::pins::PinState;
use hospes_host::upstream::UpstreamState;
use hospes_registry::{
    ArtifactClient, Choice, LaunchOption, LaunchPlan, LaunchSettings, PackageRegistries, ResolvedArtifact,
    ServerEntry, TrustContext, launch_options, local_name, questions, trust_signs,
};
use secrecy::ExposeSecret as _;
use serde_json::json;

use self::draft::ServerDraft;
use self::source::AddSource;
use self::trial::{ServerTrial, TrialReport};
use self::view::Screen;
use super::config_target::ConfigTarget;
use super::{InterruptListener, file_replace, interrupted, status};
use crate::args::AddArgs;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{self, CliOutput, announce, paint, printable};
use crate::progress::StepBar;
use crate::registry::open_registry;
use crate::secrets::SecretStore;
use crate::{deciders, paths};

/// Maximum number of search results that are offered.
const MAX_CANDIDATES: usize = 9;
/// Maximum time that a running host may take to start the new server.
const HOST_WAIT: Duration = Duration::from_secs(30);
/// Maximum time that a running host may take to notice the changed configuration.
const HOST_RELOAD: Duration = Duration::from_secs(5);
/// Interval at which the running host is asked.
const HOST_POLL: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: AddArgs, output: CliOutput) -> CliResult {
    let source = AddSource::parse(args.server.as_deref(), &args.command)?;
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

    let found = find(source, &args, may_ask, output).await?;
    let named = |full: &str| args.local_name.clone().unwrap_or_else(|| local_name(full, is_taken));
    let planned = match found {
        Found::Entry { entry, registry } => {
            let known: Vec<&str> = existing
                .iter()
                .map(|server| server.origin.registry.as_deref().unwrap_or(&server.name))
                .collect();
            let chosen = ChosenEntry { entry: &entry, registry: registry.as_deref(), known };
            plan(&chosen, &args, &named, may_ask, output).await?
        }
        Found::Url(url) => {
            let host = url::Url::parse(&url).ok().and_then(|url| url.host_str().map(str::to_owned));
            let name = named(&format!("url/{}", host.unwrap_or_default().replace('.', "-")));
            Planned::of_draft(ServerDraft::of_url(&name, &url), &name)?
        }
        Found::Command(words) => {
            let program = PathBuf::from(&words[0]);
            let stem = program.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let name = named(&format!("command/{}", stem.unwrap_or_default()));
            Planned::of_draft(ServerDraft::of_command(&name, &words), &name)?
        }
    };
    if args.dry_run || !(may_ask || args.yes) {
        show_plan(&planned, output)?;
        return match args.dry_run {
            true => Ok(()),
            false => Err(CliError::usage("nothing was added, because nobody can be asked")
                .hint("add --yes to accept this, with --set and --secret for what the server asks")),
        };
    }
    let name = planned.draft.name.clone();
    if may_ask {
        announce(&planned.screen);
        if !confirm("  Start it?", output) {
            return Err(CliError::usage("cancelled; nothing was changed"));
        }
    }
    let mut ending = InterruptListener::new()?;
    let begun = Instant::now();
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
        Some(Ok(Err(status))) => Err(not_started(&status)),
        Some(Ok(Ok(report))) => {
            if !output.json {
                output.say(view::report(&report, begun.elapsed().as_secs_f32()));
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
    let is_used = wait_for_host(&name).await;
    if output.json {
        let origin = &planned.draft.origin;
        output.value(&json!({
            "server": name,
            "registry": origin.registry,
            "version": origin.version,
            "digest": origin.digest,
            "tools": report.tools.reads + report.tools.changes,
            "running": is_used,
        }));
        return Ok(());
    }
    output.say(view::added(&name, is_used));
    if let Some(tool) = report.example {
        output.say(paint(
            output::DIM,
            format!("    Try: hospes call {} {}", printable(&name), printable(&tool)),
        ));
    }
    Ok(())
}

/// What was found for the word of the command line.
enum Found {
    Entry { entry: Box<ServerEntry>, registry: Option<String> },
    Url(String),
    Command(Vec<String>),
}

async fn find(source: AddSource, args: &AddArgs, may_ask: bool, output: CliOutput) -> CliResult<Found> {
    let registry = || open_registry(&args.registry);
    match source {
        AddSource::Url(url) => Ok(Found::Url(url)),
        AddSource::Command(words) => Ok(Found::Command(words)),
        AddSource::Package(entry) => Ok(Found::Entry { entry, registry: None }),
        AddSource::Registered(name) => {
            let registry = registry()?;
            let bar = StepBar::spinner(&format!("asking {}", registry.host()), output);
            let answer = registry.entry(&name, args.version.as_deref()).await;
            drop(bar);
            let answer = answer?;
            let registry = Some(registry.host().to_owned());
            Ok(Found::Entry { entry: Box::new(answer.value), registry })
        }
        AddSource::Words(words) => {
            let registry = registry()?;
            let bar = StepBar::spinner(&format!("searching {}", registry.host()), output);
            let answer = registry.search(&words, MAX_CANDIDATES).await;
            drop(bar);
            let answer = answer?;
            let total = answer.value.total;
            let mut entries = answer.value.entries;
            let chosen = match entries.len() {
                0 => {
                    return Err(CliError::usage(format!(
                        "no server in the registry matches `{}`",
                        printable(&words)
                    ))
                    .hint("a package of that name is not taken instead: name it as npm:NAME@VERSION or pypi:NAME==VERSION"));
                }
                1 => 0,
                _ => choose(&entries, total, (registry.host(), may_ask), output)?,
            };
            let mut entry = entries.swap_remove(chosen);
            if args.version.is_some() {
                let answer = registry.entry(&entry.name, args.version.as_deref()).await?;
                entry = answer.value;
            }
            let registry = Some(registry.host().to_owned());
            Ok(Found::Entry { entry: Box::new(entry), registry })
        }
    }
}

/// Asks which of several search results is meant.
fn choose(
    entries: &[ServerEntry],
    total: usize,
    (registry, may_ask): (&str, bool),
    output: CliOutput,
) -> CliResult<usize> {
    if !may_ask {
        let names: Vec<String> = entries.iter().map(|entry| printable(&entry.name)).collect();
        return Err(CliError::usage("several servers of the registry match")
            .hint(format!("name one in full: {}", names.join(", "))));
    }
    let shown = entries.len();
    announce(format_args!("\n  {shown} of {total} matches in {}\n", printable(registry)));
    for (index, entry) in entries.iter().enumerate() {
        announce(view::candidate(index + 1, entry));
    }
    output::discard_typed_input();
    let answer = output.ask(format!("\n  Which one? [1–{shown}; Enter takes 1, q none] "));
    let answer = answer.unwrap_or_else(|| "q".to_owned());
    match answer.trim() {
        "" => Ok(0),
        number => number
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1))
            .filter(|index| *index < shown)
            .ok_or_else(|| CliError::usage("cancelled; nothing was changed")),
    }
}

/// A server that can be started, and the screen about it.
struct Planned {
    draft: ServerDraft,
    screen: String,
}

impl Planned {
    fn of_draft(draft: ServerDraft, title: &str) -> CliResult<Self> {
        let server = draft.entry()?;
        let mut screen = Screen::default();
        screen.title(title, "step 2 of 3");
        view::launch(&mut screen, None, &server, &[]);
        view::permissions(&mut screen, None, &server);
        Ok(Self { draft, screen: screen.text() })
    }
}

/// An entry of a registry, or of a package.
struct ChosenEntry<'a> {
    entry: &'a ServerEntry,
    /// Host of the registry. `None` for a package that was named.
    registry: Option<&'a str>,
    /// Names of the configured servers.
    known: Vec<&'a str>,
}

/// Asks the package registry for the hash of the package. `None` for a remote server.
async fn resolve(
    entry: &ServerEntry,
    option: &LaunchOption,
    args: &AddArgs,
    output: CliOutput,
) -> CliResult<Option<ResolvedArtifact>> {
    let Choice::Package(index) = option.choice else { return Ok(None) };
    let Some(package) = entry.packages.get(index) else { return Ok(None) };
    let _bar =
        StepBar::spinner(&format!("asking for the hash of {}", printable(&package.identifier)), output);
    let resolved = ArtifactClient::new(package_registries(args)).resolve(package).await;
    resolved.map(Some).map_err(|error| {
        let text = format!("the package of `{}` was not found", printable(&entry.name));
        CliError::new(FailureCode::Unreachable, text).with_cause(&error)
    })
}

/// Returns the package registries that the launchers use, too: a mirror is named by their own variables.
fn package_registries(args: &AddArgs) -> PackageRegistries {
    let mut registries = PackageRegistries::default();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(npm) = variable("npm_config_registry").or_else(|| variable("NPM_CONFIG_REGISTRY")) {
        registries.npm = npm;
    }
    if let Some(index) = variable("UV_DEFAULT_INDEX") {
        registries.pypi = index.trim_end_matches('/').trim_end_matches("/simple").to_owned();
    }
    // A registry on this machine may list files of this machine.
    let base = args.registry.registry.as_deref().and_then(|base| url::Url::parse(base).ok());
    registries.local_bundles = base.is_some_and(|base| match base.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    });
    registries
}

/// Chooses how an entry is run, asks its questions, and plans the start.
async fn plan(
    chosen: &ChosenEntry<'_>,
    args: &AddArgs,
    named: &impl Fn(&str) -> String,
    may_ask: bool,
    output: CliOutput,
) -> CliResult<Planned> {
    let ChosenEntry { entry, registry, known } = chosen;
    let options = launch_options(entry);
    let option = select(entry, &options, args)?;
    let title = entry.title.as_deref().unwrap_or(&entry.name);
    let asked = questions(entry, option.choice);
    if may_ask && !asked.is_empty() {
        announce(format_args!("\n  {} asks for:", paint(output::BOLD, printable(title))));
    }
    let answers = answers::collect(&asked, args, may_ask, output)?;
    let artifact = resolve(entry, option, args, output).await?;
    let mut settings = LaunchSettings::default();
    settings.digest = artifact.as_ref().and_then(|artifact| artifact.digest.clone());
    let plan = LaunchPlan::new(entry, option.choice, &answers, &settings).map_err(|error| {
        CliError::usage(format!("`{}` cannot be started", printable(&entry.name))).with_cause(&error)
    })?;
    if plan.install.is_some() {
        return Err(CliError::usage(format!("packages of type {} are not installed yet", option.kind))
            .hint("choose another one with --package, or install it and add its command after `--`"));
    }
    let name = named(&entry.name);
    let mut draft = ServerDraft::of_plan(&name, &plan);
    if registry.is_none() {
        draft.origin.registry = None;
    }
    let server = draft.entry()?;
    let mut screen = Screen::default();
    screen.title(&format!("{title} {}", entry.version), "step 2 of 3");
    if let Some(host) = registry {
        let mut context = TrustContext::new(host, jiff::Timestamp::now());
        context.known_names.clone_from(known);
        view::origin(&mut screen, entry, &trust_signs(entry, &context), host);
    }
    let usable = options.iter().filter(|other| other.obstacle.is_none() && other.choice != option.choice);
    let others: Vec<String> = usable.map(|other| other.kind.clone()).collect();
    view::launch(&mut screen, Some(option), &server, &others);
    if let Some(artifact) = &artifact {
        view::artifact(&mut screen, artifact);
    }
    view::permissions(&mut screen, Some(&plan), &server);
    Ok(Planned { draft, screen: screen.text() })
}

/// Returns the way to run an entry: the named one, or the first that can be used.
fn select<'o>(
    entry: &ServerEntry,
    options: &'o [LaunchOption],
    args: &AddArgs,
) -> CliResult<&'o LaunchOption> {
    let kinds = || options.iter().map(|option| option.kind.as_str()).collect::<Vec<_>>().join(", ");
    let wanted = |option: &&LaunchOption| args.package.as_ref().is_none_or(|kind| option.kind == *kind);
    let found = options.iter().filter(wanted).min_by_key(|option| option.obstacle.is_some());
    let Some(option) = found else {
        let problem = CliError::usage(format!("`{}` cannot be run in that way", printable(&entry.name)));
        return Err(match options.is_empty() {
            true => problem.hint("the entry names no package and no URL"),
            false => problem.hint(format!("it can be run as {}", printable(&kinds()))),
        });
    };
    match &option.obstacle {
        None => Ok(option),
        Some(why) => {
            Err(CliError::usage(format!("`{}` cannot be started here: {why}", printable(&entry.name))))
        }
    }
}

fn show_plan(planned: &Planned, output: CliOutput) -> CliResult {
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
fn confirm(question: &str, output: CliOutput) -> bool {
    output::discard_typed_input();
    let answer = output.ask(format!("\n{question} [Enter yes · q no] "));
    answer.is_some_and(|answer| matches!(answer.trim(), "" | "y" | "Y" | "yes"))
}

fn not_started(status: &hospes_host::upstream::UpstreamStatus) -> CliError {
    let failure = CliError::new(
        FailureCode::Unreachable,
        format!("the server did not start, and nothing was added\n  {}", view::failure(status)),
    );
    match &status.hint {
        Some(hint) => failure.hint(printable(hint)),
        None => failure,
    }
}

/// Accepts what the server offers, stores its secrets, and writes its entry.
async fn conclude(
    planned: &Planned,
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
