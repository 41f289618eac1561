//! Reloading of the servers when the configuration files or the secrets change.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hospes_host::config::HostConfig;
use hospes_host::{Host, HostStartError, ServerChanges};
use parking_lot::Mutex;
use serde_json::Value;

use super::events::EventWriter;
use crate::args::HostOptions;
use crate::exit::{CliResult, error_chain};
use crate::file_watch::FileWatch;
use crate::mistake_text::mistakes_first;
use crate::output::{BOLD, DIM, GREEN, RED, YELLOW, paint, printable};
use crate::paths;
use crate::settings::{LoadedConfig, apply_options, load};

/// Applies changes of the configuration files to the servers of a running host.
#[derive(Debug)]
pub(crate) struct ConfigReload {
    files: Vec<PathBuf>,
    watch: FileWatch,
    /// The file with the secrets and tokens.
    secrets: FileWatch,
    used: UsedFiles,
    /// Mistakes of entries that were reported last, by server.
    reported: Vec<(String, String)>,
}

/// Configuration files that the host uses; none while the built-in servers run without a configuration. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsedFiles(Arc<Mutex<Vec<PathBuf>>>);

impl UsedFiles {
    /// Sets the files.
    pub(super) fn set(&self, files: &[PathBuf]) {
        *self.0.lock() = files.to_vec();
    }

    /// Returns the files.
    pub(crate) fn current(&self) -> Vec<PathBuf> {
        self.0.lock().clone()
    }
}

impl ConfigReload {
    /// Starts from the current state of the files. Without a file, the default one is watched, which may be created
    /// later. To be created before the files are read.
    pub(crate) fn new(options: &HostOptions) -> Self {
        let named = &options.files.config;
        let files: Vec<PathBuf> =
            if named.is_empty() { paths::new_config_path().into_iter().collect() } else { named.clone() };
        let secrets = FileWatch::new(paths::credentials().into_iter().map(|(sealed, _)| sealed).collect());
        let watch = FileWatch::new(files.clone());
        Self { files, watch, secrets, used: UsedFiles::default(), reported: Vec::new() }
    }

    /// Returns the files that the host uses, as they change.
    pub(crate) fn used(&self) -> &UsedFiles {
        &self.used
    }

    /// Waits until the configuration has to be read again: because a file of it has changed, or a secret that it may refer
    /// to. The file with the secrets has the tokens as well, which are renewed all the time.
    async fn wait(&mut self) {
        loop {
            let has_changed = tokio::select! {
                has_changed = self.watch.look() => has_changed,
                has_changed = self.secrets.look() => has_changed && self.files.iter().any(|file| has_secrets(file)),
            };
            if has_changed {
                return;
            }
        }
    }

    /// Reports the mistakes of entries that were not reported before.
    fn report(&mut self, config: &HostConfig, events: EventWriter) {
        let mut found = Vec::new();
        for rejected in &config.rejected {
            let mistakes: Vec<String> = rejected.errors.iter().map(|error| error_chain(error)).collect();
            let mistakes = mistakes_first(&mistakes.join("\n"));
            let one = (rejected.name.clone(), mistakes);
            if !self.reported.contains(&one) {
                let problem = format!("the entry of `{}` cannot be used: {}", printable(&one.0), one.1);
                failed(events, Some(&one.0), &problem);
            }
            found.push(one);
        }
        self.reported = found;
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
        let shown: Vec<String> = self.files.iter().map(|file| paths::display_path(file)).collect();
        let shown = shown.join(", ");
        let problems = host.file_problems();
        loop {
            self.wait().await;
            let (config, files) = match read(options) {
                Ok(Some(read)) => read,
                Ok(None) => {
                    problems.set(&shown, None);
                    failed(
                        events,
                        None,
                        "the configuration was deleted; its servers go on until the host ends",
                    );
                    continue;
                }
                Err(failure) => {
                    let mistakes = mistakes_first(&failure.message);
                    failed(events, None, &format!("{mistakes}; the servers go on as they were"));
                    problems.set(&shown, Some(mistakes));
                    continue;
                }
            };
            self.report(&config, events);
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
            let updated = host.update_servers(config).await;
            problems.set(&shown, self.problem(host, updated.as_ref().err()));
            if updated.is_ok() {
                self.used.set(&files);
            }
            match updated {
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
                    let mistakes = mistakes_first(&error_chain(&error));
                    failed(events, None, &format!("{mistakes}; the servers go on as they were"));
                }
            }
        }
    }

    /// Returns the mistakes on whose account the file is not in effect as a whole. A new server with a mistake is in the
    /// status by itself; one that goes on as it was is not.
    fn problem(&self, host: &Host, error: Option<&HostStartError>) -> Option<String> {
        if let Some(error) = error {
            return Some(mistakes_first(&error_chain(error)));
        }
        let running = host.status().servers;
        let is_running = |name: &str| running.iter().any(|server| server.name == name);
        let kept = self.reported.iter().filter(|(name, _)| is_running(name));
        let kept: Vec<String> =
            kept.map(|(name, mistakes)| format!("`{name}` goes on as it was: {mistakes}")).collect();
        (!kept.is_empty()).then(|| kept.join("; "))
    }
}

/// Returns true if the file may refer to a secret.
fn has_secrets(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains("${secret:"))
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

/// Reads the configuration and the names of its files. Returns `None` if there is no file any more.
fn read(options: &HostOptions) -> CliResult<Option<(HostConfig, Vec<PathBuf>)>> {
    let LoadedConfig { mut config, files } = load(&options.files)?;
    if files.is_empty() {
        return Ok(None);
    }
    apply_options(options, &mut config);
    Ok(Some((config, files)))
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
