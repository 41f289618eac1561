//! Client metadata, for publication as a document and for registration (RFC 7591).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::{ClientId, RedirectUri, Scopes};

/// Type of a client: native or web.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ApplicationType {
    /// On its user's machine: a program, with redirects to loopback.
    Native,
    /// A web application with an https redirect.
    Web,
}

/// Metadata of a client (RFC 7591). Unknown members are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientMetadata {
    /// Name for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// URL of a page about the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_uri: Option<String>,
    /// URL of its logo. The servers here never fetch it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logo_uri: Option<String>,
    /// Redirect URIs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirect_uris: Vec<RedirectUri>,
    /// Grant types that it will use at the token endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_types: Option<Vec<String>>,
    /// Response types that it will use at the authorization endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_types: Option<Vec<String>>,
    /// Client authentication method at the token endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_method: Option<String>,
    /// Application type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_type: Option<ApplicationType>,
    /// Scopes that it may request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scopes>,
    /// Identifier of the client software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software_id: Option<String>,
    /// Version of the client software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software_version: Option<String>,
    /// URL of its key set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// Public keys of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
}

/// Client metadata at a URL that is also the client's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientDocument {
    /// The URL of the document, byte for byte.
    pub client_id: ClientId,
    /// Client metadata.
    #[serde(flatten)]
    pub metadata: ClientMetadata,
    /// Must be absent, because the document is public.
    #[serde(default, skip_serializing)]
    pub client_secret: Option<Value>,
}

impl ClientDocument {
    /// Creates the document of the client with this id.
    #[must_use]
    pub fn new(client_id: ClientId, metadata: ClientMetadata) -> Self {
        Self { client_id, metadata, client_secret: None }
    }
}

/// Response to a registration. Its values apply, even if others were requested.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientInformation {
    /// Client id that the server has assigned.
    pub client_id: ClientId,
    /// The client's secret, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Since when, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id_issued_at: Option<u64>,
    /// Expiry of the secret, in seconds since 1970; 0 means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_expires_at: Option<u64>,
    /// Redirect URIs that were requested and not registered. An extension of RFC 7591, which lets a server omit them
    /// silently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirect_uris_left_out: Vec<RejectedRedirect>,
    /// Metadata that was registered.
    #[serde(flatten)]
    pub metadata: ClientMetadata,
}

/// A redirect that a server has not registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RejectedRedirect {
    /// The requested redirect URI, shortened and with control characters escaped.
    pub redirect_uri: String,
    /// Reason, for people.
    pub reason: String,
}

impl RejectedRedirect {
    /// Creates the entry of an omitted redirect.
    #[must_use]
    pub fn new(redirect_uri: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { redirect_uri: redirect_uri.into(), reason: reason.into() }
    }
}

impl ClientInformation {
    /// Creates the response for a client without a secret.
    #[must_use]
    pub fn new(client_id: ClientId, metadata: ClientMetadata) -> Self {
        Self {
            client_id,
            client_secret: None,
            client_id_issued_at: None,
            client_secret_expires_at: None,
            redirect_uris_left_out: Vec::new(),
            metadata,
        }
    }
}

impl std::fmt::Debug for ClientInformation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientInformation")
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.as_ref().map(|_| "…"))
            .field("client_secret_expires_at", &self.client_secret_expires_at)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}

/// Returns the URL of the metadata document of the client with this id, or the reason there can be none.
///
/// # Errors
/// The reason why the id is not the URL of a document.
pub fn document_url(id: &ClientId) -> Result<Url, &'static str> {
    let text = id.as_str();
    let url = Url::parse(text).map_err(|_| "it is not a valid URL")?;
    // The text is checked, too: the id is compared byte for byte, and the parser accepts other spellings
    // (`HTTPS:`).
    if url.scheme() != "https" || !text.starts_with("https://") {
        return Err("it does not use https");
    }
    if url.fragment().is_some() || text.contains('#') {
        return Err("it has a fragment");
    }
    if url.query().is_some() {
        return Err("it has a query");
    }
    if !url.username().is_empty() || url.password().is_some() || text.contains('@') {
        return Err("it contains a user name or password");
    }
    // A client id is an https URL with a path (AUTC-37).
    if matches!(url.path(), "" | "/") {
        return Err("it has no path");
    }
    // As it is written: the parser takes them away.
    let path = text["https://".len()..].split_once('/').map_or("", |(_, path)| path);
    if path.split('/').any(is_dots) || text.contains('\\') {
        return Err("it has a dot segment");
    }
    Ok(url)
}

fn is_dots(part: &str) -> bool {
    // URL parsers take `%2e` for a dot as well.
    let part = part.to_ascii_lowercase().replace("%2e", ".");
    part == "." || part == ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_reads_and_shows_no_secret() {
        let text = r#"{"client_id":"c1","client_secret":"s3cret","client_secret_expires_at":0,
            "redirect_uris":["http://127.0.0.1:1/callback"],"token_endpoint_auth_method":"client_secret_post",
            "application_type":"native","scope":"a b","unknown":{}}"#;
        let registered: ClientInformation = serde_json::from_str(text).unwrap();
        assert_eq!(registered.metadata.application_type, Some(ApplicationType::Native));
        assert_eq!(registered.metadata.scope, Some(Scopes::parse("a b")));
        assert!(!format!("{registered:?}").contains("s3cret"));
        let written = serde_json::to_value(&registered).unwrap();
        assert_eq!(written["client_secret"], "s3cret");
        assert_eq!(written.get("jwks"), None);
    }
}
