//! Source of a server, as it is named on the command line of `hospes add`.

use std::path::PathBuf;

use hospes_registry::{RegistryType, ServerEntry};
use serde_json::json;

use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::packages::name::{PREFIXES, package_entry};

/// Source of a server.
#[derive(Debug)]
pub(super) enum AddSource {
    /// Full name in the registry: it has a slash.
    Registered(String),
    /// Words to search for in the registry.
    Words(String),
    /// URL of a server.
    Url(String),
    /// A package, as an entry like those of the registry.
    Package(Box<ServerEntry>),
    /// A package without a version: the newest is meant.
    NewestPackage { kind: RegistryType, identifier: String },
    /// Bundle in a file.
    Bundle(PathBuf),
    /// Command line.
    Command(Vec<String>),
}

impl AddSource {
    /// Reads what was named.
    pub(super) fn parse(server: Option<&str>, command: &[String], sha256: Option<&str>) -> CliResult<Self> {
        if !command.is_empty() {
            return Ok(Self::Command(command.to_vec()));
        }
        let word = server.unwrap_or_default().trim();
        if word.is_empty() {
            return Err(CliError::usage("no server was named").hint("`hospes search WORD` finds servers"));
        }
        let is_bundle = [".mcpb", ".dxt"].iter().any(|ending| word.ends_with(ending));
        if is_bundle && !word.contains("://") {
            return Ok(Self::Bundle(PathBuf::from(word)));
        }
        if is_bundle {
            return Self::bundle_url(word, sha256);
        }
        if word.starts_with("http://") || word.starts_with("https://") {
            return match url::Url::parse(word) {
                Ok(_) => Ok(Self::Url(word.to_owned())),
                Err(error) => {
                    Err(CliError::usage(format!("`{}` is not a URL", printable(word))).with_cause(&error))
                }
            };
        }
        for (prefix, kind) in &PREFIXES {
            if let Some(package) = word.strip_prefix(prefix) {
                return Self::package(kind, package);
            }
        }
        Ok(match word.contains('/') && !word.contains(char::is_whitespace) {
            true => Self::Registered(word.to_owned()),
            false => Self::Words(word.to_owned()),
        })
    }

    /// Makes an entry of the URL of a bundle, whose hash has to be known.
    fn bundle_url(url: &str, sha256: Option<&str>) -> CliResult<Self> {
        let Some(sha256) = sha256 else {
            return Err(CliError::usage(
                "the hash of the bundle is not known, so the download could not be checked",
            )
            .hint(
                "add --sha256 HEX with the hash that its publisher names, or download it and add the file",
            ));
        };
        let name = url.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or_default();
        let name: String =
            name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
        let entry = json!({
            "name": format!("package/{}", if name.is_empty() { "bundle" } else { &name }),
            "description": "Bundle",
            "version": "1",
            "packages": [{
                "registryType": "mcpb",
                "identifier": url,
                "fileSha256": sha256.to_ascii_lowercase(),
                "transport": { "type": "stdio" },
            }],
        });
        let entry = ServerEntry::from_value(entry).map_err(|error| {
            CliError::usage(format!("`{}` is not a bundle", printable(url))).with_cause(&error)
        })?;
        Ok(Self::Package(Box::new(entry)))
    }

    /// Splits the text of a package into its name and its version.
    fn package(kind: &RegistryType, package: &str) -> CliResult<Self> {
        let entry = |entry: CliResult<ServerEntry>| entry.map(|entry| Self::Package(Box::new(entry)));
        let (identifier, version) = match kind {
            // The tag or digest of an image belongs to its name.
            RegistryType::Oci => return entry(package_entry(kind, package, None)),
            RegistryType::Pypi => {
                package.split_once("==").map_or((package, None), |(name, version)| (name, Some(version)))
            }
            // An `@` at the beginning belongs to the scope.
            _ => match package.rfind('@').filter(|at| *at > 0) {
                Some(at) => (&package[..at], Some(&package[at + 1..])),
                None => (package, None),
            },
        };
        match version.filter(|version| *version != "latest") {
            Some(version) => entry(package_entry(kind, identifier, Some(version))),
            None => Ok(Self::NewestPackage { kind: kind.clone(), identifier: identifier.to_owned() }),
        }
    }
}
