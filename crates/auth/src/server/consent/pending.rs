//! What waits for its user.

use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

use crate::server::authorize::Asked;
use crate::server::browser::Browser;
use crate::server::form::Form;
use crate::server::store::{Kind, Record, StoreError};
use crate::server::tokens::encode;
use crate::server::{AuthServer, hash};

/// What somebody came for, while it is found out who they are or they decide, and the browser it came from.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingRecord {
    pub(super) errand: Errand,
    browser: String,
}

/// What somebody came for.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::server) enum Errand {
    /// An application's authorization request.
    Authorization(Box<Asked>),
    /// A page about accounts elsewhere, by the last part of its path: the id of a link, mostly.
    Connection(String),
}

impl AuthServer {
    /// The request that a form of ours in this browser is about.
    pub(super) async fn pending(
        &self,
        form: &Form,
        browser: &Browser,
    ) -> Result<Option<(String, Errand)>, StoreError> {
        let (Some(request), Some(csrf)) = (form.get("request"), form.get("csrf")) else { return Ok(None) };
        if !browser.checks(request, csrf) {
            return Ok(None);
        }
        let Some(record) = self.store().get(Kind::Pending, &hash(request), self.now()).await? else {
            return Ok(None);
        };
        let pending: Option<PendingRecord> = serde_json::from_str(&record.value).ok();
        let ours = pending.filter(|pending| pending.browser == browser.mark());
        Ok(ours.map(|pending| (request.to_owned(), pending.errand)))
    }

    pub(super) async fn put_pending(
        &self,
        request: &str,
        errand: &Errand,
        browser: &Browser,
    ) -> Result<(), StoreError> {
        let value = encode(&PendingRecord { errand: errand.clone(), browser: browser.mark() });
        let until = self.now() + self.settings().lifetimes.pending.as_secs();
        let key = hash(request);
        self.make_room(&key).await?;
        self.store().put(Record::new(Kind::Pending, key, value, until)).await?;
        Ok(())
    }

    /// Lets the oldest request of all that wait go, if there is no room for one more.
    pub(in crate::server) async fn make_room(&self, key: &str) -> Result<(), StoreError> {
        let gone = {
            let mut pending = self.0.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.put(key.to_owned(), ())
        };
        if let Some(gone) = gone {
            tracing::warn!(
                limit = "max_pending_authorizations",
                "an authorization request had to go for another"
            );
            self.store().forget(Kind::Pending, &gone).await?;
        }
        Ok(())
    }
}
