//! Every way in which something that a person decides about can fail to be allowed: then it does not happen.
//!
//! One table: what is decided about × how it ends. Each kind has a control, with a real approval, in which it does happen.

use std::sync::atomic::AtomicU32;

use hospes::model::Implementation;
use hospes::{PendingInput, Round};
use hospes_policy::{Policy, PolicyEnvironment};
use tokio::task::JoinHandle;

use super::sampled::{Models, models};
use super::*;
use crate::approvals::{Approval, ApprovalDecision, ApprovalLimits, ApprovalQueue, ApprovalScope};

/// Kind of decision.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Tool,
    Prompt,
    Resource,
    /// A sampling request to a model.
    Request,
    /// The model's answer.
    Answer,
    Form,
    Url,
    /// The result of a tool.
    Result,
}

use Kind::*;

const KINDS: [Kind; 8] = [Tool, Prompt, Resource, Request, Answer, Form, Url, Result];

/// An enumeration, and a list of all of it: what is written once is not forgotten in the table.
macro_rules! all {
    ($all:ident: $(#[$about:meta])* enum $name:ident { $($one:ident),* $(,)? }) => {
        $(#[$about])*
        enum $name { $($one),* }

        const $all: &[$name] = &[$($name::$one),*];
    };
}

all! { WAYS:
/// Way in which an approval ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Approved,
    Silence,
    TooLate,
    Denied,
    Blocked,
    ForgedId,
    DecidedBefore,
    CallerGone,
    Nobody,
    DeskFull,
    DeskFullOfBytes,
    RulesChanged,
    BlockedMeanwhile,
    EditedIntoDenied,
    EditThatIsNone,
    NotOffered,
    Twice,
}
}

use Way::*;

impl Way {
    /// Returns true if this ending applies to the kind of decision.
    fn is_of(self, kind: Kind) -> bool {
        let is_call = matches!(kind, Tool | Prompt | Resource);
        match self {
            Blocked => is_call || kind == Result,
            BlockedMeanwhile | Twice => is_call,
            EditedIntoDenied => kind == Tool,
            EditThatIsNone => !matches!(kind, Prompt | Resource),
            // The call is made; what came of it the person sees.
            RulesChanged => kind != Result,
            _ => true,
        }
    }
}

struct Scene {
    kind: Kind,
    host: Host,
    guard: Arc<PolicyEnforcer>,
    models: Models,
    /// Number of executions at the server.
    done: Arc<AtomicU32>,
}

fn curious(done: &Arc<AtomicU32>) -> Server {
    let note = || {
        let done = Arc::clone(done);
        move || done.fetch_add(1, Ordering::SeqCst)
    };
    let (write, greet, today, model, person, go) = (note(), note(), note(), note(), note(), note());
    Server::new("curious", "1")
        .tool("write", move |_: Args<Place>| {
            write();
            async { "written" }
        })
        .prompt("greet", move || {
            greet();
            async { "Hello" }
        })
        .resource("notes://today", move || {
            today();
            async { "sunny" }
        })
        .tool("ask_model", move |ctx: Context| {
            let note = model.clone();
            async move {
                let answer = ctx.sample("The capital of France?").max_tokens(50).await?;
                note();
                Ok::<_, Error>(answer.text())
            }
        })
        .tool("ask_person", move |ctx: Context| {
            let note = person.clone();
            async move {
                let answer = ctx.elicit::<String>("Which seat?").await?;
                note();
                Ok::<_, Error>(answer)
            }
        })
        .tool("ask_to_go", move |ctx: Context| {
            let note = go.clone();
            async move {
                ctx.elicit_url("Sign in", "https://accounts.example.com/sign-in").await?;
                note();
                Ok::<_, Error>("been there".to_owned())
            }
        })
}

#[derive(serde::Deserialize, hospes::schemars::JsonSchema)]
#[schemars(crate = "hospes::schemars")]
#[expect(dead_code, reason = "what is written does not approval here")]
struct Place {
    path: String,
}

fn read(rules: &str) -> Policy {
    Policy::read(rules, &PolicyEnvironment::default()).unwrap()
}

impl Scene {
    async fn new(kind: Kind, up: Revision, more: &str) -> Self {
        Self::on(kind, up, more, ApprovalQueue::new(), Arc::default()).await
    }

    /// One with this queue, and what was done at its server before.
    async fn on(kind: Kind, up: Revision, more: &str, queue: ApprovalQueue, done: Arc<AtomicU32>) -> Self {
        let allowed = "[[rule]]\ndecide = 'allow'\nabout = ['tool', 'elicitation']\n";
        let etc = "[[rule]]\ndecide = 'deny'\nabout = 'tool'\narguments.path = { under = '/etc' }\n";
        let rules = match kind {
            Tool | Prompt | Resource => {
                format!("{etc}[[rule]]\ndecide = 'ask'\nabout = ['tool', 'prompt', 'resource']\n{more}")
            }
            Result => format!("[[rule]]\ndecide = 'allow'\nreview = true\n{more}"),
            _ => allowed.to_owned(),
        };
        let models = models(Some(10_000));
        let guard =
            Arc::new(PolicyEnforcer::new(read(&rules)).with_approvals(queue).answering_questions(true));
        let told = Arc::clone(&done);
        let house = House::default().with("curious", up, move || curious(&told)).guarded(&guard);
        let host = house.sampling(&models.sampler).start();
        let scene = Self { kind, host, guard, models, done };
        scene
            .call(peer("editor", None, false), Round::default(), Method::ToolsList, json!({}))
            .await
            .unwrap();
        scene
    }

    fn queue(&self) -> &ApprovalQueue {
        self.guard.approvals()
    }

    /// The call that leads to it.
    fn begin(&self, peer: hospes::Peer, round: Round) -> JoinHandle<Outcome> {
        let (method, params) = self.params("/srv/a");
        self.call(peer, round, method, params)
    }

    fn params(&self, path: &str) -> (Method, serde_json::Value) {
        let tool = |name: &str| (Method::ToolsCall, json!({ "name": name, "arguments": {} }));
        match self.kind {
            Tool | Result => {
                let arguments = json!({ "path": path });
                (Method::ToolsCall, json!({ "name": "curious__write", "arguments": arguments }))
            }
            Prompt => (Method::PromptsGet, json!({ "name": "curious__greet" })),
            Resource => (Method::ResourcesRead, json!({ "uri": "notes://today" })),
            Request | Answer => tool("curious__ask_model"),
            Form => tool("curious__ask_person"),
            Url => tool("curious__ask_to_go"),
        }
    }

    fn call(
        &self,
        peer: hospes::Peer,
        round: Round,
        method: Method,
        params: serde_json::Value,
    ) -> JoinHandle<Outcome> {
        let context = Context::builder(Arc::new(peer)).round(round).build();
        let (gateway, call) = (self.host.gateway(), Call::new(method, params.into(), context));
        tokio::spawn(async move { gateway.call(call).await })
    }

    /// Returns the number of executions, as seen by the server, the model or the application.
    fn happened(&self, said: Option<&Outcome>) -> usize {
        match self.kind {
            Request => self.models.asked(),
            Result => usize::from(format!("{said:?}").contains("\"written\"")),
            _ => usize::try_from(self.done.load(Ordering::SeqCst)).unwrap(),
        }
    }

    fn allow(&self) -> ApprovalDecision {
        let edited = (self.kind == Form).then(|| json!({ "value": "mine" }).into());
        ApprovalDecision::Allow { edited, scope: ApprovalScope::Once }
    }

    async fn ends(&self, way: Way) -> (usize, Option<Outcome>) {
        let queue = self.queue();
        let mut attendance = (way != Nobody || self.kind == Answer).then(|| queue.register_viewer(None));
        let full = |limits: ApprovalLimits| match way {
            DeskFull => ApprovalLimits { waiting: 0, ..limits },
            DeskFullOfBytes => ApprovalLimits { bytes: 10, ..limits },
            _ => limits,
        };
        if self.kind != Answer {
            queue.set_limits(full(ApprovalLimits::default()));
        }
        let calling = self.begin(peer("editor", None, false), Round::default());
        if self.kind == Answer {
            let first = waiting(queue, 0).await;
            queue.set_limits(full(ApprovalLimits::default()));
            if way == Nobody {
                attendance = None;
            }
            queue.decide(&first.id, ApprovalDecision::allow(), "me").await.unwrap();
        }
        if matches!(way, DeskFull | DeskFullOfBytes | Nobody) {
            let said = calling.await.unwrap();
            if way != Nobody {
                let (limit, text) = match way {
                    DeskFull => ("max_waiting", format!("{said:?}")),
                    _ => ("max_waiting_bytes", format!("{said:?}")),
                };
                // To a server's question nothing is said but that there is no answer.
                assert!(text.contains(limit) || matches!(self.kind, Form | Url), "{text}");
            }
            return (self.happened(Some(&said)), Some(said));
        }
        let approval = waiting(queue, 0).await;
        let wrong = |json: serde_json::Value| ApprovalDecision::Allow {
            edited: Some(json.into()),
            scope: ApprovalScope::Once,
        };
        match way {
            Approved => drop(queue.decide(&approval.id, self.allow(), "me").await.unwrap()),
            Silence => {}
            TooLate => {
                tokio::time::advance(Duration::from_secs(400)).await;
                assert!(queue.decide(&approval.id, self.allow(), "me").await.is_err());
            }
            Denied => drop(queue.decide(&approval.id, ApprovalDecision::deny(), "me").await.unwrap()),
            Blocked => {
                let block = ApprovalDecision::Deny { reason: None, block: true };
                queue.decide(&approval.id, block, "me").await.unwrap();
            }
            ForgedId => {
                for id in ["", "forged", &"0".repeat(32), &approval.id[1..]] {
                    assert!(queue.decide(id, self.allow(), "me").await.is_err());
                }
            }
            DecidedBefore => {
                queue.decide(&approval.id, ApprovalDecision::deny(), "me").await.unwrap();
                assert!(queue.decide(&approval.id, self.allow(), "another").await.is_err());
            }
            CallerGone => {
                calling.abort();
                let mut changes = queue.subscribe();
                changes.wait_for(|_| queue.pending().is_empty()).await.unwrap();
                assert!(queue.decide(&approval.id, self.allow(), "me").await.is_err());
                return (self.happened(None), None);
            }
            RulesChanged => {
                self.guard.replace_policy(read("[[rule]]\ndecide = 'deny'"));
                let _late = queue.decide(&approval.id, self.allow(), "me").await;
            }
            BlockedMeanwhile => {
                let other = self.begin(peer("editor", None, false), Round::default());
                let second = waiting(queue, 1).await;
                let block = ApprovalDecision::Deny { reason: None, block: true };
                queue.decide(&second.id, block, "me").await.unwrap();
                queue.decide(&approval.id, self.allow(), "me").await.unwrap();
                other.await.unwrap();
            }
            EditedIntoDenied => {
                let edited = wrong(json!({ "path": "/etc/passwd" }));
                assert!(queue.decide(&approval.id, edited, "me").await.is_err());
            }
            EditThatIsNone => {
                for json in [json!([]), json!(3), json!({ "path": 3, "value": 3, "content": 3 })] {
                    assert!(queue.decide(&approval.id, wrong(json), "me").await.is_err());
                }
            }
            NotOffered => {
                let always = ApprovalDecision::Allow {
                    edited: None,
                    scope: ApprovalScope::Always(Default::default()),
                };
                if self.kind == Tool {
                    // It is offered: but not for ever.
                    let far = crate::approvals::LastingPermission {
                        until: Some(jiff::Timestamp::MAX),
                        ..Default::default()
                    };
                    let far = ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Always(far) };
                    assert!(queue.decide(&approval.id, far, "me").await.is_err());
                } else {
                    assert!(queue.decide(&approval.id, always, "me").await.is_err());
                }
            }
            Twice => {
                queue.decide(&approval.id, self.allow(), "me").await.unwrap();
                assert!(matches!(calling.await.unwrap(), Outcome::Complete(_)));
                assert_eq!(self.happened(None), 1);
                let said = self.begin(peer("editor", None, false), Round::default()).await.unwrap();
                return (self.happened(None) - 1, Some(said));
            }
            Nobody | DeskFull | DeskFullOfBytes => unreachable!("above"),
        }
        let said = calling.await.unwrap();
        drop(attendance);
        (self.happened(Some(&said)), Some(said))
    }
}

pub(super) fn peer(application: &str, principal: Option<&str>, elicits: bool) -> hospes::Peer {
    let capabilities = if elicits { json!({ "elicitation": {} }) } else { json!({}) };
    let info = Implementation::new(application, "1");
    let peer = hospes::Peer::new(Revision::LATEST, Some(info), serde_json::from_value(capabilities).unwrap());
    match principal {
        Some(principal) => peer.with_principal(principal),
        None => peer,
    }
}

/// The approval at this place, once it is there.
async fn waiting(queue: &ApprovalQueue, place: usize) -> Approval {
    let mut changes = queue.subscribe();
    let there = changes.wait_for(|_| queue.pending().len() > place);
    tokio::time::timeout(Duration::from_secs(60), there).await.expect("nothing is asked").unwrap();
    queue.pending().remove(place)
}

/// covers: ARCH-03 HOST-01 HOST-04 HOST-07 HOST-08 HOST-13
#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_does_not_happen() {
    let mut wrong = Vec::new();
    for up in ERAS {
        for kind in KINDS {
            for way in WAYS.iter().copied().filter(|way| way.is_of(kind)) {
                let scene = Scene::new(kind, up, "").await;
                let (happened, said) = scene.ends(way).await;
                let expected = usize::from(way == Approved);
                let is_left = !scene.queue().pending().is_empty();
                if happened != expected || is_left {
                    wrong.push(format!("{kind:?}, {way:?}, {up}: {happened} times, {said:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

all! { BACKS:
/// Ways in which an application returns the answer to a form.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Back {
    Yes,
    No,
    Unset,
    Odd,
    Declined,
    Cancelled,
    YesButDeclined,
    OtherPrincipal,
    SignedOut,
    OtherApplication,
    OtherArguments,
    ForgedId,
    Late,
    RulesChanged,
    StrongByNow,
    Twice,
}
}

/// Answers that an application returns for its person, to the host that asked and to a host that was restarted
/// meanwhile.
///
/// covers: HOST-07 HOST-08 HOST-13
#[tokio::test(start_paused = true)]
async fn what_an_application_brings_back_is_good_for_what_was_asked_and_once() {
    let mut wrong = Vec::new();
    for (up, restarts) in ERAS.into_iter().flat_map(|up| [(up, false), (up, true)]) {
        for kind in [Tool, Prompt, Resource] {
            for &back in BACKS {
                if back == Back::OtherArguments && kind != Tool {
                    continue;
                }
                let what = format!("{kind:?}, {back:?}, {up}, restarts {restarts}");
                let folder = tempfile::tempdir().unwrap();
                let open = async || match restarts {
                    true => {
                        let state = StateStore::open(folder.path().join("state.db")).unwrap();
                        ApprovalQueue::open(&state).await.unwrap()
                    }
                    false => ApprovalQueue::new(),
                };
                let mut scene = Scene::on(kind, up, "", open().await, Arc::default()).await;
                let ann = || peer("editor", Some("ann"), true);
                let asked = scene.begin(ann(), Round::default()).await.unwrap();
                let Outcome::InputRequired(PendingInput { requests, round, .. }) = asked else {
                    panic!("{what}: {asked:?}")
                };
                let mut key = requests[0].0.clone();
                let yes = json!({ "decision": "once" });
                let answer = match back {
                    Back::No => json!({ "action": "accept", "content": { "decision": "no" } }),
                    Back::Unset => json!({ "action": "accept", "content": {} }),
                    Back::Odd => json!({ "action": "accept", "content": { "decision": true } }),
                    Back::Declined => json!({ "action": "decline" }),
                    Back::Cancelled => json!({ "action": "cancel" }),
                    Back::YesButDeclined => json!({ "action": "decline", "content": yes }),
                    _ => json!({ "action": "accept", "content": yes }),
                };
                if back == Back::ForgedId {
                    key.truncate(key.len() - 1);
                    key.push('x');
                }
                let mut round = round;
                round.record_answers([(key, RawJson::from(answer))]);
                let who = match back {
                    Back::OtherPrincipal => peer("editor", Some("bob"), true),
                    Back::SignedOut => peer("editor", None, true),
                    Back::OtherApplication => peer("other", Some("ann"), true),
                    _ => ann(),
                };
                if restarts {
                    let done = Arc::clone(&scene.done);
                    scene = Scene::on(kind, up, "", open().await, done).await;
                }
                match back {
                    Back::Late => tokio::time::advance(Duration::from_secs(400)).await,
                    Back::RulesChanged => {
                        let rules = "[[rule]]\ndecide = 'ask'\n# by others";
                        scene.guard.replace_policy(read(rules));
                    }
                    Back::StrongByNow => {
                        scene.guard.replace_policy(read("[[rule]]\ndecide = 'ask'\nstrong = true"));
                    }
                    _ => {}
                }
                let path = if back == Back::OtherArguments { "/srv/b" } else { "/srv/a" };
                let (method, params) = scene.params(path);
                let said = scene.call(who, round.clone(), method, params).await.unwrap();
                let expected = usize::from(matches!(back, Back::Yes | Back::Twice));
                if scene.happened(None) != expected {
                    wrong.push(format!("{what}: {said:?}"));
                }
                if back == Back::Twice {
                    if restarts {
                        let done = Arc::clone(&scene.done);
                        scene = Scene::on(kind, up, "", open().await, done).await;
                    }
                    let said = scene.begin(ann(), round).await.unwrap();
                    if scene.happened(None) != 1 {
                        wrong.push(format!("{what}: {said:?}"));
                    }
                }
                if back == Back::Yes {
                    assert!(matches!(said, Outcome::Complete(_)), "{what}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
