use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use hospes::model::{ClientCapabilities, Method, Reply, Revision, ServerStamp};
use hospes::prelude::*;
use hospes::{Peer, Server};
use serde_json::Value;
use tempfile::TempDir;

mod closed;
mod writing;

use super::pattern::GlobPattern;
use super::{FilesConfig, files};

/// A folder `served` with some files in it, and a folder `secret` beside it.
struct House {
    folder: TempDir,
}

impl House {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("served/docs/old")).unwrap();
        fs::create_dir_all(at("secret")).unwrap();
        fs::create_dir_all(at("served-too")).unwrap();
        fs::write(at("secret/key.txt"), "the key").unwrap();
        fs::write(at("served-too/near.txt"), "near").unwrap();
        fs::write(at("served/readme.md"), "# Readme\n\nHello, World.\nBye.\n").unwrap();
        fs::write(at("served/docs/a.txt"), "alpha\nbeta\ngamma\n").unwrap();
        fs::write(at("served/docs/old/b.txt"), "Beta, once more").unwrap();
        fs::write(at("served/docs/one two?.txt"), "blanks").unwrap();
        fs::write(at("served/pixel.png"), [0x89, b'P', b'N', b'G']).unwrap();
        fs::write(at("served/blob.bin"), [0, 255, 1]).unwrap();
        symlink(at("secret/key.txt"), at("served/out")).unwrap();
        symlink(at("secret"), at("served/way-out")).unwrap();
        symlink("docs/a.txt", at("served/within")).unwrap();
        symlink("circle", at("served/circle")).unwrap();
        Self { folder }
    }

    fn at(&self, path: &str) -> String {
        // On some systems the folder for temporary files is behind a link.
        self.folder.path().canonicalize().unwrap().join(path).display().to_string()
    }

    fn config(&self) -> FilesConfig {
        FilesConfig::new([self.folder.path().join("served")])
    }

    fn server(&self) -> Server {
        files(self.config()).unwrap()
    }
}

async fn outcome(server: &Server, method: &Method, params: Value) -> Outcome {
    let peer = Peer::new(Revision::LATEST, None, ClientCapabilities::new());
    server.call(Call::new(method.clone(), params.into(), Context::new(Arc::new(peer)))).await
}

fn json_of(reply: &Reply, method: &Method) -> Value {
    let mut out = Vec::new();
    reply.encode(method, Revision::LATEST, &ServerStamp::anonymous(), &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    match outcome(server, &Method::ToolsCall, params).await {
        Outcome::Complete(reply) => json_of(&reply, &Method::ToolsCall),
        other => panic!("{other:?}"),
    }
}

async fn text(server: &Server, tool: &str, arguments: Value) -> String {
    let result = call(server, tool, arguments.clone()).await;
    assert_eq!(result.get("isError"), None, "{tool} {arguments}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

async fn refusal(server: &Server, tool: &str, arguments: Value) -> String {
    let result = call(server, tool, arguments.clone()).await;
    assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn files_are_read_by_path_and_by_uri() {
    let house = House::new();
    let server = house.server();
    for path in [
        "docs/a.txt".to_owned(),
        "./docs/../docs/a.txt".to_owned(),
        "within".to_owned(),
        house.at("served/docs/a.txt"),
        house.folder.path().join("served/docs/a.txt").display().to_string(),
        format!("file://{}", house.at("served/docs/a.txt")),
        format!("FILE://localhost{}", house.at("served/docs/%61.txt")),
    ] {
        assert_eq!(text(&server, "read", json!({ "path": path })).await, "alpha\nbeta\ngamma\n", "{path}");
    }
    let picture = call(&server, "read", json!({ "path": "pixel.png" })).await;
    assert_eq!(picture["content"][0]["mimeType"], "image/png");
    let bytes = call(&server, "read", json!({ "path": "blob.bin" })).await;
    assert_eq!(bytes["content"][0]["resource"]["blob"], "AP8B");
}

async fn result(server: &Server, method: Method, params: Value) -> Value {
    match outcome(server, &method, params).await {
        Outcome::Complete(reply) => json_of(&reply, &method),
        other => panic!("{other:?}"),
    }
}

/// covers: RES-16 RES-15
#[tokio::test]
async fn folders_are_resources_with_a_media_type_of_their_own() {
    let house = House::new();
    let server = house.server();
    let root = format!("file://{}", house.at("served"));
    let list = result(&server, Method::ResourcesList, json!({})).await;
    assert_eq!(
        list["resources"],
        json!([{
            "uri": root, "name": house.at("served"), "description": "A served folder.",
            "mimeType": "inode/directory",
        }])
    );
    let templates = result(&server, Method::ResourceTemplatesList, json!({})).await;
    // A scheme of files: nobody can fetch these from the web. And files have many types.
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "file:///{+path}");
    assert_eq!(templates["resourceTemplates"][0].get("mimeType"), None);
    let read = async |uri: String| {
        result(&server, Method::ResourcesRead, json!({ "uri": uri })).await["contents"][0].clone()
    };
    let top = read(root.clone()).await;
    assert_eq!(top["mimeType"], "inode/directory");
    assert!(top["text"].as_str().unwrap().contains("docs/\n"), "{top}");
    let docs = read(format!("{root}/docs")).await;
    assert_eq!(
        (&docs["mimeType"], &docs["text"]),
        (&json!("inode/directory"), &json!("a.txt\nold/\none two?.txt\n"))
    );
    assert_eq!(read(format!("{root}/docs/a.txt")).await["mimeType"], "text/plain");
    for outside in [house.at("secret"), house.at("served/way-out")] {
        let missing =
            outcome(&server, &Method::ResourcesRead, json!({ "uri": format!("file://{outside}") })).await;
        assert!(matches!(missing, Outcome::Failed(error) if error.code == -32602), "{outside}");
    }
}

/// covers: TOOL-13
#[tokio::test]
async fn what_is_embedded_can_be_read_as_a_resource() {
    let house = House::new();
    let server = house.server();
    let bytes = call(&server, "read", json!({ "path": "blob.bin" })).await["content"][0]["resource"].clone();
    let found = result(&server, Method::Discover, json!({})).await;
    assert!(found["capabilities"]["resources"].is_object());
    let read = result(&server, Method::ResourcesRead, json!({ "uri": bytes["uri"] })).await;
    assert_eq!(read["contents"], json!([bytes]));
    // The other servers here that embed resources have some, too.
    let found = result(&crate::everything(), Method::Discover, json!({})).await;
    assert!(found["capabilities"]["resources"].is_object());
}

#[tokio::test]
async fn a_path_is_completed_as_far_as_it_is_served() {
    let house = House::new();
    let server = house.server();
    let complete = async |typed: &str| -> Vec<String> {
        let params = json!({
            "ref": { "type": "ref/resource", "uri": "file:///{+path}" },
            "argument": { "name": "path", "value": typed },
        });
        let found = result(&server, Method::Complete, params).await;
        serde_json::from_value(found["completion"]["values"].clone()).unwrap()
    };
    let served = house.at("served")[1..].to_owned();
    assert_eq!(complete("").await, [format!("{served}/")]);
    assert_eq!(complete(&served[..4]).await, [format!("{served}/")]);
    assert_eq!(complete(&format!("{served}/do")).await, [format!("{served}/docs/")]);
    assert_eq!(complete(&format!("{served}/docs/A")).await, [format!("{served}/docs/a.txt")]);
    // Nothing is said of what is outside, whether it is there or not.
    for outside in ["secret/", "secret/k", "served/../secret/", "served/way-out/", "absent/"] {
        assert_eq!(complete(&house.at(outside)[1..]).await, Vec::<String>::new(), "{outside}");
    }
    assert_eq!(complete("etc/pass").await, Vec::<String>::new());
}

/// covers: RES-27 RES-26
#[tokio::test]
async fn nothing_outside_is_reached() {
    let house = House::new();
    let server = house.server();
    for path in [
        "../secret/key.txt".to_owned(),
        "docs/../../secret/key.txt".to_owned(),
        "docs/./.././../secret/key.txt".to_owned(),
        "out".to_owned(),
        "way-out/key.txt".to_owned(),
        "way-out/absent.txt".to_owned(),
        "way-out/absent/absent.txt".to_owned(),
        house.at("secret/key.txt"),
        house.at("secret/absent.txt"),
        house.at("served/../secret/key.txt"),
        house.at("served-too/near.txt"),
        "/etc/passwd".to_owned(),
        "/../etc/passwd".to_owned(),
        format!("file://{}", house.at("served/%2e%2e/secret/key.txt")),
        format!("file://{}", house.at("served/..%2fsecret/key.txt")),
    ] {
        for tool in ["read", "stat", "list", "tree"] {
            let why = refusal(&server, tool, json!({ "path": path })).await;
            // Whether there is something outside is not said either.
            assert!(why.contains("is outside the served folders"), "{tool} {path}: {why}");
        }
        let why = refusal(&server, "search", json!({ "pattern": "*", "path": path })).await;
        assert!(!why.contains("key.txt:"), "{path}: {why}");
    }
    let found = call(&server, "search", json!({ "pattern": "*", "text": "the key" })).await;
    assert_eq!(found["structuredContent"]["matches"], json!([]));
}

#[tokio::test]
async fn odd_paths_are_refused_in_words() {
    let house = House::new();
    let server = house.server();
    for (path, wanted) in [
        ("docs/a.txt\0.png", "NUL"),
        ("absent", "no such file or folder"),
        ("readme.md/x", "a file, not a folder"),
        ("circle", "cannot be found"),
        ("docs", "is a folder; list it instead"),
        ("file:docs/a.txt", "must have an absolute path"),
        ("file://elsewhere/docs/a.txt", "not served here"),
        ("file:///docs/a%2.txt", "two hexadecimal digits"),
        ("file:///docs/a.txt?x", "query or fragment"),
    ] {
        let why = refusal(&server, "read", json!({ "path": path })).await;
        assert!(why.contains(wanted), "{path:?}: {why}");
    }
    let why = refusal(&server, "list", json!({ "path": "readme.md" })).await;
    assert!(why.contains("not a folder"), "{why}");
    let missing = refusal(&server, "read", json!({})).await;
    assert!(missing.contains("path"), "{missing}");
}

/// A pipe without a writer would block a reader forever.
#[tokio::test]
async fn pipes_are_not_waited_for() {
    let house = House::new();
    let pipe = house.folder.path().join("served/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let server = house.server();
    let why = refusal(&server, "read", json!({ "path": "pipe" })).await;
    assert!(why.contains("not a regular file"), "{why}");
    let found = call(&server, "search", json!({ "pattern": "pipe", "text": "x" })).await;
    assert_eq!(found["structuredContent"]["matches"], json!([]));
}

#[tokio::test]
async fn sizes_are_limited() {
    let house = House::new();
    let server = files(house.config().max_read_bytes(12).max_entries(2)).unwrap();
    let why = refusal(&server, "read", json!({ "path": "docs/a.txt" })).await;
    assert!(why.contains("17 bytes") && why.contains("at most 12"), "{why}");
    let some = |from: u64, lines: u64| json!({ "path": "docs/a.txt", "from_line": from, "lines": lines });
    assert_eq!(text(&server, "read", some(2, 1)).await, "beta\n");
    assert_eq!(text(&server, "read", json!({ "path": "docs/a.txt", "from_line": 3 })).await, "gamma\n");
    let why = refusal(&server, "read", some(1, 3)).await;
    assert!(why.contains("use from_line 1 with lines 2"), "{why}");
    let why = refusal(&server, "read", some(9, 1)).await;
    assert!(why.contains("has only 3 lines"), "{why}");
    assert!(refusal(&server, "read", some(0, 1)).await.contains("from_line"));
    let listed = call(&server, "list", json!({})).await;
    assert_eq!(listed["structuredContent"]["entries"].as_array().unwrap().len(), 2);
    assert_eq!(listed["structuredContent"]["left_out"], 6);
    assert!(text(&server, "tree", json!({})).await.contains("more)"));
    let found = call(&server, "search", json!({ "pattern": "*" })).await;
    assert_eq!(found["structuredContent"]["complete"], false);
}

#[tokio::test]
async fn folders_are_listed_and_drawn() {
    let house = House::new();
    let server = house.server();
    let listed = call(&server, "list", json!({ "path": "docs" })).await;
    let entries = listed["structuredContent"]["entries"].as_array().unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a.txt", "old", "one two?.txt"]);
    assert_eq!((&entries[0]["kind"], &entries[0]["size"]), (&json!("file"), &json!(17)));
    assert_eq!((&entries[1]["kind"], entries[1].get("size")), (&json!("folder"), None));
    let tree = text(&server, "tree", json!({ "path": "docs" })).await;
    let wanted = "├── a.txt\n├── old/\n│   └── b.txt\n└── one two?.txt\n";
    assert_eq!(tree, format!("{}\n{wanted}", house.at("served/docs")));
    let shallow = text(&server, "tree", json!({ "depth": 1 })).await;
    assert!(
        shallow.contains("docs/") && !shallow.contains("a.txt") && shallow.contains("out (link)"),
        "{shallow}"
    );
}

#[tokio::test]
async fn files_are_found_by_name_and_text() {
    let house = House::new();
    let server = house.server();
    let find = async |arguments: Value| -> Vec<String> {
        let found = call(&server, "search", arguments).await;
        let root = house.at("served/");
        let matches = found["structuredContent"]["matches"].as_array().unwrap();
        let path = |found: &Value| found["path"].as_str().unwrap().strip_prefix(&root).unwrap().to_owned();
        matches.iter().map(path).collect()
    };
    assert_eq!(find(json!({ "pattern": "?.txt" })).await, ["docs/a.txt", "docs/old/b.txt"]);
    assert_eq!(find(json!({ "pattern": "docs/*.txt" })).await, ["docs/a.txt", "docs/one two?.txt"]);
    assert_eq!(find(json!({ "pattern": "*", "text": "BETA" })).await, ["docs/a.txt", "docs/old/b.txt"]);
    assert_eq!(find(json!({ "pattern": "*.md", "path": "." })).await, ["readme.md"]);
    let found = call(&server, "search", json!({ "pattern": "readme*", "text": "world" })).await;
    let lines = &found["structuredContent"]["matches"][0]["lines"];
    assert_eq!(*lines, json!([{ "number": 3, "text": "Hello, World." }]));
    let why = refusal(&server, "search", json!({ "pattern": "[a" })).await;
    assert!(why.contains("not closed with ]"), "{why}");
}

#[tokio::test]
async fn files_are_looked_at() {
    let house = House::new();
    fs::set_permissions(
        Path::new(&house.at("served/docs/one two?.txt")),
        std::os::unix::fs::PermissionsExt::from_mode(0o640),
    )
    .unwrap();
    let server = house.server();
    let stat =
        call(&server, "stat", json!({ "path": "docs/one two?.txt" })).await["structuredContent"].clone();
    assert_eq!(stat["size"], 6);
    assert_eq!(stat["media_type"], "text/plain");
    assert_eq!(stat["permissions"], "rw-r-----");
    let uri = stat["uri"].as_str().unwrap();
    assert!(uri.ends_with("/docs/one%20two%3F.txt"), "{uri}");
    let read = outcome(&server, &Method::ResourcesRead, json!({ "uri": uri })).await;
    let Outcome::Complete(reply) = read else { panic!("{read:?}") };
    let contents = &json_of(&reply, &Method::ResourcesRead)["contents"][0];
    assert_eq!((&contents["uri"], &contents["text"]), (&json!(uri), &json!("blanks")));
}

/// covers: RES-27 RES-20 RES-22
#[tokio::test]
async fn resources_outside_do_not_exist() {
    let house = House::new();
    let server = house.server();
    for uri in [
        format!("file://{}", house.at("secret/key.txt")),
        format!("file://{}", house.at("served/../secret/key.txt")),
        format!("file://{}", house.at("served/%2E%2E/secret/key.txt")),
        format!("file://{}", house.at("served/out")),
        format!("file://{}", house.at("served/absent")),
    ] {
        match outcome(&server, &Method::ResourcesRead, json!({ "uri": uri })).await {
            Outcome::Failed(error) => assert_eq!(error.code, -32602, "{uri}"),
            other => panic!("{uri}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn several_folders_are_served() {
    let house = House::new();
    let both = [house.folder.path().join("served"), house.folder.path().join("served-too")];
    let server = files(FilesConfig::new(both)).unwrap();
    let folders = call(&server, "folders", json!({})).await;
    let wanted = json!({ "folders": [house.at("served"), house.at("served-too")] });
    assert_eq!(folders["structuredContent"], wanted);
    assert_eq!(text(&server, "read", json!({ "path": "near.txt" })).await, "near");
    assert_eq!(text(&server, "read", json!({ "path": "within" })).await, "alpha\nbeta\ngamma\n");
    let why = refusal(&server, "list", json!({})).await;
    assert!(why.starts_with("specify the folder"), "{why}");
}

#[test]
fn folders_must_be_there() {
    let house = House::new();
    let refused = |path: &str| files(FilesConfig::new([house.at(path)])).unwrap_err().to_string();
    assert!(refused("absent").contains("cannot serve files from"));
    assert!(refused("served/readme.md").contains("cannot serve files from"));
}

#[test]
fn patterns_fit_what_they_say() {
    for (pattern, yes, no) in [
        ("*.rs", &["a.rs", "x/y/a.rs", ".rs"][..], &["a.rsx", "a/rs"][..]),
        ("src/*.rs", &["src/a.rs"], &["a.rs", "src/x/a.rs", "x/src/a.rs"]),
        ("src/**/*.rs", &["src/a.rs", "src/x/y/a.rs"], &["a.rs", "srcs/a.rs"]),
        ("**/test*/*.{md,txt}", &["test/a.md", "x/tests/b.txt"], &["test/a.rs", "test/x/a.md"]),
        ("[Rr]eadme*", &["Readme.md", "x/readme"], &["README", "areadme"]),
        ("[!a-c]?", &["dx", "-x"], &["ax", "d", "dxx"]),
        ("a**b", &["ab", "axxb"], &["axx", "a/b"]),
        ("**", &["a", "a/b/c"], &[]),
        ("{a,b{1,2}}", &["a", "b1", "b2"], &["b", "{a,b1}"]),
        (r"\*", &["*"], &["a"]),
        ("docs/", &["docs"], &["docs/a"]),
        ("[]-]", &["]", "-"], &["a"]),
        ("*a*b*c*", &["abc", "xaxbxcx"], &["acb"]),
        ("**/a/**/b", &["a/b", "x/a/y/z/b", "a/a/b"], &["b/a", "a/b/c"]),
        ("*ü*", &["müde"], &["mude"]),
    ] {
        let parsed = GlobPattern::parse(pattern).unwrap();
        for path in yes {
            assert!(parsed.matches(path), "{pattern} {path}");
        }
        for path in no {
            assert!(!parsed.matches(path), "{pattern} {path}");
        }
    }
    for bad in ["", "[a", "{a", "a\\", "\0", &"{a,b}".repeat(10)] {
        assert!(GlobPattern::parse(bad).is_err(), "{bad:?}");
    }
}

/// Stars that could be matched in very many ways take no more time than others.
#[test]
fn patterns_are_matched_in_bounded_time() {
    let pattern = GlobPattern::parse(&format!("{}b", "*a".repeat(200))).unwrap();
    assert!(!pattern.matches(&"a".repeat(2000)));
    let pattern = GlobPattern::parse(&format!("{}b", "**/a/".repeat(100))).unwrap();
    assert!(!pattern.matches(&["a"; 400].join("/")));
}

/// A call by a client that has these roots, each time it is asked.
async fn within(server: &Server, method: &Method, params: Value, roots: &[String]) -> Value {
    let mut capabilities = ClientCapabilities::new();
    capabilities.roots = Some(hospes::model::RootsCapability::new());
    let peer = Arc::new(Peer::new(Revision::LATEST, None, capabilities));
    let call = |round| {
        let context = Context::builder(Arc::clone(&peer)).round(round).build();
        server.call(Call::new(method.clone(), params.clone().into(), context))
    };
    let questions = match call(hospes::Round::default()).await {
        Outcome::InputRequired(questions) => questions,
        other => panic!("it does not ask: {other:?}"),
    };
    let [(key, hospes::model::InputRequest::ListRoots(_))] = questions.requests.as_slice() else {
        panic!("{questions:?}")
    };
    let roots: Vec<Value> = roots.iter().map(|uri| json!({ "uri": uri })).collect();
    let answer = (key.clone(), json!({ "roots": roots }).into());
    let mut round = questions.round;
    round.record_answers([answer]);
    match call(round).await {
        Outcome::Complete(reply) => json_of(&reply, method),
        Outcome::Failed(error) => json!({ "isError": true, "content": [{ "text": error.message }] }),
        other => panic!("{other:?}"),
    }
}

/// covers: ROOT-12 ROOT-13 ROOT-14
#[tokio::test]
async fn a_client_with_roots_gets_nothing_from_outside_of_them() {
    let house = House::new();
    symlink(house.at("served/readme.md"), house.at("served/docs/up")).unwrap();
    let server = files(house.config().within_roots(true)).unwrap();
    let uri = |path: &str| format!("file://{}", house.at(path));
    let tool = async |name: &str, arguments: Value, roots: &[String]| {
        let params = json!({ "name": name, "arguments": arguments });
        within(&server, &Method::ToolsCall, params, roots).await
    };
    // What is not there, is outside of what is served, or is no folder, covers nothing.
    let docs =
        [uri("served/docs"), uri("gone"), uri("secret"), uri("served/readme.md"), "https://x".to_owned()];
    let listed = tool("folders", json!({}), &docs).await;
    assert_eq!(listed["structuredContent"]["folders"], json!([house.at("served/docs")]));
    let read = tool("read", json!({ "path": "a.txt" }), &docs).await;
    assert_eq!(read["content"][0]["text"], "alpha\nbeta\ngamma\n");
    for path in ["../readme.md", "up", &house.at("served/readme.md"), &uri("served/docs/../readme.md")] {
        for name in ["read", "stat"] {
            let refused = tool(name, json!({ "path": path }), &docs).await;
            assert_eq!(refused["isError"], true, "{name} {path}: {refused}");
        }
    }
    let found = tool("search", json!({ "pattern": "*" }), &docs).await.to_string();
    assert!(found.contains("b.txt") && !found.contains("pixel.png"), "{found}");
    let params = json!({ "uri": uri("served/readme.md") });
    let refused = within(&server, &Method::ResourcesRead, params.clone(), &docs).await;
    assert_eq!(refused["isError"], true, "{refused}");
    // A root above the folder covers all of it, and no more than it.
    let above = within(&server, &Method::ResourcesRead, params, &[uri("")]).await;
    assert!(above.to_string().contains("Hello, World."), "{above}");
    assert_eq!(
        tool("read", json!({ "path": house.at("secret/key.txt") }), &[uri("")]).await["isError"],
        true
    );
    // A folder that goes away between two calls, and comes back.
    for there in [false, true] {
        let old = house.at("served/docs/old");
        let away = house.at("served/away");
        if there {
            fs::rename(away, old).unwrap()
        } else {
            fs::rename(old, away).unwrap()
        }
        let said = tool("list", json!({}), &[uri("served/docs/old")]).await;
        assert_eq!(said["isError"] == true, !there, "{said}");
        assert!(said.to_string().contains(if there { "b.txt" } else { "none of the client's roots" }));
    }
    // Who has no roots is not asked.
    assert_eq!(text(&server, "read", json!({ "path": "docs/a.txt" })).await, "alpha\nbeta\ngamma\n");
}
