//! The table of applications.

use super::PlaceBase::{Config, ElectronData, Home, LocalData, Project, RoamingData, Variable};
use super::PlaceScope::{Project as OfProject, User};
use super::SystemKind::{Linux, MacOs, Windows};
use super::{
    Application, ApplicationPlace, EntryShape, FileFormat, HttpShape, PlaceBase, PlaceScope, RequiredValue,
    ServerListing, StdioShape, SystemKind, TimeoutShape, VariableSyntax,
};

const ALL: &[SystemKind] = &[Linux, MacOs, Windows];
const UNIX: &[SystemKind] = &[Linux, MacOs];

const fn place(
    scope: PlaceScope,
    systems: &'static [SystemKind],
    base: PlaceBase,
    path: &'static str,
) -> ApplicationPlace {
    ApplicationPlace { scope, systems, base, path, is_read_only: false }
}

const fn user(base: PlaceBase, path: &'static str) -> ApplicationPlace {
    place(User, ALL, base, path)
}

const fn read_only(place: ApplicationPlace) -> ApplicationPlace {
    ApplicationPlace { is_read_only: true, ..place }
}

const fn project(path: &'static str) -> ApplicationPlace {
    place(OfProject, ALL, Project, path)
}

const STDIO: StdioShape =
    StdioShape { kind: None, command: "command", is_array: false, env: "env", has_cwd: false };

const TYPED_HTTP: HttpShape =
    HttpShape { kind: Some("http"), sse: Some("sse"), url: "url", headers: &["headers"] };

const PLAIN_HTTP: HttpShape = HttpShape { kind: None, sse: None, url: "url", headers: &["headers"] };

/// Most applications: `mcpServers`, with untyped entries.
const COMMON: EntryShape = EntryShape {
    format: FileFormat::Json,
    is_strict: false,
    key: &["mcpServers"],
    listing: ServerListing::Object,
    stdio: STDIO,
    http: Some(PLAIN_HTTP),
    off: None,
    variables: VariableSyntax::Braces,
    required: &[],
    timeouts: TimeoutShape::Nothing,
    preamble: "",
};

/// All applications whose configurations are found, in the order in which they are shown.
pub const APPLICATIONS: &[Application] = &[
    Application {
        id: "claude-desktop",
        name: "Claude Desktop",
        places: &[
            // First, because the packaged application ignores the other folder.
            place(
                User,
                &[Windows],
                LocalData,
                "Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json",
            ),
            user(ElectronData, "Claude/claude_desktop_config.json"),
        ],
        shape: EntryShape { is_strict: true, http: None, variables: VariableSyntax::None, ..COMMON },
        takes_effect: "quit it completely and start it again",
    },
    Application {
        id: "claude-code",
        name: "Claude Code",
        places: &[user(Home, ".claude.json"), project(".mcp.json")],
        shape: EntryShape {
            is_strict: true,
            stdio: StdioShape { kind: Some("stdio"), ..STDIO },
            http: Some(TYPED_HTTP),
            ..COMMON
        },
        takes_effect: "start a new session, or reconnect with /mcp",
    },
    Application {
        id: "vscode",
        name: "VS Code",
        places: &[
            user(ElectronData, "Code/User/mcp.json"),
            read_only(user(ElectronData, "Code/User/profiles/*/mcp.json")),
            read_only(user(ElectronData, "Code/User/settings.json")),
            user(ElectronData, "Code - Insiders/User/mcp.json"),
            read_only(user(ElectronData, "Code - Insiders/User/profiles/*/mcp.json")),
            read_only(user(ElectronData, "Code - Insiders/User/settings.json")),
            user(ElectronData, "VSCodium/User/mcp.json"),
            read_only(user(ElectronData, "VSCodium/User/profiles/*/mcp.json")),
            read_only(user(ElectronData, "VSCodium/User/settings.json")),
            project(".vscode/mcp.json"),
            read_only(project(".vscode/settings.json")),
        ],
        shape: EntryShape {
            key: &["servers"],
            stdio: StdioShape { kind: Some("stdio"), has_cwd: true, ..STDIO },
            http: Some(TYPED_HTTP),
            variables: VariableSyntax::Inputs,
            ..COMMON
        },
        takes_effect: "it asks whether you trust the server; after you agree, the tools are there at once",
    },
    Application {
        id: "copilot-cli",
        name: "Copilot CLI",
        places: &[
            user(Variable("COPILOT_HOME"), "mcp-config.json"),
            user(Home, ".copilot/mcp-config.json"),
            project(".github/mcp.json"),
        ],
        shape: EntryShape {
            stdio: StdioShape { kind: Some("local"), has_cwd: true, ..STDIO },
            http: Some(TYPED_HTTP),
            required: &[("tools", RequiredValue::OneText("*"))],
            ..COMMON
        },
        takes_effect: "start a new session",
    },
    Application {
        id: "cursor",
        name: "Cursor",
        places: &[user(Home, ".cursor/mcp.json"), project(".cursor/mcp.json")],
        shape: EntryShape { variables: VariableSyntax::EnvBraces, ..COMMON },
        takes_effect: "reload the window; open chats keep the old list",
    },
    Application {
        id: "codex",
        name: "Codex",
        places: &[
            user(Variable("CODEX_HOME"), "config.toml"),
            user(Home, ".codex/config.toml"),
            project(".codex/config.toml"),
        ],
        shape: EntryShape {
            format: FileFormat::Toml,
            key: &["mcp_servers"],
            stdio: StdioShape { has_cwd: true, ..STDIO },
            http: Some(HttpShape { headers: &["http_headers"], ..PLAIN_HTTP }),
            off: Some(("enabled", false)),
            variables: VariableSyntax::None,
            timeouts: TimeoutShape::StartAndTool,
            ..COMMON
        },
        takes_effect: "restart it",
    },
    Application {
        id: "gemini",
        name: "Gemini CLI",
        places: &[user(Home, ".gemini/settings.json"), project(".gemini/settings.json")],
        shape: EntryShape {
            stdio: StdioShape { has_cwd: true, ..STDIO },
            http: Some(TYPED_HTTP),
            timeouts: TimeoutShape::Milliseconds,
            ..COMMON
        },
        takes_effect: "restart it",
    },
    Application {
        id: "antigravity",
        name: "Antigravity",
        places: &[
            user(Home, ".gemini/config/mcp_config.json"),
            user(Home, ".gemini/antigravity-cli/mcp_config.json"),
            user(Home, ".gemini/antigravity/mcp_config.json"),
            project(".agents/mcp_config.json"),
        ],
        shape: EntryShape {
            stdio: StdioShape { has_cwd: true, ..STDIO },
            http: Some(HttpShape { url: "serverUrl", ..PLAIN_HTTP }),
            ..COMMON
        },
        takes_effect: "press Refresh in its MCP panel",
    },
    Application {
        id: "windsurf",
        name: "Windsurf",
        places: &[user(Home, ".codeium/windsurf/mcp_config.json")],
        shape: EntryShape {
            http: Some(HttpShape { url: "serverUrl", ..PLAIN_HTTP }),
            off: Some(("disabled", true)),
            variables: VariableSyntax::EnvBraces,
            ..COMMON
        },
        takes_effect: "press Refresh in its MCP panel",
    },
    Application {
        id: "devin",
        name: "Devin CLI",
        places: &[
            place(User, UNIX, Config, "devin/config.json"),
            place(User, &[Windows], RoamingData, "devin/config.json"),
            project(".devin/config.json"),
            project(".devin/config.local.json"),
        ],
        shape: EntryShape { variables: VariableSyntax::None, ..COMMON },
        takes_effect: "start a new session",
    },
    Application {
        id: "zed",
        name: "Zed",
        places: &[
            place(User, UNIX, Config, "zed/settings.json"),
            place(User, &[Windows], RoamingData, "Zed/settings.json"),
            project(".zed/settings.json"),
        ],
        shape: EntryShape { key: &["context_servers"], variables: VariableSyntax::None, ..COMMON },
        takes_effect: "at once",
    },
    Application {
        id: "goose",
        name: "Goose",
        places: &[
            place(User, UNIX, Config, "goose/config.yaml"),
            place(User, &[Windows], RoamingData, "Block/goose/config/config.yaml"),
        ],
        shape: EntryShape {
            format: FileFormat::Yaml,
            key: &["extensions"],
            listing: ServerListing::NamedObject,
            stdio: StdioShape { kind: Some("stdio"), command: "cmd", env: "envs", ..STDIO },
            http: Some(HttpShape { kind: Some("streamable_http"), url: "uri", ..PLAIN_HTTP }),
            off: Some(("enabled", false)),
            required: &[("enabled", RequiredValue::True)],
            timeouts: TimeoutShape::Seconds,
            ..COMMON
        },
        takes_effect: "start a new session",
    },
    Application {
        id: "opencode",
        name: "OpenCode 1",
        places: OPENCODE_PLACES,
        shape: OPENCODE,
        takes_effect: "restart it",
    },
    Application {
        id: "opencode2",
        name: "OpenCode 2",
        // Those of version 1. The form of a file tells which of the two has written it.
        places: OPENCODE_PLACES,
        shape: EntryShape {
            key: &["mcp", "servers"],
            stdio: StdioShape { has_cwd: true, ..OPENCODE.stdio },
            off: Some(("disabled", true)),
            timeouts: TimeoutShape::StartAndExecution,
            ..OPENCODE
        },
        takes_effect: "restart it",
    },
    Application {
        id: "continue",
        name: "Continue",
        places: &[
            user(Home, ".continue/config.yaml"),
            project(".continue/mcpServers/hospes.yaml"),
            read_only(project(".continue/mcpServers/*.yaml")),
            read_only(project(".continue/mcpServers/*.json")),
        ],
        shape: EntryShape {
            format: FileFormat::Yaml,
            listing: ServerListing::List,
            http: Some(HttpShape {
                kind: Some("streamable-http"),
                sse: Some("sse"),
                url: "url",
                headers: &["requestOptions", "headers"],
            }),
            variables: VariableSyntax::Secrets,
            preamble: "name: Local Config\nversion: 1.0.0\nschema: v1\n",
            ..COMMON
        },
        takes_effect: "at once",
    },
    Application {
        id: "kiro",
        name: "Kiro",
        places: &[user(Home, ".kiro/settings/mcp.json"), project(".kiro/settings/mcp.json")],
        shape: EntryShape { off: Some(("disabled", true)), ..COMMON },
        takes_effect: "at once",
    },
    Application {
        id: "cline",
        name: "Cline",
        places: &[
            user(Variable("CLINE_MCP_SETTINGS_PATH"), ""),
            user(Home, ".cline/data/settings/cline_mcp_settings.json"),
            user(ElectronData, CLINE_IN_CODE),
        ],
        shape: EntryShape {
            http: Some(HttpShape { kind: Some("streamableHttp"), sse: Some("sse"), ..PLAIN_HTTP }),
            off: Some(("disabled", true)),
            variables: VariableSyntax::None,
            timeouts: TimeoutShape::Seconds,
            ..COMMON
        },
        takes_effect: "at once",
    },
    Application {
        id: "lmstudio",
        name: "LM Studio",
        places: &[user(Home, ".lmstudio/mcp.json"), place(User, &[MacOs], Home, ".cache/lm-studio/mcp.json")],
        shape: EntryShape { variables: VariableSyntax::None, ..COMMON },
        takes_effect: "at once",
    },
    Application {
        id: "crush",
        name: "Crush",
        places: &[user(Config, "crush/crush.json"), project("crush.json"), project(".crush.json")],
        shape: EntryShape {
            key: &["mcp"],
            stdio: StdioShape { kind: Some("stdio"), ..STDIO },
            http: Some(TYPED_HTTP),
            off: Some(("disabled", true)),
            timeouts: TimeoutShape::Seconds,
            ..COMMON
        },
        takes_effect: "restart it",
    },
    Application {
        id: "warp",
        name: "Warp",
        places: &[user(Home, ".warp/.mcp.json"), project(".warp/.mcp.json")],
        shape: COMMON,
        takes_effect: "restart it",
    },
];

const CLINE_IN_CODE: &str = "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";

const OPENCODE_PLACES: &[ApplicationPlace] = &[
    user(Variable("OPENCODE_CONFIG"), ""),
    user(Config, "opencode/opencode.json"),
    user(Config, "opencode/opencode.jsonc"),
    project("opencode.json"),
    project("opencode.jsonc"),
    project(".opencode/opencode.json"),
    project(".opencode/opencode.jsonc"),
];

const OPENCODE: EntryShape = EntryShape {
    key: &["mcp"],
    stdio: StdioShape {
        kind: Some("local"),
        command: "command",
        is_array: true,
        env: "environment",
        has_cwd: false,
    },
    http: Some(HttpShape { kind: Some("remote"), ..PLAIN_HTTP }),
    off: Some(("enabled", false)),
    variables: VariableSyntax::OpenCode,
    timeouts: TimeoutShape::Milliseconds,
    ..COMMON
};
