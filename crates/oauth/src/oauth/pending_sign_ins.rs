//! Deferred sign-ins that wait for their redirect, at this process or another one that has the same store.

use std::error::Error as _;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{OAuthClient, seed};
use crate::error::{FlowError, StepError};
use crate::flow::{AuthorizationFlow, AuthorizationPrompt, PENDING_SECONDS};
use crate::pending::{AddPendingResult, NewPendingDocument, PendingKind, PendingLimits};
use crate::store::{expose_always, tokens_key};

/// Maximum number of pending sign-ins of all accounts.
const MAX_OF_ALL: usize = 65_536;

#[derive(Serialize, Deserialize)]
struct PendingSignIn {
    url: String,
    begun_at: u64,
    #[serde(serialize_with = "expose_always")]
    flow: SecretString,
}

impl OAuthClient {
    /// Returns the page of a pending sign-in with the same parameters as `visit` and more than half of its time left. A
    /// user who has that page open need not start again.
    ///
    /// # Errors
    /// If there is no such page and the maximum number of sign-ins is pending, or the store fails.
    pub(super) async fn find_same_page(&self, visit: &AuthorizationPrompt) -> Result<Option<Url>, FlowError> {
        let (family, now) = (self.family(), self.0.clock.now());
        let pending = self.0.pending.list(PendingKind::SignIn, &family).await.map_err(store_error)?;
        let (question, mut count) = (page_identity(&visit.url), 0);
        let mut known = None;
        for document in pending {
            let sign_in: Option<PendingSignIn> = serde_json::from_str(document.body.expose_secret()).ok();
            // A flow has its time by the clock of this client.
            let Some(sign_in) = sign_in.filter(|one| now <= one.begun_at.saturating_add(PENDING_SECONDS))
            else {
                let taken = self.0.pending.take(PendingKind::SignIn, &document.id, &family).await;
                taken.map_err(store_error)?;
                continue;
            };
            count += 1;
            let is_young = now <= sign_in.begun_at.saturating_add(PENDING_SECONDS / 2);
            let page = Url::parse(&sign_in.url).ok().filter(|_| is_young);
            known = known.or_else(|| page.filter(|page| question == page_identity(page)));
        }
        let max = self.max_pending_sign_ins();
        if known.is_none() && count >= max {
            return Err(FlowError::TooManySignIns(max));
        }
        Ok(known)
    }

    /// Stores a sign-in whose user was asked to visit this page.
    pub(super) async fn defer_sign_in(
        &self,
        flow: &AuthorizationFlow,
        (url, state): (Url, String),
    ) -> Result<(), FlowError> {
        let flow = flow.to_document().ok_or(FlowError::OutOfOrder)?;
        let sign_in = PendingSignIn { url: url.into(), begun_at: self.0.clock.now(), flow };
        let body = serde_json::to_string(&sign_in)
            .map_err(|_| FlowError::Store("cannot serialize the pending sign-in".into()))?;
        let document = NewPendingDocument {
            kind: PendingKind::SignIn,
            id: state,
            family: self.family(),
            body: body.into(),
            lifetime: Duration::from_secs(PENDING_SECONDS),
        };
        let max = self.max_pending_sign_ins();
        let limits = PendingLimits { family: max, all: MAX_OF_ALL, removes_oldest: false };
        match self.0.pending.add(document, limits).await.map_err(store_error)? {
            AddPendingResult::TooManyOfFamily => Err(FlowError::TooManySignIns(max)),
            AddPendingResult::TooMany => Err(FlowError::Store(format!(
                "{MAX_OF_ALL} sign-ins of all accounts are pending, which is the limit; wait 10 minutes"
            ))),
            _ => Ok(()),
        }
    }

    /// Takes the sign-in with this state. One of several callers gets it.
    pub(super) async fn take_sign_in(&self, state: &str) -> Result<Option<AuthorizationFlow>, FlowError> {
        let taken = self.0.pending.take(PendingKind::SignIn, state, &self.family()).await;
        let Some(document) = taken.map_err(store_error)? else { return Ok(None) };
        let Ok(sign_in) = serde_json::from_str::<PendingSignIn>(document.body.expose_secret()) else {
            return Ok(None);
        };
        let (settings, endpoint) = (self.0.settings.clone(), self.0.endpoint.clone());
        let now = self.0.clock.now();
        Ok(AuthorizationFlow::from_document(&sign_in.flow, settings, endpoint, seed()?, now))
    }

    /// Returns the family of the pending sign-ins of this account: another account never continues one.
    fn family(&self) -> String {
        tokens_key(&self.0.endpoint, &self.0.account)
    }

    fn max_pending_sign_ins(&self) -> usize {
        self.0.settings.max_pending_sign_ins.max(1)
    }
}

// By value, for use with `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn store_error(error: StepError) -> FlowError {
    let under = error.source().map(|under| format!(": {under}")).unwrap_or_default();
    FlowError::Store(format!("{error}{under}"))
}

/// Returns the part of a page URL that identifies the request: without the parameters that are new each time.
fn page_identity(url: &Url) -> (String, Vec<(String, String)>) {
    let asked = url.query_pairs().filter(|(name, _)| name != "state" && name != "code_challenge");
    (hospes_auth::without_query(url), asked.map(|(name, value)| (name.into(), value.into())).collect())
}
