//! Tests of whole files, in every supported format, and of the messages about errors.

mod auth;
mod console_team;
mod foreign;
mod profiles;
mod sandbox;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::Sampler;

fn variable(name: &str) -> Option<String> {
    let value = match name {
        "HOME" => "/home/me",
        "TOKEN" => "t0ps3cret",
        "HOST" => "example.com",
        "DIR" => "/a b",
        "HOSPES_INPUT_KEY" => "typed",
        _ => return None,
    };
    Some(value.to_owned())
}

fn loader() -> ConfigLoader<'static> {
    ConfigLoader::new().variables(variable)
}

fn parse(file: &str, text: &str) -> HostConfig {
    loader().parse(file, text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(file: &str, text: &str) -> Vec<String> {
    match loader().parse(file, text) {
        Ok(config) => panic!("no mistake found: {config:?}"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn warnings(config: &HostConfig) -> Vec<String> {
    config.warnings.iter().map(ToString::to_string).collect()
}

fn stdio<'a>(config: &'a HostConfig, name: &str) -> &'a StdioTransport {
    match &config.server(name).unwrap_or_else(|| panic!("{config:?}")).transport {
        ServerTransport::Stdio(stdio) => stdio,
        other => panic!("{other:?}"),
    }
}

fn http<'a>(config: &'a HostConfig, name: &str) -> &'a HttpTransport {
    match &config.server(name).unwrap_or_else(|| panic!("{config:?}")).transport {
        ServerTransport::Http(http) => http,
        other => panic!("{other:?}"),
    }
}

/// The program with its arguments.
fn argv(stdio: &StdioTransport) -> Vec<&str> {
    std::iter::once(&stdio.command).chain(&stdio.args).map(ExpandedText::reveal).collect()
}

fn env(stdio: &StdioTransport) -> Vec<(&str, &str)> {
    stdio.env.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect()
}

fn headers(http: &HttpTransport) -> Vec<(&str, &str)> {
    http.headers.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect()
}

fn names(config: &HostConfig) -> Vec<&str> {
    config.servers.iter().map(|server| server.name.as_str()).collect()
}

/// The example in the documentation, whole, so that it stays true.
#[test]
fn the_documented_example_is_read() {
    let text = include_str!("format.md");
    let example = text.split("```toml\n").nth(1).and_then(|text| text.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.env"), "LOG=info\nREGION=eu\n").unwrap();
    let variable = |name: &str| match name {
        "HOME" => Some("/home/me".to_owned()),
        "NOTES_KEY" | "TICKETS_TOKEN" | "MAIL_SECRET" | "ANN_PASSWORD" | "CI_TOKEN" => {
            Some("t0ps3cret".to_owned())
        }
        "SSH_AUTH_SOCK" => Some("/run/agent".to_owned()),
        _ => None,
    };
    let file = folder.path().join("hospes.toml");
    let config = ConfigLoader::new().variables(variable).parse(&file, example).unwrap();
    assert_eq!(names(&config), ["everything", "search", "notes", "tickets", "mail", "time"]);
    assert_eq!(config.listen, Some("127.0.0.1:7337".parse().unwrap()));
    assert_eq!(config.allowed_hosts, ["mcp.example.org"]);
    assert_eq!(config.allowed_origins, ["https://example.org"]);
    // It says what is so without it.
    let limits = crate::AccountLimits::from(&config.accounts);
    assert_eq!(limits, crate::AccountLimits::default());
    assert_eq!(config.accounts.client_document, Some(true));
    let client = http(&config, "mail").client.as_ref().unwrap();
    assert_eq!((&*client.id, client.secret.as_ref().unwrap().reveal()), ("hospes", "t0ps3cret"));
    assert_eq!(client.issuer.as_deref(), Some("https://login.example"));
    assert!(!format!("{config:?}").contains("t0ps3cret"));
    let auth = config.auth.as_ref().unwrap();
    assert_eq!((auth.enabled, auth.base_url.as_deref()), (Some(true), Some("https://mcp.example.org")));
    assert_eq!((auth.users[0].0.as_str(), auth.users[0].1.reveal()), ("ann", "t0ps3cret"));
    assert_eq!(auth.clients[0].redirect_uris, ["http://127.0.0.1/callback"]);
    assert_eq!(auth.store, Some(folder.path().join("auth.db")));
    assert!(!format!("{auth:?}").contains("t0ps3cret"));
    assert_eq!(argv(stdio(&config, "everything")), ["npx", "-y", "@modelcontextprotocol/server-everything"]);
    assert_eq!(http(&config, "search").url.reveal().as_str(), "https://search.example/mcp");
    let notes = stdio(&config, "notes");
    assert_eq!(argv(notes), ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/me/notes"]);
    assert_eq!(
        env(notes),
        [("API_KEY", "t0ps3cret"), ("LOG", "debug"), ("REGION", "eu"), ("SSH_AUTH_SOCK", "/run/agent")]
    );
    assert_eq!(notes.cwd, Some(PathBuf::from("/home/me/notes")));
    let filter = &config.server("notes").unwrap().tools;
    assert!(filter.allows("read_file") && !filter.allows("read_my_secret") && !filter.allows("write"));
    let tickets = http(&config, "tickets");
    assert_eq!(headers(tickets), [("Authorization", "Bearer t0ps3cret")]);
    assert_eq!(tickets.flavour, HttpFlavour::Streamable);
    let time = config.server("time").unwrap();
    assert_eq!(time.transport, ServerTransport::builtin("time", []));
    assert_eq!(time.timeouts.connect, Some(Duration::from_secs(15)));
    assert_eq!(time.timeouts.request, Some(Duration::from_secs(120)));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    for printed in [format!("{config:?}"), notes.command_line()] {
        assert!(!printed.contains("t0ps3cret"), "{printed}");
    }
    assert_eq!(notes.command_line(), "npx -y @modelcontextprotocol/server-filesystem ${userHome}/notes");
}

#[test]
fn our_format_understands_every_server_setting() {
    let config = parse(
        "/etc/hospes/hospes.toml",
        r#"
        [defaults]
        pins = "ask"
        check_arguments = "lax"
        auto_update = "patch"
        [servers.a]
        command = ["run me", "x", "${DIR}"]
        enabled = false
        required = true
        era = "modern"
        connect_timeout = 1.5
        request_timeout = "2m"
        park_timeout = "1h"
        health_check = false
        max_connections = 3
        placement = "one"
        pins = "first-use"
        check_arguments = "off"
        auto_update = "off"
        cwd = "sub"
        [servers.b]
        command = "run ${DIR}/x 'two words'"
        args = []
        [servers.c]
        command = "run ${DIR}/x 'two words'"
        [servers.d]
        url = "https://${HOST}/mcp"
        transport = "sse"
        headers = { X-Port = 80 }
        [servers.e]
        url = "https://example.com/mcp"
        account = "per-user"
        "#,
    );
    let a = config.server("a").unwrap();
    assert!(a.disabled && a.required);
    assert_eq!(a.era, Some(EraChoice::Modern));
    assert_eq!(a.timeouts.connect, Some(Duration::from_millis(1500)));
    assert_eq!(a.timeouts.request, Some(Duration::from_secs(120)));
    assert_eq!(a.timeouts.park, Some(Duration::from_secs(3600)));
    assert_eq!(a.timeouts.health_check, Some(Duration::ZERO), "never");
    assert_eq!(a.max_connections, Some(3));
    assert_eq!(a.placement(), ServerPlacement::One);
    assert_eq!(config.server("b").unwrap().placement(), ServerPlacement::PerUser, "a program has a state");
    assert_eq!(config.server("d").unwrap().placement(), ServerPlacement::Any);
    assert_eq!((a.pins, config.server("b").unwrap().pins), (Some(PinMode::FirstUse), Some(PinMode::Ask)));
    assert_eq!(
        (a.check_arguments, config.server("b").unwrap().check_arguments),
        (ArgumentCheck::Off, ArgumentCheck::Lax)
    );
    assert_eq!(
        (a.auto_update, config.server("b").unwrap().auto_update),
        (AutoUpdate::Off, AutoUpdate::Patch)
    );
    assert_eq!(a.source.to_string(), "/etc/hospes/hospes.toml:6:18");
    assert_eq!(argv(stdio(&config, "a")), ["run me", "x", "/a b"]);
    assert_eq!(stdio(&config, "a").cwd, Some(PathBuf::from("/etc/hospes/sub")));
    assert_eq!(
        argv(stdio(&config, "b")),
        ["run /a b/x 'two words'"],
        "with args, the whole text is the program"
    );
    assert_eq!(argv(stdio(&config, "c")), ["run", "/a b/x", "two words"], "splitting comes before expanding");
    let d = http(&config, "d");
    assert_eq!(d.url.reveal().as_str(), "https://example.com/mcp");
    assert_eq!(d.url.to_string(), "https://${HOST}/mcp");
    assert_eq!(d.flavour, HttpFlavour::Sse);
    assert_eq!(headers(d), [("X-Port", "80")]);
    assert_eq!(
        config.servers.iter().map(ServerConfig::is_per_user).collect::<Vec<_>>(),
        [false, false, false, false, true]
    );
}

/// covers: HTTP-06
#[test]
fn addresses_to_listen_on_are_read_in_every_form() {
    for (text, expected) in [
        ("127.0.0.1:80", Some("127.0.0.1:80")),
        ("[::1]:80", Some("[::1]:80")),
        ("0.0.0.0:0", Some("0.0.0.0:0")),
        ("localhost:80", Some("127.0.0.1:80")),
        (":80", Some("127.0.0.1:80")),
        ("80", Some("127.0.0.1:80")),
        ("localhost", None),
        ("localhost80", None),
        ("example.com:80", None),
        ("99999", None),
        ("", None),
    ] {
        assert_eq!(parse_listen(text), expected.map(|address| address.parse().unwrap()), "{text}");
    }
    assert_eq!(parse("h.toml", "[endpoint]\nlisten = 7338").listen, parse_listen("7338"));
}

#[test]
fn a_file_can_disable_notifications_and_no_other_can_enable_them_again() {
    for (text, expected) in [
        ("[notify]", None),
        ("[notify]\ndesktop = true", Some(true)),
        ("[notify]\ndesktop = false", Some(false)),
    ] {
        assert_eq!(parse("h.toml", text).desktop_notifications, expected, "{text}");
    }
    assert_eq!(errors("h.toml", "[notify]\ndesktop = 'no'").len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let files = [("a.toml", "false"), ("b.toml", "true")].map(|(name, shown)| {
        let file = folder.path().join(name);
        std::fs::write(&file, format!("[notify]\ndesktop = {shown}\n")).unwrap();
        file
    });
    let merged = ConfigLoader::new().load(&files).unwrap();
    assert_eq!(merged.desktop_notifications, Some(false));
}

#[test]
fn a_program_and_a_service_can_be_notified() {
    let text = "[notify]\ncommand = ['tell', '{body}']\nwebhook = 'https://ntfy.example/topic'\nwebhook_token = 'a-token'\n";
    let channels = parse("h.toml", text).notifications;
    assert_eq!(channels.command.iter().map(|word| word.reveal()).collect::<Vec<_>>(), ["tell", "{body}"]);
    let webhook = channels.webhook.clone().unwrap();
    assert_eq!(webhook.url.reveal().as_str(), "https://ntfy.example/topic");
    assert_eq!(webhook.token.as_ref().map(|token| token.reveal()), Some("a-token"));
    assert!(!format!("{channels:?}").contains("a-token"));
    for wrong in
        ["command = []", "command = 'tell'", "webhook = 'http://ntfy.example/topic'", "webhook = 'x'"]
    {
        assert_eq!(errors("h.toml", &format!("[notify]\n{wrong}")).len(), 1, "{wrong}");
    }
    assert!(
        parse("h.toml", "[notify]\nwebhook = 'http://127.0.0.1:1/topic'").notifications.webhook.is_some()
    );
}

#[test]
fn the_registry_is_a_url_and_is_read_with_references_kept() {
    let text = "registry = 'https://mcp.example/base/'\n";
    assert_eq!(parse("h.toml", text).registry.as_deref(), Some("https://mcp.example/base"));
    let kept = ConfigLoader::new().keep_references(true).parse("h.toml", text).unwrap();
    assert_eq!(kept.registry.as_deref(), Some("https://mcp.example/base"));
    assert!(ConfigLoader::new().parse("h.toml", "registry = 'http://127.0.0.1:1'").is_ok());
    for wrong in ["'http://mcp.example'", "'mcp.example'", "3", "'ftp://mcp.example'"] {
        let found = errors("h.toml", &format!("registry = {wrong}\n"));
        assert!(found.len() == 1 && found[0].contains("registry"), "{found:?}");
    }
}

#[test]
fn the_console_listens_on_this_machine_alone_or_nowhere() {
    let listen = |address: &str| Some(ConsoleConfig::Listen(address.parse().unwrap()));
    for (text, expected) in [
        ("[console]\nlisten = '127.0.0.1:80'", listen("127.0.0.1:80")),
        ("[console]\nlisten = 7339", listen("127.0.0.1:7339")),
        ("[console]\nlisten = '[::1]:0'", listen("[::1]:0")),
        ("[console]\nlisten = 'off'", Some(ConsoleConfig::Off)),
        ("[console]\nlisten = false", Some(ConsoleConfig::Off)),
        ("[console]", None),
        ("", None),
    ] {
        assert_eq!(parse("h.toml", text).console, expected, "{text}");
    }
    let expected = format!("h.toml:2:10: `console.listen`: expected {CONSOLE_FORM}");
    assert_eq!(errors("h.toml", "[console]\nlisten = '0.0.0.0:7338'"), [expected]);
}

/// Models keep their order, keys are looked up, and no mistake shows a value.
#[test]
fn models_and_what_servers_may_spend_are_read() {
    let text = "[models.small]\nprovider = 'openai'\napi_key = '${TOKEN}'\nscores = { cost = 0.9 }\n
        [models.able]\nprovider = 'scripted'\nreplies = ['a']\n[models.off]\nprovider = 'ollama'\nenabled = false\n
        [sampling]\nreview_timeout = '1m'\n[sampling.servers.files]\ntokens = 100\n
        [sampling.every_server]\nunlimited = true";
    let models = parse("h.toml", text).models;
    let names: Vec<&str> = models.models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["small", "able"]);
    assert_eq!(models.servers[0].1.tokens, Some(100));
    assert!(models.every_server.is_some() && models.review_timeout == Some(Duration::from_secs(60)));
    assert!(Sampler::from_config(models).is_some());
    for (text, field) in [
        ("[models.a]\nprovider = 'hunter2'", "models.a.provider"),
        ("[models.a]\nprovider = 'openai'\nretries = 'hunter2'", "models.a.retries"),
        ("[models.a]\nprovider = 'openai'\nkey = 'hunter2'", "models.a.key"),
        ("[models.a]\nprovider = 'openai'\nscores = { cost = 7 }", "models.a.scores.cost"),
        ("[models]\na = 'hunter2'", "models.a"),
        ("[models.a]\nmodel = 'x'", "models.a"),
        ("[sampling.servers.a]\ntokens = 'hunter2'", "sampling.servers.a.tokens"),
        ("[sampling.servers.a]\ncalls = 1", "sampling.servers.a"),
        ("[sampling]\ntokens = 1", "sampling.tokens"),
    ] {
        let errors = errors("h.toml", text);
        assert!(errors.len() == 1 && errors[0].contains(&format!("`{field}`")), "{errors:?}");
        assert!(!errors[0].contains("hunter2"), "{errors:?}");
    }
}

/// One mistake to a line, each with its place, its server, its setting and what was expected.
#[test]
fn mistakes_in_our_format_are_named() {
    for (text, expected) in [
        (
            "[servers.a]\ncomand = 'x'",
            "h.toml:2:1: unknown key `comand` of server `a`; did you mean `command`?",
        ),
        ("[server.a]\ncommand = 'x'", "h.toml:1:2: unknown key `server`; did you mean `servers`?"),
        (
            "[endpoint]\nlisten = 'x'",
            "h.toml:2:10: `endpoint.listen`: expected an address and a port such as \"127.0.0.1:7337\"",
        ),
        (
            "[endpoint]\nport = 1",
            "h.toml:2:1: unknown key `endpoint.port`; known keys: listen, start_wait, callers, allowed_hosts, allowed_origins",
        ),
        ("[servers]\na = 1", "h.toml:2:5: server `a`: expected a table, found a number"),
        ("servers = 1", "h.toml:1:11: `servers`: expected a table, found a number"),
        ("[servers.a]\nargs = ['x']", "h.toml:1:10: server `a` has neither `command` nor `url`"),
        (
            "[servers.a]\ncommand = 1",
            "h.toml:2:11: `command` of server `a`: expected a string or an array of strings, found a number",
        ),
        ("[servers.a]\ncommand = ''", "h.toml:2:11: `command` of server `a`: expected the name of a program"),
        (
            "[servers.a]\ncommand = []",
            "h.toml:2:11: `command` of server `a`: expected the name of a program, then its arguments",
        ),
        (
            "[servers.a]\ncommand = 'x | y'",
            "h.toml:2:11: `command` of server `a`: expected one program and its arguments (for pipes and the like, write `sh -c '…'`)",
        ),
        (
            "[servers.a]\ncommand = 'x'\nargs = 'y'",
            "h.toml:3:8: `args` of server `a`: expected an array, found a string",
        ),
        (
            "[servers.a]\ncommand = 'x'\nargs = ['y',\n []]",
            "h.toml:4:2: `args[1]` of server `a`: expected a string, found an array",
        ),
        (
            "[servers.a]\ncommand = 'x'\nurl = 'https://y'",
            "h.toml:3:1: server `a` has `command` and `url`, which exclude each other",
        ),
        (
            "[servers.a]\ncommand = 'x'\ntransport = 'http'",
            "h.toml:2:1: server `a` has `transport` = `http` and `command`, which exclude each other",
        ),
        (
            "[servers.a]\nurl = 'https://y'\nenv = {A='b'}",
            "h.toml:3:1: server `a` has `url` and `env`, which exclude each other",
        ),
        (
            "[servers.a]\nurl = 'https://y'\ntransport = 'htp'",
            "h.toml:3:13: `transport` of server `a`: expected `stdio`, `http`, `streamable-http` or `sse`; did you mean `http`?",
        ),
        (
            "[servers.a]\nurl = 'y.example/mcp'",
            "h.toml:2:7: `url` of server `a`: expected a URL that begins with `http://` or `https://`; it lacks `https://`",
        ),
        (
            "[servers.a]\nurl = 'ftp://y'",
            "h.toml:2:7: `url` of server `a`: expected a URL that begins with `http://` or `https://`",
        ),
        (
            "[servers.a]\nurl = 'https://y'\nheaders = {'a b' = 'x'}",
            "h.toml:3:12: `headers.a b` of server `a`: expected the name of a header (letters, digits and `-`)",
        ),
        (
            "[servers.a]\nurl = 'https://y'\nheaders = {a = \"x\\ny\"}",
            "h.toml:3:16: `headers.a` of server `a`: expected a value without line breaks and control characters",
        ),
        (
            "[servers.a]\nurl = 'https://y'\nheaders = {a = '1', A = '2'}",
            "h.toml:3:21: `headers.A` of server `a` is set a second time; the first is in line 3",
        ),
        (
            "[servers.a]\ncommand = 'x'\nenv = {'A=B' = 'c'}",
            "h.toml:3:8: `env.A=B` of server `a`: expected a name without `=` and white space",
        ),
        (
            "[servers.a]\ncommand = 'x'\nenv = {A = ['c']}",
            "h.toml:3:12: `env.A` of server `a`: expected a string, found an array",
        ),
        (
            "[servers.a]\ncommand = 'x'\nconnect_timeout = 0",
            "h.toml:3:19: `connect_timeout` of server `a`: expected a time above zero such as \"500ms\", \"30s\", \"2m\" or \"1h\"",
        ),
        (
            "[servers.a]\ncommand = 'x'\nrequest_timeout = 1979-05-27",
            "h.toml:3:19: `request_timeout` of server `a`: expected a number or a string such as \"30s\", found a date",
        ),
        (
            "[servers.a]\ncommand = 'x'\nera = 'moder'",
            "h.toml:3:7: `era` of server `a`: expected \"legacy\", \"modern\" or \"auto\"; did you mean `modern`?",
        ),
        (
            "[servers.a]\ncommand = 'x'\nenabled = 'no'",
            "h.toml:3:11: `enabled` of server `a`: expected true or false, found a string",
        ),
        (
            "[servers.a]\ncommand = 'x'\nenabled = true\ndisabled = true",
            "h.toml:1:10: server `a` has `enabled` = true and `disabled` = true, which exclude each other",
        ),
        (
            "[servers.a]\ncommand = 'x'\ntools = {included = []}",
            "h.toml:3:10: unknown key `tools.included` of server `a`; did you mean `include`?",
        ),
        (
            "[servers.a]\ncommand = 'x'\ntools = []",
            "h.toml:3:9: `tools` of server `a`: expected a table, found an array",
        ),
        (
            "[servers.a]\nbuiltin = 'x'\ncwd = '/'",
            "h.toml:3:1: server `a` has `builtin` and `cwd`, which exclude each other",
        ),
        (
            "[servers.a]\ncommand = 'x ${NONE}'",
            "h.toml:2:11: `command` of server `a`: the environment variable `NONE` is not set, and no default is given",
        ),
        (
            "[servers.a]\ncommand = 'x'\nenv.KEY = '${NONE}'",
            "h.toml:3:11: `env.KEY` of server `a`: the environment variable `NONE` is not set, and no default is given",
        ),
        (
            "[servers.a]\nurl = '${NONE}'",
            "h.toml:2:7: `url` of server `a`: the environment variable `NONE` is not set, and no default is given",
        ),
        (
            "[servers.a]\ncommand = 'x'\nargs = ['${oh no}']",
            "h.toml:3:9: `args[0]` of server `a`: expected the name of a variable, `env:NAME`, `secret:NAME`, `file:PATH`, `input:ID`, `userHome` or `workspaceFolder` in the reference that begins with `${oh no}`",
        ),
        (
            "[servers.a]\ncommand = 'x'\nargs = ['${input:gone}']",
            "h.toml:3:9: `args[0]` of server `a`: `${input:gone}` needs interactive input; set the environment variable `HOSPES_INPUT_GONE` instead",
        ),
        (
            "[servers.a]\ncommand = 'x'\nenv_file = '/none/such'",
            "h.toml:3:12: `env_file` of server `a`: cannot read /none/such",
        ),
        ("[servers.a\n", "h.toml:1:11: not valid TOML: unclosed table, expected `]`"),
        (
            "[servers.\"\"]\ncommand = 'x'",
            "h.toml:1:10: server ``: expected a name of 1 to 128 bytes without control characters",
        ),
        (
            "[servers.a]\ncommand = 'x'\npins = 'first_use'",
            "h.toml:3:8: `pins` of server `a`: expected \"ask\", \"first-use\" or \"off\"; did you mean `first-use`?",
        ),
        (
            "[servers.a]\ncommand = 'x'\ncheck_arguments = 'strickt'",
            "h.toml:3:19: `check_arguments` of server `a`: expected \"strict\", \"lax\" or \"off\"; did you mean `strict`?",
        ),
        (
            "[servers.a]\ncommand = 'x'\nmax_connections = 0",
            "h.toml:3:19: `max_connections` of server `a`: expected a whole number above zero",
        ),
        (
            "[servers.a]\nurl = 'https://e.com'\naccount = 'peruser'",
            "h.toml:3:11: `account` of server `a`: expected `shared` or `per-user`; did you mean `per-user`?",
        ),
        (
            "[servers.a]\nurl = 'https://e.com'\nheaders = { authorization = 'x' }\naccount = 'per-user'",
            "h.toml:4:1: server `a` has `account` = `per-user` and the header `Authorization`, which exclude each other",
        ),
        (
            "[servers.a]\nurl = 'https://e.com'\nclient_secret = 's3cret'",
            "h.toml:3:1: `client_id` of server `a`: expected a string, because `client_secret` is set",
        ),
        (
            "[servers.a]\nurl = 'https://e.com'\nclient_id = 'x'\nclient_issuer = 'e.com'",
            "h.toml:4:17: `client_issuer` of server `a`: expected the issuer URL of the authorization server",
        ),
        (
            "[servers.a]\nurl = 'https://e.com'\nclient_id = ''",
            "h.toml:3:13: `client_id` of server `a`: expected a non-empty string",
        ),
        (
            "[servers.a]\nurl = 'https://e.com'\nheaders = { authorization = 'x' }\nclient_id = 'x'",
            "h.toml:4:1: server `a` has `client_id` and the header `Authorization`, which exclude each other",
        ),
        (
            "[servers.a]\ncommand = 'x'\nclient_id = 'x'",
            "h.toml:3:1: server `a` has `command` and `client_id`, which exclude each other",
        ),
        (
            "[accounts]\nlink_lifetime = '10m'",
            "h.toml:2:17: `accounts.link_lifetime`: expected a time of at most \"5m\"",
        ),
        (
            "[audit]\nkeep_days = 0",
            "h.toml:2:13: `audit.keep_days`: expected a whole number of days from 1 to 36525",
        ),
        ("[audit]\nkeep_day = 3", "h.toml:2:1: unknown key `audit.keep_day`; did you mean `keep_days`?"),
        (
            "[accounts]\nmax_user = 3",
            "h.toml:2:1: unknown key `accounts.max_user`; did you mean `max_users`?",
        ),
        (
            "[servers.a]\ncommand = 'x'\naccount = 'per-user'",
            "h.toml:3:1: server `a` has `command` and `account`, which exclude each other",
        ),
        (
            "[defaults]\nhealth_check = 0",
            "h.toml:2:16: `defaults.health_check`: expected a time above zero such as \"30s\" or \"2m\", or false for never",
        ),
        (
            "[defaults]\nconnect_timeout = 'soon'",
            "h.toml:2:19: `defaults.connect_timeout`: expected a time above zero such as \"500ms\", \"30s\", \"2m\" or \"1h\"",
        ),
    ] {
        assert_eq!(errors("h.toml", text), [expected], "{text}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let errors = errors(
        "h.toml",
        "[endpoint]\nlisten = true\n[servers.a]\ncommand = '${A} ${B}'\nargz = []\n[servers.b]\nurl = 'x'\n",
    );
    assert_eq!(errors.len(), 5, "{errors:#?}");
    let lines: Vec<_> = errors.iter().map(|error| error.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["2", "4", "4", "5", "7"]);
}

#[test]
fn keeping_going_leaves_the_good_servers() {
    let text = "[servers]\ngood = 'x'\nbad = 'x ${NONE}'\n";
    let config = loader().keep_going(true).parse("h.toml", text).unwrap();
    assert_eq!(names(&config), ["good"]);
    assert_eq!(config.rejected.len(), 1);
    let rejected = &config.rejected[0];
    assert_eq!((rejected.name.as_str(), rejected.source.line()), ("bad", 3));
    assert!(rejected.errors.to_string().contains("`NONE` is not set"), "{}", rejected.errors);
    // A mistake that is nobody's in particular still stops everything.
    assert!(loader().keep_going(true).parse("h.toml", "[endpoint]\nlisten = 'x'").is_err());
}

#[test]
fn a_disabled_server_needs_no_variables() {
    for (file, text) in [
        ("h.toml", "[servers.a]\nurl = '${NONE}'\nheaders.X = '${NONE}'\nenabled = false"),
        ("h.json", r#"{"mcpServers": {"a": {"command": "${NONE}", "envFile": "/none", "disabled": true}}}"#),
    ] {
        let config = parse(file, text);
        assert!(config.server("a").unwrap().disabled);
    }
}

#[test]
fn files_are_merged_and_a_name_may_stand_in_one_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let own = file("own.toml", "[endpoint]\nlisten = 1\nallowed_hosts = ['a', 'b']\n[servers]\na = 'x'\n");
    let json = file("other.json", r#"{"mcpServers": {"b": {"command": "y"}}}"#);
    let hosts = file("hosts.toml", "[endpoint]\nlisten = 1\nallowed_hosts = ['b', 'c']\n");
    let config = loader().load([&own, &json, &hosts]).unwrap();
    assert_eq!(names(&config), ["a", "b"]);
    assert_eq!(config.allowed_hosts, ["a", "b", "c"]);

    let again = file("again.json", r#"{"servers": {"a": {"command": "${NONE}"}}}"#);
    let port = file("port.toml", "endpoint.listen = 2\n");
    let errors = loader().keep_going(true).load([&own, &again, &port]).unwrap_err().to_string();
    let path = |path: &Path| path.display().to_string();
    assert_eq!(
        errors,
        format!(
            "{again}:1:14: server `a` is already described in {own}:5:1; rename or remove one\n\
             {port}:1:10: `endpoint.listen` is already set differently in {own}:2:1",
            again = path(&again),
            own = path(&own),
            port = path(&port),
        )
    );
    assert!(loader().load::<&Path>([]).unwrap().servers.is_empty());
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.toml");
    let latin = folder.path().join("latin.toml");
    std::fs::write(&latin, b"# \xc3\xa9\n# \xe9").unwrap();
    let errors = loader().load([&missing, &latin]).unwrap_err();
    assert_eq!(errors.iter().count(), 2);
    let text = errors.to_string();
    assert!(text.contains("missing.toml: cannot be read: No such file"), "{text}");
    assert!(text.contains("latin.toml:2:3: the byte here is not UTF-8; save the file as UTF-8"), "{text}");
    std::fs::write(&latin, b"\xff\xfea\0").unwrap();
    let text = loader().load([&latin]).unwrap_err().to_string();
    assert!(text.ends_with(
        "latin.toml:1:1: the byte here is not UTF-8; the file looks like UTF-16: save it as UTF-8"
    ));
    // A single mistake leaves its cause to whoever prints the chain.
    let single = loader().load([&missing]).unwrap_err();
    assert!(single.to_string().ends_with("missing.toml: cannot be read"));
    assert!(std::error::Error::source(&single).is_some());
}

#[test]
fn what_no_request_could_name_is_no_pattern() {
    let text = "[endpoint]\nallowed_hosts = ['mcp.example.org', 'http://x/']\nallowed_origins = ['nope']\n";
    assert_eq!(
        errors("h.toml", text),
        [
            format!("h.toml:2:37: `endpoint.allowed_hosts[1]`: expected {HOST_FORM}"),
            format!("h.toml:3:20: `endpoint.allowed_origins[0]`: expected {ORIGIN_FORM}"),
        ]
    );
    for host in ["x", "x.org:8443", "[::1]:80", "10.0.0.1", "*"] {
        assert!(is_host(host), "{host}");
    }
    for none in ["", "http://x", "x/", "x:y", "a b", "x.org/mcp", "*.x.org"] {
        assert!(!is_host(none), "{none}");
    }
    for origin in ["https://x.org", "http://x:8080", "https://x:*", "vscode-webview://x", "null", "*"] {
        assert!(is_origin(origin), "{origin}");
    }
    for none in
        ["", "x.org", "https://x.org/", "https://", "://x", "https://*", "1https://x", "https://x:*:*"]
    {
        assert!(!is_origin(none), "{none}");
    }
}

/// A secret in every place that can hold one, right and wrong: nothing that can be printed repeats it.
#[test]
fn no_secret_is_ever_printed() {
    let secret = "hunter2";
    let good = format!(
        r#"{{"mcpServers": {{
            "a": {{"command": "x", "args": ["--token", "{secret}", "--api-key={secret}", "${{N:-{secret}}}"], "env": {{"A": "{secret}"}}}},
            "b": {{"url": "https://{secret}:{secret}@e.com/?k={secret}#{secret}", "headers": {{"X": "{secret}"}}}}
        }}}}"#
    );
    let config = parse("m.json", &good);
    let printed: Vec<String> = config.servers.iter().map(|server| server.transport.to_string()).collect();
    let printed = format!("{config:?} {config:#?} {printed:?}");
    assert!(!printed.contains(secret), "{printed}");

    for bad in [
        format!("[servers.a]\nurl = '{secret}'"),
        format!("[servers.a]\nurl = 'https://e.com'\nheaders.X = \"{secret}\\n\""),
        format!("[servers.a]\ncommand = 'x'\nenv = '{secret}'"),
        format!("[servers.a]\ncommand = 'x ${{NONE{secret}'"),
        format!("[servers.a]\ncommand = 'x ${{NONE:-${{{secret}}}}}'"),
        format!("[servers.a]\ncommand = 'x'\nenabled = '{secret}'"),
        format!("[servers.a]\ncommand = 'x'\nera = '{secret}'"),
        format!("[servers.a]\nurl = 'https://e.com'\ntransport = '{secret}'"),
        format!("[servers.a]\nurl = {secret}"),
    ] {
        let errors = loader().parse("h.toml", &bad).unwrap_err();
        let printed = format!("{errors} {errors:?}");
        assert!(!printed.contains(secret), "{printed}");
    }
    for bad in [
        format!("extensions: {secret}"),
        format!("extensions: {{a: {{type: stdio, cmd: x, envs: {secret}}}}}"),
        format!("a: \"{secret}\\q\""),
        format!("a: *{secret}"),
        format!("a: !{secret}!x y"),
        format!("a: 'b' {secret}"),
        format!("a:\n- {secret}\n {secret}: b\n{secret}"),
        format!("%{secret} x\na: b"),
    ] {
        let errors = loader().parse("h.yaml", &bad).unwrap_err();
        let printed = format!("{errors} {errors:?}");
        assert!(!printed.contains(secret), "{printed}");
    }
    let folder = tempfile::tempdir().unwrap();
    let env_file = folder.path().join("env");
    std::fs::write(&env_file, format!("A=1\n{secret}\n")).unwrap();
    let text = format!("[servers.a]\ncommand = 'x'\nenv_file = '{}'", env_file.display());
    let message = errors("h.toml", &text).concat();
    assert!(message.contains("`NAME=value` in line 2") && !message.contains(secret), "{message}");
}

#[test]
fn a_fleet_needs_what_all_nodes_share() {
    let parse = |text: &str| {
        let loader = ConfigLoader::new().variables(|name| (name == "KEY").then(|| "k".repeat(32)));
        loader.parse("h.toml", &format!("[fleet]\n{text}"))
    };
    let all = "postgres = 'postgres://u:hidden@h/d'\nredis = 'rediss://:hidden@h'\n";
    let whole = |rest: &str| parse(&format!("{all}{rest}"));
    let fleet = whole("secret = '${KEY}'\nnode_listen = '10.0.0.7:7400'").unwrap().fleet.unwrap();
    assert_eq!(fleet.secrets.len(), 1);
    assert_eq!(fleet.node_listen, "10.0.0.7:7400".parse().unwrap());
    assert_eq!(fleet.node_address, None);
    assert!(!format!("{fleet:?}").contains("hidden"));
    let two = whole("secret = ['${KEY}', '0123456789abcdef0123456789abcdef']\nnode_listen = 7400").unwrap();
    assert_eq!(two.fleet.unwrap().secrets.len(), 2);
    let named =
        whole("secret = '${KEY}'\nnode_listen = '0.0.0.0:7400'\nnode_address = 'node-1:7400'").unwrap();
    assert_eq!(named.fleet.unwrap().node_address.as_deref(), Some("node-1:7400"));
    for (text, said) in [
        (whole("secret = 'too short'\nnode_listen = 7400"), "at least 32 random characters"),
        (whole("secret = []\nnode_listen = 7400"), "1 to 3 secrets"),
        (whole("node_listen = 7400"), "`secret`: all nodes share a secret"),
        (whole("secret = '${KEY}'"), "`node_listen`: all nodes share"),
        (whole("secret = '${KEY}'\nnode_listen = '0.0.0.0:7400'"), "`node_address`"),
        (
            whole("secret = '${KEY}'\nnode_listen = 7400\nnode_address = 'node-1'"),
            "a name or address and a port",
        ),
        (
            whole("secret = '${KEY}'\nnode_listen = 7400\nredis_cert = 'c.pem'"),
            "`redis_key`: a certificate and its private key",
        ),
        (
            whole("secret = '${KEY}'\nnode_listen = 7400\npostgres_key = 'k.pem'"),
            "`postgres_cert`: a certificate and its private key",
        ),
        (parse("postgres = 'mysql://u:hidden@h'"), "postgres:// or postgresql://"),
        (parse("redis = 'http://:hidden@h'"), "redis:// or rediss://"),
        (whole("secret = '${KEY}'\nnode_listen = 7400\nnodes = 3"), "unknown key `fleet.nodes`"),
    ] {
        let text = match text {
            Ok(config) => config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        };
        assert!(text.contains(said) && !text.contains("hidden"), "{said}: {text}");
    }
}

#[test]
fn metrics_are_served_at_loopback_unless_another_address_is_written() {
    let parse = |text: &str| ConfigLoader::new().parse("h.toml", text).unwrap().metrics_listen;
    assert_eq!(parse(""), None);
    assert_eq!(parse("[metrics]\nlisten = 9464"), Some("127.0.0.1:9464".parse().unwrap()));
    assert_eq!(parse("[metrics]\nlisten = '0.0.0.0:9464'"), Some("0.0.0.0:9464".parse().unwrap()));
}
