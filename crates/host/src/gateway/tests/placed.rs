//! Requests that belong to the node of their caller, or of their task.

use hospes::transport::http_server::shared_sessions::RequestPlace;

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
        let expected = if expected { RequestPlace::Caller } else { RequestPlace::Anywhere };
        assert_eq!(all.request_place(method, name), expected, "{method} {name:?}");
    }
    // A task that names its node goes there, and the name of a tool means nothing.
    for (method, name, else_caller) in [
        ("tasks/get", "ours~f00__1", true),
        ("tasks/update", "ours@work~f00__1", true),
        ("tasks/get", "web~f00__1", false),
    ] {
        let expected = RequestPlace::Process { origin: "f00".to_owned(), else_caller };
        assert_eq!(all.request_place(method, Some(name)), expected, "{method} {name}");
    }
    assert_eq!(all.request_place("tools/call", Some("web~f00__do")), RequestPlace::Anywhere);
    // At an endpoint of one server, all names are its own.
    let place =
        |server: &str, method: &str, name| host.gateway_of(server).unwrap().request_place(method, name);
    assert_eq!(place("ours", "tools/call", Some("do")), RequestPlace::Caller);
    assert_eq!(place("web", "tools/call", Some("ours__do")), RequestPlace::Anywhere);
    assert_eq!(place("web", "subscriptions/listen", None), RequestPlace::Anywhere);
}
