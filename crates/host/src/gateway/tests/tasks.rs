//! Tasks through the gateway, between applications and servers of both dialects.

use hospes::tasks::TaskSettings;
use tokio::time::sleep;

use super::*;

struct Jobs;

const A_WHILE: Duration = Duration::from_millis(30);

#[hospes::server(name = "jobs")]
impl Jobs {
    /// Takes its time.
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

#[tokio::test]
async fn tasks_are_made_followed_and_cancelled_at_their_servers() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let pair = format!("{up} behind {down}");
        let host = House::default().with("jobs", up, jobs).with("other", up, jobs).start();
        let (client, asked) = app(&host, down).await;
        client.tools().all().await.unwrap();
        // What has to be a task is driven to its end, whatever the two sides know of it.
        assert_eq!(client.call("jobs__must", ()).await.unwrap().all_text(), "done", "{pair}");
        assert!(client.call("jobs__fails", ()).await.unwrap().failed(), "{pair}");
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
        assert!(fails.result().await.unwrap().failed(), "{pair}");
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
        let context = Context::builder(Arc::new(peer)).task(hospes::tasks::TaskWish::Open).build();
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
