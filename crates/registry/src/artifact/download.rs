//! Downloads of bundles, with a check of their hash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hospes_http_client::{EgressClient, FetchError};
use http::Response;
use http::header::{ACCEPT, CONTENT_LENGTH, HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use url::Url;

use super::{ArtifactClient, ArtifactError, host, missing_hash, unexpected};
use crate::entry::{RegistryPackage, read_escape};
use crate::fetch::{get_request, redirect_target, shown};
use crate::launch::{is_sha256, package_name_problem};

/// Maximum size of a bundle, in bytes.
pub const MAX_BUNDLE_BYTES: u64 = 512 * 1024 * 1024;
/// Maximum time without a byte.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time of a download.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Maximum number of redirects: releases are stored elsewhere.
const MAX_REDIRECTS: usize = 5;

/// Progress of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DownloadProgress {
    /// Bytes so far.
    pub bytes: u64,
    /// Bytes in all, if the server says so.
    pub total: Option<u64>,
}

/// A file that was downloaded and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DownloadedFile {
    /// The file.
    pub file: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: String,
}

impl ArtifactClient {
    /// Downloads the bundle of a package into a file, and checks its SHA-256 on the way. The file appears only if the hash
    /// is right; an existing file is replaced then. Redirects are followed, because the hash decides.
    ///
    /// # Errors
    /// If the entry has no hash, the server is not reached, the file is too large or not the one of the entry, or it
    /// cannot be written.
    pub async fn download_bundle(
        &self,
        package: &RegistryPackage,
        file: &Path,
        progress: impl FnMut(DownloadProgress),
    ) -> Result<DownloadedFile, ArtifactError> {
        if let Some(what) = package_name_problem(&package.registry_type, &package.identifier) {
            return Err(ArtifactError::Entry(format!("`{}`: {what}", read_escape(&package.identifier))));
        }
        let Some(expected) = package.file_sha256.as_deref() else { return Err(missing_hash()) };
        if !is_sha256(expected) {
            let what = "`fileSha256` must have 64 lower-case hexadecimal digits";
            return Err(ArtifactError::Entry(what.to_owned()));
        }
        let url = Url::parse(&package.identifier);
        let url = url.map_err(|error| ArtifactError::Entry(format!("the URL of the bundle: {error}")))?;
        let work = self.download(&url, expected, file, progress);
        match tokio::time::timeout(DOWNLOAD_TIMEOUT, Box::pin(work)).await {
            Ok(done) => done,
            Err(_) => Err(ArtifactError::Unreachable { host: host(&url), source: FetchError::Timeout }),
        }
    }

    async fn download(
        &self,
        url: &Url,
        expected: &str,
        file: &Path,
        mut progress: impl FnMut(DownloadProgress),
    ) -> Result<DownloadedFile, ArtifactError> {
        let response = self.open(url).await?;
        let total =
            response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let too_large = || ArtifactError::TooLarge { url: shown(url), limit: MAX_BUNDLE_BYTES };
        if total.is_some_and(|total: u64| total > MAX_BUNDLE_BYTES) {
            return Err(too_large());
        }
        let failed = |error: std::io::Error| ArtifactError::Write {
            file: file.display().to_string(),
            what: error.to_string(),
        };
        let folder =
            file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        // Removed when it is dropped: after an error nothing stays.
        let temporary = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let mut writer = tokio::fs::File::from_std(temporary.reopen().map_err(failed)?);
        let mut hash = Sha256::new();
        let mut bytes = 0_u64;
        let mut body = response.into_body();
        progress(DownloadProgress { bytes, total });
        loop {
            let broken = |source| ArtifactError::Unreachable { host: host(url), source };
            let frame = tokio::time::timeout(STALL_TIMEOUT, body.frame()).await;
            let Some(frame) = frame.map_err(|_| broken(FetchError::Timeout))? else { break };
            let Ok(data) = frame.map_err(|_| broken(FetchError::Broken))?.into_data() else { continue };
            bytes += data.len() as u64;
            if bytes > MAX_BUNDLE_BYTES {
                return Err(too_large());
            }
            hash.update(&data);
            writer.write_all(&data).await.map_err(failed)?;
            progress(DownloadProgress { bytes, total });
        }
        writer.sync_all().await.map_err(failed)?;
        let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if found != expected {
            return Err(ArtifactError::WrongHash { url: shown(url), expected: expected.to_owned(), found });
        }
        hospes_fs::persist(temporary, file).map_err(failed)?;
        Ok(DownloadedFile { file: file.to_owned(), bytes, sha256: found })
    }

    /// Opens the file, after redirects. Each URL is checked.
    async fn open(&self, url: &Url) -> Result<Response<Incoming>, ArtifactError> {
        let policy = super::may_be_local(url, self.registries.local_bundles);
        let client = EgressClient::new(policy, self.connect_timeout);
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]);
        let mut current = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let answer =
                tokio::time::timeout(STALL_TIMEOUT, client.send(&current, get_request(&headers))).await;
            let answer: Result<Response<Incoming>, FetchError> = answer.unwrap_or(Err(FetchError::Timeout));
            let response =
                answer.map_err(|source| ArtifactError::Unreachable { host: host(&current), source })?;
            if let Some(target) = redirect_target(&current, response.status(), response.headers()) {
                current = target;
                continue;
            }
            return match response.status().as_u16() {
                200 => Ok(response),
                404 | 410 => Err(ArtifactError::NotFound { host: host(&current), what: shown(url) }),
                status => Err(ArtifactError::Status { host: host(&current), status }),
            };
        }
        Err(unexpected(url, format!("more than {MAX_REDIRECTS} redirects")))
    }
}
