//! Servers that could be updated.

use std::cmp::Ordering;

use hospes_host::config::ServerConfig;
use hospes_registry::{ServerEntry, compare_versions};
use serde_json::{Value, json};
use url::Url;

use super::super::config_target::ConfigTarget;
use crate::args::UpdateArgs;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{BOLD, CliOutput, DIM, YELLOW, one_line, paint, printable};
use crate::packages::name::PackageName;
use crate::progress::StepBar;
use crate::registry::{base_url, open_registry};
use crate::server_record::ServerRecord;

/// A server that is of a registry, or of a package whose index lists versions.
pub(super) struct UpdateCandidate {
    pub(super) server: ServerConfig,
    pub(super) record: Option<ServerRecord>,
    pub(super) source: VersionSource,
}

/// Place that is asked for newer versions.
pub(super) enum VersionSource {
    /// Base URL of an MCP registry.
    Registry(String),
    /// Package, which is looked up at the index that its launcher uses.
    Package(PackageName),
}

/// Result of asking the registry.
pub(super) enum UpdateAvailability {
    Available(Box<ServerEntry>),
    Current { latest: String },
}

/// Returns the servers that can be updated. A named one that is not is an error.
pub(super) fn candidates(
    servers: &[&ServerConfig],
    target: &ConfigTarget,
    args: &UpdateArgs,
) -> CliResult<Vec<UpdateCandidate>> {
    let configured = target.registry();
    let mut found = Vec::new();
    for server in servers {
        let Some(origin) = &server.origin.registry else { continue };
        let package = PackageName::read(origin);
        let record = ServerRecord::read(&target.file, &server.name).filter(|record| record.is_of(server));
        // A server stays with the registry that it is from: another one may have the same name for something else.
        let source = match (package, &args.registry.registry, &record) {
            (Some(package), ..) => VersionSource::Package(package),
            (None, None, Some(record)) => VersionSource::Registry(record.registry.clone()),
            _ => VersionSource::Registry(base_url(&args.registry, configured.as_deref())),
        };
        found.push(UpdateCandidate { server: (*server).clone(), record, source });
    }
    match (&args.server, found.is_empty()) {
        (Some(name), true) => {
            Err(CliError::usage(format!("`{}` is not from a registry or an index of packages", printable(name))).hint(
                "only servers with `registry` in the configuration are updated; remove this one and add its new version",
            ))
        }
        (None, true) => Err(CliError::usage("no server of the configuration is from a registry or an index of packages")
            .hint("`hospes add NAME` adds one")),
        _ => Ok(found),
    }
}

impl UpdateCandidate {
    /// Returns the version in use: of the entry, or else of the package.
    pub(super) fn version(&self) -> Option<String> {
        let recorded = self.record.as_ref().map(|record| record.current.version.clone());
        recorded.or_else(|| self.server.origin.version.clone())
    }

    /// Returns the base URL of the registry. `None` for a package.
    pub(super) fn registry(&self) -> Option<&str> {
        match &self.source {
            VersionSource::Registry(url) => Some(url),
            VersionSource::Package(_) => None,
        }
    }

    /// Returns the host of the registry. `None` for a package.
    pub(super) fn host(&self) -> Option<String> {
        let url = self.registry()?;
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        Some(match url.as_ref().and_then(Url::port) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        })
    }

    /// Asks for the newest version, or a named one. A named one may be older than the one in use.
    pub(super) async fn look_up(&self, version: Option<&str>) -> CliResult<UpdateAvailability> {
        let entry = match (&self.source, version) {
            (VersionSource::Registry(url), _) => {
                let registry = open_registry(url)?.revalidating();
                let name = self.server.origin.registry.as_deref().unwrap_or_default();
                let answer = registry.entry(name, version).await?;
                // An older answer cannot say that there is nothing newer.
                if let Some(error) = answer.offline {
                    return Err(error.into());
                }
                answer.value
            }
            (VersionSource::Package(package), Some(version)) => package.entry(version)?,
            (VersionSource::Package(package), None) => package.entry(&package.newest_version().await?)?,
        };
        let is_other = match (self.version(), version) {
            (Some(current), Some(_)) => current != entry.version,
            (Some(current), None) => compare_versions(&entry.version, &current) == Ordering::Greater,
            (None, _) => true,
        };
        Ok(match is_other {
            true => UpdateAvailability::Available(Box::new(entry)),
            false => UpdateAvailability::Current { latest: entry.version },
        })
    }
}

/// Lists what could be updated.
pub(super) async fn run(candidates: Vec<UpdateCandidate>, args: &UpdateArgs, output: CliOutput) -> CliResult {
    let mut rows = Vec::new();
    let (mut is_outdated, mut failure) = (false, None);
    for candidate in &candidates {
        let name = &candidate.server.name;
        let bar = StepBar::spinner(&format!("looking for a new version of {}", printable(name)), output);
        let found = candidate.look_up(args.version.as_deref()).await;
        drop(bar);
        let current = candidate.version();
        let (latest, state, error) = match found {
            Ok(UpdateAvailability::Available(entry)) => {
                is_outdated = true;
                (Some(entry.version), "available", None)
            }
            Ok(UpdateAvailability::Current { latest }) => (Some(latest), "current", None),
            Err(error) => {
                failure.get_or_insert(error.code);
                (None, "unknown", Some(error.message))
            }
        };
        rows.push(json!({
            "server": name, "registry": candidate.server.origin.registry, "current": current, "latest": latest,
            "state": state, "error": error,
        }));
    }
    if output.json {
        output.value(&rows);
    } else {
        let widest = rows.iter().map(|row| text(row, "server").chars().count()).max().unwrap_or(0);
        for row in &rows {
            output.result_wrapped(line(row, widest));
        }
        if is_outdated {
            output.hint("`hospes update SERVER` shows what changes before it does");
        }
    }
    match (failure, is_outdated) {
        (Some(code), _) => Err(CliError::silent(code)),
        (None, true) => Err(CliError::silent(FailureCode::Outdated)),
        (None, false) => Ok(()),
    }
}

fn text<'r>(row: &'r Value, key: &str) -> &'r str {
    row[key].as_str().unwrap_or_default()
}

fn line(row: &Value, width: usize) -> String {
    let name = one_line(text(row, "server"));
    let space = width.saturating_sub(name.chars().count());
    let current = one_line(text(row, "current"));
    let state = match text(row, "state") {
        "available" => format!("{current} → {}", paint(YELLOW, one_line(text(row, "latest")))),
        "current" => format!("{current}  {}", paint(DIM, "up to date")),
        _ => format!("{current}  {}", one_line(text(row, "error"))),
    };
    format!("{}{:space$}  {state}", paint(BOLD, name), "")
}
