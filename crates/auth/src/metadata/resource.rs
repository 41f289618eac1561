//! Metadata of a protected resource, here an MCP server (RFC 9728).

use serde::{Deserialize, Serialize};
use url::Url;

use crate::exchange::without_query;
use crate::{Issuer, Resource, Scopes};

/// The metadata of a protected resource. Members that are not known here are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProtectedResourceMetadata {
    /// Resource identifier: the audience of its tokens, byte for byte.
    pub resource: Resource,
    /// Authorization servers that issue its tokens.
    #[serde(default)]
    pub authorization_servers: Vec<Issuer>,
    /// All scopes worth asking for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// Methods of presenting a bearer token; here always `header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_methods_supported: Option<Vec<String>>,
    /// Name for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// URL of a page about the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_documentation: Option<String>,
    /// With which algorithms a key may be proven (RFC 9449).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// True if only tokens bound to a key are accepted (RFC 9449).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_bound_access_tokens_required: Option<bool>,
}

/// Reasons the metadata of a resource is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceMetadataError {
    /// The metadata describes another resource, so a token for it would be valid elsewhere.
    #[error(
        "resource mismatch: the metadata is for {resource}, but the server was reached at {reached}: {differs}"
    )]
    Other {
        /// Resource in the metadata.
        resource: Resource,
        /// The address that was reached, without its query.
        reached: String,
        /// Difference in words: "the host differs (a.example, b.example)".
        differs: String,
    },
    /// No authorization server issues tokens for it.
    #[error("the protected resource metadata lists no authorization server")]
    NoServer,
    /// A server that would be reached in the open.
    #[error("insecure authorization server in the protected resource metadata: {0} does not use https")]
    Insecure(Issuer),
}

impl ProtectedResourceMetadata {
    /// Creates the metadata of a resource for which these servers issue tokens.
    #[must_use]
    pub fn new(resource: Resource, authorization_servers: Vec<Issuer>) -> Self {
        Self {
            resource,
            authorization_servers,
            scopes_supported: None,
            bearer_methods_supported: None,
            resource_name: None,
            resource_documentation: None,
            dpop_signing_alg_values_supported: None,
            dpop_bound_access_tokens_required: None,
        }
    }

    /// Returns the scopes that the resource uses, if it names any.
    #[must_use]
    pub fn scopes(&self) -> Option<Scopes> {
        let scopes: Scopes = self.scopes_supported.iter().flatten().map(String::as_str).collect();
        (!scopes.is_empty()).then_some(scopes)
    }

    /// Checks that the metadata belongs to the endpoint at `reached`, and names usable servers. With `strict` it must
    /// name the endpoint itself, as RFC 9728 requires; otherwise it may name a parent of the endpoint, as documents at
    /// the root of an origin do.
    ///
    /// # Errors
    /// The reason why it must not be used.
    pub fn check(&self, reached: &Url, strict: bool) -> Result<(), ResourceMetadataError> {
        if !self.resource.url().is_some_and(|resource| covers(&resource, reached, strict)) {
            return Err(ResourceMetadataError::Other {
                resource: self.resource.clone(),
                reached: without_query(reached),
                differs: difference(self.resource.url().as_ref(), reached),
            });
        }
        if self.authorization_servers.is_empty() {
            return Err(ResourceMetadataError::NoServer);
        }
        let insecure = |issuer: &&Issuer| !issuer.url().is_some_and(|url| super::is_secure(&url));
        match self.authorization_servers.iter().find(insecure) {
            Some(issuer) => Err(ResourceMetadataError::Insecure(issuer.clone())),
            None => Ok(()),
        }
    }
}

/// Describes the first part in which the resource's address differs from the address that was reached.
fn difference(resource: Option<&Url>, reached: &Url) -> String {
    let Some(resource) = resource.filter(|url| matches!(url.scheme(), "http" | "https")) else {
        return "it is not an http or https URL".to_owned();
    };
    let host = |url: &Url| url.host_str().unwrap_or_default().to_owned();
    let port = |url: &Url| url.port_or_known_default().map_or_else(String::new, |port| port.to_string());
    let parts = [
        ("scheme", resource.scheme().to_owned(), reached.scheme().to_owned()),
        ("host", host(resource), host(reached)),
        ("port", port(resource), port(reached)),
        ("path", resource.path().to_owned(), reached.path().to_owned()),
    ];
    match parts.into_iter().find(|(_, one, other)| one != other) {
        Some((part, one, other)) => {
            format!("the {part} differs ({}, {})", crate::shown(&one), crate::shown(&other))
        }
        None => "the query differs".to_owned(),
    }
}

/// Returns true if `reached` is `resource` or lies below it. With `strict` only the resource itself counts.
#[must_use]
pub fn covers(resource: &Url, reached: &Url, strict: bool) -> bool {
    // The parser has made the case of scheme and host, and default ports, the same.
    if resource.origin() != reached.origin() || !matches!(resource.scheme(), "http" | "https") {
        return false;
    }
    if resource.query().is_some() && resource.query() != reached.query() {
        return false;
    }
    let (whole, path) = (resource.path(), reached.path());
    // A slash at the end does not make another resource (AUTC-30).
    if whole.trim_end_matches('/') == path.trim_end_matches('/') {
        return true;
    }
    // Whole segments only: `/mcp` does not cover `/mcp-admin`.
    let below = path.strip_prefix(whole).is_some_and(|rest| whole.ends_with('/') || rest.starts_with('/'));
    !strict && below
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resource: &str, reached: &str, strict: bool) -> Result<(), ResourceMetadataError> {
        let servers = vec![Issuer::new("https://as").unwrap()];
        let metadata = ProtectedResourceMetadata::new(Resource::new(resource).unwrap(), servers);
        metadata.check(&Url::parse(reached).unwrap(), strict)
    }

    #[test]
    fn a_mismatch_says_what_differs() {
        for (resource, reached, differs) in [
            (
                "https://a.example/mcp",
                "https://b.example/mcp?key=x",
                "the host differs (a.example, b.example)",
            ),
            ("https://m/mcp", "http://m/mcp", "the scheme differs (https, http)"),
            ("https://m:8443/mcp", "https://m/mcp", "the port differs (8443, 443)"),
            ("https://m/one", "https://m/other", "the path differs (/one, /other)"),
            ("https://m/mcp?a=1", "https://m/mcp?a=2", "the query differs"),
            ("urn:example:x", "https://m/mcp", "it is not an http or https URL"),
        ] {
            let error = check(resource, reached, false).unwrap_err().to_string();
            assert!(error.contains(resource) && error.ends_with(differs), "{error}");
            assert!(!error.contains("key=x"), "{error}");
        }
    }

    #[test]
    fn a_resource_covers_what_lies_at_or_below_it() {
        for (resource, reached) in [
            ("https://m/mcp", "https://m/mcp"),
            ("HTTPS://M:443/mcp", "https://m/mcp"),
            ("https://m/mcp/", "https://m/mcp"),
            ("https://m", "https://m/mcp"),
            ("https://m/", "https://m/mcp?x=1"),
            ("https://m/a", "https://m/a/mcp"),
        ] {
            assert_eq!(check(resource, reached, false), Ok(()), "{resource} {reached}");
        }
        for (resource, reached) in [
            ("https://evil.example/mcp", "https://m/mcp"),
            ("http://m/mcp", "https://m/mcp"),
            ("https://m:8443/mcp", "https://m/mcp"),
            ("https://m/mc", "https://m/mcp"),
            ("https://m/MCP", "https://m/mcp"),
            ("https://m/mcp/more", "https://m/mcp"),
            ("https://m/mcp?x=2", "https://m/mcp?x=1"),
            ("urn:m", "https://m/mcp"),
        ] {
            assert!(
                matches!(check(resource, reached, false), Err(ResourceMetadataError::Other { .. })),
                "{resource}"
            );
        }
        assert!(check("https://m", "https://m/mcp", true).is_err());
        assert!(check("https://m/mcp", "https://m/mcp", true).is_ok());
    }

    #[test]
    fn there_must_be_a_server_to_ask() {
        let resource = Resource::new("https://m").unwrap();
        let reached = Url::parse("https://m/").unwrap();
        let none = ProtectedResourceMetadata::new(resource.clone(), Vec::new());
        assert_eq!(none.check(&reached, false), Err(ResourceMetadataError::NoServer));
        let plain = Issuer::new("http://as.example").unwrap();
        let open = ProtectedResourceMetadata::new(resource.clone(), vec![plain.clone()]);
        assert_eq!(open.check(&reached, false), Err(ResourceMetadataError::Insecure(plain)));
        let local = ProtectedResourceMetadata::new(resource, vec![Issuer::new("http://[::1]:1/as").unwrap()]);
        assert_eq!(local.check(&reached, false), Ok(()));
    }

    #[test]
    fn the_resource_is_kept_as_it_came() {
        let text = r#"{"resource":"https://M:443","authorization_servers":["https://as"],"more":[1]}"#;
        let metadata: ProtectedResourceMetadata = serde_json::from_str(text).unwrap();
        assert_eq!(metadata.resource.as_str(), "https://M:443");
        assert_eq!(metadata.scopes(), None);
    }
}
