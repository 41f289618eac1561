//! `hospes up`: serves all servers behind one endpoint.

mod auto_update;
mod config_reload;
mod endpoint_metrics;
mod endpoints;
mod events;
mod found_servers;
mod health_pages;
mod metrics_listener;
mod server_line;
mod startup_text;
mod status_reports;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hospes::transport::http_server::{DEFAULT_PATH, Endpoint, EndpointSet, HttpMiddleware, HttpServer};
use hospes_console::ConsoleServer;
use hospes_host::config::{CONSOLE_FORM, ConsoleConfig, HostConfig, parse_console, parse_team_console};
use hospes_host::{Gateway, Host, HostServers, RequestStateConfig, ServerChanges, UpstreamAccounts};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::config_reload::ConfigReload;
pub(crate) use self::config_reload::UsedFiles;
use self::endpoint_metrics::EndpointMetrics;
use self::endpoints::{HostEndpoints, not_found, refuse_others};
pub(crate) use self::events::EventWriter;
use self::health_pages::{HealthPages, HealthState};
use self::metrics_listener::MetricsListener;
use self::server_line::LOG_TIME_COLUMNS;
pub(crate) use self::server_line::{MARGIN, line, offered_counts};
use self::startup_text::StartupText;
pub(crate) use self::startup_text::{NO_POLICY, NO_SERVERS, preset_line};
use super::serve::{listen, listen_error};
use super::{InterruptListener, console, new_servers, policy, waiting};
use crate::args::{HostOptions, UpArgs};
use crate::attach::{self, AttachSocket};
use crate::authorization::{authorization, team_console, users_can_sign_in};
use crate::callers;
use crate::credentials;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::fleet::{FleetMember, FleetNode, HostFleet, SharedState};
use crate::live::{self, LiveScreen, LiveSources};
use crate::missing_programs;
use crate::notifications::{self, NotificationSettings};
use crate::output::{CliOutput, DIM, paint, printable, wrap_lines};
use crate::paths;
use crate::readiness;
use crate::screen_log::{self, LogLine};
use crate::settings::{LoadedConfig, build_host, check_allowed, check_folders, default_servers, load};
use crate::sweep;
use crate::telemetry;

/// Default address of the endpoint.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7337);
/// Number of lines of the log that are printed after the screen has ended.
const LAST_LINES: usize = 20;
/// Default time calls may continue after the host is asked to end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);
/// Interval at which a node that ends looks whether calls still run.
const IDLE_POLL: Duration = Duration::from_millis(10);
/// Default of the same time for a node of a fleet, whose sessions other nodes continue.
const FLEET_SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

pub(crate) async fn run(args: UpArgs, output: CliOutput) -> CliResult {
    let reload = ConfigReload::new(&args.host);
    let LoadedConfig { mut config, files } = load(&args.host.files)?;
    let used = reload.used().clone();
    used.set(&files);
    check_allowed(&args.allow_host, &args.allow_origin)?;
    check_folders("--root", &args.host.roots)?;
    let hosts: Vec<String> = config.allowed_hosts.iter().chain(&args.allow_host).cloned().collect();
    let origins: Vec<String> = config.allowed_origins.iter().chain(&args.allow_origin).cloned().collect();
    let address = match &args.listen {
        Some(text) => listen("--listen", text)?,
        None => config.listen.unwrap_or(DEFAULT_LISTEN),
    };
    // Only a console that asks people to sign in may be reached from other machines.
    let parse_place = if config.console_team.is_some() { parse_team_console } else { parse_console };
    let place =
        match &args.console {
            Some(text) => Some(parse_place(text).ok_or_else(|| {
                CliError::usage(format!("--console: expected {CONSOLE_FORM}, got `{text}`"))
            })?),
            None => config.console,
        };
    if files.is_empty() {
        config.servers = default_servers();
    }
    missing_programs::restart_with_login_path(&config, output)?;

    let (decisions_from, max_streams) = (config.decisions_from.unwrap_or_default(), config.console_streams);
    // If an application cannot show forms, the console can.
    config.console_questions.get_or_insert(!matches!(place, Some(ConsoleConfig::Off)));

    let shows_screen = live::is_wanted(&args, output);
    if shows_screen {
        // Before the servers start, because their first lines are the ones that explain a failure.
        screen_log::begin();
    }
    // The address first: if it is taken, no server needs to be started.
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .map_err(|error| listen_error(address, "--listen", &error))?;
    let bound = listener.local_addr().map_err(|error| listen_error(address, "--listen", &error))?;
    let scraped = MetricsListener::bind(config.metrics_listen).await?;
    let will_be = config.servers.iter().any(|server| server.is_per_user() && !server.disabled);
    let said = &config.accounts;
    let mut shared = SharedState::connect(&config).await?;
    let kept = match &shared {
        // An account that is connected at one node is connected at all.
        Some(shared) => Some(shared.accounts()?.tokens),
        None => credentials::open_for_host(will_be, output)?,
    };
    // Before the node, whose connections to others have spans.
    telemetry::start(config.telemetry.as_ref(), output)?;
    // Before the authorization server, whose rate limits are those of all nodes.
    let node = FleetNode::start(&config).await?;
    let member = node.as_ref().map(FleetNode::member);
    if let (Some(shared), Some(member)) = (&mut shared, &member) {
        shared.rate_limits = Some(member.rate_limits());
    }
    let mut authorization =
        authorization(config.auth.as_ref(), bound, DEFAULT_PATH, kept.clone(), said, shared.as_ref(), output)
            .await?;
    users_can_sign_in(&config, authorization.as_ref())?;
    let team = team_console(&config, bound, shared.as_ref())?;
    // The accounts that the sign-in pages change, so that the host sees newly connected ones.
    let accounts = match authorization.as_mut() {
        Some(auth) => auth.accounts.take(),
        // Also before the first sign-in: a server that needs one may be added while the host runs.
        None => {
            let store = kept.map_or_else(|| credentials::open_when_created().map(|store| store as _), Ok)?;
            Some(UpstreamAccounts::new(store))
        }
    };
    let hosts: Vec<String> =
        hosts.into_iter().chain(authorization.as_ref().map(|auth| auth.host.clone())).collect();
    let mut ending = InterruptListener::new()?;
    let callers_rule = config.callers;
    let people = policy::RulePeople::of_config(&config);
    let notifications = NotificationSettings {
        desktop: config.desktop_notifications.unwrap_or(true),
        channels: std::mem::take(&mut config.notifications),
    };
    let begun = jiff::Timestamp::now();
    let fleet = shared.map(|shared| shared.for_host(member.clone()));
    let host = Box::pin(start(&args.host, config, accounts, fleet, output)).await?;
    let rounds = request_state(&host)?;
    warn_of_unread_groups(&host, people, output);
    let build = |gateway, path: &str, servers: Option<HostServers>| {
        endpoint(gateway, rounds.clone(), (path, servers), (&hosts, &origins), member.as_ref())
    };
    let default_grace = if node.is_some() { FLEET_SHUTDOWN_GRACE } else { SHUTDOWN_GRACE };
    let grace = args.shutdown_timeout.unwrap_or(default_grace);
    let server =
        HttpServer::from_listener(listener, build(host.gateway(), DEFAULT_PATH, Some(host.servers())))
            .map_err(|error| CliError::usage("cannot serve").with_cause(&error))?
            .shutdown_timeout(grace);
    let endpoints = HostEndpoints::new(&host, server.others(), build);
    // From the bound address, because a wildcard address is not loopback. Programs of this machine use `usable`.
    let (mut url, mut usable) = (format!("http://{bound}{DEFAULT_PATH}"), server.url());
    let may_attach = attach::is_allowed(authorization.is_some(), callers_rule);
    let own = match authorization {
        Some(_) => None,
        None => callers::caller_check(callers_rule, bound, output)?,
    };
    let issued_token = authorization.as_ref().map(|auth| auth.token.clone());
    let token = own.as_ref().map(|own| own.token.clone());
    let noted_url = usable.clone();
    let mut by = None;
    let pasted = own.as_ref().filter(|own| own.is_wanted).map(|own| own.token.clone());
    let front: Option<Box<dyn HttpMiddleware>> = match (authorization, own) {
        (None, None) => None,
        (None, Some(own)) => Some(Box::new(own.front)),
        (Some(authorization), _) => {
            (url, by) = (authorization.url, Some(authorization.by));
            usable.clone_from(&url);
            Some(authorization.front)
        }
    };
    let health = HealthState::new(host.servers(), member.clone());
    let (all, others) = (server.endpoint().clone(), server.others());
    host.servers().add_metrics(EndpointMetrics { main: all.clone(), others: others.clone() });
    let server = server.middleware(HealthPages { state: Arc::clone(&health), front });
    // Nothing is ever sent: dropping the sender ends serving.
    let (close, closed) = oneshot::channel::<Infallible>();
    let shared_endpoints = (all.clone(), others.clone());
    let mut serving_nodes = Box::pin(serve_nodes(node, shared_endpoints, host.servers(), rounds.clone()));
    // Served from now on, so that balancers learn that the host is starting. Requests of applications wait.
    let mut serving = Box::pin(server.serve_until(async { drop(closed.await) }));
    let mut scraping = Box::pin(MetricsListener::serve_if_any(scraped, host.servers()));
    let required = async {
        tokio::select! {
            ready = require(&host) => ready,
            never = &mut scraping => match never {},
            never = &mut serving_nodes => match never {},
            served = &mut serving => served.map_err(|error| CliError::usage("cannot serve").with_cause(&error)),
        }
    };
    let Some(ready) = ending.unless(required).await else {
        drop((serving, endpoints));
        stop(host, &mut ending, output).await;
        return Ok(());
    };
    ready?;
    // Held until the end, because dropping it removes the note.
    let noted = paths::write_host_note(&noted_url, issued_token.or(token));
    // Without it, `hospes stdio` runs a host of its own, so a failure is not an error.
    let attaching = if may_attach { bind_attach_socket().await } else { None };
    let named = args.host.files.config.clone();
    let told = (usable.as_str(), args.host.policy.clone(), own_file(&args.host), named);
    let console = console::serve(&host, (place, max_streams, team), decisions_from, told, output).await?;
    let startup = StartupText {
        url: &url,
        usable: &usable,
        by: by.as_deref(),
        token: pasted.as_deref(),
        node: member.as_ref().map(FleetMember::address),
        files: &used,
    };
    let events = EventWriter::new(output);
    let screen = if shows_screen {
        let notice = if files.is_empty() { startup_text::first_steps() } else { Vec::new() };
        Some(LiveScreen::open(LiveSources::new(&host, url.clone(), (notice, used.clone())), args.ascii))
    } else {
        startup.print(&host, console.as_ref(), output, events);
        None
    };
    // Servers may still be starting: calls to them wait.
    health.begin_serving();
    readiness::announce_ready();

    let last_calls = || output.say(paint(DIM, "waiting for running calls … (Ctrl-C again aborts them)"));
    let changed = |changes: &ServerChanges| endpoints.follow(changes);
    // The reports never end by themselves; they are dropped when serving ends.
    let serve = async |shutdown| {
        let end = async {
            shutdown.await;
            health.begin_draining();
            if let Some(member) = &member {
                member.drain().await;
            }
            tokio::time::sleep(args.drain_notice.unwrap_or_default()).await;
            if let Some(member) = &member {
                hand_over(member, (&all, &others), grace).await;
                member.give_servers_up().await;
            }
            close_screen(screen.as_ref(), &startup, output).await;
            drop(close);
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            served = &mut serving => served,
            never = end => match never {},
            never = attached(attaching.as_ref(), &host, rounds.as_ref()) => match never {},
            never = status_reports::report(&host, events) => match never {},
            never = reload.follow(&host, &args.host, changed, events) => match never {},
            never = waiting::report(&host, events) => match never {},
            never = new_servers::report(&host, begun, events) => match never {},
            never = policy::report(&host, people, output) => match never {},
            never = scraping => match never {},
            never = serving_nodes => match never {},
            never = sweep::repeat() => match never {},
            never = auto_update::repeat(own_file(&args.host), events) => match never {},
            never = notifications::show(&host, notifications, console.as_ref(), screen.as_ref().map(LiveScreen::is_focused)) => match never {},
            never = act_on_screen(screen.as_ref(), &host, console.as_ref()) => match never {},
        }
    };
    // On the heap, because all reports together are a large future.
    let served = Box::pin(ending.serve(serve, last_calls)).await;
    // Not before: requests that have waited here are forwarded, for which this process has to be a node.
    if let Some(member) = &member {
        member.leave().await;
    }
    // Again, in case serving has failed or the person did not wait for its end.
    close_screen(screen.as_ref(), &startup, output).await;
    readiness::announce_stopping();
    if !events.is_for_people() {
        events.event("stop", &[], String::new);
    }
    drop((console, attaching, endpoints));
    stop(host, &mut ending, output).await;
    // Last, so that `hospes status` finds the host for as long as it runs.
    drop(noted);
    served.map_err(|error| CliError::usage("cannot serve").with_cause(&error))
}

/// Returns Hospes' own configuration file: the first that is named, or the default one. `None` if all that are named have
/// the form of other applications.
fn own_file(options: &HostOptions) -> Option<std::path::PathBuf> {
    let named = &options.files.config;
    if named.is_empty() {
        return paths::new_config_path();
    }
    named.iter().find(|file| file.extension().is_some_and(|extension| extension == "toml")).cloned()
}

/// Acts on what the person asks for on the screen, if there is one. Never returns.
async fn act_on_screen(
    screen: Option<&LiveScreen>,
    host: &Host,
    console: Option<&ConsoleServer>,
) -> Infallible {
    match screen {
        Some(screen) => screen.run(host, console).await,
        None => std::future::pending().await,
    }
}

/// Ends the screen, if there is one, and prints what is worth keeping: the endpoint and the last lines of the log.
async fn close_screen(screen: Option<&LiveScreen>, startup: &StartupText<'_>, output: CliOutput) {
    let Some(screen) = screen else { return };
    if !screen.close().await {
        return;
    }
    output.say(startup.ended_text());
    for line in screen_log::last_lines(LAST_LINES) {
        output.say_broken(|width| ended_log(&line, width));
    }
}

/// Formats a message of the log after the screen has ended: only its first line has a time.
fn ended_log(line: &LogLine, width: Option<usize>) -> String {
    let time = line.at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S");
    let text = printable(line.text.trim());
    let lines = text.lines().enumerate().map(|(at, line)| match at {
        0 => wrap_lines(&format!("  {} {line}", paint(DIM, &time)), LOG_TIME_COLUMNS - 2, width),
        _ => wrap_lines(&format!("{:LOG_TIME_COLUMNS$}{line}", ""), 2, width),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Binds the socket at which programs attach. `None` if that fails, which is logged.
async fn bind_attach_socket() -> Option<AttachSocket> {
    let bound = AttachSocket::bind().await;
    bound.inspect_err(|error| tracing::warn!(%error, "programs cannot attach to this host")).ok()
}

/// Serves attached programs, if there is a socket. Never returns.
async fn attached(
    socket: Option<&AttachSocket>,
    host: &Host,
    rounds: Option<&RequestStateConfig>,
) -> Infallible {
    match socket {
        Some(socket) => socket.serve(host, rounds).await,
        None => std::future::pending().await,
    }
}

/// Starts the host. `fleet` is what all nodes of a fleet share.
pub(crate) async fn start(
    options: &HostOptions,
    config: HostConfig,
    accounts: Option<UpstreamAccounts>,
    fleet: Option<HostFleet>,
    output: CliOutput,
) -> CliResult<Host> {
    telemetry::start(config.telemetry.as_ref(), output)?;
    if let Some(HostFleet { state, member: Some(member), .. }) = &fleet {
        member.warn_about_engines(state);
    }
    let shared = fleet.as_ref().map(|fleet| (fleet.member.clone(), fleet.databases.clone()));
    let host = build_host(options, config, accounts, fleet, output).await?.start();
    let host = host.map_err(|error| {
        CliError::usage("cannot start").with_cause(&error).hint("rename one of them in the configuration")
    })?;
    telemetry::observe(&host, shared);
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
    telemetry::shut_down().await;
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

/// Serves the other nodes, if there are any. Never returns.
async fn serve_nodes(
    node: Option<FleetNode>,
    endpoints: (Endpoint, EndpointSet),
    servers: HostServers,
    rounds: Option<RequestStateConfig>,
) -> Infallible {
    match node {
        Some(node) => node.serve(endpoints, servers, rounds).await,
        None => std::future::pending().await,
    }
}

/// Gives the sessions of this node to the others: each when no call runs in it, and all when the time is over.
async fn hand_over(member: &FleetMember, (main, others): (&Endpoint, &EndpointSet), limit: Duration) {
    let all = || std::iter::once(main.clone()).chain(others.all());
    let end = Instant::now() + limit;
    let one_by_one = async {
        loop {
            for endpoint in all() {
                endpoint.hand_over_idle_sessions().await;
            }
            if all().all(|endpoint| endpoint.calls() == 0) {
                break;
            }
            tokio::time::sleep(IDLE_POLL).await;
        }
    };
    // Sessions that are never idle do not begin new calls in the second half, so that they can be given away in time.
    let _ = tokio::time::timeout(limit / 2, one_by_one).await;
    all().for_each(|endpoint| endpoint.hold_sessions(true));
    let idle = async {
        while all().any(|endpoint| endpoint.calls() > 0) {
            tokio::time::sleep(IDLE_POLL).await;
        }
    };
    if tokio::time::timeout_at(end, idle).await.is_err() {
        tracing::warn!(
            "calls still run after {limit:?}: their sessions go to other nodes, and their outcome is unknown there"
        );
    }
    member.give_sessions_away().await;
    all().for_each(|endpoint| endpoint.hold_sessions(false));
}

/// Creates an endpoint. The shared one also serves HTTP+SSE, and answers at unknown paths with what `servers` has.
/// Warns of profiles that nobody can use.
fn warn_of_unread_groups(host: &Host, people: policy::RulePeople, output: CliOutput) {
    for profile in host.profiles().iter().filter(|profile| !people.reads_groups() && profile.groups.is_some())
    {
        output.warn(format!(
            "nobody can use the profile `{}`, because it has `groups` and no groups are read; set `groups_claim` under [auth]",
            profile.name
        ));
    }
}

fn endpoint(
    gateway: Gateway,
    rounds: Option<RequestStateConfig>,
    (path, servers): (&str, Option<HostServers>),
    (hosts, origins): (&[String], &[String]),
    member: Option<&FleetMember>,
) -> Endpoint {
    let rounds = rounds.map(|rounds| (rounds.keys_for(&gateway), rounds.lifetime));
    let is_shared = path == DEFAULT_PATH;
    let mut endpoint = Endpoint::builder(gateway.clone()).path(path).sse(is_shared);
    if let Some(servers) = servers {
        // By its name, and not by the path of the request: what is not admitted is refused in any case.
        endpoint = match path.strip_prefix(DEFAULT_PATH).and_then(|rest| rest.strip_prefix('/')) {
            None => endpoint.pages(move |parts| not_found(&servers, parts)),
            Some(profile) => {
                let profile = profile.to_owned();
                endpoint.refuse(move |parts| refuse_others(&servers, &profile, parts))
            }
        };
    }
    if let Some((keys, lifetime)) = rounds {
        endpoint = endpoint.state_keys(keys).state_lifetime(lifetime);
    }
    if let Some(member) = member {
        endpoint = member.share(endpoint, path, gateway);
    }
    let endpoint = hosts.iter().fold(endpoint, |endpoint, host| endpoint.allow_host(host));
    origins.iter().fold(endpoint, |endpoint, origin| endpoint.allow_origin(origin)).build()
}
