//! `hospes up` and applications that its configuration knows: the whole way, over sockets.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hospes::client::{Client, Target};
use hospes_auth::{ClientId, Scopes, UnixClock};
use hospes_oauth::{
    AccessTokenType, ClientAuth, ClientIdentity as Registered, ClientSigningKey, GrantType, IdentityProvider,
    OAuthClient, PreregisteredOAuthClient, ProofKey,
};
use http::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use support::{House, LIMIT, Running, text};
use url::Url;

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A host at this address with this under `[auth]`.
fn up(house: &House, listen: SocketAddr, auth: &str) -> Running {
    let file = format!("{}.toml", listen.port());
    let config = house.write(&file, &format!("[auth]\n{auth}\n[servers.time]\nbuiltin = \"time\"\n"));
    let args = ["up", "--config", &text(&config), "--listen", &listen.to_string(), "--json"];
    let host = Running::start(house.command(&args));
    host.stdout
        .recv_timeout(LIMIT)
        .unwrap_or_else(|_| panic!("it starts: {:?}", host.stderr.try_iter().collect::<Vec<_>>()));
    host
}

/// A key, as those have it who sign with it and as those who check.
struct Key(ProofKey);

impl Key {
    fn new() -> Self {
        Self(ProofKey::generate().unwrap())
    }

    fn jwks(&self) -> Value {
        let url = Url::parse("https://as.example").unwrap();
        let proof = self.0.prove(&Method::POST, &url, None, None, "x".to_owned(), 0).unwrap();
        let header = proof.to_str().unwrap().split('.').next().unwrap().to_owned();
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        let mut key = header["jwk"].clone();
        key["kid"] = json!("k1");
        json!({ "keys": [key] })
    }

    fn signing(&self) -> ClientSigningKey {
        let text = STANDARD.encode(self.0.document());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        ClientSigningKey::from_pem(&pem, "ES256").unwrap().key_id("k1")
    }

    fn sign(&self, kind: &str, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        (header.typ, header.kid) = (Some(kind.to_owned()), Some("k1".to_owned()));
        jsonwebtoken::encode(&header, claims, &EncodingKey::from_ec_der(self.0.document())).unwrap()
    }
}

/// One answer of a server, as its body; a form comes in.
type Page = dyn Fn(&str, &[(String, String)]) -> Option<Value> + Send + Sync;

/// Serves JSON on loopback; `make` receives the base URL.
fn site<F>(make: impl FnOnce(String) -> F) -> String
where
    F: Fn(&str, &[(String, String)]) -> Option<Value> + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let page = make(url.clone());
    let page: Arc<Page> = Arc::new(page);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let page = Arc::clone(&page);
            thread::spawn(move || answer(&stream, &*page));
        }
    });
    url
}

fn answer(mut stream: &TcpStream, page: &Page) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().to_ascii_lowercase().split_once(':') {
            None => break,
            Some(("content-length", value)) => length = value.trim().parse().ok()?,
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let form: Vec<_> = url::form_urlencoded::parse(&body).into_owned().collect();
    let said = page(first.split(' ').nth(1)?, &form);
    let status = if said.is_some() { "200 OK" } else { "404 Not Found" };
    let text = said.unwrap_or_default().to_string();
    let head = "content-type: application/json\r\nconnection: close\r\n";
    write!(stream, "HTTP/1.1 {status}\r\n{head}content-length: {}\r\n\r\n{text}", text.len()).ok()
}

/// Posts a form to the server at `to` as to `host`; status, headers and body.
fn post(
    to: SocketAddr,
    host: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    fields: &[(&str, &str)],
) -> (String, Value) {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n").unwrap();
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n").unwrap();
    }
    let kind = "application/x-www-form-urlencoded";
    write!(stream, "content-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

fn id(text: &str) -> ClientId {
    ClientId::new(text).unwrap()
}

/// An application of the SDK's that is known as `auth` says.
fn oauth(endpoint: &str, name: &str, auth: ClientAuth, grant: GrantType) -> OAuthClient {
    let given = PreregisteredOAuthClient::new(id(name)).auth(auth);
    OAuthClient::builder(endpoint).unwrap().client(given).grant(grant).build()
}

/// Calls a tool there, or says why not.
async fn call(endpoint: &str, oauth: &OAuthClient) -> Result<String, String> {
    let target = Target::url(endpoint).authorizer(Arc::new(oauth.clone()));
    let client = Client::connect(target).await.map_err(|error| error.to_string())?;
    let called = client.call("time__now", json!({ "timezone": "Asia/Tokyo" })).await;
    called.map(|said| format!("{said:?}")).map_err(|error| error.to_string())
}

/// With the keys in the configuration, and with keys that the application publishes.
#[tokio::test]
async fn an_application_signs_that_it_is_itself() {
    let house = House::new();
    let (key, other) = (Key::new(), Key::new());
    let published = key.jwks();
    let keys = site(|_| move |path: &str, _: &[_]| (path == "/jwks.json").then(|| published.clone()));
    house.write("robot.json", &key.jwks().to_string());
    let listen = free();
    let auth = format!(
        "[auth.clients.robot]\njwks = \"${{file:robot.json}}\"\n\
         [auth.clients.published]\njwks_uri = \"{keys}/jwks.json\""
    );
    let _host = up(&house, listen, &auth);
    let endpoint = format!("http://{listen}/mcp");
    for name in ["robot", "published"] {
        let known = oauth(&endpoint, name, ClientAuth::Key(key.signing()), GrantType::ClientCredentials);
        let said = call(&endpoint, &known).await.unwrap();
        assert!(said.contains("+09:00"), "{said}");
        let forged = oauth(&endpoint, name, ClientAuth::Key(other.signing()), GrantType::ClientCredentials);
        assert!(call(&endpoint, &forged).await.unwrap_err().contains("invalid_client"));
    }
}

/// An assertion of an enterprise's identity provider signs its user in to an application, without a prompt.
#[tokio::test]
async fn the_word_of_an_identity_provider_is_taken() {
    let house = House::new();
    let (key, now) = (Key::new(), UnixClock::system().now());
    let idp = site(|idp| {
        move |path: &str, form: &[(String, String)]| {
            let field =
                |name: &str| form.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            match path {
                "/.well-known/oauth-authorization-server" => {
                    Some(json!({ "issuer": idp, "jwks_uri": format!("{idp}/keys") }))
                }
                "/keys" => Some(key.jwks()),
                "/token" => {
                    assert_eq!(field("subject_token").as_deref(), Some("what ann signed in with"));
                    let claims = json!({ "iss": idp, "sub": "ann", "aud": field("audience"), "client_id": "robot",
                        "resource": field("resource"), "scope": "mcp", "iat": now, "exp": now + 300, "jti": "1" });
                    let word = key.sign("oauth-id-jag+jwt", &claims);
                    Some(json!({ "access_token": word, "token_type": "N_A",
                        "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag" }))
                }
                _ => None,
            }
        }
    });
    let listen = free();
    let auth = format!(
        "identity_providers = [\"{idp}\"]\n[auth.clients.robot]\nsecret = \"the-secret\"\n\
         enterprise_managed = true\n[auth.clients.other]\nsecret = \"the-secret\""
    );
    let _host = up(&house, listen, &auth);
    let endpoint = format!("http://{listen}/mcp");
    let grant = || {
        let us = Registered::new(id("us"), ClientAuth::Basic("x".into()));
        let provider = Url::parse(&format!("{idp}/token")).unwrap();
        GrantType::Enterprise(IdentityProvider::new(provider, us, "what ann signed in with"))
    };
    let robot = oauth(&endpoint, "robot", ClientAuth::Basic("the-secret".into()), grant());
    let said = call(&endpoint, &robot).await.unwrap();
    assert!(said.contains("+09:00"), "{said}");
    let other = oauth(&endpoint, "other", ClientAuth::Basic("the-secret".into()), grant());
    let refused = call(&endpoint, &other).await.unwrap_err();
    assert!(refused.contains("unauthorized_client"), "{refused}");
    let again = oauth(&endpoint, "robot", ClientAuth::Basic("the-secret".into()), grant());
    let refused = call(&endpoint, &again).await.unwrap_err();
    assert!(refused.contains("invalid_grant"), "its word is good once: {refused}");
}

/// Tokens must be bound and have the required scopes, and a resource server may introspect them.
#[tokio::test]
async fn tokens_are_bound_and_asked_about() {
    let house = House::new();
    let listen = free();
    let endpoint = format!("http://{listen}/mcp");
    let auth = format!(
        "scopes = [\"files\"]\ndpop = \"required\"\ndpop_nonces = true\n\
         [auth.clients.machine]\nsecret = \"the-secret\"\n\
         [auth.clients.served]\nsecret = \"the-secret\"\nserves = [\"{endpoint}\"]\n\
         [auth.clients.stranger]\nsecret = \"the-secret\""
    );
    let _host = up(&house, listen, &auth);
    let machine =
        oauth(&endpoint, "machine", ClientAuth::Basic("the-secret".into()), GrantType::ClientCredentials);
    let said = call(&endpoint, &machine).await.unwrap();
    assert!(said.contains("+09:00"), "{said}");
    let tokens = machine.tokens().await.unwrap().unwrap();
    assert_eq!(tokens.kind, AccessTokenType::Dpop);
    assert!(tokens.granted.contains_all(&Scopes::parse("mcp files")), "{}", tokens.granted);

    // Whoever has stolen it, or asks without a proof, has nothing.
    let token = tokens.access.expose_secret();
    let stolen =
        house.run(&["call", &endpoint, "time__now", "-H", &format!("Authorization: Bearer {token}")]);
    assert_ne!(stolen.code, Some(0), "{stolen:?}");
    let grant = [("grant_type", "client_credentials")];
    let credentials = basic("machine", "the-secret");
    let (head, plain) = post(listen, listen, "/token", &[("authorization", &credentials)], &grant);
    assert!(head.starts_with("HTTP/1.1 400") && plain["error"] == "invalid_dpop_proof", "{head} {plain}");
    // Whoever runs the host asks how it is all the same.
    support::eventually("the status is there", || house.run(&["status"]).stdout.contains("time"));

    let ask = |name: &str| {
        let credentials = basic(name, "the-secret");
        post(listen, listen, "/introspect", &[("authorization", &credentials)], &[("token", token)]).1
    };
    let known = ask("served");
    assert_eq!(
        (&known["active"], &known["sub"], &known["aud"]),
        (&json!(true), &json!("machine"), &json!(endpoint))
    );
    assert!(known["cnf"]["jkt"].is_string() && known["token_type"] == "DPoP", "{known}");
    assert_eq!(ask("stranger"), json!({ "active": false }));
}

/// Two hosts behind one address share what they keep: a nonce of the one is good at the other, a proof at one of them.
#[test]
fn hosts_that_share_a_store_know_each_others_nonces() {
    let house = House::new();
    let (one, other) = (free(), free());
    let auth = format!(
        "base_url = \"http://{one}\"\nstore = \"shared.db\"\ndpop = \"required\"\ndpop_nonces = true\n\
         [auth.clients.machine]\nsecret = \"the-secret\""
    );
    let _hosts = [up(&house, one, &auth), up(&house, other, &auth)];
    let url = Url::parse(&format!("http://{one}/token")).unwrap();
    let (key, credentials) = (ProofKey::generate().unwrap(), basic("machine", "the-secret"));
    let ask = |at: SocketAddr, id: &str, nonce: Option<&str>| {
        let proof =
            key.prove(&Method::POST, &url, None, nonce, id.to_owned(), UnixClock::system().now()).unwrap();
        let headers = [("authorization", &*credentials), ("dpop", proof.to_str().unwrap())];
        post(at, one, "/token", &headers, &[("grant_type", "client_credentials")])
    };
    let (head, said) = ask(one, "1", None);
    assert_eq!(said["error"], "use_dpop_nonce", "{head}");
    let nonce = head.lines().find_map(|line| line.strip_prefix("dpop-nonce: ")).unwrap().trim().to_owned();
    let (head, said) = ask(other, "2", Some(&nonce));
    assert!(head.starts_with("HTTP/1.1 200") && said["token_type"] == "DPoP", "{head} {said}");
    assert_eq!(ask(one, "2", Some(&nonce)).1["error"], "invalid_dpop_proof", "shown to the other before");
    // At their endpoints too.
    let token = said["access_token"].as_str().unwrap();
    let place = Url::parse(&format!("http://{one}/mcp")).unwrap();
    let show = |at: SocketAddr, id: &str| {
        let now = UnixClock::system().now();
        let proof = key.prove(&Method::POST, &place, Some(token), Some(&nonce), id.to_owned(), now).unwrap();
        let shown = format!("DPoP {token}");
        let headers = [("authorization", &*shown), ("dpop", proof.to_str().unwrap())];
        post(at, one, "/mcp", &headers, &[]).0
    };
    // What comes next is no message, which only those hear who are let in.
    assert!(show(one, "3").starts_with("HTTP/1.1 415"), "{}", show(one, "4"));
    assert!(show(other, "5").starts_with("HTTP/1.1 415"));
    let refused = show(other, "3");
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("invalid_dpop_proof"), "{refused}");
    // Whoever has nothing is told what is wanted (RFC 9449, section 7.1).
    let (head, _) = post(one, one, "/mcp", &[], &[]);
    assert!(head.contains("www-authenticate: DPoP algs=") && !head.contains("Bearer"), "{head}");
}
