//! Additions of servers, with a program that is scripted.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::Notify;

use super::*;
use crate::{
    AddedServer, AdditionFailure, AdditionOffer, AdditionOutcome, AdditionPerson, AdditionPlan,
    AdditionQuestion, AdditionQuestions, AdditionScreen, AdditionSignIn, ConsoleEnvironment, OfferedItem,
    ServerAdder, WantedServer, WantedUpdate,
};

const SECRET: &str = "hunter2-and-more";

/// Asks all that can be asked. Counts what is not removed yet.
#[derive(Debug, Default)]
struct ScriptedAdder {
    unfinished: Arc<AtomicUsize>,
    ended: Arc<Notify>,
}

/// Something that an addition makes and removes.
struct Leftover(Arc<AtomicUsize>, Arc<Notify>);

impl Drop for Leftover {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        self.1.notify_one();
    }
}

fn cancelled() -> AdditionFailure {
    AdditionFailure { message: "cancelled".to_owned(), hint: None }
}

async fn run(wanted: WantedServer, person: Arc<AdditionPerson>) -> Result<AddedServer, AdditionFailure> {
    assert!(wanted.by.starts_with("the person at the console, browser session "), "{}", wanted.by);
    assert_ne!(wanted.name, "io.github.x/panics", "as demanded");
    let question = AdditionQuestion {
        id: "TOKEN".to_owned(),
        description: String::new(),
        kind: "secret",
        choices: Vec::new(),
        is_required: true,
        is_repeated: false,
        default: None,
        placeholder: None,
        target: None,
    };
    let questions = AdditionQuestions { questions: vec![question], ..AdditionQuestions::default() };
    let answers = person.ask(&questions).await.ok_or_else(cancelled)?;
    let token = answers["TOKEN"][0].clone();
    let plan = AdditionPlan {
        screen: AdditionScreen { title: format!("runs with {token}"), rows: Vec::new() },
        server: "x".to_owned(),
        sandbox: Some("reads nothing".to_owned()),
        is_installed: true,
        other_packages: Vec::new(),
    };
    let is_confined = person.ask_start(&plan).await.ok_or_else(cancelled)?;
    person.show_step(&format!("starting with {token}, confined: {is_confined}"));
    if token == "refused" {
        let message = format!("the server says: {token} is refused");
        return Err(AdditionFailure { message, hint: Some("try another".to_owned()) });
    }
    let url = format!("https://login.example/?hint={token}");
    person.show_sign_in(&AdditionSignIn { host: "x.example".to_owned(), url }).await;
    let item = OfferedItem {
        kind: "tool".to_owned(),
        name: "now".to_owned(),
        findings: Vec::new(),
        definition: Some(json!({ "description": format!("says {token}"), token: 1 })),
    };
    let offer = AdditionOffer { screen: AdditionScreen::default(), findings: Vec::new(), items: vec![item] };
    person.ask_acceptance(&offer).await.ok_or_else(cancelled)?;
    Ok(AddedServer { server: "x".to_owned(), file: "config.toml".to_owned(), example: None })
}

impl ServerAdder for ScriptedAdder {
    fn search(&self, words: String) -> crate::SetupOutcome {
        Box::pin(async move { Ok(json!({ "words": words })) })
    }

    fn add(&self, wanted: WantedServer, person: Arc<AdditionPerson>) -> AdditionOutcome {
        self.unfinished.fetch_add(1, Ordering::SeqCst);
        let leftover = Leftover(Arc::clone(&self.unfinished), Arc::clone(&self.ended));
        Box::pin(async move {
            let outcome = run(wanted, person).await;
            drop(leftover);
            outcome
        })
    }

    fn update(&self, wanted: WantedUpdate, person: Arc<AdditionPerson>) -> AdditionOutcome {
        Box::pin(async move {
            assert!(wanted.by.starts_with("the person at the console, browser session "), "{}", wanted.by);
            person.hide(SECRET);
            let screen = AdditionScreen { title: format!("{} with {SECRET}", wanted.name), rows: Vec::new() };
            let offer = AdditionOffer { screen, findings: Vec::new(), items: Vec::new() };
            person.ask_acceptance(&offer).await.ok_or_else(cancelled)?;
            Ok(AddedServer { server: wanted.name, file: "config.toml".to_owned(), example: None })
        })
    }
}

/// A console whose program adds servers by the script.
struct AddingHouse {
    listening: ConsoleServer,
    adder: Arc<ScriptedAdder>,
    _host: Host,
}

impl AddingHouse {
    async fn new() -> Self {
        let config = ConfigLoader::new().parse("h.toml", "").unwrap();
        let host = Host::builder(config).start().unwrap();
        let adder = Arc::new(ScriptedAdder::default());
        let environment = ConsoleEnvironment::default().adder(Arc::<ScriptedAdder>::clone(&adder));
        let deciders = DeciderSettings::new(DecisionSource::Browser);
        let console = Console::in_environment(&host, SessionLifetimes::default(), deciders, environment);
        let listening = console.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self { listening, adder, _host: host }
    }

    /// Waits until nothing of any addition is left.
    async fn is_clean(&self) {
        let clean = async {
            while self.adder.unfinished.load(Ordering::SeqCst) > 0 {
                self.adder.ended.notified().await;
            }
        };
        tokio::time::timeout(LIMIT, clean).await.expect("everything is removed");
    }
}

/// The lines of an answer, as they come.
pub(super) struct Lines(Pin<Box<BufReader<TcpStream>>>);

impl Lines {
    async fn begin(browser: &Browser, server: &str) -> Self {
        Self::open(browser, "/api/additions", json!({ "server": server })).await
    }

    pub(super) async fn open(browser: &Browser, path: &str, body: Value) -> Self {
        let body = body.to_string();
        let mut stream = TcpStream::connect(browser.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            browser.address,
            browser.headers(),
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self(Box::pin(BufReader::new(stream)))
    }

    /// Waits for the next line. `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let next = async {
            let mut line = String::new();
            loop {
                line.clear();
                // The last chunk is empty.
                if self.0.read_line(&mut line).await.unwrap_or_default() == 0 || line == "0\r\n" {
                    return None;
                }
                if line.starts_with('{') {
                    assert!(!line.contains(SECRET), "{line}");
                    return Some(serde_json::from_str(&line).unwrap());
                }
            }
        };
        tokio::time::timeout(LIMIT, next).await.expect("a line")
    }

    /// Waits for a line of this kind.
    pub(super) async fn until(&mut self, event: &str) -> Value {
        loop {
            let line = self.next().await.unwrap_or_else(|| panic!("no {event}"));
            if line["event"] == event {
                return line;
            }
        }
    }
}

async fn answer(browser: &Browser, id: &Value, action: &str, body: Value) -> Answer {
    browser.post(&format!("/api/additions/{}/{action}", id.as_str().unwrap()), body).await
}

#[tokio::test]
async fn a_server_is_added_after_three_answers_and_secrets_do_not_come_back() {
    let house = AddingHouse::new().await;
    let browser = let_in(&house.listening).await;
    let mut lines = Lines::begin(&browser, "io.github.x/y").await;
    let id = lines.until("begun").await["id"].clone();
    assert_eq!(lines.until("questions").await["questions"][0]["id"], "TOKEN");
    assert_eq!(answer(&browser, &id, "accept", json!({})).await.code(), "not-asked");
    assert_eq!(
        answer(&browser, &json!("other"), "answers", json!({ "answers": {} })).await.code(),
        "not-asked"
    );
    let answered = answer(&browser, &id, "answers", json!({ "answers": { "TOKEN": [SECRET] } })).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let plan = lines.until("plan").await;
    assert_eq!(
        (&plan["screen"]["title"], &plan["sandbox"]),
        (&json!("runs with •••"), &json!("reads nothing"))
    );
    assert_eq!(answer(&browser, &id, "start", json!({ "isConfined": true })).await.status, 200);
    assert_eq!(lines.until("step").await["text"], "starting with •••, confined: true");
    let sign_in = lines.until("signIn").await;
    assert_eq!(
        (&sign_in["host"], &sign_in["url"]),
        (&json!("x.example"), &json!("https://login.example/?hint=•••"))
    );
    let offer = lines.until("offer").await;
    assert_eq!(offer["items"][0]["definition"], json!({ "description": "says •••", "•••": 1 }));
    assert_eq!(answer(&browser, &id, "accept", json!({})).await.status, 200);
    assert_eq!(lines.until("added").await["server"], "x");
    assert_eq!(lines.next().await, None, "the stream ends with the last line");
    house.is_clean().await;
    // The next one can begin.
    Lines::begin(&browser, "io.github.x/y").await.until("questions").await;
}

#[tokio::test]
async fn an_update_is_answered_as_an_addition_and_there_is_one_of_both() {
    let house = AddingHouse::new().await;
    let browser = let_in(&house.listening).await;
    let mut lines = Lines::open(&browser, "/api/updates", json!({ "server": "clock" })).await;
    let id = lines.until("begun").await["id"].clone();
    // A secret of the store is hidden as one that was typed.
    assert_eq!(lines.until("offer").await["screen"]["title"], "clock with •••");
    let second = browser.post("/api/additions", json!({ "server": "io.github.x/z" })).await;
    assert_eq!((second.status, second.code()), (409, "adding".to_owned()));
    assert_eq!(answer(&browser, &id, "accept", json!({})).await.status, 200);
    assert_eq!(lines.until("added").await["server"], "clock");
    assert_eq!(browser.post("/api/updates", json!({ "server": "" })).await.code(), "misread");
    let stranger = Browser { key: "x".to_owned(), ..browser };
    assert_eq!(stranger.post("/api/updates", json!({ "server": "clock" })).await.status, 401);
}

#[tokio::test]
async fn a_page_that_is_left_ends_its_addition() {
    let house = AddingHouse::new().await;
    let browser = let_in(&house.listening).await;
    let mut lines = Lines::begin(&browser, "io.github.x/y").await;
    lines.until("questions").await;
    let second = browser.post("/api/additions", json!({ "server": "io.github.x/z" })).await;
    assert_eq!((second.status, second.code()), (409, "adding".to_owned()));
    // Another session has its own.
    let other = let_in(&house.listening).await;
    let mut others = Lines::begin(&other, "io.github.x/z").await;
    let id = others.until("begun").await["id"].clone();
    others.until("questions").await;
    assert_eq!(answer(&browser, &id, "answers", json!({ "answers": {} })).await.code(), "not-asked");
    drop((lines, others));
    house.is_clean().await;
    // The second begins even if the first is noticed only now.
    let mut lines = Lines::begin(&browser, "io.github.x/y").await;
    lines.until("questions").await;
    assert_eq!(browser.post("/api/additions/end", json!({})).await.json()["ended"], true);
    assert_eq!(lines.until("failed").await["message"], "cancelled");
    house.is_clean().await;
    assert_eq!(browser.post("/api/additions/end", json!({})).await.json()["ended"], false);
}

#[tokio::test]
async fn the_end_of_the_session_ends_its_addition() {
    let house = AddingHouse::new().await;
    let browser = let_in(&house.listening).await;
    let mut lines = Lines::begin(&browser, "io.github.x/y").await;
    lines.until("questions").await;
    assert_eq!(browser.post("/api/sessions/end", json!({})).await.status, 200);
    assert_eq!(lines.next().await, None);
    house.is_clean().await;
}

#[tokio::test]
async fn a_failure_is_told_without_the_secret_and_a_panic_ends_only_its_addition() {
    let house = AddingHouse::new().await;
    let browser = let_in(&house.listening).await;
    let mut lines = Lines::begin(&browser, "io.github.x/y").await;
    let id = lines.until("begun").await["id"].clone();
    lines.until("questions").await;
    answer(&browser, &id, "answers", json!({ "answers": { "TOKEN": ["refused"] } })).await;
    lines.until("plan").await;
    answer(&browser, &id, "start", json!({ "isConfined": false })).await;
    let failed = lines.until("failed").await;
    assert_eq!(
        (&failed["message"], &failed["hint"]),
        (&json!("the server says: ••• is •••"), &json!("try another"))
    );
    assert_eq!(Lines::begin(&browser, "io.github.x/panics").await.until("begun").await["event"], "begun");
    house.is_clean().await;
    Lines::begin(&browser, "io.github.x/y").await.until("questions").await;
}

#[tokio::test]
async fn only_names_of_a_registry_begin_an_addition_and_only_in_a_session() {
    let house = AddingHouse::new().await;
    let browser = let_in(&house.listening).await;
    let long = format!("a/{}", "x".repeat(300));
    for name in ["", "npm:x", "a", "a b/c", "https://x.example/mcp", "../x;y/z", "a/\u{202e}b", long.as_str()]
    {
        let refused = browser.post("/api/additions", json!({ "server": name })).await;
        assert_eq!(refused.code(), "misread", "{name}: {refused:?}");
    }
    let values: Vec<&str> = vec!["x"; 300];
    let many = browser.post("/api/additions/x/answers", json!({ "answers": { "a": values } })).await;
    assert_eq!(many.code(), "misread");
    let large =
        browser.post("/api/additions/x/answers", json!({ "answers": { "a": ["x".repeat(300_000)] } })).await;
    assert_eq!(large.code(), "misread", "{}", large.status);
    let found = browser.get("/api/registry/servers?words=%20clock%20").await;
    assert_eq!(found.json()["words"], "clock");
    assert_eq!(browser.get("/api/registry/servers?words=").await.code(), "misread");
    assert_eq!(
        browser.get(&format!("/api/registry/servers?words={}", "x".repeat(300))).await.code(),
        "misread"
    );
    let stranger = Browser { key: "x".to_owned(), ..browser };
    for path in ["/api/additions", "/api/additions/end", "/api/additions/x/accept"] {
        assert_eq!(stranger.post(path, json!({ "server": "a/b" })).await.status, 401, "{path}");
    }
    assert_eq!(stranger.get("/api/registry/servers?words=x").await.status, 401);
    assert_eq!(house.adder.unfinished.load(Ordering::SeqCst), 0);
}
