//! Modules of Go: the module of a package, its newest version, and its hash in the checksum database.

use serde_json::Value;
use url::Url;

use super::index::below;
use super::{ArtifactClient, ArtifactError, ResolvedArtifact, host, success};
use crate::entry::{RegistryPackage, read_escape};

/// Maximum number of modules that are asked about for one package: its path, and the paths above it.
const MAX_MODULES: usize = 8;
/// Maximum length of a hash.
const MAX_HASH: usize = 100;

impl ArtifactClient {
    pub(super) async fn go(&self, package: &RegistryPackage) -> Result<ResolvedArtifact, ArtifactError> {
        let is_private =
            self.registries.go_private.iter().any(|pattern| matches_prefix(pattern, &package.identifier));
        let version = match &package.version {
            Some(version) if version.starts_with('v') => version.clone(),
            Some(version) => format!("v{version}"),
            None if is_private => {
                return Ok(unknown(None, "the settings of Go say that the module is private"));
            }
            None => match &self.registries.go_proxy {
                Some(proxy) => self.newest_module(package, proxy).await?,
                None => return Ok(unknown(None, "the settings of Go name no proxy that can be asked")),
            },
        };
        let database = match &self.registries.go {
            _ if is_private => {
                return Ok(unknown(Some(version), "the settings of Go say that the module is private"));
            }
            None => {
                return Ok(unknown(
                    Some(version),
                    "the checksum database is switched off in the settings of Go",
                ));
            }
            Some(database) => database,
        };
        let (base, policy) = self.base(package, database)?;
        for module in modules(&package.identifier) {
            let escaped = escape(module);
            let last = format!("{}@{}", escaped.rsplit('/').next().unwrap_or_default(), escape(&version));
            let mut segments: Vec<&str> = std::iter::once("lookup").chain(escaped.split('/')).collect();
            segments.pop();
            segments.push(&last);
            let url = below(&base, &segments);
            let response = self.get(&url, policy.clone(), &http::HeaderMap::new()).await?;
            if matches!(response.status.as_u16(), 404 | 410) {
                continue;
            }
            let body = success(&url, response, "module")?;
            let body = String::from_utf8_lossy(&body).into_owned();
            let prefix = format!("{module} {version} h1:");
            let hash =
                body.lines().find_map(|line| line.strip_prefix(&prefix)).map(|hash| format!("h1:{hash}"));
            return Ok(match hash.filter(|hash| hash.len() < MAX_HASH) {
                Some(hash) => ResolvedArtifact {
                    version: Some(version),
                    digest: Some(hash),
                    ..ResolvedArtifact::empty()
                },
                None => unknown(Some(version), "the checksum database of Go does not know this version"),
            });
        }
        Err(not_found(&base, &format!("{}@{version}", package.identifier)))
    }

    /// Asks a proxy for the newest version of the module that has a package.
    async fn newest_module(&self, package: &RegistryPackage, proxy: &str) -> Result<String, ArtifactError> {
        let (base, policy) = self.base(package, proxy)?;
        for module in modules(&package.identifier) {
            let escaped = escape(module);
            let segments: Vec<&str> = escaped.split('/').chain(["@latest"]).collect();
            let url = below(&base, &segments);
            match self.get_json(&url, policy.clone(), "module").await {
                Err(ArtifactError::NotFound { .. }) => {}
                Err(error) => return Err(error),
                Ok(document) => match document.get("Version").and_then(Value::as_str) {
                    Some(version) => return Ok(version.to_owned()),
                    None => return Err(super::unexpected(&url, "it names no version")),
                },
            }
        }
        Err(not_found(&base, &package.identifier))
    }
}

fn unknown(version: Option<String>, why: &'static str) -> ResolvedArtifact {
    ResolvedArtifact { version, without_digest: Some(why), ..ResolvedArtifact::empty() }
}

fn not_found(base: &Url, what: &str) -> ArtifactError {
    ArtifactError::NotFound { host: host(base), what: format!("module {}", read_escape(what)) }
}

/// Returns the modules that may have a package, the longest path first. The first part of a path is a domain.
fn modules(package: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(package), |path| path.rsplit_once('/').map(|(above, _)| above))
        .filter(|path| path.contains('/'))
        .take(MAX_MODULES)
}

/// Writes a path or version as proxies expect it: upper-case letters as `!` and the lower-case letter.
fn escape(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, letter| {
        if letter.is_ascii_uppercase() {
            escaped.push('!');
        }
        escaped.push(letter.to_ascii_lowercase());
        escaped
    })
}

/// Returns true if the beginning of a path matches a pattern of `GOPRIVATE`, part by part. `*` stands for any text within a
/// part.
fn matches_prefix(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    !pattern.is_empty()
        && pattern.split('/').all(|pattern| parts.next().is_some_and(|part| matches_part(pattern, part)))
}

fn matches_part(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((before, after)) => {
            let Some(rest) = part.strip_prefix(before) else { return false };
            rest.char_indices().any(|(at, _)| matches_part(after, &rest[at..])) || matches_part(after, "")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_may_be_in_its_own_module_or_in_one_above_it() {
        let found: Vec<&str> = modules("example.com/owner/tool/cmd/server").collect();
        assert_eq!(
            found,
            [
                "example.com/owner/tool/cmd/server",
                "example.com/owner/tool/cmd",
                "example.com/owner/tool",
                "example.com/owner"
            ]
        );
        assert_eq!(modules(&"a/".repeat(100)).count(), MAX_MODULES);
        assert_eq!(escape("github.com/BurntSushi/toml"), "github.com/!burnt!sushi/toml");
    }

    #[test]
    fn private_modules_are_matched_as_go_does() {
        for (pattern, path, expected) in [
            ("example.com", "example.com/x/y", true),
            ("*.example.com/secret", "git.example.com/secret/tool", true),
            ("*.example.com", "example.com/x", false),
            ("example.com/*/b", "example.com/a/b/c", true),
            ("example.com/x", "example.com/xy", false),
            ("", "example.com/x", false),
        ] {
            assert_eq!(matches_prefix(pattern, path), expected, "{pattern} {path}");
        }
    }
}
