//! Calls, and what is not called.

use std::sync::Mutex;
use std::time::Duration;

use hospes::client::{CallError, Client, TimeLimit};
use hospes::model::{
    ClientCapabilities, CompleteParams, LoggingLevel, Notification, RawJson, Revision, SubscriptionFilter,
};
use hospes::prelude::*;
use hospes::server::Server;
use serde_json::{Value, json};

use crate::client_peer::{Log, Peer, settle};

fn done() -> Option<Value> {
    Some(json!({ "resultType": "complete", "content": [] }))
}

/// covers: CAP-04 LIFE-10 LIFE-11 LIFE-15 PRM-16
#[tokio::test(start_paused = true)]
async fn only_what_the_server_declared_is_used() {
    for revision in Revision::ALL {
        let (client, peer) =
            Peer::connect_offering(Client::builder(), revision, &json!({}), |_| panic!("it was asked")).await;
        let refused = |error: CallError, what: &str| {
            assert!(matches!(&error, CallError::NotOffered(offer) if *offer == what), "{revision}: {error}");
        };
        refused(client.call("any", ()).await.unwrap_err(), "tools");
        refused(client.tools().all().await.unwrap_err(), "tools");
        refused(client.prompts().all().await.unwrap_err(), "prompts");
        refused(client.prompt("any", [("a", "b")]).await.unwrap_err(), "prompts");
        refused(client.resources().all().await.unwrap_err(), "resources");
        refused(client.resource_templates().all().await.unwrap_err(), "resources");
        refused(client.read("a://x").await.unwrap_err(), "resources");
        refused(client.set_log_level(LoggingLevel::Debug).await.unwrap_err(), "log messages");
        if revision > Revision::V2024_11_05 {
            let params: CompleteParams = serde_json::from_value(
                json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } }),
            )
            .unwrap();
            refused(client.complete(&params).await.unwrap_err(), "completions");
        }
        // Nor is the server told of what it was not told that the client has.
        client.set_roots(["file:///srv"]);
        settle().await;
        let beyond = ["initialize", "notifications/initialized", "server/discover"];
        assert!(peer.heard().iter().all(|message| beyond.contains(&message["method"].as_str().unwrap())));
    }
}

/// covers: CAP-07 CAP-09
#[tokio::test(start_paused = true)]
async fn capabilities_that_nobody_here_knows_are_kept_and_do_no_harm() {
    for revision in Revision::ALL {
        let ours: ClientCapabilities =
            serde_json::from_value(json!({ "experimental": { "ours": {} }, "telepathy": { "range": 3 } }))
                .unwrap();
        let theirs = json!({ "tools": { "listChanged": true, "new": 1 }, "telekinesis": [], "experimental": { "theirs": {} } });
        // Our server does not mind either.
        let server = Server::new("test", "1.0").tool("any", || async { "done" });
        let client =
            Client::builder().capabilities(ours.clone()).revision(revision).in_memory(server).await.unwrap();
        assert_eq!(client.call("any", ()).await.unwrap().all_text(), "done", "{revision}");
        let builder = Client::builder().capabilities(ours);
        let (client, peer) = Peer::connect_offering(builder, revision, &theirs, |_| done()).await;
        client.call("any", ()).await.unwrap();
        let first = &peer.heard()[0]["params"];
        let declared = match revision.is_legacy() {
            true => &first["capabilities"],
            false => &first["_meta"]["io.modelcontextprotocol/clientCapabilities"],
        };
        assert_eq!(declared["experimental"], json!({ "ours": {} }), "{revision}");
        let known = serde_json::to_value(client.capabilities().unwrap()).unwrap();
        assert_eq!(known["experimental"], json!({ "theirs": {} }));
    }
}

/// Nor is it part of a batch, which would have no method.
///
/// covers: BATCH-03 CANC-03 LIFE-16 LIFE-17
#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_not_answered_ends_and_is_not_cancelled() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.is_legacy()) {
        let (wire, peer) = Peer::new(|_| None);
        let (read, write) = tokio::io::split(wire);
        let builder = Client::builder().revision(revision).connect_timeout(Duration::from_secs(7));
        let error = builder.over(read, write).await.unwrap_err();
        assert!(error.what.contains("no response from the server within 7.0s"), "{error}");
        settle().await;
        let (wire, impatient) = Peer::new(|_| None);
        let (read, write) = tokio::io::split(wire);
        let connecting = Client::builder().revision(revision).over(read, write);
        assert!(tokio::time::timeout(Duration::from_secs(2), connecting).await.is_err());
        settle().await;
        for peer in [peer, impatient] {
            let methods: Vec<Value> = peer.heard().iter().map(|message| message["method"].clone()).collect();
            assert_eq!(methods, ["initialize"], "{revision}");
        }
        // Nor does closing wait for a server that does not answer.
        let (client, _peer) = Peer::connect(Client::builder(), revision, |_| None).await;
        let error = client.call("hang", ()).timeout(Duration::from_secs(3)).await.unwrap_err();
        assert!(matches!(error, CallError::Timeout { limit: TimeLimit::Timeout, .. }), "{error}");
        client.close().await;
        assert!(client.call("hang", ()).await.unwrap_err().is_closed());
    }
}

/// covers: ERR-10 TOOL-27
#[tokio::test(start_paused = true)]
async fn what_failed_here_is_told_from_what_the_server_said() {
    for revision in Revision::ALL {
        let (client, _peer) = Peer::connect(Client::builder(), revision, |message| {
            match message["params"]["name"].as_str()? {
                "hang" => None,
                "odd" => Some(json!({ "content": 7 })),
                // A server may say of itself what only a client can know.
                _ => Some(json!({ "error": { "code": -32001, "message": "tools/call was not answered within 1s" } })),
            }
        })
        .await;
        let theirs = client.call("lie", ()).await.unwrap_err();
        assert_eq!(theirs.rpc().map(|error| error.code), Some(-32001), "{revision}: {theirs}");
        assert!(matches!(theirs, CallError::Rpc(_)), "{theirs}");
        for name in ["hang", "odd"] {
            let ours = client.call(name, ()).timeout(Duration::from_secs(1)).await.unwrap_err();
            assert!(ours.rpc().is_none(), "{revision}: {ours}");
        }
        client.close().await;
        assert!(client.call("any", ()).await.unwrap_err().rpc().is_none());
    }
}

/// covers: MSG-13
#[tokio::test(start_paused = true)]
async fn a_result_may_be_any_object() {
    for revision in Revision::ALL {
        let answer = json!({ "resultType": "complete", "a": [1, { "b": null }], "": {} });
        let said = answer.clone();
        let (client, _peer) = Peer::connect(Client::builder(), revision, move |_| Some(said.clone())).await;
        let result = client.raw("x/y", &RawJson::empty_object()).await.unwrap();
        assert_eq!(result.to_value().unwrap(), answer, "{revision}");
    }
}

/// covers: LIFE-05
#[tokio::test(start_paused = true)]
async fn what_the_server_says_of_itself_is_there_for_the_model() {
    for revision in Revision::ALL {
        let (client, _peer) = Peer::connect(Client::builder(), revision, |_| None).await;
        assert_eq!(client.instructions(), Some("Ask nicely."), "{revision}");
    }
}

/// covers: PAGE-09 PAGE-10 PAGE-12 PRM-15
#[tokio::test(start_paused = true)]
async fn cursors_go_back_as_they_came_and_lists_may_have_none() {
    const CURSORS: [&str; 4] = ["", " {\"page\": 2} ", "\u{0} \u{2603} %20+/=", "null"];
    for revision in Revision::ALL {
        for pages in [0, CURSORS.len()] {
            let (client, peer) = Peer::connect(Client::builder(), revision, move |message| {
                let cursor = message["params"]["cursor"].as_str();
                let next = cursor.map_or(0, |cursor| CURSORS.iter().position(|known| *known == cursor).unwrap() + 1);
                let mut result = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                    "tools": [{ "name": "t", "inputSchema": { "type": "object" } }], "prompts": [{ "name": "p" }],
                    "resources": [{ "name": "r", "uri": "a://x" }],
                    "resourceTemplates": [{ "name": "r", "uriTemplate": "a://{x}" }] });
                if next < pages {
                    result["nextCursor"] = CURSORS[next].into();
                }
                Some(result)
            })
            .await;
            let all = [
                client.tools().all().await.unwrap().len(),
                client.prompts().all().await.unwrap().len(),
                client.resources().all().await.unwrap().len(),
                client.resource_templates().all().await.unwrap().len(),
            ];
            assert_eq!(all, [pages + 1; 4], "{revision}");
            assert_eq!(peer.count("prompts/list"), pages + 1);
        }
    }
}

/// covers: COMP-10 COMP-16
#[tokio::test(start_paused = true)]
async fn completion_sends_what_is_settled_and_takes_what_it_gets() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let capabilities = json!({ "completions": {} });
        let (client, peer) = Peer::connect_offering(Client::builder(), revision, &capabilities, |message| {
            let values = match message["params"]["argument"]["value"].as_str()? {
                "nothing" => json!([]),
                _ => json!(["Bern"]),
            };
            Some(json!({ "resultType": "complete", "completion": { "values": values } }))
        })
        .await;
        let params = |value: &str| -> CompleteParams {
            let reference = json!({ "type": "ref/prompt", "name": "p" });
            let settled = json!({ "arguments": { "country": "Switzerland" } });
            let argument = json!({ "name": "city", "value": value });
            serde_json::from_value(json!({ "ref": reference, "argument": argument, "context": settled }))
                .unwrap()
        };
        let partial = client.complete(&params("B")).await.unwrap().completion;
        assert_eq!((partial.values, partial.total, partial.has_more), (vec!["Bern".to_owned()], None, None));
        assert!(client.complete(&params("nothing")).await.unwrap().completion.values.is_empty());
        for asked in peer.wait_for(2, "completion/complete").await {
            assert_eq!(asked["params"]["context"], json!({ "arguments": { "country": "Switzerland" } }));
        }
    }
}

/// covers: TOOL-28
#[tokio::test(start_paused = true)]
async fn the_use_of_tools_is_logged_without_what_is_said() {
    let log = Log::new();
    for revision in Revision::ALL {
        let (client, _peer) = Peer::connect(Client::builder(), revision, |message| {
            match message["params"]["name"].as_str()? {
                "good" => done(),
                "bad" => Some(json!({ "resultType": "complete", "isError": true, "content": [] })),
                "none" => Some(json!({ "error": { "code": -32602, "message": "hidden" } })),
                _ => None,
            }
        })
        .await;
        for tool in ["good", "bad", "none", "slow"] {
            let _ = client.call(tool, json!({ "text": "hidden" })).timeout(Duration::from_secs(1)).await;
        }
    }
    for line in [
        "tool call succeeded tool=\"good\"",
        "tool call returned an error result tool=\"bad\"",
        "tool call rejected by the server tool=\"none\"",
        "tool call failed tool=\"slow\"",
    ] {
        assert_eq!(log.lines(line).len(), Revision::ALL.len(), "{line}");
    }
    assert!(log.lines("hidden").is_empty());
}

/// covers: ARCH-07
#[tokio::test(start_paused = true)]
async fn all_clones_of_a_client_share_one_session() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.is_legacy()) {
        let (client, peer) = Peer::connect(Client::builder(), revision, |_| done()).await;
        let calls = (0..10).map(|_| {
            let client = client.clone();
            async move { client.call("any", ()).await.unwrap() }
        });
        futures::future::join_all(calls).await;
        assert_eq!((peer.count("initialize"), peer.count("tools/call")), (1, 10));
    }
}

/// covers: MRTR-10 MRTR-07
#[tokio::test(start_paused = true)]
async fn what_one_call_was_asked_is_of_no_use_to_another() {
    let ask = |message: &Value| {
        let params = &message["params"];
        let name = params["name"].as_str().unwrap();
        if params.get("requestState").is_some() {
            return done();
        }
        let mut asked = json!({ "resultType": "input_required", "requestState": format!("state of {name}") });
        if name != "waits" {
            asked["inputRequests"] = json!({ name: { "method": "roots/list" } });
        }
        Some(asked)
    };
    let builder = Client::builder().roots(["file:///srv"]);
    let (client, peer) = Peer::connect(builder, Revision::LATEST, ask).await;
    let calls = ["one", "two", "waits"].map(|name| client.call(name, ()).into_future());
    for outcome in futures::future::join_all(calls).await {
        outcome.unwrap();
    }
    client.call("three", ()).await.unwrap();
    let rounds: Vec<Value> = peer.wait_for(8, "tools/call").await;
    for name in ["one", "two", "waits", "three"] {
        let of: Vec<&Value> =
            rounds.iter().map(|round| &round["params"]).filter(|params| params["name"] == name).collect();
        let [first, second] = of[..] else { panic!("{of:?}") };
        assert!(first.get("requestState").is_none() && first.get("inputResponses").is_none(), "{first}");
        assert_eq!(second["requestState"], format!("state of {name}"));
        let keys: Vec<&String> =
            second["inputResponses"].as_object().into_iter().flatten().map(|(key, _)| key).collect();
        assert_eq!(keys, if name == "waits" { vec![] } else { vec![name] });
    }
}

/// covers: SUBS-06 STDIO-18
#[tokio::test(start_paused = true)]
async fn several_subscriptions_each_hear_their_own() {
    let (client, peer) = Peer::connect(Client::builder(), Revision::LATEST, |_| None).await;
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = true;
    let mut open = Vec::new();
    for number in 1..=2 {
        let (client, filter) = (client.clone(), filter.clone());
        let listening = tokio::spawn(async move { client.listen(filter).await.unwrap() });
        let id = peer.wait_for(number, "subscriptions/listen").await[number - 1]["id"].clone();
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
        let honoured = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
        peer.tell("notifications/subscriptions/acknowledged", honoured).await;
        open.push((meta, listening.await.unwrap()));
    }
    let (second_meta, mut second) = open.pop().unwrap();
    let (first_meta, mut first) = open.pop().unwrap();
    assert_ne!(first_meta, second_meta);
    peer.tell("notifications/tools/list_changed", json!({ "_meta": second_meta })).await;
    assert_eq!(second.next().await, Some(Notification::ToolsListChanged));
    let nothing = tokio::time::timeout(Duration::from_secs(60), first.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    peer.tell("notifications/tools/list_changed", json!({ "_meta": first_meta })).await;
    assert_eq!(first.next().await, Some(Notification::ToolsListChanged));
}

/// A tool that asks a question reports its progress from the start again; the caller sees the progress of one call.
///
/// covers: PROG-05
#[tokio::test(start_paused = true)]
async fn progress_grows_across_rounds_and_ends_with_the_answer() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let server = Server::new("test", "1.0").tool("steps", |ctx: Context| async move {
            ctx.progress(1.0, Some(3.0), None);
            ctx.progress(2.0, Some(3.0), Some("asking"));
            tokio::task::yield_now().await;
            let roots = ctx.roots().await?;
            ctx.progress(3.0, Some(3.0), None);
            Ok::<_, hospes::Error>(roots.len())
        });
        let client =
            Client::builder().roots(["file:///srv"]).revision(revision).in_memory(server).await.unwrap();
        let heard = Mutex::new(Vec::new());
        let call = client.call("steps", ()).on_progress(|report| heard.lock().unwrap().push(report.progress));
        assert_eq!(call.await.unwrap().all_text(), "1", "{revision}");
        settle().await;
        assert_eq!(*heard.lock().unwrap(), [1.0, 2.0, 3.0], "{revision}");
    }
}

/// covers: CANC-10
#[tokio::test(start_paused = true)]
async fn reasons_of_cancellation_are_logged_on_both_sides() {
    let log = Log::new();
    let server = Server::new("test", "1.0").tool("hang", std::future::pending::<String>);
    let client = Client::builder().revision(Revision::V2025_11_25).in_memory(server).await.unwrap();
    let error = client.call("hang", ()).timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error}");
    settle().await;
    let lines = log.lines("no answer in time");
    assert_eq!(lines.len(), 2, "said by the client, heard by the server: {lines:#?}");
}

/// Every kind of request has a time limit, even if none is set.
///
/// covers: TIME-01
#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_without_end() {
    for revision in Revision::ALL {
        let capabilities = json!({ "tools": {}, "prompts": {}, "resources": { "subscribe": true },
            "logging": {}, "completions": {} });
        let (client, _peer) =
            Peer::connect_offering(Client::builder(), revision, &capabilities, |_| None).await;
        let over = |what: &str, ended: Result<(), CallError>| {
            let Err(CallError::Timeout { limit: TimeLimit::Timeout, after, .. }) = ended else {
                panic!("{what} in {revision}: {ended:?}")
            };
            assert_eq!(after, hospes::client::DEFAULT_TIMEOUT, "{what} in {revision}");
        };
        let completed: CompleteParams = serde_json::from_value(
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } }),
        )
        .unwrap();
        over("a call", client.call("t", ()).await.map(drop));
        over("a list", client.tools().all().await.map(drop));
        over("a prompt", client.prompt("p", [("a", "b")]).await.map(drop));
        over("a read", client.read("a://x").await.map(drop));
        over("a completion", client.complete(&completed).await.map(drop));
        if revision.is_legacy() {
            over("a ping", client.ping().await.map(drop));
            over("a level", client.set_log_level(LoggingLevel::Debug).await.map(drop));
        }
    }
}

/// covers: META-08
#[tokio::test(start_paused = true)]
async fn what_a_trace_is_continued_with_has_the_form_of_w3c() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (client, peer) = Peer::connect(Client::builder(), Revision::LATEST, |_| done()).await;
    let call =
        client.call("t", ()).meta("traceparent", &PARENT).meta("tracestate", &"rojo=00f067aa0ba902b7,t@v=1");
    call.meta("baggage", &"user=ann%20b;p=1 , k=v").await.unwrap();
    let sent = peer.wait_for(1, "tools/call").await[0]["params"]["_meta"].clone();
    assert_eq!(sent["traceparent"], PARENT);
    for (key, bad) in [
        ("traceparent", json!(1)),
        ("traceparent", json!("")),
        ("traceparent", json!(PARENT.to_uppercase())),
        ("traceparent", json!(PARENT.replace("00-", "ff-"))),
        ("traceparent", json!(format!("{PARENT}-more"))),
        ("traceparent", json!("00-00000000000000000000000000000000-b7ad6b7169203331-01")),
        ("traceparent", json!("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01")),
        ("traceparent", json!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033-01")),
        ("tracestate", json!("no pair")),
        ("tracestate", json!("UPPER=1")),
        ("tracestate", json!("a=b=c")),
        ("baggage", json!("no pair")),
        ("baggage", json!("a b=1")),
        ("baggage", json!("a=\u{e9}")),
        ("baggage", json!({ "a": 1 })),
    ] {
        let error = client.call("t", ()).meta(key, &bad).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Arguments(why) if why.to_string().contains(key)),
            "{bad}: {error}"
        );
    }
    assert_eq!(peer.count("tools/call"), 1);
}
