//! What stands between a call and its server: the rules, the person, and the record of what happened.
//!
//! A call is looked at once it is known where it would go. The policy allows, denies or has the person asked; an approval
//! is good for exactly this call, once. However it ends, an entry of the audit record says so.

mod approvals;
mod passage;
mod words;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hospes::{Call, Outcome, Questions};
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

/// By whom a call is allowed that is not asked about again.
const AS_LONG_AS: &str = "approved by the person for as long as the host runs";

/// Decides about every call, and records it.
#[derive(Debug)]
pub struct Guard {
    /// None where everything may be called.
    policy: RwLock<Option<Arc<Policy>>>,
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
    /// With these rules; without any, everything may be called. Nothing is recorded.
    #[must_use]
    pub fn new(policy: impl Into<Option<Policy>>) -> Self {
        Self {
            policy: RwLock::new(policy.into().map(Arc::new)),
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
    pub fn replace_policy(&self, policy: impl Into<Option<Policy>>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy.into().map(Arc::new);
        self.approvals.forget_granted();
    }

    /// The rules; none where everything may be called.
    #[must_use]
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a call may go where it would.
    pub(crate) async fn admit(self: &Arc<Self>, call: &Call, going: Going<'_>) -> Admitted {
        let mut passage = Passage::new(self, call, &going);
        if let Err(error) = passage.can_be_recorded().await {
            tracing::error!(%error, "calls are not let through while they cannot be recorded");
            passage.unrecorded();
            return Admitted::Stopped(going.refusal("what happens cannot be recorded at the moment"));
        }
        // An answer to a question of ours is nobody else's, whatever the rules say by now.
        let answer = take_answer(call);
        let Some(policy) = self.policy() else {
            passage.decided("allow", "there are no rules");
            return Admitted::Pass(Box::new(passage));
        };
        let text = match call.params.view().arguments.as_ref() {
            Some(raw) if !raw.is_null() => raw.as_str(),
            _ => "{}",
        };
        let arguments = match Arguments::read(text) {
            Ok(arguments) => arguments,
            Err(error) => {
                passage.decided("deny", "the arguments have more than one reading");
                passage.end_refused().await;
                return Admitted::Stopped(going.refusal(&error.to_string()));
            }
        };
        let peer = call.context.peer();
        let asked = Asked::new(going.server, going.action(&arguments))
            .with_application(peer.info.as_ref().map(|info| info.name.as_str()))
            .with_principal(call.context.principal());
        let verdict = policy.decide(&asked, Timestamp::now());
        if verdict.review && verdict.decision != Decision::Deny {
            // Better nothing than what looks reviewed and is not.
            let why = "its result is to be reviewed before it is delivered, which cannot be done here yet";
            passage.decided("deny", why);
            passage.end_refused().await;
            return Admitted::Stopped(going.refusal(why));
        }
        match verdict.decision {
            Decision::Allow => passage.decided("allow", verdict.because.to_string()),
            Decision::Deny => {
                passage.decided("deny", verdict.because.to_string());
                passage.end_refused().await;
                return Admitted::Stopped(going.refusal(&denial(&verdict)));
            }
            Decision::Ask => {
                let bond = Bond::new(&policy, &asked, &going, text);
                let is_trusted = policy.trusts(going.server);
                let asking =
                    Asking { verdict: &verdict, going: &going, arguments: &arguments, bond, is_trusted };
                if let Err(stopped) = self.ask(call, &asking, answer, &mut passage).await {
                    return Admitted::Stopped(stopped);
                }
            }
        }
        Admitted::Pass(Box::new(passage))
    }

    /// Whether a server may ask what it asks in the middle of a call: the first thing it may not.
    fn forbids(&self, server: &str, questions: &Questions) -> Option<&'static str> {
        let policy = self.policy()?;
        questions.requests.iter().find_map(|(_, request)| {
            let (action, what) = match request {
                InputRequest::CreateMessage(_) => (Action::Sampling, "an answer of your model"),
                InputRequest::Elicit(_) => (Action::Elicitation, "an answer of yours"),
                InputRequest::ListRoots(_) => (Action::Roots, "your roots"),
                _ => return None,
            };
            let verdict = policy.decide(&Asked::new(server, action), Timestamp::now());
            // What is to be asked about is: the application asks its person.
            (verdict.decision == Decision::Deny).then_some(what)
        })
    }

    /// Comes back without an error once the person has approved exactly this call.
    async fn ask(
        &self,
        call: &Call,
        asking: &Asking<'_, '_>,
        answer: Option<(String, RawJson)>,
        passage: &mut Passage,
    ) -> Result<(), Outcome> {
        // What the person said goes before anything that was said about other calls.
        if let Some((id, answer)) = answer {
            if let Err(refused) = self.approvals.redeem(&id, &asking.bond) {
                return Err(self.stop(asking, passage, refused.decision(), refused.words()).await);
            }
            passage.decided("allow", "approved by the person, through the application");
            match read(&answer) {
                Answer::Always if asking.verdict.may_remember => {
                    self.approvals.grant(asking.bond);
                    passage.decided("allow", AS_LONG_AS);
                }
                // What was not offered was not meant for longer.
                Answer::Once | Answer::Always => (),
                Answer::No(reason) => {
                    passage.decided("deny", "the person, through the application");
                    passage.end_refused().await;
                    return Err(asking.going.refusal(&reason.map_or_else(
                        || "the person said no".to_owned(),
                        |reason| format!("the person said no: {reason}"),
                    )));
                }
            }
            passage.approved(asking.bond);
            return Ok(());
        }
        let mut round = call.context.round();
        // A later round of a call that was approved: its server asks something.
        if let Some(token) = round.steps.remove(APPROVED) {
            let token: String = token.decode().unwrap_or_default();
            if let Err(refused) = self.approvals.resume(&token, &asking.bond) {
                return Err(self.stop(asking, passage, refused.decision(), refused.words()).await);
            }
            call.context.begin_round(round);
            passage.decided("allow", "approved in an earlier round");
            passage.approved(asking.bond);
            return Ok(());
        }
        if self.approvals.is_granted(&asking.bond) {
            passage.decided("allow", AS_LONG_AS);
            return Ok(());
        }
        Err(self.put_question(call, asking, passage).await)
    }

    /// Asks through the application, if it can be asked.
    async fn put_question(&self, call: &Call, asking: &Asking<'_, '_>, passage: &mut Passage) -> Outcome {
        let question = InputRequest::Elicit(Box::new(ElicitParams::Form(words::form(
            asking.going,
            asking.arguments,
            asking.verdict,
            asking.is_trusted,
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
                passage.decided("ask", asking.verdict.because.to_string());
                passage.end_asked().await;
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
    /// Whether what the server says of its tools is believed.
    is_trusted: bool,
}

/// Takes the answer to a question of ours out of the round: the server's own rounds begin without it.
fn take_answer(call: &Call) -> Option<(String, RawJson)> {
    let mut round = call.context.round();
    let key = round.answers.keys().find(|key| key.starts_with(QUESTION))?.clone();
    let (key, answer) = round.answers.remove_entry(&key)?;
    round.fresh.retain(|fresh| *fresh != key);
    call.context.begin_round(round);
    Some((key[QUESTION.len()..].to_owned(), answer))
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
