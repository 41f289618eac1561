//! Requests that belong to the node of their caller.

use super::*;
use crate::config::ConfigLoader;

#[tokio::test]
async fn requests_follow_their_caller_if_their_server_does() {
    let text = r#"
        [servers.ours]
        command = "/no/such/program"
        [servers.single]
        command = "/no/such/program"
        placement = "one"
        [servers.web]
        url = "http://127.0.0.1:9/mcp"
    "#;
    let config = ConfigLoader::new().parse("hospes.toml", text).unwrap();
    let host = Host::builder(config).start().unwrap();
    let all = host.gateway();
    for (method, name, expected) in [
        ("tools/call", Some("ours__do"), true),
        ("tools/call", Some("single__do"), false),
        ("tools/call", Some("web__do"), false),
        ("tools/call", Some("hospes__propose_plan"), false),
        ("tools/call", None, false),
        ("prompts/get", Some("ours__ask"), true),
        ("tasks/get", Some("ours__1"), true),
        ("tasks/cancel", Some("single__1"), false),
        ("resources/read", Some("file:///a"), true),
        ("resources/read", Some("hospes://status"), false),
        ("subscriptions/listen", None, true),
        ("completion/complete", None, true),
        ("tools/list", None, false),
        ("server/discover", None, false),
    ] {
        assert_eq!(all.follows_caller(method, name), expected, "{method} {name:?}");
    }
    // At an endpoint of one server, all names are its own.
    assert!(host.gateway_of("ours").unwrap().follows_caller("tools/call", Some("do")));
    assert!(!host.gateway_of("web").unwrap().follows_caller("tools/call", Some("ours__do")));
    assert!(!host.gateway_of("web").unwrap().follows_caller("subscriptions/listen", None));
}
