//! `hospes up`: serves all servers behind one endpoint.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hospes::transport::http_server::{DEFAULT_PATH, Endpoint, HttpServer};
use hospes_console::ConsoleServer;
use hospes_host::config::{CONSOLE_FORM, ConsoleConfig, HostConfig, parse_console};
use hospes_host::pins::REVIEW_INSTRUCTION;
use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use hospes_host::{Gateway, Host, RequestStateConfig, ServerChanges, UpstreamAccounts};
use hospes_policy::Preset;

use super::serve::{listen, listen_error};
use super::{InterruptListener, console, new_servers, policy, waiting};
use crate::args::{HostOptions, UpArgs};
use crate::attach::{self, AttachSocket};
use crate::authorization::{authorization, users_can_sign_in};
use crate::callers;
use crate::config_reload::ConfigReload;
use crate::credentials;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::notifications;
use crate::output::{
    BOLD, CYAN, CliOutput, DIM, GREEN, RED, YELLOW, first_line, is_detail, paint, printable, talk_width,
    wrap_text,
};
use crate::paths;
use crate::readiness;
use crate::settings::{LoadedConfig, build_host, check_allowed, default_servers, load};

/// Default address of the endpoint.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7337);
/// Default time calls may continue after the host is asked to end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

pub(crate) async fn run(args: UpArgs, output: CliOutput) -> CliResult {
    let reload = ConfigReload::new(&args.host);
    let LoadedConfig { mut config, files } = load(&args.host.files)?;
    check_allowed(&args.allow_host, &args.allow_origin)?;
    let hosts: Vec<String> = config.allowed_hosts.iter().chain(&args.allow_host).cloned().collect();
    let origins: Vec<String> = config.allowed_origins.iter().chain(&args.allow_origin).cloned().collect();
    let address = match &args.listen {
        Some(text) => listen("--listen", text)?,
        None => config.listen.unwrap_or(DEFAULT_LISTEN),
    };
    let place =
        match &args.console {
            Some(text) => Some(parse_console(text).ok_or_else(|| {
                CliError::usage(format!("--console: expected {CONSOLE_FORM}, got `{text}`"))
            })?),
            None => config.console,
        };
    if files.is_empty() {
        config.servers = default_servers();
    }

    let decisions_from = config.decisions_from.unwrap_or_default();
    // If an application cannot show forms, the console can.
    config.console_questions.get_or_insert(!matches!(place, Some(ConsoleConfig::Off)));

    // The address first: if it is taken, no server needs to be started.
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| listen_error(address, "--listen", &error))?;
    let bound = listener.local_addr().map_err(|error| listen_error(address, "--listen", &error))?;
    let will_be = config.servers.iter().any(|server| server.is_per_user() && !server.disabled);
    let kept = credentials::open_for_host(will_be, output)?;
    let said = &config.accounts;
    let mut authorization =
        authorization(config.auth.as_ref(), bound, DEFAULT_PATH, kept.clone(), said, output)?;
    users_can_sign_in(&config, authorization.as_ref())?;
    // The accounts that the sign-in pages change, so that the host sees newly connected ones.
    let accounts =
        authorization.as_mut().map_or_else(|| kept.map(UpstreamAccounts::new), |auth| auth.accounts.take());
    let hosts: Vec<String> =
        hosts.into_iter().chain(authorization.as_ref().map(|auth| auth.host.clone())).collect();
    let mut ending = InterruptListener::new()?;
    let callers_rule = config.callers;
    let notifies = config.desktop_notifications.unwrap_or(true);
    let begun = jiff::Timestamp::now();
    let host = start(&args.host, config, accounts, output).await?;
    let Some(ready) = ending.unless(require(&host)).await else {
        stop(host, &mut ending, output).await;
        return Ok(());
    };
    ready?;
    let rounds = request_state(&host)?;
    let build = |gateway, path: &str, sse| endpoint(gateway, rounds.clone(), (path, sse), &hosts, &origins);
    let server = HttpServer::from_listener(listener, build(host.gateway(), DEFAULT_PATH, true))
        .map_err(|error| CliError::usage("cannot serve").with_cause(&error))?
        .shutdown_timeout(args.shutdown_timeout.unwrap_or(SHUTDOWN_GRACE));
    // Each server also has an endpoint of its own, for applications that confuse the tools of two servers.
    let endpoints = server.others();
    let serve_alone = |name: &str, label: &str| {
        if let Some(gateway) = host.gateway_of(name) {
            endpoints.insert(build(gateway, &format!("{DEFAULT_PATH}/{label}"), false));
        }
    };
    host.labels().iter().for_each(|(name, label)| serve_alone(name, label));
    // From the bound address, because a wildcard address is not loopback. Programs of this machine use `usable`.
    let (mut url, mut usable) = (format!("http://{bound}{DEFAULT_PATH}"), server.url());
    let may_attach = attach::is_allowed(authorization.is_some(), callers_rule);
    let own = match authorization {
        Some(_) => None,
        None => callers::caller_check(callers_rule, bound, output)?,
    };
    let token = own.as_ref().map(|own| own.token.clone());
    // Held until the end, because dropping it removes the note.
    let noted =
        paths::write_host_note(&usable, authorization.as_ref().map(|auth| auth.token.clone()).or(token));
    // Without it, `hospes stdio` runs a host of its own, so a failure is not an error.
    let attaching = may_attach.then(AttachSocket::bind).and_then(|bound| {
        bound.inspect_err(|error| tracing::warn!(%error, "programs cannot attach to this host")).ok()
    });
    let mut by = None;
    let pasted = own.as_ref().filter(|own| own.is_wanted).map(|own| own.token.clone());
    let server = match (authorization, own) {
        (None, None) => server,
        (None, Some(own)) => server.middleware(own.front),
        (Some(authorization), _) => {
            (url, by) = (authorization.url, Some(authorization.by));
            usable.clone_from(&url);
            server.middleware(authorization.front)
        }
    };
    let console = console::serve(&host, place, decisions_from, output).await?;
    print_startup(
        output,
        (&url, &usable),
        (by.as_deref(), pasted.as_deref()),
        &files,
        &host,
        console.as_ref(),
    );
    // Servers may still be starting: calls to them wait.
    readiness::announce_ready();

    let last_calls = || output.say(paint(DIM, "waiting for running calls … (Ctrl-C again aborts them)"));
    let served_alone = |changes: &ServerChanges| {
        let labels = host.labels();
        let path = |label: &String| format!("{DEFAULT_PATH}/{label}");
        let stays: Vec<String> = labels.iter().map(|(_, label)| path(label)).collect();
        let gone = endpoints.paths().into_iter().filter(|path| !stays.contains(path));
        for path in gone {
            endpoints.remove(&path);
        }
        let is_new = |name: &String| changes.added.contains(name) || changes.replaced.contains(name);
        labels.iter().filter(|(name, _)| is_new(name)).for_each(|(name, label)| serve_alone(name, label));
    };
    // The reports never end by themselves; they are dropped when serving ends.
    let serve = async |shutdown| {
        tokio::select! {
            served = server.serve_until(shutdown) => served,
            never = attached(attaching.as_ref(), &host, rounds.as_ref()) => match never {},
            never = report(&host, output) => match never {},
            never = reload.follow(&host, &args.host, served_alone, output) => match never {},
            never = waiting::report(&host, output) => match never {},
            never = new_servers::report(&host, begun, output) => match never {},
            never = policy::report(&host, output) => match never {},
            never = notifications::show(&host, notifies, console.as_ref()) => match never {},
        }
    };
    let served = ending.serve(serve, last_calls).await;
    readiness::announce_stopping();
    drop((console, attaching));
    stop(host, &mut ending, output).await;
    // Last, so that `hospes status` finds the host for as long as it runs.
    drop(noted);
    served.map_err(|error| CliError::usage("cannot serve").with_cause(&error))
}

/// Serves attached programs, if there is a socket. Never returns.
async fn attached(
    socket: Option<&AttachSocket>,
    host: &Host,
    rounds: Option<&RequestStateConfig>,
) -> std::convert::Infallible {
    match socket {
        Some(socket) => socket.serve(host, rounds).await,
        None => std::future::pending().await,
    }
}

/// Starts the host.
pub(crate) async fn start(
    options: &HostOptions,
    config: HostConfig,
    accounts: Option<UpstreamAccounts>,
    output: CliOutput,
) -> CliResult<Host> {
    let host = build_host(options, config, accounts, output).await?.start();
    let host = host.map_err(|error| {
        CliError::usage("cannot start").with_cause(&error).hint("rename one of them in the configuration")
    })?;
    // New entries are as useful for investigating a damaged audit log as the old ones, so recording goes on.
    if let Some(guard) = host.guard().cloned() {
        // In a task of its own: verifying a long log takes a while, and calls are served in the meantime.
        tokio::spawn(async move {
            let Some(problem) = guard.examine_record().await else { return };
            output.warn(problem);
            output
                .hint("recording continues after a marker entry; keep a copy, and run `hospes audit verify`");
        });
    }
    Ok(host)
}

/// Stops the host and its servers. If the program is asked again to end, servers that are still running are killed.
pub(crate) async fn stop(host: Host, ending: &mut InterruptListener, output: CliOutput) {
    output.say(paint(DIM, "stopping the servers …"));
    // Pending approvals are withdrawn first, while the audit log can still record it.
    if let Some(guard) = host.guard() {
        guard.approvals().shut_down().await;
    }
    // Cloned before `stop` consumes the host, because the end of the servers is recorded as well.
    let audit = host.guard().and_then(|guard| guard.audit()).cloned();
    let stopped = ending.unless(host.stop()).await;
    // A process that is still reading the log must not keep its last entries from being written.
    if let Some(audit) = audit
        && let Err(error) = audit.flush().await
    {
        output.warn(format_args!("the last entries of the audit log may be missing: {error}"));
    }
    output.say(paint(
        DIM,
        if stopped.is_some() { "stopped" } else { "stopped without waiting for the servers" },
    ));
}

/// Waits for the servers that the configuration marks as required.
pub(crate) async fn require(host: &Host) -> CliResult {
    host.wait_required().await.map_err(|server| {
        let problem = server.problem.unwrap_or_default();
        let failure = CliError::new(
            FailureCode::Unreachable,
            format!("the server `{}` is required: {problem}", server.name),
        );
        match server.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

/// Returns the sealing of the request state of rounds.
pub(crate) fn request_state(host: &Host) -> CliResult<Option<RequestStateConfig>> {
    let wrong = |error| CliError::usage("cannot store the key that seals request state").with_cause(&error);
    host.request_state().map_err(wrong)
}

fn endpoint(
    gateway: Gateway,
    rounds: Option<RequestStateConfig>,
    (path, sse): (&str, bool),
    hosts: &[String],
    origins: &[String],
) -> Endpoint {
    let mut endpoint = Endpoint::builder(gateway).path(path).sse(sse);
    if let Some(rounds) = rounds {
        endpoint = endpoint.state_keys(rounds.keys).state_lifetime(rounds.lifetime);
    }
    let endpoint = hosts.iter().fold(endpoint, |endpoint, host| endpoint.allow_host(host));
    origins.iter().fold(endpoint, |endpoint, origin| endpoint.allow_origin(origin)).build()
}

/// Consequence of having no policy file, as `up` and `status` print it.
pub(crate) const NO_POLICY: &str = "none, so every call is allowed without approval";

/// Describes what a preset asks about, for one line.
pub(crate) fn preset_line(preset: Preset) -> String {
    let asks = match preset {
        Preset::Cautious => "asks about every effect",
        Preset::Open => "asks about effects with a value from a text of others",
        _ => "asks about effects that a text of others may have caused",
    };
    format!("preset {preset}: {asks}")
}

fn print_startup(
    output: CliOutput,
    (url, usable): (&str, &str),
    (by, token): (Option<&str>, Option<&str>),
    files: &[std::path::PathBuf],
    host: &Host,
    console: Option<&ConsoleServer>,
) {
    if output.json {
        let servers: Vec<String> = host.status().servers.into_iter().map(|server| server.name).collect();
        let mut value = serde_json::json!({ "endpoint": url, "servers": servers, "pid": std::process::id() });
        let left_out = host.status().left_out;
        if !left_out.is_empty() {
            value["leftOut"] = serde_json::json!(left_out);
        }
        if let Some(console) = console {
            value["console"] = console.link().url().into();
        }
        if let Some(token) = token {
            value["token"] = token.into();
        }
        output.value(&value);
    }
    let mut text = format!("\n  {} {}\n\n", paint(BOLD, "hospes"), paint(DIM, env!("CARGO_PKG_VERSION")));
    // Writing into a string cannot fail.
    let _ = writeln!(text, "  {}  {}\n", paint(DIM, "endpoint"), paint(CYAN, url));
    // With --json the link is part of the result.
    if let Some(console) = console.filter(|_| !output.json) {
        let link = console.link();
        let minutes = link.lifetime.as_secs() / 60;
        let good =
            paint(DIM, format!("valid once, for {minutes} minutes; `hospes console` opens a new link"));
        let _ =
            writeln!(text, "  {}   {}\n            {good}\n", paint(DIM, "console"), paint(CYAN, link.url()));
    }
    if let Some(by) = by {
        let shown = paint(DIM, format!("required; issued by {by}"));
        let _ = writeln!(text, "  {}  {shown}\n", paint(DIM, "tokens  "));
    }
    if files.is_empty() {
        let _ = writeln!(text, "  No configuration was found. Using the built-in servers:");
        let _ = writeln!(text, "  files in this folder (read only), time, and everything (for testing).");
        if let Some(file) = paths::new_config_path() {
            let shown = paths::display_path(&file);
            let _ = writeln!(
                text,
                "  {}\n",
                paint(
                    DIM,
                    format!("Add your own servers to {shown}, or pass any mcpServers file with --config.")
                )
            );
        }
    } else {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let _ = writeln!(text, "  {}  {}\n", paint(DIM, "servers "), paint(DIM, names.join(", ")));
    }
    let status = host.status();
    if let Some(preset) = status.preset {
        let _ = writeln!(text, "  {}    {}\n", paint(DIM, "guard "), preset_line(preset));
    }
    if status.without_policy {
        let _ = writeln!(text, "  {}    {NO_POLICY}", paint(YELLOW, "policy"));
        if let Some(file) = paths::policy_file() {
            let hint = format!("write rules to {}; changes take effect at once", paths::display_path(&file));
            let _ = writeln!(text, "            {}", paint(DIM, hint));
        }
        text.push('\n');
    }
    text.push_str(&client_snippets(usable, token.filter(|_| !output.json), files));
    let _ = write!(
        text,
        "\n  {}\n",
        paint(DIM, "Ctrl-C stops the host. `hospes status` shows the state of the servers.")
    );
    output.say(text);
}

/// Returns configuration snippets for a few applications.
fn client_snippets(url: &str, token: Option<&str>, files: &[std::path::PathBuf]) -> String {
    let text = |path: &Path| path.display().to_string();
    // The full path, because applications may start programs with a different `PATH`.
    let program = std::env::current_exe().map_or_else(|_| "hospes".to_owned(), |path| text(&path));
    let mut args = vec!["stdio".to_owned()];
    // An application starts it in another folder and without this environment.
    for file in files.iter().filter(|file| paths::default_config().as_ref() != Some(*file)) {
        args.extend([
            "--config".to_owned(),
            text(&std::path::absolute(file).unwrap_or_else(|_| file.clone())),
        ]);
    }
    let launch = serde_json::json!({ "mcpServers": { "hospes": { "command": program, "args": args } } });
    let with_token = |mut entry: serde_json::Value| {
        if let Some(token) = token {
            entry["headers"] = serde_json::json!({ "Authorization": format!("Bearer {token}") });
        }
        entry
    };
    let entry = with_token(serde_json::json!({ "type": "http", "url": url }));
    // A token in an argument is visible in the list of processes, so it goes into the file or a variable.
    let (claude, codex) = match token {
        None => (
            format!("claude mcp add --transport http hospes {url}"),
            format!("codex mcp add hospes --url {url}"),
        ),
        Some(_) => (
            serde_json::json!({ "mcpServers": { "hospes": entry } }).to_string(),
            format!("codex mcp add hospes --url {url} --bearer-token-env-var HOSPES_TOKEN"),
        ),
    };
    let rows = [
        ("Claude Code", claude),
        (
            "Cursor",
            serde_json::json!({ "mcpServers": { "hospes": with_token(serde_json::json!({ "url": url })) } })
                .to_string(),
        ),
        ("VS Code", serde_json::json!({ "servers": { "hospes": entry } }).to_string()),
        ("Codex", codex),
        ("by command", launch.to_string()),
    ];
    let mut text = String::from("  Paste into your application:\n");
    for (application, snippet) in rows {
        let _ = writeln!(text, "    {} {snippet}", paint(DIM, format!("{application:<12}")));
    }
    text
}

/// Reports status changes of the servers. Never returns.
async fn report(host: &Host, output: CliOutput) -> std::convert::Infallible {
    let mut known: HashMap<String, UpstreamStatus> = HashMap::new();
    let mut seen = 0;
    loop {
        for server in host.status().servers {
            if server.state == UpstreamState::Starting {
                continue;
            }
            if let Some(news) = status_change(known.get(&server.name), &server) {
                output.say(format_args!("  {}", line(&news, talk_width())));
                known.insert(server.name.clone(), server);
            }
        }
        seen = host.changed(seen).await;
    }
}

/// Returns the status to print, or `None` if nothing is new since the last one printed. A shorter wait, a repeated
/// failure and known warnings are not new.
fn status_change(before: Option<&UpstreamStatus>, now: &UpstreamStatus) -> Option<UpstreamStatus> {
    let Some(before) = before.filter(|before| is_same(before, now)) else { return Some(now.clone()) };
    let mut news = now.clone();
    news.warnings.retain(|warning| !before.warnings.contains(warning));
    (!news.warnings.is_empty()).then_some(news)
}

/// Returns true if two statuses of a server are equal apart from warnings.
fn is_same(before: &UpstreamStatus, now: &UpstreamStatus) -> bool {
    let counts = |server: &UpstreamStatus| (server.tools, server.prompts, server.resources, server.templates);
    // The first line only, because details such as the addresses tried differ between attempts.
    let outcome = |server: &UpstreamStatus| {
        server.problem.as_deref().and_then(|text| text.lines().next().map(str::to_owned))
    };
    before.state == now.state
        && (now.state != UpstreamState::Ready || counts(before) == counts(now))
        && (now.state == UpstreamState::Ready || outcome(before) == outcome(now))
}

/// Indentation of the messages below a server's name, in columns.
pub(crate) const MARGIN: usize = 6;

/// Formats one server on one line, followed by its problems in lines no longer than `width`.
pub(crate) fn line(server: &UpstreamStatus, width: Option<usize>) -> String {
    let (sign, style) = match server.state {
        UpstreamState::Ready => ("●", GREEN),
        UpstreamState::Starting => ("◌", YELLOW),
        UpstreamState::Withheld => ("◍", YELLOW),
        UpstreamState::Retrying => ("○", YELLOW),
        _ => ("✗", RED),
    };
    let mut text = format!("{} {:<16} ", paint(style, sign), printable(&server.name));
    match server.state {
        UpstreamState::Ready if server.users.is_some() => {
            let users = match server.users.unwrap_or_default() {
                1 => "1 user".to_owned(),
                users => format!("{users} users"),
            };
            let _ = write!(text, "an account for each user  {}", paint(DIM, users));
        }
        UpstreamState::Ready => {
            let counts = [
                (server.tools, "tool"),
                (server.prompts, "prompt"),
                (server.resources, "resource"),
                (server.templates, "template"),
            ];
            let counts: Vec<String> = counts
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
                .collect();
            let counts = if counts.is_empty() { "offers nothing".to_owned() } else { counts.join(", ") };
            let revision = server.revision.as_deref().unwrap_or_default();
            let who = server.implementation.as_deref().unwrap_or(&server.target);
            // Columns before the text: the margin, the sign, the name and the blanks between them.
            let before = 5 + server.name.chars().count().max(16) + counts.len() + revision.len() + 4;
            let room = width.map_or(40, |width| width.saturating_sub(before + 1).min(40));
            // A few letters of a name are not informative.
            let who = if room < 8 { String::new() } else { format!("  {}", first_line(who, room)) };
            if width.is_some_and(|width| before > width + 2) {
                // A long server name leaves no room beside it.
                let rest = wrap_text(&format!("{counts}  {revision}"), MARGIN, width);
                let _ = write!(text, "\n{}", paint(DIM, rest));
            } else {
                let _ = write!(text, "{counts}  {}", paint(DIM, format!("{revision}{who}")));
            }
        }
        UpstreamState::Starting => {
            let _ = write!(text, "starting  {}", paint(DIM, first_line(&server.target, 60)));
        }
        state => {
            let next =
                server.next_try_ms.map(|wait| format!(", again in {}", wait_text(wait))).unwrap_or_default();
            let _ = write!(text, "{}{next}", paint(style, state.as_str()));
            let problem = server.problem.iter().flat_map(|problem| problem.lines());
            for line in problem.filter(|line| !is_detail(line)) {
                let _ = write!(text, "\n{}", paint(DIM, wrap_text(&printable(line), MARGIN, width)));
            }
            if let Some(hint) = &server.hint {
                let hint = with_commands(hint, &server.name);
                let hint = wrap_text(&format!("hint: {}", printable(&hint)), MARGIN, width);
                let _ = write!(text, "\n{}", hint.replacen("hint", &paint(CYAN, "hint"), 1));
            }
        }
    }
    for (at, warning) in server.warnings.iter().enumerate() {
        // Printed once, even if several connections report it.
        if server.warnings[..at].contains(warning) {
            continue;
        }
        let warning = with_commands(warning, &server.name);
        let warning = wrap_text(&format!("warning: {}", printable(&warning)), MARGIN, width);
        let _ = write!(text, "\n{}", warning.replacen("warning", &paint(YELLOW, "warning"), 1));
    }
    text
}

/// Adds the equivalent commands to a host's message about a server that waits for review. The reader is a person, not a
/// model.
fn with_commands(text: &str, server: &str) -> String {
    let commands =
        format!("review with `hospes pins show {server}`, accept with `hospes pins accept {server}`");
    text.replace(REVIEW_INSTRUCTION, &commands)
}

fn wait_text(millis: u64) -> String {
    match millis {
        0..1000 => "a moment".to_owned(),
        1000..120_000 => format!("{} s", millis / 1000),
        _ => format!("{} min", millis / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_said_once() {
        let of = |state: &str, warnings: &[&str]| -> UpstreamStatus {
            serde_json::from_value(serde_json::json!({
                "name": "one", "target": "npx", "state": state, "tools": 1, "prompts": 0, "resources": 0, "templates": 0,
                "warnings": warnings,
            }))
            .unwrap()
        };
        let said = |before: &UpstreamStatus, now: &UpstreamStatus| {
            status_change(Some(before), now).map(|news| news.warnings)
        };
        let one = of("ready", &["a"]);
        assert_eq!(status_change(None, &one).map(|news| news.warnings), Some(vec!["a".to_owned()]));
        assert_eq!(said(&one, &one), None);
        assert_eq!(said(&one, &of("ready", &["a", "b"])), Some(vec!["b".to_owned()]), "the other alone");
        assert_eq!(said(&of("ready", &["a", "b"]), &one), None, "one that is over is no news");
        assert_eq!(said(&one, &of("retrying", &["a"])), Some(vec!["a".to_owned()]));
    }

    /// Offers of a server with a long name are printed on a line below it, and the terminal breaks no line.
    #[test]
    fn a_long_name_of_a_server_has_a_line_of_its_own() {
        let server = serde_json::json!({
            "name": "a-server-with-a-really-long-name", "target": "npx", "state": "ready", "revision": "2025-11-25",
            "tools": 36, "prompts": 5, "resources": 3, "templates": 1,
        });
        let server: UpstreamStatus = serde_json::from_value(server).unwrap();
        for width in 40..130 {
            let text = anstream::adapter::strip_str(&line(&server, Some(width))).to_string();
            for row in format!("  {text}").lines() {
                assert!(row.chars().count() <= width, "{width}: {row}");
            }
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                words.contains("36 tools, 5 prompts, 3 resources, 1 template 2025-11-25"),
                "{width}: {text}"
            );
        }
    }

    /// A long name of a server was broken anywhere.
    #[test]
    fn what_is_said_of_a_server_that_is_ready_is_one_line() {
        let server = serde_json::json!({
            "name": "everything", "target": "npx", "state": "ready", "revision": "2025-11-25",
            "implementation": "mcp-servers/everything 2.0.0", "tools": 13, "prompts": 4, "resources": 7, "templates": 2,
        });
        let server: UpstreamStatus = serde_json::from_value(server).unwrap();
        for width in 85..130 {
            let text = line(&server, Some(width));
            // Colours take no room.
            let seen = text.split('\u{1b}').enumerate();
            let seen = seen.map(|(part, text)| match part {
                0 => text,
                _ => text.split_once('m').map_or(text, |(_, text)| text),
            });
            let columns = 2 + seen.map(|text| text.chars().count()).sum::<usize>();
            assert!(columns <= width, "{columns} of {width}: {text}");
            assert!(width < 110 || text.contains("everything 2.0.0"), "{text}");
        }
    }
}
