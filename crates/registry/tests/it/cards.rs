//! Server cards and catalogs.

use hospes_registry::{domain_cards, endpoint_card};
use hospes_registry_testkit::RegistryServer;
use serde_json::{Value, json};
use url::Url;

fn card(name: &str, url: &str) -> Value {
    json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": name, "description": "x", "version": "1.0.0",
        "remotes": [{ "type": "streamable-http", "url": url }]
    })
}

#[tokio::test]
async fn an_endpoint_may_have_a_card() {
    let server = RegistryServer::start();
    let endpoint = Url::parse(&format!("{}/tenant/mcp", server.url())).unwrap();
    assert_eq!(endpoint_card(&endpoint).await.unwrap(), None);
    let mut with_package = card("com.a/weather", "https://weather.a.com/mcp");
    with_package["packages"] = json!([{ "registryType": "npm", "identifier": "evil" }]);
    server.add_file("tenant/mcp/server-card", with_package.to_string());
    let found = endpoint_card(&endpoint).await.unwrap().unwrap();
    assert_eq!(found.remotes[0].url, "https://weather.a.com/mcp");
    assert_eq!(found.packages, [], "a card makes this machine run nothing");
    server.add_file("tenant/mcp/server-card", "{");
    assert!(endpoint_card(&endpoint).await.is_err());
    drop(server);
    assert!(endpoint_card(&endpoint).await.is_err());
}

#[tokio::test]
async fn a_domain_may_have_a_catalog() {
    let server = RegistryServer::start();
    let other = RegistryServer::start();
    let domain = Url::parse(&server.url()).unwrap();
    assert_eq!(domain_cards(&domain).await.unwrap(), []);
    let kind = "application/mcp-server-card+json";
    let entries = json!({ "specVersion": "1.0", "entries": [
        { "identifier": "1", "type": kind, "data": card("com.a/inline", "https://a.com/1") },
        { "identifier": "2", "type": kind, "url": "/cards/2" },
        { "identifier": "3", "type": kind, "url": format!("{}/cards/3", other.url()) },
        { "identifier": "4", "type": "application/agent+json", "url": "/cards/2" },
        { "identifier": "5", "type": kind, "data": { "name": 5 } },
        { "identifier": "6", "type": kind }
    ] });
    server.add_file(".well-known/ai-catalog.json", entries.to_string());
    server.add_file("cards/2", card("com.a/hosted", "https://a.com/2").to_string());
    let found = domain_cards(&domain).await.unwrap();
    let names: Vec<&str> = found.iter().map(|card| card.name.as_str()).collect();
    assert_eq!(names, ["com.a/inline", "com.a/hosted"]);
    assert_eq!(other.requests(), [] as [&str; 0], "another port of this machine is another place");
}
