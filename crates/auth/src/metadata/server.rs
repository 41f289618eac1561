//! Metadata of an authorization server (RFC 8414, OpenID Connect discovery).

use serde::{Deserialize, Serialize};
use url::Url;

use crate::{Issuer, Resource};

/// The metadata of an authorization server. Members that are not known here are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuthorizationServerMetadata {
    /// Issuer identifier.
    pub issuer: Issuer,
    /// Authorization endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<String>,
    /// Token endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// Registration endpoint (RFC 7591).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_endpoint: Option<String>,
    /// Device authorization endpoint (RFC 8628).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_authorization_endpoint: Option<String>,
    /// Revocation endpoint (RFC 7009).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// Introspection endpoint (RFC 7662).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introspection_endpoint: Option<String>,
    /// URL of the server's keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// Supported scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// Supported response types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_types_supported: Option<Vec<String>>,
    /// Supported response modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_modes_supported: Option<Vec<String>>,
    /// Supported grant types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_types_supported: Option<Vec<String>>,
    /// Supported PKCE code challenge methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Supported client authentication methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// With which algorithms they can sign that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// With which algorithms a key can be proven (RFC 9449).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// True if a client id may be the URL of the client's metadata document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id_metadata_document_supported: Option<bool>,
    /// True if every authorization response carries `iss` (RFC 9207).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_response_iss_parameter_supported: Option<bool>,
    /// Resources for which it issues tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_resources: Option<Vec<Resource>>,
    /// URL of a page about the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_documentation: Option<String>,
}

/// Reasons the metadata of an authorization server is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerMetadataError {
    /// The metadata names another issuer (RFC 8414, section 3.3).
    #[error("issuer mismatch: the metadata of {asked} names the issuer {said}")]
    Issuer {
        /// Issuer that was requested.
        asked: Issuer,
        /// Issuer that the metadata names.
        said: Issuer,
    },
    /// A required endpoint is missing or has an invalid URL.
    #[error("the metadata of {issuer} has no valid {what}")]
    Endpoint {
        /// Issuer of the metadata.
        issuer: Issuer,
        /// Name of the member.
        what: &'static str,
    },
    /// An endpoint is on this machine although the MCP server is not. A remote server has no access to local endpoints.
    #[error("the metadata of {issuer} has a {what} on a loopback address, but the MCP server is remote")]
    Here {
        /// Issuer of the metadata.
        issuer: Issuer,
        /// Name of the member.
        what: &'static str,
    },
    /// It cannot be asked for a code.
    #[error("the authorization server {0} does not support the authorization code grant")]
    NoCode(Issuer),
    /// Without PKCE, anyone who obtains a code could redeem it.
    #[error("the authorization server {0} does not advertise PKCE with S256, which is required")]
    NoPkce(Issuer),
}

impl AuthorizationServerMetadata {
    /// Creates metadata with only the issuer.
    #[must_use]
    pub fn new(issuer: Issuer) -> Self {
        Self {
            issuer,
            authorization_endpoint: None,
            token_endpoint: None,
            registration_endpoint: None,
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            introspection_endpoint: None,
            jwks_uri: None,
            scopes_supported: None,
            response_types_supported: None,
            response_modes_supported: None,
            grant_types_supported: None,
            code_challenge_methods_supported: None,
            token_endpoint_auth_methods_supported: None,
            token_endpoint_auth_signing_alg_values_supported: None,
            dpop_signing_alg_values_supported: None,
            client_id_metadata_document_supported: None,
            authorization_response_iss_parameter_supported: None,
            protected_resources: None,
            service_documentation: None,
        }
    }

    /// Checks that it is that of `asked`. Unless `strict`, an issuer that is an origin may differ by the slash at its
    /// end: servers in use name themselves both ways.
    ///
    /// # Errors
    /// If it names another issuer.
    pub fn check_issuer(&self, asked: &Issuer, strict: bool) -> Result<(), ServerMetadataError> {
        let (said, wanted) = (self.issuer.as_str(), asked.as_str());
        if said == wanted {
            return Ok(());
        }
        let origin = asked.url().is_some_and(|url| url.path() == "/");
        if !strict && origin && said.trim_end_matches('/') == wanted.trim_end_matches('/') {
            tracing::debug!(asked = wanted, %said, "accepted issuer that differs only in the trailing slash");
            return Ok(());
        }
        Err(ServerMetadataError::Issuer { asked: asked.clone(), said: self.issuer.clone() })
    }

    /// Checks that it can be asked for a code, and that a code is safe with it.
    ///
    /// # Errors
    /// Why it is not to be asked.
    pub fn check_code_flow(&self) -> Result<(), ServerMetadataError> {
        self.authorization_url()?;
        self.token_url()?;
        if self
            .response_types_supported
            .as_ref()
            .is_some_and(|types| !types.iter().any(|kind| kind == "code"))
        {
            return Err(ServerMetadataError::NoCode(self.issuer.clone()));
        }
        if !self.code_challenge_methods_supported.iter().flatten().any(|method| method == "S256") {
            return Err(ServerMetadataError::NoPkce(self.issuer.clone()));
        }
        Ok(())
    }

    /// Checks that it names no endpoint on this machine, unless the MCP server at `endpoint` is on this machine itself.
    ///
    /// # Errors
    /// The endpoint on this machine.
    pub fn check_not_loopback(&self, endpoint: &Url) -> Result<(), ServerMetadataError> {
        if super::is_loopback(endpoint) {
            return Ok(());
        }
        let named = [
            ("authorization_endpoint", &self.authorization_endpoint),
            ("token_endpoint", &self.token_endpoint),
            ("registration_endpoint", &self.registration_endpoint),
            ("device_authorization_endpoint", &self.device_authorization_endpoint),
        ];
        let is_here = |url: &str| Url::parse(url).is_ok_and(|url| super::is_loopback(&url));
        match named.iter().find(|(_, url)| url.as_deref().is_some_and(is_here)) {
            Some((what, _)) => Err(ServerMetadataError::Here { issuer: self.issuer.clone(), what }),
            None => Ok(()),
        }
    }

    /// Returns the URL of the authorization endpoint.
    ///
    /// # Errors
    /// If there is no usable URL.
    pub fn authorization_url(&self) -> Result<Url, ServerMetadataError> {
        self.endpoint("authorization_endpoint", self.authorization_endpoint.as_deref())
    }

    /// Returns the URL of the token endpoint.
    ///
    /// # Errors
    /// If there is no usable URL.
    pub fn token_url(&self) -> Result<Url, ServerMetadataError> {
        self.endpoint("token_endpoint", self.token_endpoint.as_deref())
    }

    /// Returns the URL of the device authorization endpoint.
    ///
    /// # Errors
    /// If there is no usable URL.
    pub fn device_authorization_url(&self) -> Result<Url, ServerMetadataError> {
        self.endpoint("device_authorization_endpoint", self.device_authorization_endpoint.as_deref())
    }

    /// Returns the URL of the registration endpoint, if there is one.
    ///
    /// # Errors
    /// If the URL is present but invalid.
    pub fn registration_url(&self) -> Result<Option<Url>, ServerMetadataError> {
        let url = self.registration_endpoint.as_deref();
        url.map(|url| self.endpoint("registration_endpoint", Some(url))).transpose()
    }

    fn endpoint(&self, what: &'static str, url: Option<&str>) -> Result<Url, ServerMetadataError> {
        let url = url.and_then(super::endpoint);
        url.ok_or_else(|| ServerMetadataError::Endpoint { issuer: self.issuer.clone(), what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(issuer: &str) -> AuthorizationServerMetadata {
        AuthorizationServerMetadata::new(Issuer::new(issuer).unwrap())
    }

    #[test]
    fn a_document_is_that_of_who_was_asked() {
        let check = |said: &str, asked: &str, strict| {
            named(said).check_issuer(&Issuer::new(asked).unwrap(), strict).is_ok()
        };
        assert!(check("https://as/t1", "https://as/t1", true));
        assert!(check("https://as/", "https://as", false));
        assert!(check("https://as", "https://as/", false));
        assert!(!check("https://as/", "https://as", true));
        assert!(!check("https://as/t1/", "https://as/t1", false), "a path is not touched");
        assert!(!check("https://attacker.example", "https://as", false));
        assert!(!check("https://AS", "https://as", false), "nothing is folded");
        assert!(!check("https://as:443", "https://as", false));
    }

    #[test]
    fn a_code_must_be_safe() {
        let mut server = named("https://as");
        server.authorization_endpoint = Some("https://elsewhere.example/authorize?x=1".into());
        server.token_endpoint = Some("https://as/token".into());
        assert_eq!(server.check_code_flow(), Err(ServerMetadataError::NoPkce(server.issuer.clone())));
        server.code_challenge_methods_supported = Some(vec!["plain".into()]);
        assert_eq!(server.check_code_flow(), Err(ServerMetadataError::NoPkce(server.issuer.clone())));
        server.code_challenge_methods_supported = Some(vec!["plain".into(), "S256".into()]);
        assert_eq!(server.check_code_flow(), Ok(()));
        server.response_types_supported = Some(vec!["token".into()]);
        assert_eq!(server.check_code_flow(), Err(ServerMetadataError::NoCode(server.issuer.clone())));
    }

    #[test]
    fn an_endpoint_is_a_url_that_secrets_may_go_to() {
        let mut server = named("https://as");
        for bad in [
            "http://as/token",
            "ftp://as/token",
            "/token",
            "https://as/token#x",
            "https://me@as/token",
            "javascript:alert(1)",
        ] {
            server.token_endpoint = Some(bad.into());
            assert!(server.token_url().is_err(), "{bad}");
        }
        for good in ["https://as/token", "http://127.0.0.1:1/token", "http://localhost/token"] {
            server.token_endpoint = Some(good.into());
            assert!(server.token_url().is_ok(), "{good}");
        }
    }
}
