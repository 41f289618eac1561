//! Names of packages in indexes that list their versions, such as `npm:NAME`.

use std::fmt;

use hospes_registry::{ArtifactClient, RegistryType, ServerEntry};
use serde_json::json;

use super::{cargo, go};
use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::registry::launcher_registries;

/// Prefixes of packages on the command line and in the configuration, with the kinds of the registry.
pub(crate) const PREFIXES: [(&str, RegistryType); 7] = [
    ("npm:", RegistryType::Npm),
    ("pypi:", RegistryType::Pypi),
    ("cargo:", RegistryType::Cargo),
    ("go:", RegistryType::Go),
    ("oci:", RegistryType::Oci),
    ("docker:", RegistryType::Oci),
    ("nuget:", RegistryType::Nuget),
];
/// Number of the first prefixes whose indexes name the newest version.
const LISTED: usize = 4;

/// Name of a package in an index that can be asked for its newest version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackageName {
    pub(crate) kind: RegistryType,
    pub(crate) identifier: String,
}

impl PackageName {
    /// Reads `npm:NAME`, `pypi:NAME`, `cargo:NAME` or `go:MODULE`, as it is in the configuration. `None` for any other text,
    /// such as the name of a server in a registry.
    pub(crate) fn read(text: &str) -> Option<Self> {
        PREFIXES[..LISTED].iter().find_map(|(prefix, kind)| {
            let identifier = text.strip_prefix(prefix).filter(|name| !name.is_empty())?;
            Some(Self { kind: kind.clone(), identifier: identifier.to_owned() })
        })
    }

    /// Returns the package of an entry that [`package_entry`] made, if its index can be asked for the newest version.
    pub(crate) fn of_entry(entry: &ServerEntry) -> Option<Self> {
        let package = entry.packages.first()?;
        let is_listed = PREFIXES[..LISTED].iter().any(|(_, kind)| *kind == package.registry_type);
        is_listed
            .then(|| Self { kind: package.registry_type.clone(), identifier: package.identifier.clone() })
    }

    /// Returns the entry of a version.
    ///
    /// # Errors
    /// If the name or the version is not one of its index.
    pub(crate) fn entry(&self, version: &str) -> CliResult<ServerEntry> {
        package_entry(&self.kind, &self.identifier, Some(version))
    }

    /// Asks the index for the newest version.
    ///
    /// # Errors
    /// If it is not reached, or does not have the package.
    pub(crate) async fn newest_version(&self) -> CliResult<String> {
        newest_version(&self.kind, &self.identifier).await
    }
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.identifier)
    }
}

/// Makes an entry of a package, so that packages are planned, shown and asked about in one way.
///
/// # Errors
/// If the name or the version is not one of its index.
pub(crate) fn package_entry(
    kind: &RegistryType,
    identifier: &str,
    version: Option<&str>,
) -> CliResult<ServerEntry> {
    let last = identifier.rsplit('/').next().unwrap_or(identifier);
    let last: String = last
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' })
        .collect();
    let entry = json!({
        "name": format!("package/{}", last.trim_matches(['.', '-', '_'])),
        "description": format!("Package {identifier}"),
        "version": version.unwrap_or("1"),
        "packages": [{
            "registryType": kind,
            "identifier": identifier,
            "version": version,
            "transport": { "type": "stdio" },
        }],
    });
    ServerEntry::from_value(entry).map_err(|error| {
        CliError::usage(format!("`{}` is not a package", printable(identifier))).with_cause(&error)
    })
}

/// Asks the index of a package for its newest version. It is written into the entry, so that each start runs the same.
///
/// # Errors
/// If the index is not reached, does not have the package, or does not list versions.
pub(crate) async fn newest_version(kind: &RegistryType, identifier: &str) -> CliResult<String> {
    let entry = package_entry(kind, identifier, None)?;
    let mut newest = None;
    let is_replaced = *kind == RegistryType::Cargo && cargo::replaces_registry();
    if let Some(package) = entry.packages.first().filter(|_| !is_replaced) {
        let mut registries = launcher_registries(identifier, |name| std::env::var(name).ok());
        if *kind == RegistryType::Go {
            go::apply_settings(&mut registries).await;
        }
        newest = ArtifactClient::new(registries).resolve(package).await?.version;
    }
    newest.ok_or_else(|| {
        let separator = if *kind == RegistryType::Pypi { "==" } else { "@" };
        let version = if *kind == RegistryType::Go { "v1.2.3" } else { "1.2.3" };
        CliError::usage(format!("the newest version of `{}` is not known", printable(identifier)))
            .hint(format!("name one: {}:{}{separator}{version}", kind.as_str(), printable(identifier)))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn a_package_of_the_configuration_is_told_from_a_server_of_a_registry() {
        for text in ["npm:@scope/name", "pypi:name", "cargo:name", "go:example.com/mod/cmd/server"] {
            let name = PackageName::read(text).unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(PackageName::of_entry(&name.entry("1.2.3").unwrap()), Some(name));
        }
        for text in ["io.github.owner/server", "npm:", "oci:image", "nuget:Name", "npmx:name", ""] {
            assert_eq!(PackageName::read(text), None, "{text}");
        }
    }
}
