//! What users have agreed to before.

use serde::{Deserialize, Serialize};

use crate::Scopes;
use crate::server::authorize::Asked;
use crate::server::clients::Origin;
use crate::server::store::{Kind, Record, StoreError};
use crate::server::tokens::encode;
use crate::server::{AuthServer, hash, redirects};

/// What a user has agreed to before.
#[derive(Serialize, Deserialize)]
struct ConsentRecord {
    scopes: Scopes,
    redirects: String,
}

impl AuthServer {
    /// What a consent is remembered under.
    fn consent_key(&self, user: &str, asked: &Asked) -> String {
        hash(&encode(&(user, self.0.sign_in.mark(user), &asked.client.id, &asked.resource)))
    }

    /// Whether the user need not be asked again: nothing is new. A client that has introduced itself is nobody's, and
    /// what goes to the user's own machine reaches whatever program waits there: both are asked about every time (RFC
    /// 8252, section 8.6).
    pub(super) async fn has_consented(&self, user: &str, asked: &Asked) -> Result<bool, StoreError> {
        if asked.client.origin == Origin::Registered || !redirects::is_certain(&asked.redirect_uri) {
            return Ok(false);
        }
        let key = self.consent_key(user, asked);
        let record = self.store().get(Kind::Consent, &key, self.now()).await?;
        let known = record.and_then(|record| serde_json::from_str::<ConsentRecord>(&record.value).ok());
        Ok(known.is_some_and(|known| {
            known.scopes.contains_all(&asked.scopes) && known.redirects == asked.client.redirects_hash()
        }))
    }

    pub(super) async fn remember(&self, user: &str, asked: &Asked) -> Result<(), StoreError> {
        if asked.client.origin != Origin::Registered && redirects::is_certain(&asked.redirect_uri) {
            let value = encode(&ConsentRecord {
                scopes: asked.scopes.clone(),
                redirects: asked.client.redirects_hash(),
            });
            let until = self.now() + self.settings().lifetimes.consent.as_secs();
            let key = self.consent_key(user, asked);
            self.store().put(Record::new(Kind::Consent, key, value, until)).await?;
        }
        Ok(())
    }
}
