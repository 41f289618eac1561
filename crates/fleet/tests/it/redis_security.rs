//! What the store can read, what it cannot change unseen, and how the connection is protected.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hospes_fleet::keys::{AttemptId, FlowKey, OnceKey};
use hospes_fleet::node::NodeRecord;
use hospes_fleet::redis::{RedisClientIdentity, RedisRelay, RedisSettings};
use hospes_fleet::relay::EngineFault;
use hospes_fleet::sealing::FleetKeys;
use hospes_fleet::session::{EntryKind, NewSession, SessionChange, SessionEntry, SessionKey, SessionState};
use hospes_fleet::stream::{EventKind, EventPosition, NewEvent, NewStream, PendingAnswer, StreamNumber};
use hospes_fleet::{Relay, RelayError};
use hospes_fleet_testkit::certificates::TestCertificates;
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};

use crate::fixture::{LIFETIME, TestNode, fleet_keys, redis_settings};

const STREAM: StreamNumber = StreamNumber { epoch: 1, counter: 1 };

/// Text that must not reach the store.
const SENTINEL: &str = "sentinel-4711";

/// All bytes of the files below a folder.
fn bytes_below(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        bytes.extend(if path.is_dir() { bytes_below(&path) } else { fs::read(path).unwrap() });
    }
    bytes
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// The file of all writes of the server has no text of a session in it.
#[tokio::test]
async fn the_store_sees_no_ids_names_or_payloads() {
    let mut options = RedisOptions::default();
    options.append_only = true;
    let server = RedisServer::start(options);
    let node =
        TestNode::join(Arc::new(RedisRelay::new(redis_settings(&server.url(), "h:"), fleet_keys()).unwrap()))
            .await;
    let relay = &*node.relay;
    let mut record = NodeRecord::new(node.id, SENTINEL);
    record.load = 1;
    relay.announce(&node.lease, &record).await.unwrap();
    let (session, owner) = (SessionKey::new(Some(SENTINEL), SENTINEL), node.first());
    relay.reserve(&session, &owner, &NewSession::pending(SENTINEL), LIFETIME).await.unwrap();
    let entry = SessionEntry::new(EntryKind::Upstream, SENTINEL, SENTINEL);
    let changes = [SessionChange::Body(SENTINEL.into()), SessionChange::Put(entry)];
    relay.change(&session, &owner, &changes).await.unwrap();
    let stream = NewStream::of_requests(STREAM, vec![PendingAnswer::new(SENTINEL, SENTINEL)]);
    relay.open_stream(&session, &owner, &stream).await.unwrap();
    let event = NewEvent::new(1, EventKind::Answer(SENTINEL), SENTINEL.as_bytes());
    relay.append(&session, &owner, STREAM, &event).await.unwrap();
    let text = SENTINEL.as_bytes();
    relay.once(&OnceKey::new(&[text]), &AttemptId::random(), LIFETIME).await.unwrap();
    relay.add_labels(&FlowKey::new(&[text]), &[SENTINEL], LIFETIME).await.unwrap();
    let written = bytes_below(server.folder());
    // The session and the event are there, under names that tell nothing.
    assert!(contains(&written, session.to_string().as_bytes()) && contains(&written, b"XADD"));
    assert!(!contains(&written, text));
    assert!(!contains(&written, &[7; 32]), "the key itself");
}

#[tokio::test]
async fn records_that_were_changed_or_moved_do_not_open() {
    let server = RedisServer::start(RedisOptions::default());
    let node =
        TestNode::join(Arc::new(RedisRelay::new(redis_settings(&server.url(), "h:"), fleet_keys()).unwrap()))
            .await;
    let (one, owner) = node.open("one").await;
    let (two, _) = node.open("two").await;
    for session in [&one, &two] {
        let stream = NewStream::of_requests(STREAM, vec![PendingAnswer::new("1", *b"")]);
        node.relay.open_stream(session, &owner, &stream).await.unwrap();
        let event = NewEvent::new(1, EventKind::Message, b"event");
        node.relay.append(session, &owner, STREAM, &event).await.unwrap();
    }
    let key = |session: &SessionKey, part: &str| format!("h:s:{{{session}}}{part}");
    // What an operator of the store could do: give a session the record and the events of another one.
    let copy = "redis.call('HSET', KEYS[2], 'body', redis.call('HGET', KEYS[1], 'body'))";
    let () = server.command(&["EVAL", copy, "2", &key(&one, ""), &key(&two, "")]);
    assert_eq!(node.relay.find(&two).await, Err(RelayError::Sealed));
    let () = server.command(&["COPY", &key(&one, ":e:1.1"), &key(&two, ":e:1.1"), "REPLACE"]);
    let read = node.relay.read(&two, STREAM, EventPosition::default(), 1).await;
    assert_eq!(read, Err(RelayError::Sealed));
    let () = server.command(&["COPY", &key(&one, ":o"), &key(&two, ":o"), "REPLACE"]);
    assert_eq!(node.relay.streams(&two).await, Err(RelayError::Sealed));
    // A node with other keys can use nothing; one that knows the key beside its own can.
    let with = |secrets: Vec<[u8; 32]>| {
        let keys = FleetKeys::new(secrets).unwrap();
        RedisRelay::new(redis_settings(&server.url(), "h:"), keys).unwrap()
    };
    assert_eq!(with(vec![[8; 32]]).find(&one).await, Err(RelayError::Sealed));
    assert_eq!(with(vec![[8; 32]]).nodes().await, Err(RelayError::Sealed));
    assert_eq!(with(vec![[8; 32], [7; 32]]).find(&one).await.unwrap().unwrap().body, b"body");
    assert!(FleetKeys::new([]).is_none());
}

fn tls_settings(server: &RedisServer, certificates: &TestCertificates) -> RedisSettings {
    let mut settings = redis_settings(&server.url(), "h:");
    settings.ca_pem = Some(certificates.ca_pem.clone().into_bytes());
    let certificate = certificates.client_pem.clone().into_bytes();
    let identity = RedisClientIdentity::new(certificate, certificates.client_key_pem.clone().into());
    settings.client_identity = Some(identity);
    // Handshakes are slow in a build for tests.
    settings.connect_timeout = Duration::from_secs(20);
    settings.response_timeout = Duration::from_secs(25);
    settings
}

/// Result of a lookup once the first attempt to connect has ended.
async fn look_up(settings: RedisSettings) -> Result<bool, RelayError> {
    let relay = RedisRelay::new(settings, fleet_keys()).unwrap();
    relay.find(&SessionKey::new(None, "s")).await.map(|found| found.is_some())
}

fn with_tls(certificates: TestCertificates) -> RedisServer {
    let mut options = RedisOptions::default();
    options.certificates = Some(certificates);
    RedisServer::start(options)
}

#[tokio::test]
async fn the_server_is_verified_and_verifies_its_client() {
    let server = with_tls(TestCertificates::issue("127.0.0.1"));
    let certificates = server.certificates().unwrap();
    let settings = tls_settings(&server, certificates);
    assert_eq!(look_up(settings.clone()).await, Ok(false));
    // Events, scripts and hints pass as well.
    let node = TestNode::join(Arc::new(RedisRelay::new(settings.clone(), fleet_keys()).unwrap())).await;
    node.open("s").await;

    let unavailable = Err(RelayError::Unavailable(EngineFault::NotConnected));
    let stranger = TestCertificates::issue("127.0.0.1");
    let mut wrong = settings.clone();
    wrong.ca_pem = Some(stranger.ca_pem.clone().into_bytes());
    assert_eq!(look_up(wrong).await, unavailable, "an authority that did not issue the server's certificate");
    let mut wrong = settings.clone();
    wrong.ca_pem = None;
    assert_eq!(look_up(wrong).await, unavailable, "the public authorities");
    let mut wrong = settings.clone();
    wrong.client_identity = None;
    assert_eq!(look_up(wrong).await, unavailable, "no certificate of the client");
    let mut wrong = tls_settings(&server, &stranger);
    wrong.ca_pem = settings.ca_pem.clone();
    assert_eq!(look_up(wrong).await, unavailable, "a client's certificate of another authority");
    let mut wrong = redis_settings(&server.url().replace("rediss", "redis"), "h:");
    wrong.connect_timeout = Duration::from_millis(200);
    assert_eq!(look_up(wrong).await, unavailable, "no TLS");
    assert_eq!(look_up(settings).await, Ok(false));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    // The harness itself verifies names, so this server is asked over a name that the certificate has.
    let certificates = TestCertificates::issue("127.0.0.1");
    let server = with_tls(certificates);
    let mut settings = tls_settings(&server, server.certificates().unwrap());
    settings.url = server.url().replace("127.0.0.1", "localhost").into();
    assert_eq!(look_up(settings).await, Err(RelayError::Unavailable(EngineFault::NotConnected)));
}

/// Log that a test reads.
#[derive(Clone, Default)]
struct LogText(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for LogText {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn passwords_are_checked_and_never_shown() {
    let log = LogText::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut options = RedisOptions::default();
    options.password = Some("right-4712".to_owned());
    let server = RedisServer::start(options);
    let right = redis_settings(&server.url(), "h:");
    assert_eq!(look_up(right.clone()).await, Ok(false));
    let refused = Err(RelayError::Unavailable(EngineFault::Authentication));
    for url in [server.url().replace("right-4712", "wrong-4713"), server.url().replace(":right-4712@", "")] {
        let wrong = redis_settings(&url, "h:");
        let relay = RedisRelay::new(wrong.clone(), fleet_keys()).unwrap();
        let found = relay.find(&SessionKey::new(None, "s")).await.map(|found| found.is_some());
        assert_eq!(found, refused);
        let shown = format!("{relay:?} {wrong:?} {found:?} {}", found.as_ref().unwrap_err());
        assert!(!shown.contains("471"), "{shown}");
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("cannot connect to the shared store"), "{text}");
    assert!(!text.contains("4712") && !text.contains("4713"), "{text}");
}

/// The rules of docs/fleet.md are enough, and leave nothing for the relay to complain about.
#[tokio::test]
async fn the_documented_rules_of_a_user_are_enough() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/fleet.md")).unwrap();
    let rules = page.lines().find(|line| line.starts_with("resetchannels ")).unwrap();
    let script = std::fs::read_to_string(root.join("deploy/compose/make-secrets.sh")).unwrap();
    assert!(
        script.contains(&format!("rules='{rules}'")),
        "make-secrets.sh has other rules than docs/fleet.md"
    );
    let server = RedisServer::start(RedisOptions::default().with("maxmemory-policy", "noeviction"));
    let rules: Vec<&str> = rules.split(' ').collect();
    let () = server.command(&[&["ACL", "SETUSER", "node", "on", ">secret"], rules.as_slice()].concat());
    let mut settings = redis_settings(&format!("redis://node:secret@127.0.0.1:{}", server.port()), "h:");
    settings.relay.lease = Duration::from_secs(1);
    settings.relay.max_replica_lag = Duration::ZERO;
    settings.relay.recovery_window = Duration::from_secs(2);
    let node = TestNode::join(Arc::new(RedisRelay::new(settings, fleet_keys()).unwrap())).await;
    let (session, owner) = node.open("s").await;
    node.relay.change(&session, &owner, &[SessionChange::State(SessionState::Closing)]).await.unwrap();
    let health = node.relay.health().await.unwrap();
    assert!(health.problems.is_empty(), "{health:?}");
}

/// A user without INFO and CONFIG: the relay works, says what is missing, and takes each connection for a new server.
#[tokio::test]
async fn a_user_with_few_permissions_is_enough() {
    let server = RedisServer::start(RedisOptions::default());
    let rules = ["~h:*", "&h:*", "+@all", "-info", "-config"];
    let () = server.command(&[&["ACL", "SETUSER", "node", "on", ">secret"], rules.as_slice()].concat());
    let mut settings = redis_settings(&format!("redis://node:secret@127.0.0.1:{}", server.port()), "h:");
    settings.relay.lease = Duration::from_secs(1);
    settings.relay.max_replica_lag = Duration::ZERO;
    settings.relay.recovery_window = Duration::from_secs(2);
    let node = TestNode::join(Arc::new(RedisRelay::new(settings, fleet_keys()).unwrap())).await;
    let (session, owner) = node.open("s").await;
    node.relay.change(&session, &owner, &[SessionChange::State(SessionState::Closing)]).await.unwrap();
    let health = node.relay.health().await.unwrap();
    assert!(health.problems.len() == 2 && health.problems[0].contains("+info"), "{health:?}");
    let settled = async || {
        let missing = SessionKey::new(None, "missing");
        eventually("the window ends", async || (node.relay.find(&missing).await == Ok(None)).then_some(()))
            .await;
    };
    settled().await;
    let _: u32 = server.command(&["CLIENT", "KILL", "USER", "node"]);
    eventually("the window opens", async || {
        node.relay.health().await.is_ok_and(|health| health.recovering.is_some()).then_some(())
    })
    .await;
    settled().await;
}
