//! Tests of era detection.

use super::*;

/// covers: VER-20 VER-21 SSE-12
#[tokio::test]
async fn an_older_server_is_found_behind_its_refusal_of_a_modern_question() {
    for refusal in [400, 404, 405, 500] {
        let inner = legacy(|asked| Said::json(&text(asked, "hi")));
        let fake = Fake::serve(move |asked| match asked.method() {
            "server/discover" => Said::status(refusal).text("Bad Request: no valid session ID provided"),
            _ => inner(asked),
        })
        .await;
        let client = Client::connect(&fake.url).await.unwrap();
        assert_eq!(client.revision(), Revision::V2025_11_25, "{refusal}");
    }
    let fake = Fake::serve(|_| Said::status(404).text("Cannot POST /mcp")).await;
    let error = Client::connect(&fake.url).await.unwrap_err();
    assert_eq!(error.status, Some(404));
    assert!(error.hint.as_ref().unwrap().contains("path"), "{error}");
    assert_eq!(error.tried.len(), 3, "{error}");
}

/// covers: VER-13
#[tokio::test]
async fn a_modern_server_that_names_its_revisions_is_asked_again() {
    let refused = AtomicUsize::new(0);
    let inner = modern(|asked| Said::json(&text(asked, "hi")));
    let fake = Fake::serve(move |asked| {
        if refused.fetch_add(1, Ordering::Relaxed) == 0 {
            let error = json!({ "code": -32022, "message": "no", "data": { "supported": ["2026-07-28"] } });
            return Said::json(&json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error }))
                .with_status(400);
        }
        inner(asked)
    })
    .await;
    let client = Client::connect(&fake.url).await.unwrap();
    assert_eq!(client.revision(), Revision::V2026_07_28);
    let methods: Vec<String> = fake.asked().iter().map(|asked| asked.method().to_owned()).collect();
    assert_eq!(methods, ["server/discover", "server/discover"]);
}

#[tokio::test]
async fn a_server_that_never_answers_is_said_to_be_silent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let hasty = Client::builder().connect_timeout(Duration::from_millis(400));
    let error = hasty.connect(Target::url(url)).await.unwrap_err();
    assert_eq!(error.stage, ConnectStage::Initialize);
    assert!(error.what.contains("no response"), "{error}");
    assert!(!error.to_string().contains("command"), "there is none to run: {error}");
}
