//! Accounts of users at a server, in a fleet without a sticky balancer: each request comes to another node.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;

use crate::fleet::{FleetEngines, SECRET};
use crate::support::site::{Site, signed_in};
use crate::support::{House, LIMIT, Running, eventually, text};

const REDIRECT: &str = "http://127.0.0.1:9/callback";
const VERIFIER: &str = "a-verifier-of-forty-three-or-more-characters";

/// Nodes with one public address, which is that of the first.
struct Nodes {
    engines: FleetEngines,
    site: Site,
    houses: Vec<House>,
    addresses: Vec<String>,
    /// Ended with the nodes.
    running: Mutex<Vec<Running>>,
}

/// Response of a node.
struct Page {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    #[track_caller]
    fn hidden(&self, name: &str) -> &str {
        let marked = format!("name=\"{name}\" value=\"");
        let (_, rest) = self.body.split_once(&marked).unwrap_or_else(|| panic!("no {name}: {}", self.body));
        rest.split_once('"').unwrap().0
    }

    #[track_caller]
    fn leads_to(&self) -> String {
        assert!(matches!(self.status, 302 | 303), "{}: {}", self.status, self.body);
        self.header("location").unwrap().to_owned()
    }
}

impl Nodes {
    fn start(account: &str) -> Self {
        let (engines, site) = (FleetEngines::start(), Site::open());
        let listener = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // Free again when the listeners are dropped.
        let listeners = [listener(), listener(), listener()];
        let addresses = listeners.each_ref().map(|one| one.local_addr().unwrap().to_string());
        drop(listeners);
        let mut nodes = Self {
            engines,
            site,
            houses: Vec::new(),
            addresses: addresses.to_vec(),
            running: Mutex::default(),
        };
        for address in &addresses {
            let house = House::new();
            let config = format!(
                "[fleet]\nsecret = {SECRET:?}\npostgres = {:?}\nredis = {:?}\nnode_listen = \"127.0.0.1:0\"\n\
                 [auth]\nbase_url = \"http://{}\"\nusers = {{ ann = \"correct horse\" }}\n\
                 tokens = {{ machine = \"token-of-a-machine-of-32-letters\" }}\n\
                 [servers.site]\nurl = \"{}\"\n{account}\n",
                nodes.engines.postgres.url(),
                nodes.engines.redis.url(),
                nodes.addresses[0],
                nodes.site.mcp(),
            );
            let config = text(&house.write("hospes.toml", &config));
            let usual = ["up", "--console", "off", "--preset", "off"];
            let args = [&usual[..], &["--listen", address, "--config", &config]].concat();
            let host = Running::start(house.command(&args));
            nodes.houses.push(house);
            nodes.running.get_mut().push(host);
            let number = nodes.houses.len() - 1;
            eventually("the node serves", || {
                let is_there = TcpStream::connect(address).is_ok();
                is_there && nodes.send(number, "GET /readyz/sessions", &[], "").status == 200
            });
        }
        nodes
    }

    /// Sends a request to a node, which is for the public address.
    fn send(&self, node: usize, line: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let mut stream = TcpStream::connect(&self.addresses[node]).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(
            stream,
            "{line} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}",
            self.addresses[0],
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {answer}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Page { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn base(&self) -> String {
        format!("http://{}", self.addresses[0])
    }

    /// Calls the tool of the site at a node, as an application that can show URLs. `round` has what the call brings
    /// besides.
    fn call(&self, node: usize, token: &str, round: &Value) -> Page {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} } },
        });
        let mut params = json!({ "name": "site__greet", "arguments": {}, "_meta": meta });
        params.as_object_mut().unwrap().extend(round.as_object().unwrap().clone());
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        let authorization = format!("Bearer {token}");
        let headers = [
            ("Authorization", &*authorization),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "site__greet"),
        ];
        self.send(node, "POST /mcp", &headers, &call.to_string())
    }

    #[track_caller]
    fn is_let_in(&self, node: usize, token: &str) {
        let answer = self.call(node, token, &json!({}));
        assert!(answer.status == 200 && answer.body.contains("let in"), "{}: {}", answer.status, answer.body);
    }

    /// Calls, and returns the link that the user is asked to open, and the next round of the call.
    fn asked(&self, node: usize, token: &str) -> Option<(String, Value)> {
        let answer = self.call(node, token, &json!({}));
        let result: Value = serde_json::from_str(&answer.body).ok()?;
        let result = &result["result"];
        let (key, request) = result["inputRequests"].as_object()?.iter().next()?;
        let link = request["params"]["url"].as_str()?.to_owned();
        let answers = json!({ key: { "action": "accept" } });
        Some((link, json!({ "requestState": result["requestState"], "inputResponses": answers })))
    }

    /// Returns the number of renewals that the site was asked for.
    fn renewals(&self) -> usize {
        self.site.script().renewals
    }
}

/// Ann's browser, whose requests come to each node in turn.
struct Browser<'a> {
    nodes: &'a Nodes,
    cookies: BTreeMap<String, String>,
    next: usize,
}

impl<'a> Browser<'a> {
    fn new(nodes: &'a Nodes) -> Self {
        Self { nodes, cookies: BTreeMap::new(), next: 0 }
    }

    fn request(&mut self, node: usize, line: &str, body: &str) -> Page {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = cookies.join("; ");
        let kind = ("Content-Type", "application/x-www-form-urlencoded");
        let origin = self.nodes.base();
        let page = self.nodes.send(node, line, &[("Cookie", &cookies), ("Origin", &origin), kind], body);
        for line in page.head.lines().filter(|line| line.to_ascii_lowercase().starts_with("set-cookie: ")) {
            let cookie = line["set-cookie: ".len()..].split(';').next().unwrap();
            let (name, value) = cookie.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        page
    }

    fn turn(&mut self) -> usize {
        self.next = (self.next + 1) % self.nodes.addresses.len();
        self.next
    }

    fn open_at(&mut self, node: usize, url: &str) -> Page {
        let path = url.strip_prefix(&self.nodes.base()).unwrap_or_else(|| panic!("elsewhere: {url}"));
        self.request(node, &format!("GET {path}"), "")
    }

    fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let node = self.turn();
        self.post_at(node, path, fields)
    }

    fn post_at(&mut self, node: usize, path: &str, fields: &[(&str, &str)]) -> Page {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.request(node, &format!("POST {path}"), &body)
    }

    /// Signs in for an application, and returns its token.
    fn token(&mut self) -> String {
        let client = json!({ "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none" }).to_string();
        let kind = [("Content-Type", "application/json")];
        let node = self.turn();
        let registered = self.nodes.send(node, "POST /register", &kind, &client);
        let client: Value =
            serde_json::from_str(&registered.body).unwrap_or_else(|_| panic!("{}", registered.body));
        let client = client["client_id"].as_str().unwrap().to_owned();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let resource = format!("{}/mcp", self.nodes.base());
        let asked = [
            ("response_type", "code"),
            ("client_id", &*client),
            ("redirect_uri", REDIRECT),
            ("state", "state"),
            ("code_challenge", &*challenge),
            ("code_challenge_method", "S256"),
            ("resource", &*resource),
        ];
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(asked).finish();
        let node = self.turn();
        let page = self.request(node, &format!("GET /authorize?{query}"), "");
        let who = [
            ("request", page.hidden("request")),
            ("csrf", page.hidden("csrf")),
            ("user", "ann"),
            ("password", "correct horse"),
        ];
        let page = self.post("/sign-in", &who);
        let yes = [("request", page.hidden("request")), ("csrf", page.hidden("csrf")), ("decision", "allow")];
        let back = url::Url::parse(&self.post("/consent", &yes).leads_to()).unwrap();
        let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        let redeemed = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", REDIRECT),
            ("client_id", &client),
            ("code_verifier", VERIFIER),
            ("resource", &resource),
        ];
        let redeemed = self.post("/token", &redeemed);
        let token: Value =
            serde_json::from_str(&redeemed.body).unwrap_or_else(|_| panic!("{}", redeemed.body));
        token["access_token"].as_str().unwrap_or_else(|| panic!("{token}")).to_owned()
    }

    /// Opens a link at one node and agrees there, signs in at the site, and comes back to another node.
    fn connect(&mut self, link: &str, opened: usize, back: usize) -> Page {
        let page = self.open_at(opened, link);
        assert!(page.status == 200 && page.body.contains("Connect your account at"), "{}", page.body);
        let csrf = page.hidden("csrf").to_owned();
        let path = link.strip_prefix(&self.nodes.base()).unwrap().to_owned();
        let away = self.post_at(opened, &path, &[("csrf", &csrf), ("decision", "allow")]).leads_to();
        // The link is used up, at every node.
        for node in 0..self.nodes.addresses.len() {
            let again = self.post_at(node, &path, &[("csrf", &csrf), ("decision", "allow")]);
            assert!(again.status == 404 && again.body.contains("no longer valid"), "{}", again.body);
        }
        self.open_at(back, &visit(&away))
    }
}

/// Opens the page of the site, which agrees to everything, and returns where it leads.
fn visit(url: &str) -> String {
    let url = url::Url::parse(url).unwrap();
    let mut stream = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
    let (path, query) = (url.path(), url.query().unwrap());
    write!(stream, "GET {path}?{query} HTTP/1.1\r\nhost: site\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let there = answer.lines().find_map(|line| line.strip_prefix("location: "));
    there.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// A call at the first node asks Ann to connect her account. The link is opened at the second, and the site sends her back
/// to the third. All nodes have the account, renew its tokens once, and lose it together.
///
/// covers: ELIC-26 ELIC-32
#[test]
fn an_account_is_connected_used_and_given_up_at_any_node() {
    let nodes = Nodes::start("account = \"per-user\"");
    nodes.site.script().renews = true;
    // The first tokens are renewed soon, those after them are not.
    nodes.site.script().lasts = Some(4);
    let mut ann = Browser::new(&nodes);
    let token = ann.token();
    let (link, round) = nodes.asked(0, &token).expect("a link");
    assert_eq!(nodes.asked(1, &token).expect("a link").0, link, "there is one link, at all nodes");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| nodes.call(0, &token, &round));
        let page = ann.connect(&link, 1, 2);
        nodes.site.script().lasts = None;
        assert!(page.status == 200 && page.body.contains("Your account is connected"), "{}", page.body);
        // The call that asked goes on.
        let answer = waiting.join().unwrap();
        assert!(answer.status == 200 && answer.body.contains("let in"), "{}: {}", answer.status, answer.body);
    });
    for node in [0, 1, 2] {
        nodes.is_let_in(node, &token);
    }
    assert_eq!(nodes.engines.postgres.query("SELECT count(*) FROM credentials"), "2", "tokens, registration");
    eventually("the tokens are renewed", || {
        std::thread::scope(|scope| {
            for node in [0, 1, 2] {
                let (nodes, token) = (&nodes, &token);
                scope.spawn(move || nodes.is_let_in(node, token));
            }
        });
        nodes.renewals() > 0
    });
    for node in [0, 1, 2] {
        nodes.is_let_in(node, &token);
    }
    assert_eq!(nodes.renewals(), 1, "once in the whole fleet");

    let rows = nodes.engines.postgres.query(
        "SELECT string_agg(t::text, ' ') || coalesce((SELECT string_agg(p::text, ' ') FROM pending_documents p), '')
         FROM credentials t",
    );
    for clear in ["s3cret", " user ann", "127.0.0.1"] {
        let hex: String = clear.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(!rows.contains(clear) && !rows.contains(&hex), "{clear} in {rows}");
    }

    // Disconnected at the second node.
    let accounts = format!("{}/connect/accounts", nodes.base());
    let page = ann.open_at(1, &accounts);
    assert!(page.body.contains("site"), "{}", page.body);
    let csrf = page.hidden("csrf").to_owned();
    let gone = ann.post_at(1, "/connect/accounts", &[("csrf", &csrf), ("server", "site")]);
    assert!(gone.body.contains("is disconnected"), "{}", gone.body);
    for node in [0, 1, 2] {
        eventually("the node asks again", || nodes.asked(node, &token).is_some());
    }
    assert_eq!(nodes.site.script().revoked, ["s3cret-refresh", "s3cret-token-1"], "taken back once");
    let (again, _) = nodes.asked(0, &token).expect("a link");
    assert_ne!(again, link);
    let page = ann.connect(&again, 2, 0);
    assert!(page.body.contains("Your account is connected"), "{}", page.body);
    nodes.is_let_in(1, &token);
}

/// The operator signs in once, at one node, and signs out at another.
#[test]
fn an_account_of_everybody_is_that_of_all_nodes() {
    let nodes = Nodes::start("");
    let machine = "token-of-a-machine-of-32-letters";
    let refused = nodes.call(0, machine, &json!({}));
    assert!(!refused.body.contains("let in"), "{}", refused.body);
    let command = |node: usize, args: &[&str]| {
        let config = text(&nodes.houses[node].path("hospes.toml"));
        let args: Vec<String> = args.iter().map(|arg| arg.replace("CONFIG", &config)).collect();
        (config, args)
    };
    let (_, login) = command(0, &["auth", "login", "site", "--config", "CONFIG"]);
    let login: Vec<&str> = login.iter().map(String::as_str).collect();
    let ran = signed_in(&nodes.houses[0], &login, &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!nodes.houses[0].path("data/hospes/credentials").exists());
    for node in [0, 1, 2] {
        eventually("the node uses the account", || {
            nodes.call(node, machine, &json!({})).body.contains("let in")
        });
    }
    for node in [1, 2] {
        let (config, _) = command(node, &[]);
        let mut status = nodes.houses[node].command(&["auth", "status", "--json"]);
        let listed = crate::support::Ran::of(status.env("HOSPES_CONFIG", &config).output().unwrap());
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"));
        assert_eq!(listed["servers"][0]["url"], nodes.site.mcp(), "{listed}");
        assert_eq!(listed["store"], "the database of the fleet");
        let (_, call) = command(node, &["call", "site", "greet", "--config", "CONFIG"]);
        let called = nodes.houses[node].run(&call.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(called.stdout, "let in\n", "{called:?}");
    }
    let (_, logout) = command(2, &["auth", "logout", "site", "--config", "CONFIG"]);
    let gone = nodes.houses[2].run(&logout.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(gone.code, Some(0), "{gone:?}");
    for node in [0, 1, 2] {
        eventually("the node does not use it any more", || {
            !nodes.call(node, machine, &json!({})).body.contains("let in")
        });
    }
}
