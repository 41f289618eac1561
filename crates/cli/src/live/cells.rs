//! Abilities of a terminal: without colour, or with ASCII only. The screen is drawn with both, and its cells are
//! replaced afterwards.

use ratatui::buffer::Buffer;
use ratatui::style::Color;

/// Abilities of the terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScreenLook {
    pub(crate) has_colour: bool,
    pub(crate) is_ascii: bool,
}

/// Signs of the screen, and what replaces them.
const REPLACEMENTS: [(&str, &str); 34] = [
    ("●", "*"),
    ("◐", "~"),
    ("◍", "?"),
    ("○", "o"),
    ("✗", "x"),
    ("▲", "!"),
    ("▌", ">"),
    ("▰", "#"),
    ("▱", "."),
    ("▁", "_"),
    ("▂", "."),
    ("▃", ":"),
    ("▄", "-"),
    ("▅", "="),
    ("▆", "+"),
    ("▇", "*"),
    ("█", "#"),
    ("…", "~"),
    ("·", "-"),
    ("→", ">"),
    ("↑", "^"),
    ("↓", "v"),
    ("│", "|"),
    ("─", "-"),
    ("╭", "+"),
    ("╮", "+"),
    ("╰", "+"),
    ("╯", "+"),
    ("┌", "+"),
    ("┐", "+"),
    ("└", "+"),
    ("┘", "+"),
    ("−", "-"),
    ("“", "\""),
];

impl ScreenLook {
    /// Returns what the environment and the command line say.
    pub(crate) fn current(is_ascii: bool) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { has_colour: !no_colour, is_ascii }
    }

    /// Replaces what the terminal cannot show.
    pub(crate) fn apply(self, buffer: &mut Buffer) {
        for cell in &mut buffer.content {
            if !self.has_colour {
                (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
            }
            if self.is_ascii && !cell.symbol().is_ascii() {
                let known = REPLACEMENTS.iter().find(|(sign, _)| *sign == cell.symbol());
                let plain = known.map_or("?", |(_, plain)| plain);
                cell.set_symbol(plain);
            }
        }
    }
}
