use jiff::Timestamp;
use rusqlite::types::Value;

use super::entry::EntryKind;

/// How many entries a search finds unless told.
const DEFAULT_LIMIT: usize = 100;

/// Which entries are wanted. Without any condition: the newest 100.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Search {
    /// Of this kind.
    pub kind: Option<EntryKind>,
    /// Of this server.
    pub server: Option<String>,
    /// About this tool, prompt, URI or model.
    pub subject: Option<String>,
    /// Of who signed in so.
    pub principal: Option<String>,
    /// Of an application that calls itself so.
    pub application: Option<String>,
    /// With this decision.
    pub decision: Option<String>,
    /// With this text in the server, the subject, the principal or the application, in whatever case.
    pub text: Option<String>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// Before this place: where the page before ended.
    pub before: Option<u64>,
    /// How many at most; by default 100.
    pub limit: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self::new()
    }
}

impl Search {
    /// Everything.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kind: None,
            server: None,
            subject: None,
            principal: None,
            application: None,
            decision: None,
            text: None,
            since: None,
            until: None,
            before: None,
            limit: DEFAULT_LIMIT,
        }
    }

    /// Of this kind.
    #[must_use]
    pub fn with_kind(mut self, kind: EntryKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Of this server.
    #[must_use]
    pub fn with_server(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    /// At most so many.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The condition and what stands for its question marks.
    pub(super) fn condition(&self) -> (String, Vec<Value>) {
        let mut sql = "1".to_owned();
        let mut values: Vec<Value> = Vec::new();
        let mut and = |condition: &str, value: Option<Value>| {
            if let Some(value) = value {
                sql.push_str(" AND ");
                sql.push_str(condition);
                values.push(value);
            }
        };
        let text = |text: &Option<String>| text.clone().map(Value::from);
        and("kind = ?", self.kind.map(|kind| kind.as_str().to_owned().into()));
        and("server = ?", text(&self.server));
        and("subject = ?", text(&self.subject));
        and("principal = ?", text(&self.principal));
        and("application = ?", text(&self.application));
        and("decision = ?", text(&self.decision));
        and("at >= ?", self.since.map(|since| since.as_microsecond().into()));
        and("at < ?", self.until.map(|until| until.as_microsecond().into()));
        and("seq < ?", self.before.map(|before| i64::try_from(before).unwrap_or(i64::MAX).into()));
        and(
            "instr(lower(ifnull(server, '') || char(10) || ifnull(subject, '') || char(10) || ifnull(principal, '')
                || char(10) || ifnull(application, '')), lower(?)) > 0",
            text(&self.text),
        );
        (sql, values)
    }
}
