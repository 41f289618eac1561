//! What stands between a call and its server: the rules, the person, and the record of what happened.
//!
//! A call is looked at once it is known where it would go. The policy allows, denies or has the person asked; an approval
//! is good for exactly this call, once. However it ends, an entry of the audit record says so.

mod approvals;
mod passage;
mod words;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hospes::{Call, Outcome};
use hospes_model::{
    CallToolResult, ElicitAction, ElicitParams, ElicitResult, InputRequest, RawJson, RpcError, Tool,
};
use hospes_policy::{Action, Arguments, Asked, Because, Decision, Effects, Policy, Verdict};
use hospes_store::{Audit, EntryKind};
use jiff::Timestamp;

use approvals::{Approvals, Bond, Refused};
pub(crate) use passage::Passage;
use words::Answer;

/// How long a person has to decide about a call: the setting `approval_timeout`. Silence is a no.
pub const DEFAULT_APPROVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// How a round of questions remembers that the call it belongs to was approved.
const APPROVED: &str = "hospes.approved";

/// What the keys of our questions begin with.
const QUESTION: &str = "hospes.approve.";

/// Decides about every call, and records it.
#[derive(Debug)]
pub struct Guard {
    policy: RwLock<Arc<Policy>>,
    audit: Option<Audit>,
    keeps_arguments: bool,
    approvals: Approvals,
}

/// Something that would go to a server.
#[derive(Debug)]
pub(crate) struct Going<'a> {
    /// The name of the server.
    pub(crate) server: &'a str,
    pub(crate) what: What<'a>,
}

/// What it is, by what its server calls it.
#[derive(Debug)]
pub(crate) enum What<'a> {
    /// A tool, and how it is listed.
    Tool(&'a str, Option<&'a Tool>),
    Prompt(&'a str),
    Resource(&'a str),
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// It may go, once.
    Pass(Box<Passage>),
    /// It does not, or not yet.
    Stopped(Outcome),
}

impl Guard {
    /// With these rules; nothing is recorded.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: RwLock::new(Arc::new(policy)),
            audit: None,
            keeps_arguments: false,
            approvals: Approvals::new(DEFAULT_APPROVAL_TIMEOUT),
        }
    }

    /// Records what happens.
    #[must_use]
    pub fn with_audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Whether arguments are recorded, too: sealed, and never otherwise. They are not unless told.
    #[must_use]
    pub fn keeping_arguments(mut self, keeps: bool) -> Self {
        self.keeps_arguments = keeps;
        self
    }

    /// How long a person has to decide; by default [`DEFAULT_APPROVAL_TIMEOUT`].
    #[must_use]
    pub fn with_approval_timeout(mut self, timeout: Duration) -> Self {
        self.approvals = Approvals::new(timeout);
        self
    }

    /// Goes by other rules from now on. What was approved under the old ones is approved no more.
    pub fn replace_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        self.approvals.forget_granted();
    }

    /// The rules.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a call may go where it would.
    pub(crate) async fn admit(self: &Arc<Self>, call: &Call, going: Going<'_>) -> Admitted {
        let mut passage = Passage::new(self, call, &going);
        if let Err(error) = passage.can_be_recorded().await {
            tracing::error!(%error, "calls are not let through while they cannot be recorded");
            return Admitted::Stopped(going.refusal("what happens cannot be recorded at the moment"));
        }
        let policy = self.policy();
        let arguments = match call.params.view().arguments.as_ref() {
            Some(raw) if !raw.is_null() => Arguments::read(raw.as_str()),
            _ => Ok(Arguments::none()),
        };
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(error) => {
                passage.refused(&Policy::unreadable(&error)).await;
                return Admitted::Stopped(going.refusal(&error.to_string()));
            }
        };
        let peer = call.context.peer();
        let asked = Asked::new(going.server, going.action(&arguments))
            .with_application(peer.info.as_ref().map(|info| info.name.as_str()))
            .with_principal(call.context.principal());
        let verdict = policy.decide(&asked, Timestamp::now());
        match verdict.decision {
            Decision::Allow => passage.decided("allow", verdict.because.to_string()),
            Decision::Deny => {
                passage.refused(&verdict).await;
                return Admitted::Stopped(going.refusal(&denial(&verdict)));
            }
            Decision::Ask => {
                let bond = Bond::new(&policy, &asked, &going, &arguments);
                let asking = Asking { verdict: &verdict, going: &going, arguments: &arguments, bond };
                if let Err(stopped) = self.ask(call, &asking, &mut passage).await {
                    return Admitted::Stopped(stopped);
                }
            }
        }
        Admitted::Pass(Box::new(passage))
    }

    /// Comes back without an error once the person has approved exactly this call.
    async fn ask(&self, call: &Call, asking: &Asking<'_, '_>, passage: &mut Passage) -> Result<(), Outcome> {
        let mut round = call.context.round();
        // A later round of a call that was approved: its server asks something.
        if let Some(token) = round.steps.remove(APPROVED) {
            let token: String = token.decode().unwrap_or_default();
            if let Err(refused) = self.approvals.redeem(&token, &asking.bond) {
                return Err(self.stop(asking, passage, refused.decision(), refused.words()).await);
            }
            call.context.begin_round(round);
            passage.decided("allow", "approved in an earlier round");
            passage.approved(asking.bond);
            return Ok(());
        }
        if self.approvals.is_granted(&asking.bond) {
            passage.decided("allow", "approved by the person for as long as the host runs");
            return Ok(());
        }
        let key = round.answers.keys().find(|key| key.starts_with(QUESTION)).cloned();
        let Some((key, answer)) = key.and_then(|key| round.answers.remove_entry(&key)) else {
            return Err(self.put_question(call, asking, passage).await);
        };
        // The answer was for us; the server's own rounds begin with none.
        round.fresh.clear();
        call.context.begin_round(round);
        if let Err(refused) = self.approvals.redeem(&key[QUESTION.len()..], &asking.bond) {
            return Err(self.stop(asking, passage, refused.decision(), refused.words()).await);
        }
        match read(&answer) {
            Answer::Once => passage.decided("allow", "approved by the person, through the application"),
            Answer::Always if asking.verdict.may_remember => {
                self.approvals.grant(asking.bond);
                passage.decided("allow", "approved by the person for as long as the host runs");
            }
            // What was not offered was not meant.
            Answer::Always => passage.decided("allow", "approved by the person, through the application"),
            Answer::No(reason) => {
                let words = reason.map_or_else(
                    || "the person said no".to_owned(),
                    |reason| format!("the person said no: {reason}"),
                );
                return Err(self.stop(asking, passage, "deny", &words).await);
            }
        }
        passage.approved(asking.bond);
        Ok(())
    }

    /// Asks through the application, if it can be asked.
    async fn put_question(&self, call: &Call, asking: &Asking<'_, '_>, passage: &mut Passage) -> Outcome {
        let question = InputRequest::Elicit(Box::new(ElicitParams::Form(words::form(
            asking.going,
            asking.arguments,
            asking.verdict,
        ))));
        let can_be_asked = question.required_capability(&call.context.peer().capabilities).is_ok();
        if asking.verdict.strong || !can_be_asked {
            let why = if asking.verdict.strong {
                "it wants an approval that an application cannot give"
            } else {
                "it wants an approval, and this application cannot ask for one"
            };
            return self.stop(asking, passage, "deny", why).await;
        }
        match self.approvals.open(asking.bond) {
            Ok(id) => {
                call.context.pend(format!("{QUESTION}{id}"), question);
                let questions = call.context.take_questions();
                passage.not_yet();
                questions.map_or_else(
                    || RpcError::internal("the question about the call is gone").into(),
                    Outcome::InputRequired,
                )
            }
            Err(refused) => self.stop(asking, passage, refused.decision(), refused.words()).await,
        }
    }

    /// The call ends here.
    async fn stop(
        &self,
        asking: &Asking<'_, '_>,
        passage: &mut Passage,
        decision: &str,
        why: &str,
    ) -> Outcome {
        passage.decided(decision, why);
        passage.end_refused().await;
        asking.going.refusal(why)
    }
}

/// A call that a person is to decide about.
struct Asking<'a, 'g> {
    verdict: &'a Verdict,
    going: &'a Going<'g>,
    arguments: &'a Arguments,
    bond: Bond,
}

impl<'a> Going<'a> {
    fn action<'b>(&self, arguments: &'b Arguments) -> Action<'b>
    where
        'a: 'b,
    {
        match self.what {
            What::Tool(name, listed) => {
                let annotations = listed.and_then(|tool| tool.annotations.as_deref());
                Action::tool(name, Effects::said(annotations), arguments)
            }
            What::Prompt(name) => Action::Prompt { name },
            What::Resource(uri) => Action::Resource { uri },
        }
    }

    fn kind(&self) -> EntryKind {
        match self.what {
            What::Tool(..) => EntryKind::Call,
            What::Prompt(_) => EntryKind::Prompt,
            What::Resource(_) => EntryKind::Resource,
        }
    }

    fn subject(&self) -> &'a str {
        match self.what {
            What::Tool(subject, _) | What::Prompt(subject) | What::Resource(subject) => subject,
        }
    }

    /// What is said when it does not go. A model reads the result of a tool and does something else; an error of the
    /// protocol it may never see.
    fn refusal(&self, why: &str) -> Outcome {
        let server = self.server;
        match self.what {
            What::Tool(name, _) => {
                let text = format!("`{name}` of the server `{server}` was not called: {why}");
                Outcome::Complete(CallToolResult::error(text).into())
            }
            What::Prompt(name) => RpcError::invalid_request(format!(
                "the prompt `{name}` of the server `{server}` was not fetched: {why}"
            ))
            .into(),
            What::Resource(uri) => {
                RpcError::invalid_request(format!("`{uri}` of the server `{server}` was not read: {why}"))
                    .into()
            }
        }
    }
}

/// What is said of a denial: the reason that stands in the rule, for it is meant to be told.
fn denial(verdict: &Verdict) -> String {
    match &verdict.because {
        Because::Rule { reason: Some(reason), .. } => format!("it is not allowed here: {reason}"),
        _ => "it is not allowed here".to_owned(),
    }
}

/// What the person did. Whatever is not a clear yes is a no.
fn read(answer: &RawJson) -> Answer {
    match answer.decode::<ElicitResult>() {
        Ok(ElicitResult { action: ElicitAction::Accept, content: Some(content), .. }) => {
            words::answer(&content)
        }
        _ => Answer::No(None),
    }
}

impl Refused {
    /// As the record has it.
    fn decision(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Changed | Self::TooMany => "deny",
        }
    }
}
