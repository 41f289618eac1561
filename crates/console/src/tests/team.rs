//! A console for a team, at two nodes that share their state.

mod approvers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use hospes::transport::http_server::PrincipalGroups;
use hospes::{Call, Context, Outcome, Peer, Service as _};
use hospes_host::ApprovalQueue;
use hospes_host::approvals::{ApprovalNodes, EndedNodes};
use hospes_model::{ClientCapabilities, Implementation, Method, Reply, Revision};
use hospes_store::{AuditReader, StateStore};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::*;
use crate::access::{ENDPOINTS, EndpointAccess};
use crate::team::TeamPerson;
use crate::{
    BegunTeamSignIn, ClaimedPerson, ConsoleEnvironment, TeamConsole, TeamLogout, TeamRole, TeamRoles,
    TeamSignIn, TeamSignInError, TeamSignInFuture, TeamSignInResponse,
};

const ORIGIN: &str = "https://console.example";
const THERE: &str = "https://login.example";

/// A provider at which each name is a subject, with the groups that a test gives it.
#[derive(Default)]
struct Provider {
    groups: Mutex<BTreeMap<String, Value>>,
    begun: AtomicUsize,
    revoked: Mutex<Vec<String>>,
}

impl Provider {
    fn person(&self, subject: &str) -> ClaimedPerson {
        let mut claims = serde_json::Map::new();
        claims.insert("name".to_owned(), "The Same Name".into());
        if subject != "bob" {
            claims.insert("sid".to_owned(), format!("session of {subject}").into());
        }
        if let Some(groups) = self.groups.lock().get(subject) {
            claims.insert("groups".to_owned(), groups.clone());
        }
        let (issuer, subject) = (THERE.to_owned(), subject.to_owned());
        ClaimedPerson { issuer, refresh_token: Some(format!("token of {subject}")), subject, claims }
    }
}

impl TeamSignIn for Arc<Provider> {
    fn begin<'a>(&'a self, redirect_uri: &'a str) -> TeamSignInFuture<'a, BegunTeamSignIn> {
        assert_eq!(redirect_uri, "https://console.example/sign-in/callback");
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let (url, state) = (format!("{THERE}/authorize?state=state-{number}"), format!("state-{number}"));
        let (nonce, verifier) = (format!("nonce-{number}"), "verifier".to_owned());
        Box::pin(async move { Ok(BegunTeamSignIn { url, state, nonce, verifier }) })
    }

    fn finish<'a>(
        &'a self,
        response: &'a TeamSignInResponse,
        _: &'a str,
        nonce: &'a str,
        verifier: &'a str,
    ) -> TeamSignInFuture<'a, ClaimedPerson> {
        let state = response.state.clone().unwrap_or_default();
        assert_eq!((nonce, verifier), (&*state.replace("state", "nonce"), "verifier"));
        let person = match (&response.error, &response.code) {
            (None, Some(code)) => Ok(self.person(code)),
            _ => Err(TeamSignInError::Denied),
        };
        Box::pin(async move { person })
    }

    fn read_again<'a>(&'a self, _: &'a str, subject: &'a str) -> TeamSignInFuture<'a, ClaimedPerson> {
        let person = self.person(subject);
        Box::pin(async move { Ok(person) })
    }

    /// A token is JSON with the claims, and not signed.
    fn check_logout<'a>(&'a self, token: &'a str) -> TeamSignInFuture<'a, TeamLogout> {
        let logout = serde_json::from_str::<Value>(token).map(|claims| {
            let text = |name: &str| claims[name].as_str().map(str::to_owned);
            let (subject, session, id) = (text("sub"), text("sid"), text("jti").unwrap());
            let until = Timestamp::now() + SignedDuration::from_mins(6);
            TeamLogout { issuer: THERE.to_owned(), subject, session, id, until }
        });
        let logout = logout.map_err(|_| TeamSignInError::Refused("invalid signature".to_owned()));
        Box::pin(async move { logout })
    }

    fn revoke(&self, refresh_token: String) {
        self.revoked.lock().push(refresh_token);
    }
}

struct TestNode(&'static str);

impl ApprovalNodes for TestNode {
    fn node(&self) -> Option<String> {
        Some(self.0.to_owned())
    }

    fn ended(&self, _: Vec<String>) -> EndedNodes<'_> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Two nodes with one state.
struct Team {
    nodes: [(Host, ConsoleServer, AuditLog); 2],
    provider: Arc<Provider>,
    _folder: TempDir,
}

/// A browser in which a person is signed in.
#[derive(Clone, Debug)]
struct Person {
    cookie: String,
    key: String,
}

impl Team {
    async fn new() -> Self {
        Self::with_record(None).await
    }

    /// Two nodes with these rules.
    async fn with_rules(rules: &str) -> Self {
        Self::with(None, rules).await
    }

    /// Two nodes whose logs are shipped to one record.
    async fn with_record(record: Option<&AuditReader>) -> Self {
        Self::with(record, "[[rule]]\ndecide = 'ask'\nserver = 'notes'").await
    }

    async fn with(record: Option<&AuditReader>, rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let provider = Arc::new(Provider::default());
        let groups = [
            ("ann", json!(["staff"])),
            ("bob", json!(["staff"])),
            ("fay", json!(["finance", "reviewers"])),
            ("fred", json!(["staff", "finance"])),
            ("aud", json!(["audit", "finance"])),
            ("root", json!(["it"])),
            ("audrey", json!("audit")),
            ("guest", json!(["guests"])),
        ];
        *provider.groups.lock() = groups.map(|(name, groups)| (name.to_owned(), groups)).into();
        let nodes = [
            Self::node("one", &folder, &provider, (record, rules)).await,
            Self::node("two", &folder, &provider, (record, rules)).await,
        ];
        Self { nodes, provider, _folder: folder }
    }

    async fn node(
        name: &'static str,
        folder: &TempDir,
        provider: &Arc<Provider>,
        (record, rules): (Option<&AuditReader>, &str),
    ) -> (Host, ConsoleServer, AuditLog) {
        let file = |ending: &str| folder.path().join(format!("{name}.{ending}"));
        let audit = AuditLog::open(file("db"), file("key")).unwrap();
        let state = StateStore::open(folder.path().join("state.db")).unwrap();
        let queue = ApprovalQueue::open_shared(&state, Arc::new(TestNode(name))).await.unwrap();
        let policy = Policy::read(rules, &PolicyEnvironment::default());
        let guard = PolicyEnforcer::new(policy.unwrap()).with_audit(audit.clone()).keeping_arguments(true);
        let mut guard = guard.with_approvals(queue);
        if let Some(record) = record {
            guard = guard.with_shared_audit(record.clone());
        }
        let config = ConfigLoader::new().parse("h.toml", "[servers.notes]\nbuiltin = \"notes\"").unwrap();
        let notes = |_: &str, _: &[String]| Ok(hospes::BoxService::new(notes()));
        let host = Host::builder(config).builtins(Arc::new(notes)).guard(Arc::new(guard)).start().unwrap();
        let roles = TeamRoles::new(
            "groups",
            [
                (TeamRole::Member, vec!["staff".to_owned()]),
                (TeamRole::Approver, vec!["reviewers".to_owned()]),
                (TeamRole::Admin, vec!["it".to_owned()]),
                (TeamRole::Auditor, vec!["audit".to_owned()]),
            ],
        );
        let team = TeamConsole::new(
            ORIGIN,
            roles,
            Arc::new(principal),
            Arc::new(Arc::clone(provider)),
            state.console_sessions().unwrap(),
        );
        let environment = ConsoleEnvironment::default().team(Some(team.unwrap()));
        let deciders = DeciderSettings::new(DecisionSource::Programs);
        let console = Console::in_environment(&host, SessionLifetimes::default(), deciders, environment);
        let listening = console.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        (host, listening, audit)
    }

    async fn send(&self, node: usize, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let headers = match headers.contains("Host:") {
            true => headers.to_owned(),
            false => format!("Host: console.example\r\n{headers}"),
        };
        send(self.nodes[node].1.local_addr(), method, path, &headers, body).await
    }

    async fn get(&self, node: usize, person: &Person, path: &str) -> Answer {
        self.send(node, "GET", path, &format!("Cookie: {}\r\n", person.cookie), "").await
    }

    async fn post(&self, node: usize, person: &Person, path: &str, body: Value) -> Answer {
        self.send(node, "POST", path, &person.headers(), &body.to_string()).await
    }

    /// Begins a sign-in: the state, and the cookie of the browser.
    async fn begin(&self, node: usize) -> (String, String) {
        let begun = self.send(node, "POST", "/api/sign-in", PAGE, "{}").await;
        assert_eq!(begun.status, 200, "{begun:?}");
        let cookie = begun.header("set-cookie").unwrap();
        for part in ["__Host-hospes-console-sign-in=", "; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/"]
        {
            assert!(cookie.contains(part), "{cookie}");
        }
        let state = begun.json()["url"].as_str().unwrap().rsplit_once('=').unwrap().1.to_owned();
        (state, cookie.split(';').next().unwrap().to_owned())
    }

    async fn come_back(&self, node: usize, (state, cookie): (&str, &str), code: &str) -> Answer {
        let path = format!("/sign-in/callback?state={state}&code={code}");
        let headers =
            format!("Cookie: {cookie}\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: document\r\n");
        self.send(node, "GET", &path, &headers, "").await
    }

    /// Signs a person in: begun at one node, and ended at the other.
    async fn sign_in(&self, name: &str) -> Person {
        let (state, cookie) = self.begin(0).await;
        let back = self.come_back(1, (&state, &cookie), name).await;
        assert_eq!((back.status, back.header("location")), (303, Some("/")), "{back:?}");
        let cookies = back.head.lines().filter_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookies.into_iter().find(|cookie| cookie.starts_with("__Host-hospes-console=")).unwrap();
        for part in ["; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let mut person = Person { cookie: cookie.split(';').next().unwrap().to_owned(), key: String::new() };
        let about = self.get(0, &person, "/api/console").await.json();
        person.key = about["person"]["key"].as_str().unwrap().to_owned();
        person
    }

    /// Has an application of this person call a tool at a node, and waits until that is asked about.
    async fn call(&self, node: usize, name: Option<&str>) -> (String, JoinHandle<String>) {
        let host = &self.nodes[node].0;
        let mut seen = 0;
        while !host.status().is_healthy() {
            seen = host.changed(seen).await;
        }
        let queue = host.guard().unwrap().approvals().clone();
        let known: BTreeSet<String> = queue.pending().into_iter().map(|approval| approval.id).collect();
        let info = Implementation::new("app", "1");
        let peer = Peer::new(Revision::LATEST_LEGACY, Some(info), ClientCapabilities::default());
        let peer = match name {
            Some(name) => peer.with_principal(principal(THERE, name)),
            None => peer,
        };
        let params = json!({ "name": "notes__write", "arguments": { "path": "/a", "text": "x" } });
        let mut extensions = http::Extensions::new();
        extensions.insert(PrincipalGroups::new(["staff".to_owned(), "sales".to_owned()]));
        let context = Context::builder(Arc::new(peer)).extensions(extensions).build();
        let call = Call::new(Method::ToolsCall, params.into(), context);
        let gateway = host.gateway();
        let calling = tokio::spawn(async move {
            match gateway.call(call).await {
                Outcome::Complete(Reply::CallTool(result)) => result.all_text(),
                other => format!("{other:?}"),
            }
        });
        let mut changes = queue.subscribe();
        let fresh = || queue.pending().into_iter().find(|approval| !known.contains(&approval.id));
        let asked = async {
            loop {
                changes.mark_unchanged();
                if let Some(approval) = fresh() {
                    return approval.id;
                }
                changes.changed().await.unwrap();
            }
        };
        (tokio::time::timeout(LIMIT, asked).await.expect("it is asked about"), calling)
    }

    /// Waits until a person sees so many approvals at a node. Returns their ids.
    async fn sees(&self, node: usize, person: &Person, number: usize) -> Vec<String> {
        let mut changes = self.nodes[node].0.guard().unwrap().approvals().subscribe();
        let look = async {
            loop {
                changes.mark_unchanged();
                let all = self.get(node, person, "/api/approvals").await.json();
                let open = all["open"].as_array().unwrap();
                if open.len() == number {
                    return open.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
                }
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(LIMIT, look).await.expect("so many approvals")
    }
}

fn principal(issuer: &str, subject: &str) -> String {
    format!("{issuer} user {subject}")
}

/// Headers of a page of the console.
const PAGE: &str = "Origin: https://console.example\r\nSec-Fetch-Site: same-origin\r\n";

impl Person {
    fn headers(&self) -> String {
        format!("{PAGE}Cookie: {}\r\nX-Hospes-Key: {}\r\n", self.cookie, self.key)
    }
}

/// People see and decide what is their own, at whatever node their browser is; the rest does not exist for them.
#[tokio::test]
async fn everybody_sees_and_decides_their_own_approvals_at_any_node() {
    let team = Team::new().await;
    let (ann, bob, root) = (team.sign_in("ann").await, team.sign_in("bob").await, team.sign_in("root").await);
    let (of_ann, call_of_ann) = team.call(0, Some("ann")).await;
    let (of_bob, call_of_bob) = team.call(1, Some("bob")).await;
    let (of_nobody, call_of_nobody) = team.call(0, None).await;
    for node in [0, 1] {
        assert_eq!(team.sees(node, &ann, 1).await, std::slice::from_ref(&of_ann));
        assert_eq!(team.sees(node, &bob, 1).await, std::slice::from_ref(&of_bob));
        assert!(team.sees(node, &root, 0).await.is_empty(), "an administrator decides for nobody");
    }
    // Ids of others are as unknown as those that do not exist.
    for (person, id) in [(&ann, &of_bob), (&bob, &of_ann), (&root, &of_ann), (&ann, &of_nobody)] {
        let paths = ["", "/signs", "/repeated"].map(|end| format!("/api/approvals/{id}{end}"));
        for path in &paths {
            let answer = team.get(1, person, path).await;
            assert_eq!((answer.status, answer.code().as_str()), (404, "nothing"), "{path}");
        }
        let decided = team.post(1, person, &paths[0], json!({ "decision": "allow" })).await;
        assert_eq!((decided.status, decided.code().as_str()), (404, "nothing"));
    }
    let path = format!("/api/approvals/{of_ann}");
    let decided = team.post(1, &ann, &path, json!({ "decision": "allow" })).await;
    assert_eq!(decided.status, 200, "{decided:?}");
    let by = decided.json()["decided"]["by"].as_str().unwrap().to_owned();
    assert!(by.starts_with("https://login.example user ann, at the console, browser session "), "{by}");
    let said = tokio::time::timeout(LIMIT, call_of_ann).await.unwrap().unwrap();
    assert_eq!(said, "1 bytes are in /a");
    let denied = team.post(0, &bob, &format!("/api/approvals/{of_bob}"), json!({ "decision": "deny" })).await;
    assert_eq!(denied.status, 200, "{denied:?}");
    assert!(tokio::time::timeout(LIMIT, call_of_bob).await.unwrap().unwrap().contains("denied"));
    let recent = team.get(0, &bob, "/api/approvals").await.json();
    let recent = recent["recent"].as_array().unwrap();
    assert!(recent.iter().all(|one| one["principal"] == "https://login.example user bob"), "{recent:?}");
    call_of_nobody.abort();
}

#[tokio::test]
async fn lasting_decisions_and_the_record_are_their_persons() {
    let team = Team::new().await;
    let (ann, bob) = (team.sign_in("ann").await, team.sign_in("bob").await);
    let (root, audrey) = (team.sign_in("root").await, team.sign_in("audrey").await);
    let (of_ann, call) = team.call(0, Some("ann")).await;
    let always = json!({ "decision": "allow", "scope": { "always": {} } });
    let decided = team.post(0, &ann, &format!("/api/approvals/{of_ann}"), always).await;
    assert_eq!(decided.status, 200, "{decided:?}");
    tokio::time::timeout(LIMIT, call).await.unwrap().unwrap();
    let grants = team.get(0, &ann, "/api/grants").await.json();
    let id = grants["grants"][0]["id"].as_str().unwrap().to_owned();
    let none = json!({ "grants": [] });
    assert_eq!(
        (team.get(0, &bob, "/api/grants").await.json(), team.get(0, &root, "/api/grants").await.json()),
        (none.clone(), none)
    );
    for other in [&bob, &root] {
        assert_eq!(team.post(0, other, &format!("/api/grants/{id}/revoke"), json!({})).await.status, 404);
    }
    // The record: everybody's for those who read it, without arguments; one's own for others.
    let entries = async |person: &Person, query: &str| {
        let found = team.get(0, person, &format!("/api/activity?kind=call{query}")).await.json();
        found["entries"].as_array().unwrap().clone()
    };
    let number = entries(&ann, "").await[0]["seq"].as_u64().unwrap();
    assert!(entries(&bob, "").await.is_empty());
    assert!(entries(&bob, "&principal=https://login.example%20user%20ann").await.is_empty());
    assert!(entries(&bob, "&gathered=true").await.is_empty());
    assert_eq!(team.get(0, &bob, "/api/activity/summary?kind=call").await.json()["counted"], 0);
    for reader in [&root, &audrey] {
        assert_eq!(entries(reader, "").await.len(), 1);
        assert_eq!(team.get(0, reader, "/api/activity/summary?kind=call").await.json()["counted"], 1);
    }
    let arguments = format!("/api/activity/{number}/arguments");
    assert_eq!(team.get(0, &ann, &arguments).await.json()["arguments"]["path"], "/a");
    for (other, status) in [(&bob, 404), (&root, 404), (&audrey, 403)] {
        assert_eq!(team.get(0, other, &arguments).await.status, status);
    }
    assert_eq!(team.post(0, &ann, &format!("/api/grants/{id}/revoke"), json!({})).await.status, 200);
}

/// The record is that of all nodes, at any node; members read their own entries, with their arguments.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_team_reads_the_record_of_all_nodes() {
    use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
    use hospes_store::{AuditShipper, PostgresSettings};

    let server = PostgresServer::start(PostgresOptions::default());
    let secrets = vec![[7; 32].into()];
    let state = StateStore::connect(PostgresSettings::new(server.url().into()), secrets).await.unwrap();
    let record = state.audit().unwrap().unwrap();
    let team = Team::with_record(Some(&AuditReader::Shared(record.clone()))).await;
    let (ann, bob, audrey) =
        (team.sign_in("ann").await, team.sign_in("bob").await, team.sign_in("audrey").await);
    for (node, name, person) in [(0, "ann", &ann), (1, "bob", &bob), (1, "ann", &ann)] {
        let (id, call) = team.call(node, Some(name)).await;
        let allowed = json!({ "decision": "allow" });
        let decided = team.post(node, person, &format!("/api/approvals/{id}"), allowed).await;
        assert_eq!(decided.status, 200, "{decided:?}");
        tokio::time::timeout(LIMIT, call).await.unwrap().unwrap();
    }
    for (_, console, log) in &team.nodes {
        let node = console.local_addr().to_string();
        assert!(AuditShipper::spawn(log, record.clone(), node).finish(LIMIT).await);
    }
    for node in [0, 1] {
        for (person, count) in [(&ann, 2), (&bob, 1), (&audrey, 3)] {
            let found = team.get(node, person, "/api/activity?kind=call").await.json();
            let entries = found["entries"].as_array().unwrap().clone();
            assert_eq!(entries.len(), count, "{found}");
            let gathered = team.get(node, person, "/api/activity?kind=call&gathered=true").await.json();
            assert_eq!(gathered["entries"].as_array().unwrap().len(), count);
            let summary = team.get(node, person, "/api/activity/summary?kind=call").await.json();
            assert_eq!(summary["counted"], count);
            let nodes: BTreeSet<&str> = entries.iter().map(|one| one["node"].as_str().unwrap()).collect();
            assert_eq!(nodes.len(), if count == 1 { 1 } else { 2 });
        }
        // Those of the other node, too.
        let all = team.get(node, &ann, "/api/activity?kind=call").await.json();
        for one in all["entries"].as_array().unwrap() {
            let path = format!("/api/activity/{}/arguments", one["seq"]);
            assert_eq!(team.get(node, &ann, &path).await.json()["arguments"]["path"], "/a");
            assert_eq!(team.get(node, &bob, &path).await.status, 404);
        }
    }
}

/// The state of a sign-in is good once, in the browser in which it began, at any node.
#[tokio::test]
async fn a_sign_in_is_bound_to_its_browser_and_good_once() {
    let team = Team::new().await;
    let (state, cookie) = team.begin(0).await;
    let (other_state, other_cookie) = team.begin(1).await;
    let refused = async |state: &str, cookie: &str| {
        let back = team.come_back(1, (state, cookie), "ann").await;
        assert!(back.header("set-cookie").is_none() && !back.body.contains("ann"), "{back:?}");
        back.status
    };
    assert_eq!(refused(&state, "x=y").await, 400, "without the cookie");
    let signed_in = team.come_back(0, (&other_state, &other_cookie), "ann").await;
    assert_eq!(signed_in.status, 303, "{signed_in:?}");
    assert_eq!(refused(&other_state, &other_cookie).await, 400, "a second time");
    assert_eq!(refused("guessed", &cookie).await, 400);
    let (state, _) = team.begin(0).await;
    assert_eq!(refused(&state, &cookie).await, 400, "in another browser");
    assert_eq!(refused(&state, &format!("{cookie}; {cookie}")).await, 400, "with a planted cookie");
}

#[tokio::test]
async fn a_person_without_a_role_is_told_why() {
    let team = Team::new().await;
    for (name, words) in [("guest", "none of the groups"), ("stranger", "does not send the claim `groups`")] {
        let (state, cookie) = team.begin(0).await;
        let back = team.come_back(0, (&state, &cookie), name).await;
        assert_eq!(back.status, 403);
        assert!(back.body.contains(words) && back.body.contains("The Same Name"), "{}", back.body);
        assert!(back.header("set-cookie").is_none());
    }
    assert_eq!(*team.provider.revoked.lock(), ["token of guest", "token of stranger"]);
    // The name comes of the provider.
    assert!(!super::super::api::escaped("<b a=\"1\">&").contains(['<', '"']));
}

/// Requests that another page could make, or that are not of the session, change nothing.
#[tokio::test]
async fn a_change_needs_the_origin_the_site_and_the_key_of_the_session() {
    let team = Team::new().await;
    let (ann, bob) = (team.sign_in("ann").await, team.sign_in("bob").await);
    let own = format!("Cookie: {}\r\nX-Hospes-Key: {}\r\n", ann.cookie, ann.key);
    let forged = [
        own.clone(),
        format!("{own}Origin: https://console.example\r\n"),
        format!("{own}Sec-Fetch-Site: same-origin\r\n"),
        format!("{own}Origin: https://evil.example\r\nSec-Fetch-Site: same-origin\r\n"),
        format!("{own}Origin: http://console.example\r\nSec-Fetch-Site: same-origin\r\n"),
        format!("{own}Origin: https://console.example.evil.example\r\nSec-Fetch-Site: same-origin\r\n"),
        format!("{own}Origin: null\r\nSec-Fetch-Site: same-origin\r\n"),
        format!("{own}Origin: https://console.example\r\nSec-Fetch-Site: same-site\r\n"),
        format!("{own}Origin: https://console.example\r\nSec-Fetch-Site: none\r\n"),
        format!("{PAGE}Cookie: {}\r\n", ann.cookie),
        // The cookie of one, and the key of another.
        format!("{PAGE}Cookie: {}\r\nX-Hospes-Key: {}\r\n", ann.cookie, bob.key),
        format!("Host: evil.example\r\n{PAGE}{own}"),
        format!("Host: 127.0.0.1\r\n{PAGE}{own}"),
    ];
    for headers in forged {
        let answer = team.send(0, "POST", "/api/sessions/end", &headers, "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "elsewhere"), "{headers}");
    }
    for nobody in ["", "Cookie: __Host-hospes-console=guessed\r\n", "Cookie: hospes-console=x\r\n"] {
        let answer = team.send(0, "GET", "/api/console", nobody, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "sign-in"), "{nobody}");
    }
    let page = team.get(0, &ann, "/").await;
    assert!(page.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    assert_eq!(team.get(0, &ann, "/api/console").await.status, 200, "nothing was changed");
    // The link of one person's console is none here.
    let opened = team.send(0, "POST", "/api/open", PAGE, "{\"token\":\"x\"}").await;
    assert_eq!((opened.status, opened.code().as_str()), (409, "team"));
}

#[tokio::test]
async fn sessions_are_ended_by_their_person_or_an_administrator_at_any_node() {
    let team = Team::new().await;
    let (ann, again) = (team.sign_in("ann").await, team.sign_in("ann").await);
    let (bob, root) = (team.sign_in("bob").await, team.sign_in("root").await);
    assert_ne!(ann.cookie, again.cookie);
    let list = async |person: &Person| {
        let found = team.get(1, person, "/api/sessions").await.json();
        let all = found["sessions"].as_array().unwrap().clone();
        (all, found["current"].as_str().unwrap().to_owned())
    };
    let (of_ann, current) = list(&ann).await;
    assert_eq!(of_ann.len(), 2);
    let (of_bob, id_of_bob) = list(&bob).await;
    assert_eq!((of_bob.len(), of_bob[0]["person"].as_str()), (1, Some("https://login.example user bob")));
    let end = async |node, person: &Person, id: &str| {
        team.post(node, person, &format!("/api/sessions/{id}/end"), json!({})).await.status
    };
    assert_eq!(end(0, &ann, &id_of_bob).await, 404, "of another");
    assert_eq!(team.get(0, &bob, "/api/console").await.status, 200);
    let other = of_ann.iter().find(|one| one["id"] != *current).unwrap()["id"].as_str().unwrap();
    assert_eq!(end(0, &ann, other).await, 200);
    assert_eq!(team.get(1, &again, "/api/console").await.status, 401, "revoked at every node");
    assert_eq!(list(&root).await.0.len(), 3, "everybody's");
    assert_eq!(end(1, &root, &id_of_bob).await, 200);
    assert_eq!(team.get(0, &bob, "/api/approvals").await.status, 401);
    assert_eq!(team.post(0, &ann, "/api/sessions/end", json!({})).await.status, 200);
    assert_eq!(team.get(1, &ann, "/api/console").await.status, 401, "signed out");
    // Groups that lose their role lose it at once, whatever the session says.
    assert_eq!(team.get(0, &root, "/api/servers").await.status, 200);
}

/// The provider has no cookie, origin or key, and often another name for the host.
#[tokio::test]
async fn a_sign_out_at_the_provider_ends_sessions_at_every_node() {
    let team = Team::new().await;
    let (ann, again, bob) = (team.sign_in("ann").await, team.sign_in("ann").await, team.sign_in("bob").await);
    const FORM: &str = "Host: internal:7338\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let log_out = async |headers: &str, body: &str| {
        let answer = team.send(0, "POST", "/sign-in/back-channel-logout", headers, body).await;
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
        answer
    };
    let form = |claims: Value| {
        let token = claims.to_string();
        url::form_urlencoded::Serializer::new(String::new()).append_pair("logout_token", &token).finish()
    };
    let is_in = async |person: &Person| team.get(1, person, "/api/console").await.status == 200;

    let good = form(json!({ "sub": "ann", "jti": "1" }));
    for (headers, body) in [
        (FORM, String::new()),
        (FORM, "logout_token=".to_owned()),
        (FORM, "logout_token=a.b.c".to_owned()),
        (FORM, format!("{good}&{good}")),
        (FORM, format!("id_token={good}")),
        ("Content-Type: application/json\r\n", good.clone()),
        ("", good.clone()),
        (FORM, format!("{good}&padding={}", "x".repeat(40_000))),
    ] {
        let answer = log_out(headers, &body).await;
        assert_eq!(answer.status, 400, "{headers}{body}");
        assert_eq!(answer.json()["error"], "invalid_request");
    }
    let path = "/sign-in/back-channel-logout";
    assert_eq!(team.send(0, "GET", &format!("{path}?{good}"), "", "").await.status, 405);
    assert!(is_in(&ann).await && is_in(&again).await && is_in(&bob).await, "nothing has happened");

    let other = log_out(FORM, &form(json!({ "sid": "session of eve", "jti": "2" }))).await;
    assert_eq!((other.status, other.body.as_str()), (200, ""), "no session of ours");
    assert!(is_in(&ann).await);
    assert_eq!(log_out(FORM, &form(json!({ "sid": "session of ann", "jti": "3" }))).await.status, 200);
    assert!(!is_in(&ann).await && !is_in(&again).await && is_in(&bob).await);
    let ann = team.sign_in("ann").await;
    assert_eq!(
        log_out(FORM, &form(json!({ "sid": "session of ann", "jti": "3" }))).await.status,
        400,
        "again"
    );
    assert!(is_in(&ann).await);
    assert_eq!(log_out(FORM, &good).await.status, 200, "the token that was refused above was not used");
    assert!(!is_in(&ann).await && is_in(&bob).await);
    assert_eq!(log_out(FORM, &form(json!({ "sub": "bob", "sid": "x", "jti": "4" }))).await.status, 200);
    assert!(!is_in(&bob).await, "whose session at the provider is not known");
    let entries = team.nodes[0].2.search(hospes_store::AuditQuery::new()).await.unwrap();
    let by = "the sign-in provider, by back-channel logout";
    assert_eq!(entries.iter().filter(|one| one.entry.by.as_deref() == Some(by)).count(), 3);
}

/// The table of endpoints is what the routes are, and each role gets what the table says.
#[tokio::test]
async fn each_role_reaches_the_endpoints_of_the_table_and_no_others() {
    let team = Team::new().await;
    let people = [
        ("ann", TeamRole::Member, team.sign_in("ann").await),
        ("root", TeamRole::Admin, team.sign_in("root").await),
        ("audrey", TeamRole::Auditor, team.sign_in("audrey").await),
        ("fay", TeamRole::Approver, team.sign_in("fay").await),
    ];
    for (method, path, access) in ENDPOINTS {
        // These are before a session, the stream does not end, and one's own session is to go on.
        if ["/open", "/sign-in", "/links", "/events", "/sessions/end"].contains(&path) {
            continue;
        }
        let target =
            path.replace("{action}", "undo").replace("{number}", "999").replace("{", "no-").replace("}", "");
        for (name, role, person) in &people {
            let answer = match method {
                "GET" => team.get(0, person, &format!("/api{target}")).await,
                _ => team.post(0, person, &format!("/api{target}"), json!({})).await,
            };
            let may = access.includes(&TeamPerson {
                session: String::new(),
                session_key: String::new(),
                principal: String::new(),
                name: String::new(),
                roles: [*role].into(),
                groups: Vec::new(),
            });
            let is_refused = answer.status == 403 && ["role", "machine"].contains(&&*answer.code());
            assert_eq!(is_refused, !may, "{name} {method} {path}: {answer:?}");
            // A row without a route would be no rule for anything.
            assert!(
                answer.status != 405 && !answer.body.contains("\"not found\""),
                "{method} {path}: {answer:?}"
            );
        }
    }
    for (role, has) in
        [(TeamRole::Member, 18), (TeamRole::Approver, 15), (TeamRole::Admin, 32), (TeamRole::Auditor, 11)]
    {
        let person = TeamPerson {
            session: String::new(),
            session_key: String::new(),
            principal: String::new(),
            name: String::new(),
            roles: [role].into(),
            groups: Vec::new(),
        };
        let reached = ENDPOINTS.iter().filter(|(.., access)| access.includes(&person)).count();
        assert_eq!(reached, has, "{role}: a change of the table is looked at here as well");
    }
}

/// Routes of the source are in the table, and rows of the table are routes.
#[test]
fn the_table_has_every_route() {
    let source = include_str!("../api/mod.rs");
    let mut routes = BTreeSet::new();
    for part in source.split(".route(").skip(1) {
        let Some((_, rest)) = part.split_once('"') else { continue };
        // The callback is named by a constant.
        let Some((path, rest)) = rest.split_once('"').filter(|(path, _)| path.starts_with('/')) else {
            continue;
        };
        let handlers = rest.split(".layer(").next().unwrap().split("\n}").next().unwrap();
        for (method, call) in [("GET", "get("), ("POST", "post(")] {
            if handlers.contains(call) {
                routes.insert((method, path));
            }
        }
    }
    let table: BTreeSet<(&str, &str)> = ENDPOINTS.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(table.len(), ENDPOINTS.len(), "each once");
    assert_eq!(routes, table);
    assert_eq!(EndpointAccess::of(&http::Method::DELETE, "/approvals/{id}"), None);
    assert_eq!(EndpointAccess::of(&http::Method::GET, "/approvals/{id}/secret"), None);
}

#[test]
fn a_public_url_is_an_origin_of_https_or_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateStore::open(folder.path().join("state.db")).unwrap();
    let made = |url: &str| {
        let roles = TeamRoles::new("groups", [(TeamRole::Member, vec!["staff".to_owned()])]);
        let sign_in = Arc::new(Arc::new(Provider::default()));
        let records = state.console_sessions().unwrap();
        TeamConsole::new(url, roles, Arc::new(principal), sign_in, records)
            .map(|team| team.origin().to_owned())
    };
    assert_eq!(made("https://Console.example:443/").as_deref(), Ok("https://console.example"));
    assert_eq!(made("http://127.0.0.1:7338").as_deref(), Ok("http://127.0.0.1:7338"));
    for wrong in [
        "http://console.example",
        "console.example",
        "https://a@b",
        "https://console.example/console",
        "http://127.0.0.1.evil.example",
        "ftp://a",
        "",
    ] {
        assert!(made(wrong).is_err(), "{wrong}");
    }
}
