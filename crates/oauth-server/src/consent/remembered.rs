//! Remembered consents.

use hospes_auth::Scopes;
use serde::{Deserialize, Serialize};

use crate::auth_server::AuthServer;
use crate::authorize::AuthorizationRequest;
use crate::clients::ClientOrigin;
use crate::redirects;
use crate::store::secrets::hash;
use crate::store::{AuthRecord, AuthStoreError, RecordKind, encode};

/// Consent of a user.
#[derive(Serialize, Deserialize)]
struct ConsentRecord {
    scopes: Scopes,
    redirects: String,
}

impl AuthServer {
    /// Returns the key of a consent record.
    fn consent_key(&self, user: &str, asked: &AuthorizationRequest) -> String {
        // The mark changes with the user's password, so that a new password ends all earlier consents.
        hash(&encode(&(user, self.0.sign_in.credential_digest(user), &asked.client.id, &asked.resource)))
    }

    /// Returns true if an earlier consent covers the request. Clients that registered themselves, and redirects to the
    /// user's own machine, are always asked about: neither identifies the recipient (RFC 8252, section 8.6).
    pub(super) async fn has_consented(
        &self,
        user: &str,
        asked: &AuthorizationRequest,
    ) -> Result<bool, AuthStoreError> {
        if asked.client.origin == ClientOrigin::Registered
            || !redirects::has_certain_recipient(&asked.redirect_uri)
        {
            return Ok(false);
        }
        let key = self.consent_key(user, asked);
        let record = self.store().get(RecordKind::Consent, &key, self.now()).await?;
        let known = record.and_then(|record| serde_json::from_str::<ConsentRecord>(&record.value).ok());
        Ok(known.is_some_and(|known| {
            known.scopes.contains_all(&asked.scopes) && known.redirects == asked.client.redirects_hash()
        }))
    }

    pub(super) async fn remember_consent(
        &self,
        user: &str,
        asked: &AuthorizationRequest,
    ) -> Result<(), AuthStoreError> {
        if asked.client.origin != ClientOrigin::Registered
            && redirects::has_certain_recipient(&asked.redirect_uri)
        {
            let value = encode(&ConsentRecord {
                scopes: asked.scopes.clone(),
                redirects: asked.client.redirects_hash(),
            });
            let until = self.now() + self.settings().lifetimes.consent.as_secs();
            let key = self.consent_key(user, asked);
            self.store().put(AuthRecord::new(RecordKind::Consent, key, value, until)).await?;
        }
        Ok(())
    }
}
