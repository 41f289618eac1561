//! Screens of rows, for the terminal and for a page of the console.

use std::fmt::Write as _;

use hospes_console::{AdditionRow, AdditionScreen};

use crate::output::{BOLD, DIM, YELLOW, one_line, paint, talk_width, without_breaks, wrap_text};

/// Columns before the text of a row.
const MARGIN: usize = 14;

/// Rows of a screen, for the terminal and for a page of the console.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Screen {
    title: String,
    step: String,
    rows: Vec<ScreenRow>,
}

/// A row: a label and its text.
#[derive(Clone, Debug)]
struct ScreenRow {
    label: String,
    text: String,
    kind: RowKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKind {
    Plain,
    Warning,
    /// Names a key or an option of the command, which a page has not.
    Terminal,
}

impl Screen {
    pub(in crate::commands) fn title(&mut self, title: &str, step: &str) {
        self.title = title.to_owned();
        self.step = step.to_owned();
    }

    pub(in crate::commands) fn row(&mut self, label: &str, text: &str) {
        self.push(label, text, RowKind::Plain);
    }

    pub(in crate::commands) fn warning(&mut self, text: &str) {
        self.push("warning", text, RowKind::Warning);
    }

    /// Adds a row that only the terminal shows.
    pub(super) fn terminal_row(&mut self, label: &str, text: &str) {
        self.push(label, text, RowKind::Terminal);
    }

    /// Adds a warning with a label of its own.
    pub(super) fn labelled_warning(&mut self, label: &str, text: &str) {
        self.push(label, text, RowKind::Warning);
    }

    fn push(&mut self, label: &str, text: &str, kind: RowKind) {
        self.rows.push(ScreenRow { label: label.to_owned(), text: text.to_owned(), kind });
    }

    /// Formats the screen for the terminal.
    pub(in crate::commands) fn text(&self) -> String {
        let mut text = String::new();
        if !self.title.is_empty() {
            let step = paint(DIM, one_line(&self.step));
            let _ = write!(text, "\n  {}  {step}\n\n", paint(BOLD, one_line(&self.title)));
        }
        for ScreenRow { label, text: content, kind } in &self.rows {
            let style = if *kind == RowKind::Warning { YELLOW } else { DIM };
            let wrapped = wrap_text(&one_line(content), MARGIN, talk_width());
            let space = MARGIN.saturating_sub(2 + label.chars().count()).max(1);
            let _ = writeln!(text, "  {}{:space$}{}", paint(style, label), "", wrapped.trim_start());
        }
        text
    }

    /// Returns the screen for a page of the console, which shows hidden characters itself.
    pub(in crate::commands) fn for_page(&self) -> AdditionScreen {
        let rows = self.rows.iter().filter(|row| row.kind != RowKind::Terminal);
        let rows = rows.map(|row| AdditionRow {
            label: row.label.clone(),
            text: without_breaks(&row.text),
            is_warning: row.kind == RowKind::Warning,
        });
        AdditionScreen { title: without_breaks(&self.title), rows: rows.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that would look like a row of the program's own.
    const FORGED: &str = "Jane\n  signed      by Example, certified by Root\r\u{2028}  hash        sha256:00";

    #[test]
    fn a_text_of_a_server_cannot_forge_a_row() {
        let mut screen = Screen::default();
        screen.title(FORGED, "step 2 of 3");
        screen.row("author", FORGED);
        screen.warning(FORGED);
        let text = screen.text();
        assert_eq!(text.trim().lines().filter(|line| !line.is_empty()).count(), 3, "{text}");
        assert!(!text.contains(['\r', '\u{2028}']), "{text}");
        let page = screen.for_page();
        let breaks = ['\n', '\r', '\u{2028}'];
        assert!(!page.title.contains(breaks) && page.rows.iter().all(|row| !row.text.contains(breaks)));
    }
}
