//! Indexes of npm, PyPI and crates.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use super::{ArtifactClient, ArtifactError, ResolvedArtifact, success, unexpected};
use crate::entry::RegistryPackage;
use crate::launch::is_sha256;
use crate::version::{compare_versions, is_prerelease};

/// Characters that are not encoded in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'@')
    .remove(b'+')
    .remove(b'!');
/// Maximum number of programs of a package of npm that are listed.
const MAX_PROGRAMS: usize = 100;
/// Maximum number of files of a version of PyPI that are listed.
const MAX_FILES: usize = 500;
/// Maximum number of owners of a project of PyPI that are listed.
const MAX_OWNERS: usize = 50;

pub(super) fn below(base: &Url, segments: &[&str]) -> Url {
    let mut path = base.path().trim_end_matches('/').to_owned();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, SEGMENT));
    }
    let mut url = base.clone();
    url.set_path(&path);
    url
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

impl ArtifactClient {
    pub(super) async fn npm(&self, package: &RegistryPackage) -> Result<ResolvedArtifact, ArtifactError> {
        let (base, policy) = self.base(package, &self.registries.npm)?;
        let version = package.version.as_deref().unwrap_or("latest");
        let url = below(&base, &[&package.identifier, version]);
        let what = format!("package {}@{version}", package.identifier);
        let document = self.get_json(&url, policy, &what).await?;
        if text(&document, "/name").as_deref() != Some(&package.identifier) {
            return Err(unexpected(&url, "it describes another package"));
        }
        let integrity = text(&document, "/dist/integrity").filter(|text| is_integrity(text));
        let has_digest = integrity.is_some();
        Ok(ResolvedArtifact {
            version: text(&document, "/version"),
            url: text(&document, "/dist/tarball"),
            digest: integrity,
            programs: npm_programs(&document),
            publisher: text(&document, "/_npmUser/name"),
            size: document.pointer("/dist/unpackedSize").and_then(Value::as_u64),
            without_digest: (!has_digest)
                .then_some("the registry of npm names no integrity for this version"),
            ..ResolvedArtifact::empty()
        })
    }

    pub(super) async fn pypi(&self, package: &RegistryPackage) -> Result<ResolvedArtifact, ArtifactError> {
        let (base, policy) = self.base(package, &self.registries.pypi)?;
        let mut segments = vec!["pypi", package.identifier.as_str()];
        segments.extend(package.version.as_deref());
        segments.push("json");
        let url = below(&base, &segments);
        let what =
            format!("package {}=={}", package.identifier, package.version.as_deref().unwrap_or("latest"));
        let document = self.get_json(&url, policy, &what).await?;
        let files = document.get("urls").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_usable = |file: &&Value| file.get("yanked").and_then(Value::as_bool) != Some(true);
        let files: Vec<&Value> = files.iter().filter(is_usable).take(MAX_FILES).collect();
        if files.is_empty() {
            let host = super::host(&url);
            return Err(ArtifactError::NotFound {
                host,
                what: format!("file of {what} that is not withdrawn"),
            });
        }
        let digest = |file: &Value| {
            let hash = text(file, "/digests/sha256").filter(|hash| is_sha256(hash))?;
            Some(format!("sha256:{hash}"))
        };
        let is_kind = |file: &&&Value, kind: &str| text(file, "/packagetype").as_deref() == Some(kind);
        // A wheel for every system, else any wheel, else the sources.
        let main = files
            .iter()
            .find(|file| text(file, "/filename").is_some_and(|name| name.ends_with("-none-any.whl")))
            .or_else(|| files.iter().find(|file| is_kind(file, "bdist_wheel")))
            .or_else(|| files.first());
        let named = files.iter().filter_map(|file| Some((text(file, "/filename")?, digest(file)?)));
        let main_digest = main.and_then(|file| digest(file));
        let has_digest = main_digest.is_some();
        Ok(ResolvedArtifact {
            version: text(&document, "/info/version"),
            url: main.and_then(|file| text(file, "/url")),
            digest: main_digest,
            files: named.collect(),
            size: main.and_then(|file| file.get("size")?.as_u64()),
            publisher: pypi_owners(&document),
            programs: Vec::new(),
            without_digest: (!has_digest).then_some("the index of PyPI names no SHA-256 for this version"),
        })
    }

    pub(super) async fn cargo(&self, package: &RegistryPackage) -> Result<ResolvedArtifact, ArtifactError> {
        let (base, policy) = self.base(package, &self.registries.cargo)?;
        let name = package.identifier.to_lowercase();
        // Folders of the index: by the length of the name, or by its first four letters.
        let folders: Vec<&str> = match name.len() {
            1 => vec!["1"],
            2 => vec!["2"],
            3 => vec!["3", &name[..1]],
            _ => vec![&name[..2], &name[2..4]],
        };
        let segments: Vec<&str> = folders.into_iter().chain([name.as_str()]).collect();
        let url = below(&base, &segments);
        let what = format!("crate {}", package.identifier);
        let response = self.get(&url, policy, &http::HeaderMap::new()).await?;
        let body = success(&url, response, &what)?;
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let versions = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let mut usable =
            versions.filter(|version| version.get("yanked").and_then(Value::as_bool) != Some(true));
        let number = |known: &Value| text(known, "/vers").unwrap_or_default();
        let found = match &package.version {
            Some(version) => usable.find(|known| number(known) == *version),
            // Versions are listed in the order of their publication, and corrections of older ones come late.
            None => usable.max_by(|left, right| {
                let (left, right) = (number(left), number(right));
                let is_release = |version: &str| !is_prerelease(version);
                is_release(&left).cmp(&is_release(&right)).then_with(|| compare_versions(&left, &right))
            }),
        };
        let Some(found) = found else {
            let version = package.version.as_deref().unwrap_or("of any version");
            return Err(ArtifactError::NotFound {
                host: super::host(&url),
                what: format!("{what} {version}"),
            });
        };
        let digest =
            text(&found, "/cksum").filter(|hash| is_sha256(hash)).map(|hash| format!("sha256:{hash}"));
        let has_digest = digest.is_some();
        Ok(ResolvedArtifact {
            version: text(&found, "/vers"),
            digest,
            without_digest: (!has_digest).then_some("the index of crates names no checksum for this version"),
            ..ResolvedArtifact::empty()
        })
    }
}

/// Returns the programs that the manifest of a package of npm names: name and path in the package. A text alone is a
/// program with the last part of the package's name.
#[must_use]
pub fn npm_programs(manifest: &Value) -> Vec<(String, String)> {
    let name = manifest.get("name").and_then(Value::as_str).unwrap_or_default();
    match manifest.get("bin") {
        Some(Value::String(path)) => {
            vec![(name.rsplit('/').next().unwrap_or(name).to_owned(), path.clone())]
        }
        Some(Value::Object(programs)) => programs
            .iter()
            .filter_map(|(name, path)| Some((name.clone(), path.as_str()?.to_owned())))
            .take(MAX_PROGRAMS)
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the accounts that own a project of PyPI, if the index names them: its organization, or else its users.
fn pypi_owners(document: &Value) -> Option<String> {
    let ownership = document.get("ownership")?;
    if let Some(organization) = ownership.get("organization").and_then(Value::as_str) {
        return Some(organization.to_owned());
    }
    let roles = ownership.get("roles").and_then(Value::as_array)?;
    let mut users: Vec<&str> = roles.iter().filter_map(|role| role.get("user")?.as_str()).collect();
    users.sort_unstable();
    users.dedup();
    users.truncate(MAX_OWNERS);
    (!users.is_empty()).then(|| users.join(", "))
}

/// Returns true for a hash as npm writes it: `sha512-` and Base64.
fn is_integrity(text: &str) -> bool {
    let Some((kind, hash)) = text.split_once('-') else { return false };
    matches!(kind, "sha512" | "sha384" | "sha256")
        && hash.len() <= 128
        && hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}
