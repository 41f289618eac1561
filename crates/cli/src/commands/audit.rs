//! `hospes audit`: searches, summarizes, verifies and exports the audit log of this machine, or that of all nodes.

mod export;
mod syslog;
mod verify;

use hospes_store::{AuditDigest, AuditEntryKind, AuditOutcome, AuditQuery, AuditReader, RecordedEntry};
use jiff::{SignedDuration, Timestamp};

pub(crate) use self::syslog::SyslogUrl;
use crate::args::{AuditCommand, AuditDigestArgs, AuditSearchArgs, AuditSourceArgs};
use crate::enforcement::{audit_error, open_audit};
use crate::exit::{CliError, CliResult};
use crate::fleet::{SharedState, shared_audit};
use crate::output::{
    CliOutput, DIM, GREEN, RED, YELLOW, paint, printable, result_width, table_cell, widest, wrap_lines,
};
use crate::paths;

/// Column in which what continues a row begins: below its time.
const ROW_INDENT: usize = 7;

pub(crate) async fn run(args: AuditCommand, output: CliOutput) -> CliResult {
    let source = match &args {
        AuditCommand::Search(args) => &args.source,
        AuditCommand::Digest(args) => &args.source,
        AuditCommand::Verify(args) => &args.source,
        AuditCommand::Export(args) => &args.source,
    };
    let Some(record) = open_reader(source, output).await? else { return Ok(()) };
    match args {
        AuditCommand::Search(args) => search(&record, args, output).await,
        AuditCommand::Digest(args) => digest(&record, &args, output).await,
        AuditCommand::Verify(args) => verify::verify(&record, &args, output).await,
        AuditCommand::Export(args) => export::export(&record, &args, output).await,
    }
}

/// Opens the record of all nodes if the configuration has a fleet, and else the log of this machine.
async fn open_reader(source: &AuditSourceArgs, output: CliOutput) -> CliResult<Option<AuditReader>> {
    if !source.local {
        let of_nodes =
            |failure: CliError| failure.hint("`--local` reads the audit log of this machine alone");
        match SharedState::is_configured() {
            Ok(false) => (),
            Ok(true) => {
                let shared = SharedState::of_default_config().await.map_err(of_nodes)?;
                let record = shared.map(|shared| shared_audit(&shared.state)).transpose()?.flatten();
                if let Some(record) = record {
                    return Ok(Some(AuditReader::Shared(record)));
                }
            }
            // The log of a machine is needed most when something is wrong with it.
            Err(_) => output.warn(
                "the configuration cannot be read, so this is the audit log of this machine alone; \
                 `hospes doctor` says what is wrong",
            ),
        }
    }
    // Before `open_audit()`, which would create an empty log.
    if paths::audit_files().is_none_or(|(file, _)| !file.is_file()) {
        return Err(CliError::usage("there is no audit log yet")
            .hint("`hospes up` records the calls made through it"));
    }
    Ok(open_audit()?.map(AuditReader::Local))
}

async fn search(record: &AuditReader, args: AuditSearchArgs, output: CliOutput) -> CliResult {
    if args.node.is_some() && matches!(record, AuditReader::Local(_)) {
        return Err(CliError::usage(
            "--node needs the record of several nodes, and the configuration has no `[fleet]`",
        ));
    }
    let mut search = AuditQuery::new().with_limit(args.limit);
    search.text = args.text;
    search.kind = args.kind;
    search.server = args.server;
    search.subject = args.tool;
    (search.decision, search.node) = (args.decision, args.node);
    search.since = args.since;
    // With `--json`, scripts group the entries themselves.
    if output.json {
        let found = record.search(search).await.map_err(|error| audit_error(&error))?;
        output.value(&found);
        return Ok(());
    }
    let found = match args.each {
        true => record.search(search).await.map(|found| found.into_iter().map(|one| (one, None)).collect()),
        false => record.search_gathered(search).await.map(|found| {
            let found = found.into_iter();
            found.map(|one| (one.recorded, (one.count > 1).then_some((one.count, one.first_at)))).collect()
        }),
    };
    let found: Vec<(RecordedEntry, Option<(u64, i64)>)> = found.map_err(|error| audit_error(&error))?;
    if found.is_empty() {
        output.say("no matching entries");
        return Ok(());
    }
    // The newest entry comes last, next to the prompt of the shell.
    let lines: Vec<String> = found.iter().rev().map(|(one, times)| line(one, *times)).collect();
    output.result(wrap_lines(&lines.join("\n"), ROW_INDENT, result_width()));
    Ok(())
}

/// Default time range of a digest.
const DIGEST_RANGE: SignedDuration = SignedDuration::from_hours(24);

async fn digest(record: &AuditReader, args: &AuditDigestArgs, output: CliOutput) -> CliResult {
    let until = Timestamp::now();
    let since = args.since.unwrap_or_else(|| until.saturating_sub(DIGEST_RANGE).unwrap_or(Timestamp::MIN));
    let digest = record.digest(since, until).await.map_err(|error| audit_error(&error))?;
    if output.json {
        output.value(&digest);
        return Ok(());
    }
    output.result(digest_text(&digest));
    Ok(())
}

/// Formats a digest for people.
fn digest_text(digest: &AuditDigest) -> String {
    let mut lines = vec![paint(DIM, format!("since {}", moment(digest.since.as_microsecond())))];
    if digest.servers.is_empty() {
        lines.push("no calls".to_owned());
    }
    let width = widest(digest.servers.iter().map(|one| one.server.as_str())).max(6);
    for (at, one) in digest.servers.iter().enumerate() {
        if at == 0 {
            let names = format!(
                "{:<width$}  {:>6}  {:>6}  {:>7}  {:>6}",
                "server", "calls", "asked", "allowed", "denied"
            );
            lines.push(paint(DIM, names));
        }
        let server = table_cell(&one.server, width);
        lines.push(format!(
            "{server}  {:>6}  {:>6}  {:>7}  {:>6}",
            one.calls, one.asked, one.allowed, one.denied
        ));
    }
    let mut part = |name: &str, all: Vec<String>| {
        if !all.is_empty() {
            lines.push(String::new());
            lines.push(name.to_owned());
            lines.extend(all.into_iter().map(|words| format!("  {words}")));
        }
    };
    let passed = digest.passed.iter().map(|one| {
        let times = if one.calls == 1 { String::new() } else { format!(", {} times", one.calls) };
        format!("{} {}{times}", printable(&one.server), printable(&one.subject))
    });
    part("passed without a question after text that others wrote", passed.collect());
    part("new servers", digest.new_servers.iter().map(|name| printable(name)).collect());
    let firsts = digest.first_uses.iter();
    part(
        "first uses",
        firsts.map(|(server, name)| format!("{} {}", printable(server), printable(name))).collect(),
    );
    if digest.is_cut {
        lines.push(paint(DIM, "only the newest entries were counted"));
    }
    lines.join("\n")
}

fn moment(micros: i64) -> String {
    let at = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats one entry for people. `times` is the number of consecutive identical entries and the time of the first.
fn line(one: &RecordedEntry, times: Option<(u64, i64)>) -> String {
    let entry = &one.entry;
    let at = moment(entry.at);
    let (colour, word) = match (entry.ending, entry.decision.as_deref()) {
        // For a server, the recorded event (`started`, `exited`) says more than its outcome.
        (Some(ending), Some(what)) if entry.kind == AuditEntryKind::Server => match ending {
            AuditOutcome::Refused => (RED, what),
            AuditOutcome::Failed => (YELLOW, what),
            _ => (GREEN, what),
        },
        (Some(AuditOutcome::Refused), Some("expired")) => (YELLOW, "expired"),
        (Some(AuditOutcome::Refused), _) => (RED, "refused"),
        (Some(AuditOutcome::ToolError), _) => (YELLOW, "tool error"),
        (Some(AuditOutcome::Failed), _) => (RED, "failed"),
        (Some(AuditOutcome::Cancelled), _) => (YELLOW, "cancelled"),
        (Some(AuditOutcome::Asked), _) => (GREEN, "asked"),
        (None, Some(decision @ ("deny" | "reject" | "changed" | "new"))) => (YELLOW, decision),
        (None, Some(decision)) => (GREEN, decision),
        _ => (GREEN, "done"),
    };
    let what = [entry.server.as_deref(), entry.subject.as_deref()];
    let what = what.into_iter().flatten().map(printable).collect::<Vec<_>>().join(" ");
    let mut rest = Vec::new();
    rest.extend(one.origin.as_ref().map(|origin| printable(&origin.node)));
    rest.extend(times.map(|(count, first)| format!("{count} times since {}", moment(first))));
    rest.extend(entry.how.as_deref().map(printable));
    rest.extend(entry.micros.map(|micros| format!("{:.1} ms", micros as f64 / 1000.0)));
    rest.extend(entry.principal.as_deref().map(printable));
    rest.extend(entry.application.as_deref().map(printable));
    rest.extend(entry.profile.as_deref().map(|profile| format!("profile {}", printable(profile))));
    rest.extend(entry.by.as_deref().map(printable));
    rest.extend(entry.sandbox.as_deref().map(printable));
    rest.extend(entry.scope.as_deref().filter(|scope| *scope != "once").map(printable));
    format!(
        "{} {}  {}  {what}  {}",
        paint(DIM, format!("{:>6}", one.seq)),
        paint(DIM, at),
        paint(colour, format!("{word:<10}")),
        paint(DIM, rest.join(" · "))
    )
}
