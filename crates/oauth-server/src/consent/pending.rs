//! Authorization requests that wait for their user.

use serde::{Deserialize, Serialize};

use crate::auth_server::AuthServer;
use crate::authorize::AuthorizationRequest;
use crate::browser::AuthBrowserSession;
use crate::form::RequestForm;
use crate::store::secrets::hash;
use crate::store::{AuthRecord, AuthStoreError, RecordKind, encode};

/// Pending request of a user who is about to sign in or decide, and its browser session.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingRecord {
    pub(super) errand: SignInPurpose,
    browser: String,
}

/// Purpose of a sign-in.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum SignInPurpose {
    /// An application's authorization request.
    Authorization(Box<AuthorizationRequest>),
    /// A page about accounts elsewhere, by the last part of its path: the id of a link, mostly.
    Connection(String),
}

impl AuthServer {
    /// Returns the pending request of a form that this browser has submitted.
    pub(super) async fn pending(
        &self,
        form: &RequestForm,
        browser: &AuthBrowserSession,
    ) -> Result<Option<(String, SignInPurpose)>, AuthStoreError> {
        let (Some(request), Some(csrf)) = (form.get("request"), form.get("csrf")) else { return Ok(None) };
        // Before the store is asked, so that forms of strangers cost no look-up.
        if !browser.verify_csrf(request, csrf) {
            return Ok(None);
        }
        let Some(record) = self.store().get(RecordKind::Pending, &hash(request), self.now()).await? else {
            return Ok(None);
        };
        let pending: Option<PendingRecord> = serde_json::from_str(&record.value).ok();
        let ours = pending.filter(|pending| pending.browser == browser.session_key());
        Ok(ours.map(|pending| (request.to_owned(), pending.errand)))
    }

    pub(super) async fn put_pending(
        &self,
        request: &str,
        errand: &SignInPurpose,
        browser: &AuthBrowserSession,
    ) -> Result<(), AuthStoreError> {
        let value = encode(&PendingRecord { errand: errand.clone(), browser: browser.session_key() });
        let until = self.now() + self.settings().lifetimes.pending.as_secs();
        let key = hash(request);
        self.make_room(&key).await?;
        self.store().put(AuthRecord::new(RecordKind::Pending, key, value, until)).await?;
        Ok(())
    }

    /// Lets the oldest request of all that wait go, if there is no room for one more.
    pub(crate) async fn make_room(&self, key: &str) -> Result<(), AuthStoreError> {
        // The block ends the guard, which must not be held across the await below.
        let gone = {
            let mut pending = self.0.pending.lock();
            pending.insert(key.to_owned(), ())
        };
        if let Some(gone) = gone {
            tracing::warn!(limit = "max_pending_authorizations", "evicted a pending authorization request");
            self.store().forget(RecordKind::Pending, &gone).await?;
        }
        Ok(())
    }
}
