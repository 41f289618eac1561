//! An enterprise's identity provider vouches for a person; ours is a scripted one, which looks at what it is asked.

use std::collections::HashMap;
use std::convert::Infallible;

use bytes::Bytes;
use hospes_auth::egress::{EgressPolicy, GuardedClient};
use hospes_oauth::IdentityProvider;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use super::*;

const ID_TOKEN: &str = "what was said when Bea signed in";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The identity provider: its issuer is where it listens.
struct ScriptedIdp {
    url: String,
    key: TestSigningKey,
    time: Arc<AtomicU64>,
    /// Name and value of a claim that replaces the correct one.
    claim: Mutex<Option<(&'static str, Value)>>,
    kind: Mutex<&'static str>,
    /// It says no.
    refuses: Mutex<bool>,
    /// Requests that were received.
    asked: Mutex<Vec<HashMap<String, String>>>,
}

impl ScriptedIdp {
    async fn open(time: Arc<AtomicU64>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let idp = Arc::new(Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            key: TestSigningKey::new("idp's"),
            time,
            claim: Mutex::default(),
            kind: Mutex::new("oauth-id-jag+jwt"),
            refuses: Mutex::default(),
            asked: Mutex::default(),
        });
        let served = Arc::clone(&idp);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let idp = Arc::clone(&served);
                let answer = service_fn(move |request| {
                    let idp = Arc::clone(&idp);
                    async move { Ok::<_, Infallible>(idp.answer(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        idp
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let (status, said) = match head.uri.path() {
            "/.well-known/oauth-authorization-server" => {
                (200, json!({ "issuer": self.url, "jwks_uri": format!("{}/keys", self.url) }))
            }
            "/keys" => (200, json!(key_set([&self.key]))),
            "/token" => self.exchange(head.headers.get("authorization").is_some(), &body),
            _ => (404, json!({})),
        };
        let response = Response::builder().status(status).header("content-type", "application/json");
        response.body(Full::new(said.to_string().into())).unwrap()
    }

    fn exchange(&self, shows_itself: bool, body: &[u8]) -> (u16, Value) {
        let form: HashMap<String, String> = url::form_urlencoded::parse(body).into_owned().collect();
        let number = {
            let mut asked = self.asked.lock();
            asked.push(form.clone());
            asked.len()
        };
        let is_in_order = shows_itself
            && form.get("grant_type").map(String::as_str)
                == Some("urn:ietf:params:oauth:grant-type:token-exchange")
            && form.get("requested_token_type").map(String::as_str) == Some(ID_JAG)
            && form.get("subject_token").map(String::as_str) == Some(ID_TOKEN)
            && form.get("subject_token_type").map(String::as_str)
                == Some("urn:ietf:params:oauth:token-type:id_token");
        if !is_in_order || *self.refuses.lock() {
            return (400, json!({ "error": "access_denied" }));
        }
        let now = self.time.load(Ordering::SeqCst);
        let mut claims = json!({
            "iss": self.url, "sub": "bea", "aud": form["audience"], "client_id": "robot",
            "resource": form["resource"], "scope": "mcp", "iat": now, "exp": now + 60,
            "jti": format!("j{number}"),
        });
        if let Some((name, value)) = &*self.claim.lock() {
            claims[*name] = value.clone();
        }
        let mut header = self.key.header();
        header.typ = Some((*self.kind.lock()).to_owned());
        let signed = self.key.sign_as(&header, &claims);
        (
            200,
            json!({ "access_token": signed, "issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": 60 }),
        )
    }
}

async fn place() -> (AuthTestSite, Arc<ScriptedIdp>, OAuthClient) {
    let time = clock();
    let idp = ScriptedIdp::open(Arc::clone(&time)).await;
    let trusted = Issuer::new(idp.url.as_str()).unwrap();
    let fetch = GuardedClient::new(EgressPolicy::public().allow_loopback());
    let site =
        AuthTestSite::open(time, |_| {}, |server| server.trust(trusted, fetch), |guard, _| guard).await;
    let url = Url::parse(&format!("{}/token", idp.url)).unwrap();
    let there =
        hospes_oauth::ClientIdentity::new(id("hospes-there"), ClientAuth::Basic("secret there".into()));
    let oauth = site.robot(GrantType::Enterprise(IdentityProvider::new(url, there, ID_TOKEN)));
    (site, idp, oauth)
}

/// The identity assertion is redeemed at the MCP server's own authorization server. No user is asked, not even on
/// renewal.
#[tokio::test]
async fn a_person_is_let_in_by_the_word_of_their_enterprise() {
    let (site, idp, oauth) = place().await;
    let client = site.connect(&oauth).await.unwrap();
    call(&client).await.unwrap();
    let who = site.who(&oauth).await;
    assert!(who.starts_with("user ") && who.contains("bea"), "{who}");
    {
        let asked = idp.asked.lock();
        let one = asked.first().unwrap();
        assert_eq!(asked.len(), 1);
        assert_eq!(one["audience"], format!("http://{}", site.address), "the issuer");
        assert_eq!(one["resource"], site.mcp());
    }
    assert!(oauth.tokens().await.unwrap().unwrap().refresh.is_none());
    site.pass(600);
    call(&client).await.unwrap();
    assert_eq!(idp.asked.lock().len(), 2, "it has vouched again");
}

#[tokio::test]
async fn a_word_that_is_not_in_order_lets_nobody_in() {
    let (site, idp, oauth) = place().await;
    let now = idp.time.load(Ordering::SeqCst);
    for (name, value) in [
        ("aud", json!("https://other.example")),
        ("client_id", json!("machine")),
        ("resource", json!("https://other.example/mcp")),
        ("exp", json!(now - 120)),
        ("iss", json!("https://other.example")),
    ] {
        *idp.claim.lock() = Some((name, value));
        let error = site.connect(&oauth).await.unwrap_err().to_string();
        assert!(error.contains("invalid_grant") || error.contains("invalid_target"), "{name}: {error}");
    }
    *idp.claim.lock() = None;
    *idp.kind.lock() = "JWT";
    let error = site.connect(&oauth).await.unwrap_err().to_string();
    assert!(error.contains("invalid_grant"), "{error}");
    *idp.kind.lock() = "oauth-id-jag+jwt";
    let asked = idp.asked.lock().len();
    *idp.refuses.lock() = true;
    let error = site.connect(&oauth).await.unwrap_err().to_string();
    assert!(error.contains("access_denied"), "{error}");
    assert_eq!(idp.asked.lock().len(), asked + 1, "it is asked once, and nothing else is tried");
    // The same word is good once.
    *idp.refuses.lock() = false;
    *idp.claim.lock() = Some(("jti", json!("always the same")));
    oauth.sign_in(None).await.unwrap();
    let again = oauth.sign_in(None).await.unwrap_err().to_string();
    assert!(again.contains("invalid_grant"), "{again}");
}
