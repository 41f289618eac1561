//! Format of the stored records.

use std::sync::Arc;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hospes_auth::metadata::covers;
use hospes_auth::{ClientId, Issuer, RedirectUri, Resource, Scopes};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use url::Url;
use zeroize::Zeroizing;

use super::CredentialStore;
use crate::StepError;
use crate::credentials::{ClientAuth, ClientIdentity};
use crate::proof_key::ProofKey;
use crate::settings::{ClientRegistration, OAuthClientSettings};
use crate::tokens::{AccessTokenType, TokenSet};

/// Name under which the tokens of an account at an endpoint are stored.
pub(crate) fn tokens_key(endpoint: &Url, account: &str) -> String {
    format!("tokens {}", endpoint_name(endpoint, account))
}

/// Converts an endpoint and account to a name in the store. Names are not secret, so parts that may be secret, and the
/// account, are included only as a hash.
fn endpoint_name(endpoint: &Url, account: &str) -> String {
    let shown = hospes_auth::without_query(endpoint);
    let mut whole = endpoint.clone();
    whole.set_fragment(None);
    if whole.as_str() == shown && account.is_empty() {
        return shown;
    }
    // A URL holds no space, so no other endpoint and account make the same text.
    let told = format!("{whole} {account}");
    let hash = digest::digest(&digest::SHA256, told.as_bytes());
    format!("{shown}#{}", URL_SAFE_NO_PAD.encode(hash.as_ref()))
}

/// Name under which the registration at an authorization server is stored.
pub(crate) fn registration_key(issuer: &str) -> String {
    format!("registration {issuer}")
}

/// Name under which the issuer of a given client is stored. A given client belongs to the first server that it was used
/// with, for every account.
pub(crate) fn binding_key(endpoint: &Url, client: &ClientId) -> String {
    format!("binding {} {client}", endpoint_name(endpoint, ""))
}

/// Issuer that a given client belongs to.
#[derive(Serialize, Deserialize)]
pub(crate) struct ClientBindingRecord {
    pub(crate) issuer: Issuer,
}

/// A client without its key, which comes from the settings.
#[derive(Serialize, Deserialize)]
pub(crate) struct ClientRecord {
    id: ClientId,
    method: String,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose")]
    secret: Option<SecretString>,
}

#[derive(Serialize, Deserialize)]
struct RegistrationRecord {
    issuer: Issuer,
    client: ClientRecord,
    redirect_uri: Option<RedirectUri>,
    expires_at: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct TokenSetRecord {
    /// Endpoint in displayable form, and account. Missing in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_query: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    account: String,
    issuer: Issuer,
    resource: Resource,
    client: ClientRecord,
    token_endpoint: String,
    #[serde(serialize_with = "expose_always")]
    access: SecretString,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose")]
    refresh: Option<SecretString>,
    granted: Scopes,
    requested: Scopes,
    issued_at: u64,
    expires_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "expose")]
    proof_key: Option<SecretString>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    mark: String,
}

pub(crate) fn expose<S: Serializer>(secret: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => expose_always(secret, serializer),
        None => serializer.serialize_none(),
    }
}

pub(crate) fn expose_always<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

impl ClientRecord {
    pub(crate) fn of(client: &ClientIdentity) -> Self {
        let secret = match &client.auth {
            ClientAuth::Basic(secret) | ClientAuth::Post(secret) => Some(secret.clone()),
            ClientAuth::None | ClientAuth::Key(_) => None,
        };
        Self { id: client.id.clone(), method: client.auth.method().into(), secret }
    }

    /// Returns the client. Its key is not stored but comes from the settings.
    pub(crate) fn client(self, settings: Option<&OAuthClientSettings>) -> Option<ClientIdentity> {
        let auth = ClientAuth::of_method(&self.method, self.secret.as_ref());
        let auth = auth.or_else(|| settings?.auth_of(&self.id));
        Some(ClientIdentity::new(self.id, auth?))
    }
}

fn write<T: Serialize>(record: &T) -> Option<SecretString> {
    serde_json::to_string(record).ok().map(SecretString::from)
}

pub(crate) fn write_registration(registration: &ClientRegistration) -> Option<SecretString> {
    write(&RegistrationRecord {
        issuer: registration.issuer.clone(),
        client: ClientRecord::of(&registration.client),
        redirect_uri: registration.redirect_uri.clone(),
        expires_at: registration.expires_at,
    })
}

pub(crate) fn read_registration(document: &SecretString) -> Option<ClientRegistration> {
    let record: RegistrationRecord = serde_json::from_str(document.expose_secret()).ok()?;
    Some(ClientRegistration {
        issuer: record.issuer,
        client: record.client.client(None)?,
        redirect_uri: record.redirect_uri,
        expires_at: record.expires_at,
    })
}

pub(crate) fn write_tokens(tokens: &TokenSet, endpoint: &Url, account: &str) -> Option<SecretString> {
    let proof_key = tokens.proof_key.as_ref().map(|key| STANDARD.encode(key.document()).into());
    write(&TokenSetRecord {
        endpoint: Some(hospes_auth::without_query(endpoint)),
        has_query: endpoint.query().is_some(),
        account: account.to_owned(),
        issuer: tokens.issuer.clone(),
        resource: tokens.resource.clone(),
        client: ClientRecord::of(&tokens.client),
        token_endpoint: tokens.token_endpoint.as_str().to_owned(),
        access: tokens.access.clone(),
        refresh: tokens.refresh.clone(),
        granted: tokens.granted.clone(),
        requested: tokens.requested.clone(),
        issued_at: tokens.issued_at,
        expires_at: tokens.expires_at,
        proof_key,
        mark: tokens.mark.clone(),
    })
}

/// Displayable facts about stored tokens, without the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredTokens {
    /// The endpoint that they are for, without its query.
    pub endpoint: String,
    /// True if the endpoint has a query. The query is not shown, because it may be secret.
    pub has_query: bool,
    /// Account that they belong to; empty for the user who runs the program.
    pub account: String,
    /// Issuer.
    pub issuer: Issuer,
    /// Client that the tokens were issued to.
    pub client_id: ClientId,
    /// Granted scopes.
    pub granted: Scopes,
    /// Expiry, in seconds since 1970. `None` if the server gave none.
    pub expires_at: Option<u64>,
    /// True if they can be renewed.
    pub renews: bool,
    name: String,
}

/// Returns an endpoint in the form of [`StoredTokens::endpoint`]; `None` if it is not a URL.
#[must_use]
pub fn shown_endpoint(endpoint: &str) -> Option<String> {
    Url::parse(endpoint).ok().map(|url| hospes_auth::without_query(&url))
}

impl StoredTokens {
    /// Lists all tokens of a store, for all endpoints and accounts. Unreadable records are skipped.
    ///
    /// # Errors
    /// When the store fails.
    pub fn all(store: &dyn CredentialStore) -> Result<Vec<Self>, StepError> {
        let mut all = Vec::new();
        for name in store.names("tokens ")? {
            let Some(document) = store.read(&name)? else { continue };
            let Ok(record) = serde_json::from_str::<TokenSetRecord>(document.expose_secret()) else {
                continue;
            };
            let place = name.strip_prefix("tokens ").unwrap_or_default();
            let (shown, hash) =
                place.split_once('#').map_or((place, None), |(shown, hash)| (shown, Some(hash)));
            all.push(Self {
                endpoint: record.endpoint.unwrap_or_else(|| shown.to_owned()),
                // Without a query an endpoint of whoever runs the program is its own name.
                has_query: record.has_query || (record.account.is_empty() && hash.is_some()),
                account: record.account,
                issuer: record.issuer,
                client_id: record.client.id,
                granted: record.granted,
                expires_at: record.expires_at,
                renews: record.refresh.is_some(),
                name,
            });
        }
        Ok(all)
    }

    /// Returns true if they are for this endpoint, including its query.
    #[must_use]
    pub fn is_for(&self, endpoint: &str) -> bool {
        Url::parse(endpoint).is_ok_and(|url| tokens_key(&url, &self.account) == self.name)
    }

    /// Deletes the tokens. A program that uses them notices at its next check; a renewal in progress is waited for.
    ///
    /// # Errors
    /// If they could not be deleted.
    pub fn forget(&self, store: &dyn CredentialStore) -> Result<(), StepError> {
        let _lock = store.lock(&self.name)?;
        store.remove(&self.name)
    }
}

/// Reads stored tokens, if they are for this endpoint and usable with the current settings.
pub(crate) fn read_tokens(
    document: &SecretString,
    endpoint: &Url,
    settings: &OAuthClientSettings,
) -> Option<TokenSet> {
    let record: TokenSetRecord = serde_json::from_str(document.expose_secret()).ok()?;
    // The name only says where the record was found. A token is shown to no other resource than its own.
    if !record.resource.url().is_some_and(|resource| covers(&resource, endpoint, false)) {
        return None;
    }
    let proof_key = match &record.proof_key {
        Some(text) => {
            let document = Zeroizing::new(STANDARD.decode(text.expose_secret()).ok()?);
            Some(Arc::new(ProofKey::from_document(&document).ok()?))
        }
        None => None,
    };
    Some(TokenSet {
        issuer: record.issuer,
        resource: record.resource,
        client: record.client.client(Some(settings))?,
        token_endpoint: Url::parse(&record.token_endpoint).ok()?,
        access: record.access,
        refresh: record.refresh,
        // A key is only stored with tokens that are bound to it.
        kind: if proof_key.is_some() { AccessTokenType::Dpop } else { AccessTokenType::Bearer },
        granted: record.granted,
        requested: record.requested,
        issued_at: record.issued_at,
        expires_at: record.expires_at,
        proof_key,
        mark: record.mark,
    })
}
