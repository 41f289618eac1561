//! `hospes state migrate` moves the state of a host into a real PostgreSQL, and nodes go on with it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use hospes_store::StateStore;
use hospes_store::grants::NewGrant;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::support::{House, LIMIT, Ran, Running, eventually, text};

const SECRET: &str = "a secret of all nodes, of 32 or more";
const MIGRATE: [&str; 6] = ["state", "migrate", "--from", "sqlite", "--to", "postgres"];

/// Host whose state moves, and the engines of the fleet that takes it over.
struct MovingHost {
    house: House,
    address: SocketAddr,
    postgres: PostgresServer,
    redis: RedisServer,
}

impl MovingHost {
    fn new() -> Self {
        // Free again when the listener is dropped.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let house = House::new().with_token();
        house.write("rules.toml", "[[rule]]\ndecide = 'ask'\n");
        Self {
            house,
            address,
            postgres: PostgresServer::start(PostgresOptions::default()),
            redis: RedisServer::start(RedisOptions::default()),
        }
    }

    /// The configuration of the host, or of a node in its place.
    fn config(&self, is_node: bool) -> String {
        let server = self.house.server("one", &["quick"], "");
        let fleet = match is_node {
            true => self.fleet_table(),
            false => String::new(),
        };
        let text = format!(
            "{fleet}[auth]\nbase_url = \"http://{}\"\n[auth.clients.machine]\nsecret = \"the-secret\"\n\
             [servers.one]\ncommand = [\"sh\", {}]\n",
            self.address, server["args"][0],
        );
        let name = if is_node { "node.toml" } else { "host.toml" };
        self.house.write(name, &text).to_string_lossy().into_owned()
    }

    fn fleet_table(&self) -> String {
        format!(
            "[fleet]\nsecret = {SECRET:?}\npostgres = {:?}\nredis = {:?}\n\
             node_listen = \"127.0.0.1:0\"\n",
            self.postgres.url(),
            self.redis.url(),
        )
    }

    fn up(&self, is_node: bool) -> Running {
        let (config, rules) = (self.config(is_node), text(&self.house.path("rules.toml")));
        let address = self.address.to_string();
        let console = ["--console", "127.0.0.1:0", "--policy", &rules];
        let args = ["up", "--listen", &address, "--config", &config];
        let host = Running::start(self.house.command(&[&args[..], &console].concat()));
        host.said(|line| line.contains("event=ready"));
        host
    }

    /// Gets a token of the client `machine`.
    fn token(&self) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let (body, credentials) = ("grant_type=client_credentials", STANDARD.encode("machine:the-secret"));
        write!(
            stream,
            "POST /token HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic {credentials}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
        body["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn call_args(&self, token: &str) -> [String; 5] {
        let endpoint = format!("http://{}/mcp", self.address);
        ["call", &endpoint, "one__quick", "-H", &format!("Authorization: Bearer {token}")].map(str::to_owned)
    }

    fn call(&self, token: &str) -> Ran {
        let args = self.call_args(token);
        self.house.run(&args.each_ref().map(String::as_str))
    }

    fn migrate(&self, more: &[&str]) -> Ran {
        let config = self.config(true);
        self.house.run(&[&MIGRATE[..], &["--config", &config], more].concat())
    }

    fn database(&self, name: &str) -> rusqlite::Connection {
        rusqlite::Connection::open(self.state_file(name)).unwrap()
    }

    fn state_file(&self, name: &str) -> PathBuf {
        self.house.path("state/hospes").join(name)
    }

    /// Number of rows that other connections see.
    fn rows(&self, table: &str) -> String {
        self.postgres.query(&format!("SELECT count(*) FROM {table}"))
    }

    /// Accepts the server, and allows its tool for good.
    fn decide(&self, token: &str) {
        let listed = self.house.run(&["--json", "pins", "list"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"));
        let hash = listed[0]["hash"].as_str().unwrap();
        let accepted = self.house.run(&["pins", "accept", "one", "--hash", hash]);
        assert_eq!(accepted.code, Some(0), "{accepted:?}");
        let args = self.call_args(token);
        let mut waiting = Running::start(self.house.command(&args.each_ref().map(String::as_str)));
        let mut id = String::new();
        eventually("the approval is listed", || {
            let listed = self.house.run(&["approve", "--json", "--list"]).stdout;
            let first = listed.lines().next().map(|line| serde_json::from_str::<Value>(line).unwrap());
            id = first.and_then(|first| first["id"].as_str().map(str::to_owned)).unwrap_or_default();
            !id.is_empty()
        });
        let allowed = self.house.run(&["approve", "--allow", &id, "--always", "{}"]);
        assert_eq!(allowed.code, Some(0), "{allowed:?}");
        assert_eq!(waiting.wait(), Some(0));
    }
}

#[track_caller]
fn refused(ran: &Ran, why: &str) {
    assert!(ran.code == Some(1) && ran.stderr.contains(why), "{why}: {ran:?}");
}

#[test]
fn the_state_of_a_host_moves_into_a_fleet_once_and_as_a_whole() {
    let moving = MovingHost::new();
    let mut host = moving.up(false);
    let token = moving.token();
    moving.decide(&token);
    refused(&moving.migrate(&[]), "a host runs here");
    host.signal("-TERM");
    assert_eq!(host.wait(), Some(0));

    // The rehearsal changes nothing.
    let shown = moving.migrate(&["--dry-run"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for words in
        ["permissions", "sign-in records", "would move; nothing was changed", "The audit log stays where"]
    {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    assert_eq!(moving.postgres.query("SELECT to_regclass('grants') IS NULL"), "t");

    // A row that was not sealed with the key of the host is named.
    let forge = "INSERT INTO matters (id, until, matter) VALUES ('forged', 9000000000000000, x'00')";
    moving.database("state.db").execute(forge, ()).unwrap();
    let found = moving.migrate(&[]);
    refused(&found, "1 records cannot be decrypted");
    assert!(found.stdout.contains("cannot decrypt: id forged"), "{found:?}");
    moving.database("state.db").execute("DELETE FROM matters WHERE id = 'forged'", ()).unwrap();

    // Nodes must not run: they would go on with the key that they have read.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime.block_on(async {
        let settings = hospes_store::PostgresSettings::new(moving.postgres.url().into());
        StateStore::connect(settings, vec![state_secret()]).await.unwrap()
    });
    refused(&moving.migrate(&[]), "nodes use the database");
    drop((node, runtime));
    eventually("its connections are closed", || {
        let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hospes'";
        moving.postgres.query(open) == "0"
    });

    // Killed in the middle: another transaction holds a key of the last table but one.
    killed_in_the_middle(&moving);
    for table in ["grants", "pinned_servers", "pinned_items", "auth_records", "state_migrations"] {
        assert_eq!(moving.rows(table), "0", "{table}");
    }

    let moved = moving.migrate(&[]);
    assert_eq!(moved.code, Some(0), "{moved:?}");
    for words in ["verified", "sha256", "each table was read back and compared", "audit.db"] {
        assert!(moved.stdout.contains(words), "{words}: {}", moved.stdout);
    }
    assert_eq!((moving.rows("grants"), moving.rows("pinned_servers")), ("1".to_owned(), "1".to_owned()));
    let again = moving.migrate(&["--json"]);
    let said: Value = serde_json::from_str(&again.stdout).unwrap_or_else(|_| panic!("{again:?}"));
    assert!(
        again.code == Some(0) && said["moved_before"].is_string() && said["moved"] == json!(false),
        "{said}"
    );

    // The token signs in, the definition is accepted, and nobody is asked.
    let _node = moving.up(true);
    eventually("the node answers", || moving.call(&token).code == Some(0));
    let called = moving.call(&token);
    assert!(called.stdout.contains("one was called"), "{called:?}");

    // Another host cannot move into it.
    let other = House::new();
    let folder = other.path("state/hospes");
    std::fs::create_dir_all(&folder).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let state = StateStore::open(folder.join("state.db")).unwrap();
        let grant = NewGrant::new("g".to_owned(), "a grant".to_owned(), None);
        state.grants().insert(grant, None).await.unwrap();
    });
    let config = other.write("node.toml", &moving.fleet_table()).to_string_lossy().into_owned();
    let full = other.run(&[&MIGRATE[..], &["--config", &config, "--dry-run"]].concat());
    refused(&full, "the database is not empty");
    assert!(full.stderr.contains("grants 1") && full.stderr.contains("name a new database"), "{full:?}");
}

/// The secret of the state that nodes derive from theirs.
fn state_secret() -> Zeroizing<[u8; 32]> {
    let text = format!("hospes fleet state {}\n{SECRET}", SECRET.len());
    Zeroizing::new(Sha256::digest(text).into())
}

fn killed_in_the_middle(moving: &MovingHost) {
    let key: String = moving
        .database("auth.db")
        .query_row("SELECT key FROM records WHERE kind = 'access' LIMIT 1", (), |row| row.get(0))
        .unwrap();
    let held = format!(
        "INSERT INTO auth_records (kind, key, value, until) VALUES ('access', '{key}', '', 0); SELECT pg_sleep(60)"
    );
    let sessions = |what: &str| format!("FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {what}");
    let holder = sessions("query LIKE '%pg_sleep%'");
    thread::scope(|scope| {
        // It is ended, which is an error for its client.
        scope.spawn(|| std::panic::catch_unwind(|| moving.postgres.query(&held)).is_err());
        eventually("the row is held", || {
            moving.postgres.query(&format!("SELECT count(*) {holder} AND wait_event = 'PgSleep'")) == "1"
        });
        let config = moving.config(true);
        let args = [&MIGRATE[..], &["--config", &config]].concat();
        let mut running = Running::start(moving.house.command(&args));
        let waits = sessions("application_name = 'hospes state migrate' AND wait_event_type = 'Lock'");
        eventually("the copy is in the middle", || {
            assert!(running.child.try_wait().unwrap().is_none(), "it has ended");
            moving.postgres.query(&format!("SELECT count(*) {waits}")) == "1"
        });
        running.child.kill().unwrap();
        running.wait();
        let _ = moving.postgres.query(&format!("SELECT count(pg_terminate_backend(pid)) {holder}"));
    });
    let left = sessions("application_name = 'hospes state migrate'");
    eventually("its transaction is over", || {
        moving.postgres.query(&format!("SELECT count(*) {left}")) == "0"
    });
}
