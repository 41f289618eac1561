//! Dynamic client registration (RFC 7591).

use hospes_auth::metadata::{ClientInformation, ClientMetadata, RejectedRedirect};
use hospes_auth::{ClientId, ErrorBody, ErrorCode, RedirectUri, Scopes, shown};
use serde_json::Value;

use super::auth_server::AuthServer;
use super::clients::{
    AUTHORIZATION_CODE_GRANT, ClientAuthMethod, ClientKeys, ClientOrigin, InvalidClientKeys,
    REFRESH_TOKEN_GRANT, RegisteredClient,
};
use super::redirects;
use super::store::secrets::random_text;
use super::store::{AuthRecord, AuthStoreError, RecordKind, encode};

/// Maximum number of redirects that a client may register: the limit `max_redirect_uris`.
const MAX_REDIRECTS: usize = 16;

/// Reason for omitting a private-use redirect, with a remedy.
const UNKNOWN_SCHEME_REASON: &str = "its scheme does not belong to a known application; the administrator of this host can \
                         allow it with `redirect_uris` under [auth]";

/// Reasons a client is not registered.
#[derive(Debug)]
pub(super) enum RegisterClientError {
    /// The metadata is rejected.
    Refused(ErrorBody),
    /// The store does not answer.
    Store(AuthStoreError),
}

fn refuse<T>(code: ErrorCode, why: impl Into<String>) -> Result<T, RegisterClientError> {
    Err(RegisterClientError::Refused(ErrorBody::new(code, why)))
}

impl AuthServer {
    /// Registers a client that introduces itself.
    pub(super) async fn register(&self, body: &[u8]) -> Result<ClientInformation, RegisterClientError> {
        let settings = self.settings();
        let Ok(mut document) = serde_json::from_slice::<Value>(body) else {
            return refuse(ErrorCode::InvalidClientMetadata, "the client metadata is not valid JSON");
        };
        let left_out = self.retain_accepted_redirects(&mut document)?;
        let Ok(mut metadata) = serde_json::from_value::<ClientMetadata>(document) else {
            return refuse(ErrorCode::InvalidClientMetadata, "a member of the client metadata is malformed");
        };
        let (name, method, keys) = self.check_metadata(&mut metadata)?;
        // Random, so that it can neither be guessed nor be taken for the URL of a document.
        let id = random_text();
        let Ok(id) = ClientId::new(id) else {
            return refuse(ErrorCode::ServerError, "cannot create a client id");
        };
        let has_secret =
            matches!(method, ClientAuthMethod::ClientSecretBasic | ClientAuthMethod::ClientSecretPost);
        let secret = has_secret.then(random_text);
        let mut client = RegisteredClient::public(id.clone(), metadata.redirect_uris.clone());
        (client.name, client.uri, client.origin) =
            (name, metadata.client_uri.clone(), ClientOrigin::Registered);
        (client.grants, client.scopes) =
            (metadata.grant_types.clone().unwrap_or_default(), metadata.scope.clone());
        (client.auth, client.keys) = (method, keys);
        if let Some(secret) = &secret {
            client = client.with_secret(secret, method);
        }
        let now = self.now();
        let until = now + settings.lifetimes.registration.as_secs();
        let record = AuthRecord::new(RecordKind::Client, id.as_str(), encode(&client), until);
        self.store().put(record).await.map_err(RegisterClientError::Store)?;
        tracing::info!(client = %id, name = ?client.name, "client registered");
        for one in &left_out {
            tracing::warn!(
                client = %id, name = ?client.name, redirect_uri = one.redirect_uri, reason = one.reason,
                "redirect URI not registered"
            );
        }
        let mut registered = ClientInformation::new(id, metadata);
        registered.redirect_uris_left_out = left_out;
        registered.client_id_issued_at = Some(now);
        // Required with a secret; zero means that it does not expire (RFC 7591, section 3.2.1).
        registered.client_secret_expires_at = secret.is_some().then_some(0);
        registered.client_secret = secret;
        Ok(registered)
    }

    /// Leaves in the metadata only those redirects that a client may have here; the others. A client may run in several
    /// places and name a redirect for each, so one that is not accepted does not spoil the rest (RFC 7591, section 3.2.1).
    fn retain_accepted_redirects(
        &self,
        document: &mut Value,
    ) -> Result<Vec<RejectedRedirect>, RegisterClientError> {
        let Some(list) = document.get_mut("redirect_uris").and_then(Value::as_array_mut) else {
            return refuse(ErrorCode::InvalidRedirectUri, "redirect_uris is missing or not an array");
        };
        if list.is_empty() || list.len() > MAX_REDIRECTS {
            return refuse(
                ErrorCode::InvalidRedirectUri,
                "redirect_uris must contain between 1 and 16 entries (limit max_redirect_uris)",
            );
        }
        let mut left_out = Vec::new();
        let mut accepted = Vec::new();
        for uri in list.drain(..) {
            let Some(text) = uri.as_str() else {
                return refuse(ErrorCode::InvalidRedirectUri, "an entry of redirect_uris is not a string");
            };
            let reason = match RedirectUri::new(text) {
                Ok(uri) if self.settings().accepts_redirect(&uri) => None,
                Ok(uri) if redirects::is_private_use(&uri) => Some(UNKNOWN_SCHEME_REASON.to_owned()),
                Ok(uri) if uri.url().is_some_and(|url| redirects::is_forbidden(&url)) => {
                    // No part of an application has such a redirect: whoever asks for it is up to no good.
                    let why = format!("redirect URI {} has a forbidden scheme", shown(text));
                    return refuse(ErrorCode::InvalidRedirectUri, why);
                }
                Ok(_) => Some("it does not use https or a loopback address".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            match reason {
                None => accepted.push(uri),
                Some(reason) => left_out.push(RejectedRedirect::new(shown(text), reason)),
            }
        }
        if accepted.is_empty() {
            let reasons = left_out.iter().map(|one| format!("{}: {}", one.redirect_uri, one.reason));
            let why = reasons.collect::<Vec<_>>().join("; ");
            return refuse(ErrorCode::InvalidRedirectUri, format!("no redirect URI is accepted: {why}"));
        }
        *list = accepted;
        Ok(left_out)
    }

    /// Validates the metadata and reduces it to the values that will be registered.
    fn check_metadata(
        &self,
        metadata: &mut ClientMetadata,
    ) -> Result<(Option<String>, ClientAuthMethod, Option<ClientKeys>), RegisterClientError> {
        let settings = self.settings();
        // The default of RFC 7591, section 2.
        let asked = metadata.token_endpoint_auth_method.as_deref().unwrap_or("client_secret_basic");
        let Some(method) = ClientAuthMethod::from_name(asked) else {
            let why =
                format!("token_endpoint_auth_method must be one of {}", ClientAuthMethod::NAMES.join(", "));
            return refuse(ErrorCode::InvalidClientMetadata, why);
        };
        let keys = match method {
            ClientAuthMethod::PrivateKeyJwt => Some(self.read_client_keys(metadata)?),
            // What nobody will look at is not kept either.
            _ => {
                (metadata.jwks, metadata.jwks_uri) = (None, None);
                None
            }
        };
        metadata.token_endpoint_auth_method = Some(method.name().to_owned());
        // The default of RFC 7591, section 2.
        let code_only = || vec![AUTHORIZATION_CODE_GRANT.to_owned()];
        let mut grants = metadata.grant_types.take().unwrap_or_else(code_only);
        // What else it wants it does not get, and reads so in the answer.
        grants.retain(|grant| grant == AUTHORIZATION_CODE_GRANT || grant == REFRESH_TOKEN_GRANT);
        if !grants.iter().any(|grant| grant == AUTHORIZATION_CODE_GRANT) {
            return refuse(ErrorCode::InvalidClientMetadata, "grant_types must contain authorization_code");
        }
        metadata.grant_types = Some(grants);
        let types = metadata.response_types.get_or_insert_with(|| vec!["code".to_owned()]);
        types.retain(|kind| kind == "code");
        if types.is_empty() {
            return refuse(ErrorCode::InvalidClientMetadata, "response_types must contain code");
        }
        if let Some(scopes) = &metadata.scope {
            let known: Scopes = scopes.iter().filter(|scope| settings.knows(scope)).collect();
            metadata.scope = (!known.is_empty()).then_some(known);
        }
        // Made safe before it is stored, because the pages that ask users show it.
        metadata.client_name = metadata.client_name.as_deref().map(shown).filter(|name| !name.is_empty());
        Ok((metadata.client_name.clone(), method, keys))
    }

    /// Returns the keys with which a client declares to sign.
    fn read_client_keys(&self, metadata: &ClientMetadata) -> Result<ClientKeys, RegisterClientError> {
        match ClientKeys::from_metadata(metadata.jwks.as_ref(), metadata.jwks_uri.as_deref()) {
            Ok(ClientKeys::At(_)) if self.0.fetch.is_none() => {
                refuse(ErrorCode::InvalidClientMetadata, "jwks_uri is not supported; use jwks")
            }
            Ok(keys) => Ok(keys),
            Err(InvalidClientKeys(why)) => refuse(ErrorCode::InvalidClientMetadata, why),
        }
    }
}
