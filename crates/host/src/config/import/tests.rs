use super::super::applications::{Application, ApplicationFile, PlaceScope};
use super::super::own_file::add_servers;
use super::super::own_text::server_toml;
use super::*;

const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

fn variables(name: &str) -> Option<String> {
    (name == "HOME").then(|| "/home/me".to_owned())
}

/// The servers of files, each of an application.
fn found(files: &[(&str, &str, &str)]) -> (tempfile::TempDir, FoundServers) {
    let folder = tempfile::tempdir().unwrap();
    let mut all = FoundServers::default();
    for (application, path, text) in files {
        let file = folder.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let scope = if path.starts_with("project") { PlaceScope::Project } else { PlaceScope::User };
        let file =
            ApplicationFile { application: Application::find(application).unwrap(), scope, path: file };
        all.add_file(&file, Path::new("/work"), &variables);
    }
    (folder, all)
}

fn origins(found: &FoundServer) -> Vec<String> {
    found.origins.iter().map(ServerOrigin::id).collect()
}

fn server(text: &str) -> ServerConfig {
    let loader = ConfigLoader::new().variables(variables).keep_references(true);
    let mut server = loader.parse("/p/mcp.json", text).unwrap().servers.remove(0);
    normalize(&mut server);
    server
}

fn sealed(text: &str) -> (ServerConfig, Vec<(String, String)>) {
    let mut server = server(&format!(r#"{{"mcpServers": {{"s": {text}}}}}"#));
    let taken = take_secrets(&mut server, &mut |name, _| name.to_owned());
    (server, taken.into_iter().map(|one| (one.name, one.value.reveal().to_owned())).collect())
}

#[test]
fn equal_servers_are_one_with_all_origins_and_different_ones_stay_apart() {
    let (_folder, found) = found(&[
        (
            "cursor",
            ".cursor/mcp.json",
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["x"], "env": {"K": "${env:T}"}}, "b": {"command": "b"}}}"#,
        ),
        (
            "claude-code",
            "project/.mcp.json",
            r#"{"mcpServers": {"a": {"command": "npx x", "env": {"K": "${T}"}}, "b": {"command": "other"}}}"#,
        ),
    ]);
    let names: Vec<_> =
        found.servers.iter().map(|found| (found.server.name.as_str(), origins(found))).collect();
    assert_eq!(
        names,
        [
            ("a", vec!["cursor".to_owned(), "claude-code".to_owned()]),
            ("b", vec!["cursor".to_owned()]),
            ("b", vec!["claude-code".to_owned()]),
        ]
    );
    assert!(!found.servers[0].is_of_project() && found.servers[2].is_of_project());
}

/// Settings that Hospes does not have are named.
#[test]
fn settings_that_are_not_taken_over_are_named() {
    let (_folder, found) = found(&[
        (
            "claude-code",
            ".claude.json",
            r#"{"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp", "headersHelper": "./h.sh"}}}"#,
        ),
        (
            "kiro",
            ".kiro/settings/mcp.json",
            r#"{"mcpServers": {"b": {"command": "b", "autoApprove": ["x"]}}}"#,
        ),
    ]);
    let left_out: Vec<_> = found.servers.iter().flat_map(|one| &one.left_out).map(String::as_str).collect();
    assert_eq!(
        left_out,
        [
            "`headersHelper` is not supported by Hospes and is ignored",
            "`autoApprove` is not supported by Hospes and is ignored"
        ]
    );
}

/// A relative path in a project's file begins at the project, wherever the host is started.
#[test]
fn servers_of_a_project_start_in_its_folder() {
    let entries = r#"{"mcpServers": {"a": {"command": "./run.sh"}, "b": {"command": "node", "args": ["./x.js"]},
        "c": {"command": "node", "args": ["-y", "x"]}, "d": {"command": "./run.sh", "cwd": "/elsewhere"}}}"#;
    let (_folder, found) = found(&[("cursor", "project/.cursor/mcp.json", entries)]);
    let folder = |found: &FoundServer| match &found.server.transport {
        ServerTransport::Stdio(stdio) => stdio.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
        _ => None,
    };
    let folders: Vec<_> = found.servers.iter().map(folder).collect();
    let work = Some("/work".to_owned());
    assert_eq!(folders, [work.clone(), work, None, Some("/elsewhere".to_owned())]);
}

#[test]
fn a_bad_entry_stops_only_itself_and_a_bad_file_only_itself() {
    let (_folder, found) = found(&[
        (
            "cursor",
            ".cursor/mcp.json",
            r#"{"mcpServers": {"bad": {"command": 1}, "ws": {"type": "ws", "url": "ws://x"}, "a": {"command": "x"}, "me": {"command": "/opt/hospes", "args": ["stdio"]}}}"#,
        ),
        ("kiro", ".kiro/settings/mcp.json", "{"),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers.must]\nrequired = true\ncommand = 1\n[mcp_servers.c]\ncommand = 'c'\n",
        ),
        ("warp", ".warp/.mcp.json", r#"{"mcpServers": {"w": {"command": "x"}, "w": {"command": "y"}}}"#),
        ("gemini", ".gemini/settings.json", r#"{"theme": "x"}"#),
    ]);
    let names: Vec<_> = found.servers.iter().map(|found| found.server.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "w"]);
    let refused: Vec<_> = found.refused.iter().map(|refused| refused.name.as_str()).collect();
    assert_eq!(refused, ["bad", "ws", "me", "must", "w (repeated)"]);
    assert!(found.refused[0].reason.contains("expected a string or an array"), "{:?}", found.refused);
    assert_eq!(found.unreadable.len(), 1);
    assert_eq!(found.files.len(), 3);
}

#[test]
fn secrets_are_taken_by_name_and_by_format() {
    let (server, taken) = sealed(&format!(
        r#"{{"command": "x", "args": ["--api-key", "abc", "--token=def", "--port=80", "{TOKEN}", "-H", "X-Auth-Token: Bearer ghi"],
            "env": {{"API_TOKEN": "hunter2", "LOG": "debug", "PAGE_TOKEN_LIMIT": "4096", "FROM": "${{TOKEN}}", "MIX": "Bearer {TOKEN}", "OPENAI_KEY": "${{K:-fallback}}"}}}}"#
    ));
    let expect: Vec<(String, String)> = [
        ("s.arg1", "abc"),
        ("s.arg2", "def"),
        ("s.arg4", TOKEN),
        ("s.arg6", "ghi"),
        ("s.API_TOKEN", "hunter2"),
        ("s.MIX", TOKEN),
        ("s.OPENAI_KEY", "fallback"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    assert_eq!(taken, expect);
    let ServerTransport::Stdio(stdio) = &server.transport else { panic!() };
    let args: Vec<_> = stdio.args.iter().map(ExpandedText::reveal).collect();
    assert_eq!(
        args,
        [
            "--api-key",
            "${secret:s.arg1}",
            "--token=${secret:s.arg2}",
            "--port=80",
            "${secret:s.arg4}",
            "-H",
            "X-Auth-Token: Bearer ${secret:s.arg6}"
        ]
    );
    let env: Vec<_> = stdio.env.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    assert_eq!(
        env,
        [
            ("API_TOKEN", "${secret:s.API_TOKEN}"),
            ("FROM", "${TOKEN}"),
            ("LOG", "debug"),
            ("MIX", "Bearer ${secret:s.MIX}"),
            ("OPENAI_KEY", "${secret:s.OPENAI_KEY}"),
            ("PAGE_TOKEN_LIMIT", "4096"),
        ]
    );
    let text = server_toml(&server);
    assert!(taken.iter().all(|(_, value)| !text.contains(&format!("{value}\""))), "{text}");
    assert_eq!(required_secrets(&server).len(), 7);
    assert_eq!(required_variables(&server).into_iter().collect::<Vec<_>>(), ["TOKEN"]);
}

#[test]
fn secrets_in_headers_and_urls_are_taken() {
    let (server, taken) = sealed(
        r#"{"url": "https://me:pw@e.com/mcp?api_key=k1&x=1#f", "headers": {"Authorization": "Bearer t1", "X-Api-Key": "t2", "Accept": "a"}}"#,
    );
    let values: Vec<_> = taken.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["pw", "k1", "t1", "t2"]);
    let text = server_toml(&server);
    assert!(
        text.contains("https://me:${secret:s.url}@e.com/mcp?api_key=${secret:s.url}&x=1#f")
            && text.contains("Authorization = \"Bearer ${secret:s.Authorization}\""),
        "{text}"
    );
}

#[test]
fn what_the_screen_hides_of_urls_is_sealed() {
    let (server, taken) = sealed(
        r#"{"command": "x", "args": ["postgresql://app:one%2F1@db/x", "--dsn=mysql://u:two@h/d", "https://${HOST}:thr@e.com/", "Server=db;Password=four"],
            "env": {"DATABASE_URL": "mysql://u:five@h/d", "PLAIN_URL": "https://e.com/a?page=2"}}"#,
    );
    let values: Vec<_> = taken.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["one%2F1", "two", "thr", "four", "five"]);
    let ServerTransport::Stdio(stdio) = &server.transport else { panic!() };
    let args: Vec<_> = stdio.args.iter().map(ExpandedText::reveal).collect();
    assert_eq!(
        args,
        [
            "postgresql://app:${secret:s.arg0}@db/x",
            "--dsn=mysql://u:${secret:s.arg1}@h/d",
            "https://${HOST}:${secret:s.arg2}@e.com/",
            "Server=db;Password=${secret:s.arg3}",
        ]
    );
    assert_eq!(stdio.env["DATABASE_URL"].reveal(), "mysql://u:${secret:s.DATABASE_URL}@h/d");
    assert_eq!(stdio.env["PLAIN_URL"].reveal(), "https://e.com/a?page=2");
    // What is read again is what was there.
    let own = server_toml(&server);
    let set = |name: &str| (name == "HOST").then(|| "me".to_owned());
    let stored = taken;
    let loader = ConfigLoader::new().variables(set).secrets(move |name| {
        Ok(stored.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
    });
    let read = loader.parse("/c/config.toml", &own).unwrap();
    let ServerTransport::Stdio(stdio) = &read.servers[0].transport else { panic!() };
    assert_eq!(stdio.args[0].reveal(), "postgresql://app:one%2F1@db/x");
    assert_eq!(stdio.env["DATABASE_URL"].reveal(), "mysql://u:five@h/d");
    let (server, taken) = sealed(r#"{"url": "https://host/mcp/ghp_0123456789abcdef/x"}"#);
    assert_eq!(taken, [("s.url".to_owned(), "ghp_0123456789abcdef".to_owned())]);
    assert!(server_toml(&server).contains("https://host/mcp/${secret:s.url}/x"));
}

#[test]
fn inputs_are_answered() {
    let mut one = server(
        r#"{"mcpServers": {"s": {"command": "x", "env": {"K": "a ${input:id}"}, "args": ["${input:id}"]}}}"#,
    );
    fill_input(&mut one, "other", &TextPart::Literal("no".to_owned()));
    fill_input(&mut one, "id", &TextPart::Literal("${x}".to_owned()));
    let ServerTransport::Stdio(stdio) = &one.transport else { panic!() };
    assert_eq!(stdio.args[0].reveal(), "$${x}");
    assert_eq!(stdio.env["K"].reveal(), "a $${x}");
}

#[test]
fn an_addition_keeps_everything_before_it() {
    let one = server(r#"{"mcpServers": {"new": {"command": "x", "args": ["${userHome}"]}}}"#);
    let added = [(one, "from Cursor\nx".to_owned())];
    let entry = "# from Cursor x\n[servers.new]\ncommand = [\"x\", \"/home/me\"]\n";
    for (before, gap) in [
        ("", ""),
        ("# a comment\n[servers]\na = 'x'  # why\n", "\n"),
        ("[servers.a]\ncommand = 'x'", "\n\n"),
        ("servers.a = 'x'\n", "\n"),
        ("[endpoint]\nlisten = 7337\n", "\n"),
    ] {
        let after = add_servers(Path::new("/c/config.toml"), before, &added).unwrap();
        assert_eq!(after, format!("{before}{gap}{entry}"));
    }
    let windows = "\u{feff}[servers.a]\r\ncommand = 'x'\r\n";
    let after = add_servers(Path::new("/c/config.toml"), windows, &added).unwrap();
    assert_eq!(after, format!("{windows}\r\n{}", entry.replace('\n', "\r\n")));
    for before in ["servers = { a = 'x' }\n", "[servers.new]\ncommand = 'y'\n", "[servers"] {
        let error = add_servers(Path::new("/c/config.toml"), before, &added);
        assert!(error.is_err(), "{before}: {error:?}");
    }
}

#[test]
fn names_of_secrets_are_valid() {
    assert_eq!(secret_name("my server.API KEY/é"), "my-server.API-KEY--");
    assert_eq!(secret_name(""), "secret");
    assert!(super::super::is_secret_reference(&secret_name(&"x".repeat(500))));
}
