use jiff::Timestamp;
use rusqlite::types::Value;

use super::entry::AuditEntryKind;

/// Default number of entries that a search returns.
const DEFAULT_LIMIT: usize = 100;

/// Conditions of a search. Without any condition: the newest 100.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Kind of the entries.
    pub kind: Option<AuditEntryKind>,
    /// Server of the entries.
    pub server: Option<String>,
    /// Tool, prompt, URI or model of the entries.
    pub subject: Option<String>,
    /// Signed-in user of the entries.
    pub principal: Option<String>,
    /// Application of the entries, as it names itself.
    pub application: Option<String>,
    /// Decision of the entries.
    pub decision: Option<String>,
    /// Text in the server, subject, principal or application, ignoring case.
    pub text: Option<String>,
    /// Earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time, exclusive.
    pub until: Option<Timestamp>,
    /// Upper bound of the entry numbers, exclusive: the last number of the previous page.
    pub before: Option<u64>,
    /// Maximum number of entries; by default 100.
    pub limit: usize,
}

impl Default for AuditQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl AuditQuery {
    /// Creates a query without conditions.
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

    /// Limits the search to a kind.
    #[must_use]
    pub fn with_kind(mut self, kind: AuditEntryKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Limits the search to a server.
    #[must_use]
    pub fn with_server(mut self, server: impl Into<String>) -> Self {
        self.server = Some(server.into());
        self
    }

    /// Limits the number of entries.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the SQL condition and the values of its placeholders.
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
        // Not LIKE, in which `%` and `_` are wildcards. The line ends keep a text from matching across two columns.
        and(
            "instr(lower(ifnull(server, '') || char(10) || ifnull(subject, '') || char(10) || ifnull(principal, '')
                || char(10) || ifnull(application, '')), lower(?)) > 0",
            text(&self.text),
        );
        (sql, values)
    }
}
