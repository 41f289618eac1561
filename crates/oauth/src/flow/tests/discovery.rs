//! Discovery of resources and authorization servers.

use hospes_auth::metadata::{ResourceMetadataError, ServerMetadataError};
use secrecy::ExposeSecret as _;

use super::*;

const PATH: &str = "https://m/.well-known/oauth-protected-resource/mcp";
const ROOT: &str = "https://m/.well-known/oauth-protected-resource";
const SERVER: &str = "https://as/.well-known/oauth-authorization-server";

#[test]
fn the_challenge_says_where_the_metadata_is() {
    let mut world = World::new()
        .without(PATH)
        .page("https://m/custom/location.json", 200, resource("https://m/mcp", "https://as"))
        .challenge("Bearer resource_metadata=\"https://m/custom/location.json\"");
    assert_eq!(world.play().unwrap().access.expose_secret(), "acc3ss");
    assert_eq!(world.urls(), ["https://m/custom/location.json", SERVER, "https://as/token"]);
}

/// covers: AUTC-21 AUTC-23
#[test]
fn without_a_challenge_the_path_is_probed_and_then_the_root() {
    let mut world = World::new();
    world.play().unwrap();
    assert_eq!(world.urls(), [PATH, SERVER, "https://as/token"], "the root is not asked for in vain");
    let mut world = World::new().without(PATH).page(ROOT, 200, resource("https://m", "https://as"));
    assert_eq!(world.play().unwrap().resource.as_str(), "https://m");
    assert_eq!(world.urls()[..2], [PATH, ROOT]);
    let named = format!("Bearer resource_metadata=\"{ROOT}\"");
    let mut world = World::new().page(ROOT, 200, resource("https://m", "https://as")).challenge(&named);
    world.play().unwrap();
    assert_eq!(world.urls()[0], ROOT);
}

#[test]
fn where_the_challenge_points_in_vain_nothing_is_probed() {
    for challenge in ["https://m/nowhere", "http://m/open", "nonsense"] {
        let mut world = World::new().challenge(&format!("Bearer resource_metadata=\"{challenge}\""));
        assert!(world.play().is_err());
        assert!(world.asked.len() <= 1, "{:?}", world.urls());
    }
    let mut down = World::new().page(PATH, 503, json!({}));
    assert!(matches!(down.play(), Err(FlowError::Status { .. })));
    let mut gone = World::new().page(PATH, 0, json!({}));
    assert!(matches!(gone.play(), Err(FlowError::Fetch { why: FetchError::Unreachable, .. })));
    assert_eq!(gone.asked.len(), 1);
}

#[test]
fn a_page_that_is_no_document_is_passed_over_when_probing() {
    let mut world =
        World::new().page(PATH, 200, json!("<html>")).page(ROOT, 200, resource("https://m", "https://as"));
    world.play().unwrap();
}

/// covers: AUTC-21
#[test]
fn a_document_with_a_mistake_is_an_error_that_names_it() {
    for (document, said) in [
        (json!({ "authorization_servers": ["https://as"] }), "missing field `resource`"),
        (json!({ "resource": 7, "authorization_servers": ["https://as"] }), "`resource`"),
        (json!({ "resource": "mcp", "authorization_servers": ["https://as"] }), "`resource`"),
        (
            json!({ "resource": "https://m/mcp", "authorization_servers": "https://as" }),
            "`authorization_servers`",
        ),
        (
            json!({ "resource": "https://m/mcp", "authorization_servers": ["https://as", 7] }),
            "`authorization_servers[1]`",
        ),
        (json!({ "resource": "https://m/mcp", "scopes_supported": "s3cret" }), "`scopes_supported`"),
    ] {
        let mut world =
            World::new().page(PATH, 200, document).page(ROOT, 200, resource("https://m", "https://as"));
        let error = world.play().unwrap_err();
        assert!(matches!(error, FlowError::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(said) && error.to_string().contains(PATH), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        assert_eq!(world.urls(), [PATH]);
    }
    // JSON of its own, as a site says everywhere, is no such document.
    let mut other = World::new().page(PATH, 200, json!({ "status": "ok" }));
    other.pages.insert(ROOT.into(), (200, resource("https://m", "https://as")));
    other.play().unwrap();
    let mut server = World::new().server(json!({ "token_endpoint": ["https://as/token"] }));
    let error = server.play().unwrap_err().to_string();
    assert!(error.contains("`token_endpoint`") && error.contains(SERVER), "{error}");
}

/// covers: AUTC-29 AUTC-30
#[test]
fn a_resource_is_named_by_its_canonical_uri() {
    for bad in ["https://m/mcp#part", "m/mcp", "//m/mcp", "/mcp", ""] {
        let mut world = World::new().page(PATH, 200, resource(bad, "https://as"));
        let _ = world.play();
        assert!(!world.urls().contains(&"https://as/token"), "{bad}");
    }
    // As it is published, capitals and all.
    for good in ["https://m/mcp", "HTTPS://M/mcp", "https://m:443/mcp"] {
        let mut world = World::new().page(PATH, 200, resource(good, "https://as"));
        assert_eq!(world.play().unwrap().resource.as_str(), good);
        assert_eq!(world.form()["resource"], good);
    }
    // Where nothing is published, by us: the whole path, no slash that means nothing, no fragment.
    for (endpoint, named) in [
        ("HTTPS://M:443/a/mcp", "https://m/a/mcp"),
        ("https://m/mcp/", "https://m/mcp"),
        ("https://m/", "https://m"),
        ("https://m/mcp#part", "https://m/mcp"),
        ("https://me:pw@m/mcp", "https://m/mcp"),
    ] {
        let mut world = older();
        world.cause.endpoint = Url::parse(endpoint).unwrap();
        assert_eq!(world.play().unwrap().resource.as_str(), named, "{endpoint}");
        assert_eq!(
            (world.question()["resource"].as_str(), world.form()["resource"].as_str()),
            (named, named)
        );
    }
}

#[test]
fn metadata_about_somebody_else_ends_it_before_anybody_else_is_asked() {
    for other in ["https://evil.example/mcp", "https://m/mc", "http://m/mcp"] {
        let mut world = World::new().page(PATH, 200, resource(other, "https://as"));
        assert!(
            matches!(world.play(), Err(FlowError::Resource(ResourceMetadataError::Other { .. }))),
            "{other}"
        );
        assert_eq!(world.urls(), [PATH]);
    }
}

/// covers: AUTC-03 AUTC-25 AUTC-26
#[test]
fn the_server_is_looked_for_in_each_place_in_turn() {
    let tenant = [
        "https://as/.well-known/oauth-authorization-server/t1",
        "https://as/.well-known/openid-configuration/t1",
        "https://as/t1/.well-known/openid-configuration",
    ];
    let plain = [SERVER, "https://as/.well-known/openid-configuration"];
    for (issuer, places) in [("https://as/t1", &tenant[..]), ("https://as", &plain[..])] {
        for (index, place) in places.iter().enumerate() {
            let mut world = World::new()
                .without(SERVER)
                .page(PATH, 200, resource("https://m/mcp", issuer))
                .page(place, 200, server(issuer))
                .page(&format!("{issuer}/token"), 200, token());
            assert_eq!(world.play().unwrap().issuer.as_str(), issuer);
            assert_eq!(world.urls()[1..=index + 1], places[..=index], "none skipped, none after");
            assert_eq!(world.urls().len(), index + 3);
        }
        let mut nowhere = World::new().without(SERVER).page(PATH, 200, resource("https://m/mcp", issuer));
        assert!(matches!(nowhere.play(), Err(FlowError::NoServerMetadata(_))));
        assert_eq!(nowhere.urls()[1..], *places);
    }
}

/// covers: AUTC-27
#[test]
fn metadata_of_another_issuer_is_not_used() {
    for said in ["https://attacker.example", "https://as/t1", "https://AS", "https://as:443"] {
        let mut world = World::new().server(json!({ "issuer": said }));
        assert!(matches!(world.play(), Err(FlowError::Server(ServerMetadataError::Issuer { .. }))), "{said}");
        assert!(world.visited.is_empty());
        assert_eq!(world.urls(), [PATH, SERVER]);
    }
    let slash = || World::new().server(json!({ "issuer": "https://as/" }));
    assert_eq!(
        slash().play().unwrap().issuer.as_str(),
        "https://as/",
        "the document's own name is what is kept"
    );
    assert!(slash().settings(|settings| settings.strict_issuer = true).play().is_err());
    // With a path, a slash more or less is another one.
    for (named, said) in [("https://as/t1", "https://as/t1/"), ("https://as/t1/", "https://as/t1")] {
        let place = "https://as/.well-known/oauth-authorization-server/t1";
        let mut world = World::new()
            .page(PATH, 200, resource("https://m/mcp", named))
            .page(place, 200, server(said))
            .page(&format!("{place}/"), 200, server(said));
        assert!(
            matches!(world.play(), Err(FlowError::Server(ServerMetadataError::Issuer { .. }))),
            "{named}"
        );
        assert!(world.visited.is_empty());
    }
}

/// covers: AUTC-24
#[test]
fn of_several_servers_one_that_knows_us_is_asked() {
    let world = || {
        World::new()
            .with(PATH, json!({ "authorization_servers": ["https://as1", "https://as"] }))
            .page("https://as1/.well-known/oauth-authorization-server", 200, server("https://as1"))
            .page("https://as1/token", 200, token())
    };
    assert_eq!(world().play().unwrap().issuer.as_str(), "https://as1");
    let mut knowing = world();
    knowing.cause.known = vec![Issuer::new("https://as").unwrap()];
    assert_eq!(knowing.play().unwrap().issuer.as_str(), "https://as");
    let mut given = world().settings(|settings| {
        let issuer = Issuer::new("https://as").unwrap();
        settings.given = Some(PreregisteredOAuthClient::new(ClientId::new("us").unwrap()).issuer(issuer));
    });
    assert_eq!(given.play().unwrap().issuer.as_str(), "https://as");
}

fn older() -> World {
    let mut world = World::new().without(PATH).without(SERVER);
    world.pages.remove("https://as/token");
    world.page("https://m/token", 200, token()).page("https://m/register", 201, json!({ "client_id": "new" }))
}

/// covers: AUTC-02 AUTC-19 AUTC-04 AUTC-05 AUTC-06 AUTC-07
#[test]
fn a_server_of_the_first_revision_with_metadata_is_its_own_authorization_server() {
    let place = "https://m/.well-known/oauth-authorization-server";
    let mut world = older().page(place, 200, server("https://m"));
    world.cause.endpoint = Url::parse("https://m/a/mcp").unwrap();
    let tokens = world.play().unwrap();
    assert_eq!((tokens.issuer.as_str(), tokens.resource.as_str()), ("https://m", "https://m/a/mcp"));
    let asked = world.asked.iter().find(|request| request.url.as_str() == place).unwrap();
    assert_eq!(asked.headers["mcp-protocol-version"], "2025-03-26");
    assert!(!world.urls().contains(&"https://m/register"));
    let registers = json!({ "client_id_metadata_document_supported": null, "registration_endpoint": "https://m/register" });
    let mut world = older().page(place, 200, server("https://m")).with(place, registers);
    assert_eq!(world.play().unwrap().client.id.as_str(), "new");
}

/// covers: AUTC-08
#[test]
fn a_server_of_the_first_revision_without_metadata_has_its_endpoints_at_fixed_paths() {
    let mut world = older();
    world.cause.endpoint = Url::parse("https://m/mcp/").unwrap();
    let tokens = world.play().unwrap();
    assert_eq!((tokens.issuer.as_str(), tokens.resource.as_str()), ("https://m", "https://m/mcp"));
    assert!(world.visited[0].as_str().starts_with("https://m/authorize?"));
    assert_eq!(world.urls()[world.asked.len() - 2..], ["https://m/register", "https://m/token"]);
    let question = world.question();
    assert_eq!(question["code_challenge_method"], "S256");
    assert!(hospes_auth::pkce::verify_challenge(&world.form()["code_verifier"], &question["code_challenge"]));
    // All other rules hold: an answer from elsewhere is none.
    let mut mixed = older().answer(&[("code", "c"), ("iss", "https://attacker.example")]);
    assert_eq!(mixed.play().unwrap_err(), FlowError::Redirect(RedirectError::Issuer));
}

#[test]
fn the_older_way_can_be_closed() {
    let mut denied = older().settings(|settings| settings.legacy_discovery = LegacyDiscovery::Deny);
    assert_eq!(denied.play().unwrap_err(), FlowError::NoMetadata);
    let probed = ["https://m/.well-known/oauth-protected-resource/mcp", ROOT];
    assert!(denied.visited.is_empty() && denied.urls() == probed, "{:?}", denied.urls());
    let mut only = older().settings(|settings| settings.legacy_discovery = LegacyDiscovery::MetadataOnly);
    assert_eq!(only.play().unwrap_err(), FlowError::NoMetadata, "nobody has named the issuer");
    assert!(only.visited.is_empty() && !only.urls().contains(&"https://m/register"));
}

/// covers: AUTC-32
#[test]
fn without_s256_nobody_is_asked() {
    for methods in [Value::Null, json!([]), json!(["plain"])] {
        let mut world = World::new().server(json!({ "code_challenge_methods_supported": methods }));
        assert!(matches!(world.play(), Err(FlowError::Server(ServerMetadataError::NoPkce(_)))));
        assert!(world.visited.is_empty());
    }
}

/// covers: AUTG-08
#[test]
fn endpoints_in_the_open_are_not_used() {
    for member in ["authorization_endpoint", "token_endpoint"] {
        for bad in ["http://as/x", "javascript:alert(1)", "data:text/html,x", "file:///x"] {
            let mut world = World::new().server(json!({ member: bad }));
            assert!(
                matches!(world.play(), Err(FlowError::Server(ServerMetadataError::Endpoint { .. }))),
                "{bad}"
            );
            assert!(world.visited.is_empty());
        }
    }
}

/// covers: SECP-05
#[test]
fn a_public_server_has_no_business_on_this_machine() {
    for member in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
        for here in ["http://127.0.0.1:1/x", "http://localhost/x", "https://localhost/x", "http://[::1]:1/x"]
        {
            let mut world = World::new().server(json!({ member: here }));
            let error = world.play().unwrap_err();
            assert!(matches!(error, FlowError::Server(ServerMetadataError::Here { .. })), "{here}: {error}");
            assert!(world.visited.is_empty() && world.kept.is_empty());
        }
    }
    // A server that is here itself may.
    let mut world = World::new().server(json!({ "authorization_endpoint": "http://127.0.0.1:1/x" }));
    world.cause.endpoint = Url::parse("http://localhost:1/mcp").unwrap();
    let here = "http://localhost:1/.well-known/oauth-protected-resource/mcp";
    world.page(here, 200, resource("http://localhost:1/mcp", "https://as")).play().unwrap();
}
