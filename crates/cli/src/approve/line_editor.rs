//! Editor of a single input line.
//!
//! Own code, because `tui-input` limits no length and accepts no pasted text.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Text of an input line and the position of its cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineEditor {
    text: String,
    /// Byte offset of the cursor, on a character boundary.
    at: usize,
    /// Maximum length of the text, in bytes.
    most: usize,
}

impl LineEditor {
    pub(crate) fn new(text: &str, most: usize) -> Self {
        Self { text: text.to_owned(), at: text.len(), most }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the cursor and the text after it.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.at)
    }

    /// Handles a key press.
    pub(crate) fn key(&mut self, key: KeyEvent) {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if has_control => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            KeyCode::Char('w') if has_control => {
                let head = self.text[..self.at].trim_end();
                let from = head.rfind(' ').map_or(0, |blank| blank + 1);
                self.text.drain(from..self.at);
                self.at = from;
            }
            KeyCode::Char('a') if has_control => self.at = 0,
            KeyCode::Char('e') if has_control => self.at = self.text.len(),
            KeyCode::Char(character) if !has_control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.insert(character);
            }
            KeyCode::Backspace => {
                if let Some(before) = self.text[..self.at].chars().next_back() {
                    self.at -= before.len_utf8();
                    self.text.remove(self.at);
                }
            }
            KeyCode::Delete if self.at < self.text.len() => {
                self.text.remove(self.at);
            }
            KeyCode::Left => self.at -= self.text[..self.at].chars().next_back().map_or(0, char::len_utf8),
            KeyCode::Right => self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.text.len(),
            _ => {}
        }
    }

    /// Inserts pasted text as one line.
    pub(crate) fn paste(&mut self, text: &str) {
        // `insert` drops control characters, which would join the last and first words of two lines.
        text.chars().map(|one| if one.is_control() { ' ' } else { one }).for_each(|one| self.insert(one));
    }

    fn insert(&mut self, character: char) {
        if !character.is_control() && self.text.len() + character.len_utf8() <= self.most {
            self.text.insert(self.at, character);
            self.at += character.len_utf8();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(entry: &mut LineEditor, keys: &[(KeyCode, KeyModifiers)]) {
        keys.iter().for_each(|(code, modifiers)| entry.key(KeyEvent::new(*code, *modifiers)));
    }

    #[test]
    fn a_line_is_written_and_mended() {
        let mut entry = LineEditor::new("", 20);
        entry.paste("zwei wörter\ndrei");
        typed(
            &mut entry,
            &[(KeyCode::Char('w'), KeyModifiers::CONTROL), (KeyCode::Backspace, KeyModifiers::NONE)],
        );
        assert_eq!(entry.text(), "zwei wörter");
        let left = [(KeyCode::Left, KeyModifiers::NONE); 5];
        typed(&mut entry, &left);
        assert_eq!(entry.parts(), ("zwei w", "örter"));
        typed(&mut entry, &[(KeyCode::Delete, KeyModifiers::NONE), (KeyCode::Char('o'), KeyModifiers::NONE)]);
        assert_eq!(entry.text(), "zwei worter");
        typed(
            &mut entry,
            &[(KeyCode::Char('u'), KeyModifiers::CONTROL), (KeyCode::Home, KeyModifiers::NONE)],
        );
        assert_eq!(entry.text(), "rter");
        entry.paste("0123456789abcdefghij");
        assert_eq!(entry.text().len(), 20, "it grows no longer than it may");
    }
}
