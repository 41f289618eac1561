use std::time::Duration;

use hospes_model::{CacheScope, Icon, Method, Revision};
use serde_json::json;
use tower_layer::Layer;

use super::{outcome, result, tool};
use crate::server::{Completes, IntoServer, Server};
use crate::{Call, IntoService, Outcome, Service};

/// covers: DISC-01 DISC-03 DISC-05 CAP-02 CAP-06 TOOL-01 LOG-01
#[tokio::test]
async fn a_server_says_what_it_is_and_offers() {
    let server = Server::new("trips", "1.2")
        .title("Trips")
        .description("About trips.")
        .instructions("Ask for a city first.")
        .website_url("https://trips.example/")
        .icons([Icon::new("data:image/png;base64,")])
        .extension("com.example/more", json!({ "on": true }))
        .tool("t", || async {});
    let found = result(&server, "server/discover", json!({})).await;
    let versions: Vec<&str> = Revision::ALL.iter().rev().map(|r| r.as_str()).collect();
    assert_eq!(found["supportedVersions"], json!(versions));
    assert_eq!(
        found["capabilities"],
        json!({ "tools": { "listChanged": true }, "logging": {}, "extensions": { "com.example/more": { "on": true } } })
    );
    assert_eq!(found["instructions"], "Ask for a city first.");
    assert_eq!(
        found["_meta"]["io.modelcontextprotocol/serverInfo"],
        json!({
            "name": "trips", "version": "1.2", "title": "Trips", "description": "About trips.",
            "websiteUrl": "https://trips.example/", "icons": [{ "src": "data:image/png;base64," }],
        })
    );
}

/// covers: CAP-02 PRM-01 RES-01 COMP-01 CAP-06
#[tokio::test]
async fn each_feature_is_declared_once_it_is_there() {
    let capabilities =
        async |server: &Server| result(server, "server/discover", json!({})).await["capabilities"].clone();
    let server = Server::new("x", "1");
    assert_eq!(capabilities(&server).await, json!({ "logging": {} }));
    let server = server
        .prompt("p", || async { "p" })
        .resource_template("x://{id}", || async { "x" })
        .complete(Completes::template("x://{id}", "id"), ["1"]);
    assert_eq!(
        capabilities(&server).await,
        json!({
            "logging": {}, "completions": {}, "prompts": { "listChanged": true },
            "resources": { "listChanged": true, "subscribe": true },
        })
    );
    let server = server.unchanging();
    assert_eq!(
        capabilities(&server).await,
        json!({ "logging": {}, "completions": {}, "prompts": {}, "resources": {} })
    );
}

/// covers: CACHE-01
#[tokio::test]
async fn discovery_carries_cache_hints() {
    let server = Server::new("x", "1");
    let found = result(&server, "server/discover", json!({})).await;
    assert_eq!((&found["ttlMs"], &found["cacheScope"]), (&json!(0), &json!("private")));
    let server = server.cache_discovery(Duration::from_secs(1), CacheScope::Public);
    let found = result(&server, "server/discover", json!({})).await;
    assert_eq!((&found["ttlMs"], &found["cacheScope"]), (&json!(1000), &json!("public")));
}

struct Loud;

struct Louder<S>(S);

impl<S> Layer<S> for Loud {
    type Service = Louder<S>;

    fn layer(&self, inner: S) -> Louder<S> {
        Louder(inner)
    }
}

impl<S: Service> Service for Louder<S> {
    async fn call(&self, call: Call) -> Outcome {
        if call.method == Method::ToolsCall {
            return Outcome::Failed(hospes_model::RpcError::new(1, "closed"));
        }
        self.0.call(call).await
    }
}

#[tokio::test]
async fn layers_wrap_a_server() {
    let server = Server::new("x", "1").tool("t", || async {}).layer(Loud).into_service();
    assert!(
        matches!(outcome(&server, "tools/call", json!({ "name": "t" })).await, Outcome::Failed(e) if e.code == 1)
    );
    assert_eq!(result(&server, "tools/list", json!({})).await["tools"][0]["name"], "t");
}

#[tokio::test]
async fn servers_can_be_put_together() {
    struct Trains;
    impl IntoServer for Trains {
        fn into_server(self) -> Server {
            Server::new("trains", "9")
                .state(7_u8)
                .tool("train", |state: crate::server::State<u8>| async move { *state })
        }
    }
    let server = Server::new("trips", "1").tool("trip", || async { "trip" }).add(Trains);
    assert_eq!(tool(&server, "train", json!({})).await.0, "7");
    assert_eq!(tool(&server, "trip", json!({})).await.0, "trip");
    assert_eq!(server.info().name, "trips");
    let said = super::refusal(file!(), || Server::new("x", "1").tool("train", || async {}).add(Trains));
    assert_eq!(said, "duplicate tool \"train\"");
}
