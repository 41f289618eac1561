//! The keys of the configuration, in one table from which the reader and the documentation are derived.
//!
//! The reader finds an entry by the name of its key here, in the spelling of its file, and reports every other key as
//! unknown. `docs/configuration-keys.md` is rendered from the same rows.

mod auth;
mod profiles;
mod reference;
mod servers;
#[cfg(test)]
mod tests;

pub(super) use auth::{AUTH, AUTH_CLIENT, AUTH_CLIENTS, AUTH_PROVIDER, AUTH_SIGN_IN};
pub(super) use profiles::{PROFILE, PROFILE_TOOLS};
pub use reference::config_reference;
pub(super) use servers::{DEFAULTS, FOREIGN_IGNORED, SANDBOX, SANDBOX_FILES, SERVER, TOOLS};

/// Type of a value, as the reference names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyType {
    /// Address to listen on.
    Address,
    Boolean,
    /// Positive integer.
    Count,
    /// Number of days, an integer.
    Days,
    /// Duration: seconds as a number, or text with units.
    Duration,
    /// Duration, or false for never.
    Interval,
    /// Number, perhaps with a fraction.
    Number,
    Text,
    /// Array of strings.
    Texts,
    /// String or array of strings.
    Command,
    /// File or folder; relative paths begin beside the configuration file.
    Path,
    /// Array of files or folders.
    Paths,
    /// String that is never printed.
    Secret,
    /// Table whose keys are names that the user chooses, with strings as values.
    Names,
    /// Table that has rows of its own here.
    Table,
    Url,
    /// One of these strings.
    OneOf(&'static [&'static str]),
}

/// A key of the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfigKey {
    /// Name in Hospes' own format, or the reader's name for a key that only other applications have.
    pub(super) name: &'static str,
    pub(super) value: KeyType,
    /// Default in the notation of the file; empty if there is none.
    pub(super) default: &'static str,
    /// Description, of one line.
    pub(super) about: &'static str,
    /// Spellings in the files of other applications.
    pub(super) foreign: &'static [&'static str],
    /// False for a key that only other applications have.
    pub(super) is_own: bool,
    /// First release that reads it.
    pub(super) since: &'static str,
}

/// First release with a configuration file.
const FIRST_RELEASE: &str = "0.1.0";

impl ConfigKey {
    const fn new(name: &'static str, value: KeyType, default: &'static str, about: &'static str) -> Self {
        Self { name, value, default, about, foreign: &[], is_own: true, since: FIRST_RELEASE }
    }

    /// Sets the spellings in the files of other applications.
    const fn foreign(mut self, spellings: &'static [&'static str]) -> Self {
        self.foreign = spellings;
        self
    }

    /// Marks a key that Hospes' own format does not have.
    const fn foreign_only(mut self, spellings: &'static [&'static str]) -> Self {
        self.is_own = false;
        self.foreign(spellings)
    }
}

/// A table of the configuration.
#[derive(Debug)]
pub(super) struct KeyTable {
    /// Path of the table, with `NAME` for a name that the user chooses. Empty for the top of the file.
    pub(super) path: &'static str,
    /// Description, of one or two lines.
    pub(super) about: &'static str,
    pub(super) keys: &'static [ConfigKey],
}

impl KeyTable {
    /// Returns the row of a key.
    pub(super) fn key(&self, name: &str) -> Option<&'static ConfigKey> {
        let keys: &'static [ConfigKey] = self.keys;
        keys.iter().find(|key| key.name == name)
    }

    /// Names of the keys in Hospes' own format.
    pub(super) fn own_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let keys: &'static [ConfigKey] = self.keys;
        keys.iter().filter(|key| key.is_own).map(|key| key.name)
    }
}

use ConfigKey as Key;
use KeyType::{
    Address, Boolean, Count, Days, Duration, Names, Number, OneOf, Path, Secret, Table, Text, Texts, Url,
};
#[cfg(test)]
pub(super) use tests::record_read;

/// All tables, in the order of the reference.
const ALL: [&KeyTable; 25] = [
    &TOP,
    &ENDPOINT,
    &CONSOLE,
    &CONSOLE_TEAM,
    &CONSOLE_TEAM_ROLES,
    &NOTIFY,
    &SERVER,
    &TOOLS,
    &SANDBOX,
    &SANDBOX_FILES,
    &DEFAULTS,
    &PROFILE,
    &PROFILE_TOOLS,
    &MODEL,
    &SAMPLING,
    &ALLOWANCE,
    &AUTH,
    &AUTH_CLIENT,
    &AUTH_PROVIDER,
    &AUTH_SIGN_IN,
    &ACCOUNTS,
    &AUDIT,
    &METRICS,
    &TELEMETRY,
    &FLEET,
];

pub(super) const TOP: KeyTable = KeyTable {
    path: "",
    about: "Tables at the top of the file.",
    keys: &[
        Key::new("endpoint", Table, "", "The address that applications connect to."),
        Key::new("console", Table, "", "The web console."),
        Key::new("notify", Table, "", "Notices when something waits for a decision."),
        Key::new("auth", Table, "", "Sign-in at the endpoint."),
        Key::new("accounts", Table, "", "Accounts of users at servers."),
        Key::new("audit", Table, "", "The audit log."),
        Key::new("metrics", Table, "", "Metrics for Prometheus."),
        Key::new("telemetry", Table, "", "Export of traces, metrics and logs by OTLP."),
        Key::new("fleet", Table, "", "Several nodes behind one address."),
        Key::new(
            "registry",
            Url,
            "https://registry.modelcontextprotocol.io",
            "Base URL of the MCP registry of `hospes search`, `add` and `update`.",
        ),
        Key::new(
            "organization_policy",
            Path,
            "",
            "Policy file of an organisation, which the policy file of a user cannot loosen. `/etc/hospes/policy.toml` \
             applies without this key.",
        ),
        Key::new("models", Table, "", "Models for sampling, each a table by its name."),
        Key::new("sampling", Table, "", "What servers may spend on models."),
        Key::new("defaults", Table, "", "Defaults of the servers of this file."),
        Key::new("servers", Table, "", "The servers, each a table, a command line or a URL by its name."),
        Key::new("profiles", Table, "", "Profiles: sets of servers and tools, each a table by its name."),
    ],
};

pub(super) const ENDPOINT: KeyTable = KeyTable {
    path: "endpoint",
    about: "The address that applications connect to.",
    keys: &[
        Key::new(
            "listen",
            Address,
            "127.0.0.1:7337",
            "Address of the endpoint. A port alone listens on loopback.",
        ),
        Key::new(
            "start_wait",
            Duration,
            "5s",
            "Time that the first lists wait for servers that are being started, also for new commands.",
        ),
        Key::new(
            "callers",
            OneOf(&["same-user", "token", "any"]),
            "same-user",
            "Programs that are served without `[auth]`: those of the same user, those with the endpoint's token, or all.",
        ),
        Key::new("allowed_hosts", Texts, "", "Names besides loopback that the header `Host` may have."),
        Key::new(
            "allowed_origins",
            Texts,
            "",
            "Web origins besides loopback that the header `Origin` may have.",
        ),
    ],
};

pub(super) const CONSOLE: KeyTable = KeyTable {
    path: "console",
    about: "The web console.",
    keys: &[
        Key::new(
            "listen",
            Address,
            "127.0.0.1:7338",
            "Loopback address of the console, or `off`. With `team` it can be any address.",
        ),
        Key::new("team", Table, "", "Sign-in of several people."),
        Key::new(
            "questions",
            Boolean,
            "true",
            "The console answers questions of servers if the application cannot show them.",
        ),
        Key::new(
            "decisions_from",
            OneOf(&["browser", "terminal", "programs"]),
            "terminal",
            "Who decides at a running host besides the pages of the console: nobody, programs at a terminal, or all programs of the user.",
        ),
        Key::new(
            "max_streams",
            Count,
            "64",
            "Maximum number of event streams of browsers, of programs at terminals and of other programs, each, up to 4096. One client has a quarter.",
        ),
    ],
};

pub(super) const CONSOLE_TEAM: KeyTable = KeyTable {
    path: "console.team",
    about: "Sign-in of several people to the console, at an OpenID provider. Register `PUBLIC_URL/sign-in/callback` there.",
    keys: &[
        Key::new(
            "issuer",
            Url,
            "",
            "Issuer of the provider; required. Users of the endpoint sign in there, too.",
        ),
        Key::new("client_id", Text, "", "Client ID of the console; required."),
        Key::new("client_secret", Secret, "", "Client secret."),
        Key::new(
            "public_url",
            Url,
            "",
            "Origin at which browsers reach the console, of https; required. A proxy terminates TLS and passes `Host` on.",
        ),
        Key::new(
            "scopes",
            Texts,
            "[\"openid\", \"profile\"]",
            "Scopes that are requested. With `offline_access` groups are read again each hour.",
        ),
        Key::new("groups_claim", Text, "groups", "Claim that has the groups of a person."),
        Key::new("roles", Table, "", "Groups that have each role; required."),
    ],
};

pub(super) const CONSOLE_TEAM_ROLES: KeyTable = KeyTable {
    path: "console.team.roles",
    about: "Groups that have each role of the console. Others are refused.",
    keys: &[
        Key::new("admin", Texts, "", "Servers, definitions, rules, sessions and everybody's record."),
        Key::new(
            "approver",
            Texts,
            "",
            "Approvals for which a rule of the policy names one of the person's groups as `approver`. Members and administrators have this role.",
        ),
        Key::new("auditor", Texts, "", "Everybody's record, without arguments of calls."),
        Key::new("member", Texts, "", "Approvals, permissions, sessions and record of one's own."),
    ],
};

pub(super) const METRICS: KeyTable = KeyTable {
    path: "metrics",
    about: "Metrics for Prometheus.",
    keys: &[Key::new(
        "listen",
        Address,
        "",
        "Address of `/metrics`, or a port of this machine. Without it they are not served.",
    )],
};

pub(super) const TELEMETRY: KeyTable = KeyTable {
    path: "telemetry",
    about: "Export of traces, metrics and logs to a collector, by OTLP over HTTP. Off without this table, unless the environment has `OTEL_EXPORTER_OTLP_ENDPOINT`.",
    keys: &[
        Key::new(
            "otlp_endpoint",
            Url,
            "\"http://127.0.0.1:4318\"",
            "Base URL of the collector, to which `/v1/traces`, `/v1/metrics` and `/v1/logs` are added.",
        ),
        Key::new(
            "headers",
            Names,
            "",
            "Headers for the collector, such as its key. Their values are kept secret.",
        ),
        Key::new("signals", Texts, "[\"traces\", \"metrics\", \"logs\"]", "What is exported."),
        Key::new(
            "sample_ratio",
            Number,
            "0.05",
            "Part of the traces that is recorded, from 0 to 1. An application that sends `traceparent` decides for its own.",
        ),
        Key::new("service_name", Text, "\"hospes\"", "Attribute `service.name` of the resource."),
        Key::new("resource", Names, "", "Further attributes of the resource."),
        Key::new(
            "ca",
            Path,
            "",
            "PEM file with authorities that the collector's certificate may be of, besides the usual ones.",
        ),
        Key::new("metric_interval", Duration, "60s", "Interval at which metrics are exported."),
    ],
};

pub(super) const FLEET: KeyTable = KeyTable {
    path: "fleet",
    about: "Several nodes behind one address. All nodes share the secret, the database and the Redis server.",
    keys: &[
        Key::new(
            "secret",
            Secret,
            "",
            "Secret of all nodes, at least 32 characters. An array of two or three changes it: the present one first.",
        ),
        Key::new(
            "postgres",
            Secret,
            "",
            "URL of the PostgreSQL database. It uses TLS, unless it ends with `?sslmode=disable`.",
        ),
        Key::new(
            "postgres_ca",
            Path,
            "",
            "PEM file with the authorities of PostgreSQL, in place of the system's.",
        ),
        Key::new(
            "postgres_cert",
            Path,
            "",
            "PEM file with the certificate of the nodes for PostgreSQL, if it asks for one.",
        ),
        Key::new(
            "postgres_key",
            Path,
            "",
            "PEM file with the private key of this certificate, without a passphrase.",
        ),
        Key::new("redis", Secret, "", "URL of the Redis server, `rediss://` with TLS."),
        Key::new(
            "redis_ca",
            Path,
            "",
            "PEM file with the authorities of Redis, in place of the public ones.",
        ),
        Key::new(
            "redis_cert",
            Path,
            "",
            "PEM file with the certificate of the nodes for Redis, if it asks for one.",
        ),
        Key::new(
            "redis_key",
            Path,
            "",
            "PEM file with the private key of this certificate, without a passphrase.",
        ),
        Key::new("node_listen", Address, "", "Address on which the other nodes are served, with mutual TLS."),
        Key::new(
            "node_address",
            Text,
            "",
            "Name or address and port at which other nodes reach this one; `node_listen` by default.",
        ),
    ],
};

pub(super) const NOTIFY: KeyTable = KeyTable {
    path: "notify",
    about: "Notices when something waits for a decision.",
    keys: &[
        Key::new(
            "desktop",
            Boolean,
            "true",
            "`hospes up` shows a notification on the desktop. If several files set it, `false` applies.",
        ),
        Key::new(
            "command",
            Texts,
            "",
            "Program that is run for each notification, with its arguments; `{summary}` and `{body}` stand for the texts.",
        ),
        Key::new("webhook", Url, "", "URL to which each notification is posted, such as a topic of ntfy."),
        Key::new("webhook_token", Secret, "", "Bearer token for `webhook`."),
    ],
};

pub(super) const ACCOUNTS: KeyTable = KeyTable {
    path: "accounts",
    about: "The accounts of users at servers with `account = \"per-user\"`.",
    keys: &[
        Key::new(
            "max_links",
            Count,
            "16384",
            "Links at once, of all users. The oldest is dropped for a new one.",
        ),
        Key::new("max_links_per_account", Count, "8", "Links of one account at once."),
        Key::new("max_pending_sign_ins", Count, "16", "Pending sign-ins of one account at once."),
        Key::new("max_users", Count, "1000", "Users at once."),
        Key::new(
            "client_document",
            Boolean,
            "true",
            "With an https `base_url`: publishes a client metadata document, which replaces registration.",
        ),
        Key::new(
            "link_lifetime",
            Duration,
            "5m",
            "Lifetime of a link that connects an account; at most `5m`.",
        ),
        Key::new("sign_in_wait", Duration, "50s", "Time that a call waits for its user to sign in."),
    ],
};

pub(super) const AUDIT: KeyTable = KeyTable {
    path: "audit",
    about: "The audit log.",
    keys: &[
        Key::new(
            "arguments",
            Boolean,
            "false",
            "Whether arguments of calls are recorded too, encrypted. Otherwise only their size is.",
        ),
        Key::new(
            "keep_days",
            Days,
            "",
            "Age at which entries are deleted. Without it, they are kept for ever.",
        ),
    ],
};

pub(super) const MODEL: KeyTable = KeyTable {
    path: "models.NAME",
    about: "A model that answers servers if the application offers none.",
    keys: &[
        Key::new(
            "provider",
            OneOf(&["openai", "anthropic", "gemini", "ollama", "local", "scripted"]),
            "",
            "Provider, required. `openai` includes compatible servers; `local` needs the feature `local-model`.",
        ),
        Key::new("model", Text, "", "Name of the model at the provider; the name of the table by default."),
        Key::new("path", Path, "", "GGUF file of a `local` model."),
        Key::new(
            "base_url",
            Url,
            "",
            "Address of the provider; its public address by default, for Ollama this machine.",
        ),
        Key::new("api_key", Secret, "", "API key."),
        Key::new("headers", Names, "", "Further headers. Their values are kept secret."),
        Key::new("aliases", Texts, "", "Hints that find the model, besides its own names."),
        Key::new(
            "scores",
            Table,
            "{ cost = 0.5, speed = 0.5, intelligence = 0.5 }",
            "Scores from 0 to 1, by which a model is chosen; 1 is cheapest, fastest, most capable.",
        ),
        Key::new("prices", Table, "", "Prices of a million tokens: `{ input = 0.25, output = 2.00 }`."),
        Key::new("modalities", Texts, "[\"text\"]", "Kinds of input: `text`, `image`, `audio`."),
        Key::new("tools", Boolean, "true", "The model takes tools. The default of `local` is false."),
        Key::new("context", Count, "", "Tokens of prompt and answer together."),
        Key::new("max_output", Count, "", "Tokens of an answer."),
        Key::new("enabled", Boolean, "true", "The model is used."),
        Key::new(
            "max_tokens_field",
            OneOf(&["max_tokens", "max_completion_tokens"]),
            "",
            "`openai`: name of the field with the token limit. The default depends on the address.",
        ),
        Key::new("stream_usage", Boolean, "true", "`openai`: asks for the number of tokens."),
        Key::new("num_ctx", Count, "", "`ollama`: context that the model is loaded with."),
        Key::new("replies", Table, "", "`scripted`: the replies, which repeat."),
        Key::new("connect_timeout", Duration, "10s", "Time to connect."),
        Key::new("first_byte_timeout", Duration, "2m", "Time until the answer begins."),
        Key::new("idle_timeout", Duration, "1m", "Time without a byte of the answer."),
        Key::new("timeout", Duration, "5m", "Time of the whole request."),
        Key::new("max_retry_wait", Duration, "30s", "Longest delay before another attempt."),
        Key::new("retries", Number, "2", "Further attempts after a failure that may pass."),
        Key::new("max_answer_bytes", Count, "16777216", "Size of an answer in bytes."),
    ],
};

pub(super) const SAMPLING: KeyTable = KeyTable {
    path: "sampling",
    about: "What servers may spend on models. Without it, nothing.",
    keys: &[
        Key::new("review_timeout", Duration, "5m", "Time that a person has to review a prompt or an answer."),
        Key::new("every_server", Table, "", "Allowance of each server that `servers` does not name."),
        Key::new("servers", Table, "", "Allowances by the name of the server."),
    ],
};

pub(super) const ALLOWANCE: KeyTable = KeyTable {
    path: "sampling.servers.NAME",
    about: "An allowance. It needs `tokens`, `money` or both, or `unlimited`. `[sampling.every_server]` has the same keys.",
    keys: &[
        Key::new("tokens", Count, "", "Tokens of prompts and answers within `window`."),
        Key::new("money", Number, "", "Money within `window`, in the currency of `prices`."),
        Key::new("window", Duration, "24h", "Time for which spending counts."),
        Key::new("calls", Count, "", "Requests within `per`."),
        Key::new("per", Duration, "1m", "Time for which requests count."),
        Key::new("unlimited", Boolean, "false", "Allows unlimited spending."),
    ],
};
