//! Rules for groups: whose token names the group is allowed what others are asked about.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use hospes_auth::KeyPair;
use serde_json::{Value, json};
use support::{House, LIMIT, Running, eventually, text};

/// Issuer of tokens that publishes its key.
struct Issuer {
    url: String,
    key: KeyPair,
}

impl Issuer {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let key = KeyPair::generate().unwrap();
        let mut public = serde_json::to_value(key.public()).unwrap();
        public["kid"] = "k1".into();
        let metadata = json!({
            "issuer": url, "jwks_uri": format!("{url}/keys"), "token_endpoint": format!("{url}/token"),
            "authorization_endpoint": format!("{url}/authorize"), "response_types_supported": ["code"],
        });
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                }
                let is_keys = head.starts_with(b"GET /keys");
                let body = if is_keys { json!({ "keys": [public] }) } else { metadata.clone() }.to_string();
                let length = body.len();
                // Whoever breaks off wanted no answer.
                let _gone = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                     connection: close\r\n\r\n{body}"
                );
            }
        });
        Self { url, key }
    }

    /// A token of a person in these groups.
    fn token(&self, person: &str, audience: &str, claims: &Value) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let mut all = json!({
            "iss": self.url, "sub": person, "aud": audience, "iat": now, "exp": now + 600, "scope": "mcp",
            "client_id": "app",
        });
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        self.key.sign("at+jwt", &all, |header| header.kid = Some("k1".to_owned())).unwrap()
    }
}

/// A running host whose users are those of an issuer.
struct Up {
    house: House,
    host: Running,
    application: Application,
    issuer: Issuer,
}

/// An application at the endpoint of a host.
#[derive(Clone)]
struct Application {
    endpoint: url::Url,
}

impl Up {
    fn new(policy: &str, organization: &str, auth: &str) -> Self {
        Self::with_profiles(policy, organization, auth, "")
    }

    fn with_profiles(policy: &str, organization: &str, auth: &str, profiles: &str) -> Self {
        let (house, issuer) = (House::new().with_token(), Issuer::open());
        house.server("one", &["greet"], "");
        let script = text(&house.path("one.sh"));
        let config = format!(
            "organization_policy = 'team.toml'\n[auth]\nissuer = '{}'\n{auth}\n[servers.one]\ncommand = ['sh', '{script}']\n{profiles}",
            issuer.url
        );
        let config = text(&house.write("hospes.toml", &config));
        house.write("team.toml", organization);
        let policy = text(&house.write("rules.toml", policy));
        let args = ["up", "--config", &config, "--policy", &policy, "--listen", "127.0.0.1:0", "--json"];
        let more = ["--console", "127.0.0.1:0", "--pins", "off", "--unattended", "queue"];
        let host = Running::start(house.command(&[&args[..], &more].concat()));
        let greeting = host.greeting();
        let endpoint = url::Url::parse(greeting["endpoint"].as_str().unwrap()).unwrap();
        Self { house, host, application: Application { endpoint }, issuer }
    }

    fn token(&self, person: &str, claims: &Value) -> String {
        self.issuer.token(person, self.application.endpoint.as_str(), claims)
    }

    /// Waits until a call is asked about. Returns its card.
    fn question(&self) -> Value {
        let mut list = String::new();
        eventually("a question", || {
            list = self.house.run(&["approve", "--json", "--list"]).stdout;
            !list.is_empty()
        });
        serde_json::from_str(list.lines().next().unwrap()).unwrap()
    }

    /// Makes a call that is asked about and decided. Returns the question and the answer.
    fn asked(&self, token: &str, session: &str, decision: &str) -> (Value, String) {
        let (application, token, session) = (self.application.clone(), token.to_owned(), session.to_owned());
        let calling = std::thread::spawn(move || application.call(&token, &session));
        let question = self.question();
        let decided = self.house.run(&["approve", decision, question["id"].as_str().unwrap()]);
        assert_eq!(decided.code, Some(0), "{decided:?}");
        (question, calling.join().unwrap())
    }
}

impl Application {
    /// The application at the endpoint of a profile.
    fn at(&self, profile: &str) -> Self {
        let mut endpoint = self.endpoint.clone();
        endpoint.set_path(&format!("/mcp/{profile}"));
        Self { endpoint }
    }

    fn send(&self, token: &str, session: Option<&str>, message: &Value) -> (u16, String) {
        self.request("POST", token, session, &message.to_string())
    }

    /// Sends a request. Returns the status and everything that comes before the connection ends, or the head of a stream.
    fn request(&self, method: &str, token: &str, session: Option<&str>, body: &str) -> (u16, String) {
        let address = self.endpoint.socket_addrs(|| None).unwrap()[0];
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        write!(
            stream,
            "{method} {} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n{session}\
             content-length: {}\r\n\r\n{body}",
            self.endpoint.path(),
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    /// Opens a session of the older era.
    fn session(&self, token: &str) -> String {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "app", "version": "1" },
        });
        let opened = self.send(
            token,
            None,
            &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
        );
        assert_eq!(opened.0, 200, "{opened:?}");
        let line = opened.1.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let id = line.unwrap().trim().to_owned();
        self.send(token, Some(&id), &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        id
    }

    fn call(&self, token: &str, session: &str) -> String {
        let params = json!({ "name": "one__greet", "arguments": {} });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.send(token, Some(session), &call).1
    }
}

const RULES: &str = "[[rule]]\nname = 'staff'\ndecide = 'allow'\nserver = 'one'\ngroup = 'staff'\n\
                     [[rule]]\nname = 'others'\ndecide = 'ask'\n";

/// One person is allowed by a group, the other one is asked, and so is the first once a token no longer names the group.
/// A rule of the organisation is loosened by nothing in the user's file.
#[test]
fn a_group_is_allowed_what_others_are_asked_about() {
    let organization = "[[rule]]\ndecide = 'deny'\ngroup = 'blocked'\nreason = 'not you'\n";
    let up = Up::new(RULES, organization, "groups_claim = 'roles'");
    let app = &up.application;
    let ann = up.token("ann", &json!({ "roles": ["staff", "it"] }));
    let session = app.session(&ann);
    let said = app.call(&ann, &session);
    assert!(said.contains("one was called"), "{said}");
    let blocked = up.token("ann", &json!({ "roles": ["staff", "blocked"] }));
    let denied = app.call(&blocked, &session);
    assert!(denied.contains("not you"), "{denied}");

    // Another person, and the same person whose next token has other groups, in the same session.
    let bob = up.token("bob", &json!({ "roles": ["guests"], "groups": ["staff"] }));
    let demoted = up.token("ann", &json!({}));
    let session_of_bob = app.session(&bob);
    for (token, session) in [(&bob, &session_of_bob), (&demoted, &session)] {
        let (question, said) = up.asked(token, session, "--allow");
        assert!(question["card"]["because"].as_str().unwrap().contains("`others`"), "{question}");
        // What is shown says nothing of groups.
        assert!(!question.to_string().contains("guests"), "{question}");
        assert!(said.contains("one was called"), "{said}");
    }
    // An issuer that leaves out groups has not said that there are none.
    let overage = up.token("eve", &json!({ "_claim_names": { "roles": "src1" } }));
    let refused = app.send(&overage, None, &json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" }));
    assert_eq!(refused.0, 401, "{refused:?}");
}

#[test]
fn a_rule_for_groups_that_are_not_read_is_reported() {
    let up = Up::new(RULES, "", "");
    let ann = up.token("ann", &json!({ "groups": ["staff"] }));
    let session = up.application.session(&ann);
    up.host
        .said(|line| line.contains("`group` matches nobody") && line.contains("`groups_claim` under [auth]"));
    let (_, said) = up.asked(&ann, &session, "--deny");
    assert!(said.contains("denied"), "{said}");
}

/// The people for whom a rule holds are shown without a host.
#[test]
fn decisions_are_shown_for_a_person_and_groups() {
    let house = House::new();
    let file = text(&house.write("rules.toml", RULES));
    let test = |groups: &[&str]| {
        let options = groups.iter().flat_map(|group| ["--group", group]);
        let args = ["policy", "test", "one", "greet", "--policy", &file, "--principal", "ann"];
        house.run(&args.into_iter().chain(options).collect::<Vec<_>>()).stdout
    };
    let staff = test(&["guests", "staff"]);
    assert!(staff.contains("`staff`: matches, `server` is `one`, `group` is `staff`"), "{staff}");
    assert!(staff.contains("\nallow  rule 1 (line 1) `staff`"), "{staff}");
    for others in [&[][..], &["guests"], &["Staff"]] {
        let said = test(others);
        assert!(said.contains("`staff`: `group` is not `staff`"), "{said}");
        assert!(said.contains("\nask  rule 2 (line 6) `others`"), "{said}");
    }
    let checked = house.run(&["policy", "check", "--policy", &file]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stderr.contains("line 1: rule 1: `group` matches nobody"), "{checked:?}");
    let config =
        text(&house.write("h.toml", "[auth]\nissuer = 'https://l.example'\ngroups_claim = 'groups'\n"));
    let checked = house.run(&["policy", "check", "--policy", &file, "--config", &config]);
    assert!(!checked.stderr.contains("`group`"), "{checked:?}");
}

const PROFILES: &str = "[profiles.open]\nservers = ['one']\n\
                        [profiles.team]\nservers = ['one']\ngroups = ['finance', 'it']\n";

/// For people who are in none of its groups, a profile is as unknown as one that is not configured: at each request, also
/// in a session that was opened before.
#[test]
fn a_profile_with_groups_is_there_for_their_people_alone() {
    let allow = "[[rule]]\ndecide = 'allow'\n";
    let up = Up::with_profiles(allow, "", "groups_claim = 'roles'", PROFILES);
    let (team, open) = (up.application.at("team"), up.application.at("open"));
    let ann = up.token("ann", &json!({ "roles": ["it"] }));
    let (bob, left) = (up.token("bob", &json!({ "roles": ["IT", "guests"] })), up.token("ann", &json!({})));
    let session = team.session(&ann);
    let said = team.call(&ann, &session);
    assert!(said.contains("one was called"), "{said}");

    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "app", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    } } });
    for (who, token) in [("bob", &bob), ("ann, who has left the group", &left)] {
        for (method, session) in
            [("POST", None), ("POST", Some(&*session)), ("GET", Some(&session)), ("DELETE", Some(&session))]
        {
            let body = if method == "POST" { list.to_string() } else { String::new() };
            let (status, said) = team.request(method, token, session, &body);
            assert_eq!(status, 404, "{who}: {method} {session:?}: {said}");
            assert!(said.contains("unknown profile `team`"), "{said}");
            // As for a profile that is not configured.
            assert!(said.contains("known profiles: open\""), "{said}");
        }
        open.session(token);
        let read = json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/read",
                           "params": { "uri": "hospes://status" } });
        let (status, said) = up.application.send(token, Some(&up.application.session(token)), &read);
        assert!(status == 200 && said.contains("open") && !said.contains("team"), "{said}");
    }
    let said = team.call(&ann, &session);
    assert!(said.contains("one was called"), "{said}");
    let none = up.application.at("teams").request("POST", &bob, None, &list.to_string());
    assert!(none.0 == 404 && none.1.contains("unknown profile `teams`; known profiles: open\""), "{none:?}");
}

/// Without groups nobody is in one.
#[test]
fn a_profile_with_groups_that_are_not_read_is_reported() {
    let up = Up::with_profiles(RULES, "", "", PROFILES);
    up.host
        .said(|line| line.contains("nobody can use the profile `team`") && line.contains("`groups_claim`"));
    let ann = up.token("ann", &json!({ "groups": ["it"] }));
    let refused =
        up.application.at("team").send(&ann, None, &json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" }));
    assert_eq!(refused.0, 404, "{refused:?}");

    let house = House::new();
    house.server("one", &["greet"], "");
    let script = text(&house.path("one.sh"));
    let config =
        house.write("local.toml", &format!("[servers.one]\ncommand = ['sh', '{script}']\n{PROFILES}"));
    let refused = house.run(&["stdio", "--config", &text(&config), "--profile", "team"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("stdio has no sign-in"), "{refused:?}");
    let shown = house.run(&["profile", "show", "team", "--config", &text(&config)]);
    assert!(shown.stdout.contains("finance, it") && !shown.stdout.contains("hospes stdio"), "{shown:?}");
}
