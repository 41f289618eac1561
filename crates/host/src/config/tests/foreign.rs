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
    assert_eq!(http(&config, "c").client.as_ref().unwrap().id, "x");
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
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
        (r#"{"mcpServers": 1}"#, "m.json:1:16: `mcpServers`: expected a table of servers, found a number"),
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

/// Each field of an entry, with a value of another type: its path and the expected type are named, both when the server is to
/// start and when it is imported.
#[test]
fn a_value_of_the_wrong_type_is_named_with_its_path() {
    let stdio = r#""command": "x""#;
    let http = r#""url": "https://e.com/mcp""#;
    for (transport, field, expected) in [
        ("", r#""command": 1"#, "`command`: a string or an array of strings, a number"),
        ("", r#""command": ["x", []]"#, "`command[1]`: a string, an array"),
        ("", r#""command": {"path": "x", "args": "y"}"#, "`command.args`: an array, a string"),
        ("", r#""command": {"path": "x", "args": ["y", null]}"#, "`command.args[1]`: a string, null"),
        (stdio, r#""args": "--folder /data""#, "`args`: an array, a string"),
        (stdio, r#""args": ["a", "b", {"c": 1}]"#, "`args[2]`: a string, a table"),
        (stdio, r#""env": ["A=1"]"#, "`env`: a table, an array"),
        (stdio, r#""env": {"A": "1", "B": ["2"]}"#, "`env.B`: a string, an array"),
        (stdio, r#""envFile": []"#, "`envFile`: a string, an array"),
        (stdio, r#""env_vars": ["A", 1]"#, "`env_vars[1]`: a string, a number"),
        (stdio, r#""cwd": {}"#, "`cwd`: a string, a table"),
        (stdio, r#""type": []"#, "`type`: a string, an array"),
        (stdio, r#""disabled": "no""#, "`disabled`: true or false, a string"),
        (stdio, r#""timeout": []"#, "`timeout`: a number or a string such as \"30s\", an array"),
        (stdio, r#""disabledTools": "rm""#, "`disabledTools`: an array, a string"),
        (stdio, r#""includeTools": ["ls", 2]"#, "`includeTools[1]`: a string, a number"),
        ("", r#""url": ["https://e.com/mcp"]"#, "`url`: a string, an array"),
        (http, r#""headers": "X-Team: blue""#, "`headers`: a table, a string"),
        (http, r#""headers": {"X-Team": {"a": 1}}"#, "`headers.X-Team`: a string, a table"),
        (http, r#""oauth": {"clientId": []}"#, "`oauth.clientId`: a string, an array"),
        (
            http,
            r#""oauth": {"clientId": "c", "scopes": 7}"#,
            "`oauth.scopes`: a string or an array of strings, a number",
        ),
        (http, r#""oauth": {"clientId": "c", "scopes": ["r", 7]}"#, "`oauth.scopes[1]`: a string, a number"),
    ] {
        let separator = if transport.is_empty() { "" } else { ", " };
        let text = format!(r#"{{"mcpServers": {{"a": {{{transport}{separator}{field}}}}}}}"#);
        let (path, types) = expected.split_once(": ").unwrap();
        let (wanted, found) = types.rsplit_once(", ").unwrap();
        let message = format!("{path} of server `a`: expected {wanted}, found {found}");
        for keep in [false, true] {
            let loader = loader().keep_references(keep);
            let errors = loader.parse("m.json", &text).unwrap_err();
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert!(texts.len() == 1 && texts[0].ends_with(&message), "{text}: {texts:?}");
        }
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

/// The reasons for which servers are skipped.
fn skipped(config: &HostConfig) -> Vec<(&str, &str)> {
    config.skipped.iter().map(|skipped| (skipped.name.as_str(), skipped.reason.as_str())).collect()
}

#[test]
fn opencode_2_has_its_servers_one_level_deeper() {
    let text = r#"{"mcp": {"servers": {
        "a": {"type": "local", "command": ["npx", "{env:HOST}"], "environment": {"K": "{env:TOKEN}"},
              "timeout": {"startup": 1500, "execution": 60000, "catalog": 5000}},
        "b": {"type": "remote", "url": "https://e.com/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}"},
              "disabled": true, "oauth": false}
    }}}"#;
    for file in ["opencode.jsonc", "settings.json"] {
        let config = parse(file, text);
        assert_eq!(argv(stdio(&config, "a")), ["npx", "example.com"], "{file}");
        assert_eq!(env(stdio(&config, "a")), [("K", "t0ps3cret")]);
        let a = config.server("a").unwrap();
        assert_eq!(a.timeouts.connect, Some(Duration::from_millis(1500)));
        assert_eq!(a.timeouts.request, Some(Duration::from_secs(60)));
        assert_eq!(headers(http(&config, "b")), [("Authorization", "Bearer t0ps3cret")]);
        assert!(config.server("b").unwrap().disabled);
        assert_eq!(
            warnings(&config),
            [format!("{file}:3:64: server `a`: `timeout.catalog` is not supported by Hospes and is ignored")]
        );
    }
    // The file's name decides if the entries do not.
    let remote = r#"{"mcp": {"servers": {"b": {"url": "https://{env:HOST}/mcp"}}}}"#;
    assert_eq!(http(&parse("opencode.json", remote), "b").url.reveal().as_str(), "https://example.com/mcp");
    // A server of this name in a file of OpenCode 1.
    let server = r#"{"mcp": {"servers": {"type": "local", "command": ["x"]}}}"#;
    assert_eq!(names(&parse("opencode.json", server)), ["servers"]);
}

#[test]
fn continue_lists_its_servers() {
    let text = r#"
name: Assistant
mcpServers:
  - name: files
    command: npx
    args: [-y, files]
    env:
      KEY: ${{ secrets.TOKEN }}
  - command: nameless
  - name: web
    type: streamable-http
    url: https://e.com/mcp
    requestOptions:
      headers:
        Authorization: Bearer ${{ secrets.TOKEN }}
"#;
    let config = loader().keep_going(true).parse("/home/me/.continue/config.yaml", text).unwrap();
    assert_eq!(names(&config), ["files", "web"]);
    assert_eq!(env(stdio(&config, "files")), [("KEY", "t0ps3cret")]);
    assert_eq!(headers(http(&config, "web")), [("Authorization", "Bearer t0ps3cret")]);
    assert_eq!(
        config.rejected[0].errors.to_string(),
        "/home/me/.continue/config.yaml:9:5: `name` of server `mcpServers[1]`: expected a table with `name`"
    );
    let json = r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "${{ secrets.TOKEN }}"}}}}"#;
    let config = parse("/p/.continue/mcpServers/a.json", json);
    assert_eq!(env(stdio(&config, "a")), [("K", "t0ps3cret")]);
}

#[test]
fn a_transport_that_hospes_lacks_skips_only_its_entry() {
    let config = parse(
        ".mcp.json",
        r#"{"mcpServers": {
            "live": {"type": "ws", "url": "wss://e.com/mcp"},
            "socket": {"type": "http", "url": "unix:///run/s.sock#/mcp"},
            "pipe": {"url": "pipe:///pipe/s"},
            "a": {"command": "x"}
        }}"#,
    );
    assert_eq!(names(&config), ["a"]);
    let socket = "and Hospes connects by `http:` and `https:`";
    assert_eq!(
        skipped(&config),
        [
            ("live", "`type` = `ws` is WebSocket, which Hospes does not support"),
            ("socket", &*format!("`url` is a local socket (`unix:`), {socket}")),
            ("pipe", &*format!("`url` is a local socket (`pipe:`), {socket}")),
        ]
    );
    assert_eq!(
        warnings(&config)[0],
        ".mcp.json:2:13: server `live`: `type` = `ws` is WebSocket, which Hospes does not support; it is skipped"
    );
    // In the own file it is a mistake.
    assert!(errors("h.toml", "[servers.a]\nurl = 'https://e'\ntransport = 'ws'")[0].contains("`stdio`"));
}

#[test]
fn the_sandbox_of_vs_code_is_kept_or_the_server_is_skipped() {
    let read = |members: &str| {
        let text =
            format!(r#"{{"servers": {{"a": {{"command": "x", {members}}}, "b": {{"command": "y"}}}}}}"#);
        parse("/p/.vscode/mcp.json", &text)
    };
    let write = r#""sandbox": {"filesystem": {"allowWrite": ["${workspaceFolder}/out", "/tmp/x"]}}"#;
    let config = read(&format!(r#""sandboxEnabled": true, {write}"#));
    let profile = &config.server("a").unwrap().sandbox.profile;
    assert_eq!(profile.network, hospes_sandbox::SandboxNetwork::None);
    let files = profile.files.as_ref().unwrap();
    assert_eq!(files.write, [Path::new("/p/out"), Path::new("/tmp/x")]);
    assert_eq!(files.read, [Path::new("/home/me")]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    // Paths that are not granted anyway are denied.
    let denied = r#""sandboxEnabled": true, "sandbox": {"filesystem": {"allowWrite": ["/tmp/x"], "denyRead": ["~/.ssh"]}}"#;
    let config = read(denied);
    assert!(config.server("a").unwrap().sandbox.profile.files.as_ref().unwrap().read.is_empty());
    for (sandbox, reason) in [
        (r#"{"network": {"allowedDomains": ["e.com"]}}"#, "allowedDomains"),
        (r#"{"filesystem": {"denyRead": ["/etc/x"]}}"#, "denyRead"),
        (r#"{"filesystem": {"allowWrite": ["/tmp/x"], "denyWrite": ["/tmp/x/y"]}}"#, "denyWrite"),
        (r#"{"filesystem": {"allowWrite": ["/tmp/*"]}}"#, "allowWrite"),
        ("true", "not a table"),
    ] {
        let config = read(&format!(r#""sandboxEnabled": true, "sandbox": {sandbox}"#));
        assert_eq!(names(&config), ["b"], "{sandbox}");
        assert!(skipped(&config)[0].1.contains(reason), "{:?}", skipped(&config));
    }
    let config = read(write);
    assert!(config.server("a").unwrap().sandbox.profile.files.is_none());
    assert!(warnings(&config)[0].ends_with("`sandbox` is ignored because `sandboxEnabled` is not true"));
}

#[test]
fn antigravity_expands_as_gemini_does() {
    let text = r#"{"mcpServers": {"a": {"serverUrl": "https://e.com/mcp", "headers": {"Authorization": "Bearer $TOKEN"}}}}"#;
    for file in ["/home/me/.gemini/config/mcp_config.json", "/p/.agents/mcp_config.json"] {
        assert_eq!(headers(http(&parse(file, text), "a")), [("Authorization", "Bearer t0ps3cret")], "{file}");
    }
    // The same file name of Windsurf.
    let config = parse("/home/me/.codeium/windsurf/mcp_config.json", text);
    assert_eq!(headers(http(&config, "a")), [("Authorization", "Bearer $TOKEN")]);
}

#[test]
fn settings_of_gemini_are_no_servers() {
    let text = r#"{"mcp": {"allowed": ["a"], "excluded": []}}"#;
    let file = "/home/me/.gemini/settings.json";
    let none = "names no servers; expected them under `mcpServers` (or `servers`, `mcp`, …)";
    let found = errors(file, text);
    assert!(found[0].ends_with(none), "its own spelling is not proposed: {}", found[0]);
    // Where others have servers, Gemini has settings.
    for text in [r#"{"mcp": {"a": {"command": "x"}}}"#, r#"{"mcpServer": {}}"#] {
        let key = text.split('"').nth(1).unwrap();
        let meant = format!("{none}; did you mean `mcpServers` by `{key}` in line 1?");
        assert!(errors(file, text)[0].ends_with(&meant), "{text}: {:?}", errors(file, text));
    }
}

#[test]
fn crush_expands_variables_and_runs_no_command() {
    let text = r#"{"mcp": {
        "a": {"type": "stdio", "command": "x", "args": ["$HOST"], "timeout": 90},
        "b": {"type": "http", "url": "https://e.com/mcp", "headers": {"Authorization": "Bearer $(pass show key)"}}
    }}"#;
    let config = loader().keep_going(true).parse("/p/crush.json", text).unwrap();
    assert_eq!(argv(stdio(&config, "a")), ["x", "example.com"]);
    assert_eq!(config.server("a").unwrap().timeouts.request, Some(Duration::from_secs(90)));
    assert_eq!(
        config.rejected[0].errors.to_string(),
        "/p/crush.json:3:88: `headers.Authorization` of server `b`: `$(pass …)` runs a command, which Hospes does not \
         do; put the value into an environment variable and refer to it"
    );
}

#[test]
fn keys_of_goose_at_a_url_are_explained() {
    let text = "extensions:\n  web:\n    type: streamable_http\n    uri: https://e.com/mcp\n    env_keys: [TOKEN]\n    headers:\n      Authorization: Bearer ${TOKEN}\n";
    let config = parse("config.yaml", text);
    assert_eq!(
        warnings(&config),
        [
            "config.yaml:5:5: server `web`: the values that `env_keys` names are in the keyring of Goose; `hospes \
             import` asks for them"
        ]
    );
    let config = loader().keep_references(true).parse("config.yaml", text).unwrap();
    assert_eq!(headers(http(&config, "web")), [("Authorization", "Bearer ${input:TOKEN}")]);
}

#[test]
fn clients_of_an_authorization_server_are_taken() {
    let config = parse(
        "/home/me/.codex/config.toml",
        "[mcp_servers.a]\nurl = 'https://e.com/mcp'\nscopes = ['x']\noauth = { client_id = 'abc' }\n",
    );
    assert_eq!(http(&config, "a").client.as_ref().unwrap().id, "abc");
    assert_eq!(http(&config, "a").scopes, ["x"]);
    assert!(warnings(&config).is_empty(), "{:?}", warnings(&config));
    for (oauth, scopes) in [
        (r#"{"clientId": "abc", "scopes": ["a", "b"]}"#, &["a", "b"][..]),
        (r#"{"scope": "a b:c"}"#, &["a", "b:c"]),
        (r#"{"clientId": "abc"}"#, &[]),
    ] {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{"type": "http", "url": "https://e.com", "oauth": {oauth}}}}}}}"#
        );
        assert_eq!(http(&parse(".mcp.json", &text), "a").scopes, scopes, "{oauth}");
    }
    let config = parse(
        "opencode.json",
        r#"{"mcp": {"a": {"type": "remote", "url": "https://e.com", "oauth": {"clientId": "abc", "clientSecret": "{env:TOKEN}"}}}}"#,
    );
    let client = http(&config, "a").client.as_ref().unwrap();
    assert_eq!(client.secret.as_ref().unwrap().reveal(), "t0ps3cret");
}

#[test]
fn kept_references_are_not_resolved() {
    let config = loader()
        .keep_references(true)
        .parse(
            "/p/.vscode/mcp.json",
            r#"{"inputs": [{"id": "key", "type": "promptString", "description": "A key", "password": true},
                        {"id": "place", "type": "pickString", "options": ["eu", {"label": "US", "value": "us"}], "default": "eu"}],
               "servers": {
                "a": {"command": "x", "args": ["${workspaceFolder}", "${env:NONE}"], "envFile": "none.env",
                      "env": {"K": "${input:key}", "L": "$${env:NONE}"}},
                "b": {"command": "x", "env": {"K": "${env:NONE}"}, "cwd": "${env:NONE}/x"},
                "c": {"url": "https://${env:NONE}/mcp", "headers": {"K": "Bearer ${env:NONE:-d}"}}
            }}"#,
        )
        .unwrap_err();
    // A text that Hospes' own form cannot write stops its entry.
    assert!(config.to_string().contains("`env.L` of server `a`"), "{config}");
    let config = loader()
        .keep_references(true)
        .parse(
            "/p/.vscode/mcp.json",
            r#"{"inputs": [{"id": "key", "type": "promptString", "description": "A key", "password": true},
                        {"id": "place", "type": "pickString", "options": ["eu", {"label": "US", "value": "us"}], "default": "eu"}],
               "servers": {
                "a": {"command": "x", "args": ["${workspaceFolder}", "${env:NONE}"], "envFile": "none.env",
                      "env": {"K": "${input:key}"}},
                "b": {"command": "x", "env": {"K": "${env:NONE}"}, "cwd": "${env:NONE}/x"},
                "c": {"url": "https://${env:NONE}/mcp", "headers": {"K": "Bearer ${env:NONE:-d}"}}
            }}"#,
        )
        .unwrap();
    assert_eq!(argv(stdio(&config, "a")), ["x", "/p", "${NONE}"]);
    assert_eq!(env(stdio(&config, "a")), [("K", "${input:key}")]);
    assert_eq!(stdio(&config, "a").env_file.as_deref(), Some(Path::new("/p/none.env")));
    assert_eq!(stdio(&config, "b").cwd.as_deref(), Some(Path::new("${NONE}/x")));
    assert_eq!(headers(http(&config, "c")), [("K", "Bearer ${NONE:-d}")]);
    let inputs: Vec<_> = config.inputs.iter().map(|input| (&*input.id, input.is_secret)).collect();
    assert_eq!(inputs, [("key", true), ("place", false)]);
    assert_eq!(config.inputs[1].options, ["eu", "us"]);
    // Of Hospes' own file only the servers are read.
    let own = "[auth]\nkey = '${NONE}'\n[servers.a]\ncommand = 'x'\npass_env = ['TOKEN']\nenv = { K = '${secret:k}' }\n";
    let config = loader().keep_references(true).parse("/p/h.toml", own).unwrap();
    assert_eq!(env(stdio(&config, "a")), [("K", "${secret:k}")]);
    assert_eq!(stdio(&config, "a").pass_env, ["TOKEN"]);
    assert!(config.auth.is_none());
}

#[test]
fn sealed_secrets_are_read_for_servers_that_start() {
    let own = "[servers.a]\ncommand = 'x'\nenv = { K = '${secret:k}' }\n[servers.b]\ncommand = 'x'\nenabled = false\nenv = { K = '${secret:locked}' }\n";
    let look_up = |name: &str| match name {
        "k" => Ok(Some("sealed".to_owned())),
        _ => panic!("a server that does not start needs no secret"),
    };
    let config = loader().secrets(look_up).parse("h.toml", own).unwrap();
    assert_eq!(env(stdio(&config, "a")), [("K", "sealed")]);
    assert!(!format!("{config:?}").contains("sealed"));
    assert_eq!(
        errors("h.toml", own),
        ["h.toml:3:13: `env.K` of server `a`: the secret `k` is not stored; `hospes secret set k` stores it"]
    );
    let locked = loader().secrets(|_| Err("the keyring is locked".to_owned())).parse("h.toml", own);
    assert!(locked.unwrap_err().to_string().contains("the secret `k` cannot be read: the keyring is locked"));
}

#[test]
fn an_empty_list_in_the_place_of_servers_is_named() {
    for key in ["servers", "mcpServers"] {
        let config = loader().parse("m.json", &format!("{{\"{key}\": []}}")).unwrap();
        let said = warnings(&config).join("\n");
        assert!(said.contains(&format!("`{key}` is an empty list; expected a table of servers")), "{said}");
        let config = loader().parse("m.json", &format!("{{\"{key}\": {{}}}}")).unwrap();
        assert!(warnings(&config).is_empty(), "{config:?}");
    }
}
