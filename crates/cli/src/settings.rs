//! Configuration and settings of the host, from files and the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hospes_host::config::{
    self, ConfigError, ConfigErrors, ConfigLoader, ConfigSource, HostConfig, ServerConfig, ServerTransport,
};
use hospes_host::{
    DefaultPinMode, FileProblems, Host, HostBuilder, HostSettings, PinMode, PinningConfig, Sampler,
    UpstreamAccounts,
};
use hospes_sandbox::SandboxHelper;

use crate::args::{ConfigFileArgs, HostOptions};
use crate::enforcement::{PolicyEffects, RecordSettings, default_pin_mode};
use crate::exit::{CliError, CliResult, error_chain};
use crate::fleet::HostFleet;
use crate::mistake_text::mistakes_first;
use crate::output::CliOutput;
use crate::policy_files::PolicyFiles;
use crate::telemetry;
use crate::{builtins, enforcement, paths, printed_secrets, secrets};

/// A loaded configuration and its files.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) config: HostConfig,
    /// The files that were read. Empty if the built-in servers are used instead.
    pub(crate) files: Vec<std::path::PathBuf>,
}

/// Reads the named configuration files, or the default one. Secrets are read from the encrypted store.
pub(crate) fn load(files: &ConfigFileArgs) -> CliResult<LoadedConfig> {
    load_with(files, true)
}

/// Reads the named configuration files, or the default one, for a command that starts no server. References to secrets
/// stay unresolved, so that no keyring has to be unlocked.
pub(crate) fn load_without_secrets(files: &ConfigFileArgs) -> CliResult<LoadedConfig> {
    load_with(files, false)
}

/// Reads the named configuration files, or the default one. Entries with mistakes are left out, also if none is left.
pub(crate) fn load_tolerantly(files: &ConfigFileArgs) -> CliResult<LoadedConfig> {
    let named = named_files(files);
    if named.is_empty() {
        return Ok(LoadedConfig { config: HostConfig::default(), files: named });
    }
    let loader =
        ConfigLoader::new().allow_unset(files.allow_unset).keep_going(true).secrets(secrets::look_up());
    let config = loader.load(&named).map_err(|errors| mistakes(&errors))?;
    printed_secrets::add_config(&config);
    Ok(LoadedConfig { config, files: named })
}

/// Returns an error if `hospes up` would start no server of this file, or refuse it. Secrets count as stored, so that no
/// keyring has to be unlocked.
pub(crate) fn check_startable(file: &Path) -> CliResult {
    let read = |keep_going| {
        let loader = ConfigLoader::new().keep_going(keep_going).secrets(|_| Ok(Some(String::new())));
        loader.load(&[file.to_owned()]).map_err(|errors| mistakes(&errors))
    };
    let config = read(true)?;
    if !config.rejected.is_empty() && config.servers.iter().all(|server| server.disabled) {
        read(false)?;
    }
    Ok(())
}

fn named_files(files: &ConfigFileArgs) -> Vec<std::path::PathBuf> {
    match files.config.is_empty() {
        false => files.config.clone(),
        true => paths::default_config().into_iter().collect(),
    }
}

fn load_with(files: &ConfigFileArgs, has_secrets: bool) -> CliResult<LoadedConfig> {
    let named = named_files(files);
    if named.is_empty() {
        return Ok(LoadedConfig { config: HostConfig::default(), files: named });
    }
    let read = |keep_going| {
        let mut loader = ConfigLoader::new().allow_unset(files.allow_unset).keep_going(keep_going);
        if has_secrets {
            loader = loader.secrets(secrets::look_up());
        }
        loader.load(&named).map_err(|errors| mistakes(&errors))
    };
    let mut config = read(!files.strict)?;
    // If no server is left to start, the errors are the result.
    if !config.rejected.is_empty() && config.servers.iter().all(|server| server.disabled) {
        config = read(false)?;
    }
    printed_secrets::add_config(&config);
    Ok(LoadedConfig { config, files: named })
}

fn mistakes(errors: &ConfigErrors) -> CliError {
    let text: Vec<String> = errors.iter().map(|error| error_chain(error)).collect();
    let failure = CliError::usage(match text.as_slice() {
        [one] => one.clone(),
        many => format!("{} errors in the configuration\n  {}", many.len(), many.join("\n  ")),
    });
    failure.hint(mistakes_hint(errors))
}

/// Returns what to do about errors of a configuration: there may be no file to correct.
fn mistakes_hint(errors: &ConfigErrors) -> &'static str {
    let kinds = errors.iter().map(|error| match error {
        ConfigError::Read { source, .. } => Some(source.kind()),
        _ => None,
    });
    let kinds: Option<Vec<io::ErrorKind>> = kinds.collect();
    match kinds.as_deref() {
        Some([io::ErrorKind::NotFound, ..]) => "nothing was started; name a file that exists",
        Some([io::ErrorKind::IsADirectory, ..]) => "nothing was started; name a file, not a folder",
        Some([_, ..]) => "nothing was started; make the file readable and try again",
        _ => "nothing was started; correct the file and try again",
    }
}

/// Returns the servers that run without a configuration.
pub(crate) fn default_servers() -> Vec<ServerConfig> {
    let source = ConfigSource::unwritten("the defaults");
    builtins::DEFAULTS
        .iter()
        .map(|(name, args)| {
            let transport = ServerTransport::builtin(name, args.iter().copied());
            ServerConfig::new(*name, transport, source.clone())
        })
        .collect()
}

/// Builds a host from the configuration and the options of the command line. `fleet` is what all nodes of a fleet
/// share.
pub(crate) async fn build_host(
    options: &HostOptions,
    mut config: HostConfig,
    accounts: Option<UpstreamAccounts>,
    fleet: Option<HostFleet>,
    output: CliOutput,
) -> CliResult<HostBuilder> {
    for warning in &config.warnings {
        output.warn(warning);
    }
    for rejected in &config.rejected {
        // The mistake first, for a screen with little room.
        let mistakes: Vec<String> =
            rejected.errors.iter().map(|error| mistakes_first(&error_chain(error))).collect();
        output.warn(format_args!("the server `{}` is left out: {}", rejected.name, mistakes.join("; ")));
    }
    let mut settings = HostSettings::default();
    settings.helper = launch_helper();
    check_folders("--root", &options.roots)?;
    settings.roots.clone_from(&options.roots);
    config.start_wait = options.start_wait.or(config.start_wait);
    apply_options(options, &mut config);
    if let Some(interval) = options.health_check {
        settings.health_check = Some(interval).filter(|interval| !interval.is_zero());
    }
    settings.park_timeout = options.park_timeout.unwrap_or(settings.park_timeout);
    settings.max_starting = options.max_starting.unwrap_or(settings.max_starting);
    settings.max_connections = options.max_connections.unwrap_or(settings.max_connections);
    // With a policy file, new servers need approval by default. The files may come and go while the host runs.
    let files = PolicyFiles::find(options.policy.as_deref(), config.organization_policy.as_deref())?;
    let has_rules = files.has_rules()?;
    let mode = options.pins.unwrap_or_else(|| default_pin_mode(has_rules));
    let default_mode = DefaultPinMode::new(mode);
    let effects = PolicyEffects {
        pins: options.pins.is_none().then(|| default_mode.clone()),
        problems: FileProblems::default(),
    };
    let is_pinned = config.servers.iter().any(|server| {
        !matches!(server.transport, ServerTransport::Builtin(_))
            && server.pins.unwrap_or(mode) != PinMode::Off
    });
    // An error is not returned yet, because only pinning cannot do without the state.
    let state = match &fleet {
        Some(fleet) => fleet.host_state(options.no_audit).map(Some),
        None => enforcement::open_state(),
    };
    let state = if is_pinned {
        let nowhere =
            || CliError::usage("no folder found in which to store accepted definitions (HOME is not set)");
        let state = state.and_then(|state| state.ok_or_else(nowhere));
        Some(state.map_err(|failure| failure.hint("--pins off disables pinning"))?)
    } else {
        state?
    };
    let record = RecordSettings {
        answers_questions: config.console_questions.unwrap_or_default(),
        keeps_arguments: config.audit_arguments,
        kept_for: config.audit_kept_for,
    };
    let sampler = Sampler::from_config(std::mem::take(&mut config.models));
    let mut builder = Host::builder(config)
        .settings(settings)
        .builtins(builtins::all())
        .file_problems(effects.problems.clone());
    if let Some(mut sampler) = sampler {
        if let Some(state) = &state {
            sampler = sampler.kept_in(state);
        }
        builder = builder.sampler(Arc::new(sampler));
    }
    if let Some(tracer) = telemetry::tracer() {
        builder = builder.tracer(tracer);
    }
    if let Some(state) = &state {
        builder = builder.store_tasks_in(state);
    }
    if let Some(accounts) = accounts {
        builder = builder.accounts(accounts);
    }
    if let Some(file) = paths::memory_file() {
        builder = builder.memory(file);
    }
    if let Some(fleet) = &fleet {
        builder = builder.places(fleet.places());
    }
    let stores = (state.as_ref(), fleet.as_ref());
    let guard = enforcement::build_enforcer(options, stores, (files, record), effects, output).await?;
    builder = builder.guard(guard);
    // Also if no server is pinned yet: one may be added while the host runs.
    if let Some(state) = state {
        builder = builder.pins(PinningConfig::new(state, default_mode));
    }
    Ok(builder)
}

/// Applies the options of the command line to the configuration, over which they take precedence.
pub(crate) fn apply_options(options: &HostOptions, config: &mut HostConfig) {
    config.audit_arguments |= options.audit_arguments;
    for server in &mut config.servers {
        let times = &mut server.timeouts;
        times.health_check = times.health_check.filter(|_| options.health_check.is_none());
        times.park = times.park.filter(|_| options.park_timeout.is_none());
        server.max_connections = server.max_connections.filter(|_| options.max_connections.is_none());
        server.pins = server.pins.filter(|_| options.pins.is_none());
    }
}

/// First argument with which this program acts as the helper that starts a server.
pub(crate) const RUN_CHILD: &str = hospes_host::callers::HELPER_WORD;

/// Returns the program that starts servers: this program itself.
pub(crate) fn launch_helper() -> Option<SandboxHelper> {
    SandboxHelper::is_supported().then(|| SandboxHelper::this_program(RUN_CHILD))
}

/// Returns an error unless every path is a folder.
pub(crate) fn check_folders(flag: &str, folders: &[PathBuf]) -> CliResult {
    match folders.iter().find(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(file) if file.exists() => {
            Err(CliError::usage(format!("{flag}: not a folder: {}", file.display())))
        }
        Some(missing) => Err(CliError::usage(format!("{flag}: folder not found: {}", missing.display()))),
    }
}

/// Returns an error unless the values are valid hosts and origins.
pub(crate) fn check_allowed(hosts: &[String], origins: &[String]) -> CliResult {
    let refuse = |flag: &str, form: &str, given: &str| {
        Err(CliError::usage(format!("{flag}: expected {form}, got `{given}`")))
    };
    if let Some(given) = hosts.iter().find(|host| !config::is_host(host)) {
        return refuse("--allow-host", config::HOST_FORM, given);
    }
    match origins.iter().find(|origin| !config::is_origin(origin)) {
        Some(given) => refuse("--allow-origin", config::ORIGIN_FORM, given),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_about_a_configuration_fits_its_error() {
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("broken.toml");
        std::fs::write(&broken, "[servers.a\n").unwrap();
        let hint = |file: &std::path::Path| {
            let errors = ConfigLoader::new().load([file]).unwrap_err();
            mistakes(&errors).hint.unwrap()
        };
        assert!(hint(&folder.path().join("none.json")).contains("name a file that exists"));
        assert!(hint(&broken).contains("correct the file"));
        #[cfg(unix)]
        assert!(hint(folder.path()).contains("not a folder"));
    }
}
