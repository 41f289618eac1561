//! The console over real sockets.

mod additions;
mod approvals;
mod definitions;
mod door;
mod parts;
mod profiles;
mod rules;
mod server_commands;
mod server_settings;
mod team;
mod tool_calls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hospes::prelude::*;
use hospes_host::config::ConfigLoader;
use hospes_host::deciders::DecisionSource;
use hospes_host::{Host, PolicyEnforcer};
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::AuditLog;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{Console, ConsoleServer, DeciderSettings, SessionLifetimes};

/// Time limit of any step.
const LIMIT: Duration = Duration::from_secs(20);

/// A host with a console, and what it keeps.
struct House {
    host: Host,
    audit: AuditLog,
    listening: ConsoleServer,
    folder: TempDir,
}

/// Answer to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A browser that is let in: what it sends along.
#[derive(Clone, Debug)]
struct Browser {
    address: SocketAddr,
    cookie: String,
    key: String,
}

impl House {
    async fn new() -> Self {
        Self::with(SessionLifetimes::default(), "").await
    }

    async fn with(lifetimes: SessionLifetimes, policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
        let policy = Policy::read(policy, &PolicyEnvironment::default()).unwrap();
        let guard = PolicyEnforcer::new(policy).with_audit(audit.clone()).keeping_arguments(true);
        let config = ConfigLoader::new().parse("h.toml", "[servers.notes]\nbuiltin = \"notes\"").unwrap();
        let notes = |_: &str, _: &[String]| Ok(hospes::BoxService::new(notes()));
        let host = Host::builder(config).builtins(Arc::new(notes)).guard(Arc::new(guard)).start().unwrap();
        let console = Console::with(&host, lifetimes, DeciderSettings::new(DecisionSource::Programs));
        let listening = console.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self { host, audit, listening, folder }
    }

    async fn browser(&self) -> Browser {
        let_in(&self.listening).await
    }

    async fn open(&self, token: &str) -> Answer {
        open(&self.listening, token).await
    }

    /// Waits until the server is there.
    async fn ready(&self) {
        let mut seen = 0;
        while !self.host.status().is_healthy() {
            seen = self.host.changed(seen).await;
        }
    }
}

/// Keeps the audit log in this folder from being written until [`Self::mend`].
struct BrokenAudit(rusqlite::Connection);

impl BrokenAudit {
    fn new(folder: &TempDir) -> Self {
        let file = rusqlite::Connection::open(folder.path().join("audit.db")).unwrap();
        file.execute_batch("ALTER TABLE blocks RENAME TO elsewhere").unwrap();
        Self(file)
    }

    fn mend(self) {
        self.0.execute_batch("ALTER TABLE elsewhere RENAME TO blocks").unwrap();
    }
}

/// Lets a browser in.
async fn let_in(listening: &ConsoleServer) -> Browser {
    let answer = open(listening, &token(listening)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let key = answer.json()["key"].as_str().unwrap().to_owned();
    Browser { address: listening.local_addr(), cookie, key }
}

async fn open(listening: &ConsoleServer, token: &str) -> Answer {
    let body = json!({ "token": token }).to_string();
    let origin = listening.origin();
    send(listening.local_addr(), "POST", "/api/open", &format!("Origin: {origin}\r\n"), &body).await
}

fn token(listening: &ConsoleServer) -> String {
    let link = listening.link();
    let (page, token) = link.url().split_once('#').unwrap();
    assert_eq!(page, format!("{}/open", listening.origin()));
    token.to_owned()
}

impl Browser {
    fn headers(&self) -> String {
        format!(
            "Origin: http://{}\r\nCookie: {}\r\nX-Hospes-Key: {}\r\n",
            self.address, self.cookie, self.key
        )
    }

    async fn get(&self, path: &str) -> Answer {
        send(self.address, "GET", path, &self.headers(), "").await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        send(self.address, "POST", path, &self.headers(), &body.to_string()).await
    }
}

/// Sends a request written by hand, which may be malformed. `headers` may name another host.
async fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let text = format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let work = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    };
    tokio::time::timeout(LIMIT, work).await.expect("an answer")
}

/// A server with one tool that writes, and one that only looks.
fn notes() -> Server {
    #[derive(Deserialize, JsonSchema)]
    struct Note {
        path: String,
        text: String,
    }
    Server::new("notes", "1").tool("write", |Args(Note { path, text }): Args<Note>| async move {
        format!("{} bytes are in {path}", text.len())
    })
}
