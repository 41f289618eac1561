//! What `hospes import` prints. No value of a variable or header is shown.

use std::collections::BTreeSet;
use std::path::Path;

use hospes_host::config::ServerTransport;
use hospes_host::config::import::required_variables;
use serde_json::{Value, json};

use super::plan::{ImportPlan, PlannedServer, ServerState};
use crate::output::{
    BOLD, CliOutput, DIM, GREEN, YELLOW, one_line, paint, printable, shell_word, table_cell, widest,
};
use crate::paths;

/// Prints the files and the servers.
pub(super) fn show(plan: &ImportPlan, file: &Path, output: CliOutput) {
    let mut lines = Vec::new();
    for (file, count) in &plan.files {
        let name = table_cell(file.application.name, 16);
        let servers = if *count == 1 { "1 server".to_owned() } else { format!("{count} servers") };
        let path = printable(&paths::display_path(&file.path));
        lines.push(format!("{}{path}  {}", paint(BOLD, name), paint(DIM, servers)));
    }
    if !plan.servers.is_empty() {
        lines.push(String::new());
    }
    let width = widest(plan.servers.iter().map(|one| one.found.server.name.as_str()));
    for planned in &plan.servers {
        lines.push(server_line(planned, width, file));
        lines.extend(notes(planned).into_iter().map(|note| format!("    {}", paint(DIM, note))));
    }
    for refused in &plan.refused {
        let name = format!("{}:{}", refused.origin.id(), refused.name);
        lines.push(format!(
            "{} {}  cannot be taken over: {}",
            paint(YELLOW, "x"),
            printable(&name),
            printable(&refused.reason)
        ));
    }
    for (path, problem) in &plan.unreadable {
        let path = printable(&paths::display_path(path));
        lines.push(format!("{} {path}  cannot be read: {}", paint(YELLOW, "x"), printable(problem)));
    }
    if !lines.is_empty() {
        output.result_wrapped(lines.join("\n"));
    }
}

fn server_line(planned: &PlannedServer, width: usize, file: &Path) -> String {
    let server = &planned.found.server;
    let origins: Vec<String> = planned.found.origins.iter().map(|origin| origin.id()).collect();
    let (sign, state) = match planned.state {
        ServerState::New if planned.is_selected => (paint(GREEN, "+"), String::new()),
        ServerState::New if planned.found.is_of_project() => {
            (paint(DIM, "-"), "of this project: --project or --server takes it".to_owned())
        }
        ServerState::New => (paint(DIM, "-"), String::new()),
        ServerState::Present => (paint(DIM, "="), format!("already in {}", paths::display_path(file))),
        ServerState::NameTaken => {
            let (file, name) = (paths::display_path(file), shell_word(&one_line(&server.name)));
            let state = format!("{file} has another server of this name: --rename {name}=NEW takes this one");
            (paint(YELLOW, "!"), state)
        }
        ServerState::Conflict => {
            let name = planned.qualified_names().into_iter().next().unwrap_or_default();
            (
                paint(YELLOW, "!"),
                format!("applications differ: --server {} takes this one", shell_word(&one_line(&name))),
            )
        }
    };
    let state = if state.is_empty() { state } else { format!("  {}", paint(YELLOW, state)) };
    format!(
        "{sign} {}  {}  {}{state}",
        table_cell(&server.name, width),
        printable(&server.transport.to_string()),
        paint(DIM, format!("from {}", printable(&origins.join(", ")))),
    )
}

/// Explains what a server needs.
fn notes(planned: &PlannedServer) -> Vec<String> {
    let mut notes = Vec::new();
    if planned.found.server.disabled {
        notes.push("switched off in the application, and imported so".to_owned());
    }
    notes.extend(planned.found.left_out.iter().map(|text| printable(text)));
    if !planned.is_selected {
        return notes;
    }
    if !planned.secrets.is_empty() {
        notes.push(format!("stored encrypted: {}", printable(&planned.secrets.join(", "))));
    }
    if let ServerTransport::Http(http) = &planned.server.transport
        && http.url.to_string().starts_with("http://")
        && !http.plain_http
        && !is_local(http.url.reveal())
    {
        notes.push("needs `plain_http = true` in its table, because its URL is not encrypted".to_owned());
    }
    let unset: Vec<String> = required_variables(&planned.server)
        .into_iter()
        .filter(|name| std::env::var_os(name).is_none())
        .collect();
    if !unset.is_empty() {
        notes.push(format!(
            "needs these environment variables, which are not set: {}",
            printable(&unset.join(", "))
        ));
    }
    for name in &planned.missing {
        notes.push(format!("needs a secret: `hospes secret set {name}`"));
    }
    notes
}

/// Returns true if a URL leads to this machine.
fn is_local(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Prints what was done, or how to do it.
pub(super) fn conclude(plan: &ImportPlan, file: &Path, imported: bool, asked: bool, output: CliOutput) {
    let count = plan.selected().count();
    let servers = if count == 1 { "1 server".to_owned() } else { format!("{count} servers") };
    let file = paths::display_path(file);
    if imported {
        output.say_wrapped(format_args!("imported {servers} into {file}"));
        let next = match paths::list_host_notes().is_empty() {
            true => "`hospes up` starts them",
            false => "the running host starts them",
        };
        output.hint(format_args!("{next}; the files of the applications were not changed"));
        let differs = |one: &&PlannedServer| one.state == ServerState::Conflict && !one.is_selected;
        let names: BTreeSet<&str> =
            plan.servers.iter().filter(differs).map(|one| one.found.server.name.as_str()).collect();
        for name in names {
            output.warn(format_args!(
                "`{}` was not imported, because applications differ; the list names the choices",
                printable(name)
            ));
        }
        for planned in plan.selected() {
            for name in &planned.missing {
                output.hint(format_args!(
                    "`hospes secret set {name}` stores what `{}` needs",
                    printable(&planned.server.name)
                ));
            }
        }
    } else if count > 0 {
        output.say("nothing was changed");
        if !asked {
            output.hint(format_args!("`hospes import --yes` imports {servers} into {file}"));
        }
    } else if plan.servers.is_empty() && plan.refused.is_empty() {
        output.say("no application with MCP servers was found");
        output.hint("`hospes import FILE` reads any file with servers");
    } else {
        output.say("nothing to import");
    }
}

/// Prints the plan as JSON.
pub(super) fn print_json(plan: &ImportPlan, file: &Path, imported: bool, output: CliOutput) {
    let origin = |origin: &hospes_host::config::import::ServerOrigin| {
        json!({
            "source": origin.id(),
            "scope": origin.scope.as_str(),
            "file": origin.source.file(),
            "line": origin.source.line(),
        })
    };
    let files: Vec<Value> = plan
        .files
        .iter()
        .map(|(file, count)| {
            json!({
                "application": file.application.id,
                "scope": file.scope.as_str(),
                "file": file.path,
                "servers": count,
            })
        })
        .collect();
    let servers: Vec<Value> = plan
        .servers
        .iter()
        .map(|planned| {
            let server = &planned.found.server;
            json!({
                "name": server.name,
                "state": planned.state.as_str(),
                "selected": planned.is_selected,
                "digest": planned.digest,
                "transport": server.transport.kind(),
                "target": server.transport.to_string(),
                "disabled": server.disabled,
                "origins": planned.found.origins.iter().map(origin).collect::<Vec<_>>(),
                "secrets": planned.secrets,
                "missingSecrets": planned.missing,
                "variables": required_variables(&planned.server),
            })
        })
        .collect();
    let refused: Vec<Value> = plan
        .refused
        .iter()
        .map(|refused| json!({ "name": refused.name, "origin": origin(&refused.origin), "reason": refused.reason }))
        .collect();
    let unreadable: Vec<Value> =
        plan.unreadable.iter().map(|(file, reason)| json!({ "file": file, "reason": reason })).collect();
    output.value(&json!({
        "config": file,
        "imported": imported,
        "files": files,
        "servers": servers,
        "refused": refused,
        "unreadable": unreadable,
    }));
}
