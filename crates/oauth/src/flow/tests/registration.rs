//! Under which id the server knows us.

use base64::Engine as _;
use hospes_auth_testkit::TestSigningKey;
use secrecy::ExposeSecret as _;

use super::*;
use crate::ClientSigningKey;

fn registering() -> World {
    World::new()
        .settings(|settings| settings.metadata_url = None)
        .server(json!({ "registration_endpoint": "https://as/register" }))
        .page("https://as/register", 201, json!({ "client_id": "new" }))
}

fn given(id: &str) -> PreregisteredOAuthClient {
    PreregisteredOAuthClient::new(ClientId::new(id).unwrap())
}

fn issuer(text: &str) -> Issuer {
    Issuer::new(text).unwrap()
}

fn registered(world: &World) -> Vec<Value> {
    let posts = world.asked.iter().filter(|request| request.url.path() == "/register");
    posts.map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

/// A key by which a client shows who it is.
fn client_key() -> ClientSigningKey {
    let key = TestSigningKey::new("k1");
    ClientSigningKey::from_pem(&key.pem(), "ES256").unwrap().key_id(key.id.as_str())
}

/// covers: AUTC-12 AUTC-35 AUTC-36 AUTC-39 DEPR-02
#[test]
fn a_given_client_comes_first_then_our_document_then_registration_then_the_person() {
    let all = || {
        registering().settings(|settings| {
            settings.metadata_url = Some(ClientId::new("https://hospes.example/client.json").unwrap());
        })
    };
    let mut first = all().settings(|settings| settings.given = Some(given("us")));
    assert_eq!(first.play().unwrap().client.id.as_str(), "us");
    let mut second = all();
    assert_eq!(second.play().unwrap().client.id.as_str(), "https://hospes.example/client.json");
    assert!(registered(&second).is_empty());
    let mut before_ours = all();
    before_ours.known = Some(known(CALLBACK, None));
    assert_eq!(before_ours.play().unwrap().client.id.as_str(), "https://hospes.example/client.json");
    let mut before_new = registering();
    before_new.known = Some(known(CALLBACK, None));
    assert_eq!(before_new.play().unwrap().client.id.as_str(), "known");
    assert!(registered(&before_new).is_empty());
    for unsupported in [Value::Null, json!(false)] {
        let mut third = all().server(json!({ "client_id_metadata_document_supported": unsupported }));
        assert_eq!(third.play().unwrap().client.id.as_str(), "new");
        assert_eq!(third.kept.len(), 1);
    }
    let mut last = registering().server(json!({ "registration_endpoint": null }));
    assert_eq!(last.play().unwrap_err(), FlowError::NeedsClientId(issuer("https://as")));
    assert!(last.visited.is_empty());
}

/// covers: AUTC-52
#[test]
fn a_client_given_for_another_server_is_an_error() {
    let client = given("us").secret("s3cret").issuer(issuer("https://old"));
    let mut world = registering().settings(|settings| settings.given = Some(client));
    let error = world.play().unwrap_err();
    let (registered, now) = (issuer("https://old"), issuer("https://as"));
    assert_eq!(error, FlowError::OtherIssuer { registered, now });
    assert!(error.to_string().contains("https://old"));
    assert!(world.visited.is_empty() && world.urls().len() == 2);
}

#[test]
fn a_client_given_for_nobody_belongs_to_the_first_it_meets() {
    let mut world = World::new().settings(|settings| settings.given = Some(given("us").secret("s")));
    world.play().unwrap();
    assert_eq!((world.kept[0].issuer.as_str(), world.kept[0].client.id.as_str()), ("https://as", "us"));
    world.cause.bound = Some(issuer("https://as"));
    world.play().unwrap();
    assert_eq!(world.kept.len(), 1);
    world.cause.bound = Some(issuer("https://old"));
    assert!(matches!(world.play(), Err(FlowError::OtherIssuer { .. })));
}

/// covers: AUTC-09 AUTC-10 AUTC-33 AUTC-53 AUTC-56
#[test]
fn a_registration_says_what_it_is_for() {
    let mut world = registering()
        .server(json!({ "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"] }))
        .challenge("Bearer scope=x");
    world.play().unwrap();
    let body = &registered(&world)[0];
    assert_eq!(body["application_type"], "native");
    assert_eq!(body["redirect_uris"], json!([CALLBACK]));
    assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(body["response_types"], json!(["code"]));
    assert_eq!(body["token_endpoint_auth_method"], "none");
    assert_eq!(body["client_name"], "Hospes");
    assert_eq!(body["scope"], "x");
    assert_eq!(world.question()["redirect_uri"], CALLBACK);
    let mut web = registering().settings(|settings| {
        settings.redirect_uri = Some(RedirectUri::new("https://console.example/oauth/callback").unwrap());
        settings.offline_access = false;
    });
    web.play().unwrap();
    assert_eq!(registered(&web)[0]["application_type"], "web");
    assert_eq!(registered(&web)[0]["grant_types"], json!(["authorization_code"]));
    // Redirects that are refused by one name may be welcome by another.
    for error in ["invalid_redirect_uri", "invalid_client_metadata"] {
        let refused = json!({ "error": error, "error_description": "no numbers" });
        let numbers = || registering().page("https://as/register", 400, refused.clone());
        let hosts = |world: &World| -> Vec<_> {
            registered(world).iter().map(|body| body["redirect_uris"][0].clone()).collect()
        };
        let both = [CALLBACK, "http://localhost:41233/callback"];
        let mut never = numbers();
        let told = never.play().unwrap_err().to_string();
        assert_eq!(told, format!("client registration at https://as failed: {error} (no numbers)"));
        assert_eq!(hosts(&never), both, "once more, and not for ever");
        assert!(never.visited.is_empty());
        let mut then = numbers().page("https://as/register localhost", 201, json!({ "client_id": "new" }));
        assert_eq!(then.play().unwrap().client.id.as_str(), "new");
        assert_eq!(hosts(&then), both);
        assert_eq!(then.question()["redirect_uri"], both[1], "the one that was registered");
        assert_eq!(then.form()["redirect_uri"], both[1]);
    }
}

/// covers: AUTC-54
#[test]
fn a_registration_that_is_refused_is_told_in_the_servers_words() {
    for error in ["invalid_client_metadata", "invalid_software_statement"] {
        let body = json!({ "error": error, "error_description": "not you" });
        let mut world = registering().page("https://as/register", 400, body);
        let told = world.play().unwrap_err().to_string();
        assert_eq!(told, format!("client registration at https://as failed: {error} (not you)"));
    }
    let mut mute = registering().page("https://as/register", 403, json!({}));
    assert!(mute.play().unwrap_err().to_string().contains("403"));
}

#[test]
fn what_the_registration_answers_wins() {
    for (answered, offered, shown) in [
        (json!("client_secret_post"), json!(["none"]), "post"),
        (json!("client_secret_basic"), json!(["none"]), "basic"),
        (json!("none"), json!(["client_secret_post"]), "none"),
        (Value::Null, json!(["client_secret_post"]), "post"),
        (Value::Null, Value::Null, "basic"),
    ] {
        let mut world =
            registering().server(json!({ "token_endpoint_auth_methods_supported": offered })).page(
                "https://as/register",
                200,
                json!({ "client_id": "new", "client_secret": "s", "token_endpoint_auth_method": answered }),
            );
        world.play().unwrap();
        let basic = world.asked.last().unwrap().headers.contains_key("authorization");
        let form = world.form();
        assert_eq!(
            (basic, form.contains_key("client_secret")),
            (shown == "basic", shown == "post"),
            "{shown}"
        );
        assert_eq!(form.contains_key("client_id"), shown != "basic");
    }
    let strange = json!({ "client_id": "new", "token_endpoint_auth_method": "tls_client_auth" });
    let mut world = registering().page("https://as/register", 201, strange);
    assert!(matches!(world.play(), Err(FlowError::ClientAuth { .. })));
}

fn known(redirect: &str, expires_at: Option<u64>) -> ClientRegistration {
    ClientRegistration {
        issuer: issuer("https://as"),
        client: ClientIdentity::new(ClientId::new("known").unwrap(), ClientAuth::None),
        redirect_uri: Some(RedirectUri::new(redirect).unwrap()),
        expires_at,
    }
}

/// covers: AUTC-51
#[test]
fn a_registration_is_used_again_with_the_same_server_only() {
    for expires_at in [None, Some(NOW + 1)] {
        let mut world = registering();
        world.known = Some(known("http://127.0.0.1:5/callback", expires_at));
        assert_eq!(world.play().unwrap().client.id.as_str(), "known");
        assert!(registered(&world).is_empty());
        assert_eq!(world.question()["redirect_uri"], "http://127.0.0.1:5/callback");
    }
    let mut expired = registering();
    expired.known = Some(known(CALLBACK, Some(NOW)));
    assert_eq!(expired.play().unwrap().client.id.as_str(), "new");
    // The server moves to another authorization server, which must never see what belonged to the first.
    let mut moved = registering()
        .page(
            "https://m/.well-known/oauth-protected-resource/mcp",
            200,
            resource("https://m/mcp", "https://as2"),
        )
        .page("https://as2/.well-known/oauth-authorization-server", 200, server("https://as2"))
        .with(
            "https://as2/.well-known/oauth-authorization-server",
            json!({ "registration_endpoint": "https://as2/register" }),
        )
        .page("https://as2/register", 201, json!({ "client_id": "second" }))
        .page("https://as2/token", 200, token());
    moved.known = Some(known(CALLBACK, None));
    moved.cause.known = vec![issuer("https://as")];
    let tokens = moved.play().unwrap();
    assert_eq!((tokens.issuer.as_str(), tokens.client.id.as_str()), ("https://as2", "second"));
    assert_eq!(moved.kept[0].issuer.as_str(), "https://as2");
    for request in &moved.asked {
        assert!(!String::from_utf8_lossy(&request.body).contains("known"), "{request:?}");
    }
    assert!(!moved.visited[0].as_str().contains("known"));
}

#[test]
fn our_document_goes_with_us_to_another_server() {
    let mut world = World::new()
        .page(
            "https://m/.well-known/oauth-protected-resource/mcp",
            200,
            resource("https://m/mcp", "https://as2"),
        )
        .page("https://as2/.well-known/oauth-authorization-server", 200, server("https://as2"))
        .page("https://as2/token", 200, token());
    world.cause.known = vec![issuer("https://as")];
    assert_eq!(world.play().unwrap().client.id.as_str(), "https://hospes.example/client.json");
}

/// covers: AUTC-11
#[test]
fn where_nobody_registers_a_client_can_be_given() {
    let mut world = World::new()
        .server(json!({ "client_id_metadata_document_supported": null }))
        .settings(|settings| settings.given = Some(given("us")));
    assert_eq!(world.play().unwrap().client.id.as_str(), "us");
}

#[test]
fn a_secret_is_shown_in_one_way_only() {
    let strange = "a:b%c+d \u{e4}";
    for (offered, how) in [
        (Value::Null, "basic"),
        (json!(["client_secret_basic", "client_secret_post"]), "basic"),
        (json!(["private_key_jwt", "client_secret_post"]), "post"),
    ] {
        let mut world = World::new()
            .server(json!({ "token_endpoint_auth_methods_supported": offered }))
            .settings(|settings| settings.given = Some(given("i:d").secret(strange)));
        world.play().unwrap();
        let header = world.asked.last().unwrap().headers.get("authorization").cloned();
        let form = world.form();
        if how == "basic" {
            let text = header.unwrap().to_str().unwrap().strip_prefix("Basic ").unwrap().to_owned();
            let pair = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
            assert_eq!(String::from_utf8(pair).unwrap(), "i%3Ad:a%3Ab%25c%2Bd+%C3%A4");
            assert!(!form.contains_key("client_secret"));
        } else {
            assert!(header.is_none());
            assert_eq!((form["client_id"].as_str(), form["client_secret"].as_str()), ("i:d", strange));
        }
    }
    // Whoever does not take it in one way is not shown it in another.
    let mut refusing = World::new()
        .server(json!({ "token_endpoint_auth_methods_supported":
            ["client_secret_basic", "client_secret_post", "none"] }))
        .settings(|settings| settings.given = Some(given("i:d").secret(strange)))
        .page("https://as/token", 401, json!({ "error": "invalid_client" }));
    assert!(matches!(refusing.play(), Err(FlowError::Refused(_))));
    assert_eq!(refusing.urls().iter().filter(|url| **url == "https://as/token").count(), 1);
    let mut impossible = World::new()
        .server(json!({ "token_endpoint_auth_methods_supported": ["private_key_jwt"] }))
        .settings(|settings| settings.given = Some(given("us").secret("s")));
    assert!(matches!(impossible.play(), Err(FlowError::ClientAuth { .. })));
    let secret = ClientAuth::Basic("s".to_owned().into());
    let ClientAuth::Basic(kept) = &secret else { unreachable!() };
    assert_eq!(kept.expose_secret(), "s");
}

/// covers: AUTC-38
#[test]
fn a_client_with_a_key_shows_it_where_that_is_taken() {
    let key = client_key();
    let keyed = |methods: Value| {
        World::new()
            .settings(|settings| settings.metadata_key = Some(key.clone()))
            .server(json!({ "token_endpoint_auth_methods_supported": methods }))
    };
    let mut taken = keyed(json!(["none", "private_key_jwt"]));
    let tokens = taken.play().unwrap();
    let form = taken.form();
    assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    assert_eq!(tokens.client.id.as_str(), "https://hospes.example/client.json");
    // Its document says that it signs, so it cannot come without.
    for other in [json!(["none"]), Value::Null] {
        assert!(matches!(keyed(other).play(), Err(FlowError::NeedsClientId(_))));
    }
    let mut other = keyed(json!(["private_key_jwt"]))
        .server(json!({ "token_endpoint_auth_signing_alg_values_supported": ["RS256"] }));
    assert!(matches!(other.play(), Err(FlowError::NeedsClientId(_))));
}

/// covers: AUTC-37
#[test]
fn a_document_says_what_it_must() {
    let settings = |url: &str| OAuthClientSettings {
        metadata_url: Some(ClientId::new(url).unwrap()),
        ..OAuthClientSettings::default()
    };
    let url = "https://Hospes.example/client.json";
    let document = settings(url).document(Vec::new(), None).unwrap();
    let written = serde_json::to_value(&document).unwrap();
    assert_eq!(written["client_id"], url, "byte for byte");
    assert_eq!(written["client_name"], "Hospes");
    assert_eq!(written["redirect_uris"], json!(["http://127.0.0.1/callback", "http://localhost/callback"]));
    assert_eq!(written["token_endpoint_auth_method"], "none");
    assert_eq!(written["application_type"], "native");
    assert!(written.get("client_secret").is_none());
    for bad in [
        "http://h.example/c",
        "https://h.example",
        "https://h.example/",
        "https://h.example/c#x",
        "https://h.example/c?x",
        "https://me@h.example/c",
        "https://h.example/a/../c",
        "https://h.example/%2e/c",
        "client",
    ] {
        assert!(settings(bad).document(Vec::new(), None).is_err(), "{bad}");
    }
    assert!(OAuthClientSettings::default().document(Vec::new(), None).is_err());
    let to = |uri: &str| settings(url).document(vec![RedirectUri::new(uri).unwrap()], None);
    assert!(to("http://h.example/cb").is_err());
    let web = serde_json::to_value(to("https://h.example/cb").unwrap()).unwrap();
    assert_eq!(
        (&web["application_type"], &web["redirect_uris"]),
        (&json!("web"), &json!(["https://h.example/cb"]))
    );
    let signing = OAuthClientSettings { metadata_key: Some(client_key()), ..settings(url) };
    assert!(signing.document(Vec::new(), None).is_err(), "who signs publishes keys");
    let keys = Url::parse("https://hospes.example/keys").unwrap();
    let written = serde_json::to_value(signing.document(Vec::new(), Some(&keys)).unwrap()).unwrap();
    assert_eq!(
        (&written["token_endpoint_auth_method"], &written["jwks_uri"]),
        (&json!("private_key_jwt"), &json!(keys.as_str()))
    );
}
