//! The start of a server, planned: which package, with which answers, and what the person is shown.

use std::path::Path;

use hospes_host::upstream::UpstreamStatus;
use hospes_registry::{
    LaunchAnswers, LaunchChoice, LaunchOption, LaunchPlan, LaunchSettings, RegistryType, ServerEntry,
    TrustContext, TrustSign, install_obstacle, launch_options, questions, trust_signs,
};

use super::answers::{self, AnswerMap, Asker};
use super::asked_value::AskedValue;
use super::bundle::{self, BundleFolder};
use super::denied::DeniedAccess;
use super::draft::{self, ServerDraft};
use super::entry_origin;
use super::package_artifact;
use super::sandbox::ProposedSandbox;
use super::screen::Screen;
use super::view::{self, TextAuthor};
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, printable};
use crate::packages::PackageFolder;
use crate::packages::name::PackageName;
use crate::paths;
use crate::server_record::LaunchRecipe;

/// A server that can be started, and the screen about it.
pub(in crate::commands) struct PlannedServer {
    pub(in crate::commands) draft: ServerDraft,
    /// Rows for the person: the command and its permissions.
    pub(in crate::commands) screen: Screen,
    /// Folder of the bundle or package, which is filled before the start, and removed unless the server is added.
    pub(in crate::commands) folder: Option<ServerFolder>,
    /// Sandbox that is proposed, if one can be.
    pub(in crate::commands) sandbox: Option<ProposedSandbox>,
    /// Data for a later update, if the server is of the registry.
    pub(in crate::commands) recipe: Option<LaunchRecipe>,
    /// The entry belongs to another owner than the one that it replaces, or its source is elsewhere.
    pub(in crate::commands) has_other_owner: bool,
    /// Warnings about the entry and about its start.
    pub(in crate::commands) warnings: Vec<String>,
    /// Those about its start: they stay the same while the entry does.
    pub(in crate::commands) launch_warnings: Vec<String>,
    /// Permissions that the command line grants, as texts. The flag is true for those that end the confinement.
    pub(in crate::commands) permissions: Vec<(String, bool)>,
    /// Other kinds of packages with which the server can be run here.
    pub(in crate::commands) other_packages: Vec<String>,
}

impl PlannedServer {
    /// Plans a command or a URL. `head` writes the rows about its origin.
    pub(in crate::commands) fn of_draft(
        draft: ServerDraft,
        title: &str,
        head: impl FnOnce(&mut Screen),
    ) -> CliResult<Self> {
        let server = draft.entry()?;
        let mut screen = Screen::default();
        screen.title(title, "step 2 of 3");
        head(&mut screen);
        view::launch(&mut screen, None, &server, &[], TextAuthor::Person);
        view::permissions(&mut screen, None, &server, None);
        Ok(Self {
            draft,
            screen,
            folder: None,
            sandbox: None,
            recipe: None,
            has_other_owner: false,
            warnings: Vec::new(),
            launch_warnings: Vec::new(),
            permissions: Vec::new(),
            other_packages: Vec::new(),
        })
    }

    /// Installs the package, or unpacks the bundle. Returns notices for the person.
    pub(in crate::commands) async fn prepare(&mut self, output: CliOutput) -> CliResult<Vec<String>> {
        let mut notices = Vec::new();
        match &mut self.folder {
            None => {}
            Some(ServerFolder::Bundle(folder)) => folder.unpack(&mut notices)?,
            Some(ServerFolder::Package { folder, expected }) => {
                let installed = folder.install(output, &mut notices).await?;
                self.draft.set_program(*expected, &installed.command);
                *expected = installed.command.len();
                // Not the planned one: an entry without a digest is better than one with that of another file.
                self.draft.origin.digest = installed.digest;
                if !installed.skipped_scripts.is_empty() {
                    let names = installed.skipped_scripts.join(", ");
                    notices.push(format!("scripts of these packages were not run: {names}"));
                }
                if !installed.unhashed.is_empty() {
                    let names = installed.unhashed.join(", ");
                    notices.push(format!("these packages have no hash: {names}"));
                }
            }
        }
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.complete(&self.draft.program());
        }
        Ok(notices)
    }

    /// Applies the proposed sandbox to the entry, or none.
    pub(in crate::commands) fn confine(&mut self, is_confined: bool) {
        let table = self.sandbox.as_ref().filter(|_| is_confined).map(ProposedSandbox::table);
        self.draft.set_sandbox(table);
    }

    /// Offers the one grant that a confined server lacks. Returns true if the person made it, and the server can be started
    /// again.
    pub(super) fn offer_grant(&mut self, status: &UpstreamStatus, output: CliOutput) -> bool {
        let Some(sandbox) = &mut self.sandbox else { return false };
        let denied = status.problem.as_deref().and_then(|problem| DeniedAccess::find(problem, sandbox));
        let Some(denied) = denied.filter(|denied| denied.ask(output)) else { return false };
        sandbox.grant(&denied);
        self.confine(true);
        true
    }

    /// Returns true if the start is preceded by an installation.
    pub(in crate::commands) fn is_installed_first(&self) -> bool {
        matches!(self.folder, Some(ServerFolder::Package { .. }))
    }
}

/// Folder of a server.
pub(in crate::commands) enum ServerFolder {
    Bundle(Box<BundleFolder>),
    Package {
        folder: Box<PackageFolder>,
        /// Number of words of the command that start the package, before its own arguments.
        expected: usize,
    },
}

impl ServerFolder {
    pub(in crate::commands) fn path(&self) -> &Path {
        match self {
            Self::Bundle(folder) => folder.path(),
            Self::Package { folder, .. } => folder.path(),
        }
    }

    /// Keeps the folder, which is removed otherwise.
    pub(in crate::commands) fn keep(self) {
        match self {
            Self::Bundle(folder) => folder.keep(),
            Self::Package { folder, .. } => folder.keep(),
        }
    }
}

/// Choices about how a server is run, and its answers.
pub(in crate::commands) struct PlanRequest<'a> {
    /// Kind of package, if one is demanded.
    pub(in crate::commands) package: Option<&'a str>,
    /// Answers and secrets of the command line.
    pub(in crate::commands) set: &'a [String],
    pub(in crate::commands) secret: &'a [String],
    /// SHA-256 that a bundle must have.
    pub(in crate::commands) sha256: Option<&'a str>,
    /// Answers that were given when the server was added.
    pub(in crate::commands) known: AnswerMap,
    /// Packages are installed into private folders.
    pub(in crate::commands) installs: bool,
    /// The registry is on this machine, so that its bundles may be, too.
    pub(in crate::commands) is_registry_local: bool,
    /// The person who is asked for answers that are missing.
    pub(in crate::commands) asker: Asker<'a>,
    pub(in crate::commands) output: CliOutput,
}

/// An entry of a registry, or of a package.
pub(in crate::commands) struct ChosenEntry<'a> {
    pub(in crate::commands) entry: &'a ServerEntry,
    /// Host of the registry. `None` for a package that was named.
    pub(in crate::commands) registry: Option<&'a str>,
    /// Names of the configured servers.
    pub(in crate::commands) known: Vec<&'a str>,
    /// Entry that this one replaces.
    pub(in crate::commands) previous: Option<&'a ServerEntry>,
}

/// Chooses how an entry is run, asks its questions, and plans the start.
pub(in crate::commands) async fn plan(
    chosen: &ChosenEntry<'_>,
    request: &PlanRequest<'_>,
    named: &(impl Fn(&str) -> String + Sync),
) -> CliResult<PlannedServer> {
    let ChosenEntry { entry, registry, known, previous } = chosen;
    let options = launch_options(entry);
    let option = select(entry, &options, request.package)?;
    let title = entry.title.as_deref().unwrap_or(&entry.name);
    let signs = registry.map(|host| {
        let mut context = TrustContext::new(host, jiff::Timestamp::now());
        context.known_names.clone_from(known);
        context.previous = *previous;
        trust_signs(entry, &context)
    });
    let signs = signs.unwrap_or_default();
    let head = |screen: &mut Screen| {
        if let Some(host) = registry {
            entry_origin::origin(screen, entry, &signs, host);
        }
    };
    let usable = options.iter().filter(|other| other.obstacle.is_none() && other.choice != option.choice);
    let other_packages: Vec<String> = usable.map(|other| other.kind.clone()).collect();
    let warnings = entry_origin::trust_warnings(&signs);
    let is_other = |sign: &TrustSign| {
        matches!(sign, TrustSign::OwnerChanged { .. } | TrustSign::RepositoryChanged { .. })
    };
    let has_other_owner = signs.iter().any(is_other);
    let package = match option.choice {
        LaunchChoice::Package(index) => entry.packages.get(index),
        _ => None,
    };
    if let Some(package) = package.filter(|package| package.registry_type == RegistryType::Mcpb) {
        let folder = paths::private_folder()
            .map_err(|error| CliError::usage("cannot create a folder for the download").with_cause(&error))?;
        let file = folder.path().join("server.mcpb");
        package_artifact::download(package, &file, request).await?;
        let entry = registry.map(|_| *entry);
        let planned = bundle::plan((&file, Some(folder)), entry, head, named, request).await?;
        let warnings = [warnings, planned.launch_warnings.clone()].concat();
        return Ok(PlannedServer { warnings, has_other_owner, other_packages, ..planned });
    }
    let mut screen = Screen::default();
    screen.title(&format!("{title} {}", entry.version), "step 2 of 3");
    head(&mut screen);
    let asked = questions(entry, option.choice);
    let asked: Vec<AskedValue<'_>> = asked.iter().map(AskedValue::of_entry).collect();
    let given = answers::collect(&asked, title, &screen, request).await?;
    let mut answers = LaunchAnswers::new();
    for (id, values) in &given {
        values.iter().for_each(|value| answers.push(id, value));
    }
    let artifact = package_artifact::resolve(entry, option, request).await?;
    let name = named(&entry.name);
    let mut settings = LaunchSettings::default();
    settings.digest = artifact.as_ref().and_then(|artifact| artifact.digest.clone());
    let mut folder = None;
    // Without an installation, the launcher downloads the package; the screen says why.
    let mut launcher_reason = None;
    if let Some(package) = package.filter(|package| package.registry_type != RegistryType::Oci) {
        match (install_obstacle(package), request.installs) {
            (None, true) => {
                let found = PackageFolder::new(&name, package, artifact.as_ref())?;
                found.check_installer()?;
                settings.installed = found.expected_command(artifact.as_ref());
                settings.folder = Some(found.path().to_owned());
                folder = Some(found);
            }
            (None, false) => launcher_reason = Some("--no-install".to_owned()),
            (Some(obstacle), _) => launcher_reason = Some(obstacle.to_string()),
        }
    }
    let plan = LaunchPlan::new(entry, option.choice, &answers, &settings).map_err(|error| {
        CliError::usage(format!("`{}` cannot be started", printable(&entry.name))).with_cause(&error)
    })?;
    if plan.install.is_some() && folder.is_none() {
        return Err(CliError::usage(format!("packages of type {} have no launcher", option.kind))
            .hint("leave --no-install out, or choose another package with --package"));
    }
    let mut draft = {
        let (name, plan) = (name.clone(), plan.clone());
        draft::in_thread(move || ServerDraft::of_plan(&name, &plan)).await?
    };
    let package_name = PackageName::of_entry(entry).filter(|_| registry.is_none());
    if registry.is_none() {
        draft.origin.registry = package_name.as_ref().map(PackageName::to_string);
    }
    let sandbox = ProposedSandbox::of_plan(&plan, folder.as_ref().map(PackageFolder::path));
    let server = draft.entry()?;
    view::launch(&mut screen, Some(option), &server, &other_packages, TextAuthor::Publisher);
    if let Some(folder) = &folder {
        screen.row("install", &folder.describe());
    }
    if let (Some(reason), Some(command)) = (&launcher_reason, &plan.command) {
        screen.row("install", &format!("none ({reason}): {command} downloads the package when it has to"));
    }
    if let Some(artifact) = &artifact {
        view::artifact(&mut screen, artifact);
    }
    view::permissions(&mut screen, Some(&plan), &server, sandbox.as_ref());
    let permissions: Vec<(String, bool)> =
        plan.permissions.iter().map(|one| (view::permission_text(one), one.breaks_out())).collect();
    let launch_warnings = view::launch_warnings(&plan);
    let warnings = [warnings, launch_warnings.clone()].concat();
    let recipe = draft.origin.registry.is_some().then(|| {
        let is_secret = |id: &str| plan.secrets.iter().any(|secret| secret.question == id);
        LaunchRecipe {
            entry: serde_json::to_value(entry).unwrap_or_default(),
            kind: option.kind.clone(),
            answers: given
                .iter()
                .filter(|(id, _)| !is_secret(id))
                .map(|(id, values)| (id.clone(), values.clone()))
                .collect(),
            secrets: plan
                .secrets
                .iter()
                .map(|secret| (secret.question.clone(), draft.secret_name(&secret.question)))
                .collect(),
            permissions: permissions.iter().map(|(text, _)| text.clone()).collect(),
            warnings: launch_warnings.clone(),
            publisher: artifact.as_ref().and_then(|artifact| artifact.publisher.clone()),
        }
    });
    let folder = folder
        .map(|folder| ServerFolder::Package { folder: Box::new(folder), expected: settings.installed.len() });
    Ok(PlannedServer {
        draft,
        screen,
        folder,
        sandbox,
        recipe,
        has_other_owner,
        warnings,
        launch_warnings,
        permissions,
        other_packages,
    })
}

/// Returns the way to run an entry: the named one, or the first that can be used.
fn select<'o>(
    entry: &ServerEntry,
    options: &'o [LaunchOption],
    package: Option<&str>,
) -> CliResult<&'o LaunchOption> {
    let kinds = || options.iter().map(|option| option.kind.as_str()).collect::<Vec<_>>().join(", ");
    let wanted = |option: &&LaunchOption| package.is_none_or(|kind| option.kind == kind);
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
