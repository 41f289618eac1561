//! The MCP registry that the commands use, and texts about its entries.

use std::time::Duration;

use hospes_registry::{ArtifactError, DEFAULT_REGISTRY, PackageRegistries, RegistryClient, RegistryError};

use crate::args::RegistryOptions;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::printable;
use crate::paths;

/// Environment variable that names another registry than the configuration.
const REGISTRY_VARIABLE: &str = "HOSPES_REGISTRY";

/// Returns the base URL of the registry: of the command line, of the variable, of the configuration, or the official one.
pub(crate) fn base_url(options: &RegistryOptions, configured: Option<&str>) -> String {
    let variable = std::env::var(REGISTRY_VARIABLE).ok();
    let mut named = [options.registry.as_deref(), variable.as_deref()].into_iter().flatten();
    named
        .find(|url| !url.is_empty())
        .or(configured)
        .unwrap_or(DEFAULT_REGISTRY)
        .trim_end_matches('/')
        .to_owned()
}

/// Opens the registry with this base URL, with its cache.
pub(crate) fn open_registry(url: &str) -> CliResult<RegistryClient> {
    RegistryClient::new(url, paths::registry_cache()).map_err(CliError::from)
}

/// Returns the package registries that launchers use: a mirror is named by their own variables.
pub(crate) fn launcher_registries(variable: impl Fn(&str) -> Option<String>) -> PackageRegistries {
    let mut registries = PackageRegistries::default();
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(npm) = variable("npm_config_registry").or_else(|| variable("NPM_CONFIG_REGISTRY")) {
        registries.npm = npm;
    }
    if let Some(index) = variable("UV_DEFAULT_INDEX") {
        registries.pypi = index.trim_end_matches('/').trim_end_matches("/simple").to_owned();
    }
    registries
}

impl From<RegistryError> for CliError {
    fn from(error: RegistryError) -> Self {
        let code = match &error {
            RegistryError::Offline { .. } | RegistryError::Status { .. } => FailureCode::Unreachable,
            _ => FailureCode::Usage,
        };
        let text = printable(&error.to_string());
        // The advice of an error gets a line of its own.
        match (&error, text.rsplit_once("; ")) {
            (RegistryError::BaseUrl { .. }, _) | (_, None) => Self::new(code, text),
            (_, Some((message, advice))) => Self::new(code, message).hint(advice),
        }
    }
}

impl From<ArtifactError> for CliError {
    fn from(error: ArtifactError) -> Self {
        let code = match &error {
            ArtifactError::Entry(_) | ArtifactError::Write { .. } => FailureCode::Usage,
            _ => FailureCode::Unreachable,
        };
        let text = printable(&error.to_string());
        // The advice of an error gets a line of its own.
        match text.rsplit_once("; ") {
            Some((message, advice)) => Self::new(code, message).hint(advice),
            None => Self::new(code, text),
        }
    }
}

/// Formats the time since something was published: `today`, `3 days ago`, `2 years ago`.
pub(crate) fn format_ago(age: Duration) -> String {
    let days = age.as_secs() / (24 * 60 * 60);
    let (count, unit) = match days {
        0 => return "today".to_owned(),
        1..=59 => (days, "day"),
        60..=729 => (days / 30, "month"),
        _ => (days / 365, "year"),
    };
    format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" })
}

/// Formats the age of an answer: `just now`, `5 min old`, `2 h old`, `3 days old`.
pub(crate) fn format_age(age: Duration) -> String {
    let minutes = age.as_secs() / 60;
    match minutes {
        0 => "just now".to_owned(),
        1..=59 => format!("{minutes} min old"),
        60..=2879 => format!("{} h old", minutes / 60),
        _ => format!("{} days old", minutes / (24 * 60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_in_words() {
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        for (age, expected) in [
            (days(0), "today"),
            (days(1), "1 day ago"),
            (days(59), "59 days ago"),
            (days(60), "2 months ago"),
            (days(729), "24 months ago"),
            (days(730), "2 years ago"),
        ] {
            assert_eq!(format_ago(age), expected);
        }
        assert_eq!(format_age(Duration::from_secs(59)), "just now");
        assert_eq!(format_age(Duration::from_secs(3599)), "59 min old");
        assert_eq!(format_age(days(1)), "24 h old");
        assert_eq!(format_age(days(2)), "2 days old");
    }
}
