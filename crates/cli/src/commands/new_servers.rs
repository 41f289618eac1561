//! Notices about newly seen servers on the terminal of a running host.

use std::collections::HashSet;
use std::convert::Infallible;

use hospes_host::Host;
use hospes_host::pins::{ItemKind, PinnedServer};
use jiff::Timestamp;

use serde_json::json;

use super::up::EventWriter;
use crate::output::{BOLD, DIM, YELLOW, paint, printable};
use crate::shown_commands::shown_command;

/// Author of a pin that no person has decided about.
const FIRST_USE: &str = "first use";

/// Prints a line about each server that is accepted as it is seen for the first time since `begun`. Never returns.
pub(super) async fn report(host: &Host, begun: Timestamp, events: EventWriter) -> Infallible {
    let Some(pins) = host.pins() else { return std::future::pending().await };
    let mut changes = pins.changes();
    let mut told = HashSet::new();
    loop {
        // Before the list is read, so that every later change ends the wait below.
        changes.mark_unchanged();
        for server in pins.list().await.unwrap_or_default() {
            if is_new(&server, begun) && told.insert(server.server.clone()) {
                let fields = [("server", json!(server.server)), ("findings", json!(findings(&server)))];
                events.event("new-server", &fields, || line(&server));
            }
        }
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

fn is_new(server: &PinnedServer, begun: Timestamp) -> bool {
    !server.is_builtin
        && server.decided_by.as_deref() == Some(FIRST_USE)
        && server.decided_at.is_some_and(|at| at >= begun.as_microsecond())
}

/// Returns the number of findings in the definitions of a server.
fn findings(server: &PinnedServer) -> usize {
    server.lints.len() + server.items.iter().map(|item| item.lints.len()).sum::<usize>()
}

/// Formats the line about a new server: the number of its tools, and what was found in its definitions.
fn line(server: &PinnedServer) -> String {
    let tools = server.items.iter().filter(|item| item.kind == ItemKind::Tool).count();
    let found = findings(server);
    let many = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let found = match found {
        0 => "no findings".to_owned(),
        count => paint(YELLOW, many(count, "finding")),
    };
    let name = printable(&server.server);
    let hint = paint(DIM, format!("`{}` shows what it offers", shown_command("pins show", &server.server)));
    format!(
        "  {} {} {name}: {}, {found}  {hint}",
        paint(YELLOW, "+"),
        paint(BOLD, "new server"),
        many(tools, "tool")
    )
}
