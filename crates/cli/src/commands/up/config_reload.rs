//! Reloading of the servers when the configuration files change.

use std::convert::Infallible;
use std::path::PathBuf;

use hospes_host::config::HostConfig;
use hospes_host::{Host, ServerChanges};
use serde_json::Value;

use super::events::EventWriter;
use crate::args::HostOptions;
use crate::exit::{CliResult, error_chain};
use crate::file_watch::FileWatch;
use crate::output::{BOLD, DIM, GREEN, RED, YELLOW, paint, printable};
use crate::paths;
use crate::settings::{LoadedConfig, apply_options, load};

/// Applies changes of the configuration files to the servers of a running host.
#[derive(Debug)]
pub(crate) struct ConfigReload {
    watch: FileWatch,
}

impl ConfigReload {
    /// Starts from the current state of the files. Without a file, the default one is watched, which may be created
    /// later. To be created before the files are read.
    pub(crate) fn new(options: &HostOptions) -> Self {
        let named = &options.files.config;
        let files: Vec<PathBuf> =
            if named.is_empty() { paths::new_config_path().into_iter().collect() } else { named.clone() };
        Self { watch: FileWatch::new(files) }
    }

    /// Applies each change, and tells `changed` which servers it concerns. A configuration that cannot be read changes
    /// nothing. Never returns.
    pub(crate) async fn follow(
        mut self,
        host: &Host,
        options: &HostOptions,
        changed: impl Fn(&ServerChanges),
        events: EventWriter,
    ) -> Infallible {
        loop {
            if !self.watch.look().await {
                continue;
            }
            let config = match read(options) {
                Ok(Some(config)) => config,
                Ok(None) => {
                    failed(
                        events,
                        None,
                        "the configuration was deleted; its servers go on until the host ends",
                    );
                    continue;
                }
                Err(failure) => {
                    failed(events, None, &format!("the servers go on as they were: {}", failure.message));
                    continue;
                }
            };
            for rejected in &config.rejected {
                let mistakes: Vec<String> = rejected.errors.iter().map(|error| error_chain(error)).collect();
                let name = printable(&rejected.name);
                let problem = format!("the entry of `{name}` cannot be used: {}", mistakes.join("; "));
                failed(events, Some(&rejected.name), &problem);
            }
            if let Some(guard) = host.guard()
                && guard.keeps_arguments() != config.audit_arguments
            {
                guard.keep_arguments(config.audit_arguments);
                let (value, is) =
                    if config.audit_arguments { ("on", "recorded") } else { ("off", "not recorded") };
                events.event("reload", &[("audit_arguments", value.into())], || {
                    format!("  configuration reloaded: arguments of calls are {is} from now on")
                });
            }
            match host.update_servers(config).await {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => {
                    let fields = [
                        ("added", list(&changes.added)),
                        ("replaced", list(&changes.replaced)),
                        ("removed", list(&changes.removed)),
                        ("deferred", list(&changes.deferred)),
                        ("profiles_added", list(&changes.added_profiles)),
                        ("profiles_changed", list(&changes.changed_profiles)),
                        ("profiles_removed", list(&changes.removed_profiles)),
                    ];
                    events.event("reload", &fields, || format!("  {}", line(&changes)));
                    changed(&changes);
                }
                Err(error) => {
                    failed(events, None, &format!("the servers go on as they were: {}", error_chain(&error)));
                }
            }
        }
    }
}

/// Reports a configuration that was not applied, or an entry of it.
fn failed(events: EventWriter, server: Option<&str>, problem: &str) {
    let fields = [("server", server.into()), ("problem", problem.into())];
    events.event("reload_failed", &fields, || format!("  {}: {problem}", paint(YELLOW, "warning")));
}

/// Returns the names as a value, or none without names.
fn list(names: &[String]) -> Value {
    if names.is_empty() { Value::Null } else { names.join(",").into() }
}

/// Reads the configuration. Returns `None` if there is no file any more.
fn read(options: &HostOptions) -> CliResult<Option<HostConfig>> {
    let LoadedConfig { mut config, files } = load(&options.files)?;
    if files.is_empty() {
        return Ok(None);
    }
    apply_options(options, &mut config);
    Ok(Some(config))
}

/// Formats the changes for one line.
fn line(changes: &ServerChanges) -> String {
    let all = [
        (GREEN, "+", &changes.added, ""),
        (YELLOW, "~", &changes.replaced, ""),
        (RED, "−", &changes.removed, ""),
        (YELLOW, "~", &changes.deferred, " (when the host starts again)"),
        (GREEN, "+", &changes.added_profiles, " (profile)"),
        (YELLOW, "~", &changes.changed_profiles, " (profile)"),
        (RED, "−", &changes.removed_profiles, " (profile)"),
    ];
    let parts = all.into_iter().flat_map(|(style, sign, names, note)| {
        names.iter().map(move |name| {
            format!("{} {}{}", paint(style, sign), paint(BOLD, printable(name)), paint(DIM, note))
        })
    });
    let parts: Vec<String> = parts.collect();
    format!("configuration reloaded: {}", parts.join("  "))
}
