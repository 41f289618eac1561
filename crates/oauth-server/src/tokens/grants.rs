//! Grants: authorization code, refresh token, and client credentials.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::pkce::verify_challenge;
use hospes_auth::{ErrorCode, Scopes, fingerprint};
use serde_json::Value;

use super::authentication::TokenRequester;
use super::errors::{TokenRequestError, decode, refuse};
use super::records::{CodeRecord, GrantSource, GrantedAccess, TokenRecord};
use crate::auth_server::AuthServer;
use crate::authorize::{resolve_resource, resolve_scopes};
use crate::clients::{ClientAuthMethod, ClientOrigin, REFRESH_TOKEN_GRANT, RegisteredClient};
use crate::form::RequestForm;
use crate::store::secrets::{hash, random_text};
use crate::store::{AuthRecord, RecordKind, RefreshSwapResult, TakeRecordResult, encode};

/// Time after the first use of a code in which further uses count as concurrent, in seconds. They are rejected, but do
/// not end the grant.
const OVERLAP_SECONDS: u64 = 2;

impl AuthServer {
    pub(super) async fn redeem_code(
        &self,
        form: &RequestForm,
        asker: &TokenRequester,
    ) -> Result<Value, TokenRequestError> {
        let client = &asker.client;
        let (Some(code), Some(verifier)) = (form.get("code"), form.get("code_verifier")) else {
            return refuse(ErrorCode::InvalidRequest, "code or code_verifier is missing");
        };
        let bad = "the code is invalid, expired or issued for another request";
        let now = self.now();
        let (code_hash, redeemed) = (hash(code), format!("redeemed {}", hash(code)));
        let record = match self.store().take(RecordKind::Code, &code_hash, now).await? {
            TakeRecordResult::First(record) => record,
            TakeRecordResult::Again(record) => {
                // Without a mark the one who took it has no tokens yet.
                let mark = self.store().get(RecordKind::Claim, &redeemed, now).await?;
                let at = mark.and_then(|mark| mark.value.parse::<u64>().ok());
                // Clients send a request twice when they believe it lost. Of those that overlap one succeeds and keeps its tokens.
                if at.is_none_or(|at| now <= at.saturating_add(OVERLAP_SECONDS)) {
                    return refuse(ErrorCode::InvalidGrant, bad);
                }
                // Two have it, and one of them should not (RFC 6749, section 4.1.2; OAuth 2.1, section 4.1.3).
                tracing::warn!(code = fingerprint(code), client = %client.id, "code reused; revoking the grant");
                self.revoke_grant_of(&record).await?;
                return refuse(ErrorCode::InvalidGrant, bad);
            }
            TakeRecordResult::Unknown => return refuse(ErrorCode::InvalidGrant, bad),
        };
        // Before there are any tokens: a crash in between leaves none that a later use would not end.
        self.store().put(AuthRecord::new(RecordKind::Claim, redeemed, now.to_string(), record.until)).await?;
        let known: CodeRecord = decode(&record)?;
        // A code that another client shows has leaked, so its grant ends.
        if known.client_id != client.id {
            self.revoke_grant_of(&record).await?;
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        if !self.is_source_valid(&known.given) {
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        // OAuth 2.1 no longer sends it. A client of RFC 6749 does, and then it has to be the same (section
        // 4.1.3).
        let same_redirect = form.get("redirect_uri").is_none_or(|uri| uri == known.redirect_uri.as_str());
        if !same_redirect || !verify_challenge(verifier, &known.challenge) {
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        if known.key.is_some() && known.key != asker.key {
            return refuse(ErrorCode::InvalidDpopProof, "the code is bound to another DPoP key");
        }
        self.check_resource(form, &known.given.resource)?;
        let grant = record.grant.unwrap_or_default();
        let refresh = client.may_use_grant(REFRESH_TOKEN_GRANT).then(random_text);
        self.keep_registration(client).await?;
        if let Some(refresh) = &refresh {
            self.put_refresh(refresh, asker, &known.given, &grant).await?;
        }
        self.issue_tokens(asker, &known.given, &known.given.scopes, &grant, refresh).await
    }

    pub(super) async fn refresh(
        &self,
        form: &RequestForm,
        asker: &TokenRequester,
    ) -> Result<Value, TokenRequestError> {
        let client = &asker.client;
        let Some(old) = form.get("refresh_token") else {
            return refuse(ErrorCode::InvalidRequest, "refresh_token is missing");
        };
        let bad = "the refresh token is invalid or expired";
        let (now, key) = (self.now(), hash(old));
        let salt = random_text();
        let next = derive_next_refresh_token(old, &salt);
        let record = match self.store().get(RecordKind::Refresh, &key, now).await? {
            Some(record) => {
                let known: TokenRecord = decode(&record)?;
                if known.client_id != client.id {
                    tracing::warn!(token = fingerprint(old), client = %client.id, "refresh token of another client");
                    self.revoke_grant_of(&record).await?;
                    return refuse(ErrorCode::InvalidGrant, bad);
                }
                let grant = record.grant.clone().unwrap_or_default();
                if !self.is_grant_valid(&known.given, &grant).await? {
                    tracing::info!(
                        token = fingerprint(old),
                        "refresh token rejected: the grant is no longer valid"
                    );
                    self.revoke_grant_of(&record).await?;
                    return refuse(ErrorCode::InvalidGrant, bad);
                }
                // Before anything changes.
                check_key(&known, asker)?;
                self.check_resource(form, &known.given.resource)?;
                narrow_scopes(form, &known.given.scopes)?;
                self.refresh_record(&next, asker, &known.given, &grant)
            }
            // It was swapped, or it is none: nothing will be put in its place.
            None => AuthRecord::new(RecordKind::Claim, "", "", 0),
        };
        let window = self.settings().lifetimes.replay.as_secs();
        let (record, next) = match self.store().swap_refresh(&key, record, &salt, now, window).await? {
            RefreshSwapResult::Done(record) => (record, next),
            // The answer was lost, or two of the client's tasks came at once.
            RefreshSwapResult::Replayed(record, salt) => (record, derive_next_refresh_token(old, &salt)),
            RefreshSwapResult::Reused(record) => {
                tracing::warn!(token = fingerprint(old), client = %client.id, "token reused; revoking the grant");
                self.revoke_grant_of(&record).await?;
                return refuse(ErrorCode::InvalidGrant, bad);
            }
            RefreshSwapResult::Unknown => return refuse(ErrorCode::InvalidGrant, bad),
        };
        let known: TokenRecord = decode(&record)?;
        let grant = record.grant.clone().unwrap_or_default();
        // Asked already, but for an answer that is told again.
        if known.client_id != client.id || !self.is_grant_valid(&known.given, &grant).await? {
            self.revoke_grant_of(&record).await?;
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        check_key(&known, asker)?;
        self.check_resource(form, &known.given.resource)?;
        let scopes = narrow_scopes(form, &known.given.scopes)?;
        self.issue_tokens(asker, &known.given, &scopes, &grant, Some(next)).await
    }

    pub(super) async fn redeem_client_credentials(
        &self,
        form: &RequestForm,
        asker: &TokenRequester,
    ) -> Result<Value, TokenRequestError> {
        let client = &asker.client;
        if client.auth == ClientAuthMethod::None {
            return refuse(
                ErrorCode::UnauthorizedClient,
                "the client_credentials grant requires client authentication",
            );
        }
        let Some(resource) = resolve_resource(form.get("resource"), self.settings()) else {
            return refuse(ErrorCode::InvalidTarget, "the resource is not protected by this server");
        };
        let Some(scopes) = resolve_scopes(form.get("scope"), client, self.settings()) else {
            return refuse(ErrorCode::InvalidScope, "a scope is unknown or not allowed for this client");
        };
        let given = GrantedAccess {
            subject: client.id.to_string(),
            resource,
            scopes,
            end: u64::MAX,
            by: GrantSource::Client,
        };
        self.issue_tokens(asker, &given, &given.scopes, &random_text(), None).await
    }

    fn refresh_record(
        &self,
        token: &str,
        asker: &TokenRequester,
        given: &GrantedAccess,
        grant: &str,
    ) -> AuthRecord {
        let client = &asker.client;
        // A client without a secret shows with its key that it is itself (RFC 9449, section 5).
        let key = asker.key.clone().filter(|_| client.auth == ClientAuthMethod::None);
        let until = (self.now() + self.settings().lifetimes.refresh.as_secs()).min(given.end);
        let value = encode(&TokenRecord { client_id: client.id.clone(), key, given: given.clone() });
        AuthRecord::new(RecordKind::Refresh, hash(token), value, until).of(grant)
    }

    async fn put_refresh(
        &self,
        token: &str,
        asker: &TokenRequester,
        given: &GrantedAccess,
        grant: &str,
    ) -> Result<(), TokenRequestError> {
        if self.store().put(self.refresh_record(token, asker, given, grant)).await? {
            return Ok(());
        }
        refuse(ErrorCode::InvalidGrant, "the grant was revoked")
    }

    /// Extends the lifetime of a registration that is in use.
    async fn keep_registration(&self, client: &RegisteredClient) -> Result<(), TokenRequestError> {
        if client.origin == ClientOrigin::Registered {
            let lifetimes = &self.settings().lifetimes;
            let until = self.now() + lifetimes.grant.as_secs() + lifetimes.registration.as_secs();
            self.store()
                .put(AuthRecord::new(RecordKind::Client, client.id.as_str(), encode(client), until))
                .await?;
        }
        Ok(())
    }
}

/// Checks that the client proves the key that its refresh token is bound to.
fn check_key(known: &TokenRecord, asker: &TokenRequester) -> Result<(), TokenRequestError> {
    match &known.key {
        Some(key) if asker.key.as_ref() != Some(key) => {
            refuse(ErrorCode::InvalidGrant, "the refresh token is bound to another DPoP key")
        }
        _ => Ok(()),
    }
}

/// Returns the scopes of a refresh: all granted ones, or fewer.
fn narrow_scopes(form: &RequestForm, granted: &Scopes) -> Result<Scopes, TokenRequestError> {
    let Some(asked) = form.get("scope").map(Scopes::parse) else { return Ok(granted.clone()) };
    if granted.contains_all(&asked) && !asked.is_empty() {
        return Ok(asked);
    }
    refuse(ErrorCode::InvalidScope, "the requested scope exceeds the granted scope")
}

/// Derives the successor of a refresh token from the token and from a salt that only the store has. It can be derived
/// again if the response was lost, without being stored, and neither part suffices alone.
fn derive_next_refresh_token(old: &str, salt: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, old.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, salt.as_bytes()))
}
