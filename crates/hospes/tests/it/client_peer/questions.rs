//! Tests of a server's questions and their refusal.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hospes::Rate;
use hospes::client::{CallError, Client, ClientBuilder};
use hospes::model::{
    ClientCapabilities, CreateMessageResult, ElicitParams, ElicitResult, Meta, RawJson, Revision,
    SamplingMessageContentBlock, ToolUseContent,
};
use serde_json::{Value, json};

use crate::client_peer::{Log, Peer, settle};

fn form() -> Value {
    json!({ "message": "Who?", "requestedSchema": { "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string", "maxLength": 5 }, "age": { "type": "integer", "minimum": 0 },
        "colour": { "type": "string", "enum": ["red", "blue"], "default": "blue" },
    } } })
}

/// Creates a builder whose elicitation handler gives this answer.
fn saying(content: Value) -> ClientBuilder {
    Client::builder().elicitation(move |_| {
        let content = content.clone();
        async move { Ok(ElicitResult::accept(content.into())) }
    })
}

/// covers: ELIC-14 ELIC-16
#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_the_form_is_not_sent() {
    for (content, wrong) in [
        (json!({ "name": "ada" }), None),
        (json!({}), Some("`name` is missing")),
        (json!({ "name": "longer than that" }), Some("`name`")),
        (json!({ "name": "ada", "age": 1.5 }), Some("`age` must be a whole number")),
        (json!({ "name": "ada", "age": -1 }), Some("`age` must be at least 0")),
        (json!({ "name": "ada", "colour": "green" }), Some("`colour`")),
        (json!([1]), Some("it is not an object")),
    ] {
        for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
            let (_client, peer) = Peer::connect(saying(content.clone()), revision, |_| None).await;
            let answer = peer.ask("q", "elicitation/create", form()).await;
            match wrong {
                None => {
                    let filled_in = json!({ "name": "ada", "colour": "blue" });
                    assert_eq!(answer["result"], json!({ "action": "accept", "content": filled_in }));
                }
                Some(wrong) => {
                    assert_eq!(answer["error"]["code"], -32603, "{answer}");
                    assert!(answer["error"]["message"].as_str().unwrap().contains(wrong), "{answer}");
                }
            }
        }
        let asks = |message: &Value| {
            let done = message["params"].get("inputResponses").is_some();
            let questions = json!({ "who": { "method": "elicitation/create", "params": form() } });
            Some(match done {
                true => json!({ "resultType": "complete", "content": [] }),
                false => {
                    json!({ "resultType": "input_required", "requestState": "s", "inputRequests": questions })
                }
            })
        };
        let (client, peer) = Peer::connect(saying(content), Revision::LATEST, asks).await;
        let outcome = client.call("greet", ()).await;
        assert_eq!(peer.count("tools/call"), if wrong.is_some() { 1 } else { 2 });
        match wrong {
            None => assert!(outcome.is_ok(), "{outcome:?}"),
            Some(wrong) => {
                let error = outcome.unwrap_err();
                assert!(matches!(error, CallError::Refused { .. }), "{error}");
                assert!(error.to_string().contains(wrong), "{error}");
            }
        }
    }
}

/// covers: ELIC-05
#[tokio::test(start_paused = true)]
async fn only_an_accepted_form_has_content() {
    for action in ["decline", "cancel"] {
        let builder = Client::builder().elicitation(move |_| async move {
            Ok(ElicitResult::new(action.into()).with_content(RawJson::from(json!({ "name": "ada" }))))
        });
        let (_client, peer) = Peer::connect(builder, Revision::V2025_11_25, |_| None).await;
        let answer = peer.ask("q", "elicitation/create", form()).await;
        assert_eq!(answer["result"], json!({ "action": action }));
    }
}

fn page(url: &str, id: &str) -> Value {
    json!({ "mode": "url", "message": "Sign in", "url": url, "elicitationId": id })
}

/// covers: ELIC-22
#[tokio::test(start_paused = true)]
async fn completion_is_told_once_and_only_of_what_is_open() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let builder = Client::builder()
        .elicitation(|params| async move {
            let ElicitParams::Url(url) = params else { panic!("no URL") };
            Ok(if url.url.contains("no") {
                ElicitResult::decline()
            } else {
                ElicitResult::new("accept".into())
            })
        })
        .elicitation_urls()
        .on_elicitation_complete(move |id| heard.lock().unwrap().push(id.to_owned()));
    let (_client, peer) = Peer::connect(builder, Revision::V2025_11_25, |_| None).await;
    peer.ask("q1", "elicitation/create", page("https://example.com/yes", "open")).await;
    peer.ask("q2", "elicitation/create", page("https://example.com/no", "declined")).await;
    for id in ["unknown", "declined", "open", "open"] {
        peer.tell("notifications/elicitation/complete", json!({ "elicitationId": id })).await;
    }
    peer.tell("notifications/elicitation/complete", json!({ "no": "id" })).await;
    peer.ask("last", "ping", json!({})).await;
    assert_eq!(*told.lock().unwrap(), ["open"]);
}

/// covers: ELIC-28
#[tokio::test(start_paused = true)]
async fn a_url_is_for_a_person_and_is_never_fetched() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/sign-in", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let builder = move || {
        let counted = Arc::clone(&counted);
        let builder = Client::builder().elicitation(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(ElicitResult::new("accept".into())) }
        });
        builder.elicitation_urls()
    };
    let (client, peer) = Peer::connect(builder(), Revision::V2025_11_25, |_| None).await;
    let answer = peer.ask("q", "elicitation/create", page(&url, "e")).await;
    assert_eq!(answer["result"], json!({ "action": "accept" }));
    // Nobody is sent where no page of the web is.
    for odd in ["javascript:alert(1)", "file:///etc/passwd", "https://example.com@evil.test/", "nowhere"] {
        let answer = peer.ask(odd, "elicitation/create", page(odd, "e")).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    client.close().await;
    let question = json!({ "method": "elicitation/create", "params": { "mode": "url", "message": "Sign in", "url": url } });
    let asks = move |message: &Value| {
        Some(match message["params"].get("inputResponses").is_some() {
            true => json!({ "resultType": "complete", "content": [] }),
            false => json!({ "resultType": "input_required", "inputRequests": { "sign-in": question } }),
        })
    };
    let (client, _peer) = Peer::connect(builder(), Revision::LATEST, asks).await;
    client.call("files", ()).await.unwrap();
    client.close().await;
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    let fetched = listener.accept();
    assert_eq!(fetched.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

fn sampling(messages: &Value, more: &Value) -> Value {
    let mut params = json!({ "messages": messages, "maxTokens": 10 });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// A model that says what it was asked, and calls `tool` if that is not empty.
fn model(tool: &'static str) -> ClientBuilder {
    let builder = Client::builder().sampling(move |params| async move {
        let text = serde_json::to_string(&params.messages).unwrap();
        let mut blocks = vec![SamplingMessageContentBlock::text(text)];
        if !tool.is_empty() {
            let called = ToolUseContent::new("1", tool, RawJson::empty_object());
            let meta: Meta = serde_json::from_value(json!({ "example.com/trace": 7 })).unwrap();
            blocks.push(called.with_meta(meta).into());
        }
        Ok(CreateMessageResult::of("model", blocks))
    });
    builder.sampling_tools()
}

fn hello() -> Value {
    json!([{ "role": "user", "content": { "type": "text", "text": "hello" } }])
}

fn used(ids: &[&str]) -> Value {
    let content =
        |id: &&str| json!({ "type": "tool_use", "id": id, "name": "t", "input": {}, "_meta": { "k": id } });
    json!({ "role": "assistant", "content": ids.iter().map(content).collect::<Vec<_>>() })
}

fn results(ids: &[&str], more: &[Value]) -> Value {
    let content =
        |id: &&str| json!({ "type": "tool_result", "toolUseId": id, "content": [], "_meta": { "k": id } });
    let content: Vec<Value> = ids.iter().map(content).chain(more.iter().cloned()).collect();
    json!({ "role": "user", "content": content })
}

/// covers: SAMP-34
#[tokio::test(start_paused = true)]
async fn missing_and_mixed_tool_results_are_refused() {
    let (_client, peer) = Peer::connect(model(""), Revision::V2025_11_25, |_| None).await;
    let text = json!({ "type": "text", "text": "and now" });
    for (name, messages, good) in [
        ("both", json!([used(&["a", "b"]), results(&["b", "a"], &[])]), true),
        ("one is missing", json!([used(&["a", "b"]), results(&["a"], &[])]), false),
        ("all are", json!([used(&["a"]), { "role": "user", "content": text }]), false),
        ("at the end", json!([used(&["a"])]), false),
        ("mixed", json!([used(&["a"]), results(&["a"], &[text])]), false),
    ] {
        let answer = peer.ask(name, "sampling/createMessage", sampling(&messages, &json!({}))).await;
        assert_eq!(answer.get("result").is_some(), good, "{answer}");
        assert!(good || answer["error"]["code"] == -32602, "{answer}");
    }
}

/// covers: SAMP-35
#[tokio::test(start_paused = true)]
async fn the_model_keeps_to_the_choice_it_was_given() {
    let tools = json!([{ "name": "t", "inputSchema": { "type": "object" } }]);
    for (called, choice, good) in [
        ("", None, true),
        ("t", None, true),
        ("", Some("auto"), true),
        ("t", Some("auto"), true),
        ("", Some("required"), false),
        ("t", Some("required"), true),
        ("", Some("none"), true),
        ("t", Some("none"), false),
        ("other", None, false),
    ] {
        let mut more = json!({ "tools": tools });
        if let Some(choice) = choice {
            more["toolChoice"] = json!({ "mode": choice });
        }
        let params = sampling(&hello(), &more);
        let (_client, peer) = Peer::connect(model(called), Revision::V2025_11_25, |_| None).await;
        let answer = peer.ask("q", "sampling/createMessage", params.clone()).await;
        assert_eq!(answer.get("result").is_some(), good, "{called:?} {choice:?}: {answer}");
        let asks = move |message: &Value| {
            Some(match message["params"].get("inputResponses").is_some() {
                true => json!({ "resultType": "complete", "content": [] }),
                false => json!({ "resultType": "input_required",
                    "inputRequests": { "q": { "method": "sampling/createMessage", "params": params } } }),
            })
        };
        let (client, _peer) = Peer::connect(model(called), Revision::LATEST, asks).await;
        assert_eq!(client.call("think", ()).await.is_ok(), good, "{called:?} {choice:?}");
    }
}

/// Media sent to a model and received from it is checked by both the client and the server.
///
/// covers: SAMP-24
#[tokio::test(start_paused = true)]
async fn pictures_and_sounds_that_are_none_are_not_passed_on() {
    use hospes::model::{ImageContent, SamplingMessage};
    let long = "QUJD".repeat(2000);
    for (data, kind, good) in [
        ("QUJD", "image/png", true),
        (&*long, "image/png", true),
        (&*format!("{long}QQ=="), "image/png", true),
        (&*format!("{}QQ=={long}", &long[..4092]), "image/png", false),
        ("not Base64", "image/png", false),
        ("QUJ", "image/png", false),
        ("QUJD", "", false),
        ("QUJD", "png", false),
    ] {
        let sound = kind.replace("image", "audio");
        for (kind_of, kind) in [("image", kind), ("audio", &*sound)] {
            // To a model: the client refuses it.
            let said = json!({ "type": kind_of, "data": data, "mimeType": kind });
            let messages = json!([{ "role": "user", "content": said }]);
            let (_client, peer) = Peer::connect(model(""), Revision::V2025_11_25, |_| None).await;
            let answer = peer.ask("q", "sampling/createMessage", sampling(&messages, &json!({}))).await;
            assert_eq!(answer.get("result").is_some(), good, "{kind} {answer}");
            assert!(good || answer["error"]["code"] == -32602, "{answer}");
        }
        let picture = ImageContent::new(data, kind);
        // By a model: the client does not send it.
        let drawn = picture.clone();
        let drawing = move || {
            let drawn = drawn.clone();
            Client::builder().sampling(move |_| {
                let drawn = drawn.clone();
                async move { Ok(CreateMessageResult::of("m", vec![drawn.into()])) }
            })
        };
        let (_client, peer) = Peer::connect(drawing(), Revision::V2025_11_25, |_| None).await;
        let answer = peer.ask("q", "sampling/createMessage", sampling(&hello(), &json!({}))).await;
        assert_eq!(answer.get("result").is_some(), good, "{answer}");
        // To a model: the server does not ask it. By one: the server's tool is not told it.
        let server = hospes::Server::new("draws", "1")
            .tool("show", move |ctx: hospes::Context| {
                let picture = picture.clone();
                async move {
                    let shown = SamplingMessage::user(picture);
                    Ok::<_, hospes::Error>(ctx.sample([shown]).max_tokens(5).await?.text())
                }
            })
            .tool("draw", |ctx: hospes::Context| async move {
                let drawn = ctx.sample("a picture").max_tokens(5).await?;
                Ok::<_, hospes::Error>(format!("{} blocks", drawn.content.len()))
            });
        let shown = model("").in_memory(server.clone()).await.unwrap().call("show", ()).await.unwrap();
        assert_eq!(shown.is_error != Some(true), good, "{shown:?}");
        for revision in ["2025-11-25", "2026-07-28"] {
            let told = drawn_by_hand(&server, revision, data, kind).await;
            assert_eq!(told == "1 blocks", good, "{revision}: {told}");
        }
    }
}

/// Result of the tool `draw` when a raw client answers its question with this unchecked picture.
async fn drawn_by_hand(server: &hospes::Server, revision: &str, data: &str, kind: &str) -> String {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let (input, mut output) = tokio::io::split(hospes::transport::memory::serve(server.clone()));
    let mut lines = BufReader::new(input).lines();
    let mut send = async |message: Value| output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    let mut read =
        async || -> Value { serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap() };
    let answer = json!({ "role": "assistant", "model": "m",
        "content": { "type": "image", "data": data, "mimeType": kind } });
    let capabilities = json!({ "sampling": {} });
    let done = if revision == "2026-07-28" {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": capabilities });
        let mut params = json!({ "name": "draw", "arguments": {}, "_meta": meta });
        send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
        let asked = read().await["result"].clone();
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({ key: answer });
        send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })).await;
        read().await
    } else {
        let params = json!({ "protocolVersion": revision, "capabilities": capabilities,
            "clientInfo": { "name": "x", "version": "1" } });
        send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        read().await;
        send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let params = json!({ "name": "draw", "arguments": {} });
        send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
        let asked = read().await;
        assert_eq!(asked["method"], "sampling/createMessage", "{asked}");
        send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
        read().await
    };
    done["result"]["content"][0]["text"].as_str().map_or_else(|| done.to_string(), str::to_owned)
}

/// covers: MRTR-09
#[tokio::test(start_paused = true)]
async fn each_round_of_a_call_is_a_request_with_an_id_of_its_own() {
    let asks = |message: &Value| {
        let rounds = message["params"]["requestState"].as_str().map_or(0, |state| state.parse().unwrap());
        let question = json!({ "method": "elicitation/create", "params": form() });
        Some(match rounds {
            2 => json!({ "resultType": "complete", "content": [] }),
            _ => json!({ "resultType": "input_required", "requestState": (rounds + 1).to_string(),
                "inputRequests": { "who": question } }),
        })
    };
    let (client, peer) = Peer::connect(saying(json!({ "name": "ada" })), Revision::LATEST, asks).await;
    client.call("greet", ()).await.unwrap();
    // The same where the rounds are somebody else's.
    let capabilities = serde_json::from_value(json!({ "elicitation": {} })).unwrap();
    let front = Arc::new(hospes::Peer::new(Revision::LATEST, None, capabilities));
    let mut round = hospes::Round::default();
    loop {
        let context = hospes::Context::builder(Arc::clone(&front)).round(round).build();
        let params = json!({ "name": "greet", "arguments": {} }).into();
        let call = hospes::Call::new(hospes::model::Method::ToolsCall, params, context);
        let hospes::Outcome::InputRequired(questions) = hospes::Service::call(&client, call).await else {
            break;
        };
        round = questions.round;
        let answer = json!({ "action": "accept", "content": { "name": "ada" } });
        round.record_answers(questions.requests.into_iter().map(|(key, _)| (key, answer.clone().into())));
    }
    let calls = peer.wait_for(6, "tools/call").await;
    let ids: std::collections::HashSet<_> = calls.iter().map(|call| call["id"].to_string()).collect();
    assert_eq!((calls.len(), ids.len()), (6, 6), "{calls:?}");
}

/// covers: SAMP-37
#[tokio::test(start_paused = true)]
async fn metadata_of_tool_blocks_goes_to_the_model_and_comes_back() {
    let (_client, peer) = Peer::connect(model("t"), Revision::V2025_11_25, |_| None).await;
    let more = json!({ "tools": [{ "name": "t", "inputSchema": { "type": "object" } }] });
    let messages = json!([used(&["a"]), results(&["a"], &[])]);
    let answer = peer.ask("q", "sampling/createMessage", sampling(&messages, &more)).await;
    let [seen, called] = &answer["result"]["content"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!(called["_meta"], json!({ "example.com/trace": 7 }));
    let seen: Value = serde_json::from_str(seen["text"].as_str().unwrap()).unwrap();
    for (message, kind) in [(0, "tool_use"), (1, "tool_result")] {
        let content = &seen[message]["content"];
        let block = if content.is_array() { &content[0] } else { content };
        assert_eq!((&block["type"], &block["_meta"]), (&json!(kind), &json!({ "k": "a" })));
    }
}

/// covers: SAMP-26 ELIC-12
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_too_often_is_refused() {
    let builder =
        model("").elicitation(|_| async { Ok(ElicitResult::decline()) }).question_rate(Rate::per_minute(3));
    let (_client, peer) = Peer::connect(builder, Revision::V2025_11_25, |_| None).await;
    let ask = async |number: u32| {
        let id = |kind: &str| format!("{kind} {number}");
        let sampled = peer.ask(&id("sample"), "sampling/createMessage", sampling(&hello(), &json!({}))).await;
        let elicited = peer.ask(&id("elicit"), "elicitation/create", form()).await;
        for refused in [&sampled, &elicited].iter().filter_map(|answer| answer.get("error")) {
            assert!(refused["message"].as_str().unwrap().contains("question_rate"), "{refused}");
        }
        (sampled.get("result").is_some(), elicited.get("result").is_some())
    };
    for number in 0..3 {
        assert_eq!(ask(number).await, (true, true));
    }
    assert_eq!(ask(3).await, (false, false));
    // One more for each third of a minute.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(ask(4).await, (true, true));
    assert_eq!(ask(5).await, (false, false));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    for number in 6..9 {
        assert_eq!(ask(number).await, (true, true));
    }
    assert_eq!(ask(9).await, (false, false));
}

struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// covers: CANC-04 CANC-05 CANC-06 CANC-09 CANC-12
#[tokio::test(start_paused = true)]
async fn a_question_that_the_server_takes_back_gets_no_answer() {
    let log = Log::new();
    let stopped = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&stopped);
    let builder = Client::builder().sampling(move |_| {
        let guard = Dropped(Arc::clone(&seen));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let (_client, peer) = Peer::connect(builder, Revision::V2025_11_25, |_| None).await;
    let params = sampling(&hello(), &json!({}));
    peer.say(&json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params }))
        .await;
    settle().await;
    assert_eq!(stopped.load(Ordering::Relaxed), 0);
    let taken_back = json!({ "requestId": "q", "reason": "the person left" });
    for invalid in [json!({ "requestId": "unknown" }), json!({}), json!({ "requestId": null })] {
        peer.tell("notifications/cancelled", invalid).await;
    }
    for _ in 0..2 {
        peer.tell("notifications/cancelled", taken_back.clone()).await;
    }
    settle().await;
    assert_eq!(stopped.load(Ordering::Relaxed), 1);
    peer.ask("last", "ping", json!({})).await;
    assert!(peer.heard().iter().all(|message| message["id"] != "q"), "{:?}", peer.heard());
    assert_eq!(log.lines("the person left").len(), 1);
}

/// covers: STDIO-16
#[tokio::test(start_paused = true)]
async fn a_server_of_the_newest_revision_that_asks_all_the_same_hears_nothing() {
    let builder = saying(json!({ "name": "ada" })).roots(["file:///srv"]);
    let (client, peer) = Peer::connect(builder, Revision::LATEST, |_| {
        Some(json!({ "resultType": "complete", "content": [] }))
    })
    .await;
    for (method, params) in [
        ("ping", json!({})),
        ("roots/list", json!({})),
        ("elicitation/create", form()),
        ("mind/read", json!({})),
        ("elicitation/create", json!(5)),
    ] {
        peer.say(&json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params })).await;
    }
    peer.say(&json!({ "jsonrpc": "2.0", "id": null, "method": "ping" })).await;
    client.call("any", ()).await.unwrap();
    settle().await;
    let heard = peer.heard();
    assert!(heard.iter().all(|message| message.get("method").is_some()), "{heard:?}");
}

/// covers: ELIC-19
#[tokio::test(start_paused = true)]
async fn a_way_of_asking_that_was_not_declared_is_refused() {
    let url =
        || json!({ "mode": "url", "message": "Who?", "url": "https://example.com/", "elicitationId": "e" });
    for (declared, question) in
        [(json!({ "url": {} }), form()), (json!({}), url()), (json!({ "form": {} }), url())]
    {
        let capabilities: ClientCapabilities =
            serde_json::from_value(json!({ "elicitation": declared })).unwrap();
        let builder = saying(json!({ "name": "ada" })).capabilities(capabilities);
        let (_client, peer) = Peer::connect(builder, Revision::V2025_11_25, |_| None).await;
        let answer = peer.ask("q", "elicitation/create", question).await;
        assert_eq!(answer["error"]["code"], -32602, "{declared}: {answer}");
    }
}

/// covers: LIFE-09
#[tokio::test(start_paused = true)]
async fn a_client_says_what_the_agreed_revision_has_and_nothing_newer() {
    for revision in [Revision::V2024_11_05, Revision::V2025_03_26] {
        let builder = Client::builder()
            .roots(["/srv"])
            .elicitation(|_| async { Ok(ElicitResult::accept(json!({}).into())) })
            .sampling(|_| async {
                Ok(CreateMessageResult::new("m", SamplingMessageContentBlock::text("hi")))
            });
        let (client, peer) = Peer::connect(builder, revision, |_| Some(json!({}))).await;
        let introduction = &peer.wait_for(1, "initialize").await[0];
        assert_eq!(introduction["params"]["protocolVersion"], revision.as_str());
        let offered = &introduction["params"]["capabilities"];
        assert_eq!(*offered, json!({ "roots": { "listChanged": true }, "sampling": {} }), "{revision}");
        let form = json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } });
        let refused = peer.ask("q1", "elicitation/create", form).await;
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
        let message = json!({ "role": "user", "content": { "type": "text", "text": "hello" } });
        let answer =
            peer.ask("q2", "sampling/createMessage", json!({ "messages": [message], "maxTokens": 5 })).await;
        assert_eq!(answer["result"]["content"], json!({ "type": "text", "text": "hi" }), "{answer}");
        let error = client.call("any", ()).as_task().await.unwrap_err();
        assert!(matches!(error, CallError::NotInRevision { .. }), "{error}");
    }
}
