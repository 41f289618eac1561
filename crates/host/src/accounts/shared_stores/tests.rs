//! Accounts of nodes that share a real PostgreSQL database.

use std::sync::atomic::{AtomicUsize, Ordering};

use hospes::client::{Authorizer as _, OutboundRequest};
use hospes_auth::Scopes;
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_oauth::pending::check_pending_conformance;
use hospes_oauth::{OAuthClient, check_store_conformance};
use hospes_store::PostgresSettings;
use http::Method;
use http::header::AUTHORIZATION;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::*;

const NAME: &str = "tokens https://site.example/mcp#ann";

struct Database(PostgresServer);

impl Database {
    fn start() -> Self {
        Self(PostgresServer::start(PostgresOptions::default()))
    }

    async fn state(&self) -> StateStore {
        let mut settings = PostgresSettings::new(self.0.url().into());
        // Several servers start at the same time, perhaps on a busy machine.
        (settings.connect_timeout, settings.retry_timeout) =
            (Duration::from_secs(20), Duration::from_secs(60));
        StateStore::connect(settings, vec![[7; 32].into()]).await.unwrap()
    }

    /// Store of another node.
    async fn store(&self) -> Arc<SharedCredentialStore> {
        Arc::new(SharedCredentialStore::new(&self.state().await).unwrap().unwrap())
    }

    async fn store_with_lease(&self, lease: Duration) -> Arc<SharedCredentialStore> {
        let store = SharedCredentialStore::new(&self.state().await).unwrap().unwrap();
        Arc::new(store.lease(lease))
    }

    async fn pending(&self) -> SharedPendingStore {
        SharedPendingStore::new(&self.state().await).unwrap().unwrap()
    }

    /// All rows of the tables, as the database has them.
    fn rows(&self) -> String {
        ["credentials", "credential_leases", "pending_documents"]
            .map(|table| {
                self.0.query(&format!("SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t"))
            })
            .join(" ")
    }
}

/// Runs an operation of a store where it may block.
async fn blocking<T: Send + 'static>(
    store: &Arc<SharedCredentialStore>,
    work: impl FnOnce(&SharedCredentialStore) -> T + Send + 'static,
) -> T {
    let store = Arc::clone(store);
    tokio::task::spawn_blocking(move || work(&store)).await.unwrap()
}

async fn read(store: &Arc<SharedCredentialStore>) -> Option<String> {
    let found = blocking(store, |store| store.read(NAME).unwrap()).await;
    found.map(|document| document.expose_secret().to_owned())
}

async fn write(store: &Arc<SharedCredentialStore>, text: &'static str) -> Result<(), StepError> {
    blocking(store, |store| store.write(NAME, &text.into())).await
}

async fn lock(store: &Arc<SharedCredentialStore>, name: &'static str) -> Box<dyn Send> {
    blocking(store, |store| store.lock(name).unwrap().unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_of_nodes_keep_what_stores_promise_and_show_nothing_in_clear() {
    let database = Database::start();
    let (one, other) = (database.store().await, database.store().await);
    blocking(&one, |store| check_store_conformance(store)).await;
    let pending = database.pending().await;
    check_pending_conformance(&pending).await;

    write(&one, "s3cret").await.unwrap();
    assert_eq!(read(&other).await.as_deref(), Some("s3cret"));
    let limits = PendingLimits { family: 1, all: 1, removes_oldest: false };
    let new = |lifetime| NewPendingDocument {
        kind: PendingKind::SignIn,
        id: "s3cret-state".into(),
        family: "site.example ann".into(),
        body: "s3cret-verifier".into(),
        lifetime,
    };
    pending.add(new(Duration::from_millis(1)), limits).await.unwrap();
    eventually("it has expired", async || {
        pending.find(PendingKind::SignIn, "s3cret-state").await.unwrap().is_none().then_some(())
    })
    .await;
    // What has expired takes no room.
    assert_eq!(pending.add(new(Duration::from_secs(60)), limits).await.unwrap(), AddPendingResult::Added);
    let _lock = lock(&one, NAME).await;
    let rows = database.rows();
    assert!(rows.len() > 300, "{rows}");
    for secret in ["s3cret", "site.example", "tokens"] {
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(!rows.contains(secret) && !rows.contains(&hex), "{secret} in {rows}");
    }
    // A row that was put in the place of another is not taken for it.
    blocking(&one, |store| store.write("tokens other", &"other".into()).unwrap()).await;
    let _ =
        database.0.query("UPDATE credentials SET body = (SELECT body FROM credentials ORDER BY key LIMIT 1)");
    let both = [NAME, "tokens other"];
    let mut readable = 0;
    for name in both {
        readable += usize::from(blocking(&other, move |store| store.read(name).is_ok()).await);
    }
    assert_eq!(readable, 1, "the other one cannot be decrypted");

    let large = "x".repeat(MAX_CREDENTIAL_BYTES + 1);
    let refused = blocking(&one, move |store| store.write("tokens large", &large.into()).unwrap_err()).await;
    assert!(refused.to_string().contains(&MAX_CREDENTIAL_BYTES.to_string()), "{refused}");
}

/// One slow authorization server does not keep the tokens of others from being renewed.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_of_one_document_and_one_node() {
    let database = Database::start();
    let (one, other) = (database.store().await, database.store().await);
    let held = lock(&one, NAME).await;
    drop(lock(&other, "tokens of another").await);
    let mut waiting = tokio::spawn({
        let other = Arc::clone(&other);
        async move { lock(&other, NAME).await }
    });
    // Long enough to get a lock that is free.
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "the other node waits");
    write(&one, "renewed").await.unwrap();
    write(&one, "renewed again").await.unwrap();
    drop(held);
    let _lock = waiting.await.unwrap();
    assert_eq!(read(&other).await.as_deref(), Some("renewed again"));
}

/// A node ends, or stands still, while it renews tokens. Another one goes on, and what the first one writes too late is
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_end_of_a_lease_another_node_goes_on_and_the_late_one_writes_nothing() {
    let database = Database::start();
    let late = database.store_with_lease(Duration::from_millis(300)).await;
    let other = database.store().await;
    write(&other, "old").await.unwrap();
    let lost = lock(&late, NAME).await;
    // Until its end it is nobody else's, and it is not released.
    let begun = Instant::now();
    let taken = lock(&other, NAME).await;
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    write(&other, "new").await.unwrap();
    let refused = write(&late, "late").await.unwrap_err();
    assert!(refused.is_superseded(), "{refused}");
    // Its end does not end the lease of the other.
    drop(lost);
    tokio::time::sleep(Duration::from_millis(50)).await;
    write(&other, "newer").await.unwrap();
    drop(taken);
    assert_eq!(read(&other).await.as_deref(), Some("newer"));

    // Nobody has taken the lease, but somebody has signed out, or in, without it.
    let lost = lock(&late, NAME).await;
    blocking(&other, |store| store.remove(NAME).unwrap()).await;
    assert!(write(&late, "late").await.unwrap_err().is_superseded());
    assert_eq!(read(&late).await, None);
    drop(lost);
    let kept = lock(&late, NAME).await;
    write(&late, "after a sign-in").await.unwrap();
    drop(kept);
    assert_eq!(read(&other).await.as_deref(), Some("after a sign-in"));
}

/// Authorization server that counts the renewals. It answers each when it is told to.
struct TokenServer {
    url: String,
    requests: Arc<AtomicUsize>,
    arrived: Arc<Notify>,
    go: Arc<Notify>,
}

impl TokenServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, arrived, go) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let server = Self { url, requests, arrived, go };
        let (requests, arrived, go) =
            (Arc::clone(&server.requests), Arc::clone(&server.arrived), Arc::clone(&server.go));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (arrived, go, requests) = (Arc::clone(&arrived), Arc::clone(&go), Arc::clone(&requests));
                tokio::spawn(async move {
                    let mut request = vec![0; 4096];
                    let _ = stream.read(&mut request).await;
                    let number = requests.fetch_add(1, Ordering::SeqCst) + 1;
                    arrived.notify_one();
                    go.notified().await;
                    let body = json!({
                        "access_token": format!("access {number}"), "refresh_token": format!("refresh {number}"),
                        "token_type": "Bearer", "expires_in": 3600,
                    });
                    let body = body.to_string();
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                    let text = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    let _ = stream.write_all(text.as_bytes()).await;
                });
            }
        });
        server
    }

    /// Stores tokens that have expired, as an earlier sign-in has left them.
    async fn store_expired(&self, store: &Arc<SharedCredentialStore>) {
        let url = self.mcp();
        let scopes = Scopes::parse("read");
        let tokens = json!({
            "issuer": self.url, "resource": url, "token_endpoint": format!("{}/token", self.url),
            "client": { "id": "i", "method": "none" }, "access": "access 0", "refresh": "refresh 0",
            "granted": scopes, "requested": scopes, "issued_at": 1, "expires_at": 2,
        });
        let name = format!("tokens {url}");
        blocking(store, move |store| store.write(&name, &tokens.to_string().into()).unwrap()).await;
    }

    fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }

    /// Client of a node, which renews the tokens for its next request.
    fn client(&self, store: &Arc<SharedCredentialStore>) -> OAuthClient {
        let shared: Arc<dyn CredentialStore> = Arc::<SharedCredentialStore>::clone(store);
        OAuthClient::builder(&self.mcp()).unwrap().store(shared).build()
    }
}

/// Returns the token that the next request of a client shows.
async fn shown(client: OAuthClient, url: String) -> Option<String> {
    let url = url::Url::parse(&url).unwrap();
    let headers = client.headers(OutboundRequest::new(&Method::POST, &url)).await.unwrap();
    headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
}

/// Several nodes have a request when the tokens have expired.
#[tokio::test(flavor = "multi_thread")]
async fn one_node_renews_the_tokens_and_the_others_read_them() {
    let (database, server) = (Database::start(), TokenServer::start().await);
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(database.store().await);
    }
    server.store_expired(&nodes[0]).await;
    let requests: Vec<_> =
        nodes.iter().map(|store| tokio::spawn(shown(server.client(store), server.mcp()))).collect();
    server.arrived.notified().await;
    // Long enough for the others to send theirs.
    let more = tokio::time::timeout(Duration::from_millis(300), server.arrived.notified()).await;
    assert!(more.is_err(), "another node renews the tokens, too");
    server.go.notify_one();
    for request in requests {
        assert_eq!(request.await.unwrap().as_deref(), Some("Bearer access 1"));
    }
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

/// The node that renews stands still for longer than its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_renewal_does_not_replace_that_of_another_node() {
    let (database, server) = (Database::start(), TokenServer::start().await);
    let late = database.store_with_lease(Duration::from_millis(300)).await;
    let other = database.store().await;
    server.store_expired(&other).await;
    let first = server.client(&late);
    let late_request = tokio::spawn(shown(first.clone(), server.mcp()));
    server.arrived.notified().await;
    let second = tokio::spawn(shown(server.client(&other), server.mcp()));
    server.arrived.notified().await;
    assert_eq!(server.requests.load(Ordering::SeqCst), 2);
    // The first one is answered while the second one has the lease.
    server.go.notify_one();
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.go.notify_one();
    assert_eq!(second.await.unwrap().as_deref(), Some("Bearer access 2"));
    assert_eq!(late_request.await.unwrap().as_deref(), Some("Bearer access 2"));
    let now = shown(server.client(&other), server.mcp()).await;
    assert_eq!(now.as_deref(), Some("Bearer access 2"), "the tokens of the one that had the lease");
    assert_eq!(shown(first, server.mcp()).await, now);
}

/// A sign-out at one node is seen at the others, which need not ask the database before every request.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_tells_of_changes_by_other_nodes() {
    let database = Database::start();
    let (one, other) = (database.store().await, database.store().await);
    let mut changes = CredentialStore::changes(&*other).unwrap();
    changes.mark_unchanged();
    write(&one, "s3cret").await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), changes.changed()).await.expect("a change").unwrap();
    changes.mark_unchanged();
    blocking(&one, |store| store.remove(NAME).unwrap()).await;
    tokio::time::timeout(Duration::from_secs(10), changes.changed()).await.expect("a change").unwrap();
    assert_eq!(read(&other).await, None);
}
