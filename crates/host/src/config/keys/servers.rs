//! Keys of servers, with the spellings of other applications.

use super::ConfigKey as Key;
use super::KeyTable;
use super::KeyType::{
    Boolean, Command, Count, Duration, Interval, Names, OneOf, Path, Paths, Secret, Table, Text, Texts, Url,
};

const PIN_MODES: &[&str] = &["ask", "first-use", "off"];
const ARGUMENT_CHECKS: &[&str] = &["strict", "lax", "off"];
const AUTO_UPDATES: &[&str] = &["off", "patch"];
const PLACEMENTS: &[&str] = &["any", "per-user", "one"];

pub(in crate::config) const DEFAULTS: KeyTable = KeyTable {
    path: "defaults",
    about: "Defaults of the servers of this file.",
    keys: &[
        Key::new("connect_timeout", Duration, "60s", "As `connect_timeout` of a server."),
        Key::new("request_timeout", Duration, "", "As `request_timeout` of a server."),
        Key::new("park_timeout", Duration, "10m", "As `park_timeout` of a server."),
        Key::new("health_check", Interval, "30s", "As `health_check` of a server."),
        Key::new("max_connections", Count, "16", "As `max_connections` of a server."),
        Key::new("pins", OneOf(PIN_MODES), "ask", "As `pins` of a server."),
        Key::new("check_arguments", OneOf(ARGUMENT_CHECKS), "strict", "As `check_arguments` of a server."),
        Key::new("auto_update", OneOf(AUTO_UPDATES), "off", "As `auto_update` of a server."),
    ],
};

pub(in crate::config) const SERVER: KeyTable = KeyTable {
    path: "servers.NAME",
    about: "A server. It has one of `command`, `url` and `builtin`.",
    keys: &[
        Key::new("enabled", Boolean, "true", "False: the server is configured, but not started.")
            .foreign(&["enabled"]),
        Key::new("disabled", Boolean, "false", "The opposite of `enabled`.").foreign(&["disabled"]),
        Key::new(
            "transport",
            OneOf(&["stdio", "http", "streamable-http", "sse"]),
            "",
            "Transport; found out by default.",
        )
        .foreign(&["type", "transport", "transportType"]),
        Key::new(
            "command",
            Command,
            "",
            "Program; alone, a command line; or an array of program and arguments.",
        )
        .foreign(&["command", "cmd"]),
        Key::new("url", Url, "", "Address of a server that is reached by HTTP.").foreign(&[
            "url",
            "httpUrl",
            "serverUrl",
            "baseUrl",
            "http_url",
            "server_url",
            "base_url",
            "uri",
        ]),
        Key::new(
            "builtin",
            OneOf(&["everything", "fetch", "files", "git", "memory", "time"]),
            "",
            "Built-in server.",
        ),
        Key::new("args", Texts, "", "Arguments of `command` or `builtin`.").foreign(&["args", "arguments"]),
        Key::new("env", Names, "", "Environment variables of the program.").foreign(&[
            "env",
            "environment",
            "envs",
        ]),
        Key::new("env_file", Path, "", "File of `NAME=value` lines; `env` overrides it.")
            .foreign(&["envFile", "env_file"]),
        Key::new(
            "pass_env",
            Texts,
            "",
            "Variables that the program gets from the host's environment, if they are set.",
        )
        .foreign(&["env_vars", "env_keys"]),
        Key::new("cwd", Path, "", "Working folder of the program.").foreign(&[
            "cwd",
            "workingDirectory",
            "working_directory",
        ]),
        Key::new("headers", Names, "", "Headers of each request to `url`.").foreign(&[
            "headers",
            "http_headers",
            "httpHeaders",
        ]),
        Key::new("env_headers", Names, "", "Headers whose values are in the variables that are named.")
            .foreign_only(&["env_http_headers"]),
        Key::new("bearer_env", Text, "", "Variable with a bearer token.").foreign_only(&[
            "bearer_token_env_var",
            "bearerTokenEnv",
            "bearer_token_env",
        ]),
        Key::new(
            "plain_http",
            Boolean,
            "false",
            "An `http://` URL that does not lead to this machine may be used.",
        ),
        Key::new(
            "account",
            OneOf(&["shared", "per-user"]),
            "shared",
            "Account at the server: one for everybody, or one of each user (needs `[auth]`).",
        ),
        Key::new(
            "client_id",
            Text,
            "",
            "Client ID at the server's authorization server; registered dynamically by default.",
        ),
        Key::new("client_secret", Secret, "", "Client secret of `client_id`."),
        Key::new(
            "client_issuer",
            Url,
            "",
            "Authorization server of `client_id`; the first that the server names by default.",
        ),
        Key::new(
            "sandbox",
            Table,
            "",
            "Confinement of the program (Linux). Without it, the program may do all that its user may.",
        )
        .foreign(&["sandbox"]),
        Key::new("sandbox_enabled", Boolean, "false", "The table `sandbox` applies (VS Code).")
            .foreign_only(&["sandboxEnabled"]),
        Key::new(
            "registry",
            Text,
            "",
            "Name in the registry, or package such as `npm:NAME`, of a server that `hospes add` added; `hospes update` uses it.",
        ),
        Key::new("version", Text, "", "Version of its package."),
        Key::new("digest", Text, "", "Digest of its package, as it was added."),
        Key::new("oauth", Table, "", "Client that is registered with the authorization server.")
            .foreign_only(&["oauth", "auth"]),
        Key::new(
            "scopes",
            Texts,
            "",
            "Scopes to request at a sign-in; those that the server names by default.",
        )
        .foreign(&["scopes"]),
        Key::new("request_options", Table, "", "Table with `headers` (Continue).")
            .foreign_only(&["requestOptions"]),
        Key::new(
            "connect_timeout",
            Duration,
            "60s",
            "Time from starting or connecting until the server is ready.",
        )
        .foreign(&[
            "startup_timeout_sec",
            "startup_timeout_ms",
            "connectionTimeout",
            "connect_timeout",
        ]),
        Key::new(
            "request_timeout",
            Duration,
            "",
            "Time for one request; each progress notification restarts it.",
        )
        .foreign(&["tool_timeout_sec", "requestTimeout", "request_timeout", "timeout"]),
        Key::new(
            "park_timeout",
            Duration,
            "10m",
            "Time that a call to a server of an older revision waits for the answers to its questions.",
        ),
        Key::new("health_check", Interval, "30s", "Interval of health checks; false for never."),
        Key::new(
            "max_connections",
            Count,
            "16",
            "Connections at once. Older servers need one for each application that they ask.",
        ),
        Key::new(
            "placement",
            OneOf(PLACEMENTS),
            "",
            "Nodes of a fleet that run the server: `any`, each for its own requests; `per-user`, one node for each person and application; `one`, one node for all. By default `per-user` for a program, and `any` for all others.",
        ),
        Key::new("tools", Table, "", "Filter of the tools."),
        Key::new("include", Texts, "", "Tools that are offered.").foreign_only(&[
            "enabled_tools",
            "includeTools",
            "include_tools",
            "allowedTools",
            "available_tools",
            "tools",
        ]),
        Key::new("exclude", Texts, "", "Tools that are not offered.").foreign_only(&[
            "disabled_tools",
            "excludeTools",
            "exclude_tools",
            "disabledTools",
        ]),
        Key::new(
            "era",
            OneOf(&["legacy", "modern", "auto"]),
            "auto",
            "Era of the protocol; found out by default.",
        )
        .foreign(&["protocolEra"]),
        Key::new(
            "roots",
            Paths,
            "",
            "Folders that the server is told to work in, in place of those of `--root`.",
        ),
        Key::new(
            "pins",
            OneOf(PIN_MODES),
            "ask",
            "How definitions are accepted: by a person, at first use, or always.",
        ),
        Key::new(
            "check_arguments",
            OneOf(ARGUMENT_CHECKS),
            "strict",
            "Check of arguments against the tools' input schemas; `lax` lets unlisted properties and numbers in quotes pass.",
        ),
        Key::new(
            "auto_update",
            OneOf(AUTO_UPDATES),
            "off",
            "Updates that a running host makes by itself; `patch`: corrections that change nothing that you have seen.",
        ),
        Key::new("required", Boolean, "false", "The host does not start without this server.")
            .foreign(&["required"]),
    ],
};

pub(in crate::config) const TOOLS: KeyTable = KeyTable {
    path: "servers.NAME.tools",
    about: "Filter of the tools, by patterns with `*`.",
    keys: &[
        Key::new("include", Texts, "", "Tools that are offered; all by default."),
        Key::new("exclude", Texts, "", "Tools that are not offered."),
    ],
};

pub(in crate::config) const SANDBOX: KeyTable = KeyTable {
    path: "servers.NAME.sandbox",
    about: "Confinement of the program (Linux).",
    keys: &[
        Key::new(
            "kind",
            OneOf(&["auto", "bubblewrap", "landlock", "off"]),
            "auto",
            "Method. `auto` is bubblewrap if it works, otherwise Landlock.",
        ),
        Key::new("network", OneOf(&["host", "none"]), "host", "Network of the program."),
        Key::new(
            "files",
            Table,
            "",
            "Files of the program besides the system's. Without it, all files of the user.",
        ),
        Key::new(
            "environment",
            Texts,
            "",
            "Variables of the host that it gets; by default `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER`.",
        ),
    ],
};

pub(in crate::config) const SANDBOX_FILES: KeyTable = KeyTable {
    path: "servers.NAME.sandbox.files",
    about: "Files of a confined program.",
    keys: &[
        Key::new("read", Paths, "", "Files and folders that it may read."),
        Key::new("write", Paths, "", "Files and folders that it may write."),
    ],
};

/// Keys of other applications that have no meaning here and are not worth a warning.
pub(in crate::config) const FOREIGN_IGNORED: &[&str] = &[
    "$schema",
    "name",
    "title",
    "displayName",
    "display_name",
    "bundled",
    "description",
    "icon",
    "icons",
    "gallery",
    "version",
    "source",
    "id",
    "homepage",
    "tags",
];
