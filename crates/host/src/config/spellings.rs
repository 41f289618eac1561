//! What the settings of a server are called, by us and by others.

/// Alternative spellings of one key.
type Keys = &'static [&'static str];

/// The names under which an entry's settings are known.
pub(super) struct Spellings {
    pub(super) command: Keys,
    pub(super) args: Keys,
    pub(super) builtin: Keys,
    pub(super) env: Keys,
    pub(super) env_file: Keys,
    /// Names of variables to hand on from our own environment.
    pub(super) pass_env: Keys,
    pub(super) cwd: Keys,
    pub(super) url: Keys,
    pub(super) headers: Keys,
    /// Headers whose values are names of environment variables.
    pub(super) env_headers: Keys,
    /// The environment variable with a bearer token.
    pub(super) bearer_env: Keys,
    pub(super) kind: Keys,
    pub(super) enabled: Keys,
    pub(super) disabled: Keys,
    pub(super) required: Keys,
    pub(super) connect_timeout: Keys,
    pub(super) request_timeout: Keys,
    pub(super) include: Keys,
    pub(super) exclude: Keys,
    pub(super) era: Keys,
    /// Read by others and of no meaning here; not worth a warning.
    pub(super) silent: Keys,
}

pub(super) const OWN: Spellings = Spellings {
    command: &["command"],
    args: &["args"],
    builtin: &["builtin"],
    env: &["env"],
    env_file: &["env_file"],
    pass_env: &["pass_env"],
    cwd: &["cwd"],
    url: &["url"],
    headers: &["headers"],
    env_headers: &[],
    bearer_env: &[],
    kind: &["transport"],
    enabled: &["enabled"],
    disabled: &["disabled"],
    required: &["required"],
    connect_timeout: &["connect_timeout"],
    request_timeout: &["request_timeout"],
    include: &[],
    exclude: &[],
    era: &["era"],
    silent: &[],
};

pub(super) const FOREIGN: Spellings = Spellings {
    command: &["command", "cmd"],
    args: &["args", "arguments"],
    builtin: &[],
    env: &["env", "environment", "envs"],
    env_file: &["envFile", "env_file"],
    pass_env: &["env_vars", "env_keys"],
    cwd: &["cwd", "workingDirectory", "working_directory"],
    url: &["url", "httpUrl", "serverUrl", "baseUrl", "http_url", "server_url", "base_url", "uri"],
    headers: &["headers", "http_headers", "httpHeaders"],
    env_headers: &["env_http_headers"],
    bearer_env: &["bearer_token_env_var", "bearerTokenEnv", "bearer_token_env"],
    kind: &["type", "transport", "transportType"],
    enabled: &["enabled"],
    disabled: &["disabled"],
    required: &["required"],
    connect_timeout: &["startup_timeout_sec", "startup_timeout_ms", "connectionTimeout", "connect_timeout"],
    request_timeout: &["tool_timeout_sec", "requestTimeout", "request_timeout", "timeout"],
    include: &["enabled_tools", "includeTools", "include_tools", "allowedTools", "available_tools", "tools"],
    exclude: &["disabled_tools", "excludeTools", "exclude_tools", "disabledTools"],
    era: &["protocolEra"],
    silent: &[
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
    ],
};
