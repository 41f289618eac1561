//! Whole peers: the session machines against each other, the server against bytes, the client against bytes.

use std::time::Duration;

use arbitrary::Unstructured;
use bytes::Bytes;
use hospes::client::Client;
use hospes::prelude::*;
use hospes::transport::http_server::Endpoint;
use hospes::transport::memory;
use hospes::transport::stdio_server::StdioServer;
use hospes::{Call, Context, Outcome, Peer};
use hospes_model::{ClientCapabilities, Method, RequestId, Revision};
use hospes_proto::RevisionSet;
use hospes_proto::session::TimeLimits;
use hospes_testkit::{ClientCallEnd, MemoryPair, PairSide, UnknownMethodManner, transport};
use http_body_util::Full;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{http_rules, split_at_marker};

const SECOND: Duration = Duration::from_secs(1);
/// Maximum number of events.
const MAX_EVENTS: usize = 200;

/// Checks that, in any order of events, each call ends once with at most one answer, and that no state is left over.
pub(crate) fn sessions(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let _ = play(&mut input);
}

fn play(input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let revision = *input.choose(&Revision::ALL)?;
    let mut pair = MemoryPair::new(RevisionSet::only(revision), UnknownMethodManner::Proper);
    pair.connect();
    pair.traffic.piece = input.int_in_range(1..=200)?;
    let mut calls = Vec::new();
    let limits = |seconds: u32| TimeLimits {
        timeout: Some(SECOND * seconds),
        max_timeout: Some(SECOND * 2 * seconds),
    };
    for _ in 0..MAX_EVENTS {
        if input.is_empty() {
            break;
        }
        let now = pair.clock.now();
        match input.int_in_range(0..=7_u8)? {
            0 => calls.extend(pair.client.call(now, limits(input.int_in_range(1..=40)?))),
            1 => {
                if let Some(call) = calls.get(input.int_in_range(0..=7_usize)?) {
                    pair.client.cancel(*call);
                }
            }
            2 => {
                let position = input.int_in_range(0..=7_usize)?;
                let over = pair.server.held().get(position).is_none_or(|held| held.over);
                assert_eq!(pair.server.finish(position), !over);
            }
            3 => {
                pair.server.report(input.int_in_range(0..=7_usize)?, f64::from(input.arbitrary::<i16>()?));
            }
            4 => assert_eq!(pair.server.ask(now, limits(5)).is_ok(), revision.is_legacy()),
            5 => pair.advance(SECOND * input.int_in_range(0..=20_u32)?),
            side => {
                pair.clock.advance(pair.traffic.latency);
                pair.deliver(if side == 6 { PairSide::Client } else { PairSide::Server });
            }
        }
        pair.drive();
    }
    pair.settle();
    for position in 0..pair.server.held().len() {
        pair.server.finish(position);
    }
    pair.settle();
    assert!(pair.client.faults().is_empty(), "{:?}\n{}", pair.client.faults(), pair.record);
    assert_eq!(pair.client.waiting(), 0);
    assert!(pair.server.session().served().is_empty());
    for call in calls {
        let answers = pair.record.answers_to(PairSide::Server, &RequestId::Number(call));
        assert!(answers <= 1, "{answers} answers to {call}\n{}", pair.record);
        assert!(pair.client.end_of(call).is_some());
        if let Some(ClientCallEnd::Answered(_)) = pair.client.end_of(call) {
            assert_eq!(answers, 1);
        }
    }
    Ok(())
}

/// Time passes when nothing else can happen.
fn virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime can be had").block_on(future)
}

fn target() -> Server {
    #[derive(Deserialize, JsonSchema)]
    #[serde(crate = "hospes::serde")]
    #[expect(dead_code, reason = "only read from JSON")]
    struct Everything {
        text: String,
        number: i32,
        list: Vec<Option<f64>>,
        map: std::collections::BTreeMap<String, bool>,
    }
    use hospes::schemars;

    transport::server()
        .page_size(3)
        .tool("everything", |Args(_): Args<Everything>| async { "read" })
        .resource_template("x://{host}/{+path}{?query*}", |Uri(uri): Uri| async move { uri })
}

/// Any call with any params has an outcome: cursors, arguments, URIs, filters.
pub(crate) fn service(data: &[u8]) {
    const REQUEST_METHODS: [Method; 9] = [
        Method::ToolsCall,
        Method::ToolsList,
        Method::ResourcesList,
        Method::ResourceTemplatesList,
        Method::ResourcesRead,
        Method::PromptsGet,
        Method::Complete,
        Method::SubscriptionsListen,
        Method::Discover,
    ];
    let [which, params @ ..] = data else { return };
    let Ok(params) = RawJson::parse(params.to_vec()) else { return };
    let method = REQUEST_METHODS[usize::from(*which) % REQUEST_METHODS.len()].clone();
    let revision = Revision::ALL[usize::from(*which) / REQUEST_METHODS.len() % Revision::ALL.len()];
    virtual_time(async {
        let context = Context::new(Peer::new(revision, None, ClientCapabilities::default()).into());
        let server = target();
        let call = server.call(Call::new(method, params, context));
        if let Ok(Outcome::Failed(error)) = tokio::time::timeout(SECOND, call).await {
            assert!(!error.message.is_empty());
        }
    });
}

/// A server that reads any bytes says only messages, and ends when its client does.
pub(crate) fn server(data: &[u8]) {
    let said = virtual_time(async {
        let server = StdioServer::new(target()).max_message_bytes(4096).shutdown_timeout(SECOND);
        let (mut read, mut write) = tokio::io::split(memory::serve_with(server));
        let mut said = Vec::new();
        let speak = async {
            let _ = write.write_all(data).await;
            let _ = write.shutdown().await;
        };
        let listen = tokio::time::timeout(SECOND * 3600, read.read_to_end(&mut said));
        let (ended, ()) = tokio::join!(listen, speak);
        assert!(ended.is_ok(), "it did not end");
        said
    });
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: serde_json::Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(line)),
        };
        let all = match message {
            serde_json::Value::Array(all) => all,
            one => vec![one],
        };
        assert!(all.iter().all(|message| message["jsonrpc"] == "2.0"), "{all:?}");
    }
}

/// A client that reads any bytes connects or fails, and its calls end.
pub(crate) fn client(data: &[u8]) {
    virtual_time(async {
        let (ours, theirs) = memory::pair();
        let (mut read, mut write) = tokio::io::split(theirs);
        let said = data.to_vec();
        tokio::spawn(async move {
            let mut sink = vec![0; 4096];
            // Each thing that the client says is answered with the next piece.
            for piece in said.split_inclusive(|byte| *byte == b'\n') {
                if !matches!(read.read(&mut sink).await, Ok(1..)) || write.write_all(piece).await.is_err() {
                    return;
                }
            }
            while let Ok(1..) = read.read(&mut sink).await {}
        });
        let (read, write) = tokio::io::split(ours);
        let client = Client::builder().timeout(SECOND).connect_timeout(SECOND * 10).max_message_bytes(4096);
        let Ok(client) = client.over(read, write).await else { return };
        let used = async {
            let _ = client.tools().all().await;
            let _ = client.call("echo", json!({ "text": "x" })).await;
            let _ = client.resources().all().await;
            let _ = client.ping().await;
            client.close().await;
        };
        let ended = tokio::time::timeout(SECOND * 3600, used).await;
        assert!(ended.is_ok(), "its calls did not end");
    });
}

/// Any request to the endpoint has a response that is no server's error.
pub(crate) fn http_server(data: &[u8]) {
    let [verb, data @ ..] = data else { return };
    let (head, body) = split_at_marker(data);
    let verb = [http::Method::POST, http::Method::POST, http::Method::GET, http::Method::DELETE]
        [usize::from(*verb) % 4]
        .clone();
    let mut request = http::Request::new(Full::new(Bytes::copy_from_slice(body)));
    *request.method_mut() = verb;
    *request.uri_mut() = http::Uri::from_static("/mcp");
    *request.headers_mut() = http_rules::headers(head);
    virtual_time(async {
        let endpoint = Endpoint::builder(target()).max_message_bytes(4096).build();
        let answered = tokio::time::timeout(SECOND * 3600, endpoint.handle(request)).await;
        let Ok(response) = answered else { panic!("no response came") };
        assert!(!response.status().is_server_error(), "{}", response.status());
    });
}
