//! Sign-ins that somebody else was asked for, until what came of them is handed in.

use secrecy::SecretString;
use url::Url;

use crate::client::error::FlowError;
use crate::client::flow::{Effect, Flow, PENDING_SECONDS, Visit};

/// Sign-ins that are waited for, the oldest first.
#[derive(Default)]
pub(super) struct Later(Vec<Waiting>);

struct Waiting {
    flow: Flow,
    url: Url,
    state: SecretString,
    begun_at: u64,
}

impl Later {
    /// The page of a sign-in that asks the same as `visit` and has more than half of its time left: whoever is there
    /// already need not begin again.
    ///
    /// # Errors
    /// When it is another question, and `max` are waited for.
    pub(super) fn same(&mut self, visit: &Visit, max: usize, now: u64) -> Result<Option<Url>, FlowError> {
        self.0.retain(|waiting| now <= waiting.begun_at.saturating_add(PENDING_SECONDS));
        let question = question(&visit.url);
        let known = self.0.iter().find(|waiting| {
            question == self::question(&waiting.url)
                && now <= waiting.begun_at.saturating_add(PENDING_SECONDS / 2)
        });
        match known {
            Some(known) => Ok(Some(known.url.clone())),
            None if self.0.len() >= max => Err(FlowError::TooManySignIns(max)),
            None => Ok(None),
        }
    }

    /// Waits for one more.
    pub(super) fn add(&mut self, flow: Flow, now: u64) {
        if let Effect::Visit(visit) = flow.poll_effect() {
            let (url, state) = (visit.url.clone(), visit.state.clone().into());
            self.0.push(Waiting { flow, url, state, begun_at: now });
        }
    }

    /// The one that the URL with this state answers.
    pub(super) fn take(&mut self, state: &str) -> Option<Flow> {
        use secrecy::ExposeSecret as _;
        use subtle::ConstantTimeEq as _;
        let same = |known: &SecretString| known.expose_secret().as_bytes().ct_eq(state.as_bytes()).into();
        let found = self.0.iter().position(|waiting| same(&waiting.state))?;
        Some(self.0.remove(found).flow)
    }
}

/// What a page asks for: its URL without what is made anew each time.
fn question(url: &Url) -> (String, Vec<(String, String)>) {
    let asked = url.query_pairs().filter(|(name, _)| name != "state" && name != "code_challenge");
    (crate::exchange::without_query(url), asked.map(|(name, value)| (name.into(), value.into())).collect())
}
