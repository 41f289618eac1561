//! Cached data of one principal, and permissions given to it, are not used for another.

use std::sync::atomic::AtomicU32;

use hospes::model::{CacheScope, ServerStamp};
use hospes_policy::{Policy, PolicyEnvironment};

use super::deny_paths::peer;
use super::*;

const FOR_ANN: &str = "[[rule]]\ndecide = 'allow'\nprincipal = 'ann'\n[[rule]]\ndecide = 'deny'\n";
const FOR_BOB: &str = "[[rule]]\ndecide = 'allow'\nprincipal = 'bob'\n[[rule]]\ndecide = 'deny'\n";

async fn said(host: &Host, principal: &str, method: Method, params: serde_json::Value) -> Option<String> {
    let context = Context::new(Arc::new(peer("editor", Some(principal), false)));
    match host.gateway().call(Call::new(method.clone(), params.into(), context)).await {
        Outcome::Complete(reply) => {
            let mut out = Vec::new();
            reply.encode(&method, Revision::LATEST, &ServerStamp::anonymous(), &mut out).unwrap();
            Some(String::from_utf8(out).unwrap())
        }
        _ => None,
    }
}

/// Lists are the same for everybody. Access is decided on each call by the current rules, regardless of who filled a
/// cache. No answer may be cached for others, regardless of the server's own value.
#[tokio::test]
async fn what_is_kept_for_one_principal_does_not_serve_another() {
    for up in ERAS {
        let used = Arc::<AtomicU32>::default();
        let note = Arc::clone(&used);
        let server = move || {
            let (read, called) = (Arc::clone(&note), Arc::clone(&note));
            Server::new("notes", "1")
                .cache_lists(Duration::from_secs(3600), CacheScope::Public)
                .cache_reads(Duration::from_secs(3600), CacheScope::Public)
                .tool("write", move || {
                    called.fetch_add(1, Ordering::SeqCst);
                    async { "written" }
                })
                .resource("notes://today", move || {
                    read.fetch_add(1, Ordering::SeqCst);
                    async { "sunny" }
                })
        };
        let read = |rules: &str| Policy::read(rules, &PolicyEnvironment::default()).unwrap();
        let guard = Arc::new(PolicyEnforcer::new(read(FOR_ANN)));
        for is_alone in [true, false] {
            let mut house = House::default().with("notes", up, server.clone()).guarded(&guard);
            if !is_alone {
                house = house.with("other", up, || echo("other"));
            }
            let host = house.start();
            for round in 0..3 {
                for (rules, may) in [(FOR_ANN, "ann"), (FOR_BOB, "bob")] {
                    guard.replace_policy(read(rules));
                    let what = format!("{up}, {is_alone}, {round}, {may}");
                    let mut lists = Vec::new();
                    // Who may not comes after who may, and before.
                    for who in ["ann", "bob", "ann", "bob"] {
                        let list = said(&host, who, Method::ToolsList, json!({})).await.unwrap();
                        assert!(list.contains("\"cacheScope\":\"private\""), "{what}: {list}");
                        lists.push(list);
                        let call = json!({ "name": "notes__write", "arguments": {} });
                        let before = used.load(Ordering::SeqCst);
                        let answer = said(&host, who, Method::ToolsCall, call).await.unwrap();
                        assert_eq!(answer.contains("\"written\""), who == may, "{what}: {answer}");
                        assert_eq!(used.load(Ordering::SeqCst) - before, u32::from(who == may), "{what}");
                        let uri = json!({ "uri": "notes://today" });
                        let answer = said(&host, who, Method::ResourcesRead, uri).await;
                        assert_eq!(answer.is_some(), who == may, "{what}: {answer:?}");
                        if let Some(answer) = answer {
                            assert!(answer.contains("sunny"), "{what}: {answer}");
                            assert!(answer.contains("\"cacheScope\":\"private\""), "{what}: {answer}");
                        }
                    }
                    lists.dedup();
                    assert_eq!(lists.len(), 1, "{what}: what is listed depends on no rule");
                }
            }
            host.stop().await;
        }
    }
}
