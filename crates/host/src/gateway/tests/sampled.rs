//! Servers that ask for what the application cannot give, and the person at the console who decides about it.

use hospes::model::ElicitParams;
use hospes_models::{Allowance, Budget, BudgetAccount, Model, ModelCatalogue, ScriptedProvider};
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditQuery};

use super::console::at_console;
use super::guarded::{guard, pairs};
use super::*;
use crate::Sampler;
use crate::approvals::{Approval, ApprovalCard, ApprovalDecision, ApprovalScope};
use crate::sampling::SamplingEntryState;

/// A server that has questions in the middle of its calls.
pub(super) fn curious() -> Server {
    Server::new("curious", "1")
        .tool("ask_model", |ctx: Context| async move {
            let answer = ctx.sample("The capital of France?").max_tokens(50).await?;
            Ok::<_, Error>(answer.text())
        })
        .tool("ask_twice", |ctx: Context| async move {
            let (one, other) = ctx.ask((ctx.sample("One?"), ctx.sample("Other?"))).await?;
            let place = ctx.elicit::<String>("Where to?").await?;
            Ok::<_, Error>(format!("{} {} {place}", one.text(), other.text()))
        })
        .tool("ask_person", |ctx: Context| async move {
            let password = ctx.elicit::<String>("Your password?").await?;
            Ok::<_, Error>(format!("got {password}"))
        })
        .tool("ask_to_go", |ctx: Context| async move {
            ctx.elicit_url("Sign in", "https://accounts.example.com/sign-in?for=you").await?;
            Ok::<_, Error>("been there".to_owned())
        })
}

/// Two models, and what they were asked.
pub(super) struct Models {
    pub(super) sampler: Arc<Sampler>,
    small: Arc<ScriptedProvider>,
    large: Arc<ScriptedProvider>,
}

pub(super) fn models(tokens: Option<u64>) -> Models {
    let small = Arc::new(ScriptedProvider::repeating(["Paris."]));
    let large = Arc::new(ScriptedProvider::repeating(["The capital of France is Paris."]));
    let catalogue = ModelCatalogue::new([
        Model::shared("small", Arc::clone(&small) as _),
        Model::shared("large", Arc::clone(&large) as _),
    ]);
    let mut budget = Budget::new();
    if let Some(tokens) = tokens {
        budget.allow(BudgetAccount::server("curious"), Allowance::tokens(tokens));
    }
    Models { sampler: Arc::new(Sampler::new(catalogue.unwrap(), budget)), small, large }
}

impl Models {
    pub(super) fn asked(&self) -> usize {
        self.small.asked().len() + self.large.asked().len()
    }
}

fn edited(json: serde_json::Value) -> ApprovalDecision {
    ApprovalDecision::Allow { edited: Some(json.into()), scope: ApprovalScope::Once }
}

fn request_of(approval: &Approval) -> serde_json::Value {
    let ApprovalCard::SamplingRequest(card) = &approval.card else { panic!("a request: {approval:?}") };
    card.request.to_value().unwrap()
}

/// Both looks, and that what the person makes of what they see is what is sent and delivered.
///
/// covers: ARCH-04 SAMP-02 SAMP-04 SAMP-05 SAMP-06 HOST-11 HOST-12
#[tokio::test]
async fn a_person_sees_what_is_sent_and_what_comes_back() {
    for (up, down) in pairs() {
        let (models, rules) = (models(Some(10_000)), guard("[[rule]]\ndecide = 'allow'\nabout = 'tool'"));
        let house = House::default().with("curious", up, curious).guarded(&rules).sampling(&models.sampler);
        let host = house.start();
        let _attendance = rules.approvals().register_viewer(None);
        let client = plain(&host, down).await;
        let decide = async |decisions| {
            let calling = client.call("curious__ask_model", ()).into_future();
            let (result, seen) = tokio::join!(calling, at_console(rules.approvals(), decisions));
            (result.unwrap(), seen)
        };
        let (result, seen) = decide(vec![ApprovalDecision::allow(), ApprovalDecision::allow()]).await;
        assert_eq!(result.all_text(), "Paris.", "{up} behind {down}");
        let ApprovalCard::SamplingRequest(card) = &seen[0].card else { panic!("a request") };
        assert_eq!((card.cause.as_deref(), card.model.as_str()), (Some("curious__ask_model"), "small"));
        assert!(card.request.as_str().contains("The capital of France?") && card.max_tokens == 50);
        assert!(card.remaining.contains("10000 tokens"), "{card:?}");
        let ApprovalCard::SamplingResult(card) = &seen[1].card else { panic!("a result") };
        assert!(card.result.as_str().contains("Paris."), "{card:?}");

        // Another question, fewer tokens, another model; and another answer than it gave.
        let mut other = request_of(&seen[0]);
        other["messages"][0]["content"] = json!({ "type": "text", "text": "And of Spain?" });
        (other["maxTokens"], other["model"]) = (json!(20), json!("large"));
        let answer =
            json!({ "role": "assistant", "model": "x", "content": { "type": "text", "text": "Madrid." } });
        let (result, _) = decide(vec![edited(other), edited(answer)]).await;
        assert_eq!(result.all_text(), "Madrid.");
        let asked = models.large.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].max_tokens, 20);
        assert!(serde_json::to_string(&asked[0].messages).unwrap().contains("And of Spain?"));
        let lately = models.sampler.overview([]).await.unwrap().lately;
        assert_eq!(
            (lately[0].model.as_str(), lately[0].is_named, lately[1].is_named),
            ("large", true, false)
        );
    }
}

/// Each way of not being allowed to: the server gets nothing, and the model is not asked but where its answer was denied.
///
/// covers: SAMP-02 SAMP-22 SAMP-38
#[tokio::test(start_paused = true)]
async fn what_is_denied_is_not_sent_or_not_delivered() {
    let allowed = "[[rule]]\ndecide = 'allow'\nabout = 'tool'\n";
    let denied = format!("{allowed}[[rule]]\ndecide = 'deny'\nabout = 'sampling'");
    for (up, down) in pairs() {
        for (what, rules, tokens, is_there, decisions, asked) in [
            (
                "the first look",
                allowed,
                Some(10_000),
                true,
                vec![ApprovalDecision::deny_because("private")],
                0,
            ),
            (
                "the second look",
                allowed,
                Some(10_000),
                true,
                vec![ApprovalDecision::allow(), ApprovalDecision::deny()],
                1,
            ),
            ("silence", allowed, Some(10_000), true, vec![], 0),
            ("nobody there", allowed, Some(10_000), false, vec![], 0),
            ("a rule", &denied, Some(10_000), true, vec![], 0),
            ("no budget", allowed, None, true, vec![], 0),
            ("too small a budget", allowed, Some(10), true, vec![], 0),
        ] {
            let (models, rules) = (models(tokens), guard(rules));
            let house =
                House::default().with("curious", up, curious).guarded(&rules).sampling(&models.sampler);
            let host = house.start();
            let attendance = is_there.then(|| rules.approvals().register_viewer(None));
            let client = plain(&host, down).await;
            let reason = what == "the first look";
            let calling = client.call("curious__ask_model", ()).into_future();
            let (result, _) = tokio::join!(calling, at_console(rules.approvals(), decisions));
            let said = match result {
                Ok(result) => {
                    assert!(result.has_failed(), "{what}: {result:?}");
                    result.all_text()
                }
                Err(error) => error.to_string(),
            };
            assert!(
                !said.contains("Paris") && said.contains("private") == reason,
                "{up} {down} {what}: {said}"
            );
            assert_eq!(models.asked(), asked, "{up} behind {down}: {what}");
            assert!(rules.approvals().pending().is_empty());
            drop(attendance);
        }
    }
}

/// An edit of a sampling request cannot exceed the original request.
#[tokio::test]
async fn an_edit_gets_no_more_than_was_asked_for() {
    let (models, rules) = (models(Some(10_000)), guard("[[rule]]\ndecide = 'allow'\nabout = 'tool'"));
    let house = House::default().with("curious", Revision::LATEST, curious).guarded(&rules);
    let host = house.sampling(&models.sampler).start();
    let _attendance = rules.approvals().register_viewer(None);
    let client = plain(&host, Revision::LATEST).await;
    let calling = client.call("curious__ask_model", ()).into_future();
    let deciding = async {
        let queue = rules.approvals();
        let mut changes = queue.subscribe();
        changes.wait_for(|_| !queue.pending().is_empty()).await.unwrap();
        let approval = queue.pending().remove(0);
        let change = |key: &str, to: serde_json::Value| {
            let mut request = request_of(&approval);
            request[key] = to;
            edited(request)
        };
        for wrong in [
            change("maxTokens", json!(51)),
            change("maxTokens", json!(0)),
            change("messages", json!([])),
            change("model", json!("none")),
            edited(json!({})),
            ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Session },
        ] {
            assert!(queue.decide(&approval.id, wrong.clone(), "me").await.is_err(), "{wrong:?}");
        }
        queue.decide(&approval.id, ApprovalDecision::deny(), "me").await.unwrap();
    };
    assert!(tokio::join!(calling, deciding).0.unwrap().has_failed());
    assert_eq!(models.asked(), 0);
}

/// A rule may say that a server is trusted with it; what it may spend ends all the same.
///
/// covers: SAMP-26
#[tokio::test]
async fn what_a_rule_allows_is_not_asked_about_and_ends_with_the_budget() {
    for (up, down) in pairs() {
        let (models, rules) = (models(Some(150)), guard("[[rule]]\ndecide = 'allow'"));
        let house = House::default().with("curious", up, curious).guarded(&rules).sampling(&models.sampler);
        let host = house.start();
        let client = plain(&host, down).await;
        let mut answered = 0;
        while client.call("curious__ask_model", ()).await.is_ok_and(|result| !result.has_failed()) {
            answered += 1;
            assert!(answered < 100, "the budget has no end");
        }
        assert!(answered > 0 && models.asked() == answered, "{up} behind {down}: {answered}");
        let seen = models.sampler.overview(["curious", "other"]).await.unwrap();
        let [curious, other] = seen.budgets.as_slice() else { panic!("two: {seen:?}") };
        assert!(curious.left_tokens.unwrap() < 150 && curious.account == "server:curious", "{curious:?}");
        assert_eq!(curious.left_tokens.unwrap() + curious.spent_tokens, 150);
        assert_eq!((&other.allowance, curious.reserved_tokens), (&None, 0));
        assert_eq!((seen.lately.len(), seen.lately[0].state), (answered, SamplingEntryState::Answered));
        assert!(seen.lately[0].reason.starts_with("`small`") && !seen.is_kept, "{seen:?}");
    }
}

/// The application's own model goes first, and without models nothing is offered to servers.
#[tokio::test]
async fn who_has_a_model_is_asked_and_without_one_nothing_is_offered() {
    for (up, down) in pairs() {
        let (models, rules) = (models(Some(10_000)), guard("[[rule]]\ndecide = 'allow'"));
        let house = House::default().with("curious", up, curious).guarded(&rules).sampling(&models.sampler);
        let client = application(&house.start(), down).await;
        assert_eq!(client.call("curious__ask_model", ()).await.unwrap().all_text(), "forty-two");
        assert_eq!(models.asked(), 0);

        let none = Arc::new(Sampler::new(ModelCatalogue::new([]).unwrap(), Budget::new()));
        let house = House::default().with("curious", up, curious).guarded(&rules).sampling(&none);
        let client = plain(&house.start(), down).await;
        let said = client.call("curious__ask_model", ()).await;
        assert!(said.map_or_else(|error| error.to_string(), |said| said.all_text()).contains("sampling"));
    }
}

/// Several questions at once, of which the application answers some.
#[tokio::test]
async fn some_answers_are_the_hosts_and_some_the_applications() {
    for (up, down) in pairs() {
        let (models, rules) = (models(Some(10_000)), guard("[[rule]]\ndecide = 'allow'"));
        let house = House::default().with("curious", up, curious).guarded(&rules).sampling(&models.sampler);
        let host = house.start();
        let client = Client::builder()
            .revision(down)
            .elicitation(async |_: ElicitParams| Ok(ElicitResult::accept(json!({ "value": "there" }).into())))
            .in_memory(host.gateway())
            .await
            .unwrap();
        let result = client.call("curious__ask_twice", ()).await.unwrap();
        assert_eq!(result.all_text(), "Paris. Paris. there", "{up} behind {down}");
    }
}

/// Questions of servers, and what a person decides about them, belong to the profile of the call that they came up in.
#[tokio::test]
async fn what_happens_at_the_endpoint_of_a_profile_is_recorded_with_it() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (up, down)) in ERAS.iter().flat_map(|up| Revision::ALL.map(|down| (*up, down))).enumerate() {
        let at = |name: &str| folder.path().join(format!("{index}.{name}"));
        let audit = AuditLog::open(at("db"), at("key")).unwrap();
        let rules =
            "[[rule]]\ndecide = 'allow'\ntool = 'ask_model'\n[[rule]]\ndecide = 'ask'\nabout = 'tool'";
        let policy = Policy::read(rules, &PolicyEnvironment::default()).unwrap();
        let rules = Arc::new(PolicyEnforcer::new(policy).answering_questions(true).with_audit(audit.clone()));
        let models = models(Some(10_000));
        let house = House::default().with("curious", up, curious).guarded(&rules).sampling(&models.sampler);
        let host = house.profiles("[profiles.work]\n").start();
        let _attendance = rules.approvals().register_viewer(None);
        let gateway = host.gateway_of_profile("work").unwrap();
        let client = Client::builder().revision(down).in_memory(gateway).await.unwrap();
        let yes = ApprovalDecision::allow;
        for (tool, decisions) in [
            ("ask_person", vec![yes(), edited(json!({ "value": "mine" }))]),
            ("ask_to_go", vec![yes(), yes()]),
            ("ask_model", vec![yes(), yes()]),
        ] {
            let tool = format!("curious__{tool}");
            let calling = client.call(&tool, ()).into_future();
            let (result, _) = tokio::join!(calling, at_console(rules.approvals(), decisions));
            assert!(!result.unwrap().has_failed(), "{tool}: {up} behind {down}");
        }
        // What was noted is written before what is recorded after it.
        audit.record(AuditEntry::new(AuditEntryKind::Server)).await.unwrap();
        let found = audit.search(AuditQuery::new()).await.unwrap();
        let of =
            |kind: AuditEntryKind| found.iter().map(|one| &one.entry).filter(move |one| one.kind == kind);
        for (kind, count) in
            [(AuditEntryKind::Decision, 6), (AuditEntryKind::Elicitation, 2), (AuditEntryKind::Sampling, 1)]
        {
            assert_eq!(of(kind).count(), count, "{kind:?}: {up} behind {down}");
        }
        let kinds = [
            AuditEntryKind::Call,
            AuditEntryKind::Decision,
            AuditEntryKind::Elicitation,
            AuditEntryKind::Sampling,
        ];
        for entry in kinds.into_iter().flat_map(of) {
            assert_eq!(entry.profile.as_deref(), Some("work"), "{entry:?}: {up} behind {down}");
        }
    }
}

/// A form and a URL, for an application that can show neither.
///
/// covers: ELIC-05
#[tokio::test]
async fn a_person_at_the_console_answers_servers_too() {
    for (up, down) in pairs() {
        let policy = Policy::read("[[rule]]\ndecide = 'allow'", &PolicyEnvironment::default()).unwrap();
        let rules = Arc::new(PolicyEnforcer::new(policy).answering_questions(true));
        let host = House::default().with("curious", up, curious).guarded(&rules).start();
        let _attendance = rules.approvals().register_viewer(None);
        let client = plain(&host, down).await;
        let decide = async |tool: &str, decision| {
            let calling = client.call(tool, ()).into_future();
            let (result, mut seen) = tokio::join!(calling, at_console(rules.approvals(), vec![decision]));
            let said = result.map_or_else(|error| error.to_string(), |result| result.all_text());
            (said, seen.remove(0))
        };
        let (said, approval) = decide("curious__ask_person", edited(json!({ "value": "mine" }))).await;
        assert_eq!(said, "got mine", "{up} behind {down}");
        let ApprovalCard::Form(card) = &approval.card else { panic!("a form") };
        assert_eq!(
            (card.message.as_str(), card.cause.as_deref()),
            ("Your password?", Some("curious__ask_person"))
        );
        let (said, _) = decide("curious__ask_person", ApprovalDecision::deny()).await;
        assert!(!said.contains("got"), "{said}");

        let (said, approval) = decide("curious__ask_to_go", ApprovalDecision::allow()).await;
        assert_eq!(said, "been there", "{up} behind {down}");
        let ApprovalCard::Url(card) = &approval.card else { panic!("a URL") };
        assert_eq!(card.url, "https://accounts.example.com/sign-in?for=you");
        assert_eq!(card.host, "accounts.example.com");
        let (said, _) = decide("curious__ask_to_go", ApprovalDecision::deny()).await;
        assert!(!said.contains("been"), "{said}");
    }
}
