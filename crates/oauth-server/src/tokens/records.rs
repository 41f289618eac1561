//! Records of codes and tokens, and the access that they grant.

use hospes_auth::{ClientId, RedirectUri, Resource, Scopes};
use serde::{Deserialize, Serialize};

/// Record of an authorization code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CodeRecord {
    pub(crate) client_id: ClientId,
    pub(crate) redirect_uri: RedirectUri,
    pub(crate) challenge: String,
    /// The key that has to be proven, by its thumbprint.
    #[serde(default)]
    pub(crate) key: Option<String>,
    #[serde(flatten)]
    pub(crate) given: GrantedAccess,
}

/// Access that was granted; copied to every code and token of the grant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GrantedAccess {
    pub(crate) subject: String,
    pub(crate) resource: Resource,
    pub(crate) scopes: Scopes,
    /// End of the grant, in seconds since 1970.
    pub(crate) end: u64,
    /// Source of the grant.
    pub(crate) by: GrantSource,
}

/// Source of a grant, which is valid as long as its source is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GrantSource {
    /// A local user, with a digest of the credentials at that time.
    User {
        /// Digest of the user's credentials.
        mark: String,
    },
    /// A client that acts for itself.
    Client,
    /// A user of the provider.
    Upstream,
    /// A user of an identity provider that is trusted.
    Assertion {
        /// Issuer of the provider.
        issuer: String,
    },
}

/// Record of an access token or a refresh token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    pub(crate) client_id: ClientId,
    /// Thumbprint of the key that the client has to prove.
    #[serde(default)]
    pub(crate) key: Option<String>,
    #[serde(flatten)]
    pub(crate) given: GrantedAccess,
}

/// Returns the type of a token that is bound to this key.
pub(super) fn token_type(key: Option<&str>) -> &'static str {
    if key.is_some() { "DPoP" } else { "Bearer" }
}
