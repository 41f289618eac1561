//! `hospes status`: shows the state of the running host, which it reads from the resource `hospes://status`.

use std::time::Duration;

use hospes::client::{Client, Target};
use hospes_host::HostStatus;
use hospes_host::catalogue::STATUS_URI;
use hospes_host::upstream::UpstreamStatus;

use super::up::{MARGIN, NO_POLICY, NO_SERVERS, line, preset_line};
use crate::args;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::mistake_text::mistakes_first;
use crate::output::{
    BOLD, CYAN, CliOutput, DIM, RED, YELLOW, paint, printable, result_width, table_cell, wrap_text,
};
use crate::paths;

/// Maximum time a host may take to answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: args::StatusArgs, output: CliOutput) -> CliResult {
    let (endpoint, status) = match &args.url {
        Some(url) if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) => {
            let form = "expected the URL of a host, such as http://127.0.0.1:7337/mcp";
            return Err(CliError::usage(format!("{form}, got `{url}`")));
        }
        Some(url) => (url.clone(), ask(url, None).await?),
        None => running().await?,
    };
    if output.json {
        let mut value = serde_json::to_value(&status).unwrap_or_default();
        value["endpoint"] = endpoint.into();
        output.value(&value);
        return Ok(());
    }
    let mut text = format!(
        "{} {}  {}  {}\n",
        paint(BOLD, "hospes"),
        printable(&status.version),
        paint(CYAN, &endpoint),
        paint(DIM, format!("process {}, up {}", status.pid, duration(status.uptime_ms)))
    );
    for server in &status.servers {
        text.push_str(&format!("  {}\n", line(server, result_width())));
        text.push_str(&process(server, result_width()));
    }
    if status.servers.is_empty() && status.left_out.is_empty() {
        text.push_str(&format!("  {}: {NO_SERVERS}\n", paint(YELLOW, "no servers")));
    }
    for (name, why) in &status.left_out {
        text.push_str(&left_out(name, why, result_width()));
    }
    for profile in &status.profiles {
        let servers: Vec<String> = profile.servers.iter().map(|server| printable(server)).collect();
        text.push_str(&format!(
            "  {} {} {}  {}\n",
            paint(DIM, "profile"),
            table_cell(&profile.name, 16),
            paint(CYAN, format!("{endpoint}/{}", printable(&profile.name))),
            paint(DIM, servers.join(", "))
        ));
    }
    for one in &status.file_problems {
        let since = one.since.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M");
        let said = format!(
            "warning: {} has had a mistake since {since}, and what it said before remains in effect: {}",
            printable(&one.file),
            printable(&one.problem)
        );
        let folded = wrap_text(&said, 2, result_width());
        text.push_str(&format!("{}\n", folded.replacen("warning", &paint(YELLOW, "warning"), 1)));
    }
    for collision in &status.collisions {
        text.push_str(&format!("  {}: {}\n", paint(YELLOW, "warning"), printable(collision)));
    }
    if let Some(node) = &status.node {
        let reached = format!("reached by the others at {}", printable(&node.address));
        text.push_str(&format!("  {}: {reached}\n", paint(DIM, "node")));
        if let Some(problem) = &node.problem {
            let said = format!("warning: sessions of older revisions are not served: {}", printable(problem));
            let folded = wrap_text(&said, 2, result_width());
            text.push_str(&format!("{}\n", folded.replacen("warning", &paint(YELLOW, "warning"), 1)));
        }
    }
    if let Some(preset) = status.preset {
        text.push_str(&format!("  {}: {}\n", paint(DIM, "guard"), preset_line(preset)));
    }
    if status.without_policy {
        text.push_str(&format!("  {}: {NO_POLICY}\n", paint(YELLOW, "policy")));
    }
    if let Some(problem) = &status.record_problem {
        text.push_str(&format!("  {}: {}\n", paint(YELLOW, "warning"), printable(problem)));
    }
    output.result(text.trim_end());
    Ok(())
}

/// Describes a server that was not started.
fn left_out(name: &str, why: &str, width: Option<usize>) -> String {
    let name = table_cell(name, 16);
    if why == "disabled" {
        return format!("  {} {name} {}\n", paint(DIM, "-"), paint(DIM, why));
    }
    let why = wrap_text(&printable(&mistakes_first(why)), MARGIN, width);
    format!("  {} {name} {}\n{}\n", paint(RED, "✗"), paint(RED, "not started"), paint(DIM, why))
}

/// Describes what a server is sent and how its process was started, without cutting anything.
fn process(server: &UpstreamStatus, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut row = |what: &str, style: &str, said: &str| {
        let folded = wrap_text(&format!("{what}: {}", printable(said)), MARGIN, width);
        text.push_str(&format!("{}\n", paint(style, folded)));
    };
    if !server.roots.is_empty() {
        row("roots", DIM, &server.roots.join(" "));
    }
    let Some(process) = &server.process else { return text };
    row("command", DIM, &process.command);
    // Without a sandbox, only what is special about the system: elsewhere it is the choice of the configuration.
    if process.sandbox.is_some() || !hospes_sandbox::SandboxHelper::is_supported() {
        row("sandbox", DIM, &process.permissions_text());
    }
    if !process.loader_variables.is_empty() {
        row("loader variables", YELLOW, &process.loader_variables.join(", "));
    }
    text
}

/// Returns the status of the host that runs here, with its endpoint.
pub(super) async fn running() -> CliResult<(String, HostStatus)> {
    for (file, note) in paths::list_host_notes() {
        match ask(&note.endpoint, note.token.as_deref()).await {
            Ok(status) if status.pid == note.pid => return Ok((note.endpoint, status)),
            // Another host has taken over the port.
            Ok(_) => paths::remove_host_note(&file),
            Err(failure) => {
                tracing::debug!(endpoint = note.endpoint, %failure, "recorded host does not answer");
                // A host that is busy or still starting keeps its note.
                if !is_alive(note.pid) {
                    paths::remove_host_note(&file);
                }
            }
        }
    }
    Err(CliError::new(FailureCode::Unreachable, "no host is running here")
        .hint("start one with `hospes up`, or give its URL"))
}

async fn ask(url: &str, token: Option<&str>) -> CliResult<HostStatus> {
    let work = async {
        let mut target = Target::url(url);
        if let Some(token) = token {
            target = target.header("authorization", format!("Bearer {token}"));
        }
        let client = Client::builder().connect_timeout(STATUS_TIMEOUT).connect(target).await?;
        let wrong =
            |why| CliError::new(FailureCode::Unreachable, format!("{url} is not a Hospes host: {why}"));
        of(&client).await.map_err(wrong)
    };
    let late = |_| {
        CliError::new(FailureCode::Unreachable, format!("{url} did not answer within {STATUS_TIMEOUT:?}"))
    };
    tokio::time::timeout(STATUS_TIMEOUT, work).await.map_err(late)?
}

/// Reads the status of the connected host. Returns the reason if it has none.
pub(crate) async fn of(host: &Client) -> Result<HostStatus, String> {
    let read = host.read(STATUS_URI).await.map_err(|error| error.to_string())?;
    let text = read.contents.first().and_then(|contents| contents.as_text());
    let text = text.ok_or_else(|| format!("{STATUS_URI} has no text"))?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn is_alive(pid: u32) -> bool {
    // On other systems than Linux, the note stays until its host removes it.
    !cfg!(target_os = "linux") || std::path::Path::new(&format!("/proc/{pid}")).exists()
}

fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
