//! A mutant, as cargo-mutants lists it.

use anyhow::{Context as _, Result};
use serde_json::Value;

/// A place in a file: the line from 1, the column in characters from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourcePosition {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// One thing to break.
#[derive(Debug, Clone)]
pub(crate) struct Mutant {
    /// Number of its switch, from 1.
    pub(crate) number: u32,
    /// Its whole name.
    pub(crate) name: String,
    /// The file's path from the top of the repository.
    pub(crate) file: String,
    pub(crate) genre: String,
    /// Replacement for the text from `start` to `end`.
    pub(crate) replacement: String,
    pub(crate) start: SourcePosition,
    end: SourcePosition,
}

impl Mutant {
    /// Reads one entry of the list.
    pub(crate) fn read(number: u32, listed: &Value) -> Result<Self> {
        let text =
            |name: &str| anyhow::Ok(listed[name].as_str().with_context(|| format!("no {name}"))?.to_owned());
        let place = |end: &str| {
            let number =
                |name: &str| listed["span"][end][name].as_u64().and_then(|it| usize::try_from(it).ok());
            let (line, column) = number("line").zip(number("column")).context("no place")?;
            anyhow::Ok(SourcePosition { line, column: column.checked_sub(1).context("no place")? })
        };
        Ok(Self {
            number,
            name: text("name")?,
            file: text("file")?,
            genre: text("genre")?,
            replacement: text("replacement")?,
            start: place("start")?,
            end: place("end")?,
        })
    }

    /// The file with this one thing broken.
    pub(crate) fn apply(&self, source: &str) -> Result<String> {
        let (start, end) = (offset(source, self.start)?, offset(source, self.end)?);
        Ok(format!("{} {} {}", &source[..start], self.replacement, &source[end..]))
    }
}

fn offset(source: &str, place: SourcePosition) -> Result<usize> {
    let mut lines = source.split_inclusive('\n');
    let before: usize = lines.by_ref().take(place.line - 1).map(str::len).sum();
    let line = lines.next().unwrap_or_default();
    let mut columns = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    Ok(before + columns.nth(place.column).context("the file is not what was listed")?)
}
