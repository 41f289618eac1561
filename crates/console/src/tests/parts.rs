//! Servers, activity, news, and the socket for programs.

use hospes_host::Sampler;
use hospes_store::{AuditEntry, AuditEntryKind, AuditOutcome};

use super::*;
use crate::{ClientError, ConsoleEnvironment, LocalConsole};

#[tokio::test]
async fn a_server_is_shown_with_what_it_offers_and_started_anew() {
    let house = House::new().await;
    house.ready().await;
    let browser = house.browser().await;
    let all = browser.get("/api/servers").await.json();
    assert_eq!(
        (&all["servers"][0]["name"], &all["servers"][0]["transport"]),
        (&json!("notes"), &json!("builtin"))
    );
    let one = browser.get("/api/servers/notes").await.json();
    assert_eq!(one["status"]["state"], "ready");
    assert_eq!(one["offers"]["tools"][0]["name"], "write");
    let before = house.host.changed(u64::MAX).await;
    assert_eq!(browser.post("/api/servers/notes/restart", json!({})).await.status, 200);
    tokio::time::timeout(LIMIT, house.host.changed(before)).await.expect("it is started anew");
    house.ready().await;
    assert_eq!(browser.get("/api/servers/none").await.code(), "nothing");
    assert_eq!(browser.post("/api/servers/none/restart", json!({})).await.code(), "nothing");
    assert_eq!(browser.post("/api/servers/notes/restart", json!({ "x": 1 })).await.code(), "misread");
    let said = browser.get("/api/activity?kind=server").await.json();
    let by = said["entries"][0]["entry"]["by"].as_str().unwrap();
    assert!(by.starts_with("the person at the console, browser session "), "{by}");
}

/// A person who follows an old link saw JSON.
#[tokio::test]
async fn an_unknown_page_is_a_page_and_an_unknown_route_is_not() {
    let house = House::new().await;
    let browser = house.browser().await;
    let html = format!("{}accept: text/html,application/xhtml+xml\r\n", browser.headers());
    let page = send(browser.address, "GET", "/no/such/page", &html, "").await;
    assert_eq!(page.status, 404);
    assert!(page.header("content-type").unwrap().starts_with("text/html"), "{page:?}");
    assert!(page.body.contains("<a href=\"/\">"), "{page:?}");
    assert!(page.header("content-security-policy").is_some());
    for (path, headers) in [("/no/such/page", browser.headers()), ("/api/nothing", html)] {
        let answer = send(browser.address, "GET", path, &headers, "").await;
        assert_eq!((answer.status, answer.code()), (404, "nothing".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn a_problem_with_the_record_is_shown() {
    let house = House::new().await;
    house.ready().await;
    let browser = house.browser().await;
    house.audit.record(AuditEntry::new(AuditEntryKind::Call)).await.unwrap();
    assert_eq!(browser.get("/api/servers").await.json().get("recordProblem"), None);
    let file = rusqlite::Connection::open(house.folder.path().join("audit.db")).unwrap();
    file.execute_batch("ALTER TABLE blocks RENAME TO elsewhere").unwrap();
    house.audit.record(AuditEntry::new(AuditEntryKind::Call)).await.unwrap_err();
    let said = browser.get("/api/servers").await.json();
    assert!(said["recordProblem"].as_str().unwrap().contains("cannot be written"), "{said}");
}

#[tokio::test]
async fn what_was_recorded_is_found_counted_and_opened() {
    let house = House::new().await;
    let browser = house.browser().await;
    for (tool, ending) in
        [("read", AuditOutcome::Done), ("write", AuditOutcome::Refused), ("write", AuditOutcome::Done)]
    {
        let mut entry = AuditEntry::new(AuditEntryKind::Call);
        (entry.server, entry.subject) = (Some("notes".to_owned()), Some(tool.to_owned()));
        (entry.ending, entry.micros) = (Some(ending), Some(1000));
        house.audit.seal(&mut entry, r#"{"path":"/a"}"#);
        house.audit.record(entry).await.unwrap();
    }
    let found = browser.get("/api/activity?kind=call&text=WRI").await.json();
    let entries = found["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{found}");
    let opened = browser.get(&format!("/api/activity/{}/arguments", entries[0]["seq"])).await.json();
    assert_eq!(opened["arguments"]["path"], "/a");
    let counted = browser.get("/api/activity/summary?kind=call").await.json();
    assert_eq!(
        (&counted["counted"], &counted["endings"]["done"], &counted["latency"]["p50"]),
        (&json!(3), &json!(2), &json!(1000))
    );
    let page =
        browser.get(&format!("/api/activity?kind=call&limit=1&before={}", entries[0]["seq"])).await.json();
    assert_eq!(page["entries"][0]["seq"], entries[1]["seq"]);
    assert_eq!(browser.get("/api/activity?kind=nothing").await.code(), "misread");
    assert_eq!(browser.get("/api/activity?sever=notes").await.code(), "misread");
    assert_eq!(browser.get("/api/activity/999/arguments").await.code(), "nothing");
}

#[tokio::test]
async fn repeated_failures_of_a_server_are_one_entry_where_that_is_wanted() {
    let house = House::new().await;
    let browser = house.browser().await;
    for at in 1..=30 {
        let mut entry = AuditEntry::new(AuditEntryKind::Server);
        (entry.server, entry.decision) = (Some("dead".to_owned()), Some("exited".to_owned()));
        (entry.ending, entry.at) = (Some(AuditOutcome::Failed), at * 1_000_000);
        house.audit.record(entry).await.unwrap();
    }
    let of = async |more: &str| browser.get(&format!("/api/activity?server=dead{more}")).await.json();
    let each = of("").await;
    assert_eq!(each["entries"].as_array().unwrap().len(), 30);
    assert_eq!(each["entries"][0].get("count"), None);
    let gathered = of("&gathered=true").await;
    let [one] = gathered["entries"].as_array().unwrap().as_slice() else { panic!("{gathered}") };
    assert_eq!((&one["count"], &one["firstAt"]), (&json!(30), &json!(1_000_000)));
    assert_eq!((&one["entry"]["at"], &one["seq"]), (&json!(30_000_000), &each["entries"][0]["seq"]));
}

#[tokio::test]
async fn where_no_model_is_configured_it_is_said() {
    let house = House::new().await;
    let browser = house.browser().await;
    assert_eq!(browser.get("/api/models").await.json(), json!({ "isOffered": false }));
    assert_eq!(browser.get("/models").await.status, 200, "the page has an address");
}

/// Everything that is configured, but nothing that is secret.
#[tokio::test]
async fn models_and_budgets_are_shown_without_their_keys() {
    let text = "[models.fast]\nprovider = 'openai'\nmodel = 'gpt-5-mini'\nbase_url = 'http://127.0.0.1:1/v1'\n\
        api_key = 'sk-hunter2'\nheaders = { X-Team = 'hunter2' }\naliases = ['claude-3-haiku']\n\
        prices = { input = 0.25, output = 2.0 }\ncontext = 400_000\n\
        [sampling.servers.notes]\ntokens = 1_000\nmoney = 1.5\nwindow = '2h'\ncalls = 3\n\
        [servers.notes]\nbuiltin = 'notes'";
    let mut config = ConfigLoader::new().parse("h.toml", text).unwrap();
    let sampler = Sampler::from_config(std::mem::take(&mut config.models)).unwrap();
    let notes = |_: &str, _: &[String]| Ok(hospes::BoxService::new(notes()));
    let host = Host::builder(config).builtins(Arc::new(notes)).sampler(Arc::new(sampler)).start().unwrap();
    let listening = Console::new(&host).listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let answer = let_in(&listening).await.get("/api/models").await;
    assert!(!answer.body.contains("hunter2"), "{answer:?}");
    let all = answer.json();
    let model = &all["models"][0];
    assert_eq!(
        (&all["isOffered"], &all["isKept"], &all["lately"]),
        (&json!(true), &json!(false), &json!([]))
    );
    assert_eq!(
        (&model["name"], &model["provider"], &model["model"]),
        (&json!("fast"), &json!("OpenAI"), &json!("gpt-5-mini"))
    );
    assert_eq!((&model["prices"], &model["context"]), (&json!(["0.25", "2.00"]), &json!(400_000)));
    let budget = &all["budgets"][0];
    assert_eq!((&budget["account"], &budget["leftMoney"]), (&json!("server:notes"), &json!("1.50")));
    assert_eq!(
        (&budget["allowance"]["windowMs"], &budget["allowance"]["calls"]),
        (&json!(7_200_000), &json!(3))
    );
}

#[tokio::test]
async fn programs_of_the_same_user_use_the_socket_and_get_links() {
    let mut house = House::new().await;
    let path = house.folder.path().join("console.sock");
    house.listening = house.listening.with_socket(&path).await.unwrap();
    // A named pipe is no file.
    #[cfg(unix)]
    assert!(!hospes_fs::is_open_to_others(&path).unwrap());
    let local = LocalConsole::at(&path);
    let mut news = local.follow().await.unwrap();
    assert_eq!(news.next().await.as_deref(), Some("hello"));
    let link: Value = local.post("links", &json!({})).await.unwrap();
    let token = link["url"].as_str().unwrap().split_once('#').unwrap().1;
    assert_eq!(house.open(token).await.status, 200);
    let heard = async { while news.next().await.expect("news") != "sessions" {} };
    tokio::time::timeout(LIMIT, heard).await.expect("a new session is told");
    let servers: Value = local.get("servers").await.unwrap();
    assert_eq!(servers["servers"][0]["name"], "notes");
    let refused = local.get::<Value>("servers/none").await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused { code, .. } if code == "nothing"), "{refused:?}");
    // Browsers get no links: who is let in lets nobody else in.
    let browser = house.browser().await;
    assert_eq!(browser.post("/api/links", json!({})).await.status, 404);
    drop(house.listening);
    assert!(!path.exists());
    assert!(matches!(local.get::<Value>("servers").await, Err(ClientError::Unreachable { .. })));
}

/// A process and a session have a quarter of the streams of their kind, and leave those of others alone.
#[tokio::test]
async fn one_client_cannot_take_all_event_streams() {
    let config = ConfigLoader::new().parse("h.toml", "").unwrap();
    let host = Host::builder(config).start().unwrap();
    let environment = ConsoleEnvironment::default().streams(Some(12));
    let deciders = DeciderSettings::default();
    let console = Console::in_environment(&host, SessionLifetimes::default(), deciders, environment);
    let listening = console.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("console.sock");
    let listening = listening.with_socket(&path).await.unwrap();
    let local = LocalConsole::at(&path);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(local.follow().await.unwrap());
    }
    let refused = local.follow().await.unwrap_err();
    assert!(
        matches!(&refused, ClientError::Refused { code, .. } if code == "too-many-streams"),
        "{refused:?}"
    );
    let said = refused.to_string();
    assert!(
        said.contains("at most 3 of one client") && said.contains("`console.max_streams` (12)"),
        "{said}"
    );

    let follow = async |browser: &Browser| {
        let mut stream = TcpStream::connect(browser.address).await.unwrap();
        let request = format!(
            "GET /api/events HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
            browser.address, browser.cookie
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        tokio::time::timeout(LIMIT, stream.read_exact(&mut start)).await.expect("an answer").unwrap();
        (stream, String::from_utf8_lossy(&start).into_owned())
    };
    let (one, other) = (let_in(&listening).await, let_in(&listening).await);
    let mut open = Vec::new();
    for browser in [&one, &one, &one, &other] {
        let (stream, status) = follow(browser).await;
        assert_eq!(status, "HTTP/1.1 200");
        open.push(stream);
    }
    assert_eq!(follow(&one).await.1, "HTTP/1.1 503");

    // The place of a stream that ends is free again.
    held.clear();
    let again = async {
        while local.follow().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, again).await.expect("a place is free");
    host.stop().await;
}

/// Connections that a process keeps open at the socket are bounded, too.
#[cfg(unix)]
#[tokio::test]
async fn one_process_cannot_take_all_connections_of_the_socket() {
    use tokio::net::UnixStream;

    let mut house = House::new().await;
    let path = house.folder.path().join("console.sock");
    house.listening = house.listening.with_socket(&path).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(UnixStream::connect(&path).await.unwrap());
    }
    // Those beyond the share of the process are closed, and none of them waits.
    let mut served = 0;
    for stream in &mut held {
        let mut start = [0; 12];
        let ask = async {
            stream.write_all(b"GET /api/console HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
            stream.read_exact(&mut start).await
        };
        if tokio::time::timeout(LIMIT, ask).await.expect("an answer or an end").is_ok() {
            assert_eq!(&start, b"HTTP/1.1 200");
            served += 1;
        }
    }
    assert_eq!(served, 32);
}

#[tokio::test]
async fn a_stream_ends_with_its_session() {
    let house = House::new().await;
    let browser = house.browser().await;
    let mut stream = TcpStream::connect(browser.address).await.unwrap();
    // What opens a stream in a browser sends no headers of ours.
    let request = format!(
        "GET /api/events HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
        browser.address, browser.cookie
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while !text.contains("event: hello") {
        let count = tokio::time::timeout(LIMIT, stream.read(&mut buffer)).await.unwrap().unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    browser.post("/api/sessions/end", json!({})).await;
    while !text.ends_with("0\r\n\r\n") {
        let count = tokio::time::timeout(LIMIT, stream.read(&mut buffer)).await.expect("it ends").unwrap();
        assert!(count > 0, "it ends in order: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
}
