use std::time::Duration;

use hospes_model::{CacheScope, Reply};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{error, outcome, result};
use crate::Outcome;
use crate::server::Server;

fn many(count: usize) -> Server {
    (0..count).fold(Server::new("many", "1").page_size(10), |server, n| {
        server.tool(format!("t{n:03}"), || async {})
    })
}

fn names(page: &Value) -> Vec<String> {
    let tools = page["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn walk(server: &Server) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut params = json!({});
    loop {
        let page = result(server, "tools/list", params).await;
        pages.push(names(&page));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return pages,
        }
    }
}

/// covers: PAGE-01 PAGE-02 PAGE-04 TOOL-40
#[tokio::test]
async fn pages_hold_everything_once_in_order() {
    let pages = walk(&many(25)).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
    let all: Vec<String> = pages.concat();
    assert_eq!(all, (0..25).map(|n| format!("t{n:03}")).collect::<Vec<_>>());
    assert_eq!(walk(&many(20)).await.len(), 2);
}

/// covers: PAGE-07 PAGE-13
#[tokio::test]
async fn a_cursor_that_is_not_ours_is_refused() {
    let server = (0..25).fold(many(25), |server, n| server.prompt(format!("p{n}"), || async { "p" }));
    let page = result(&server, "tools/list", json!({})).await;
    let cursor = page["nextCursor"].as_str().unwrap();
    for wrong in ["", "0", "x", &format!("{cursor}A"), &cursor[..cursor.len() - 1]] {
        assert_eq!(error(&server, "tools/list", json!({ "cursor": wrong })).await.code, -32602, "{wrong:?}");
    }
    for at in 0..cursor.len() {
        let mut changed = cursor.to_owned();
        changed.replace_range(at..=at, if &cursor[at..=at] == "A" { "B" } else { "A" });
        assert_eq!(
            error(&server, "tools/list", json!({ "cursor": changed })).await.code,
            -32602,
            "{changed:?}"
        );
    }
    // A cursor of one list is none of another's.
    assert_eq!(error(&server, "prompts/list", json!({ "cursor": cursor })).await.code, -32602);
    assert_eq!(error(&server, "tools/list", json!({ "cursor": 7 })).await.code, -32602);
}

/// covers: PAGE-06
#[tokio::test]
async fn a_cursor_stays_good_when_the_list_changes() {
    let server = many(25);
    let handle = server.handle();
    let page = result(&server, "tools/list", json!({})).await;
    handle.remove_tool("t003");
    handle.remove_tool("t009");
    handle.remove_tool("t010");
    handle.add_tool("new", || async {}).unwrap();
    let next = result(&server, "tools/list", json!({ "cursor": page["nextCursor"] })).await;
    assert_eq!(names(&next)[..2], ["t011", "t012"]);
    let last = result(&server, "tools/list", json!({ "cursor": next["nextCursor"] })).await;
    assert_eq!(names(&last).last().unwrap(), "new");
}

/// covers: CACHE-01 CACHE-02 CACHE-12
#[tokio::test]
async fn every_page_carries_the_same_cache_hints() {
    let server = many(25).cache_lists(Duration::from_millis(1500), CacheScope::Public);
    let mut params = json!({});
    for _ in 0..3 {
        let page = result(&server, "tools/list", params).await;
        assert_eq!((&page["ttlMs"], &page["cacheScope"]), (&json!(1500), &json!("public")));
        params = json!({ "cursor": page["nextCursor"] });
    }
    let page = result(&many(1), "tools/list", json!({})).await;
    assert_eq!((&page["ttlMs"], &page["cacheScope"]), (&json!(0), &json!("private")));
}

#[tokio::test]
async fn a_list_is_prepared_once_until_it_changes() {
    let server = many(3);
    let prepared = async || match outcome(&server, "tools/list", json!({})).await {
        Outcome::Complete(Reply::Prepared(prepared)) => prepared,
        other => panic!("{other:?}"),
    };
    let first = prepared().await;
    assert!(std::sync::Arc::ptr_eq(&first, &prepared().await));
    server.handle().remove_tool("t000");
    assert!(!std::sync::Arc::ptr_eq(&first, &prepared().await));
}

proptest! {
    /// covers: PAGE-01 PAGE-06
    #[test]
    fn whatever_changes_between_pages_nothing_is_seen_twice_and_nothing_that_stays_is_missed(
        size in 1_usize..6,
        removed in proptest::collection::vec(proptest::collection::vec(0_usize..20, 0..4), 0..6),
    ) {
        let server = (0..20).fold(Server::new("x", "1"), |server, n| server.tool(format!("t{n}"), || async {}));
        let server = server.page_size(size);
        let handle = server.handle();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut seen, mut gone) = (Vec::new(), Vec::new());
            let (mut params, mut changes) = (json!({}), removed.into_iter());
            loop {
                let page = result(&server, "tools/list", params).await;
                seen.extend(names(&page));
                for n in changes.next().unwrap_or_default() {
                    handle.remove_tool(&format!("t{n}"));
                    gone.push(format!("t{n}"));
                }
                match page.get("nextCursor") {
                    Some(cursor) => params = json!({ "cursor": cursor }),
                    None => break,
                }
            }
            let unique: std::collections::HashSet<_> = seen.iter().collect();
            prop_assert_eq!(unique.len(), seen.len());
            for n in 0..20 {
                let name = format!("t{n}");
                prop_assert!(seen.contains(&name) || gone.contains(&name));
            }
            Ok(())
        })?;
    }
}

/// Clones are one server to handles, and each a server of its own to who goes on building it.
#[tokio::test]
async fn what_is_built_on_a_clone_is_the_clones_alone() {
    let base = many(1);
    let handle = base.handle();
    let kept = base.clone();
    let more = base.clone().tool("more", || async {}).page_size(1);
    handle.add_tool("late", || async {}).unwrap();
    assert_eq!(walk(&base).await, [["t000", "late"]]);
    assert_eq!(walk(&kept).await, [["t000", "late"]]);
    assert_eq!(walk(&more).await, [["t000"], ["more"]]);
    more.handle().remove_tool("t000");
    assert_eq!(walk(&base).await, [["t000", "late"]]);
    // The last of its kind keeps its handles.
    drop(kept);
    let base = base.tool("last", || async {});
    handle.remove_tool("late");
    assert_eq!(walk(&base).await, [["t000", "last"]]);
}
