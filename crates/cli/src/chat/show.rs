//! A turn on the screen: the answer on standard output, the rest beside it on standard error. What models and servers write
//! is made harmless first.

use hospes_models::Usage;
use hospes_policy::{visible, visible_line};

use super::turn::Said;
use crate::output::{CYAN, DIM, RED, paint};

/// Maximum number of characters shown of arguments and of a result.
const MAX_SHOWN: usize = 240;

/// Display of one turn, which keeps track of the cursor.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// True if a line of the answer is not complete.
    is_open: bool,
}

/// Text to write to each stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) out: String,
    pub(super) err: String,
}

impl Page {
    pub(super) fn of(&mut self, said: Said<'_>) -> Written {
        match said {
            Said::Text("") => Written::default(),
            Said::Text(text) => {
                self.is_open = !text.ends_with('\n');
                Written { out: visible(text), err: String::new() }
            }
            Said::Again(time) => {
                self.aside(&paint(DIM, format!("  asking the model for the {time}. time …")))
            }
            Said::Call { tool, arguments } => {
                let arguments = if arguments == "{}" { String::new() } else { short(arguments) };
                let line = format!("  {} {} {}", paint(CYAN, "→"), visible_line(tool), paint(DIM, arguments));
                self.aside(line.trim_end())
            }
            Said::Result { failed, text } => {
                let mark = if failed { paint(RED, "✗") } else { paint(CYAN, "←") };
                self.aside(&format!("  {mark} {}", paint(DIM, short(text))))
            }
            Said::CutOff => {
                self.aside(&paint(DIM, "  the answer is cut off: it has as many tokens as it may"))
            }
        }
    }

    /// Ends the line that was begun.
    pub(super) fn end(&mut self) -> Written {
        let out = if std::mem::take(&mut self.is_open) { "\n".to_owned() } else { String::new() };
        Written { out, err: String::new() }
    }

    fn aside(&mut self, line: &str) -> Written {
        Written { err: format!("{line}\n"), ..self.end() }
    }
}

/// A text on one line, cut where it is long.
fn short(text: &str) -> String {
    let line = visible_line(&text.trim().replace('\n', " ⏎ "));
    match line.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Formats the tokens used by a turn and by the conversation so far.
pub(super) fn spent(turn: Usage, is_more: bool, all: Usage) -> String {
    let more = if is_more { ", and some that nobody counted" } else { "" };
    format!(
        "  {} tokens in, {} out{more}; {} in this conversation",
        turn.input_tokens,
        turn.output_tokens,
        all.total()
    )
}
