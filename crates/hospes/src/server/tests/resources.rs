use hospes_model::{Annotations, CacheScope, ReadResourceResult, ResourceContents, Role};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

use super::{error, refusal, result};
use crate::server::{Args, Json, Resource, Server, Template, Uri};
use crate::transport::stdio_server::StdioServer;
use crate::transport::stdio_server::tests::{Peer, modern};

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

#[derive(Deserialize, JsonSchema)]
struct Numbered {
    id: u32,
}

fn server() -> Server {
    Server::new("trips", "1")
        .resource("trips://about", "All about trips.")
        .resource("trips://logo", vec![0x89_u8, b'P', b'N', b'G'])
        .resource(
            Resource::new("trips://board").name("board").title("Board").mime("application/json").size(2),
            |Uri(uri): Uri| async move { Json(json!({ "read": uri })) },
        )
        .resource("trips://gone", || async { None::<String> })
        .resource("trips://empty", || async { Vec::<ResourceContents>::new() })
        .resource("trips://many", || async {
            vec![
                ResourceContents::text("trips://many/1", "one"),
                ResourceContents::bytes("trips://many/2", [2]),
            ]
        })
        .resource("trips://broken", || async { Err::<String, _>("the disk is full") })
        .resource_template(
            "trips://{city}/today",
            |Args(City { city })| async move { format!("today in {city}") },
        )
        .resource_template(
            Template::new("trips://trains/{id}").mime("text/markdown"),
            |Args(Numbered { id })| async move { (id < 100).then(|| format!("train {id}")) },
        )
}

/// covers: RES-03 RES-04
#[tokio::test]
async fn resources_and_templates_are_listed() {
    let server = server();
    let list = result(&server, "resources/list", json!({})).await;
    assert_eq!(list["resources"][0], json!({ "uri": "trips://about", "name": "trips://about", "size": 16 }));
    assert_eq!(
        list["resources"][2],
        json!({ "uri": "trips://board", "name": "board", "title": "Board", "mimeType": "application/json", "size": 2 })
    );
    let list = result(&server, "resources/templates/list", json!({})).await;
    assert_eq!(list["resourceTemplates"][0]["uriTemplate"], "trips://{city}/today");
    assert_eq!(list["resourceTemplates"][1]["mimeType"], "text/markdown");
}

/// covers: RES-05 RES-06 RES-07 RES-25
#[tokio::test]
async fn what_is_read_says_its_uri_and_type() {
    let server = server();
    let read =
        async |uri: &str| result(&server, "resources/read", json!({ "uri": uri })).await["contents"].clone();
    assert_eq!(
        read("trips://about").await,
        json!([{ "uri": "trips://about", "mimeType": "text/plain", "text": "All about trips." }])
    );
    assert_eq!(
        read("trips://logo").await,
        json!([{ "uri": "trips://logo", "mimeType": "application/octet-stream", "blob": "iVBORw==" }])
    );
    assert_eq!(
        read("trips://board").await,
        json!([{ "uri": "trips://board", "mimeType": "application/json", "text": "{\"read\":\"trips://board\"}" }])
    );
    assert_eq!(
        read("trips://many").await,
        json!([{ "uri": "trips://many/1", "text": "one" }, { "uri": "trips://many/2", "blob": "Ag==" }])
    );
}

/// covers: RES-08 RES-05
#[tokio::test]
async fn a_template_reads_what_it_makes() {
    let server = server();
    let read = async |uri: &str| {
        result(&server, "resources/read", json!({ "uri": uri })).await["contents"][0].clone()
    };
    assert_eq!(read("trips://Oslo/today").await["text"], "today in Oslo");
    assert_eq!(read("trips://S%C3%A3o%20Paulo/today").await["text"], "today in S\u{e3}o Paulo");
    assert_eq!(
        read("trips://trains/7").await,
        json!({ "uri": "trips://trains/7", "mimeType": "text/markdown", "text": "train 7" })
    );
}

/// covers: RES-20 RES-22
#[tokio::test]
async fn a_resource_that_is_not_there_is_an_error_with_its_uri() {
    let server = server();
    for uri in
        ["trips://nowhere", "trips://gone", "trips://empty", "trips://trains/100", "no uri", "../etc/passwd"]
    {
        let missing = error(&server, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(missing.code, -32602, "{uri}");
        assert_eq!(missing.data.unwrap().to_value().unwrap(), json!({ "uri": uri }));
    }
    assert_eq!(error(&server, "resources/read", json!({ "uri": 7 })).await.code, -32602);
}

#[tokio::test]
async fn a_variable_of_the_wrong_type_is_an_error_that_says_so() {
    let wrong = error(&server(), "resources/read", json!({ "uri": "trips://trains/seven" })).await;
    assert_eq!(wrong.code, -32602);
    assert_eq!(wrong.message, "trips://trains/seven: id: expected a whole number, 0 or more, got \"seven\"");
}

/// covers: RES-09
#[tokio::test]
async fn what_is_listed_with_a_media_type_has_it() {
    let page = |mime: &'static str| {
        move |Uri(uri): Uri| async move { ResourceContents::text(uri, "x").with_mime_type(mime) }
    };
    let server = Server::new("x", "1")
        .resource_template(Template::new("x://good/{id}").mime("text/html"), page("Text/HTML; charset=utf-8"))
        .resource_template(Template::new("x://bad/{id}").mime("text/html"), page("text/markdown"))
        .resource_template("x://any/{id}", page("text/markdown"));
    let list = result(&server, "resources/templates/list", json!({})).await;
    assert!(list["resourceTemplates"][2].get("mimeType").is_none());
    let read = |uri: &str| json!({ "uri": uri });
    result(&server, "resources/read", read("x://good/1")).await;
    result(&server, "resources/read", read("x://any/1")).await;
    let failed = error(&server, "resources/read", read("x://bad/1")).await;
    assert_eq!(failed.code, -32603);
    assert_eq!(failed.message, "x://bad/1 is listed as text/html, but was read as text/markdown");
    let said = refusal(file!(), || Server::new("x", "1").resource(Resource::new("x:y").mime("html"), "text"));
    assert!(said.contains("\"html\" is not a valid media type"), "{said}");
}

/// covers: RES-19
#[tokio::test]
async fn a_failing_handler_is_an_internal_error() {
    let failed = error(&server(), "resources/read", json!({ "uri": "trips://broken" })).await;
    assert_eq!((failed.code, &*failed.message), (-32603, "the disk is full"));
}

/// covers: META-10
#[tokio::test]
async fn hints_are_listed() {
    let hints = Annotations::new().with_audience(vec![Role::User]).with_priority(0.5);
    let server = Server::new("x", "1").resource(Resource::new("x://y").annotations(hints), "text");
    let list = result(&server, "resources/list", json!({})).await;
    assert_eq!(list["resources"][0]["annotations"], json!({ "audience": ["user"], "priority": 0.5 }));
}

/// However much a template fits: what is no URI is nobody's.
///
/// covers: RES-23
#[tokio::test]
async fn what_is_no_uri_reaches_no_handler() {
    let server = Server::new("x", "1").resource_template("any:{+rest}", |Uri(uri): Uri| async move { uri });
    for good in ["any:thing", "any:a%20b/../c", "any:caf\u{e9}"] {
        let read = result(&server, "resources/read", json!({ "uri": good })).await;
        assert_eq!(read["contents"][0]["text"], good);
    }
    let bad = [
        "any:a b",
        "any:<x>",
        "any:\u{0}",
        "any:a\nb",
        "any:%zz",
        "any:\\\\host",
        "thing",
        "//any/thing",
        "",
    ];
    for uri in bad {
        assert_eq!(error(&server, "resources/read", json!({ "uri": uri })).await.code, -32602, "{uri:?}");
    }
    let mut peer = Peer::of(StdioServer::new(server));
    peer.send(modern(
        1,
        "subscriptions/listen",
        json!({ "notifications": { "resourceSubscriptions": bad } }),
    ))
    .await;
    let acknowledged = peer.read().await;
    assert_eq!(acknowledged["params"]["notifications"].get("resourceSubscriptions"), None, "{acknowledged}");
}

/// covers: CACHE-01 CACHE-02
#[tokio::test]
async fn reads_carry_cache_hints() {
    let server =
        server().cache_reads(Duration::from_secs(60), CacheScope::Public).resource("trips://own", || async {
            ReadResourceResult::new(vec![ResourceContents::text("trips://own", "x")]).with_ttl_ms(5_u64)
        });
    let read = result(&server, "resources/read", json!({ "uri": "trips://about" })).await;
    assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&json!(60_000), &json!("public")));
    let read = result(&server, "resources/read", json!({ "uri": "trips://own" })).await;
    assert_eq!((&read["ttlMs"], &read["cacheScope"]), (&json!(5), &json!("public")));
}

/// covers: RES-17
#[test]
fn mistakes_of_the_program_panic_at_its_line() {
    let said = refusal(file!(), || Server::new("x", "1").resource("no uri", "text"));
    assert!(said.contains("is not a URI"), "{said}");
    let said = refusal(file!(), || Server::new("x", "1").resource("x:y", "text").resource("x:y", "text"));
    assert_eq!(said, "duplicate resource \"x:y\"");
    let said = refusal(file!(), || Server::new("x", "1").resource_template("x://{", "text"));
    assert!(said.contains("is not a URI template"), "{said}");
    let said = refusal(file!(), || {
        Server::new("x", "1").resource_template("x://{town}", |Args(City { city })| async move { city })
    });
    assert_eq!(said, "the template \"x://{town}\" has no variable \"city\", which its handler requires");
    let said = refusal(file!(), || {
        Server::new("x", "1").resource("x://y", |Args(City { city })| async move { city })
    });
    assert!(said.contains("has no variable \"city\""), "{said}");
}
