//! Approvals: each good for exactly one call, once, for a while.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hospes_policy::{Asked, Policy};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{Going, What};

/// How many calls may wait for a decision.
const MAX_OPEN: usize = 1024;

/// How many of them may be of one application.
const MAX_OF_ONE: usize = 64;

/// How many approved calls may wait for the answer to a question of their server's.
const MAX_RUNNING: usize = 4096;

/// How long they may: longer than any call of an older server is kept waiting.
const RUNNING: Duration = Duration::from_secs(24 * 3600);

/// How many approvals may last as long as the host runs.
const MAX_GRANTED: usize = 4096;

/// A digest over everything that an approval is bound to: who calls, for which application, which server and tool as
/// they are defined, the final arguments, and the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bond {
    call: [u8; 32],
    /// The same without the arguments: what an approval for longer covers.
    tool: [u8; 32],
    /// Who calls, with what.
    asker: [u8; 32],
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
    running: HashMap<String, (Bond, Instant)>,
    granted: HashSet<[u8; 32]>,
}

impl Approvals {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a decision. The id cannot be guessed.
    pub(super) fn open(&self, bond: Bond) -> Result<String, Refused> {
        let (id, now) = (id()?, Instant::now());
        let mut state = self.state();
        let open = &mut state.open;
        open.retain(|_, (_, until)| *until > now);
        let of_one = open.values().filter(|(other, _)| other.asker == bond.asker).count();
        if open.len() >= MAX_OPEN || of_one >= MAX_OF_ONE {
            return Err(Refused::TooMany);
        }
        open.insert(id.clone(), (bond, now.checked_add(self.timeout).unwrap_or(now + RUNNING)));
        Ok(id)
    }

    /// Uses up what the person decided about.
    pub(super) fn redeem(&self, id: &str, bond: &Bond) -> Result<(), Refused> {
        let given = self.state().open.remove(id);
        given.map_or(Err(Refused::Expired), |given| is_for(given, bond))
    }

    /// The call was approved, and its server asks something: the next round is approved, too.
    pub(super) fn go_on(&self, bond: Bond) -> Result<String, Refused> {
        let (id, now) = (id()?, Instant::now());
        let mut state = self.state();
        let running = &mut state.running;
        if running.len() >= MAX_RUNNING {
            running.retain(|_, (_, until)| *until > now);
        }
        if running.len() >= MAX_RUNNING {
            return Err(Refused::TooMany);
        }
        running.insert(id.clone(), (bond, now + RUNNING));
        Ok(id)
    }

    /// Uses up the word that this round is approved.
    pub(super) fn resume(&self, id: &str, bond: &Bond) -> Result<(), Refused> {
        let given = self.state().running.remove(id);
        given.map_or(Err(Refused::Expired), |given| is_for(given, bond))
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

fn is_for((given, until): (Bond, Instant), bond: &Bond) -> Result<(), Refused> {
    match given.call == bond.call {
        _ if until <= Instant::now() => Err(Refused::Expired),
        true => Ok(()),
        false => Err(Refused::Changed),
    }
}

/// What cannot be guessed.
fn id() -> Result<String, Refused> {
    let mut random = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| Refused::TooMany)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Refused {
    /// As the end of a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Expired => {
                "there is no approval for it any more: it was used, or nobody decided in time (setting approval_timeout)"
            }
            Self::Changed => "what was approved is not what would be called",
            Self::TooMany => "too many calls are waiting for a decision (1024 in all, 64 of one application)",
        }
    }
}

impl Bond {
    /// `arguments` as they would be sent: what two readers could take for two numbers is not one call.
    pub(super) fn new(policy: &Policy, asked: &Asked<'_>, going: &Going<'_>, arguments: &str) -> Self {
        let mut bound = Sha256::new();
        bind(&mut bound, &[u8::from(asked.principal.is_some())]);
        bind(&mut bound, asked.principal.unwrap_or_default().as_bytes());
        bind(&mut bound, &[u8::from(asked.application.is_some())]);
        bind(&mut bound, asked.application.unwrap_or_default().as_bytes());
        let asker = bound.clone().finalize().into();
        bind(&mut bound, policy.version());
        bind(&mut bound, going.server.as_bytes());
        bind(&mut bound, going.kind().as_str().as_bytes());
        bind(&mut bound, going.subject().as_bytes());
        if let What::Tool(_, Some(tool)) = going.what {
            // The definition as the server gives it: an approval is for what the person was told that the tool does.
            bind(&mut bound, &serde_json::to_vec(tool).unwrap_or_default());
        }
        let tool = bound.clone().finalize().into();
        bind(&mut bound, arguments.as_bytes());
        Self { call: bound.finalize().into(), tool, asker }
    }
}

/// Each part with its length, so that nothing can be moved from one to the next.
fn bind(bound: &mut Sha256, part: &[u8]) {
    bound.update((part.len() as u64).to_be_bytes());
    bound.update(part);
}

#[cfg(test)]
mod tests {
    use hospes_policy::{Action, Arguments, Effects};

    use super::*;

    fn bond(server: &str, tool: &str, json: &str, principal: Option<&str>, policy: &str) -> Bond {
        let arguments = Arguments::read(json).unwrap();
        let policy = Policy::read(policy, &hospes_policy::Reading::default()).unwrap();
        let asked =
            Asked::new(server, Action::tool(tool, Effects::unknown(), &arguments)).with_principal(principal);
        Bond::new(&policy, &asked, &Going { server, what: What::Tool(tool, None) }, json)
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
            // Two numbers to some, and one to others.
            bond("files", "write", r#"{"a":1.0,"b":[2]}"#, Some("alice"), ""),
            bond("files", "write", r#"{"a":1,"b":[2]}"#, Some("alice"), "# other rules"),
        ] {
            let id = approvals.open(given()).unwrap();
            assert_eq!(approvals.redeem(&id, &other), Err(Refused::Changed));
            assert_eq!(approvals.redeem(&id, &given()), Err(Refused::Expired), "the try used it up");
        }
        let id = approvals.open(given()).unwrap();
        assert_eq!(approvals.redeem(&id, &given()), Ok(()));
        assert_eq!(approvals.redeem(&id, &given()), Err(Refused::Expired), "used");
        assert_eq!(approvals.redeem("forged", &given()), Err(Refused::Expired));
        let id = approvals.go_on(given()).unwrap();
        assert_eq!(approvals.redeem(&id, &given()), Err(Refused::Expired), "no decision");
        assert_eq!(approvals.resume(&id, &given()), Ok(()));
        assert_eq!(approvals.resume(&id, &given()), Err(Refused::Expired), "used");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_a_no_and_makes_room() {
        let approvals = approvals();
        let of = |who: usize| bond("s", "t", "{}", Some(&who.to_string()), "");
        let open = |who: usize| (0..MAX_OF_ONE).map(|_| approvals.open(of(who)).unwrap()).collect::<Vec<_>>();
        let ids = open(0);
        assert_eq!(approvals.open(of(0)), Err(Refused::TooMany), "one application leaves room for others");
        (1..MAX_OPEN / MAX_OF_ONE).for_each(|who| drop(open(who)));
        assert_eq!(approvals.open(of(99)), Err(Refused::TooMany));
        tokio::time::advance(Duration::from_secs(121)).await;
        assert_eq!(approvals.redeem(&ids[0], &of(0)), Err(Refused::Expired));
        assert!(approvals.open(of(0)).is_ok());
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
