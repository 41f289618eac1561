//! The start of a server, planned: which package, with which answers, and what the person is shown.

use std::path::Path;

use hospes_registry::{
    ArtifactClient, DownloadProgress, LaunchAnswers, LaunchChoice, LaunchOption, LaunchPlan, LaunchSettings,
    Package, PackageRegistries, RegistryType, ResolvedArtifact, ServerEntry, TrustContext, is_local_registry,
    launch_options, questions, trust_signs,
};

use super::answers::{self, AskedValue};
use super::bundle::{self, BundleFolder};
use super::draft::ServerDraft;
use super::view::{self, Screen};
use crate::args::AddArgs;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{self, CliOutput, announce, paint, printable};
use crate::paths;
use crate::progress::StepBar;
use crate::registry::launcher_registries;

/// A server that can be started, and the screen about it.
pub(super) struct PlannedServer {
    pub(super) draft: ServerDraft,
    /// Text for the person: the command and its permissions.
    pub(super) screen: String,
    /// Folder of the bundle, which is unpacked before the start, and removed unless the server is added.
    pub(super) folder: Option<BundleFolder>,
}

impl PlannedServer {
    /// Plans a command or a URL.
    pub(super) fn of_draft(draft: ServerDraft, title: &str) -> CliResult<Self> {
        let server = draft.entry()?;
        let mut screen = Screen::default();
        screen.title(title, "step 2 of 3");
        view::launch(&mut screen, None, &server, &[]);
        view::permissions(&mut screen, None, &server);
        Ok(Self { draft, screen: screen.text(), folder: None })
    }
}

/// An entry of a registry, or of a package.
pub(super) struct ChosenEntry<'a> {
    pub(super) entry: &'a ServerEntry,
    /// Host of the registry. `None` for a package that was named.
    pub(super) registry: Option<&'a str>,
    /// Names of the configured servers.
    pub(super) known: Vec<&'a str>,
}

/// Asks the package registry for the hash of the package. `None` for a remote server.
async fn resolve(
    entry: &ServerEntry,
    option: &LaunchOption,
    args: &AddArgs,
    output: CliOutput,
) -> CliResult<Option<ResolvedArtifact>> {
    let LaunchChoice::Package(index) = option.choice else { return Ok(None) };
    let Some(package) = entry.packages.get(index) else { return Ok(None) };
    let _bar =
        StepBar::spinner(&format!("asking for the hash of {}", printable(&package.identifier)), output);
    let resolved = ArtifactClient::new(package_registries(args)).resolve(package).await;
    resolved.map(Some).map_err(|error| {
        let text = format!("the package of `{}` was not found", printable(&entry.name));
        CliError::new(FailureCode::Unreachable, text).with_cause(&error)
    })
}

/// Downloads a bundle, and checks its hash.
async fn download(package: &Package, file: &Path, args: &AddArgs, output: CliOutput) -> CliResult {
    let mut bar: Option<StepBar> = None;
    let progress = |progress: DownloadProgress| {
        let bar = bar.get_or_insert_with(|| StepBar::bytes("downloading the bundle", progress.total, output));
        bar.set_bytes(progress.bytes);
    };
    let client = ArtifactClient::new(package_registries(args));
    let downloaded = client.download_bundle(package, file, progress).await;
    downloaded.map(drop).map_err(|error| {
        CliError::new(FailureCode::Unreachable, "the bundle was not downloaded")
            .with_cause(&error)
            .hint("nothing was added")
    })
}

/// Returns the package registries that the launchers use, too: a mirror is named by their own variables.
fn package_registries(args: &AddArgs) -> PackageRegistries {
    let mut registries = launcher_registries(|name| std::env::var(name).ok());
    // A registry on this machine may list files of this machine.
    registries.local_bundles = args.registry.registry.as_deref().is_some_and(is_local_registry);
    registries
}

/// Chooses how an entry is run, asks its questions, and plans the start.
pub(super) async fn plan(
    chosen: &ChosenEntry<'_>,
    args: &AddArgs,
    named: &impl Fn(&str) -> String,
    may_ask: bool,
    output: CliOutput,
) -> CliResult<PlannedServer> {
    let ChosenEntry { entry, registry, known } = chosen;
    let options = launch_options(entry);
    let option = select(entry, &options, args)?;
    let title = entry.title.as_deref().unwrap_or(&entry.name);
    let head = |screen: &mut Screen| {
        if let Some(host) = registry {
            let mut context = TrustContext::new(host, jiff::Timestamp::now());
            context.known_names.clone_from(known);
            view::origin(screen, entry, &trust_signs(entry, &context), host);
        }
    };
    if let LaunchChoice::Package(index) = option.choice
        && let Some(package) = entry.packages.get(index)
        && package.registry_type == RegistryType::Mcpb
    {
        let folder = paths::private_folder()
            .map_err(|error| CliError::usage("cannot create a folder for the download").with_cause(&error))?;
        let file = folder.path().join("server.mcpb");
        download(package, &file, args, output).await?;
        let entry_name = registry.map(|_| entry.name.as_str());
        return bundle::plan((&file, Some(folder)), entry_name, head, named, args, may_ask, output);
    }
    let asked = questions(entry, option.choice);
    if may_ask && !asked.is_empty() {
        announce(format_args!("\n  {} asks for:", paint(output::BOLD, printable(title))));
    }
    let asked: Vec<AskedValue<'_>> = asked.iter().map(AskedValue::of_entry).collect();
    let given = answers::collect(&asked, args, may_ask, output)?;
    let mut answers = LaunchAnswers::new();
    for (id, values) in given {
        values.into_iter().for_each(|value| answers.push(&*id, value));
    }
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
    head(&mut screen);
    let usable = options.iter().filter(|other| other.obstacle.is_none() && other.choice != option.choice);
    let others: Vec<String> = usable.map(|other| other.kind.clone()).collect();
    view::launch(&mut screen, Some(option), &server, &others);
    if let Some(artifact) = &artifact {
        view::artifact(&mut screen, artifact);
    }
    view::permissions(&mut screen, Some(&plan), &server);
    Ok(PlannedServer { draft, screen: screen.text(), folder: None })
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
