//! Routes of the recorded activity.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use hospes_store::{Audit, EntryKind, Gathered, Recorded, Search};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, Refused};
use crate::Console;

/// Maximum number of entries in one answer.
const MAX_LIMIT: usize = 500;

/// Query of a search in the audit log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    kind: Option<EntryKind>,
    server: Option<String>,
    subject: Option<String>,
    principal: Option<String>,
    application: Option<String>,
    decision: Option<String>,
    text: Option<String>,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    before: Option<u64>,
    limit: Option<usize>,
    /// True if repeated failures of a server are combined into one line.
    #[serde(default)]
    gathered: bool,
}

impl Wanted {
    pub(super) fn search(self) -> Search {
        // What was cleared in a form is not looked for.
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let mut search = Search::new();
        search.kind = self.kind;
        search.server = some(self.server);
        search.subject = some(self.subject);
        search.principal = some(self.principal);
        search.application = some(self.application);
        search.decision = some(self.decision);
        search.text = some(self.text);
        (search.since, search.until, search.before) = (self.since, self.until, self.before);
        search.limit = self.limit.unwrap_or(search.limit).clamp(1, MAX_LIMIT);
        search
    }
}

pub(super) type Asked = Result<Query<Wanted>, QueryRejection>;

pub(super) fn wanted(asked: Asked) -> Result<Wanted, Refused> {
    asked.map(|Query(wanted)| wanted).map_err(|rejection| Refused::Misread(rejection.body_text()))
}

pub(super) fn record(console: &Console) -> Result<&Audit, Refused> {
    console.audit().ok_or(Refused::NotRecorded)
}

/// Entries of the record, each alone or gathered.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Entries {
    Each(Vec<Recorded>),
    Gathered(Vec<Gathered>),
}

#[derive(Serialize)]
pub(super) struct Found {
    entries: Entries,
}

pub(super) async fn search(State(console): State<Console>, asked: Asked) -> Answer<Found> {
    let wanted = wanted(asked)?;
    let (record, is_gathered) = (record(&console)?, wanted.gathered);
    let search = wanted.search();
    let entries = match is_gathered {
        true => Entries::Gathered(record.search_gathered(search).await?),
        false => Entries::Each(record.search(search).await?),
    };
    Ok(Json(Found { entries }))
}

#[derive(Serialize)]
pub(super) struct Arguments {
    /// Nothing where none were recorded.
    arguments: Option<Value>,
}

pub(super) async fn arguments(State(console): State<Console>, Path(number): Path<u64>) -> Answer<Arguments> {
    let audit = record(&console)?;
    let found = audit.after(number.saturating_sub(1), 1).await?;
    let found = found.first().filter(|one| one.seq == number);
    let found = found.ok_or_else(|| Refused::Nothing(format!("there is no entry {number}")))?;
    let arguments = audit.unseal(&found.entry)?;
    Ok(Json(Arguments { arguments: arguments.and_then(|text| serde_json::from_str(&text).ok()) }))
}
