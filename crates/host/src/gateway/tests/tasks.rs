//! Tasks through the gateway, between applications and servers of both dialects.

use hospes::tasks::TaskSettings;
use tokio::time::sleep;

use super::*;

pub(super) struct Jobs;

const A_WHILE: Duration = Duration::from_millis(30);

#[hospes::server(name = "jobs")]
impl Jobs {
    /// A tool that takes the given time.
    #[tool(task)]
    async fn slow(seconds: u64) -> ContentBlock {
        sleep(A_WHILE + Duration::from_secs(seconds)).await;
        ContentBlock::embedded(ResourceContents::text("jobs://done", format!("slept {seconds}")))
    }

    /// Has to be a task.
    #[tool(task = "required")]
    async fn must() -> &'static str {
        sleep(A_WHILE).await;
        "done"
    }

    /// Fails.
    #[tool(task = "required")]
    async fn fails() -> Result<String> {
        sleep(A_WHILE).await;
        Err(Error::msg("no luck"))
    }

    /// Breaks.
    #[tool(task = "required")]
    async fn breaks() -> Result<String, RpcError> {
        sleep(A_WHILE).await;
        Err(RpcError::new(-31000, "broken"))
    }

    /// Asks two things, one after the other.
    #[tool(task = "required")]
    async fn asks(ctx: &Context) -> Result<String> {
        let a: String = ctx.elicit("A?").key("a").field("value").await?;
        sleep(A_WHILE).await;
        let b: String = ctx.elicit("B?").key("b").field("value").await?;
        Ok(format!("{a} and {b}"))
    }
}

/// An application that knows tasks.
pub(super) fn peer_with_tasks(who: Option<&str>) -> hospes::Peer {
    let extension = json!({ "extensions": { (hospes::model::TASKS_EXTENSION): {} }, "elicitation": {} });
    let peer = hospes::Peer::new(Revision::LATEST, None, serde_json::from_value(extension).unwrap());
    match who {
        Some(who) => peer.with_principal(who),
        None => peer,
    }
}

/// Answers to what a task of [`Jobs`] asks under this key.
pub(super) fn answers_of(key: &str) -> serde_json::Value {
    json!({ key: { "action": "accept", "content": { "value": "yes" } } })
}

fn jobs() -> Server {
    Jobs.into_server().task_settings(TaskSettings::new().with_poll_interval(A_WHILE))
}

async fn app(host: &Host, revision: Revision) -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let builder = Client::builder().revision(revision).elicitation(move |_| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let answer = json!({ "action": "accept", "content": { "value": format!("answer {number}") } });
        async move { Ok(serde_json::from_value::<ElicitResult>(answer)?) }
    });
    (builder.in_memory(host.gateway()).await.unwrap(), asked)
}

#[tokio::test(start_paused = true)]
async fn tasks_are_made_followed_and_cancelled_at_their_servers() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let pair = format!("{up} behind {down}");
        let host = House::default().with("jobs", up, jobs).with("other", up, jobs).start();
        let (client, asked) = app(&host, down).await;
        client.tools().all().await.unwrap();
        // What has to be a task is driven to its end, whatever the two sides know of it.
        assert_eq!(client.call("jobs__must", ()).await.unwrap().all_text(), "done", "{pair}");
        assert!(client.call("jobs__fails", ()).await.unwrap().has_failed(), "{pair}");
        let error = client.call("jobs__breaks", ()).await.unwrap_err();
        assert!(matches!(&error, CallError::Rpc(error) if error.message == "broken"), "{pair}: {error}");
        assert_eq!(
            client.call("jobs__asks", ()).await.unwrap().all_text(),
            "answer 0 and answer 1",
            "{pair}"
        );
        assert_eq!(asked.load(Ordering::Relaxed), 2, "{pair}: nobody is asked twice");

        let made = client.call("jobs__slow", json!({ "seconds": 0 })).as_task().await;
        if down.is_legacy() && !up.is_legacy() {
            // A newer server decides by itself which calls become tasks, so its list offers none to wish for.
            assert!(matches!(made, Err(CallError::NotOffered(_))), "{pair}: {made:?}");
            continue;
        }
        let mut made = made.unwrap();
        let id = made.id().unwrap_or_else(|| panic!("{pair}: a task")).to_owned();
        assert!(id.starts_with("jobs__"), "{pair}: {id}");
        let done = made.result().await.unwrap();
        assert!(format!("{done:?}").contains("slept 0"), "{pair}: {done:?}");
        // By its id it is taken up again, and nobody finds it at another server. An older server may have a connection
        // for each application, and its tasks with it.
        let again = if up.is_legacy() { client.clone() } else { app(&host, down).await.0 };
        let found = again.task(&id).result().await.unwrap();
        assert!(format!("{found:?}").contains("slept 0"), "{pair}: {found:?}");
        for wrong in [id.replacen("jobs", "other", 1), id.replacen("jobs", "none", 1), "x".to_owned()] {
            let error = again.task(&wrong).poll().await.map(drop).unwrap_err();
            assert!(matches!(&error, CallError::Rpc(error) if error.code == -32602), "{pair}: {error}");
        }
        let mut long = client.call("jobs__slow", json!({ "seconds": 3600 })).as_task().await.unwrap();
        long.cancel().await.unwrap();
        assert!(matches!(long.result().await, Err(CallError::TaskCancelled)), "{pair}");
        let mut asks = client.call("jobs__asks", ()).as_task().await.unwrap();
        assert_eq!(asks.result().await.unwrap().all_text(), "answer 2 and answer 3", "{pair}");
        let mut fails = client.call("jobs__fails", ()).as_task().await.unwrap();
        assert!(fails.result().await.unwrap().has_failed(), "{pair}");
        let mut breaks = client.call("jobs__breaks", ()).as_task().await.unwrap();
        let error = breaks.result().await.unwrap_err();
        assert!(matches!(&error, CallError::Rpc(error) if error.message == "broken"), "{pair}: {error}");
    }
}

/// Servers behind the gateway cannot tell its applications apart, so it does.
#[tokio::test]
async fn a_task_is_for_whoever_made_it() {
    let host = House::default().with("jobs", Revision::LATEST, jobs).start();
    let gateway = host.gateway();
    let capabilities: hospes::model::ClientCapabilities =
        serde_json::from_value(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })).unwrap();
    let call = |who: Option<&str>, method: Method, params: serde_json::Value| {
        let mut peer = hospes::Peer::new(Revision::LATEST, None, capabilities.clone());
        if let Some(who) = who {
            peer = peer.with_principal(who);
        }
        let context = Context::builder(Arc::new(peer)).task(hospes::tasks::TaskPreference::Open).build();
        gateway.call(Call::new(method, params.into(), context))
    };
    let made = call(Some("ada"), Method::ToolsCall, json!({ "name": "jobs__must", "arguments": {} })).await;
    let Outcome::Complete(hospes::model::Reply::CreateTask(made)) = made else { panic!("{made:?}") };
    let id = json!({ "taskId": made.task.task_id });
    for method in [Method::TasksGet, Method::TasksCancel] {
        for who in [None, Some("bob")] {
            let refused = call(who, method.clone(), id.clone()).await;
            assert!(matches!(&refused, Outcome::Failed(error) if error.code == -32602), "{refused:?}");
        }
    }
    let found = call(Some("ada"), Method::TasksGet, id).await;
    assert!(matches!(found, Outcome::Complete(hospes::model::Reply::GetTask(_))), "{found:?}");
}

/// Regression: an older server loses its tasks when its connection closes. A connection that made room for another
/// application, or was idle for a while, took its tasks along.
#[tokio::test(start_paused = true)]
async fn a_task_keeps_its_connection() {
    let host = House::default()
        .with("jobs", Revision::LATEST_LEGACY, jobs)
        .settings(|settings| {
            settings.max_connections = 3;
            settings.idle_after = Duration::from_secs(200);
        })
        .start();
    let (ada, _) = app(&host, Revision::LATEST_LEGACY).await;
    let (bob, _) = app(&host, Revision::LATEST_LEGACY).await;
    let (eve, _) = app(&host, Revision::LATEST_LEGACY).await;
    let quick = json!({ "seconds": 0 });
    let mut kept = ada.call("jobs__slow", json!({ "seconds": 3600 })).as_task().await.unwrap();
    let mut long = bob.call("jobs__slow", json!({ "seconds": 3600 })).as_task().await.unwrap();
    let refused = eve.call("jobs__slow", quick.clone()).await.unwrap();
    assert!(refused.has_failed() && refused.all_text().contains("setting max_connections"), "{refused:?}");
    sleep(Duration::from_secs(900)).await;
    for task in [&mut kept, &mut long] {
        let task = task.poll().await.unwrap().unwrap();
        assert_eq!(task.status, hospes::model::TaskStatus::Working);
    }
    // Once it is over, the connection is like any other.
    long.cancel().await.unwrap();
    assert!(!eve.call("jobs__slow", quick).await.unwrap().has_failed());
    assert_eq!(kept.poll().await.unwrap().unwrap().status, hospes::model::TaskStatus::Working);
    kept.cancel().await.unwrap();
    sleep(Duration::from_secs(900)).await;
    assert_eq!(host.status().servers[0].connections, 2, "nobody needs those of single applications");
}

/// Regression: tasks whose results were never fetched kept a server's connections for a day and blocked other
/// applications.
#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_asks_for_makes_room() {
    let host = House::default()
        .with("jobs", Revision::LATEST_LEGACY, jobs)
        .settings(|settings| {
            settings.max_connections = 3;
            settings.idle_after = Duration::from_secs(200);
        })
        .start();
    let (ada, _) = app(&host, Revision::LATEST).await;
    let (bob, _) = app(&host, Revision::LATEST_LEGACY).await;
    let (eve, _) = app(&host, Revision::LATEST_LEGACY).await;
    let made = ada.call("jobs__slow", json!({ "seconds": 3600 })).as_task().await.unwrap();
    let followed = made.id().unwrap().to_owned();
    let mut left = bob.call("jobs__slow", json!({ "seconds": 3600 })).as_task().await.unwrap();
    let filter = SubscriptionFilter::new().with_task_ids(vec![followed.clone()]);
    let mut stream = ada.listen(filter).await.unwrap();
    let listening = tokio::spawn(async move { while stream.next().await.is_some() {} });
    for _ in 0..4 {
        sleep(Duration::from_secs(100)).await;
        left.poll().await.unwrap();
        let refused = eve.call("jobs__slow", json!({ "seconds": 0 })).await.unwrap().all_text();
        assert!(refused.contains("2 of them only for tasks"), "{refused}");
        assert!(refused.contains("for 200s (setting idle_after)"), "{refused}");
    }
    sleep(Duration::from_secs(250)).await;
    assert!(!eve.call("jobs__slow", json!({ "seconds": 0 })).await.unwrap().has_failed());
    assert!(matches!(left.poll().await, Err(CallError::Rpc(_))), "it went with its connection");
    let found = ada.task(&followed).poll().await.unwrap().unwrap().status.clone();
    assert_eq!(found, hospes::model::TaskStatus::Working);
    listening.abort();
}

/// covers: TSKX-16
#[tokio::test(start_paused = true)]
async fn whoever_has_a_task_is_told_how_it_goes() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        if down.is_legacy() && !up.is_legacy() {
            // A newer server decides by itself which calls become tasks, so its list offers none to wish for.
            continue;
        }
        let pair = format!("{up} behind {down}");
        let host = House::default().with("other", up, jobs).with("jobs", up, jobs).start();
        let (client, _) = app(&host, down).await;
        client.tools().all().await.unwrap();
        let made = client.call("jobs__slow", json!({ "seconds": 1 })).as_task().await.unwrap();
        let beside = client.call("jobs__slow", json!({ "seconds": 0 })).as_task().await.unwrap();
        let (id, beside) = (made.id().unwrap().to_owned(), beside.id().unwrap().to_owned());
        let foreign = id.replacen("jobs", "none", 1);
        let filter = SubscriptionFilter::new().with_task_ids(vec![foreign, id.clone()]);
        let mut stream = client.listen(filter).await.unwrap();
        if !down.is_legacy() {
            assert_eq!(stream.acknowledged().task_ids, [id.as_str()], "{pair}");
        }
        loop {
            let change = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
            let Ok(Some(Notification::TasksChanged(found))) = change else { panic!("{pair}: {change:?}") };
            assert_eq!(found.task.task_id, id, "{pair}: not of {beside}");
            if found.task.status.is_terminal() {
                assert!(format!("{:?}", found.result).contains("slept 1"), "{pair}: {found:?}");
                break;
            }
        }
    }
}

/// Regression: a restarted server does not know the task, so its status was never reported.
#[tokio::test(start_paused = true)]
async fn a_task_that_its_server_has_lost_is_told_as_failed() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        if down.is_legacy() && !up.is_legacy() {
            continue;
        }
        let pair = format!("{up} behind {down}");
        let house = House::default().with("jobs", up, jobs);
        let connections = house.made("jobs");
        let host = house.start();
        let (client, _) = app(&host, down).await;
        client.tools().all().await.unwrap();
        let made = client.call("jobs__slow", json!({ "seconds": 3600 })).as_task().await.unwrap();
        let id = made.id().unwrap().to_owned();
        let filter = SubscriptionFilter::new().with_task_ids(vec![id.clone()]);
        let mut stream = client.listen(filter).await.unwrap();
        sleep(Duration::from_secs(5)).await;
        let gone: Vec<Client> = std::mem::take(&mut connections.lock());
        for client in gone {
            client.close().await;
        }
        let change = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
        let Ok(Some(Notification::TasksChanged(found))) = change else { panic!("{pair}: {change:?}") };
        assert_eq!(found.task.task_id, id, "{pair}");
        assert_eq!(found.task.status, hospes::model::TaskStatus::Failed, "{pair}");
        if !down.is_legacy() {
            let why = found.error.unwrap().message;
            assert!(why.contains("`jobs` has lost the task"), "{pair}: {why}");
        }
        let after = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
        assert!(after.is_err(), "{pair}: it is told once: {after:?}");
    }
}

/// Regression: a change was lost if it happened while the connection to the server was broken.
#[tokio::test(start_paused = true)]
async fn a_task_that_ended_while_its_server_was_away_is_told() {
    for up in ERAS {
        let server = jobs();
        let house = House::default().with("jobs", up, move || server.clone());
        let connections = house.made("jobs");
        let host = house.start();
        let (client, _) = app(&host, Revision::LATEST).await;
        client.tools().all().await.unwrap();
        let made = client.call("jobs__slow", json!({ "seconds": 0 })).as_task().await.unwrap();
        let filter = SubscriptionFilter::new().with_task_ids(vec![made.id().unwrap().to_owned()]);
        let mut stream = client.listen(filter).await.unwrap();
        let gone: Vec<Client> = std::mem::take(&mut connections.lock());
        for client in gone {
            client.close().await;
        }
        let change = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
        let Ok(Some(Notification::TasksChanged(found))) = change else { panic!("{up}: {change:?}") };
        assert!(format!("{:?}", found.result).contains("slept 0"), "{up}: {found:?}");
    }
}

/// A task's id may appear in logs and is no secret. The result is given only to the user that created the task.
#[tokio::test]
async fn what_comes_of_a_task_is_told_to_nobody_else() {
    let host = House::default().with("jobs", Revision::LATEST, jobs).start();
    let capabilities: hospes::model::ClientCapabilities =
        serde_json::from_value(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })).unwrap();
    let call = |who: &str, method: Method, params: serde_json::Value| {
        let peer = hospes::Peer::new(Revision::LATEST, None, capabilities.clone()).with_principal(who);
        let context = Context::builder(Arc::new(peer)).task(hospes::tasks::TaskPreference::Open).build();
        Call::new(method, params.into(), context)
    };
    let params = json!({ "name": "jobs__must", "arguments": {} });
    let made = host.gateway().call(call("ada", Method::ToolsCall, params)).await;
    let Outcome::Complete(hospes::model::Reply::CreateTask(made)) = made else { panic!("{made:?}") };
    let filter = json!({ "notifications": { "taskIds": [made.task.task_id] } });
    for (who, told) in [("bob", 0), ("ada", 1)] {
        let listening = call(who, Method::SubscriptionsListen, filter.clone());
        let service = hospes::BoxService::new(host.gateway());
        let mut stream = hospes::Exchange::new(service, listening);
        let first = std::future::poll_fn(|cx| stream.poll_event(cx)).await;
        let hospes::ExchangeEvent::Notify(Notification::SubscriptionsAcknowledged(acknowledged)) = first
        else {
            panic!("{who}: {first:?}")
        };
        assert_eq!(acknowledged.notifications.task_ids.len(), told, "{who}");
    }
}
