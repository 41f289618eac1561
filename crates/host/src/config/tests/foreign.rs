//! The files of other applications, as their own documentation writes them.

use super::*;

#[test]
fn claude_code_and_desktop() {
    let config = parse(
        "/p/.mcp.json",
        r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "files", "${DIR:-/x}"], "env": {"A": "${TOKEN}", "B": "${NONE:-b}"}},
            "web": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "old": {"type": "sse", "url": "https://e.com/sse"}
        }}"#,
    );
    assert_eq!(names(&config), ["files", "web", "old"]);
    assert_eq!(argv(stdio(&config, "files")), ["npx", "-y", "files", "/a b"]);
    assert_eq!(env(stdio(&config, "files")), [("A", "t0ps3cret"), ("B", "b")]);
    assert_eq!(headers(http(&config, "web")), [("Authorization", "Bearer t0ps3cret")]);
    assert_eq!(http(&config, "old").flavour, HttpFlavour::Sse);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn claudes_projects_come_before_the_users_servers() {
    let text = r#"{"numStartups": 3, "mcpServers": {"a": {"command": "user"}, "b": {"command": "user"}},
        "projects": {"/p": {"mcpServers": {"a": {"command": "local"}}}, "/q": {"mcpServers": {"c": {"command": "q"}}}}}"#;
    let config = loader().workspace("/p").parse("/home/me/.claude.json", text).unwrap();
    assert_eq!(argv(stdio(&config, "a")), ["local"]);
    assert_eq!(argv(stdio(&config, "b")), ["user"]);
    assert!(config.server("c").is_none());
}

#[test]
fn cursor() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".cursor")).unwrap();
    std::fs::write(folder.path().join(".env"), "A=file\nB=file\n").unwrap();
    let config = loader()
        .parse(
            folder.path().join(".cursor/mcp.json"),
            r#"{"mcpServers": {
                "a": {"command": "npx -y server", "env": {"A": "${env:TOKEN}"}, "envFile": "${workspaceFolder}/.env"},
                "b": {"command": "x", "args": ["${userHome}"], "cwd": "${workspaceFolder}/sub", "envFile": ".env"},
                "c": {"url": "https://e.com/mcp", "auth": {"CLIENT_ID": "x"}}
            }}"#,
        )
        .unwrap();
    assert_eq!(argv(stdio(&config, "a")), ["npx", "-y", "server"]);
    assert_eq!(env(stdio(&config, "a")), [("A", "t0ps3cret"), ("B", "file")]);
    assert_eq!(argv(stdio(&config, "b")), ["x", "/home/me"]);
    assert_eq!(stdio(&config, "b").cwd, Some(folder.path().join("sub")));
    assert_eq!(env(stdio(&config, "b")), [("A", "file"), ("B", "file")]);
    assert_eq!(config.warnings.len(), 1);
    assert!(config.warnings[0].to_string().ends_with("`auth` is not supported by Hospes and is ignored"));
}

#[test]
fn vs_code() {
    let text = r#"{
        // comments and trailing commas are fine
        "inputs": [{"type": "promptString", "id": "key", "description": "the key"}, {"id": "gone", "description": "Perplexity key"}],
        "servers": {
            "a": {"type": "stdio", "command": "x", "env": {"K": "${input:key}"}},
            "b": {"type": "http", "url": "https://e.com/mcp", "gallery": true, /* and this */ },
        },
    }"#;
    let config = parse("/p/.vscode/mcp.json", text);
    assert_eq!(env(stdio(&config, "a")), [("K", "typed")]);
    assert_eq!(names(&config), ["a", "b"]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    assert_eq!(
        errors("/p/.vscode/mcp.json", &text.replace("input:key", "input:gone")),
        [
            "/p/.vscode/mcp.json:5:65: `env.K` of server `a`: `${input:gone}` (Perplexity key) needs interactive \
          input; set the environment variable `HOSPES_INPUT_GONE` instead"
        ]
    );
    let settings = r#"{"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"a": {"command": "x"}}}}"#;
    assert_eq!(names(&parse("settings.json", settings)), ["a"]);
}

#[test]
fn codex() {
    let config = parse(
        "/home/me/.codex/config.toml",
        r#"
        model = "gpt"
        [mcp_servers.a]
        command = "sh"
        args = ["-c", "echo ${NONE} $NONE"]
        env_vars = ["HOST", "NONE", { name = "TOKEN", source = "local" }]
        startup_timeout_sec = 20
        tool_timeout_sec = 45.5
        enabled_tools = ["x", "y"]
        disabled_tools = ["y"]
        required = true
        [mcp_servers.a.env]
        KEY = "${NONE}"
        [mcp_servers.b]
        url = "https://e.com/mcp"
        bearer_token_env_var = "TOKEN"
        http_headers = { X-A = "1" }
        env_http_headers = { X-B = "HOST" }
        enabled = false
        [mcp_servers.c]
        command = "x"
        startup_timeout_ms = 500
        [profiles.x]
        "#,
    );
    let a = config.server("a").unwrap();
    assert_eq!(argv(stdio(&config, "a")), ["sh", "-c", "echo ${NONE} $NONE"], "Codex expands nothing");
    assert_eq!(
        env(stdio(&config, "a")),
        [("HOST", "example.com"), ("KEY", "${NONE}"), ("TOKEN", "t0ps3cret")]
    );
    assert_eq!(a.timeouts.connect, Some(Duration::from_secs(20)));
    assert_eq!(a.timeouts.request, Some(Duration::from_millis(45_500)));
    assert!(a.required && a.tools.allows("x") && !a.tools.allows("y") && !a.tools.allows("z"));
    assert_eq!(
        headers(http(&config, "b")),
        [("X-A", "1"), ("X-B", "example.com"), ("Authorization", "Bearer t0ps3cret")]
    );
    assert!(config.server("b").unwrap().disabled);
    assert_eq!(config.server("c").unwrap().timeouts.connect, Some(Duration::from_millis(500)));
    let unset = "[mcp_servers.b]\nurl = 'https://e.com'\nbearer_token_env_var = 'NONE'";
    assert_eq!(
        errors("c.toml", unset),
        [
            "c.toml:3:24: `bearer_token_env_var` of server `b`: the environment variable `NONE` is not set, and no \
          default is given"
        ]
    );
    assert!(errors("/home/me/.codex/config.toml", "model = 'gpt'")[0].contains("names no servers"));
}

#[test]
fn gemini() {
    let config = parse(
        "/home/me/.gemini/settings.json",
        r#"{"theme": "x", "mcp": {"allowed": ["a"]}, "mcpServers": {
            "a": {"httpUrl": "https://e.com/mcp", "headers": {"Authorization": "Bearer $TOKEN"}, "timeout": 600,
                  "includeTools": ["x"], "excludeTools": ["y"], "trust": false},
            "b": {"command": "x", "args": ["$HOST", "${HOST}"]}
        }}"#,
    );
    assert_eq!(headers(http(&config, "a")), [("Authorization", "Bearer t0ps3cret")]);
    assert_eq!(config.server("a").unwrap().timeouts.request, Some(Duration::from_millis(600)));
    assert!(config.server("a").unwrap().tools.allows("x"));
    assert!(!config.server("a").unwrap().tools.allows("z"));
    assert_eq!(argv(stdio(&config, "b")), ["x", "example.com", "example.com"]);
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
}

#[test]
fn windsurf_copilot_and_mcporter() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "abc\n").unwrap();
    let config = loader()
        .parse(
            folder.path().join("mcp_config.json"),
            r#"{"mcpServers": {
                "a": {"serverUrl": "https://e.com/mcp", "headers": {"K": "${file:key}", "L": "${file:~/none:-d}"}},
                "b": {"type": "local", "command": "x", "args": [1, true], "tools": ["*"]},
                "c": {"baseUrl": "https://e.com/mcp", "headers": {"K": "$env:TOKEN"}, "lifecycle": "keep-alive"}
            }, "imports": []}"#,
        )
        .unwrap();
    assert_eq!(headers(http(&config, "a")), [("K", "abc"), ("L", "d")]);
    assert_eq!(argv(stdio(&config, "b")), ["x", "1", "true"]);
    assert!(config.server("b").unwrap().tools.allows("anything"));
    assert_eq!(headers(http(&config, "c")), [("K", "t0ps3cret")]);
}

#[test]
fn opencode() {
    let config = parse(
        "opencode.json",
        r#"{"$schema": "x", "mcp": {
            "a": {"type": "local", "command": ["npx", "-y", "s", "{env:HOST}"], "environment": {"K": "{env:TOKEN}"}, "enabled": true},
            "b": {"type": "remote", "url": "https://e.com/mcp", "timeout": 5000},
            "c": {"enabled": false}
        }}"#,
    );
    assert_eq!(argv(stdio(&config, "a")), ["npx", "-y", "s", "example.com"]);
    assert_eq!(env(stdio(&config, "a")), [("K", "t0ps3cret")]);
    assert_eq!(config.server("b").unwrap().timeouts.request, Some(Duration::from_secs(5)));
    assert_eq!(
        warnings(&config),
        ["opencode.json:4:13: server `c`: has neither `command` nor `url` and is skipped"]
    );
}

#[test]
fn zed() {
    let config = parse(
        "settings.json",
        r#"{"context_servers": {
            "a": {"source": "custom", "command": "x", "args": ["y"], "env": {}},
            "b": {"command": {"path": "x", "args": ["${HOST}"], "env": {"A": "1"}}, "settings": {}},
            "c": {"settings": {}}
        }}"#,
    );
    assert_eq!(argv(stdio(&config, "a")), ["x", "y"]);
    assert_eq!(argv(stdio(&config, "b")), ["x", "example.com"]);
    assert_eq!(env(stdio(&config, "b")), [("A", "1")]);
    assert!(config.server("c").is_none());
}

#[test]
fn goose() {
    let config = parse(
        "/home/me/.config/goose/config.yaml",
        r#"
GOOSE_PROVIDER: anthropic
extensions:
  developer: { type: builtin, name: developer, display_name: Developer, enabled: true, bundled: true, timeout: 300 }
  todo: { type: platform, name: todo, enabled: true }
  fetch:
    type: stdio
    name: fetch
    description: Reads pages
    cmd: uvx
    args: [mcp-server-fetch, --port, 8080]
    envs: { LOG: debug }
    env_keys: [TOKEN, NONE]
    timeout: 300
    enabled: true
    available_tools: [fetch]
  web:
    type: streamable_http
    uri: https://${HOST}/mcp
    headers:
      Authorization: "Bearer ${TOKEN}"
    enabled: false
  old: { type: sse, uri: "https://e.com/sse", enabled: true }
"#,
    );
    assert_eq!(names(&config), ["fetch", "web", "old"]);
    assert_eq!(argv(stdio(&config, "fetch")), ["uvx", "mcp-server-fetch", "--port", "8080"]);
    assert_eq!(env(stdio(&config, "fetch")), [("LOG", "debug"), ("TOKEN", "t0ps3cret")]);
    let fetch = config.server("fetch").unwrap();
    assert_eq!(fetch.timeouts.request, Some(Duration::from_secs(300)));
    assert!(fetch.tools.allows("fetch") && !fetch.tools.allows("other"));
    assert_eq!(headers(http(&config, "web")), [("Authorization", "Bearer t0ps3cret")]);
    assert!(config.server("web").unwrap().disabled);
    assert_eq!(http(&config, "old").flavour, HttpFlavour::Sse);
    let file = "/home/me/.config/goose/config.yaml";
    assert_eq!(
        warnings(&config),
        [
            format!("{file}:13:23: server `fetch`: `NONE` is not set here; Goose may keep it in its keyring"),
            format!("{file}:4:3: skipped because they are parts of Goose, not servers: `developer`, `todo`"),
        ]
    );
    assert!(errors("config.yaml", "GOOSE_MODEL: x\n")[0].contains("names no servers"));
    // What another application calls extensions holds no servers.
    assert!(
        errors("settings.json", r#"{"extensions": {"a": {"command": "x"}}}"#)[0].contains("names no servers")
    );
    assert_eq!(names(&parse("librechat.yaml", "mcpServers:\n  a:\n    command: x\n")), ["a"]);
}

#[test]
fn inspector_and_fastmcp() {
    let config = parse(
        "mcp.json",
        r#"{"mcpServers": {
            "a": {"type": "streamable-http", "url": "https://e.com", "protocolEra": "modern",
                  "connectionTimeout": 1500, "requestTimeout": 90000},
            "b": {"transport": "streamableHttp", "type": "http", "url": "https://e.com", "tools": {"x": {}}},
            "c": {"command": "x", "transport": "stdio", "timeout": 60}
        }}"#,
    );
    let a = config.server("a").unwrap();
    assert_eq!(a.era, Some(EraChoice::Modern));
    assert_eq!(a.timeouts.connect, Some(Duration::from_millis(1500)));
    assert_eq!(a.timeouts.request, Some(Duration::from_secs(90)));
    assert_eq!(http(&config, "b").flavour, HttpFlavour::Streamable);
    assert!(config.server("b").unwrap().tools.allows("anything"));
    assert_eq!(config.server("c").unwrap().timeouts.request, Some(Duration::from_secs(60)));
}

#[test]
fn servers_alone_make_a_file() {
    assert_eq!(names(&parse("x", r#"{"a": {"command": "x"}, "b": {"url": "https://e.com"}}"#)), ["a", "b"]);
    assert_eq!(names(&parse("x.json", r#"{"amp.mcpServers": {"a": {"command": "x"}}}"#)), ["a"]);
    assert!(names(&parse("x.json", r#"{"mcpServers": {}}"#)).is_empty());
}

#[test]
fn paths_with_spaces_stay_whole_in_the_files_of_others() {
    let config = parse(
        "m.json",
        r#"{"mcpServers": {
            "a": {"command": "C:\\Program Files\\x\\y.exe"},
            "b": {"command": "/opt/my app/run"},
            "c": {"command": "npx -y foo"},
            "d": {"command": "npx -y foo", "args": []},
            "e": {"command": "~/bin/run"}
        }}"#,
    );
    assert_eq!(argv(stdio(&config, "a")), [r"C:\Program Files\x\y.exe"]);
    assert_eq!(argv(stdio(&config, "b")), ["/opt/my app/run"]);
    assert_eq!(argv(stdio(&config, "c")), ["npx", "-y", "foo"]);
    assert_eq!(argv(stdio(&config, "d")), ["npx -y foo"]);
    assert_eq!(argv(stdio(&config, "e")), ["/home/me/bin/run"]);
}

#[test]
fn mistakes_in_the_files_of_others_are_named() {
    for (text, expected) in [
        (
            r#"{"mcpServer": {}}"#,
            "m.json:1:1: names no servers; expected them under `mcpServers` (or `servers`, `mcp`, …); did you mean `mcpServers` by `mcpServer` in line 1?",
        ),
        (r#"[]"#, "m.json:1:1: names no servers; expected them under `mcpServers` (or `servers`, `mcp`, …)"),
        (r#"{"mcpServers": []}"#, "m.json:1:16: `mcpServers`: expected a table of servers, found an array"),
        (r#"{"mcpServers": {"a": "x"}}"#, "m.json:1:22: server `a`: expected a table, found a string"),
        (
            r#"{"mcpServers": {"a": {"comand": "x"}}}"#,
            "m.json:1:17: server `a` has neither `command` nor `url`; did you mean `command` by `comand`?",
        ),
        (
            r#"{"mcpServers": {"a": {"command": "x", "type": "http"}}}"#,
            "m.json:1:23: server `a` has `type` = `http` and `command`, which exclude each other",
        ),
        (
            r#"{"mcpServers": {"a": {"url": "https://e", "type": "stdio"}}}"#,
            "m.json:1:23: server `a` has `type` = `stdio` and `url`, which exclude each other",
        ),
        (
            r#"{"mcpServers": {"a": {"url": "https://e", "type": "stdio", "transport": "sse"}}}"#,
            "m.json:1:60: server `a` has `type` = `stdio` and `transport` = `sse`, which exclude each other",
        ),
        (
            r#"{"mcpServers": {"a": {"url": "https://e", "httpUrl": "https://f"}}}"#,
            "m.json:1:43: `httpUrl` of server `a` is set a second time; the first is in line 1",
        ),
        (
            r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#,
            "m.json:1:40: server `a` is already described in m.json:1:17; rename or remove one",
        ),
        (
            r#"{"mcpServers": {"a": {"command": "x"}}, "mcpServers": {"b": {"command": "y"}}}"#,
            "m.json:1:41: `mcpServers` is set a second time; the first is in line 1",
        ),
        (
            r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "1", "A": "2"}}}}"#,
            "m.json:1:57: `env.A` of server `a` is set a second time; the first is in line 1",
        ),
        (
            r#"{"mcpServers": {"a": {"url": "https://e", "headers": {"A": "1", "a": "2"}}}}"#,
            "m.json:1:65: `headers.a` of server `a` is set a second time; the first is in line 1",
        ),
        (
            r#"{"mcpServers": {"a": {"command": {"args": []}}}}"#,
            "m.json:1:34: `command` of server `a`: expected a `path` in the table",
        ),
        (
            r#"{"mcpServers": {"a": {"command": null}}}"#,
            "m.json:1:34: `command` of server `a`: expected a string or an array of strings, found null",
        ),
        (r#"{"mcpServers": {"a": {"command": "x",}}"#, "m.json:1:1: not valid JSON: unterminated object"),
    ] {
        let found = errors("m.json", text);
        assert_eq!(found[0], expected, "{text}");
    }
}

#[test]
fn the_workspace_is_the_folder_above_an_applications_own() {
    for (file, expected) in
        [("/p/.vscode/mcp.json", "/p"), ("/p/.mcp.json", "/p"), ("/home/me/.cursor/mcp.json", "/home/me")]
    {
        let config =
            parse(file, r#"{"mcpServers": {"a": {"command": "x", "args": ["${workspaceFolder}"]}}}"#);
        assert_eq!(argv(stdio(&config, "a"))[1], expected, "{file}");
    }
    let config =
        loader().workspace("/w").parse("/p/hospes.toml", "servers.a = 'x ${workspaceFolder}'").unwrap();
    assert_eq!(argv(stdio(&config, "a")), ["x", "/w"]);
}

#[test]
fn unset_variables_can_be_let_through() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["${NONE}"], "env": {"A": "${env:NONE}"}}}}"#;
    assert_eq!(errors("m.json", text).len(), 2);
    let config = loader().allow_unset(true).parse("m.json", text).unwrap();
    assert_eq!(argv(stdio(&config, "a")), ["x", "${NONE}"]);
    assert_eq!(env(stdio(&config, "a")), [("A", "${env:NONE}")]);
    assert_eq!(
        warnings(&config),
        [
            "m.json:1:48: server `a`: `${NONE}` in `args[0]` is passed through unchanged",
            "m.json:1:73: server `a`: `${env:NONE}` in `env.A` is passed through unchanged",
        ]
    );
}
