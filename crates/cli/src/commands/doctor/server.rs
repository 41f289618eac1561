//! Checks of a server: its entry, its program or its URL, and its tools.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hospes::client::{Client, Target};
use hospes::model::Tool;
use hospes_host::config::{
    ConfigError, ConfigLoader, ProfileConfig, RejectedServer, ServerConfig, ServerTransport, SkippedServer,
    StdioTransport, redact_url,
};
use hospes_host::upstream::{NOISE_WARNING, UpstreamStatus};
use hospes_sandbox::{ProgramNotFound, dead_link};

use super::call::{self, CheckCall};
use super::check::{
    C01, C02, C03, C04, C05, CheckStatus, DoctorChain, DoctorCheck, DoctorFinding, N04, N05, O01, S02, S03,
    S04, T01, T02, T03,
};
use super::failed_connection::{FailedServer, NOISE, NOISE_MEND, PROCESS_STEPS, URL_STEPS, explain};
use super::sign_in::{self, RefusedRequest};
use super::{endpoint_search, executable, filters, launcher, leftovers, package};
use crate::args::DoctorArgs;
use crate::commands::file_replace::read_text;
use crate::exit::CliError;
use crate::known_servers::{known_tool_names, open_pins};
use crate::output::{printable, shell_word};
use crate::paths;
use crate::program_sources::program_source;
use crate::shown_commands::shown_command;
use crate::target::{ServerTarget, entry_target, probe, url_target};
use crate::tool_list::{REPEATED, read_tools};

/// Maximum length of the name of a tool with the name of its server: the shortest limit of known applications.
const MAX_NAME: usize = 64;

/// Time for the checks of a server besides that to connect: an index of packages, its lists, a call, and its end.
const EXTRA_TIME: Duration = Duration::from_secs(60);

/// Returns the chain of an entry with mistakes.
pub(super) fn rejected(server: &RejectedServer) -> DoctorChain {
    let mut chain = DoctorChain::new(&*server.name);
    let text = server.errors.full_text().replace('\n', "; ");
    let finding = DoctorFinding::new("the entry cannot be used").why(text);
    let file = crate::paths::display_path(server.source.file());
    let mend = server.errors.iter().find_map(|error| match error {
        ConfigError::Secret { name, why: None, .. } => Some(format!("hospes secret set {}", shell_word(name))),
        ConfigError::Unset { variable, .. } => {
            let secret = format!("{}.{variable}", server.name);
            Some(format!(
                "hospes secret set {}, and write ${{secret:{secret}}} for the variable in {file}; or: export {variable}=VALUE",
                shell_word(&secret)
            ))
        }
        ConfigError::Input { variable, .. } => Some(format!("export {variable}=VALUE")),
        _ => None,
    });
    let finding = finding.mend(mend.unwrap_or_else(|| format!("correct the entry in {file}")));
    chain.fail(&C01, finding, &[&C02]);
    chain
}

/// Returns the chain of an entry that cannot be used here.
pub(super) fn skipped(server: &SkippedServer) -> DoctorChain {
    let mut chain = DoctorChain::new(&*server.name);
    chain.fail(&C01, DoctorFinding::new("the entry cannot be used").why(&*server.reason), &[]);
    chain
}

/// Returns the chain of a server that is ready in the running host. A call goes through the host, and by its rules.
pub(super) async fn running(
    (server, profiles): (&ServerConfig, &[ProfileConfig]),
    (endpoint, status): (&str, &UpstreamStatus),
    args: &DoctorArgs,
) -> DoctorChain {
    let mut chain = DoctorChain::new(&*status.name);
    chain.ok(&S03, "ready in the running host");
    chain.ok(&S04, status.revision.as_deref().unwrap_or_default());
    chain.ok(&T01, many_tools(status.tools));
    for warning in &status.warnings {
        if let Some(line) = warning.strip_prefix(NOISE_WARNING) {
            chain.warn(&S02, noise_finding(line.trim_start_matches([':', ' '])));
            continue;
        }
        // A server whose definitions wait for a decision is as well as it can be until then.
        let command = if warning.contains("accept") { "hospes pins show" } else { "hospes logs" };
        chain.warn(&T01, DoctorFinding::new(warning.as_str()).mend(format!("{command} {}", status.name)));
    }
    filters::check(server, profiles, &known_tool_names(server).await.unwrap_or_default(), &mut chain);
    let Some(tool) = args.call.as_deref() else { return chain };
    let token = paths::list_host_notes().into_iter().find(|(_, note)| note.endpoint == endpoint);
    let mut target = Target::url(format!("{endpoint}/{}", status.name));
    if let Some(token) = token.and_then(|(_, note)| note.token) {
        target = target.header("authorization", format!("Bearer {token}"));
    }
    let builder = Client::builder().info(hospes_host::implementation());
    match builder.connect_timeout(args.connect_timeout).connect(target).await {
        Ok(client) => {
            let tools = client.tools().all().await.unwrap_or_default();
            let call = CheckCall { tool: Some(tool), words: &args.words, builtin: None };
            call::check(&client, &tools, call, &mut chain).await;
            client.close().await;
        }
        Err(error) => {
            let finding = DoctorFinding::new("the running host does not answer")
                .why(error.what.clone())
                .mend("hospes status");
            chain.fail(&T03, finding, &[]);
        }
    }
    chain
}

/// Checks a server of the configuration.
pub(super) async fn check(
    server: &ServerConfig,
    profiles: &[ProfileConfig],
    args: &DoctorArgs,
) -> DoctorChain {
    let mut chain = DoctorChain::new(&*server.name);
    if server.disabled {
        chain.ok(&C01, "switched off in the configuration");
        return chain;
    }
    chain.ok(&C01, "");
    let mark = leftovers::new_mark();
    within(args, &mut chain, async |chain| {
        check_steps((server, profiles), args, &mark, chain).await;
    })
    .await;
    if matches!(server.transport, ServerTransport::Stdio(_))
        && chain
            .checks
            .iter()
            .any(|check| check.code.starts_with('S') && check.status != CheckStatus::NotReached)
    {
        leftovers::check(&mark, &mut chain).await;
    }
    chain
}

/// Runs checks, and ends them after the time that they may take. A server that answers each question slowly stays within
/// each time limit, and could keep the checks going without end.
async fn within(args: &DoctorArgs, chain: &mut DoctorChain, checks: impl AsyncFnOnce(&mut DoctorChain)) {
    let limit = args.connect_timeout.saturating_add(EXTRA_TIME);
    if tokio::time::timeout(limit, checks(chain)).await.is_err() {
        let is_connected = chain.checks.iter().any(|check| check.code == S04.code);
        let finding = DoctorFinding::new(format!("the checks did not end within {} s", limit.as_secs()))
            .why("the server answers too slowly, or lists tools without end")
            .mend(format!("{}; report it to the author of the server", shown_command("logs", &chain.target)));
        chain.fail(if is_connected { &T01 } else { &S03 }, finding, &[]);
    }
}

async fn check_steps(
    (server, profiles): (&ServerConfig, &[ProfileConfig]),
    args: &DoctorArgs,
    mark: &str,
    chain: &mut DoctorChain,
) {
    match &server.transport {
        ServerTransport::Stdio(stdio) if !files(server, stdio, chain).await => return,
        ServerTransport::Stdio(stdio) if !package::check(server, stdio, chain).await => return,
        ServerTransport::Http(http) if !sign_in::token(http.url.reveal().as_str(), chain).await => return,
        _ => {}
    }
    let has_header = match &server.transport {
        ServerTransport::Http(http) => {
            http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        }
        _ => false,
    };
    let command = match &server.transport {
        // Secrets are not in it.
        ServerTransport::Stdio(stdio) => Some(stdio.command_line()),
        _ => None,
    };
    match entry_target(server) {
        Ok(mut target) => {
            if let Target::Command(command) = &mut target.target {
                *command = command.clone().env(leftovers::MARK, mark);
            }
            let call = CheckCall {
                tool: args.call.as_deref(),
                words: &args.words,
                builtin: match &server.transport {
                    ServerTransport::Builtin(builtin) => Some(builtin.name.as_str()),
                    _ => None,
                },
            };
            let filtered = Some((server, profiles));
            connect(target, args, ConnectCheck { call, has_header, command, filtered }, chain).await;
        }
        Err(error) => refused(&error, chain),
    }
    // What is old is the likely reason that it does not run.
    let has_failed = |check: &DoctorCheck| check.status == CheckStatus::Fault && check.code.starts_with('S');
    if chain.checks.iter().any(has_failed)
        && let Some(old) = chain.take_warning(&C04)
    {
        chain.blame(&C04, old);
    }
}

/// Checks the working folder, the program and the launcher of a process. Returns false if it cannot be started.
async fn files(server: &ServerConfig, stdio: &StdioTransport, chain: &mut DoctorChain) -> bool {
    if let Some(folder) = stdio.cwd.as_ref().filter(|folder| !folder.is_dir()) {
        let what = format!("the working folder {} does not exist", folder.display());
        let finding = match dead_link(folder) {
            Some(target) => DoctorFinding::new(what)
                .why(format!("it is a link to {}, which does not exist", target.display()))
                .mend(format!("mkdir -p {}, or correct `cwd`", target.display())),
            None => DoctorFinding::new(what).mend(format!("mkdir -p {}, or correct `cwd`", folder.display())),
        };
        chain.fail(&C05, finding, &PROCESS_STEPS);
        return false;
    }
    let cwd =
        stdio.cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| PathBuf::from("/"));
    let path = stdio.search_path(server.sandbox.environment.as_deref());
    let command = stdio.command.reveal();
    match program(command, path.as_deref(), &cwd, chain) {
        Some(found) => launcher::check(command, &found, path.as_deref(), chain).await,
        None => false,
    }
}

/// Checks a server at a URL.
pub(super) async fn check_url(url: &str, args: &DoctorArgs) -> DoctorChain {
    let mut chain = DoctorChain::new(redact_url(url));
    let steps = async |chain: &mut DoctorChain| {
        if !sign_in::token(url, chain).await {
            return;
        }
        match url_target(url) {
            Ok(target) => {
                let call = CheckCall { tool: args.call.as_deref(), words: &args.words, builtin: None };
                let check = ConnectCheck { call, has_header: false, command: None, filtered: None };
                connect(target, args, check, chain).await;
            }
            Err(error) => refused(&error, chain),
        }
    };
    within(args, &mut chain, steps).await;
    chain
}

fn refused(error: &CliError, chain: &mut DoctorChain) {
    let mut finding = DoctorFinding::new("the server cannot be used").why(error.to_string());
    finding.mend.clone_from(&error.hint);
    chain.fail(&C01, finding, &[]);
}

/// Checks that the program is there and can be executed, and returns its path.
fn program(command: &str, path: Option<&OsStr>, cwd: &Path, chain: &mut DoctorChain) -> Option<PathBuf> {
    let found = match hospes_sandbox::resolve(OsStr::new(command), path, cwd) {
        Ok(found) => found,
        Err(error) => {
            let (code, mend) = match &error {
                ProgramNotFound::NotExecutable(file) => (&C03, format!("chmod +x {}", file.display())),
                ProgramNotFound::Name(name) => {
                    let source = program_source(name);
                    let unknown = "install it, or write the absolute path of the program";
                    (&C02, source.unwrap_or(unknown).to_owned())
                }
                ProgramNotFound::DeadLink { target, .. } => (
                    &C02,
                    format!(
                        "install the server again, so that {} exists; or correct `command` of the entry",
                        target.display()
                    ),
                ),
                ProgramNotFound::Url => (&C02, "write `url = \"…\"` in place of `command`".to_owned()),
                ProgramNotFound::Words(_) => (&C02, "write the words after the program in `args`".to_owned()),
                _ => (&C02, "correct the path of the program in `command` of the entry".to_owned()),
            };
            let why = match &error {
                ProgramNotFound::File(file) if file.is_dir() => format!("{} is a folder", file.display()),
                error => error.to_string(),
            };
            let finding =
                DoctorFinding::new(format!("the program `{command}` cannot be started")).why(why).mend(mend);
            chain.fail(code, finding, &PROCESS_STEPS);
            return None;
        }
    };
    chain.ok(&C02, "");
    if let Some(finding) = executable::check(&found, path) {
        chain.fail(&C03, finding, &PROCESS_STEPS);
        return None;
    }
    chain.ok(&C03, "");
    Some(found)
}

/// Settings of a check besides the target of the connection.
struct ConnectCheck<'a> {
    call: CheckCall<'a>,
    /// True if the entry has a token in its headers.
    has_header: bool,
    /// Command line of a process.
    command: Option<String>,
    /// The entry and the profiles, whose filters are compared with the tools.
    filtered: Option<(&'a ServerConfig, &'a [ProfileConfig])>,
}

async fn connect(target: ServerTarget, args: &DoctorArgs, check: ConnectCheck<'_>, chain: &mut DoctorChain) {
    let ConnectCheck { call, has_header, command, filtered } = check;
    let url = match &target.target {
        Target::Url(url) => Some(url.url.clone()),
        _ => None,
    };
    // Without TLS there is no certificate.
    let is_plain = url.as_ref().is_some_and(|url| url.starts_with("http://"));
    let steps = if url.is_some() { &URL_STEPS[..] } else { &PROCESS_STEPS[..] };
    let steps = steps.iter().copied().filter(|step| !(is_plain && step.code == N04.code));
    match probe(target, args.connect_timeout).await {
        Ok(client) => {
            let noise = client.noise().1;
            for step in steps.take_while(|step| step.code != S04.code) {
                match &noise {
                    Some(line) if step.code == S02.code => chain.warn(step, noise_finding(line)),
                    _ => chain.ok(step, ""),
                }
            }
            chain.ok(&S04, client.revision().as_str());
            if let Some(tools) = tools(&client, chain).await {
                // A server of another file may only have the name in common.
                if args.files.config.is_empty() {
                    accepted(&tools, chain).await;
                }
                call::check(&client, &tools, call, chain).await;
                if let Some((server, profiles)) = filtered {
                    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                    filters::check(server, profiles, &names, chain);
                }
            }
            client.close().await;
        }
        Err(Ok(error)) => {
            let server =
                FailedServer { name: &chain.target, url: url.as_deref(), command: command.as_deref() };
            let (mut code, mut finding) = explain(&error, server);
            if let Some(url) = url.as_deref().filter(|_| endpoint_search::may_help(code, &error))
                && let Some(found) = endpoint_search::find(url).await
            {
                let entry = filtered.map(|(server, _)| server);
                (code, finding) = (&N05, endpoint_search::finding(&found, finding, entry));
            }
            // The steps before have passed.
            let (mut before, mut later) = (Vec::new(), Vec::new());
            let mut is_reached = true;
            for step in steps {
                is_reached &= step.code != code.code;
                match is_reached {
                    true => before.push(step),
                    false => later.push(step),
                }
            }
            // A step that is none of the way says nothing of the others.
            if !later.is_empty() {
                later.remove(0);
                before.retain(|step| step.code != S02.code || error.noise.is_none());
                before.into_iter().for_each(|step| chain.ok(step, ""));
            }
            match &url {
                Some(url) if code.code == O01.code => {
                    let secret = filtered.and_then(|(server, _)| header_secret(server));
                    let refused =
                        RefusedRequest { error: &error, url, has_header, secret: secret.as_deref() };
                    sign_in::explain(refused, chain).await;
                }
                _ => chain.fail(code, finding, &later),
            }
        }
        Err(Err(error)) => refused(&error, chain),
    }
}

/// Returns the name of the secret in the header `Authorization` of an entry.
fn header_secret(server: &ServerConfig) -> Option<String> {
    // With the references in place of their values.
    let file = server.source.file();
    let loader = ConfigLoader::new().allow_unset(true).keep_going(true).keep_references(true);
    let written = loader.parse(file, &read_text(file).ok()?).ok()?;
    let ServerTransport::Http(http) = &written.server(&server.name)?.transport else { return None };
    let (_, value) = http.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
    let (_, rest) = value.reveal().split_once("${secret:")?;
    rest.split_once('}').map(|(name, _)| name.to_owned())
}

/// Compares the tools with the definitions that were accepted, if a host has seen the server.
async fn accepted(tools: &[Tool], chain: &mut DoctorChain) {
    let Ok(Some(pins)) = open_pins() else { return };
    let changed = pins.changed_tools(&chain.target, tools).await.unwrap_or_default();
    let Some(first) = changed.first() else { return };
    let more = match changed.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let finding =
        DoctorFinding::new(format!("the definition of `{first}`{more} has changed since it was accepted"))
            .why("calls are refused until a person has accepted the new one")
            .mend(format!("hospes up; then: {}", shown_command("pins show", &chain.target)));
    chain.warn(&T01, finding);
}

/// Checks the list of tools, and returns it.
async fn tools(client: &Client, chain: &mut DoctorChain) -> Option<Vec<Tool>> {
    if client.capabilities().is_none_or(|capabilities| capabilities.tools.is_none()) {
        chain.ok(&T01, "no tools");
        return Some(Vec::new());
    }
    match read_tools(client).await {
        Ok((tools, unreadable)) if tools.is_empty() && unreadable.is_empty() => {
            let finding = DoctorFinding::new("the server offers tools, and its list is empty").mend(format!(
                "{} may say why; else ask the author of the server",
                shown_command("logs", &chain.target)
            ));
            chain.warn(&T01, finding);
            Some(tools)
        }
        Ok((tools, unreadable)) => {
            match invalid_tools(tools.len(), &unreadable) {
                None => chain.ok(&T01, many_tools(tools.len())),
                Some(finding) if tools.is_empty() => chain.fail(&T01, finding, &[]),
                Some(finding) => chain.warn(&T01, finding),
            }
            let server = chain.target.chars().count();
            let long: Vec<&str> = tools
                .iter()
                .map(|tool| tool.name.as_str())
                .filter(|name| server + 2 + name.chars().count() > MAX_NAME)
                .collect();
            match long.first() {
                None => chain.ok(&T02, ""),
                Some(first) => {
                    let finding = DoctorFinding::new(format!(
                        "{} too long for some applications, such as `{first}`",
                        match long.len() {
                            1 => "the name of 1 tool is".to_owned(),
                            count => format!("the names of {count} tools are"),
                        }
                    ))
                    .mend("give the server a shorter name, or rename the tools (key `tools.rename`)");
                    chain.warn(&T02, finding);
                }
            }
            Some(tools)
        }
        Err(error) => {
            let finding = DoctorFinding::new("the list of tools cannot be read").why(error.to_string()).mend(
                format!("{}; report it to the author of the server", shown_command("logs", &chain.target)),
            );
            chain.fail(&T01, finding, &[]);
            None
        }
    }
}

/// Returns the finding about invalid tools, which are left out of the list.
fn invalid_tools(valid: usize, unreadable: &[String]) -> Option<DoctorFinding> {
    const NAMED: usize = 5;

    let mut why: Vec<String> = unreadable.iter().take(NAMED).map(|fault| printable(fault)).collect();
    if unreadable.len() > NAMED {
        why.push(format!("{} more", unreadable.len() - NAMED));
    }
    let repeated = unreadable.iter().filter(|fault| fault.ends_with(REPEATED)).count();
    let what = match (valid, unreadable.len() - repeated) {
        (_, 0) if repeated == 0 => return None,
        (_, 0) => format!(
            "the list has {} more than once",
            match repeated {
                1 => "1 tool".to_owned(),
                count => format!("{count} tools"),
            }
        ),
        (0, _) => "no tool of the list can be used".to_owned(),
        (valid, invalid) => format!("{} can be used, and {invalid} cannot", many_tools(valid)),
    };
    let mend =
        "report it to the author of the server: `tools/list` does not have the form of the specification";
    Some(DoctorFinding::new(what).why(why.join("; ")).mend(mend))
}

/// Returns the finding about a server that works, and prints other text than messages to stdout.
fn noise_finding(line: &str) -> DoctorFinding {
    let mut finding = DoctorFinding::new(NOISE).mend(NOISE_MEND);
    finding.evidence = Some(line.to_owned());
    finding
}

fn many_tools(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}
