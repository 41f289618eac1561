//! Checks of a server: its entry, its program or its URL, and its tools.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hospes::client::{Client, ConnectError, ConnectStage, Target};
use hospes::model::Tool;
use hospes_host::config::{RejectedServer, ServerConfig, ServerTransport, SkippedServer, StdioTransport};
use hospes_host::upstream::UpstreamStatus;
use hospes_sandbox::ProgramNotFound;

use super::call::{self, CheckCall};
use super::check::{
    C01, C02, C03, C04, C05, CheckStatus, DoctorChain, DoctorCheck, DoctorCode, DoctorFinding, N01, N02, N03,
    N04, N05, N06, O01, S01, S02, S03, S04, T01, T02, T03,
};
use super::sign_in::{self, RefusedRequest};
use super::{launcher, leftovers, package};
use crate::args::DoctorArgs;
use crate::exit::CliError;
use crate::paths;
use crate::program_sources::program_source;
use crate::target::{ServerTarget, entry_target, probe, url_target};

/// Maximum length of the name of a tool with the name of its server: the shortest limit of known applications.
const MAX_NAME: usize = 64;

/// Steps of a process, after those of its program.
pub(super) const PROCESS_STEPS: [&DoctorCode; 5] = [&S01, &S02, &S03, &S04, &T01];
const URL_STEPS: [&DoctorCode; 5] = [&N01, &N02, &N04, &O01, &T01];

/// Returns the chain of an entry with mistakes.
pub(super) fn rejected(server: &RejectedServer) -> DoctorChain {
    let mut chain = DoctorChain::new(&*server.name);
    let why: Vec<String> = server.errors.iter().map(ToString::to_string).collect();
    let text = why.join("; ");
    let mut finding = DoctorFinding::new("the entry cannot be used").why(text.clone());
    finding.mend = Some(match text.contains("not set") {
        true => "set the variable, or store the value: `hospes secret set NAME`, and write ${secret:NAME}"
            .to_owned(),
        false => format!("correct the entry in {}", crate::paths::display_path(server.source.file())),
    });
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
pub(super) async fn running(endpoint: &str, status: &UpstreamStatus, args: &DoctorArgs) -> DoctorChain {
    let mut chain = DoctorChain::new(&*status.name);
    chain.ok(&S03, "ready in the running host");
    chain.ok(&S04, status.revision.as_deref().unwrap_or_default());
    chain.ok(&T01, many_tools(status.tools));
    for warning in &status.warnings {
        // A server whose definitions wait for a decision is as well as it can be until then.
        let command = if warning.contains("accept") { "hospes pins show" } else { "hospes logs" };
        chain.warn(&T01, DoctorFinding::new(warning.as_str()).mend(format!("{command} {}", status.name)));
    }
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
            let call = CheckCall { tool: Some(tool), words: &args.words, is_trusted: false };
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
pub(super) async fn check(server: &ServerConfig, args: &DoctorArgs) -> DoctorChain {
    let mut chain = DoctorChain::new(&*server.name);
    if server.disabled {
        chain.ok(&C01, "switched off in the configuration");
        return chain;
    }
    chain.ok(&C01, "");
    match &server.transport {
        ServerTransport::Stdio(stdio) if !files(stdio, &mut chain).await => return chain,
        ServerTransport::Stdio(stdio) if !package::check(server, stdio, &mut chain).await => return chain,
        ServerTransport::Http(http) if !sign_in::token(http.url.reveal().as_str(), &mut chain).await => {
            return chain;
        }
        _ => {}
    }
    let has_header = match &server.transport {
        ServerTransport::Http(http) => {
            http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        }
        _ => false,
    };
    let mark = leftovers::new_mark();
    match entry_target(server) {
        Ok(mut target) => {
            if let Target::Command(command) = &mut target.target {
                *command = command.clone().env(leftovers::MARK, &mark);
            }
            let call = CheckCall {
                tool: args.call.as_deref(),
                words: &args.words,
                is_trusted: matches!(server.transport, ServerTransport::Builtin(_)),
            };
            connect(target, args, (call, has_header), &mut chain).await;
        }
        Err(error) => refused(&error, &mut chain),
    }
    if let ServerTransport::Stdio(stdio) = &server.transport {
        let ended = chain.checks.iter_mut().find(|check| check.code == S01.code);
        if let Some(ended) = ended.filter(|check| check.status == CheckStatus::Fault) {
            // Secrets are not in it.
            ended.mend = Some(format!("see what it says when you run it: {}", stdio.command_line()));
        }
        // What is old is the likely reason that it does not run.
        let has_failed =
            |check: &DoctorCheck| check.status == CheckStatus::Fault && check.code.starts_with('S');
        if chain.checks.iter().any(has_failed)
            && let Some(old) = chain.take_warning(&C04)
        {
            chain.blame(&C04, old);
        }
        leftovers::check(&mark, &mut chain).await;
    }
    chain
}

/// Checks the working folder, the program and the launcher of a process. Returns false if it cannot be started.
async fn files(stdio: &StdioTransport, chain: &mut DoctorChain) -> bool {
    if let Some(folder) = stdio.cwd.as_ref().filter(|folder| !folder.is_dir()) {
        let finding = DoctorFinding::new(format!("the working folder {} does not exist", folder.display()))
            .mend(format!("mkdir -p {}, or correct `cwd`", folder.display()));
        chain.fail(&C05, finding, &PROCESS_STEPS);
        return false;
    }
    let cwd =
        stdio.cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| PathBuf::from("/"));
    let path = stdio.env.get("PATH").map(|path| path.reveal().to_owned());
    let path = path.map(Into::into).or_else(hospes_sandbox::search_path);
    let command = stdio.command.reveal();
    match program(command, path.as_deref(), &cwd, chain) {
        Some(found) => launcher::check(command, &found, path.as_deref(), chain).await,
        None => false,
    }
}

/// Checks a server at a URL.
pub(super) async fn check_url(url: &str, args: &DoctorArgs) -> DoctorChain {
    let mut chain = DoctorChain::new(url);
    if !sign_in::token(url, &mut chain).await {
        return chain;
    }
    match url_target(url) {
        Ok(target) => {
            let call = CheckCall { tool: args.call.as_deref(), words: &args.words, is_trusted: false };
            connect(target, args, (call, false), &mut chain).await;
        }
        Err(error) => refused(&error, &mut chain),
    }
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
                _ => (&C02, "correct the path of the program".to_owned()),
            };
            let finding = DoctorFinding::new(format!("the program `{command}` cannot be started"))
                .why(error.to_string())
                .mend(mend);
            chain.fail(code, finding, &PROCESS_STEPS);
            return None;
        }
    };
    chain.ok(&C02, "");
    if let Some(interpreter) = interpreter(&found).filter(|interpreter| !interpreter.is_file()) {
        let finding = DoctorFinding::new(format!("{} needs {}", found.display(), interpreter.display()))
            .why("the first line of the file names an interpreter that does not exist")
            .mend("install the interpreter, or install the server again");
        chain.fail(&C03, finding, &PROCESS_STEPS);
        return None;
    }
    chain.ok(&C03, "");
    Some(found)
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let count = std::fs::File::open(file).ok()?.read(&mut head).ok()?;
    let line = head[..count].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.split_whitespace().next().map(PathBuf::from)
}

async fn connect(
    target: ServerTarget,
    args: &DoctorArgs,
    (call, has_header): (CheckCall<'_>, bool),
    chain: &mut DoctorChain,
) {
    let url = match &target.target {
        Target::Url(url) => Some(url.url.clone()),
        _ => None,
    };
    let is_url = url.is_some();
    match probe(target, args.connect_timeout).await {
        Ok(client) => {
            let revision = client.revision();
            match is_url {
                true => chain.ok(&O01, ""),
                false => chain.ok(&S01, ""),
            }
            chain.ok(&S04, revision.as_str());
            if let Some(tools) = tools(&client, chain).await {
                call::check(&client, &tools, call, chain).await;
            }
            client.close().await;
        }
        Err(Ok(error)) => {
            let (code, finding) = explain(&error, is_url);
            if code.code == O01.code
                && let Some(url) = &url
            {
                return sign_in::explain(RefusedRequest { error: &error, url, has_header }, chain).await;
            }
            let steps: &[&DoctorCode] = if is_url { &URL_STEPS } else { &PROCESS_STEPS };
            let later =
                steps.iter().position(|step| step.code == code.code).map_or(&[][..], |at| &steps[at + 1..]);
            let later = if later.is_empty() { &steps[steps.len() - 1..] } else { later };
            chain.fail(code, finding, later);
        }
        Err(Err(error)) => refused(&error, chain),
    }
}

/// Checks the list of tools, and returns it.
async fn tools(client: &Client, chain: &mut DoctorChain) -> Option<Vec<Tool>> {
    if client.capabilities().is_none_or(|capabilities| capabilities.tools.is_none()) {
        chain.ok(&T01, "no tools");
        return Some(Vec::new());
    }
    match client.tools().all().await {
        Ok(tools) if tools.is_empty() => {
            chain.warn(&T01, DoctorFinding::new("the server offers tools, and its list is empty"));
            Some(tools)
        }
        Ok(tools) => {
            chain.ok(&T01, many_tools(tools.len()));
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
                        "{} have names that are too long for some applications, such as `{first}`",
                        many_tools(long.len())
                    ))
                    .mend("give the server a shorter name, or rename the tools (key `tools.rename`)");
                    chain.warn(&T02, finding);
                }
            }
            Some(tools)
        }
        Err(error) => {
            let finding = DoctorFinding::new("the list of tools cannot be read")
                .why(error.to_string())
                .mend(format!("hospes logs {}; report it to the author of the server", chain.target));
            chain.fail(&T01, finding, &[]);
            None
        }
    }
}

fn many_tools(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}

/// Returns the step at which connecting failed, and what mends it.
fn explain(error: &ConnectError, is_url: bool) -> (&'static DoctorCode, DoctorFinding) {
    let mut finding = DoctorFinding::new(error.what.clone());
    // Here the time limit is set by a flag.
    finding.mend = error.hint.as_ref().map(|hint| hint.replace("connect_timeout", "--connect-timeout"));
    finding.why = error.source.as_ref().map(|source| crate::exit::error_chain(&**source));
    finding.why = finding.why.filter(|why| *why != finding.what);
    finding.evidence = error.stderr.clone().or_else(|| error.noise.clone());
    let is_page = error.body.as_deref().is_some_and(|body| body.trim_start().starts_with('<'));
    let code = match (error.stage, error.status) {
        (ConnectStage::Target, _) => &C01,
        (ConnectStage::Spawn, _) => &S01,
        (ConnectStage::Dns, _) => &N01,
        (ConnectStage::Tcp, _) => &N02,
        (ConnectStage::Tls, _) => &N04,
        (_, Some(407)) => &N03,
        (_, Some(401 | 403)) if is_url && is_page => &N03,
        (_, Some(401 | 403)) => &O01,
        (_, Some(421)) => &N06,
        (ConnectStage::Http, Some(200..=299)) if is_page => &N03,
        (ConnectStage::Http, _) => &N05,
        _ if error.noise.is_some() => &S02,
        (ConnectStage::Negotiate, _) => &S04,
        _ if is_url => &N05,
        _ if error.stderr.is_some() || error.what.contains("exited") || error.what.contains("ended") => &S01,
        _ => &S03,
    };
    if code.code == S02.code {
        finding.why = Some(finding.what);
        finding.what = "the server prints other text to stdout, where only messages may be".to_owned();
    }
    if code.code == N03.code && is_page {
        finding.what = "a web page answered instead of the server".to_owned();
        finding.why = Some(
            "a proxy or the sign-in page of a network is in the way, or the URL is that of a page".to_owned(),
        );
    }
    let mend = match code.code {
        "S02" => Some("make the server log to stderr, and report it to its author".to_owned()),
        "N01" => Some("correct the name in the URL; is a VPN needed, or is the network off?".to_owned()),
        "N03" => Some("sign in to the network or the proxy, or except the host: NO_PROXY=HOST".to_owned()),
        "N04" => Some("check that the URL is https and the host is right; for the authority of a company: SSL_CERT_FILE=FILE".to_owned()),
        "N06" => Some("start the server with this name among its allowed hosts".to_owned()),
        _ => None,
    };
    finding.mend = mend.or(finding.mend);
    (code, finding)
}
