//! Packages: their hashes, and downloads of bundles.

mod download;
mod go;
mod image;
mod index;

use std::time::Duration;

use hospes_http_client::{EgressPolicy, FetchError, is_loopback};
use http::header::HeaderMap;
use serde_json::Value;
use url::Url;

pub use self::download::{DownloadProgress, DownloadedFile, MAX_BUNDLE_BYTES};
pub use self::index::npm_programs;
use crate::entry::{RegistryPackage, RegistryType, read_escape};
use crate::fetch::{
    HTML_PAGE, JsonFetcher, JsonResponse, MAX_PAGE_BYTES, fetch_advice, fetch_reason, shown, status_advice,
};
use crate::launch::package_name_problem;

/// Base URLs of package registries. Each may be on this machine, for tests and mirrors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageRegistries {
    /// Registry of npm.
    pub npm: String,
    /// Index of PyPI: `/pypi/NAME/VERSION/json` is below it.
    pub pypi: String,
    /// Sparse index of crates.
    pub cargo: String,
    /// Checksum database of Go. `None` if its settings switch it off.
    pub go: Option<String>,
    /// Proxy of Go. `None` if its settings name none that is reached by HTTP.
    pub go_proxy: Option<String>,
    /// Patterns of modules of Go about which neither the proxy nor the checksum database is asked, as in `GOPRIVATE`.
    pub go_private: Vec<String>,
    /// Hosts of registries of images that are reached over http. They must be on this machine.
    pub plain_image_hosts: Vec<String>,
    /// Bundles may be downloaded from this machine.
    pub local_bundles: bool,
}

impl Default for PackageRegistries {
    fn default() -> Self {
        Self {
            npm: "https://registry.npmjs.org".to_owned(),
            pypi: "https://pypi.org".to_owned(),
            cargo: "https://index.crates.io".to_owned(),
            go: Some("https://sum.golang.org".to_owned()),
            go_proxy: Some("https://proxy.golang.org".to_owned()),
            go_private: Vec::new(),
            plain_image_hosts: Vec::new(),
            local_bundles: false,
        }
    }
}

/// A package, as its registry describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvedArtifact {
    /// Version that was found.
    pub version: Option<String>,
    /// URL of the archive.
    pub url: Option<String>,
    /// Hash of the archive: `sha512-BASE64` of npm, `sha256:HEX`, or `h1:BASE64` of Go.
    pub digest: Option<String>,
    /// All hashes of the files of a version, if there are several: name and `sha256:HEX`.
    pub files: Vec<(String, String)>,
    /// Size of the archive, in bytes.
    pub size: Option<u64>,
    /// Programs of a package of npm: name and path in the package.
    pub programs: Vec<(String, String)>,
    /// Account that published the version (npm), or accounts that own the project (PyPI), if the index names them.
    pub publisher: Option<String>,
    /// Reason that there is no hash.
    pub without_digest: Option<&'static str>,
}

/// Reasons a package was not resolved or downloaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The entry is not usable.
    #[error("{0}")]
    Entry(String),
    /// The package registry has no such package or version.
    #[error("{host} has no {what}; the entry may be wrong, or the package was removed")]
    NotFound {
        /// Host of the package registry.
        host: String,
        /// Package and version.
        what: String,
    },
    /// The package registry was not reached.
    #[error("{host} could not be reached: {}; {}", fetch_reason(.source), fetch_advice(.source))]
    Unreachable {
        /// Host.
        host: String,
        /// Description of the failure.
        source: FetchError,
    },
    /// The registry refuses the request, or fails.
    #[error("{host} answered with status {status}; {}", status_advice(*.status))]
    Status {
        /// Host.
        host: String,
        /// HTTP status.
        status: u16,
    },
    /// The answer is not one of such a registry.
    #[error(
        "{url} did not answer as expected: {what}; check the URL of the index, which the entry or a setting names: \
         npm_config_registry, UV_DEFAULT_INDEX, GOPROXY, GOSUMDB"
    )]
    Unexpected {
        /// URL of the request.
        url: String,
        /// Description of the answer.
        what: String,
    },
    /// The file is not the one of the entry.
    #[error(
        "the SHA-256 of {url} is {found}, and the entry demands {expected}; the file was changed or exchanged"
    )]
    WrongHash {
        /// URL of the file.
        url: String,
        /// SHA-256 of the entry.
        expected: String,
        /// SHA-256 of the file.
        found: String,
    },
    /// The file is larger than the limit.
    #[error("{url} is larger than {limit} bytes, the maximum; nothing was kept")]
    TooLarge {
        /// URL of the file.
        url: String,
        /// The limit.
        limit: u64,
    },
    /// The file cannot be written.
    #[error("{file} cannot be written: {what}; free some space, or make the folder writable")]
    Write {
        /// The file.
        file: String,
        /// Description of the failure.
        what: String,
    },
}

/// Client of package registries.
#[derive(Clone, Debug)]
pub struct ArtifactClient {
    registries: PackageRegistries,
    connect_timeout: Duration,
}

impl ArtifactClient {
    /// Creates a client for these registries.
    #[must_use]
    pub fn new(registries: PackageRegistries) -> Self {
        Self { registries, connect_timeout: Duration::from_secs(10) }
    }

    /// Finds a package at its registry, with the hash of its archive.
    ///
    /// # Errors
    /// If the entry is not usable, the registry is not reached, or it has no such package.
    pub async fn resolve(&self, package: &RegistryPackage) -> Result<ResolvedArtifact, ArtifactError> {
        if let Some(what) = package_name_problem(&package.registry_type, &package.identifier) {
            return Err(ArtifactError::Entry(format!("`{}`: {what}", read_escape(&package.identifier))));
        }
        match &package.registry_type {
            RegistryType::Npm => self.npm(package).await,
            RegistryType::Pypi => self.pypi(package).await,
            RegistryType::Cargo => self.cargo(package).await,
            RegistryType::Go => self.go(package).await,
            RegistryType::Oci => self.image(package).await,
            RegistryType::Mcpb => {
                let Some(hash) = &package.file_sha256 else { return Err(missing_hash()) };
                Ok(ResolvedArtifact {
                    version: package.version.clone(),
                    url: Some(package.identifier.clone()),
                    digest: Some(format!("sha256:{hash}")),
                    ..ResolvedArtifact::empty()
                })
            }
            RegistryType::Nuget => Ok(ResolvedArtifact {
                version: package.version.clone(),
                without_digest: Some("NuGet checks the signature of the package when it is installed"),
                ..ResolvedArtifact::empty()
            }),
            RegistryType::Other(kind) => Err(ArtifactError::Entry(format!(
                "packages of type `{}` are not supported",
                read_escape(kind)
            ))),
        }
    }

    /// Returns the base URL: that of the entry, or the usual one. A base URL of this machine is accepted only if it is the
    /// configured one.
    fn base(&self, package: &RegistryPackage, usual: &str) -> Result<(Url, EgressPolicy), ArtifactError> {
        let named = package
            .registry_base_url
            .as_deref()
            .filter(|base| !crate::launch::is_usual_registry(&package.registry_type, base));
        let text = named.unwrap_or(usual);
        let mut url = Url::parse(text).map_err(|error| {
            ArtifactError::Entry(format!("`{}` is not a URL: {error}", read_escape(text)))
        })?;
        let configured = Url::parse(usual).ok();
        let is_configured = configured.is_some_and(|usual| usual.origin() == url.origin());
        let policy = if is_configured { EgressPolicy::of_endpoint(&url) } else { EgressPolicy::public() };
        let path = url.path().trim_end_matches('/').trim_end_matches("/simple").to_owned();
        url.set_path(&path);
        Ok((url, policy))
    }

    async fn get(
        &self,
        url: &Url,
        policy: EgressPolicy,
        headers: &HeaderMap,
    ) -> Result<JsonResponse, ArtifactError> {
        let fetched = JsonFetcher::with_policy(policy).get(url, headers, 4 * MAX_PAGE_BYTES).await;
        fetched.map_err(|source| ArtifactError::Unreachable { host: host(url), source })
    }

    async fn get_json(&self, url: &Url, policy: EgressPolicy, what: &str) -> Result<Value, ArtifactError> {
        let response = self.get(url, policy, &HeaderMap::new()).await?;
        if response.status.is_success() && response.is_html() {
            return Err(unexpected(url, HTML_PAGE));
        }
        let body = success(url, response, what)?;
        serde_json::from_slice(&body)
            .map_err(|error| unexpected(url, format!("it is not valid JSON: {error}")))
    }
}

impl ResolvedArtifact {
    const fn empty() -> Self {
        Self {
            version: None,
            url: None,
            digest: None,
            files: Vec::new(),
            size: None,
            programs: Vec::new(),
            publisher: None,
            without_digest: None,
        }
    }
}

fn success(url: &Url, response: JsonResponse, what: &str) -> Result<bytes::Bytes, ArtifactError> {
    match response.status.as_u16() {
        200 => Ok(response.body),
        404 | 410 => Err(ArtifactError::NotFound { host: host(url), what: read_escape(what) }),
        status => Err(ArtifactError::Status { host: host(url), status }),
    }
}

fn unexpected(url: &Url, what: impl Into<String>) -> ArtifactError {
    ArtifactError::Unexpected { url: shown(url), what: what.into() }
}

fn missing_hash() -> ArtifactError {
    ArtifactError::Entry(
        "the bundle has no `fileSha256`, so the download could not be checked; ask its publisher to add it"
            .to_owned(),
    )
}

fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    }
}

/// Returns true if a URL that an entry names may be on this machine.
fn may_be_local(url: &Url, is_allowed: bool) -> EgressPolicy {
    if is_allowed && is_loopback(url) { EgressPolicy::of_endpoint(url) } else { EgressPolicy::public() }
}
