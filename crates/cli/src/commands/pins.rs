//! `hospes pins`: compares what servers offer with the accepted definitions. It works on the state file; a running host
//! applies changes immediately.

use std::fmt::Write as _;

use hospes_host::pins::{
    DefinitionDifference, ItemKind, Lint, PinManager as Pinned, PinManagerError, PinState, PinnedItem,
    PinnedServer, Sha256Digest,
};
use hospes_host::{PinMode, PinningConfig};
use jiff::Timestamp;

use crate::args::{PinsAcceptArgs, PinsCommand, PinsItemArgs, PinsShowArgs};
use crate::exit::{CliError, CliResult};
use crate::fleet::SharedState;
use crate::output::{
    BOLD, CYAN, CliOutput, DIM, GREEN, RED, YELLOW, announce, is_interactive, one_line, paint, printable,
    table_cell,
};
use crate::shown_commands::shown_command;
use crate::{deciders, enforcement, paths};

/// Maximum number of lines shown of one text.
const MAX_LINES: usize = 60;

pub(crate) async fn run(args: PinsCommand, output: CliOutput) -> CliResult {
    let state = match SharedState::of_default_config().await? {
        Some(shared) => shared.command_state()?,
        // Before `enforcement::open_state()`, which would create an empty state file.
        None if paths::state_file().is_none_or(|file| !file.is_file()) => {
            return Err(CliError::usage("no server that is not built in has been seen yet")
                .hint("`hospes up` starts the servers of your configuration"));
        }
        None => {
            let Some(state) = enforcement::open_state()? else { return Ok(()) };
            state
        }
    };
    let mut pinning = PinningConfig::new(state, PinMode::Ask);
    // If there is an audit log, decisions are recorded in it.
    if paths::audit_files().is_some_and(|(file, _)| file.is_file())
        && let Some(audit) = enforcement::open_audit()?
    {
        pinning = pinning.with_audit(audit);
    }
    let pins = pinning.offline();
    match args {
        PinsCommand::List => list(&pins, output).await,
        PinsCommand::Show(args) => show(&pins, &args, output).await,
        PinsCommand::Accept(args) => accept(&pins, &args, output).await,
        PinsCommand::Reject(args) => reject(&pins, &args, output).await,
        PinsCommand::History(args) => history(&pins, &args, output).await,
    }
}

async fn list(pins: &Pinned, output: CliOutput) -> CliResult {
    let all = pins.list().await.map_err(failed)?;
    if output.json {
        output.value(&all);
        return Ok(());
    }
    if all.is_empty() {
        output.say("no server that is not built in has been seen yet");
        return Ok(());
    }
    let lines: Vec<String> = all.iter().map(line).collect();
    output.result(lines.join("\n"));
    Ok(())
}

/// Formats one server on one line.
fn line(server: &PinnedServer) -> String {
    let count = |state| server.items.iter().filter(|item| item.state == state).count();
    let waiting = count(PinState::New) + count(PinState::Changed);
    let lints: usize = server.lints.len() + server.items.iter().map(|item| item.lints.len()).sum::<usize>();
    let mut rest = vec![format!("{} offered", server.items.len())];
    if waiting > 0 {
        rest.push(format!("{waiting} waiting"));
    }
    if count(PinState::Rejected) > 0 {
        rest.push(format!("{} rejected", count(PinState::Rejected)));
    }
    if lints > 0 {
        rest.push(format!("warnings: {lints}"));
    }
    let state = paint(colour(server.state), format!("{:<9}", server.state.as_str()));
    let shown = one_line(&server.fingerprint.shown);
    format!(
        "{state} {} {}  {}",
        table_cell(&one_line(&server.server), 16),
        rest.join(", "),
        paint(DIM, shown)
    )
}

fn colour(state: PinState) -> &'static str {
    match state {
        PinState::Accepted => GREEN,
        PinState::Rejected => RED,
        _ => YELLOW,
    }
}

async fn show(pins: &Pinned, args: &PinsShowArgs, output: CliOutput) -> CliResult {
    let server = pins.server(&args.of.server).await.map_err(failed)?;
    let wanted = args.of.item.as_deref().map(item).transpose()?;
    let mut differences = Vec::new();
    for one in &server.items {
        let is_wanted = match &wanted {
            Some((kind, name)) => one.kind == *kind && one.name == *name,
            None => args.all || one.state != PinState::Accepted,
        };
        if is_wanted {
            differences.push(pins.difference(&server.server, one.kind, &one.name).await.map_err(failed)?);
        }
    }
    if let Some((kind, name)) = wanted.filter(|_| differences.is_empty()) {
        return Err(failed(PinManagerError::NoItem { server: server.server, kind, name }));
    }
    if output.json {
        output.value(&serde_json::json!({ "server": server, "differences": differences }));
        return Ok(());
    }
    output.result(shown(&server, &differences, MAX_LINES));
    Ok(())
}

/// Formats a server and its definitions for people.
fn shown(server: &PinnedServer, differences: &[DefinitionDifference], most: usize) -> String {
    let mut text = String::new();
    let state = paint(colour(server.state), server.state.as_str());
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{}  {state}", paint(BOLD, one_line(&server.server)));
    let by = server.decided_by.as_deref().zip(server.decided_at);
    if let Some((by, at)) = by {
        let _ = writeln!(text, "  {}", paint(DIM, format!("decided {} by {}", moment(at), one_line(by))));
    }
    let now = &server.fingerprint;
    let mut row = |word: &str, was: Option<&str>, is: Option<&str>| {
        let Some(is) = is else { return };
        if let Some(was) = was.filter(|was| *was != is) {
            let _ = writeln!(text, "  {:<9}{}", word, paint(RED, format!("- {}", one_line(was))));
            let _ = writeln!(text, "  {:<9}{}", "", paint(GREEN, format!("+ {}", one_line(is))));
        } else {
            let _ = writeln!(text, "  {word:<9}{}", one_line(is));
        }
    };
    let before = server.before.as_ref();
    row("command", before.map(|before| before.shown.as_str()), Some(&now.shown));
    row("program", before.and_then(|before| before.program.as_deref()), now.program.as_deref());
    let hash = |digest: Option<Sha256Digest>| digest.map(|digest| digest.to_string());
    let (was, is) = (hash(before.and_then(|before| before.program_hash)), hash(now.program_hash));
    row("sha-256", was.as_deref(), is.as_deref());
    lints(&mut text, &server.lints, 2);
    for difference in differences {
        one(&mut text, difference, most);
    }
    // This cannot underflow, because the differences are of items of this server.
    let others = server.items.len() - differences.len();
    if others > 0 {
        let _ = writeln!(
            text,
            "\n  {}",
            paint(DIM, format!("and {others} more accepted items (--all shows them)"))
        );
    }
    let _ = write!(text, "\n  {} {}", paint(DIM, "hash of the server"), server.hash);
    text
}

fn one(text: &mut String, difference: &DefinitionDifference, most: usize) {
    let item = &difference.item;
    let state = paint(colour(item.state), item.state.as_str());
    let _ = writeln!(text, "\n  {} {}  {state}", item.kind.as_str(), paint(BOLD, one_line(&item.name)));
    // Warnings first, because a person must not overlook them.
    lints(text, &item.lints, 4);
    // The item's name is printed above.
    for change in difference.changes.iter().filter(|change| change.at != "name") {
        let _ = writeln!(text, "    {}", paint(CYAN, one_line(&change.at)));
        for (sign, colour, side) in [("-", RED, &change.before), ("+", GREEN, &change.after)] {
            let Some(side) = side else { continue };
            let lines = side.lines().count();
            for line in side.lines().take(most) {
                let _ = writeln!(text, "      {}", paint(colour, format!("{sign} {}", printable(line))));
            }
            if lines > most {
                let more = format!("{sign} … and {} more lines", lines - most);
                let _ = writeln!(text, "      {}", paint(colour, more));
            }
        }
    }
    if difference.changes.is_empty()
        && let Some(after) = &difference.after
    {
        let after = serde_json::to_string_pretty(after).unwrap_or_default();
        for line in hospes_policy::visible(&after).lines().take(most) {
            let _ = writeln!(text, "      {}", printable(line));
        }
    }
    let _ = writeln!(text, "    {} {}", paint(DIM, "hash"), item.hash);
}

fn lints(text: &mut String, lints: &[Lint], margin: usize) {
    for lint in lints {
        let at = if lint.at.is_empty() { String::new() } else { format!("{}: ", one_line(&lint.at)) };
        let _ = writeln!(text, "{:margin$}{} {at}{}", "", paint(YELLOW, "warning"), one_line(&lint.text));
    }
}

async fn accept(pins: &Pinned, args: &PinsAcceptArgs, output: CliOutput) -> CliResult {
    // First, so that a program that may not decide is refused before anything is shown or asked.
    let by = deciders::decider().await?;
    let name = &args.of.server;
    let server = pins.server(name).await.map_err(failed)?;
    let wanted = args.of.item.as_deref().map(item).transpose()?;
    let found: Option<&PinnedItem> = match &wanted {
        None => None,
        Some((kind, name)) => {
            let found = server.items.iter().find(|one| one.kind == *kind && one.name == *name);
            Some(found.ok_or_else(|| {
                failed(PinManagerError::NoItem {
                    server: server.server.clone(),
                    kind: *kind,
                    name: name.clone(),
                })
            })?)
        }
    };
    let hash = match args.hash {
        Some(hash) => hash,
        // Exactly the shown definitions are accepted: a change in between is refused.
        None => {
            let is_accepted = found.map_or_else(
                || server.items.iter().all(|one| one.state == PinState::Accepted),
                |found| found.state == PinState::Accepted,
            );
            if is_accepted && server.state == PinState::Accepted {
                let what = args.of.item.as_deref().unwrap_or(&server.server);
                output.say(format_args!("{} is accepted already", printable(what)));
                return done(&server, output);
            }
            if !args.yes {
                ask(pins, &server, found, output).await?;
            }
            found.map_or(server.hash, |found| found.hash)
        }
    };
    let about = wanted.as_ref().map(|(kind, name)| (*kind, name.as_str()));
    let server = pins.accept(name, about, hash, &by).await.map_err(failed)?;
    done(&server, output)
}

/// Shows what would be accepted and asks for confirmation.
async fn ask(
    pins: &Pinned,
    server: &PinnedServer,
    found: Option<&PinnedItem>,
    output: CliOutput,
) -> CliResult {
    if output.json || !is_interactive() {
        return Err(CliError::usage("cannot ask for confirmation without a terminal").hint(format!(
            "`{}` prints the hash; accept it with `--hash`, or accept the current state with `--yes`",
            shown_command("pins show", &server.server)
        )));
    }
    let mut differences = Vec::new();
    // Shown in full: nothing is accepted that was not shown.
    let waits = server.items.iter().filter(|one| one.state != PinState::Accepted);
    for one in waits.filter(|one| found.is_none_or(|found| found == *one)) {
        differences.push(pins.difference(&server.server, one.kind, &one.name).await.map_err(failed)?);
    }
    announce(shown(server, &differences, usize::MAX));
    let question = format!("\nAccept {}? [y/N] ", accepted(server, &differences));
    let answer = tokio::task::spawn_blocking(move || output.ask(&question)).await.ok().flatten();
    match answer.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => Ok(()),
        _ => Err(CliError::usage("nothing was accepted")),
    }
}

/// Describes the items that would be accepted: `1 changed tool: send_email`.
fn accepted(server: &PinnedServer, differences: &[DefinitionDifference]) -> String {
    let mut parts = Vec::new();
    if server.state != PinState::Accepted && (server.state != PinState::Changed || server.before.is_some()) {
        parts.push(format!("the server {}", one_line(&server.server)));
    }
    for state in [PinState::Changed, PinState::New, PinState::Rejected] {
        let of: Vec<&DefinitionDifference> =
            differences.iter().filter(|one| one.item.state == state).collect();
        let names: Vec<String> = of
            .iter()
            .map(|one| match one.item.name.as_str() {
                "" => one.item.kind.as_str().to_owned(),
                name => one_line(name),
            })
            .collect();
        if names.is_empty() {
            continue;
        }
        let items = if names.len() == 1 { "item" } else { "items" };
        parts.push(format!("{} {} {items}: {}", names.len(), state.as_str(), names.join(", ")));
    }
    if parts.is_empty() { "it".to_owned() } else { parts.join(" and ") }
}

async fn reject(pins: &Pinned, args: &PinsItemArgs, output: CliOutput) -> CliResult {
    let by = deciders::decider().await?;
    let wanted = args.item.as_deref().map(item).transpose()?;
    let about = wanted.as_ref().map(|(kind, name)| (*kind, name.as_str()));
    let server = pins.reject(&args.server, about, &by).await.map_err(failed)?;
    done(&server, output)
}

fn done(server: &PinnedServer, output: CliOutput) -> CliResult {
    if output.json {
        output.value(server);
    } else {
        output.result(line(server));
    }
    Ok(())
}

async fn history(pins: &Pinned, args: &PinsItemArgs, output: CliOutput) -> CliResult {
    let wanted = args.item.as_deref().map(item).transpose()?;
    let about = wanted.as_ref().map(|(kind, name)| (*kind, name.as_str()));
    let all = pins.history(&args.server, about).await.map_err(failed)?;
    if output.json {
        output.value(&all);
        return Ok(());
    }
    let mut text = String::new();
    for one in &all {
        let item = &one.item;
        let state = format!("{:?}", item.state).to_lowercase();
        let now = if item.is_current { "now" } else { "   " };
        let _ = writeln!(
            text,
            "{}  {now}  {state:<8}  {} {}  {}",
            paint(DIM, moment(item.seen_at)),
            item.kind.as_str(),
            one_line(&item.name),
            paint(DIM, item.hash)
        );
        if wanted.is_some() {
            let definition = one.definition.as_deref().unwrap_or("(definition too long to be stored)");
            let _ = writeln!(text, "    {}", printable(&hospes_policy::visible(definition)));
        }
    }
    output.result(text.trim_end());
    Ok(())
}

fn moment(at: i64) -> impl std::fmt::Display {
    let at = Timestamp::from_microsecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Parses an item on the command line; the kind is a tool unless given.
fn item(text: &str) -> CliResult<(ItemKind, String)> {
    // Only `KIND:NAME` is split, because a tool may itself be named `prompt`.
    let found = ItemKind::ALL
        .into_iter()
        .find_map(|kind| Some((kind, text.strip_prefix(kind.as_str())?.strip_prefix(':')?)));
    match found {
        Some((kind, name)) => Ok((kind, name.to_owned())),
        None if text == ItemKind::Instructions.as_str() => Ok((ItemKind::Instructions, String::new())),
        None if text.is_empty() => Err(CliError::usage("expected a tool name")),
        None => Ok((ItemKind::Tool, text.to_owned())),
    }
}

fn failed(error: PinManagerError) -> CliError {
    let failure = CliError::usage(crate::exit::error_chain(&error));
    match error {
        PinManagerError::NoServer(_) => failure.hint("`hospes pins list` lists the known servers"),
        PinManagerError::NoItem { server, .. } => {
            failure.hint(format!("`{}` lists what it offers", shown_command("pins show --all", &server)))
        }
        PinManagerError::Changed(server) => {
            failure.hint(format!("review it again: `{}`", shown_command("pins show", &server)))
        }
        _ => failure,
    }
}
