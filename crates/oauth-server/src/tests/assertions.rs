//! Assertions of clients about themselves, and of identity providers about their users.

use std::sync::Arc;

use hospes_auth::FetchResponse;
use hospes_auth_testkit::{TestSigningKey, key_set};
use hospes_oauth_resource::TokenVerifier as _;
use http::StatusCode;
use serde_json::{Value, json};

use super::{ASKED, Answer, Ask, ISSUER, RESOURCE, Site, Web};
use crate::{AuthStore, ClientKeys, MemoryAuthStore, RegisteredClient};

const ROBOT: &str = "robot";
const KEYS: &str = "https://robot.example/jwks.json";
const IDP: &str = "https://idp.example";
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ID_JAG: &str = "oauth-id-jag+jwt";
const FOR_ITSELF: (&str, &str) = ("grant_type", "client_credentials");

fn document(document: &Value) -> FetchResponse {
    let mut response = FetchResponse::new(StatusCode::OK, document.to_string());
    response.headers.insert("content-type", "application/json".parse().unwrap());
    response
}

/// A server that knows a client that signs, and trusts an identity provider.
struct Place {
    key: TestSigningKey,
    idp: TestSigningKey,
    web: Web,
    store: Arc<dyn AuthStore>,
    site: Site,
}

impl Place {
    fn new(published: bool) -> Self {
        let (key, idp) = (TestSigningKey::new("k1"), TestSigningKey::new("i1"));
        let metadata = json!({ "issuer": IDP, "jwks_uri": "https://idp.example/keys" });
        let web = Web::default()
            .with(KEYS, document(&json!(key_set([&key]))))
            .with("https://idp.example/.well-known/oauth-authorization-server", document(&metadata))
            .with("https://idp.example/keys", document(&json!(key_set([&idp]))));
        let keys = match published {
            true => ClientKeys::At(KEYS.to_owned()),
            false => ClientKeys::Set(key_set([&key])),
        };
        let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
        let change = |settings: &mut super::AuthServerSettings| {
            let redirects = vec![super::redirect_uri(super::REDIRECT)];
            let robot = RegisteredClient::signing(super::client_id(ROBOT), keys, redirects).with_assertions();
            settings.clients.push(robot);
        };
        let Site { server, time, .. } = Site::on(Arc::clone(&store), change, Arc::new(1_000_000.into()));
        let server = server.fetching(web.clone()).trust(hospes_auth::Issuer::new(IDP).unwrap(), web.clone());
        Self { key, idp, web, store, site: Site::of(server, time) }
    }

    /// Creates the client's assertion about itself, with one claim changed.
    fn own(&self, id: &str, name: &str, value: Value) -> Value {
        let now = self.site.now();
        let mut claims =
            json!({ "iss": ROBOT, "sub": ROBOT, "aud": ISSUER, "iat": now, "exp": now + 60, "jti": id });
        claims[name] = value;
        claims
    }

    /// A request of the client, which signs.
    async fn ask(&self, id: &str, more: &[(&str, &str)]) -> Answer {
        self.ask_with(&sign(&self.key, None, &self.own(id, "x", Value::Null)), more).await
    }

    async fn ask_with(&self, assertion: &str, more: &[(&str, &str)]) -> Answer {
        let fields = [("client_assertion_type", CLIENT_ASSERTION), ("client_assertion", assertion)];
        self.site.form("/token", &[&fields, more].concat()).await
    }

    /// Creates the identity provider's assertion about a user, with one claim changed.
    fn user(&self, id: &str, name: &str, value: Value) -> Value {
        let now = self.site.now();
        let mut claims = json!({ "iss": IDP, "sub": "u-1", "aud": ISSUER, "client_id": ROBOT, "resource": RESOURCE,
            "scope": "mcp unknown", "iat": now, "exp": now + 300, "jti": id, "email": "ann@example.com" });
        claims[name] = value;
        claims
    }

    /// The client hands in what the identity provider has signed.
    async fn hand_in(&self, id: &str, kind: &str, claims: &Value, more: &[(&str, &str)]) -> Answer {
        let assertion = sign(&self.idp, Some(kind), claims);
        let fields = [("grant_type", JWT_BEARER), ("assertion", &*assertion)];
        self.ask(id, &[&fields, more].concat()).await
    }
}

fn sign(key: &TestSigningKey, kind: Option<&str>, claims: &Value) -> String {
    let mut header = key.header();
    header.typ = kind.map(str::to_owned);
    key.sign_as(&header, claims)
}

fn nobody() -> (u16, String) {
    (401, "invalid_client".to_owned())
}

#[tokio::test]
async fn a_client_signs_that_it_is_itself() {
    for published in [false, true] {
        let place = Place::new(published);
        let site = &place.site;
        for (at, kind) in [Some("client-authentication+jwt"), Some("JWT"), None].into_iter().enumerate() {
            let assertion = sign(&place.key, kind, &place.own(&at.to_string(), "x", Value::Null));
            let (token, refresh) = place.ask_with(&assertion, &[FOR_ITSELF]).await.tokens();
            assert!(refresh.is_empty());
            let who = site.guard().verify(&token, site.now()).await.unwrap();
            assert_eq!(who.name(), "https://as.example client robot");
            let again = place.ask_with(&assertion, &[FOR_ITSELF]).await;
            assert_eq!(again.error(), nobody(), "once");
        }
        // For a user too, and it may say twice who it is.
        let asked = Ask::of(ROBOT, ASKED);
        let code = site.code(&asked).await;
        let redeem = [
            ("grant_type", "authorization_code"),
            ("code", &*code),
            ("code_verifier", asked.verifier.expose()),
            ("redirect_uri", ASKED),
            ("client_id", ROBOT),
        ];
        let (_, refresh) = place.ask("code", &redeem).await.tokens();
        let more = [("grant_type", "refresh_token"), ("refresh_token", &*refresh)];
        place.ask("refresh", &more).await.tokens();
    }
    let metadata = Site::new().get("/.well-known/oauth-authorization-server").await.json();
    let has = |name: &str, what: &str| metadata[name].as_array().unwrap().contains(&json!(what));
    assert!(has("token_endpoint_auth_methods_supported", "private_key_jwt"));
    assert!(has("token_endpoint_auth_signing_alg_values_supported", "ES256"));
    assert!(!has("token_endpoint_auth_signing_alg_values_supported", "HS256"));
    assert!(!has("grant_types_supported", JWT_BEARER), "nobody is trusted");
}

#[tokio::test]
async fn an_assertion_that_is_not_in_order_is_nobodys() {
    let place = Place::new(false);
    let now = place.site.now();
    let other = TestSigningKey::new("k1");
    let plain = place.own("x", "x", Value::Null);
    let mut bad = vec![sign(&other, None, &plain), sign(&place.key, Some("at+jwt"), &plain)];
    for (at, (name, value)) in [
        ("iss", json!("machine")),
        ("aud", json!("https://as.example/")),
        ("aud", json!("https://as.example/token")),
        ("aud", json!("https://other.example")),
        ("aud", json!([ISSUER])),
        ("aud", json!([ISSUER, "https://other.example"])),
        ("exp", json!(now - 60)),
        ("exp", json!(now + 361)),
        ("exp", Value::Null),
        ("nbf", json!(now + 61)),
        ("jti", Value::Null),
        ("jti", json!("")),
        ("jti", json!("x".repeat(257))),
    ]
    .into_iter()
    .enumerate()
    {
        bad.push(sign(&place.key, None, &place.own(&at.to_string(), name, value)));
    }
    // Who it says to be has no keys.
    for name in ["machine", super::APP, "unknown"] {
        let claims = json!({ "iss": name, "sub": name, "aud": ISSUER, "exp": now + 60, "jti": name });
        bad.push(sign(&place.key, None, &claims));
    }
    for algorithm in ["none", "HS256"] {
        use base64::Engine as _;
        let part = |value: &Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string());
        bad.push(format!("{}.{}.", part(&json!({ "alg": algorithm })), part(&plain)));
    }
    for assertion in &bad {
        assert_eq!(place.ask_with(assertion, &[FOR_ITSELF]).await.error(), nobody(), "{assertion}");
    }
    let malformed = (400, "invalid_request".to_owned());
    for more in [("client_secret", "x"), ("client_id", "machine")] {
        assert_eq!(place.ask("good", &[FOR_ITSELF, more]).await.error(), malformed, "{more:?}");
    }
    for assertion in ["x", "x.y.z"] {
        assert_eq!(place.ask_with(assertion, &[FOR_ITSELF]).await.error(), malformed, "{assertion}");
    }
    let good = sign(&place.key, None, &place.own("good", "x", Value::Null));
    let kind = [("client_assertion_type", "urn:other"), ("client_assertion", &*good), FOR_ITSELF];
    assert_eq!(place.site.form("/token", &kind).await.error(), malformed);
    let unsigned = [FOR_ITSELF, ("client_id", ROBOT)];
    assert_eq!(place.site.form("/token", &unsigned).await.error(), nobody());
    assert_eq!(place.ask("good", &[FOR_ITSELF]).await.status(), StatusCode::OK, "none of these has used it");

    let cut = Place::new(true);
    cut.web.cut(KEYS);
    assert_eq!(cut.ask("1", &[FOR_ITSELF]).await.error(), (503, "temporarily_unavailable".to_owned()));
}

/// Keys of strangers' documents count among what is fetched of one host; those of the configuration do not.
#[tokio::test(start_paused = true)]
async fn keys_of_strangers_are_fetched_within_the_limits_of_their_documents() {
    const DOCUMENT: &str = "https://stranger.example/client.json";
    let place = Place::new(true);
    let about = json!({ "client_id": DOCUMENT, "client_name": "Robot", "redirect_uris": [super::REDIRECT],
        "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": KEYS });
    place.web.put(DOCUMENT, document(&about));
    let host = url::Url::parse(KEYS).unwrap().host_str().unwrap().to_owned();
    for number in 0..60 {
        place.site.get(&Ask::of(&format!("https://{host}/{number}.json"), ASKED).path()).await;
    }
    let claims = json!({ "iss": DOCUMENT, "sub": DOCUMENT, "aud": ISSUER, "exp": place.site.now() + 60,
        "jti": "1" });
    let redeem = [("grant_type", "authorization_code"), ("code", "x"), ("code_verifier", "x")];
    let stranger = place.ask_with(&sign(&place.key, None, &claims), &redeem).await;
    assert_eq!(stranger.status(), StatusCode::SERVICE_UNAVAILABLE, "{}", stranger.text());
    place.ask("1", &[FOR_ITSELF]).await.tokens();
}

/// A client's document says where its keys are.
#[tokio::test]
async fn a_client_of_a_document_signs() {
    const DOCUMENT: &str = "https://robot.example/client.json";
    let place = Place::new(false);
    let about = |name: &str, value: Value| {
        let mut about = json!({ "client_id": DOCUMENT, "client_name": "Robot", "redirect_uris": [super::REDIRECT],
            "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": KEYS });
        about[name] = value;
        document(&about)
    };
    place.web.put(DOCUMENT, about("x", Value::Null));
    let asked = Ask::of(DOCUMENT, ASKED);
    let code = place.site.code(&asked).await;
    assert_eq!(place.site.redeem(&asked, &code).await.error(), nobody(), "it has to sign");
    let now = place.site.now();
    let claims = json!({ "iss": DOCUMENT, "sub": DOCUMENT, "aud": ISSUER, "exp": now + 60, "jti": "1" });
    let redeem = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("code_verifier", asked.verifier.expose()),
        ("redirect_uri", ASKED),
    ];
    place.ask_with(&sign(&place.key, None, &claims), &redeem).await.tokens();
    for (name, value) in [
        ("jwks_uri", json!("http://robot.example/jwks.json")),
        ("jwks_uri", Value::Null),
        ("jwks", json!(key_set([&place.key]))),
        ("jwks", json!("x")),
    ] {
        place.site.pass(300);
        place.web.put(DOCUMENT, about(name, value.clone()));
        let answer = place.site.get(&asked.path()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{name} {value}");
    }
}

/// Enterprise-managed authorization to its end: the identity provider's assertion becomes a token without consent.
#[tokio::test]
async fn the_word_of_a_trusted_identity_provider_becomes_a_token() {
    let place = Place::new(false);
    let site = &place.site;
    let metadata = site.get("/.well-known/oauth-authorization-server").await.json();
    assert!(metadata["grant_types_supported"].as_array().unwrap().contains(&json!(JWT_BEARER)));
    let good = place.user("a", "x", Value::Null);
    let answer = place.hand_in("1", ID_JAG, &good, &[("resource", RESOURCE)]).await;
    assert_eq!(answer.json()["scope"], "mcp", "what is not known here is left out");
    let (token, refresh) = answer.tokens();
    assert!(refresh.is_empty());
    let who = site.guard().verify(&token, site.now()).await.unwrap();
    assert_eq!((&*who.subject, who.is_client), ("https://idp.example u-1", false));
    // Who is trusted no longer takes everything along.
    let later = Site::on(Arc::clone(&place.store), |_| {}, Arc::clone(&site.time));
    assert!(!later.is_good(&token).await);
}

#[tokio::test]
async fn the_word_of_others_or_for_others_becomes_none() {
    let place = Place::new(false);
    let now = place.site.now();
    let grant = (400, "invalid_grant".to_owned());
    let good = place.user("a", "x", Value::Null);
    assert_eq!(place.hand_in("1", ID_JAG, &good, &[]).await.status(), StatusCode::OK);
    assert_eq!(place.hand_in("2", ID_JAG, &good, &[]).await.error(), grant, "once");
    for kind in ["at+jwt", "JWT", "oauth-id-jag"] {
        let claims = place.user(kind, "x", Value::Null);
        assert_eq!(place.hand_in(kind, kind, &claims, &[]).await.error(), grant, "{kind}");
    }
    for (at, (name, value)) in [
        ("iss", json!("https://other.example")),
        ("aud", json!("https://other.example")),
        ("aud", json!("https://as.example/")),
        ("client_id", json!("machine")),
        ("client_id", Value::Null),
        ("resource", json!("https://other.example/mcp")),
        ("resource", Value::Null),
        ("exp", json!(now - 60)),
        ("exp", json!(now + 361)),
        ("iat", json!(now + 61)),
        ("iat", json!(now - 360)),
        ("iat", Value::Null),
        ("jti", Value::Null),
        ("sub", Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("c{at}");
        let claims = place.user(&id, name, value.clone());
        assert_eq!(place.hand_in(&id, ID_JAG, &claims, &[]).await.error(), grant, "{name} {value}");
    }
    let fresh = |id: &str| place.user(id, "x", Value::Null);
    let target = [("resource", "https://other.example/mcp")];
    assert_eq!(
        place.hand_in("3", ID_JAG, &fresh("b"), &target).await.error(),
        (400, "invalid_target".to_owned())
    );
    let wider = [("scope", "mcp files")];
    assert_eq!(
        place.hand_in("4", ID_JAG, &fresh("c"), &wider).await.error(),
        (400, "invalid_scope".to_owned())
    );
    let own = sign(&place.key, Some(ID_JAG), &fresh("d"));
    let by_another = [("grant_type", JWT_BEARER), ("assertion", &*own)];
    assert_eq!(place.ask("5", &by_another).await.error(), grant);
    let public = [("grant_type", JWT_BEARER), ("assertion", "x"), ("client_id", super::APP)];
    assert_eq!(place.site.form("/token", &public).await.error(), (400, "unauthorized_client".to_owned()));
    let nobody = Site::new();
    assert_eq!(nobody.form("/token", &public).await.error(), (400, "unsupported_grant_type".to_owned()));
    place.web.cut("https://idp.example/keys");
    place.site.pass(3600);
    let later = (503, "temporarily_unavailable".to_owned());
    assert_eq!(place.hand_in("6", ID_JAG, &fresh("e"), &[]).await.error(), later);
}

/// A client that introduces itself may sign, too: it hands over its public keys, and is given no secret.
#[tokio::test]
async fn a_client_that_introduces_itself_signs() {
    for published in [false, true] {
        let place = Place::new(published);
        let site = &place.site;
        let mut about = json!({ "redirect_uris": [super::REDIRECT], "client_name": "Robot",
            "token_endpoint_auth_method": "private_key_jwt" });
        match published {
            true => about["jwks_uri"] = json!(KEYS),
            false => about["jwks"] = json!(key_set([&place.key])),
        }
        let answer = site.register(&about).await;
        let said = answer.json();
        assert_eq!(answer.status(), StatusCode::CREATED, "{said}");
        assert_eq!(
            (said.get("client_secret"), &said["jwks"], &said["jwks_uri"]),
            (None, &about["jwks"], &about["jwks_uri"]),
            "what is kept"
        );
        let id = said["client_id"].as_str().unwrap();
        let asked = Ask::of(id, ASKED);
        let code = site.code(&asked).await;
        assert_eq!(site.redeem(&asked, &code).await.error(), nobody(), "it has to sign");
        let claims = json!({ "iss": id, "sub": id, "aud": ISSUER, "exp": site.now() + 60, "jti": "1" });
        let redeem = [
            ("grant_type", "authorization_code"),
            ("code", &*code),
            ("code_verifier", asked.verifier.expose()),
            ("redirect_uri", ASKED),
        ];
        let stranger = sign(&TestSigningKey::new("k1"), None, &claims);
        assert_eq!(place.ask_with(&stranger, &redeem).await.error(), nobody());
        place.ask_with(&sign(&place.key, None, &claims), &redeem).await.tokens();
    }
}

#[tokio::test]
async fn keys_that_are_not_in_order_register_nobody() {
    let place = Place::new(false);
    let set = json!(key_set([&place.key]));
    let mut private = set.clone();
    private["keys"][0]["d"] = json!("x");
    let many = json!({ "keys": vec![set["keys"][0].clone(); 17] });
    for (jwks, jwks_uri) in [
        (Value::Null, Value::Null),
        (set.clone(), json!(KEYS)),
        (Value::Null, json!("http://robot.example/jwks.json")),
        (Value::Null, json!("robot")),
        (private, Value::Null),
        (json!({ "keys": [] }), Value::Null),
        (json!({ "keys": [{ "kty": "oct", "k": "x" }] }), Value::Null),
        (json!({ "keys": "x" }), Value::Null),
        (json!("x"), Value::Null),
        (many, Value::Null),
    ] {
        let mut about =
            json!({ "redirect_uris": [super::REDIRECT], "token_endpoint_auth_method": "private_key_jwt" });
        for (name, value) in [("jwks", &jwks), ("jwks_uri", &jwks_uri)] {
            if !value.is_null() {
                about[name] = value.clone();
            }
        }
        let answer = place.site.register(&about).await;
        assert_eq!(answer.error(), (400, "invalid_client_metadata".to_owned()), "{about}");
        assert!(answer.text().contains("jwks"), "{}", answer.text());
    }
    // Who does not sign has no use for keys.
    let about =
        json!({ "redirect_uris": [super::REDIRECT], "token_endpoint_auth_method": "none", "jwks": set });
    assert_eq!(place.site.register(&about).await.json().get("jwks"), None);
    let nothing_is_fetched = Site::new();
    let about = json!({ "redirect_uris": [super::REDIRECT], "token_endpoint_auth_method": "private_key_jwt",
        "jwks_uri": KEYS });
    let refused = nothing_is_fetched.register(&about).await;
    assert!(refused.text().contains("use jwks"), "{}", refused.text());
}
