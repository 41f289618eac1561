//! Tasks that outlive the host process because their servers continue them.

use hospes_policy::{Policy, PolicyEnvironment};

use super::tasks::{Jobs, peer_with_tasks};
use super::*;

const ALLOWED: &str = "[[rule]]\ndecide = 'allow'";
const OTHERS: &str = "[[rule]]\ndecide = 'allow'\nserver = 'jobs'";

async fn start(service: &hospes::BoxService, rules: &str, state: Option<&StateStore>) -> Host {
    let service = service.clone();
    let guard = Arc::new(PolicyEnforcer::new(Policy::read(rules, &PolicyEnvironment::default()).unwrap()));
    let made = Arc::new(move || Ok(service.clone()));
    let house = House::default().made_by("jobs", Revision::LATEST, Duration::ZERO, made).guarded(&guard);
    let host = match state {
        Some(state) => house.kept_in(state).start(),
        None => house.start(),
    };
    // Once it is listed it is there.
    does(&host, None, Method::ToolsList, json!({})).await.unwrap();
    host
}

async fn does(
    host: &Host,
    who: Option<&str>,
    method: Method,
    params: serde_json::Value,
) -> Result<String, String> {
    let context =
        Context::builder(Arc::new(peer_with_tasks(who))).task(hospes::tasks::TaskPreference::Open).build();
    match host.gateway().call(Call::new(method, params.into(), context)).await {
        Outcome::Complete(reply) => Ok(format!("{reply:?}")),
        other => Err(format!("{other:?}")),
    }
}

/// Regression: with rules, a task begun before a restart of the host belonged to no user.
#[tokio::test]
async fn a_task_is_whose_it_was_after_a_restart_and_goes_by_the_same_rules() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.db");
    for who in [None, Some("ann")] {
        // Its server outlives the hosts.
        let service = hospes::BoxService::new(Jobs.into_server());
        let state = StateStore::open(&file).unwrap();
        let host = start(&service, ALLOWED, Some(&state)).await;
        let call = json!({ "name": "jobs__slow", "arguments": { "seconds": 4321 } });
        let made = does(&host, who, Method::ToolsCall, call).await.unwrap();
        let id = made[made.find("jobs__").unwrap()..].split('"').next().unwrap().to_owned();
        host.stop().await;
        drop(state);

        let state = StateStore::open(&file).unwrap();
        let kept = state.tasks().find(id.clone()).await.unwrap().unwrap();
        assert!(!kept.contains("4321"), "what was said is not kept: {kept}");
        let get = async |host: &Host, who| does(host, who, Method::TasksGet, json!({ "taskId": id })).await;
        let forgetful = start(&service, ALLOWED, None).await;
        let said = get(&forgetful, who).await.unwrap_err();
        assert!(said.contains("unknown or expired task"), "{said}");
        forgetful.stop().await;

        let host = start(&service, ALLOWED, Some(&state)).await;
        for other in [None, Some("ann"), Some("bob")] {
            let said = get(&host, other).await;
            assert_eq!(said.is_ok(), other == who, "{other:?} asks for that of {who:?}: {said:?}");
        }
        host.stop().await;

        // Its arguments are not known any more, so nobody can say what other rules would say of it.
        let host = start(&service, OTHERS, Some(&state)).await;
        let said = get(&host, who).await.unwrap_err();
        assert!(said.contains("the rules have changed since it began"), "{said}");
        host.stop().await;
    }
}
