use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hospes::Server;
use hospes::model::{Method, Notification};
use hospes::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use super::{MemoryConfig, memory};
use crate::testing::{ListenStream, done, is_well_described, outcome, refusal, result};

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("state/hospes/knowledge.db")
}

fn server(folder: &TempDir) -> Server {
    memory(MemoryConfig::new(file(folder))).unwrap()
}

async fn with_ada(server: &Server) {
    let entities = json!([
        { "name": "Ada Lovelace", "entityType": "person", "observations": ["wrote the first program", "likes Zürich"] },
        { "name": "engine", "entityType": "machine", "observations": ["has 100% brass_parts"] },
        { "name": "Charles", "entityType": "person" },
    ]);
    done(server, "create_entities", json!({ "entities": entities })).await;
    let relations = json!([
        { "from": "Ada Lovelace", "to": "engine", "relationType": "programs" },
        { "from": "Charles", "to": "engine", "relationType": "builds" },
    ]);
    done(server, "create_relations", json!({ "relations": relations })).await;
}

fn names(part: &Value) -> Vec<&str> {
    part["entities"].as_array().unwrap().iter().map(|entity| entity["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_is_remembered_is_there_the_next_time() {
    let folder = TempDir::new().unwrap();
    is_well_described(&server(&folder)).await;
    with_ada(&server(&folder)).await;
    let server = server(&folder);
    let graph = done(&server, "read_graph", json!({})).await;
    assert_eq!(names(&graph), ["Ada Lovelace", "engine", "Charles"]);
    assert_eq!(graph["relations"][1], json!({ "from": "Charles", "to": "engine", "relationType": "builds" }));
    assert_eq!(graph.get("next"), None);
    let part = done(&server, "open_nodes", json!({ "names": ["Charles", "nobody", "Charles"] })).await;
    assert_eq!((names(&part), part["relations"].as_array().unwrap().len()), (vec!["Charles"], 1));
    let first = done(&server, "read_graph", json!({ "limit": 2 })).await;
    assert_eq!((names(&first).len(), &first["next"]), (2, &json!(2)));
    let rest = done(&server, "read_graph", json!({ "limit": 2, "offset": 2 })).await;
    assert_eq!((names(&rest), rest.get("next")), (vec!["Charles"], None));
    // Nobody else can read it. On Windows it inherits the access list of its folder.
    #[cfg(unix)]
    for path in [file(&folder), file(&folder).with_extension("db-wal")] {
        let mode = fs::metadata(&path)
            .map(|data| std::os::unix::fs::PermissionsExt::mode(&data.permissions()) & 0o777);
        assert!(mode.is_ok_and(|mode| mode == 0o600), "{path:?}");
    }
}

#[tokio::test]
async fn it_is_found_by_words_and_by_parts_of_them() {
    let folder = TempDir::new().unwrap();
    let server = server(&folder);
    with_ada(&server).await;
    for (query, wanted) in [
        ("program", vec!["Ada Lovelace"]),
        ("ZURICH ada", vec!["Ada Lovelace"]),
        ("first person", vec!["Ada Lovelace"]),
        ("person", vec!["Charles", "Ada Lovelace"]),
        ("rogra", vec!["Ada Lovelace"]),
        ("100%", vec!["engine"]),
        ("0% brass_", vec!["engine"]),
        ("%", vec!["engine"]),
        ("ss_pa", vec!["engine"]),
        ("engine unheard", vec!["engine"]),
        ("\" OR name:* NEAR( -x", vec![]),
        ("unheard", vec![]),
    ] {
        let part = done(&server, "search_nodes", json!({ "query": query })).await;
        let (mut found, mut wanted) = (names(&part), wanted);
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{query}");
    }
    // What is no longer known is not found.
    let deletions = json!([{ "entityName": "Ada Lovelace", "observations": ["likes Zürich"] }]);
    done(&server, "delete_observations", json!({ "deletions": deletions })).await;
    assert_eq!(names(&done(&server, "search_nodes", json!({ "query": "zurich" })).await), [] as [&str; 0]);
    done(&server, "delete_entities", json!({ "entityNames": ["engine"] })).await;
    assert_eq!(names(&done(&server, "search_nodes", json!({ "query": "brass" })).await), [] as [&str; 0]);
}

#[tokio::test]
async fn doing_it_again_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let server = server(&folder);
    with_ada(&server).await;
    let before = done(&server, "read_graph", json!({})).await;
    let again = json!({ "entities": [{ "name": "engine", "entityType": "other", "observations": ["new"] }] });
    assert_eq!(
        done(&server, "create_entities", again).await,
        json!({ "entities": [], "existing": ["engine"] })
    );
    let known = json!({ "relations": [{ "from": "Charles", "to": "engine", "relationType": "builds" }] });
    assert_eq!(done(&server, "create_relations", known.clone()).await["relations"], json!([]));
    let observed =
        json!({ "observations": [{ "entityName": "Ada Lovelace", "contents": ["likes Zürich"] }] });
    let added = done(&server, "add_observations", observed).await;
    assert_eq!(added["results"], json!([{ "entityName": "Ada Lovelace", "addedObservations": [] }]));
    assert_eq!(done(&server, "read_graph", json!({})).await, before);
    for deleted in [1, 0] {
        assert_eq!(done(&server, "delete_relations", known.clone()).await["deleted"], deleted);
    }
    for deleted in [1, 0] {
        let gone = done(&server, "delete_entities", json!({ "entityNames": ["Ada Lovelace"] })).await;
        assert_eq!(gone["deleted"], deleted);
    }
    assert_eq!(done(&server, "read_graph", json!({})).await["relations"], json!([]));
}

/// Either all of a call is remembered or nothing.
#[tokio::test]
async fn mistakes_leave_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let server = memory(MemoryConfig::new(file(&folder)).max_entities(2)).unwrap();
    let entity = |name: &str| json!({ "name": name, "entityType": "x", "observations": ["y"] });
    let long = "x".repeat(20_000);
    for (tool, arguments, wanted) in [
        ("create_entities", json!({ "entities": [entity("a"), entity("b"), entity("c")] }), "max_entities"),
        ("create_entities", json!({ "entities": [entity("a"), entity(" ")] }), "name is empty"),
        ("create_entities", json!({ "entities": [entity(&long[..600])] }), "name has 600 bytes"),
        (
            "create_entities",
            json!({ "entities": [entity("a"), { "name": "b", "entityType": "x", "observations": [long] }] }),
            "20000 bytes",
        ),
        ("create_entities", json!({ "entities": vec![entity("a"); 1001] }), "1000"),
        (
            "create_relations",
            json!({ "relations": [{ "from": "a", "to": "b", "relationType": "x" }] }),
            "use create_entities first",
        ),
        (
            "add_observations",
            json!({ "observations": [{ "entityName": "a", "contents": ["x"] }] }),
            "use create_entities first",
        ),
    ] {
        let why = refusal(&server, tool, arguments).await;
        assert!(why.contains(wanted), "{why}");
    }
    assert_eq!(done(&server, "read_graph", json!({})).await, json!({ "entities": [], "relations": [] }));
    done(&server, "create_entities", json!({ "entities": [entity("a")] })).await;
    let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let observed = json!({ "observations": [{ "entityName": "a", "contents": many }] });
    let why = refusal(&server, "add_observations", observed).await;
    assert!(why.contains("at most 1000 observations"), "{why}");
    assert_eq!(
        done(&server, "open_nodes", json!({ "names": ["a"] })).await["entities"][0]["observations"],
        json!(["y"])
    );
}

/// Answers are limited in size, and name the offset to continue from.
#[tokio::test]
async fn long_graphs_are_read_in_parts() {
    let folder = TempDir::new().unwrap();
    let server = server(&folder);
    let text = |number: u32| format!("{number}{}", "x".repeat(15_000));
    let entities: Vec<Value> = (0..40)
        .map(
            |number| json!({ "name": number.to_string(), "entityType": "x", "observations": [text(number)] }),
        )
        .collect();
    done(&server, "create_entities", json!({ "entities": entities })).await;
    let (mut offset, mut read) = (0, 0);
    loop {
        let part = done(&server, "read_graph", json!({ "offset": offset })).await;
        assert!(part.to_string().len() < 300_000);
        read += names(&part).len();
        let Some(next) = part.get("next") else { break };
        offset = next.as_u64().unwrap();
    }
    assert_eq!(read, 40);
}

/// Two processes, as far as the file can tell.
#[tokio::test(flavor = "multi_thread")]
async fn several_may_write_at_once() {
    let folder = TempDir::new().unwrap();
    let both = [Arc::new(server(&folder)), Arc::new(server(&folder))];
    let calls = (0..40).map(|number| {
        let server = Arc::clone(&both[number % 2]);
        tokio::spawn(async move {
            let name = format!("n{}", number / 2);
            let entity = json!({ "name": name, "entityType": "x" });
            done(&server, "create_entities", json!({ "entities": [entity] })).await;
            let observed = json!([{ "entityName": name, "contents": [format!("by {}", number % 2)] }]);
            done(&server, "add_observations", json!({ "observations": observed })).await;
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let graph = done(&both[0], "read_graph", json!({})).await;
    assert_eq!(names(&graph).len(), 20);
    for entity in graph["entities"].as_array().unwrap() {
        assert_eq!(entity["observations"].as_array().unwrap().len(), 2, "{entity}");
    }
}

#[tokio::test]
async fn what_the_reference_server_wrote_is_taken_over() {
    let folder = TempDir::new().unwrap();
    let jsonl = folder.path().join("memory.jsonl");
    fs::write(
        &jsonl,
        "{\"type\":\"relation\",\"from\":\"Ada\",\"to\":\"engine\",\"relationType\":\"programs\"}\n\
         {\"type\":\"entity\",\"name\":\"Ada\",\"entityType\":\"person\",\"observations\":[\"likes numbers\"]}\n\n\
         {\"type\":\"entity\",\"name\":\"engine\",\"entityType\":\"machine\",\"observations\":[]}\n\
         {\"type\":\"relation\",\"from\":\"Ada\",\"to\":\"nobody\",\"relationType\":\"knows\"}\n",
    )
    .unwrap();
    let open = || memory(MemoryConfig::new(file(&folder)).import(&jsonl));
    for _ in 0..2 {
        let graph = done(&open().unwrap(), "read_graph", json!({})).await;
        assert_eq!(names(&graph), ["Ada", "engine"]);
        assert_eq!(
            graph["relations"],
            json!([{ "from": "Ada", "to": "engine", "relationType": "programs" }])
        );
    }
    let more = "{\"type\":\"entity\",\"name\":\"new\",\"entityType\":\"x\",\"observations\":[]}\n{\"type\":\"odd\"}\n";
    fs::write(&jsonl, more).unwrap();
    let why = open().unwrap_err().to_string();
    assert!(why.contains("line 2: unknown variant `odd`"), "{why}");
    assert_eq!(
        names(&done(&server(&folder), "open_nodes", json!({ "names": ["new"] })).await),
        [] as [&str; 0]
    );
}

#[tokio::test]
async fn entities_are_resources() {
    let folder = TempDir::new().unwrap();
    with_ada(&server(&folder)).await;
    let server = server(&folder);
    let uris = async || -> Vec<String> {
        let listed = result(&server, Method::ResourcesList, json!({})).await;
        listed["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["uri"].as_str().unwrap().to_owned())
            .collect()
    };
    let ada = "memory://entities/Ada%20Lovelace";
    assert!(uris().await.contains(&ada.to_owned()));
    let read = result(&server, Method::ResourcesRead, json!({ "uri": ada })).await;
    let part: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((names(&part), part["relations"][0]["to"].as_str()), (vec!["Ada Lovelace"], Some("engine")));
    let odd = json!({ "entities": [{ "name": "a/b?c#d %é", "entityType": "x" }] });
    done(&server, "create_entities", odd).await;
    let uri = "memory://entities/a%2Fb%3Fc%23d%20%25%C3%A9";
    assert!(uris().await.contains(&uri.to_owned()));
    let read = result(&server, Method::ResourcesRead, json!({ "uri": uri })).await;
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("a/b?c#d %é"), "{read}");
    done(&server, "delete_entities", json!({ "entityNames": ["a/b?c#d %é", "Ada Lovelace"] })).await;
    assert!(!uris().await.iter().any(|known| known == ada || known == uri));
    for gone in [ada, uri, "memory://entities/nobody"] {
        let missing = outcome(&server, &Method::ResourcesRead, json!({ "uri": gone })).await;
        assert!(matches!(missing, Outcome::Failed(error) if error.code == -32602), "{gone}");
    }
}

#[tokio::test]
async fn who_subscribes_is_told() {
    let folder = TempDir::new().unwrap();
    let server = server(&folder);
    with_ada(&server).await;
    let filter = json!({ "resourceSubscriptions": ["memory://entities/engine", "memory://graph"] });
    let mut listening = ListenStream::open(&server, &filter);
    assert!(matches!(listening.next().await, Notification::SubscriptionsAcknowledged(_)));
    let observed = json!([
        { "entityName": "Charles", "contents": ["is patient"] },
        { "entityName": "engine", "contents": ["is large"] },
    ]);
    done(&server, "add_observations", json!({ "observations": observed })).await;
    let mut uris = Vec::new();
    while uris.len() < 2 {
        match listening.next().await {
            Notification::ResourceUpdated(updated) => uris.push(updated.uri),
            other => panic!("{other:?}"),
        }
    }
    uris.sort();
    assert_eq!(uris, ["memory://entities/engine", "memory://graph"]);
}

#[test]
fn a_file_that_is_none_is_an_error() {
    let folder = TempDir::new().unwrap();
    let junk = folder.path().join("junk.db");
    fs::write(&junk, "this is no database, and it is long enough to be seen as none. ".repeat(100)).unwrap();
    let why = |file: &Path| memory(MemoryConfig::new(file)).unwrap_err().to_string();
    assert!(why(&junk).contains("cannot open the memory"), "{}", why(&junk));
    assert!(why(&junk.join("below")).contains("cannot open the memory"));
    let newer = folder.path().join("newer.db");
    drop(memory(MemoryConfig::new(&newer)).unwrap());
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(why(&newer).contains("newer version"), "{}", why(&newer));
}
