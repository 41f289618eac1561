//! Tokens in memory and in the store.

use std::error::Error as _;
use std::sync::Arc;

use hospes_auth::Issuer;
use secrecy::{ExposeSecret as _, SecretString};

use super::{OAuthClient, seed};
use crate::error::{FlowError, StepError};
use crate::settings::ClientRegistration;
use crate::store::{self, CredentialStore, read_registration};
use crate::tokens::TokenSet;

impl OAuthClient {
    /// Loads the stored tokens, once.
    pub(super) async fn load(&self) -> Result<(), FlowError> {
        let load = || async {
            let kept = self.read_stored_document().await?;
            let tokens = kept.and_then(|document| self.read_tokens(&document));
            let mut held = self.held();
            // What somebody got meanwhile is newer.
            if held.tokens.is_none() {
                held.tokens = tokens.map(Arc::new);
            }
            Ok(())
        };
        self.0.loaded.get_or_try_init(load).await.map(|_| ())
    }

    /// Prevents other processes from renewing the tokens, until the guard is dropped.
    pub(super) async fn lock_tokens(&self) -> Result<Option<Box<dyn Send>>, FlowError> {
        let name = self.tokens_name();
        self.with_store(move |store| store.lock(&name)).await
    }

    fn tokens_name(&self) -> String {
        store::tokens_key(&self.0.endpoint, &self.0.account)
    }

    pub(super) async fn read_stored_document(&self) -> Result<Option<SecretString>, FlowError> {
        let name = self.tokens_name();
        self.with_store(move |store| store.read(&name)).await
    }

    pub(super) fn read_tokens(&self, document: &SecretString) -> Option<TokenSet> {
        store::read_tokens(document, &self.0.endpoint, &self.0.settings)
    }

    /// Runs an operation of the store on a blocking thread.
    pub(super) async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn CredentialStore) -> Result<T, StepError> + Send + 'static,
    ) -> Result<T, FlowError> {
        let store = Arc::clone(&self.0.store);
        // A store may wait for the lock of another process, which must not block a thread of the runtime.
        let done = tokio::task::spawn_blocking(move || work(&*store)).await;
        let done = done.map_err(|error| FlowError::Store(error.to_string()))?;
        done.map_err(|error| {
            if error.is_superseded() {
                return FlowError::Superseded;
            }
            let under = error.source().map(|under| format!(": {under}")).unwrap_or_default();
            FlowError::Store(format!("{error}{under}"))
        })
    }

    /// Stores tokens of a new sign-in, after any renewal in another process has ended. Otherwise that renewal would
    /// overwrite them.
    pub(super) async fn store_new_tokens(&self, mut tokens: TokenSet) -> Result<Arc<TokenSet>, FlowError> {
        tokens.mark = seed()?.draw_text();
        let document = self.hold_new_tokens(&tokens, true);
        let mut written = self.lock_and_write(document.clone()).await;
        if matches!(written, Err(FlowError::Superseded)) {
            // They replace whatever another process has stored meanwhile.
            written = self.lock_and_write(document).await;
        }
        self.note_written(written.as_ref());
        Ok(Arc::new(tokens))
    }

    async fn lock_and_write(&self, document: Option<SecretString>) -> Result<(), FlowError> {
        let lock = self.lock_tokens().await?;
        let written = self.write_tokens(document).await;
        // Only now, so that the next process that gets the lock reads the new tokens.
        drop(lock);
        written
    }

    /// Stores the tokens that a renewal of `before` has brought, under this lock of the stored ones, and returns what counts
    /// then. If the lock has ended meanwhile, tokens that another process has stored count, and `None` if it has signed out.
    pub(super) async fn store_refreshed_tokens(
        &self,
        tokens: TokenSet,
        before: &TokenSet,
        lock: Option<Box<dyn Send>>,
    ) -> Result<Option<Arc<TokenSet>>, FlowError> {
        let document = self.hold_new_tokens(&tokens, false);
        let mut written = self.write_tokens(document.clone()).await;
        drop(lock);
        if matches!(written, Err(FlowError::Superseded)) {
            // Until the other process has stored what it gets.
            let _lock = self.lock_tokens().await?;
            let kept = self.read_stored_document().await?;
            let kept = kept.and_then(|document| self.read_tokens(&document));
            if kept.as_ref().is_none_or(|kept| !is_same_token(kept, before)) {
                tracing::warn!(resource = %tokens.resource, "renewed tokens dropped; another process has replaced them");
                let kept = kept.map(Arc::new);
                self.clear_held();
                self.held().tokens.clone_from(&kept);
                return Ok(kept);
            }
            // It has got nothing.
            written = self.write_tokens(document).await;
        }
        self.note_written(written.as_ref());
        Ok(Some(Arc::new(tokens)))
    }

    /// Holds new tokens in the place of the old, and returns the document to be stored.
    fn hold_new_tokens(&self, tokens: &TokenSet, is_new: bool) -> Option<SecretString> {
        // In memory first: the old refresh token is spent, and a failing store must not lose the new one.
        {
            let mut held = self.held();
            held.tokens = Some(Arc::new(tokens.clone()));
            held.is_new = is_new;
        }
        tracing::info!(
            resource = %tokens.resource,
            issuer = %tokens.issuer,
            token = hospes_auth::fingerprint(tokens.access.expose_secret()),
            "access token replaced"
        );
        store::write_tokens(tokens, &self.0.endpoint, &self.0.account)
    }

    async fn write_tokens(&self, document: Option<SecretString>) -> Result<(), FlowError> {
        let document = document.ok_or_else(|| FlowError::Store("cannot serialize the credentials".into()))?;
        let name = self.tokens_name();
        self.with_store(move |store| store.write(&name, &document)).await
    }

    fn note_written(&self, written: Result<&(), &FlowError>) {
        // They are good as long as the program runs; but not to say so would be to ask again next time for no visible
        // reason.
        if let Err(error) = written {
            tracing::warn!(%error, "cannot store tokens; they are lost when the program exits");
        }
        self.held().is_unsaved = written.is_err();
    }

    /// Removes the tokens, once no other process is renewing them, which would store new ones. Returns the tokens
    /// stored last, else those in memory; both, newer first, if the ones in memory could never be stored.
    pub(super) async fn take_for_sign_out(&self) -> (Vec<Arc<TokenSet>>, Result<(), FlowError>) {
        let name = self.tokens_name();
        // Nobody renews what is not there.
        let lock = self.with_store(move |store| match store.read(&name)? {
            Some(_) => store.lock(&name),
            None => Ok(None),
        });
        let lock = lock.await;
        // A store that cannot be read does not stop the sign-out: it goes on with what is held.
        let kept = self.read_stored_document().await.ok().flatten();
        let kept = kept.and_then(|document| self.read_tokens(&document)).map(Arc::new);
        let (held, is_unsaved) = {
            let held = self.held();
            (held.tokens.clone(), held.is_unsaved)
        };
        let last = match (kept, held) {
            (Some(kept), Some(held)) if is_unsaved && !is_same_token(&kept, &held) => {
                // What stands in the store may be good all the same: nobody has renewed it, or nobody could say so.
                if kept.issued_at > held.issued_at { vec![kept, held] } else { vec![held, kept] }
            }
            (kept, held) => kept.or(held).into_iter().collect(),
        };
        let forgotten = match lock {
            Ok(_lock) => self.forget().await,
            Err(error) => {
                self.clear_held();
                Err(error)
            }
        };
        (last, forgotten)
    }

    /// Deletes tokens of a former authorization server, once no other process is renewing them. Tokens of the new
    /// server that another process has obtained stay and are used here too; then returns true.
    pub(super) async fn forget_all_but(&self, issuer: &Issuer) -> Result<bool, FlowError> {
        let _lock = self.lock_tokens().await?;
        let kept = self.read_stored_document().await?.and_then(|document| self.read_tokens(&document));
        match kept.filter(|kept| kept.issuer == *issuer) {
            Some(kept) => {
                self.clear_held();
                self.held().tokens = Some(Arc::new(kept));
                Ok(true)
            }
            None => self.forget().await.map(|()| false),
        }
    }

    /// Forgets the tokens. The caller holds the lock.
    pub(super) async fn forget(&self) -> Result<(), FlowError> {
        let name = self.tokens_name();
        // In memory first: if the store fails, the tokens are at least no longer shown.
        self.clear_held();
        self.with_store(move |store| store.remove(&name)).await
    }

    fn clear_held(&self) {
        let mut held = self.held();
        held.tokens = None;
        held.is_new = false;
        held.is_unsaved = false;
    }

    pub(super) async fn keep_registration(&self, registration: &ClientRegistration) -> Result<(), FlowError> {
        let failed = || FlowError::Store("cannot serialize the credentials".into());
        let (name, document) = if registration.redirect_uri.is_some() {
            (store::registration_key(registration.issuer.as_str()), store::write_registration(registration))
        } else {
            let binding = store::ClientBindingRecord { issuer: registration.issuer.clone() };
            let name = store::binding_key(&self.0.endpoint, &registration.client.id);
            (name, serde_json::to_string(&binding).ok().map(Into::into))
        };
        let document = document.ok_or_else(failed)?;
        self.with_store(move |store| {
            // Somebody may be about to forget the one before it.
            let _lock = store.lock(&name)?;
            store.write(&name, &document)
        })
        .await
    }

    /// Deletes a registration that its server no longer knows. Returns false if the client was not registered
    /// dynamically.
    pub(super) async fn lock_and_forget_registration(&self, tokens: &TokenSet) -> Result<bool, FlowError> {
        let name = store::registration_key(tokens.issuer.as_str());
        let id = tokens.client.id.clone();
        self.with_store(move |store| {
            // So that no other process writes one between the check and the removal.
            let _lock = store.lock(&name)?;
            let known = store.read(&name)?.and_then(|document| read_registration(&document));
            if known.is_none_or(|known| known.client.id != id) {
                return Ok(false);
            }
            store.remove(&name)?;
            Ok(true)
        })
        .await
    }
}

/// Returns true if both are the same tokens.
pub(super) fn is_same_token(one: &TokenSet, other: &TokenSet) -> bool {
    one.access.expose_secret() == other.access.expose_secret()
}
