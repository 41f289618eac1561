//! Token, revocation and introspection endpoints.

mod assertions;
mod authentication;
mod errors;
mod grants;
mod introspection;
mod own_tokens;
mod records;
mod signing;

use hospes_auth::{ErrorCode, Resource, Scopes, fingerprint};
use hospes_oauth_resource::VerifyTokenError;
use http::request::Parts;
use serde_json::{Value, json};

use super::auth_server::AuthServer;
use super::authorize::resolve_resource;
use super::clients::{
    AUTHORIZATION_CODE_GRANT, CLIENT_CREDENTIALS_GRANT, JWT_BEARER_GRANT, REFRESH_TOKEN_GRANT,
};
use super::form::RequestForm;
use super::settings::AccessTokenFormat;
use super::store::secrets::{hash, random_text};
use super::store::{AuthRecord, AuthStoreError, RecordKind, encode};
use authentication::{TokenRequester, check_repeated};
pub(super) use errors::TokenRequestError;
use errors::refuse;
pub use own_tokens::OwnTokenVerifier;
pub(super) use records::{CodeRecord, GrantSource, GrantedAccess};
use records::{TokenRecord, token_type};
pub(super) use signing::KEYS_CACHE;

impl AuthServer {
    /// Answers the token endpoint.
    pub(super) async fn handle_token_request(
        &self,
        parts: &Parts,
        form: &RequestForm,
    ) -> Result<Value, TokenRequestError> {
        check_repeated(form)?;
        let Some(grant) = form.get("grant_type") else {
            return refuse(ErrorCode::InvalidRequest, "grant_type is missing");
        };
        if !self.grants().contains(&grant) {
            return refuse(ErrorCode::UnsupportedGrantType, "unsupported grant_type");
        }
        let client = self.authenticate(parts, form).await?;
        if !client.may_use_grant(grant) {
            return refuse(ErrorCode::UnauthorizedClient, "the client is not allowed to use this grant");
        }
        // Not before the client is known: the proof is used up by this, even if the request is refused
        // afterwards.
        let asker = TokenRequester { key: self.proven_key(parts).await?, client };
        if asker.key.is_none() && self.settings().require_proofs {
            return refuse(ErrorCode::InvalidDpopProof, "a DPoP proof is required");
        }
        match grant {
            AUTHORIZATION_CODE_GRANT => self.redeem_code(form, &asker).await,
            REFRESH_TOKEN_GRANT => self.refresh(form, &asker).await,
            JWT_BEARER_GRANT => self.redeem_assertion(form, &asker).await,
            _ => self.redeem_client_credentials(form, &asker).await,
        }
    }

    /// Returns the supported grant types.
    pub(super) fn grants(&self) -> Vec<&'static str> {
        let mut grants = vec![AUTHORIZATION_CODE_GRANT, REFRESH_TOKEN_GRANT, CLIENT_CREDENTIALS_GRANT];
        if !self.0.trusted.is_empty() {
            grants.push(JWT_BEARER_GRANT);
        }
        grants
    }

    /// Returns true if the source of the grant is still valid. A user or client that was removed from the configuration
    /// loses its grants, and a new password ends the grants under the old one.
    pub(super) fn is_source_valid(&self, given: &GrantedAccess) -> bool {
        match &given.by {
            GrantSource::User { mark } => {
                self.0.sign_in.credential_digest(&given.subject).as_ref() == Some(mark)
            }
            GrantSource::Client => {
                let mut clients = self.settings().clients.iter();
                clients.any(|client| {
                    client.id.as_str() == given.subject && client.may_use_grant(CLIENT_CREDENTIALS_GRANT)
                })
            }
            GrantSource::Upstream => self.provider().is_some(),
            GrantSource::Assertion { issuer } => self.trusts(issuer),
        }
    }

    /// Returns true if a grant is still valid: its source, and the provider tokens it depends on.
    async fn is_grant_valid(&self, given: &GrantedAccess, grant: &str) -> Result<bool, TokenRequestError> {
        if !self.is_source_valid(given) || given.by != GrantSource::Upstream {
            return Ok(self.is_source_valid(given));
        }
        match self.check_upstream(grant).await {
            Ok(_) => Ok(true),
            Err(VerifyTokenError::Unavailable) => Err(TokenRequestError::Later),
            Err(_) => Ok(false),
        }
    }

    /// Issues an access token.
    pub(super) async fn issue_tokens(
        &self,
        asker: &TokenRequester,
        given: &GrantedAccess,
        scopes: &Scopes,
        grant: &str,
        refresh: Option<String>,
    ) -> Result<Value, TokenRequestError> {
        let TokenRequester { client, key } = asker;
        let now = self.now();
        // No access token outlives its grant, however little is left of that.
        let until = (now + self.settings().access_seconds()).min(given.end);
        let given = GrantedAccess { scopes: scopes.clone(), ..given.clone() };
        let record = TokenRecord { client_id: client.id.clone(), key: key.clone(), given };
        let token = match self.settings().access_tokens {
            AccessTokenFormat::Opaque => random_text(),
            AccessTokenFormat::Jwt => self.sign_access(&record, until).await?,
        };
        // Signed or not, it is looked up here.
        let value = encode(&record);
        let record = AuthRecord::new(RecordKind::Access, hash(&token), value, until).of(grant);
        if !self.store().put(record).await? {
            return refuse(ErrorCode::InvalidGrant, "the grant was revoked");
        }
        tracing::info!(
            token = fingerprint(&token), client = %client.id, %scopes, grant = fingerprint(grant), "access token issued"
        );
        let mut answer = json!({
            "access_token": token, "token_type": token_type(key.as_deref()), "expires_in": until.saturating_sub(now), "scope": scopes,
        });
        if let Some(refresh) = refresh {
            answer["refresh_token"] = refresh.into();
        }
        Ok(answer)
    }

    pub(super) fn check_resource(
        &self,
        form: &RequestForm,
        granted: &Resource,
    ) -> Result<(), TokenRequestError> {
        match form.get("resource") {
            Some(_) if resolve_resource(form.get("resource"), self.settings()).as_ref() != Some(granted) => {
                refuse(ErrorCode::InvalidTarget, "the resource does not match the grant")
            }
            _ => Ok(()),
        }
    }

    /// Ends a grant and all its tokens. Local tokens end at once; the provider's revocation follows in the background
    /// and may take longer.
    async fn revoke_grant_of(&self, record: &AuthRecord) -> Result<(), AuthStoreError> {
        let Some(grant) = record.grant.clone() else { return Ok(()) };
        tracing::info!(grant = fingerprint(&grant), "grant revoked");
        let server = self.clone();
        // In a task of its own: whoever asked may hang up, and it is done all the same.
        let done = tokio::spawn(async move {
            // Nothing of the grant lasts longer: it ends itself, and an access token lives for an hour at
            // most.
            let until = server.now() + server.settings().lifetimes.grant.as_secs() + 3600;
            // What it rested on goes with it. Whoever is renewing that now gives back what they get.
            let rested = server.store().revoke_grant(&grant, until).await?;
            if let Some(token) = rested.and_then(|record| server.revocable_token(&grant, &record)) {
                // Not waited for: a provider may be slow, and here the tokens have ended already.
                tokio::spawn(async move { server.revoke_upstream_token(&token).await });
            }
            Ok(())
        });
        done.await.unwrap_or_else(|_| Err(AuthStoreError("revocation was aborted".into())))
    }
}
