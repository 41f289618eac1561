//! Files that the host follows and whose latest content it could not use.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::server::UpstreamEpoch;

/// A file whose latest content could not be used. What it said before stays in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FileProblem {
    /// Path of the file, for people.
    pub file: String,
    /// Mistakes in the file, and where.
    pub problem: String,
    /// Time since which the file cannot be used.
    pub since: Timestamp,
}

/// Files with mistakes, as the status of the host names them. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct FileProblems {
    found: Arc<RwLock<BTreeMap<String, FileProblem>>>,
    /// Epoch of the host, so that those who show its status are told.
    pub(crate) epoch: Arc<UpstreamEpoch>,
}

impl FileProblems {
    /// Sets the problem of a file, or removes it with `None`. The time is that of the first problem in a row.
    pub fn set(&self, file: &str, problem: Option<String>) {
        {
            let mut found = self.found.write();
            let since = found.get(file).map_or_else(Timestamp::now, |known| known.since);
            let is_known = match problem {
                Some(problem) => {
                    let one = FileProblem { file: file.to_owned(), problem, since };
                    found.insert(file.to_owned(), one.clone()).filter(|known| *known == one).is_some()
                }
                None => found.remove(file).is_none(),
            };
            if is_known {
                return;
            }
        }
        self.epoch.bump();
    }

    /// Returns the problems, sorted by file.
    #[must_use]
    pub fn current(&self) -> Vec<FileProblem> {
        self.found.read().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_stays_until_the_file_is_corrected() {
        let problems = FileProblems::default();
        let said = |problem: Option<&str>| problems.set("~/policy.toml", problem.map(str::to_owned));
        said(None);
        assert_eq!((problems.current(), problems.epoch.now()), (Vec::new(), 0), "nothing has changed");
        said(Some("one"));
        let first = problems.current();
        said(Some("two"));
        let second = problems.current();
        assert_eq!((second.len(), &*second[0].problem, second[0].since), (1, "two", first[0].since));
        said(Some("two"));
        assert_eq!(problems.epoch.now(), 2, "the same again is no change");
        said(None);
        assert_eq!((problems.current(), problems.epoch.now()), (Vec::new(), 3));
    }
}
