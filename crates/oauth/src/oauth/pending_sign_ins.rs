//! Deferred sign-ins that wait for their redirect.

use secrecy::SecretString;
use url::Url;

use crate::error::FlowError;
use crate::flow::{AuthorizationFlow, AuthorizationPrompt, FlowEffect, PENDING_SECONDS};

/// Sign-ins that are waited for, the oldest first.
#[derive(Default)]
pub(super) struct PendingSignIns(Vec<PendingSignIn>);

struct PendingSignIn {
    flow: AuthorizationFlow,
    url: Url,
    state: SecretString,
    begun_at: u64,
}

impl PendingSignIns {
    /// Returns the page of a pending sign-in with the same parameters as `visit` and more than half of its time left. A
    /// user who has that page open need not start again.
    ///
    /// # Errors
    /// If there is no such page and `max` sign-ins are pending.
    pub(super) fn find_same_page(
        &mut self,
        visit: &AuthorizationPrompt,
        max: usize,
        now: u64,
    ) -> Result<Option<Url>, FlowError> {
        self.0.retain(|waiting| now <= waiting.begun_at.saturating_add(PENDING_SECONDS));
        let question = page_identity(&visit.url);
        let known = self.0.iter().find(|waiting| {
            question == self::page_identity(&waiting.url)
                && now <= waiting.begun_at.saturating_add(PENDING_SECONDS / 2)
        });
        match known {
            Some(known) => Ok(Some(known.url.clone())),
            None if self.0.len() >= max => Err(FlowError::TooManySignIns(max)),
            None => Ok(None),
        }
    }

    /// Adds a pending sign-in.
    pub(super) fn add(&mut self, flow: AuthorizationFlow, now: u64) {
        if let FlowEffect::Visit(visit) = flow.poll_effect() {
            let (url, state) = (visit.url.clone(), visit.state.clone().into());
            self.0.push(PendingSignIn { flow, url, state, begun_at: now });
        }
    }

    /// Takes the sign-in with this state.
    pub(super) fn take(&mut self, state: &str) -> Option<AuthorizationFlow> {
        use secrecy::ExposeSecret as _;
        use subtle::ConstantTimeEq as _;
        // In constant time, because whoever finds the state out can complete somebody else's sign-in.
        let same = |known: &SecretString| known.expose_secret().as_bytes().ct_eq(state.as_bytes()).into();
        let found = self.0.iter().position(|waiting| same(&waiting.state))?;
        Some(self.0.remove(found).flow)
    }
}

/// Returns the part of a page URL that identifies the request: without the parameters that are new each time.
fn page_identity(url: &Url) -> (String, Vec<(String, String)>) {
    let asked = url.query_pairs().filter(|(name, _)| name != "state" && name != "code_challenge");
    (hospes_auth::without_query(url), asked.map(|(name, value)| (name.into(), value.into())).collect())
}
