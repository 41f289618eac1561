//! A table of checks, for parts that examine many things.

use anyhow::Result;

use crate::process::BackgroundServer;
use crate::report::{PartOutcome, say, table};

/// Checks and their results.
#[derive(Debug, Default)]
pub(crate) struct CheckList {
    rows: Vec<[String; 3]>,
    troubles: Vec<String>,
}

impl CheckList {
    /// Adds a check with its result, or what went wrong.
    pub(crate) fn add(&mut self, what: &str, result: Result<String>) {
        let (result, note) = match result {
            Ok(note) => ("ok", note),
            Err(error) => {
                self.troubles.push(format!("{what}: {error:#}"));
                ("FAILED", String::new())
            }
        };
        self.rows.push([what.to_owned(), result.to_owned(), note]);
    }

    /// Ends a server, as a check.
    pub(crate) fn stop(&mut self, what: &str, server: BackgroundServer) {
        self.add(what, server.stop().map(|()| String::new()));
    }

    /// Prints the table and says how the part went.
    pub(crate) fn outcome(mut self) -> PartOutcome {
        let good = self.rows.len() - self.troubles.len();
        let sum = format!("{good} of {} checks", self.rows.len());
        self.rows.insert(0, ["check", "result", ""].map(str::to_owned));
        say!("{}", table(&self.rows));
        for trouble in &self.troubles {
            say!("\n{trouble}");
        }
        if self.troubles.is_empty() { PartOutcome::Passed(sum) } else { PartOutcome::Failed(sum) }
    }
}
