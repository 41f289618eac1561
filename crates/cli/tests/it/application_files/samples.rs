//! Files of all applications as they write them, or as their users do: with other settings and servers, and with comments
//! and trailing commas where their own parsers accept them.

use serde_json::{Value, json};

/// Parser that reads a file. None of them is part of Hospes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileParser {
    /// `JSON.parse` of Node.
    Json,
    /// The reader of object literals of Node, which accepts comments and trailing commas.
    JsonWithComments,
    /// `tomllib` of Python.
    Toml,
    /// PyYAML.
    Yaml,
}

/// An application with a file of its own.
#[derive(Debug)]
pub(super) struct ApplicationSample {
    pub(super) id: &'static str,
    /// The user's file, below the folder of the test.
    pub(super) file: &'static str,
    /// The file of a project, if the application has one.
    pub(super) project: Option<&'static str>,
    pub(super) parser: FileParser,
    /// Keys from the top of the file to the servers.
    pub(super) key: &'static [&'static str],
    /// Members of an entry that starts a program besides those of `command` and `args`.
    pub(super) entry: EntryForm,
    pub(super) text: &'static str,
}

/// Form of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryForm {
    /// `command` and `args`.
    Plain,
    /// With this `type`.
    Typed(&'static str),
    /// With the type `local` and `tools`.
    Copilot,
    /// `cmd`, with a name and a switch.
    Goose,
    /// The program and its arguments in one list.
    OpenCode,
    /// An element of a list, with a name.
    Listed,
}

impl ApplicationSample {
    /// The entry of a program with arguments, as the application reads it.
    pub(super) fn entry_of(&self, name: &str, program: &str, args: &[&str]) -> Value {
        match self.entry {
            EntryForm::Plain => json!({ "command": program, "args": args }),
            EntryForm::Typed(kind) => json!({ "type": kind, "command": program, "args": args }),
            EntryForm::Copilot => {
                json!({ "type": "local", "command": program, "args": args, "tools": ["*"] })
            }
            EntryForm::Goose => {
                json!({ "name": name, "type": "stdio", "cmd": program, "args": args, "enabled": true })
            }
            EntryForm::OpenCode => {
                let command = [&[program], args].concat();
                json!({ "type": "local", "command": command })
            }
            EntryForm::Listed => json!({ "name": name, "command": program, "args": args }),
        }
    }
}

const fn sample(id: &'static str, file: &'static str, text: &'static str) -> ApplicationSample {
    ApplicationSample {
        id,
        file,
        project: None,
        parser: FileParser::Json,
        key: &["mcpServers"],
        entry: EntryForm::Plain,
        text,
    }
}

/// One sample for each application, in the order of the table of the program.
pub(super) const SAMPLES: &[ApplicationSample] = &[
    sample("claude-desktop", "config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP),
    ApplicationSample {
        project: Some(".mcp.json"),
        entry: EntryForm::Typed("stdio"),
        ..sample("claude-code", "home/.claude.json", CLAUDE_CODE)
    },
    ApplicationSample {
        project: Some(".vscode/mcp.json"),
        parser: FileParser::JsonWithComments,
        key: &["servers"],
        entry: EntryForm::Typed("stdio"),
        ..sample("vscode", "config/Code/User/mcp.json", VS_CODE)
    },
    ApplicationSample {
        project: Some(".github/mcp.json"),
        entry: EntryForm::Copilot,
        ..sample("copilot-cli", "home/.copilot/mcp-config.json", COPILOT_CLI)
    },
    ApplicationSample {
        project: Some(".cursor/mcp.json"),
        ..sample("cursor", "home/.cursor/mcp.json", CURSOR)
    },
    ApplicationSample {
        project: Some(".codex/config.toml"),
        parser: FileParser::Toml,
        key: &["mcp_servers"],
        ..sample("codex", "home/.codex/config.toml", CODEX)
    },
    ApplicationSample {
        project: Some(".gemini/settings.json"),
        parser: FileParser::JsonWithComments,
        ..sample("gemini", "home/.gemini/settings.json", GEMINI)
    },
    ApplicationSample {
        project: Some(".agents/mcp_config.json"),
        ..sample("antigravity", "home/.gemini/config/mcp_config.json", ANTIGRAVITY)
    },
    sample("windsurf", "home/.codeium/windsurf/mcp_config.json", WINDSURF),
    ApplicationSample {
        project: Some(".devin/config.json"),
        parser: FileParser::JsonWithComments,
        ..sample("devin", "config/devin/config.json", DEVIN)
    },
    ApplicationSample {
        project: Some(".zed/settings.json"),
        parser: FileParser::JsonWithComments,
        key: &["context_servers"],
        ..sample("zed", "config/zed/settings.json", ZED)
    },
    ApplicationSample {
        parser: FileParser::Yaml,
        key: &["extensions"],
        entry: EntryForm::Goose,
        ..sample("goose", "config/goose/config.yaml", GOOSE)
    },
    ApplicationSample {
        project: Some("opencode.json"),
        parser: FileParser::JsonWithComments,
        key: &["mcp"],
        entry: EntryForm::OpenCode,
        ..sample("opencode", "config/opencode/opencode.json", OPENCODE)
    },
    ApplicationSample {
        project: Some("opencode.json"),
        parser: FileParser::JsonWithComments,
        key: &["mcp", "servers"],
        entry: EntryForm::OpenCode,
        ..sample("opencode2", "config/opencode/opencode.json", OPENCODE_2)
    },
    ApplicationSample {
        project: Some(".continue/mcpServers/hospes.yaml"),
        parser: FileParser::Yaml,
        entry: EntryForm::Listed,
        ..sample("continue", "home/.continue/config.yaml", CONTINUE)
    },
    ApplicationSample {
        project: Some(".kiro/settings/mcp.json"),
        ..sample("kiro", "home/.kiro/settings/mcp.json", KIRO)
    },
    sample("cline", "home/.cline/data/settings/cline_mcp_settings.json", CLINE),
    sample("lmstudio", "home/.lmstudio/mcp.json", LM_STUDIO),
    ApplicationSample {
        project: Some("crush.json"),
        key: &["mcp"],
        entry: EntryForm::Typed("stdio"),
        ..sample("crush", "config/crush/crush.json", CRUSH)
    },
    ApplicationSample { project: Some(".warp/.mcp.json"), ..sample("warp", "home/.warp/.mcp.json", WARP) },
];

const CLAUDE_DESKTOP: &str = r#"{
  "globalShortcut": "Alt+Space",
  "mcpServers": {
    "notes": {
      "command": "notes-server",
      "args": ["--folder", "/data/my notes"],
      "env": {
        "LEVEL": "debug"
      }
    }
  },
  "preferences": { "menuBarEnabled": false, "sidebarMode": "chat" }
}
"#;

/// All on few lines, as the application rewrites it, with texts that look like comments and escapes.
const CLAUDE_CODE: &str = r#"{
  "numStartups": 184,
  "tipsHistory": {"shift-enter": 1e2, "memory-command": -0.5},
  "projects": {
    "/data/one": {
      "allowedTools": [],
      "history": [{"display": "say \u0022hi\u0022 // not a comment, \ud83d\ude00", "pastedContents": {}}],
      "mcpServers": {"inner": {"type": "stdio", "command": "inner-server", "args": [], "env": {}}},
      "hasTrustDialogAccepted": true
    }
  },
  "mcpServers": {
    "notes": {"type": "stdio", "command": "notes-server", "args": ["--folder", "/data/my notes"], "env": {"LEVEL": "debug"}},
    "search": {"type": "http", "url": "https://search.example/mcp", "headers": {"X-Team": "blue"}},
    "live": {"type": "ws", "url": "wss://live.example/mcp"}
  },
  "oauthAccount": null,
  "userID": "0a1b"
}"#;

const VS_CODE: &str = r#"// Servers for every workspace
{
	"servers": {
		/* kept: */
		"notes": {
			"type": "stdio",
			"command": "notes-server", // the one in PATH
			"args": ["--folder", "/data/my notes"],
			"env": { "LEVEL": "debug" },
		},
		"search": {
			"type": "http",
			"url": "https://search.example/mcp",
			"headers": { "X-Team": "blue" },
		},
		"odd": { "command": "odd-server", "dev": { "watch": "src/**/*.ts" }, "env": { "KEY": "${input:key}" }, },
		// "off": { "command": "x" },
	},
	"inputs": [
		{ "id": "key", "type": "promptString", "description": "Key", "password": true },
	],
}
"#;

const COPILOT_CLI: &str = r#"{
    "mcpServers": {
        "notes": {
            "type": "local",
            "command": "notes-server",
            "args": ["--folder", "/data/my notes"],
            "env": { "LEVEL": "debug" },
            "tools": ["*"]
        },
        "search": { "type": "http", "url": "https://search.example/mcp", "headers": { "X-Team": "blue" }, "tools": ["*"] },
        "odd": { "type": "local", "command": "odd-server", "args": [], "tools": ["read", "list"] }
    }
}
"#;

/// Indented by three, with the brace of the last entry on its line.
const CURSOR: &str = r#"{
   "mcpServers" : {
      "search" : { "url" : "https://search.example/mcp", "headers" : { "X-Team" : "blue" } },
      "notes" : {
         "command" : "notes-server",
         "args" : [ "--folder", "/data/my notes" ],
         "env" : { "LEVEL" : "debug" } }
   },
   "futureSetting" : [ 1, 2.50, { "nested" : [ ] } ]
}
"#;

const CODEX: &str = r#"model = "gpt-5"   # the usual one
approval_policy = 'on-request'

[mcp_servers.notes]
command = "notes-server"
args = [
    "--folder",
    "/data/my notes", # with a space
]

    [mcp_servers.notes.env]
    LEVEL = "debug"

[mcp_servers.search]
url = "https://search.example/mcp"
http_headers = { "X-Team" = "blue" }

[mcp_servers."odd one"]
command = "odd-server"
startup_timeout_sec = 2.5
env_vars = ["HOME", { name = "LANG", source = "local" }]
enabled_tools = ["read"]

[projects."/data/one"]
trust_level = "trusted"
since = 2026-05-01T08:00:00Z

[tui]
notice = """
# no comment, and [no.table]
"""
"#;

/// With the settings `mcp`, which are no servers.
const GEMINI: &str = r#"{
  // Written by hand
  "security": { "auth": { "selectedType": "oauth-personal" } },
  "mcp": { "allowed": ["notes", "search", "hospes"] },
  "mcpServers": {
    "notes": {
      "command": "notes-server",
      "args": ["--folder", "/data/my notes"],
      "env": { "LEVEL": "debug" }
    },
    "search": { "type": "http", "url": "https://search.example/mcp", "headers": { "X-Team": "blue" } },
    "odd": { "httpUrl": "https://odd.example/mcp", "timeout": 30000, "trust": false, "includeTools": ["read"] } /* old */
  },
  "ui": { "theme": "GitHub" }
}
"#;

const ANTIGRAVITY: &str = r#"{
  "mcpServers": {
    "notes": {
      "command": "notes-server",
      "args": ["--folder", "/data/my notes"],
      "env": { "LEVEL": "debug" }
    },
    "odd": { "serverUrl": "https://odd.example/mcp", "disabledTools": ["write"], "authProviderType": "dynamic_discovery" },
    "search": {
      "serverUrl": "https://search.example/mcp",
      "headers": { "X-Team": "blue" }
    }
  }
}
"#;

/// On one line.
const WINDSURF: &str = r#"{"mcpServers":{"notes":{"command":"notes-server","args":["--folder","/data/my notes"],"env":{"LEVEL":"debug"}},"search":{"serverUrl":"https://search.example/mcp","headers":{"X-Team":"blue"}},"odd":{"command":"odd-server","disabled":true,"disabledTools":["write"]}}}"#;

const DEVIN: &str = r#"{
  "version": 1,
  "permissions": { "allow": ["Read(**)"], "deny": [] }, // as agreed
  "mcpServers": {
    "notes": {
      "command": "notes-server",
      "args": ["--folder", "/data/my notes"],
      "env": { "LEVEL": "debug" },
    },
    "search": {
      "url": "https://search.example/mcp",
      "headers": { "X-Team": "blue" },
    },
    "odd": { "url": "https://odd.example/sse", "transport": "sse" },
  },
}
"#;

/// Most of it is about something else.
const ZED: &str = r#"// Zed settings
//
// For information on how to configure Zed, see the documentation.
{
  "theme": { "mode": "system", "light": "One Light", "dark": "One Dark" },
  "languages": {
    "Rust": { "tab_size": 4, "language_servers": ["rust-analyzer", "..."] },
  },
  "context_servers": {
    "notes": {
      "command": "notes-server",
      "args": ["--folder", "/data/my notes"],
      "env": { "LEVEL": "debug" },
    },
    "search": { "url": "https://search.example/mcp", "headers": { "X-Team": "blue" } },
    "odd": { "source": "custom", "enabled": false, "command": { "path": "odd-server", "args": [], "env": null } },
  },
  "vim_mode": true,
  "buffer_font_size": 15.5,
}
"#;

const GOOSE: &str = r#"# Written by goose configure
GOOSE_PROVIDER: anthropic
extensions:
  developer:
    type: builtin
    name: developer
    enabled: true
    timeout: 300
    bundled: true

  notes:
    name: notes
    type: stdio
    cmd: notes-server
    args:
    - --folder
    - /data/my notes   # with a space
    envs:
      LEVEL: debug
    enabled: true
  search: {name: search, type: streamable_http, uri: "https://search.example/mcp", headers: {X-Team: blue}, enabled: true}
  odd:
    name: odd
    type: stdio
    cmd: odd-server
    args: []
    env_keys: [ODD_TOKEN]
    enabled: false
    timeout: 30
    description: |
      # no comment
      two lines
# between
GOOSE_MODE: smart_approve
"#;

const OPENCODE: &str = r#"{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "notes": {
      "type": "local",
      "command": ["notes-server", "--folder", "/data/my notes"],
      "environment": { "LEVEL": "debug" }
    },
    "search": { "type": "remote", "url": "https://search.example/mcp", "headers": { "X-Team": "blue" } },
    // Off for now
    "odd": { "type": "local", "command": ["odd-server"], "enabled": false, "timeout": 5000 }
  },
  "permission": { "edit": "ask", },
}
"#;

const OPENCODE_2: &str = r#"{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "servers": {
      "notes": {
        "type": "local",
        "command": ["notes-server", "--folder", "/data/my notes"],
        "environment": { "LEVEL": "debug" },
      },
      "search": { "type": "remote", "url": "https://search.example/mcp", "headers": { "X-Team": "blue" } },
      "odd": { "type": "local", "command": ["odd-server"], "disabled": true, "timeout": { "startup": 5000 } }, // off
    },
  },
}
"#;

const CONTINUE: &str = r#"name: Local Config
version: 1.0.0
schema: v1
models:
  - name: local
    provider: ollama
    model: "qwen3:4b"
mcpServers:
  - name: notes
    command: notes-server
    args:
      - --folder
      - "/data/my notes"
    env:
      LEVEL: debug
  - name: search
    type: streamable-http
    url: https://search.example/mcp
    requestOptions:
      headers:
        X-Team: blue

  # Needs a secret
  - name: odd
    command: odd-server
    env: { KEY: "${{ secrets.ODD_KEY }}" }
rules:
  - Answer briefly.
"#;

const KIRO: &str = r#"{
  "mcpServers": {
    "notes": {
      "command": "notes-server",
      "args": [
        "--folder",
        "/data/my notes"
      ],
      "env": {
        "LEVEL": "debug"
      }
    },
    "search": {
      "url": "https://search.example/mcp",
      "headers": {
        "X-Team": "blue"
      }
    },
    "odd": {
      "command": "odd-server",
      "disabled": true,
      "autoApprove": [
        "read"
      ],
      "disabledTools": []
    }
  },
  "powers": {
    "mcpServers": {}
  }
}
"#;

const CLINE: &str = r#"{
	"mcpServers": {
		"notes": {
			"command": "notes-server",
			"args": ["--folder", "/data/my notes"],
			"env": { "LEVEL": "debug" }
		},
		"search": {
			"type": "streamableHttp",
			"url": "https://search.example/mcp",
			"headers": { "X-Team": "blue" }
		},
		"odd": { "autoApprove": [], "disabled": true, "timeout": 60, "command": "odd-server" }
	}
}
"#;

/// Without a line break at the end.
const LM_STUDIO: &str = r#"{
  "mcpServers": {
    "notes": {
      "command": "notes-server",
      "args": [ "--folder", "/data/my notes" ],
      "env": { "LEVEL": "debug" }
    },
    "search": { "url": "https://search.example/mcp", "headers": { "X-Team": "blue" } }
  }
}"#;

const CRUSH: &str = r#"{
  "$schema": "https://charm.land/crush.json",
  "lsp": { "go": { "command": "gopls", "enabled": true } },
  "mcp": {
    "notes": { "type": "stdio", "command": "notes-server", "args": ["--folder", "/data/my notes"], "env": { "LEVEL": "debug" } },
    "search": { "type": "http", "url": "https://search.example/mcp", "headers": { "X-Team": "blue" } },
    "odd": { "type": "http", "url": "https://odd.example/mcp", "headers": { "Authorization": "$(cat /data/token)" } }
  },
  "options": { "debug": false, "tui": { "compact_mode": true } }
}
"#;

/// Braces at the margin.
const WARP: &str = r#"{
"mcpServers":
{
"notes": { "command": "notes-server", "args": ["--folder", "/data/my notes"], "env": { "LEVEL": "debug" } },
"search": { "url": "https://search.example/mcp", "headers": { "X-Team": "blue" } }
}
}
"#;
