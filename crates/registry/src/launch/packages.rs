//! Plans of packages.

use std::fmt;
use std::path::{Path, PathBuf};

use url::Url;

use super::answers::LaunchAnswers;
use super::arguments::InputFiller;
use super::choice::{LaunchChoice, package_obstacle};
use super::docker;
use super::permission::NetworkSuggestion;
use super::questions::{InputPlace, is_own_argument, placed_questions};
use super::text::PlannedText;
use super::words;
use super::{InstallStep, LaunchError, LaunchPlan, LaunchSettings, LaunchWarning};
use crate::entry::{RegistryPackage, RegistryType, ServerEntry, read_escape};

pub(super) fn plan(
    entry: &ServerEntry,
    index: usize,
    package: &RegistryPackage,
    answers: &LaunchAnswers,
    settings: &LaunchSettings,
) -> Result<LaunchPlan, LaunchError> {
    if let Some(obstacle) = package_obstacle(index, package) {
        return Err(LaunchError::Obstacle(obstacle));
    }
    let choice = LaunchChoice::Package(index);
    let mut filler = InputFiller::new(placed_questions(entry, choice), answers)?;
    let mut plan = LaunchPlan::empty(entry, choice, package.transport.kind.clone());
    plan.version.clone_from(&package.version);
    plan.digest.clone_from(&settings.digest);
    fill_environment(&mut plan, index, package, &mut filler)?;
    let mut arguments = Vec::new();
    for (position, argument) in package.package_arguments.iter().enumerate() {
        arguments.extend(filler.argument(argument, InputPlace::Package(position))?);
    }
    let mut runtime = Vec::new();
    for (position, argument) in package.runtime_arguments.iter().enumerate() {
        if !is_own_argument(package, argument) {
            runtime.extend(filler.argument(argument, InputPlace::Runtime(position))?);
        }
    }
    plan.warnings.append(&mut filler.warnings);
    if package.version.is_none() && needs_version(&package.registry_type) {
        plan.warnings.push(LaunchWarning::Unpinned);
    }
    if !runtime.is_empty() && package.registry_type != RegistryType::Oci {
        let shown = runtime.iter().map(PlannedText::masked).collect();
        plan.warnings.push(LaunchWarning::RuntimeArguments(shown));
    }
    fill_command(&mut plan, package, runtime, arguments, settings);
    let is_installed = !settings.installed.is_empty();
    if !is_installed {
        note_hint(&mut plan, package);
    }
    plan.sandbox.paths = std::mem::take(&mut filler.folders);
    plan.sandbox.hosts = hosts(&plan);
    plan.sandbox.network = network(&plan, package, filler.asks_secret(), is_installed);
    for step in &package.post_install_instructions {
        plan.warnings.push(LaunchWarning::PostInstall {
            description: step.description.clone(),
            command: step.command.clone(),
        });
    }
    Ok(plan)
}

/// Reasons a package cannot be installed into a folder of its own before it is started. `Display` says them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstallObstacle {
    /// Only packages of npm, PyPI, cargo and Go are installed.
    Kind,
    /// The entry names no version.
    NoVersion,
    /// The entry gives arguments to the launcher, which the installed program does not have.
    LauncherArguments,
}

impl fmt::Display for InstallObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "packages of this type are not installed into a folder of their own",
            Self::NoVersion => "the entry names no version",
            Self::LauncherArguments => "the entry gives arguments to its launcher",
        })
    }
}

/// Returns why a package cannot be installed into a folder of its own. `None` if it can.
#[must_use]
pub fn install_obstacle(package: &RegistryPackage) -> Option<InstallObstacle> {
    match package.registry_type {
        RegistryType::Cargo | RegistryType::Go => return None,
        RegistryType::Npm | RegistryType::Pypi => {}
        _ => return Some(InstallObstacle::Kind),
    }
    let has_launcher_arguments =
        package.runtime_arguments.iter().any(|argument| !is_own_argument(package, argument));
    match (&package.version, has_launcher_arguments) {
        (None, _) => Some(InstallObstacle::NoVersion),
        (Some(_), true) => Some(InstallObstacle::LauncherArguments),
        (Some(_), false) => None,
    }
}

fn needs_version(kind: &RegistryType) -> bool {
    !matches!(kind, RegistryType::Oci | RegistryType::Mcpb)
}

fn fill_environment(
    plan: &mut LaunchPlan,
    index: usize,
    package: &RegistryPackage,
    filler: &mut InputFiller<'_>,
) -> Result<(), LaunchError> {
    for (position, variable) in package.environment_variables.iter().enumerate() {
        let name = &variable.name;
        if !words::is_variable_name(name) {
            return Err(LaunchError::Unsafe {
                path: format!("packages[{index}].environmentVariables[{position}].name"),
                what: format!("`{}` is not the name of an environment variable", read_escape(name)),
            });
        }
        if words::loads_code(name) {
            plan.warnings.push(LaunchWarning::CodeLoadingVariable(name.clone()));
        }
        if let Some(value) = filler.values(&variable.input, InputPlace::Env(position))?.into_iter().next() {
            plan.env.retain(|(known, _)| known != name);
            plan.env.push((name.clone(), value));
        }
    }
    Ok(())
}

/// Sets the command, its arguments and the step before the first start.
fn fill_command(
    plan: &mut LaunchPlan,
    package: &RegistryPackage,
    runtime: Vec<PlannedText>,
    arguments: Vec<PlannedText>,
    settings: &LaunchSettings,
) {
    let pinned = |separator: &str| match &package.version {
        Some(version) => format!("{}{separator}{version}", package.identifier),
        None => package.identifier.clone(),
    };
    let mut args: Vec<PlannedText> = Vec::new();
    if let Some((program, first)) = settings.installed.split_first() {
        match package.registry_type {
            RegistryType::Cargo | RegistryType::Go => install_from_source(plan, package, settings),
            _ => plan.warnings.extend(other_registry(package).map(LaunchWarning::OtherPackageRegistry)),
        }
        plan.command = Some(program.clone());
        plan.args = first.iter().cloned().map(PlannedText::from).chain(arguments).collect();
        return;
    }
    match package.registry_type {
        RegistryType::Npm => {
            set_registry(plan, package, "npm_config_registry");
            plan.command = Some("npx".to_owned());
            args.push("-y".into());
            args.extend(runtime);
            args.push(pinned("@").into());
            args.extend(arguments);
        }
        RegistryType::Pypi => {
            set_registry(plan, package, "UV_DEFAULT_INDEX");
            plan.command = Some("uvx".to_owned());
            let is_python = package.runtime_hint.as_deref().is_some_and(|hint| hint.starts_with("python"));
            if is_python && !runtime.is_empty() {
                // Arguments of the interpreter, such as `-m module`.
                args.extend(["--from".into(), pinned("==").into(), "python".into()]);
                args.extend(runtime);
            } else {
                args.extend(runtime);
                args.push(pinned("==").into());
            }
            args.extend(arguments);
        }
        RegistryType::Nuget => {
            plan.command = Some("dnx".to_owned());
            args.extend([pinned("@").into(), "--yes".into()]);
            if let Some(base) = other_registry(package) {
                args.extend(["--source".into(), PlannedText::plain(base.clone())]);
                plan.warnings.push(LaunchWarning::OtherPackageRegistry(base));
            }
            args.extend(runtime);
            if !arguments.is_empty() {
                args.push("--".into());
                args.extend(arguments);
            }
        }
        RegistryType::Oci => return docker::complete(plan, package, runtime, arguments, settings),
        RegistryType::Cargo | RegistryType::Go => {
            install_from_source(plan, package, settings);
            args.extend(arguments);
        }
        RegistryType::Mcpb => {
            let sha256 = package.file_sha256.clone().unwrap_or_default();
            plan.digest = Some(format!("sha256:{sha256}"));
            plan.install = Some(InstallStep::Unpack { url: package.identifier.clone(), sha256 });
            args.extend(arguments);
        }
        // Refused before.
        RegistryType::Other(_) => {}
    }
    plan.args = args;
}

fn install_from_source(plan: &mut LaunchPlan, package: &RegistryPackage, settings: &LaunchSettings) {
    let folder = settings.folder.clone().unwrap_or_default();
    let (program, step) = source_install(package, &folder);
    plan.warnings.push(LaunchWarning::Compiles);
    plan.command = Some(program.display().to_string());
    plan.install = Some(step);
}

/// Returns the program that a package of cargo or Go becomes in a folder, and the step that compiles it there. The program
/// is named as the package, which most are.
#[must_use]
pub fn source_install(package: &RegistryPackage, folder: &Path) -> (PathBuf, InstallStep) {
    let binaries = folder.join("bin");
    let (program, step) = if package.registry_type == RegistryType::Cargo {
        let mut args = vec!["install".to_owned(), package.identifier.clone()];
        if let Some(version) = &package.version {
            args.extend(["--version".to_owned(), version.clone()]);
        }
        let root = if folder.as_os_str().is_empty() { ".".to_owned() } else { folder.display().to_string() };
        args.extend(["--locked", "--root"].map(str::to_owned));
        args.push(root);
        (package.identifier.as_str(), InstallStep::Run { command: "cargo".to_owned(), args, env: Vec::new() })
    } else {
        let version = match &package.version {
            Some(version) if version.starts_with('v') => version.clone(),
            Some(version) => format!("v{version}"),
            None => "latest".to_owned(),
        };
        let args = vec!["install".to_owned(), format!("{}@{version}", package.identifier)];
        let env = vec![("GOBIN".to_owned(), binaries.display().to_string())];
        (go_program(&package.identifier), InstallStep::Run { command: "go".to_owned(), args, env })
    };
    (binaries.join(format!("{program}{}", std::env::consts::EXE_SUFFIX)), step)
}

/// Returns the name of the program that `go install` builds: the last part of the path that is not a major version.
fn go_program(module: &str) -> &str {
    let is_major = |part: &str| {
        part.strip_prefix('v')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    module.rsplit('/').find(|part| !is_major(part)).unwrap_or(module)
}

/// Returns the registry of a package, if it is another one than the usual one: for PyPI, the URL of the simple index.
#[must_use]
pub fn other_registry(package: &RegistryPackage) -> Option<String> {
    let base = package.registry_base_url.as_deref();
    let base = base.filter(|base| !words::is_usual_registry(&package.registry_type, base))?;
    let path = if package.registry_type == RegistryType::Pypi { "/simple" } else { "" };
    let base = base.trim_end_matches('/');
    Some(if base.ends_with(path) { base.to_owned() } else { format!("{base}{path}") })
}

/// Tells the program that runs the package where to find it, if that is another registry than usual.
fn set_registry(plan: &mut LaunchPlan, package: &RegistryPackage, variable: &str) {
    let Some(url) = other_registry(package) else { return };
    plan.env.push((variable.to_owned(), url.clone().into()));
    plan.warnings.push(LaunchWarning::OtherPackageRegistry(url));
}

/// The hint is not a command: it is only compared with the command that the kind of package demands.
fn note_hint(plan: &mut LaunchPlan, package: &RegistryPackage) {
    let (Some(hint), Some(used)) = (&package.runtime_hint, &plan.command) else { return };
    let is_python = package.registry_type == RegistryType::Pypi && hint.starts_with("python");
    let is_node = package.registry_type == RegistryType::Npm && hint == "node";
    let is_container =
        package.registry_type == RegistryType::Oci && matches!(hint.as_str(), "docker" | "podman");
    if hint != used && !is_python && !is_node && !is_container {
        plan.warnings.push(LaunchWarning::HintNotUsed { hint: hint.clone(), used: used.clone() });
    }
}

/// Returns the hosts of the URLs among the values.
fn hosts(plan: &LaunchPlan) -> Vec<String> {
    let mut hosts = Vec::new();
    let values =
        plan.env.iter().map(|(_, value)| value).chain(&plan.args).filter(|value| !value.has_secret());
    for value in values {
        let text = value.masked();
        let text = text.split_once('=').map_or(text.as_str(), |(_, value)| value);
        let Ok(url) = Url::parse(text) else { continue };
        if matches!(
            url.scheme(),
            "http" | "https" | "ws" | "wss" | "postgres" | "postgresql" | "mysql" | "redis"
        ) && let Some(host) = url.host_str()
            && !hosts.iter().any(|known| known == host)
        {
            hosts.push(host.to_owned());
        }
    }
    hosts
}

fn network(
    plan: &LaunchPlan,
    package: &RegistryPackage,
    asks_secret: bool,
    is_installed: bool,
) -> NetworkSuggestion {
    match package.registry_type {
        RegistryType::Oci => NetworkSuggestion::Container,
        RegistryType::Npm | RegistryType::Pypi | RegistryType::Nuget if !is_installed => {
            NetworkSuggestion::Downloads
        }
        RegistryType::Mcpb => NetworkSuggestion::Ask,
        _ if asks_secret || !plan.sandbox.hosts.is_empty() => NetworkSuggestion::Likely,
        _ => NetworkSuggestion::Off,
    }
}
