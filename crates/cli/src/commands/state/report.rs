//! Output of `hospes state migrate`.

use std::path::PathBuf;

use hospes_store::migration::TableSummary;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::output::{BOLD, CliOutput, DIM, GREEN, RED, YELLOW, paint};
use crate::paths;

/// Number of digits of a digest in a list.
const SHOWN_DIGITS: usize = 12;

/// Result of a move, or of its rehearsal.
pub(super) struct MoveReport {
    files: Vec<PathBuf>,
    pub(super) summaries: Vec<TableSummary>,
    is_dry_run: bool,
    pub(super) database: String,
    /// Tables of the database that have rows.
    pub(super) found: Vec<(&'static str, u64)>,
    pub(super) is_moved: bool,
    pub(super) moved_before: Option<Timestamp>,
}

impl MoveReport {
    pub(super) fn new(files: &[PathBuf], summaries: &[TableSummary], is_dry_run: bool) -> Self {
        Self {
            files: files.to_vec(),
            summaries: summaries.to_vec(),
            is_dry_run,
            database: String::new(),
            found: Vec::new(),
            is_moved: false,
            moved_before: None,
        }
    }

    /// Number of records that cannot be decrypted.
    pub(super) fn unreadable(&self) -> u64 {
        self.summaries.iter().map(|table| table.unreadable).sum()
    }

    fn rows(&self) -> u64 {
        self.summaries.iter().map(|table| table.rows).sum()
    }

    pub(super) fn print(&self, output: CliOutput) {
        if output.json {
            return output.value(&self.to_json());
        }
        if let Some(at) = self.moved_before {
            output.line(&format!("the state of this host was moved to {} at {at}", self.database));
            return output.line(&paint(DIM, "nothing was changed"));
        }
        let files: Vec<String> = self.files.iter().map(|file| paths::display_path(file)).collect();
        output.line(&format!("{}  {}", paint(BOLD, "from"), files.join(", ")));
        output.line(&format!("{}    {}", paint(BOLD, "to"), self.database));
        output.line("");
        let width = self.summaries.iter().map(|table| table.title.len()).max().unwrap_or_default();
        for table in &self.summaries {
            output.line(&self.table_line(table, width));
            for row in &table.unreadable_rows {
                output.line(&format!("  {:width$}  {}", "", paint(RED, format!("cannot decrypt: {row}"))));
            }
        }
        output.line("");
        for line in self.closing_lines() {
            output.line(&line);
        }
    }

    fn table_line(&self, table: &TableSummary, width: usize) -> String {
        let digest = &table.digest[..table.digest.len().min(SHOWN_DIGITS)];
        let mut line = format!("  {:width$}  {:>7}", table.title, table.rows);
        if self.is_moved {
            line += &format!("  {}  {}", paint(GREEN, "verified"), paint(DIM, format!("sha256 {digest}…")));
        }
        if table.omitted > 0 {
            line += &format!(
                "  {}",
                paint(YELLOW, format!("{} sign-ins that wait are left behind", table.omitted))
            );
        }
        if table.unreadable > 0 {
            line += &format!("  {}", paint(RED, format!("{} cannot be decrypted", table.unreadable)));
        }
        line
    }

    fn closing_lines(&self) -> Vec<String> {
        let rows = self.rows();
        let records = if rows == 1 { "1 record".to_owned() } else { format!("{rows} records") };
        let mut lines = Vec::new();
        if self.is_moved {
            lines.push(format!("{} {records}; each table was read back and compared", paint(GREEN, "moved")));
        } else if self.is_dry_run {
            lines.push(format!("{records} would move; nothing was changed"));
        }
        if self.is_moved || self.is_dry_run {
            let audit = paths::audit_files().map_or_else(String::new, |(log, _)| {
                format!(
                    "The audit log stays where it is: {}. Each node has its own.",
                    paths::display_path(&log)
                )
            });
            lines.push(audit);
        }
        if self.is_moved {
            lines.push("Start the nodes with this configuration. The files are not used any more: remove them once the nodes run.".to_owned());
        }
        lines
    }

    fn to_json(&self) -> Value {
        let table = |table: &TableSummary| {
            json!({
                "name": table.title,
                "records": table.rows,
                "sha256": table.digest,
                "left_behind": table.omitted,
                "unreadable": table.unreadable,
                "unreadable_records": table.unreadable_rows,
            })
        };
        json!({
            "moved": self.is_moved,
            "moved_before": self.moved_before.map(|at| at.to_string()),
            "dry_run": self.is_dry_run,
            "found": self.found.iter().map(|(table, rows)| json!({ "table": table, "rows": rows })).collect::<Vec<_>>(),
            "tables": self.summaries.iter().map(table).collect::<Vec<_>>(),
        })
    }
}
