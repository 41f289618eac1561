//! The MCP registry that the commands use, and texts about its entries.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use hospes_registry::{ArtifactError, DEFAULT_REGISTRY, PackageRegistries, RegistryClient, RegistryError};

use url::Url;

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

/// Maximum size of a file with settings of npm, in bytes.
const MAX_NPM_SETTINGS: u64 = 256 * 1024;

/// Returns the package registries that launchers use for a package: a mirror is named by their own variables, and that of npm
/// in `~/.npmrc`, too.
pub(crate) fn launcher_registries(
    package: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> PackageRegistries {
    let mut registries = PackageRegistries::default();
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(npm) = variable("npm_config_registry").or_else(|| variable("NPM_CONFIG_REGISTRY")) {
        registries.npm = npm;
    }
    let scope = package.split_once('/').map(|(scope, _)| scope).filter(|scope| scope.starts_with('@'));
    let settings = npm_settings(variable);
    let named = |scope| settings.as_deref().and_then(|settings| registry_of(settings, scope));
    // That of a scope counts before the general one, which a variable replaces.
    let has_variable = registries.npm != PackageRegistries::default().npm;
    if let Some(npm) = scope.and_then(|_| named(scope)).or_else(|| named(None).filter(|_| !has_variable)) {
        registries.npm = npm;
    }
    if let Some(index) = variable("UV_DEFAULT_INDEX") {
        registries.pypi = index.trim_end_matches('/').trim_end_matches("/simple").to_owned();
    }
    registries
}

/// Reads the settings of npm of the user.
fn npm_settings(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let named = variable("npm_config_userconfig").or_else(|| variable("NPM_CONFIG_USERCONFIG"));
    let home = variable(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
    let file = named.map(PathBuf::from).or_else(|| Some(PathBuf::from(home?).join(".npmrc")))?;
    let mut text = String::new();
    // A pipe would be waited for.
    let opened = File::open(file.canonicalize().ok().filter(|file| file.is_file())?).ok()?;
    opened.take(MAX_NPM_SETTINGS).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the registry of the lines `registry=URL`, or `@scope:registry=URL`, without its user name and password. The last
/// line counts. Lines with tokens are not looked at.
fn registry_of(settings: &str, scope: Option<&str>) -> Option<String> {
    let key = scope.map_or_else(|| "registry".to_owned(), |scope| format!("{scope}:registry"));
    let mut values = settings.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().trim_matches(['"', '\'']))
    });
    // A value with a reference to a variable is no URL.
    let mut url =
        Url::parse(values.next_back()?).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Some(url.as_str().trim_end_matches('/').to_owned())
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
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn the_registry_of_npm_is_read_without_tokens() {
        let settings = "//npm.acme.example/:_authToken=s3cret\n; registry=https://old.example\nregistry = https://me:s3cret@npm.acme.example/all/\n\
            @acme:registry=\"http://127.0.0.1:4873\"\n@other:registry=${MIRROR}\n";
        assert_eq!(registry_of(settings, None).as_deref(), Some("https://npm.acme.example/all"));
        assert_eq!(registry_of(settings, Some("@acme")).as_deref(), Some("http://127.0.0.1:4873"));
        assert_eq!(registry_of(settings, Some("@other")), None);
        assert_eq!(registry_of("registry=file:///etc", None), None);
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".npmrc"), settings).unwrap();
        let npm = |package: &str, own: Option<&str>| {
            let variable = |name: &str| match name {
                "HOME" | "USERPROFILE" => Some(home.path().to_string_lossy().into_owned()),
                "npm_config_registry" => own.map(str::to_owned),
                _ => None,
            };
            launcher_registries(package, variable).npm
        };
        assert_eq!(npm("server", None), "https://npm.acme.example/all");
        assert_eq!(npm("@acme/server", None), "http://127.0.0.1:4873");
        assert_eq!(npm("server", Some("https://own.example")), "https://own.example", "the variable wins");
        assert_eq!(npm("@acme/server", Some("https://own.example")), "http://127.0.0.1:4873");
    }

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
