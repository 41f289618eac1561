//! Registries of images, API v2: the digest of a tag.

use hospes_http_client::EgressPolicy;
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{ArtifactClient, ArtifactError, ResolvedArtifact, host, success, unexpected};
use crate::entry::{RegistryPackage, read_escape};
use crate::fetch::JsonResponse;
use crate::launch::{full_reference, is_registry_host, is_sha256, split_image};

/// Kinds of manifests that a digest may name.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";
/// Maximum length of an anonymous token, in bytes.
const MAX_TOKEN: usize = 16 * 1024;

impl ArtifactClient {
    pub(super) async fn image(&self, package: &RegistryPackage) -> Result<ResolvedArtifact, ArtifactError> {
        let reference = full_reference(package);
        let Some(image) = split_image(&reference) else {
            return Err(ArtifactError::Entry(format!(
                "`{}` is not the reference of an image",
                read_escape(&reference)
            )));
        };
        let tag = image.tag.unwrap_or("latest");
        let mut artifact =
            ResolvedArtifact { version: image.tag.map(str::to_owned), ..ResolvedArtifact::empty() };
        if let Some(digest) = image.digest {
            artifact.digest = Some(digest.to_owned());
            return Ok(artifact);
        }
        let (url, policy) = self.manifest_url(image.path, tag)?;
        let response = self.get(&url, policy.clone(), &headers(None)?).await?;
        let response = if response.status.as_u16() == 401 {
            let token = self.anonymous_token(&url, &response, policy.clone()).await?;
            self.get(&url, policy, &headers(Some(&token))?).await?
        } else {
            response
        };
        if matches!(response.status.as_u16(), 401 | 403) {
            let what = format!("image {reference} without a sign-in");
            return Err(ArtifactError::NotFound { host: host(&url), what: read_escape(&what) });
        }
        let declared = response.headers.get("docker-content-digest").and_then(|value| value.to_str().ok());
        let declared = declared.map(str::to_owned);
        let body = success(&url, response, &format!("image {reference}"))?;
        // The digest is that of the bytes, whatever the registry declares.
        let hash: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
        let digest = format!("sha256:{hash}");
        match declared.as_deref().and_then(|declared| declared.strip_prefix("sha256:")) {
            Some(other) if is_sha256(other) && other != hash => {
                return Err(unexpected(&url, "the declared digest is not that of the manifest"));
            }
            _ => artifact.digest = Some(digest),
        }
        Ok(artifact)
    }

    fn manifest_url(&self, path: &str, tag: &str) -> Result<(Url, EgressPolicy), ArtifactError> {
        let (registry, name) = match path.split_once('/') {
            Some((first, rest)) if is_registry_host(first) => (first, rest.to_owned()),
            _ => ("docker.io", path.to_owned()),
        };
        let is_hub = matches!(registry, "docker.io" | "index.docker.io" | "registry.docker.io");
        let name = if is_hub && !name.contains('/') { format!("library/{name}") } else { name };
        let registry = if is_hub { "registry-1.docker.io" } else { registry };
        let is_plain = self.registries.plain_image_hosts.iter().any(|known| known == registry);
        let scheme = if is_plain { "http" } else { "https" };
        let url = Url::parse(&format!("{scheme}://{registry}/v2/{name}/manifests/{tag}"));
        let url = url.map_err(|error| ArtifactError::Entry(format!("`{}`: {error}", read_escape(path))))?;
        let policy = super::may_be_local(&url, is_plain);
        Ok((url, policy))
    }

    /// Asks for a token without an account, as the challenge of the registry says.
    async fn anonymous_token(
        &self,
        url: &Url,
        response: &JsonResponse,
        policy: EgressPolicy,
    ) -> Result<String, ArtifactError> {
        let challenge = response.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let Some(parameters) = challenge.and_then(|text| text.strip_prefix("Bearer ")) else {
            return Err(unexpected(url, "it demands a sign-in"));
        };
        let parameter = |name: &str| {
            let start = parameters.find(&format!("{name}=\""))? + name.len() + 2;
            let rest = &parameters[start..];
            Some(rest[..rest.find('"')?].to_owned())
        };
        let realm = parameter("realm").and_then(|realm| Url::parse(&realm).ok());
        let Some(mut realm) = realm else { return Err(unexpected(url, "its challenge has no realm")) };
        {
            let mut pairs = realm.query_pairs_mut();
            for name in ["service", "scope"] {
                if let Some(value) = parameter(name) {
                    pairs.append_pair(name, &value);
                }
            }
        }
        // The realm comes from the registry: this machine only if the registry is here.
        let body = self.get_json(&realm, policy, "token").await?;
        let token = ["token", "access_token"].iter().find_map(|name| body.get(name).and_then(Value::as_str));
        match token {
            Some(token) if token.len() <= MAX_TOKEN => Ok(token.to_owned()),
            _ => Err(unexpected(&realm, "it sent no token")),
        }
    }
}

fn headers(token: Option<&str>) -> Result<HeaderMap, ArtifactError> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(MANIFESTS))]);
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value
            .map_err(|_| ArtifactError::Entry("the registry sent a token that cannot be used".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}
