//! The page about an update: all that changes.

use std::collections::{BTreeMap, BTreeSet};

use hospes_host::config::{ServerConfig, ServerTransport};
use hospes_host::pins::{ItemKind, definition_changes};
use hospes_registry::ServerEntry;
use serde_json::Value;

use super::super::add::plan::PlannedServer;
use super::super::add::trial::{DefinitionMap, TrialReport};
use super::super::add::view::{self, Screen};
use super::check::UpdateCandidate;
use super::merge::MergedServer;
use crate::output::first_line;
use crate::registry::format_ago;

/// Maximum length of an old or new value of a definition.
const MAX_VALUE: usize = 60;
/// Maximum number of changed places of one definition that are shown.
const MAX_PLACES: usize = 6;
/// Maximum number of definitions of each kind of change that are shown.
const MAX_ITEMS: usize = 30;

/// All that the page is about.
pub(super) struct UpdatePage<'a> {
    pub(super) candidate: &'a UpdateCandidate,
    pub(super) entry: &'a ServerEntry,
    pub(super) planned: &'a PlannedServer,
    /// Grants and effects of the new version that the one before did not have.
    pub(super) risks: &'a [String],
    pub(super) merged: &'a MergedServer,
    pub(super) report: &'a TrialReport,
    /// Definitions before and after.
    pub(super) definitions: (&'a DefinitionMap, &'a DefinitionMap),
    pub(super) notices: &'a [String],
}

impl UpdatePage<'_> {
    pub(super) fn text(&self) -> String {
        let mut screen = Screen::default();
        let (old, new) = (&self.candidate.server, &self.merged.server);
        let title = self.entry.title.as_deref().unwrap_or(&self.entry.name);
        screen.title(title, &format!("update of {}", old.name));
        let from = self.candidate.version().unwrap_or_else(|| "unknown".to_owned());
        let age = self.entry.published_at().map(|published| {
            let age = jiff::Timestamp::now().duration_since(published);
            format!(", published {}", format_ago(age.try_into().unwrap_or_default()))
        });
        screen.row("version", &format!("{from} → {}{}", self.entry.version, age.unwrap_or_default()));
        let PlannedServer { warnings, permissions, .. } = self.planned;
        let is_shown = |text: &String| permissions.iter().any(|(known, _)| known == text);
        for risk in self.risks.iter().filter(|text| !is_shown(text)) {
            screen.warning(risk);
        }
        for warning in warnings.iter().filter(|warning| !self.risks.contains(warning)) {
            screen.warning(warning);
        }
        let command = |server: &ServerConfig| view::short_command(&server.transport.to_string());
        change(&mut screen, "command", &command(old), &command(new));
        let digest = |server: &ServerConfig| {
            server.origin.digest.as_deref().map_or_else(|| "none".to_owned(), view::short_digest)
        };
        change(&mut screen, "hash", &digest(old), &digest(new));
        variables(&mut screen, old, new);
        self.permissions(&mut screen);
        for replaced in &self.merged.replaced {
            screen.warning(replaced);
        }
        self.definitions(&mut screen);
        if let Some(pinned) = &self.report.pinned {
            view::findings(&mut screen, pinned);
        }
        for notice in self.notices {
            screen.row("note", notice);
        }
        screen.text()
    }

    fn permissions(&self, screen: &mut Screen) {
        for (text, breaks_out) in &self.planned.permissions {
            match breaks_out {
                true => screen.warning(&format!("{text}: the container is no confinement then")),
                false => screen.row("may", text),
            }
        }
    }

    fn definitions(&self, screen: &mut Screen) {
        let (before, after) = self.definitions;
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
                &format!("and {} more: hospes pins show {}", shown - MAX_ITEMS, self.merged.server.name),
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

/// Writes the variables and headers that are new, that have another value, and that go. Secrets are references.
fn variables(screen: &mut Screen, old: &ServerConfig, new: &ServerConfig) {
    let values = |server: &ServerConfig| -> BTreeMap<String, String> {
        match &server.transport {
            ServerTransport::Stdio(stdio) => {
                stdio.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect()
            }
            ServerTransport::Http(http) => {
                http.headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect()
            }
            _ => BTreeMap::new(),
        }
    };
    let (old, new) = (values(old), values(new));
    let missing = |of: &BTreeMap<String, String>, known: &BTreeMap<String, String>| -> String {
        of.keys().filter(|name| !known.contains_key(*name)).cloned().collect::<Vec<_>>().join(", ")
    };
    let (added, removed) = (missing(&new, &old), missing(&old, &new));
    if !added.is_empty() {
        screen.row("new values", &added);
    }
    for (name, value) in &new {
        if let Some(before) = old.get(name).filter(|before| *before != value) {
            let (before, value) = (first_line(before, MAX_VALUE), first_line(value, MAX_VALUE));
            screen.row("value", &format!("{name}: {before} → {value}"));
        }
    }
    if !removed.is_empty() {
        screen.row("dropped", &removed);
    }
}
