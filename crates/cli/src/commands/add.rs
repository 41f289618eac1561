//! `hospes add`: adds a server, after a person has seen what is run and what it offers.

mod addition;
pub(super) mod answers;
mod asked_value;
mod bundle;
mod card;
mod definitions;
mod denied;
pub(super) mod draft;
pub(super) mod entry_origin;
mod find;
mod headers;
mod package_artifact;
pub(super) mod page;
mod pending_try;
pub(super) mod plan;
pub(super) mod reviewer;
pub(super) mod sandbox;
mod screen;
mod source;
pub(super) mod trial;
pub(super) mod trial_accounts;
pub(super) mod view;

use crate::shown_commands::shown_command;
use std::time::{Duration, Instant};

use hospes_host::config::{ServerConfig, ServerTransport, servers_text};
use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use serde_json::json;

use self::addition::{ServerAddition, comment, not_added};
use self::answers::Asker;
use self::denied::DeniedAccess;
use self::draft::ServerDraft;
use self::pending_try::PendingTry;
use self::plan::PlannedServer;
use self::reviewer::AdditionReviewer;
use self::source::AddSource;
use self::trial::TrialReport;
use super::config_target::ConfigTarget;
use super::status;
use crate::args::{AddArgs, SandboxChoice};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{self, CliOutput, announce, one_line, paint, printable};
use crate::program_sources::launcher_remedy;
use crate::{deciders, paths, registry, sweep};

/// Maximum time that a running host may take to start the new server.
const HOST_WAIT: Duration = Duration::from_secs(30);
/// Maximum time that a running host may take to notice the changed configuration.
const HOST_RELOAD: Duration = Duration::from_secs(5);
/// Interval at which the running host is asked.
const HOST_POLL: Duration = Duration::from_millis(200);

/// Text for an answer that is none of the keys. What took minutes to install is not removed for a slip of the finger.
const NOT_UNDERSTOOD: &str = "\n  Not understood: type one of these keys, then Enter.";

pub(crate) async fn run(args: AddArgs, output: CliOutput) -> CliResult {
    let source = AddSource::parse(args.server.as_deref(), &args.command, args.sha256.as_deref())?
        .with_options(&args)?;
    sweep::run(jiff::Timestamp::now());
    let target = ConfigTarget::read(args.config.clone())?;
    let existing = target.servers()?;
    let may_ask = output::is_interactive() && !args.yes && !args.dry_run && !output.json;
    let is_taken = |name: &str| existing.iter().any(|server| server.name == name);
    if let Some(name) = args.local_name.as_deref().filter(|name| is_taken(name)) {
        return Err(CliError::usage(format!("there is already a server `{}`", printable(name)))
            .hint("choose another --name, or remove that server first: hospes remove NAME"));
    }
    // A person accepts what the server offers. A script may add a server, and the rules decide whether it has to wait.
    let by = match (may_ask, args.yes) {
        (true, _) => Some(deciders::decider().await?),
        (false, true) => deciders::decider().await.ok(),
        (false, false) => None,
    };

    let found = find::find(source, &args, &target, may_ask, output).await?;
    let addition = ServerAddition {
        target: &target,
        existing: &existing,
        registry: registry::base_url(&args.registry, target.registry().as_deref()),
        local_name: args.local_name.as_deref(),
        headers: &args.header,
        package: args.package.as_deref(),
        set: &args.set,
        secret: &args.secret,
        sha256: args.sha256.as_deref(),
        installs: !args.no_install,
        by,
        credentials_store: args.credentials_store,
        output,
    };
    let pending = PendingTry::new(&found, &addition.registry);
    let asker = match may_ask {
        true => Asker::Terminal,
        false if args.dry_run => Asker::Preview,
        false => Asker::Nobody,
    };
    let mut planned = addition.plan(found, pending.answers(may_ask), asker).await?;
    let is_confined = args.sandbox == SandboxChoice::Suggested;
    if is_confined && planned.sandbox.is_none() {
        return Err(CliError::usage("no sandbox can be proposed for this server")
            .hint("leave --sandbox out, and write `sandbox` into the configuration"));
    }
    if args.dry_run || !(may_ask || args.yes) {
        planned.confine(is_confined);
        show_plan(&planned, output)?;
        return match args.dry_run {
            true => Ok(()),
            false => Err(CliError::usage("nothing was added, because nobody can be asked")
                .hint("add --yes to accept this, with --set and --secret for what the server asks")),
        };
    }
    let mut reviewer = AdditionReviewer::Terminal { may_ask, ending: None };
    let is_confined = reviewer.ask_start(&planned, is_confined, output).await?;
    let carried = Box::pin(addition.carry_out(&mut planned, is_confined, &mut reviewer)).await;
    let report = carried.map_err(|error| pending.keep(&planned, error, &args, may_ask, output))?;
    pending.forget();
    let report = report.ok_or_else(not_added)?;
    if planned.draft.is_switched_off() {
        output.say_wrapped(view::added_off(&planned.draft.name, &paths::display_path(&target.file)));
        return Ok(());
    }
    let is_used = wait_for_host(&planned.draft.name).await;
    let next = match (is_used, target.check_startable()) {
        (true, _) => "Applications see it now.",
        (false, Ok(())) => "`hospes up` starts it.",
        (false, Err(problem)) => {
            let (name, file) = (printable(&planned.draft.name), paths::display_path(&target.file));
            output.warn(format_args!("`hospes up` cannot start {name}: {file} has a mistake: {problem}"));
            "Correct the file; then `hospes up` starts it."
        }
    };
    say_added(&planned.draft, &report, (is_used, next), target.text.trim().is_empty(), output);
    Ok(())
}

fn say_added(
    draft: &ServerDraft,
    report: &TrialReport,
    (is_used, next): (bool, &str),
    is_first: bool,
    output: CliOutput,
) {
    let (name, origin) = (&draft.name, &draft.origin);
    if output.json {
        output.value(&json!({
            "server": name,
            "registry": origin.registry,
            "version": origin.version,
            "digest": origin.digest,
            "tools": report.tools.reads + report.tools.changes,
            "running": is_used,
        }));
        return;
    }
    output.say_wrapped(view::added(name, next));
    if is_first && is_used {
        let note = "    The built-in servers, which run without a configuration, have ended.";
        output.say_wrapped(paint(output::DIM, note));
    }
    // Others would be read by a shell as more than a name.
    let is_plain = |tool: &&String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        !tool.is_empty() && !tool.starts_with('-') && tool.bytes().all(is_plain)
    };
    if let Some(tool) = report.example.as_ref().filter(is_plain) {
        let example = format!("    Try: {} {}", shown_command("call", name), printable(tool));
        output.say_wrapped(paint(output::DIM, example));
    }
}

/// Asks whether the server is started, and in which sandbox. Returns whether it is confined.
fn ask_start(planned: &PlannedServer, mut is_confined: bool, output: CliOutput) -> CliResult<bool> {
    let verb = if planned.is_installed_first() { "Install and start it?" } else { "Start it?" };
    let sandbox = planned.sandbox.as_ref().filter(|_| cfg!(target_os = "linux"));
    loop {
        let other = match (sandbox, is_confined) {
            (None, _) => "",
            (Some(_), false) => " · s with the sandbox",
            (Some(_), true) => " · s without a sandbox",
        };
        output::discard_typed_input();
        let answer = output.ask(format!("\n  {verb} [Enter yes{other} · q no] "));
        match (answer.as_deref().map(str::trim), sandbox) {
            (Some("" | "y" | "Y" | "yes"), _) => return Ok(is_confined),
            (Some("s" | "S"), Some(sandbox)) => {
                is_confined = !is_confined;
                announce(match is_confined {
                    true => view::sandbox(&sandbox.describe()),
                    false => view::sandbox("none"),
                });
            }
            (None | Some("q" | "Q" | "n" | "N" | "no"), _) => {
                return Err(CliError::usage("cancelled; nothing was changed"));
            }
            _ => announce(NOT_UNDERSTOOD),
        }
    }
}

fn show_plan(planned: &PlannedServer, output: CliOutput) -> CliResult {
    let server = planned.draft.entry()?;
    let text = servers_text(&[(server, comment(&planned.draft))]);
    if output.json {
        let origin = &planned.draft.origin;
        output.value(&json!({
            "server": planned.draft.name,
            "registry": origin.registry,
            "version": origin.version,
            "entry": text,
            "secrets": planned.draft.secrets.keys().collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    output.say(planned.screen.text());
    output.result(text.trim_end());
    Ok(())
}

/// Asks a question that Enter answers with yes.
pub(super) fn confirm(question: &str, output: CliOutput) -> bool {
    loop {
        output::discard_typed_input();
        let answer = output.ask(format!("\n{question} [Enter yes · q no] "));
        match answer.as_deref().map(str::trim) {
            Some("" | "y" | "Y" | "yes") => return true,
            Some("q" | "Q" | "n" | "N" | "no") | None => return false,
            Some(_) => announce(NOT_UNDERSTOOD),
        }
    }
}

pub(super) fn not_started(
    server: &ServerConfig,
    status: &UpstreamStatus,
    notices: &[String],
    is_confined: bool,
    end: &str,
) -> CliError {
    let notices: String = notices.iter().map(|notice| format!("\n  {}", one_line(notice))).collect();
    let failure = CliError::new(
        FailureCode::Unreachable,
        format!("the server did not start, and {end}\n  {}{notices}", view::failure(status)),
    );
    let launcher = match &server.transport {
        ServerTransport::Stdio(stdio) => launcher_remedy(
            stdio.command.reveal(),
            status.problem.as_deref().unwrap_or_default(),
            status.hint.as_deref().unwrap_or_default(),
        ),
        _ => None,
    };
    // The hint of the host is about a server of the configuration, and this one is not added.
    let is_refused = |hint: &str| hint.contains("hospes auth login") || hint.contains("hospes secret set");
    let own = match &server.transport {
        ServerTransport::Http(_) => status.hint.as_deref().filter(|hint| is_refused(hint)),
        _ => None,
    };
    let token = own.map(|_| {
        "add it with a token of yours, as `Bearer TOKEN` in a file: --header Authorization=@FILE".to_owned()
    });
    match (launcher.as_ref().or(token.as_ref()).or(status.hint.as_ref()), is_confined, notices.is_empty()) {
        (Some(hint), ..) => failure.hint(printable(hint)),
        (None, true, _) => failure.hint("it may need more than its sandbox allows: try it without"),
        (None, false, false) => failure.hint("if it needs the scripts of its packages, use --no-install"),
        (None, false, true) => failure,
    }
}

/// Names the host without which a confined server does not start.
fn denied_host(
    failure: CliError,
    status: &UpstreamStatus,
    sandbox: Option<&sandbox::ProposedSandbox>,
) -> CliError {
    let problem = status.problem.as_deref().unwrap_or_default();
    match sandbox.and_then(|sandbox| DeniedAccess::find(problem, sandbox)) {
        Some(DeniedAccess::Host(host)) => failure.hint(format!(
            "it wanted to reach {}, and its sandbox has no network. A sandbox has the network or not; to add it with the \
             network, write the entry that `--dry-run` prints into the configuration, without `network = \"none\"`",
            printable(&host)
        )),
        _ => failure,
    }
}

/// Waits until the running host, if there is one, uses the server. Returns whether it does.
async fn wait_for_host(name: &str) -> bool {
    let begun = Instant::now();
    loop {
        // Without a host there is nothing to wait for.
        let Ok((_, status)) = status::running().await else { return false };
        let found = status.servers.iter().find(|server| server.name == name);
        let limit = match found {
            Some(server) if server.state == UpstreamState::Ready => return true,
            Some(_) => HOST_WAIT,
            // It may be a host with another configuration.
            None => HOST_RELOAD,
        };
        if begun.elapsed() > limit {
            return false;
        }
        tokio::time::sleep(HOST_POLL).await;
    }
}
