//! Token introspection and revocation.

use hospes_auth::{ErrorCode, fingerprint};
use http::request::Parts;
use serde_json::{Value, json};

use super::errors::{TokenRequestError, decode, refuse};
use super::records::{TokenRecord, token_type};
use crate::auth_server::AuthServer;
use crate::clients::{ClientAuthMethod, ClientOrigin};
use crate::form::RequestForm;
use crate::store::RecordKind;
use crate::store::secrets::hash;

/// Record of an access token, its expiry, and its grant.
type FoundAccessToken = (TokenRecord, u64, String);

impl AuthServer {
    /// Answers the revocation endpoint (RFC 7009): ends the grant of a token. The response does not reveal whether
    /// there was one.
    pub(crate) async fn revoke(&self, parts: &Parts, form: &RequestForm) -> Result<(), TokenRequestError> {
        let client = self.authenticate(parts, form).await?;
        let Some(token) = form.get("token") else {
            return refuse(ErrorCode::InvalidRequest, "token is missing");
        };
        let key = hash(token);
        // The hint is not read, as RFC 7009, section 2.1, permits: both kinds are looked for anyway.
        for kind in [RecordKind::Refresh, RecordKind::Access] {
            let Some(record) = self.store().get(kind, &key, self.now()).await? else { continue };
            let known: TokenRecord = decode(&record)?;
            if known.client_id == client.id {
                self.revoke_grant_of(&record).await?;
            }
        }
        Ok(())
    }

    /// Answers the introspection endpoint (RFC 7662), to clients that can keep a secret: about their own tokens, and about
    /// those for the resources that they serve.
    pub(crate) async fn introspect(
        &self,
        parts: &Parts,
        form: &RequestForm,
    ) -> Result<Value, TokenRequestError> {
        let client = self.authenticate(parts, form).await?;
        if client.auth == ClientAuthMethod::None || client.origin != ClientOrigin::Configured {
            return refuse(
                ErrorCode::InvalidClient,
                "introspection requires a configured client with credentials",
            );
        }
        let Some(token) = form.get("token") else {
            return refuse(ErrorCode::InvalidRequest, "token is missing");
        };
        let Some(record) = self.store().get(RecordKind::Access, &hash(token), self.now()).await? else {
            return Ok(json!({ "active": false }));
        };
        let TokenRecord { client_id, given, key } = decode(&record)?;
        // RFC 7662, section 2.2: what does not concern who asks is not active.
        let concerned = client_id == client.id || client.serves.contains(&given.resource);
        if !concerned || !self.is_grant_valid(&given, record.grant.as_deref().unwrap_or_default()).await? {
            tracing::debug!(token = fingerprint(token), client = %client.id, concerned, "token is not active");
            return Ok(json!({ "active": false }));
        }
        let mut said = json!({
            "active": true, "iss": self.settings().issuer, "sub": given.subject, "aud": given.resource,
            "client_id": client_id, "scope": given.scopes, "exp": record.until, "token_type": token_type(key.as_deref()),
        });
        if let Some(key) = key {
            said["cnf"] = json!({ "jkt": key });
        }
        Ok(said)
    }

    /// Returns the record of an access token, its expiry and its grant.
    pub(crate) async fn find_access_token(
        &self,
        token: &str,
        now: u64,
    ) -> Result<Option<FoundAccessToken>, TokenRequestError> {
        match self.store().get(RecordKind::Access, &hash(token), now).await? {
            Some(record) => Ok(Some((decode(&record)?, record.until, record.grant.unwrap_or_default()))),
            None => Ok(None),
        }
    }
}
