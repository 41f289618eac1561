//! Display of a turn: the answer on standard output, everything else on standard error. Control characters from models
//! and servers are made visible.

use hospes_models::TokenUsage;
use hospes_policy::{visible, visible_line};

use super::turn::TurnEvent;
use crate::output::{CYAN, DIM, RED, paint};

/// Maximum number of characters shown of arguments and of results.
const MAX_SHOWN: usize = 240;

/// Display of one turn, which keeps track of the cursor.
#[derive(Debug, Default)]
pub(super) struct TurnDisplay {
    /// True if the current line of the answer has not been ended yet.
    is_open: bool,
}

/// Text to write to each stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DisplayText {
    pub(super) out: String,
    pub(super) err: String,
}

impl TurnDisplay {
    pub(super) fn of(&mut self, said: TurnEvent<'_>) -> DisplayText {
        match said {
            TurnEvent::Text("") => DisplayText::default(),
            TurnEvent::Text(text) => {
                self.is_open = !text.ends_with('\n');
                DisplayText { out: visible(text), err: String::new() }
            }
            TurnEvent::Again(time) => {
                self.aside(&paint(DIM, format!("  asking the model, attempt {time} …")))
            }
            TurnEvent::Call { tool, arguments } => {
                let arguments = if arguments == "{}" { String::new() } else { short(arguments) };
                let line = format!("  {} {} {}", paint(CYAN, "→"), visible_line(tool), paint(DIM, arguments));
                self.aside(line.trim_end())
            }
            TurnEvent::Result { failed, text } => {
                let mark = if failed { paint(RED, "✗") } else { paint(CYAN, "←") };
                self.aside(&format!("  {mark} {}", paint(DIM, short(text))))
            }
            TurnEvent::CutOff => self.aside(&paint(DIM, "  the answer was cut off at the token limit")),
        }
    }

    /// Ends an open line of the answer.
    pub(super) fn end(&mut self) -> DisplayText {
        let out = if std::mem::take(&mut self.is_open) { "\n".to_owned() } else { String::new() };
        DisplayText { out, err: String::new() }
    }

    fn aside(&mut self, line: &str) -> DisplayText {
        // Both streams may be one terminal, so an open line of the answer is ended first.
        DisplayText { err: format!("{line}\n"), ..self.end() }
    }
}

/// Formats a text on one line, cut if it is long.
fn short(text: &str) -> String {
    let line = visible_line(&text.trim().replace('\n', " ⏎ "));
    match line.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Formats the tokens used by a turn and by the conversation so far.
pub(super) fn spent(turn: TokenUsage, is_more: bool, all: TokenUsage) -> String {
    let more = if is_more { ", excluding tokens that were not reported" } else { "" };
    format!(
        "  {} tokens in, {} out{more}; {} in this conversation",
        turn.input_tokens,
        turn.output_tokens,
        all.total()
    )
}
