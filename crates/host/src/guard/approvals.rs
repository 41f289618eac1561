//! Approvals: each good for exactly one call, once, for a while.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hospes_policy::{Arguments, Asked, Policy};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{Going, What};

/// How many calls may wait for a decision, or for the next round of what was decided.
const MAX_OPEN: usize = 1024;

/// How many approvals may last as long as the host runs.
const MAX_GRANTED: usize = 4096;

/// A digest over everything that an approval is bound to: who calls, for which application, which server and tool as
/// they are defined, the final arguments, and the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bond {
    call: [u8; 32],
    /// The same without the arguments: what an approval for longer covers.
    tool: [u8; 32],
}

/// Why an approval is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It was used, or its time is over, or it never was.
    Expired,
    /// It was given for something else.
    Changed,
    /// Too many are waiting.
    TooMany,
}

#[derive(Debug)]
pub(super) struct Approvals {
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<String, (Bond, Instant)>,
    granted: HashSet<[u8; 32]>,
}

impl Approvals {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a decision, or for the next round of what was decided. The id cannot be guessed.
    pub(super) fn open(&self, bond: Bond) -> Result<String, Refused> {
        let mut random = [0_u8; 16];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| Refused::TooMany)?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let now = Instant::now();
        let mut state = self.state();
        if state.open.len() >= MAX_OPEN {
            state.open.retain(|_, (_, until)| *until > now);
        }
        if state.open.len() >= MAX_OPEN {
            return Err(Refused::TooMany);
        }
        state.open.insert(id.clone(), (bond, now + self.timeout));
        Ok(id)
    }

    /// Uses it up.
    pub(super) fn redeem(&self, id: &str, bond: &Bond) -> Result<(), Refused> {
        match self.state().open.remove(id) {
            Some((_, until)) if until <= Instant::now() => Err(Refused::Expired),
            Some((given, _)) if given.call != bond.call => Err(Refused::Changed),
            Some(_) => Ok(()),
            None => Err(Refused::Expired),
        }
    }

    /// From now on, whatever the arguments. Nothing when there is no room: then the person is asked again.
    pub(super) fn grant(&self, bond: Bond) {
        let mut state = self.state();
        if state.granted.len() < MAX_GRANTED {
            state.granted.insert(bond.tool);
        }
    }

    /// Nothing is approved for longer any more.
    pub(super) fn forget_granted(&self) {
        self.state().granted.clear();
    }

    pub(super) fn is_granted(&self, bond: &Bond) -> bool {
        self.state().granted.contains(&bond.tool)
    }
}

impl Refused {
    /// As the end of a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Expired => {
                "there is no approval for it any more: it was used, or nobody decided in time (setting approval_timeout)"
            }
            Self::Changed => "what was approved is not what would be called",
            Self::TooMany => "1024 calls are waiting for a decision",
        }
    }
}

impl Bond {
    pub(super) fn new(policy: &Policy, asked: &Asked<'_>, going: &Going<'_>, arguments: &Arguments) -> Self {
        let mut bound = Sha256::new();
        let mut bind = |part: &[u8]| {
            bound.update((part.len() as u64).to_be_bytes());
            bound.update(part);
        };
        bind(policy.version());
        bind(asked.principal.unwrap_or_default().as_bytes());
        bind(asked.application.unwrap_or_default().as_bytes());
        bind(going.server.as_bytes());
        bind(going.kind().as_str().as_bytes());
        bind(going.subject().as_bytes());
        if let What::Tool(_, Some(tool)) = going.what {
            // The definition as the server gives it: an approval is for what the person was told that the tool does.
            bind(&serde_json::to_vec(tool).unwrap_or_default());
        }
        let tool = bound.clone().finalize().into();
        let mut text = String::new();
        canonical(&Value::Object(arguments.as_map().clone()), &mut text);
        bound.update(text.as_bytes());
        Self { call: bound.finalize().into(), tool }
    }
}

/// One text for one value, however its members are ordered.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| key.as_str());
            text.push('{');
            for (key, value) in sorted {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use hospes_policy::Action;
    use hospes_policy::Effects;

    use super::*;

    fn bond(server: &str, tool: &str, json: &str, principal: Option<&str>, policy: &str) -> Bond {
        let arguments = Arguments::read(json).unwrap();
        let policy = Policy::read(policy, &hospes_policy::Reading::default()).unwrap();
        let asked =
            Asked::new(server, Action::tool(tool, Effects::unknown(), &arguments)).with_principal(principal);
        Bond::new(&policy, &asked, &Going { server, what: What::Tool(tool, None) }, &arguments)
    }

    fn approvals() -> Approvals {
        Approvals::new(Duration::from_secs(120))
    }

    /// Everything that an approval is bound to: what differs in one of them is another call.
    #[tokio::test]
    async fn an_approval_is_good_for_exactly_one_call() {
        let given = || bond("files", "write", r#"{"a":1,"b":[2]}"#, Some("alice"), "");
        let approvals = approvals();
        for other in [
            bond("files2", "write", r#"{"a":1,"b":[2]}"#, Some("alice"), ""),
            bond("files", "write2", r#"{"a":1,"b":[2]}"#, Some("alice"), ""),
            bond("files", "write", r#"{"a":1,"b":[3]}"#, Some("alice"), ""),
            bond("files", "write", r#"{"a":1,"b":[2]}"#, Some("bob"), ""),
            bond("files", "write", r#"{"a":1,"b":[2]}"#, None, ""),
            bond("files", "write", r#"{"a":1,"b":[2]}"#, Some("alice"), "# other rules"),
        ] {
            let id = approvals.open(given()).unwrap();
            assert_eq!(approvals.redeem(&id, &other), Err(Refused::Changed));
            assert_eq!(approvals.redeem(&id, &given()), Err(Refused::Expired), "the try used it up");
        }
        let id = approvals.open(given()).unwrap();
        let same = bond("files", "write", r#"{ "b": [2], "a": 1 }"#, Some("alice"), "");
        assert_eq!(approvals.redeem(&id, &same), Ok(()), "written in another order");
        assert_eq!(approvals.redeem(&id, &same), Err(Refused::Expired), "used");
        assert_eq!(approvals.redeem("forged", &same), Err(Refused::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_a_no_and_makes_room() {
        let approvals = approvals();
        let bond = bond("s", "t", "{}", None, "");
        let ids: Vec<String> = (0..MAX_OPEN).map(|_| approvals.open(bond).unwrap()).collect();
        assert_eq!(approvals.open(bond), Err(Refused::TooMany));
        tokio::time::advance(Duration::from_secs(121)).await;
        assert_eq!(approvals.redeem(&ids[0], &bond), Err(Refused::Expired));
        assert!(approvals.open(bond).is_ok());
    }

    #[tokio::test]
    async fn what_is_granted_is_granted_whatever_the_arguments() {
        let approvals = approvals();
        approvals.grant(bond("s", "t", r#"{"a":1}"#, None, ""));
        assert!(approvals.is_granted(&bond("s", "t", r#"{"a":2}"#, None, "")));
        assert!(!approvals.is_granted(&bond("s", "u", r#"{"a":1}"#, None, "")));
        assert!(!approvals.is_granted(&bond("s", "t", r#"{"a":1}"#, Some("bob"), "")));
    }
}
