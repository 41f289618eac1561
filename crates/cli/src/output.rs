//! The only module that prints: results on standard output, messages on standard error, colour where supported.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

pub(crate) use hospes_host::shell_word;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;
use zeroize::Zeroizing;

use crate::exit::{CliError, FailureCode};
use crate::terminal_screen::without_screen;
use crate::{printed_secrets, screen_log};

/// Indentation of what continues a wrapped line, in columns.
const WRAP_INDENT: usize = 4;
/// Interval at which a question that may end by itself looks whether it has.
const INPUT_INTERVAL: Duration = Duration::from_millis(100);

/// Settings for printing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CliOutput {
    /// Prints results as JSON.
    pub(crate) json: bool,
    /// Suppresses progress messages.
    pub(crate) quiet: bool,
}

/// Prints a result. A closed pipe is not an error.
fn out(text: &str) {
    let text = &*printed_secrets::mask(text);
    if screen_log::take(text) {
        return;
    }
    // Flushed immediately, because later text on standard error must not overtake it on a terminal.
    let mut stdout = anstream::stdout().lock();
    let _gone = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn err(text: &str) {
    let text = &*printed_secrets::mask(text);
    if !screen_log::take(text) {
        print_err(text);
    }
}

fn print_err(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _gone = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Prints a message that is broken at a width. A screen breaks it at its own. The text is masked before, because a secret
/// must not be broken into parts.
fn err_broken(format: impl Fn(Option<usize>) -> String) {
    if !screen_log::take(&format(None)) {
        print_err(&format(talk_width()));
    }
}

/// Prints a message after a label.
fn err_labelled(label: &str, style: &str, text: &str) {
    let text = printed_secrets::mask(text);
    err_broken(|width| format_labelled(label, style, &text, width));
}

impl CliOutput {
    /// Prints a result for people.
    pub(crate) fn result(self, text: impl fmt::Display) {
        let text = text.to_string();
        out(&text);
        if !text.ends_with('\n') {
            out("\n");
        }
    }

    /// Prints one line of a result.
    pub(crate) fn line(self, line: &str) {
        out(&format!("{line}\n"));
    }

    /// Prints foreign JSON on one line, with hidden characters escaped.
    pub(crate) fn json_line(self, json: &str) {
        out(&format!("{}\n", escape_hidden(json)));
    }

    /// Prints a result for programs.
    pub(crate) fn value(self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => out(&(escape_hidden(&text) + "\n")),
            Err(error) => self.warn(format_args!("cannot serialize the result as JSON: {error}")),
        }
    }

    /// Prints a progress message.
    pub(crate) fn say(self, text: impl fmt::Display) {
        if !self.quiet {
            err(&format!("{text}\n"));
        }
    }

    /// Prints a progress message in sentences, wrapped at words.
    pub(crate) fn say_wrapped(self, text: impl fmt::Display) {
        let text = text.to_string();
        let text = printed_secrets::mask(&text);
        if !self.quiet {
            err_broken(|width| wrap_lines(&text, WRAP_INDENT, width) + "\n");
        }
    }

    /// Prints a progress message that `format` breaks at the width of the terminal, or not at all for a screen.
    pub(crate) fn say_broken(self, format: impl Fn(Option<usize>) -> String) {
        if !self.quiet {
            err_broken(|width| printed_secrets::mask(&format(width)).into_owned() + "\n");
        }
    }

    /// Prints a result in sentences or rows, wrapped at words.
    pub(crate) fn result_wrapped(self, text: impl fmt::Display) {
        self.result(wrap_lines(&text.to_string(), WRAP_INDENT, result_width()));
    }

    /// Prints a warning.
    pub(crate) fn warn(self, text: impl fmt::Display) {
        if !self.quiet {
            err_labelled("warning", YELLOW, &text.to_string());
        }
    }

    /// Prints a hint.
    pub(crate) fn hint(self, text: impl fmt::Display) {
        if !self.quiet {
            err_labelled("hint", CYAN, &text.to_string());
        }
    }

    /// Prints an error.
    pub(crate) fn failure(self, failure: &CliError) {
        if failure.is_silent {
            return;
        }
        if self.json {
            err(&(escape_hidden(&failure.to_json_line()) + "\n"));
            return;
        }
        let text = failure.to_string();
        // With -v everything is shown.
        let details = tracing::enabled!(tracing::Level::INFO);
        let lines: Vec<&str> = text.lines().filter(|line| details || !is_detail(line)).collect();
        // The terminal has written `^C` where the cursor is.
        if failure.code == FailureCode::Interrupted && io::stderr().is_terminal() {
            err("\n");
        }
        err_labelled("error", RED, &lines.join("\n"));
        if let Some(hint) = &failure.hint {
            err_labelled("hint", CYAN, &hint.to_string());
        }
    }

    /// Asks the person a question and returns the answer. Returns `None` at the end of input.
    pub(crate) fn ask(self, question: impl fmt::Display) -> Option<String> {
        without_screen(|| self.ask_on_terminal(question))
    }

    /// Asks a question as [`CliOutput::ask`] does. Returns `None` soon after `is_over` is set, also without input.
    pub(crate) fn ask_until(self, question: impl fmt::Display, is_over: &AtomicBool) -> Option<String> {
        // Of a pipe, further lines may have been read already, which the system cannot tell.
        if !is_interactive() {
            return self.ask(question);
        }
        without_screen(|| {
            err(&format!("{question}"));
            // A pending read could not be ended.
            while let Ok(false) = crate::platform::poll_line(INPUT_INTERVAL) {
                if is_over.load(Ordering::Acquire) {
                    return None;
                }
            }
            self.ask_on_terminal("")
        })
    }

    fn ask_on_terminal(self, question: impl fmt::Display) -> Option<String> {
        err(&format!("{question}"));
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(1..) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
            _ => None,
        }
    }
}

/// Reads a line from the terminal without showing it. Returns `None` if the person cancels, or without a terminal.
pub(crate) fn ask_hidden(question: impl fmt::Display) -> Option<Zeroizing<String>> {
    if !is_interactive() {
        return None;
    }
    without_screen(|| ask_hidden_on_terminal(question))
}

fn ask_hidden_on_terminal(question: impl fmt::Display) -> Option<Zeroizing<String>> {
    // First, because what is typed at once would be shown.
    enable_raw_mode().ok()?;
    err(&format!("{question}"));
    let line = read_hidden();
    // The terminal must show what is typed again, whatever was typed.
    let _gone = disable_raw_mode();
    err("\n");
    line
}

fn read_hidden() -> Option<Zeroizing<String>> {
    let mut line = Zeroizing::new(String::new());
    loop {
        let Event::Key(key) = event::read().ok()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Some(line),
            KeyCode::Char('c' | 'd') if is_control => return None,
            KeyCode::Char('u') if is_control => line.clear(),
            // The line break of a pasted text ends it, too.
            KeyCode::Char('j' | 'm') if is_control => return Some(line),
            KeyCode::Char(letter) if !is_control => line.push(letter),
            KeyCode::Backspace => drop(line.pop()),
            _ => {}
        }
    }
}

/// Escapes control characters and invisible or direction-changing characters in JSON as `\uXXXX`, which does not change
/// its value. Line breaks and tabs between members stay.
pub(crate) fn escape_hidden(json: &str) -> String {
    let hides = |letter: char| {
        (letter.is_control() || hospes_policy::is_hidden(letter)) && !matches!(letter, '\n' | '\r' | '\t')
    };
    if !json.chars().any(hides) {
        return json.to_owned();
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if hides(letter) {
            // JSON escapes have 16 bits: other characters are surrogate pairs (RFC 8259 §7).
            let units = letter
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect::<String>();
            safe.push_str(&units);
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Formats a text after a coloured label, broken at spaces where the terminal would break it inside a word.
fn format_labelled(label: &str, style: &str, text: &str, width: Option<usize>) -> String {
    let whole = format!("{label}: {text}");
    let lines: Vec<String> = whole.lines().map(|line| wrap_text(line, 0, width)).collect();
    // Painted after folding, because the colour codes would count as columns.
    lines.join("\n").replacen(label, &paint(style, label), 1) + "\n"
}

/// Prints a part of a line of a result.
pub(crate) fn print_result_part(text: &str) {
    out(text);
}

/// Prints a message without ending the line.
pub(crate) fn print_message_part(text: &str) {
    err(text);
}

/// Clears the line of messages in which the cursor is, on a terminal.
pub(crate) fn clear_message_line() {
    if is_screen_for_messages() {
        err("\r\x1b[2K");
    }
}

/// Discards typed input that has not been read yet.
pub(crate) fn discard_typed_input() {
    crate::platform::discard_typed_input();
}

/// Prints a message that the user waits for, even if other messages are quiet.
pub(crate) fn announce(text: impl fmt::Display) {
    err(&format!("{text}\n"));
}

/// Returns true if results go to a terminal, not to a file or a program.
pub(crate) fn is_result_seen() -> bool {
    io::stdout().is_terminal()
}

/// Explains a silent program that reads standard input to a person who started it by hand.
pub(crate) fn explain_stdio(other: &str) {
    if is_interactive() {
        let text = format!(
            "serving MCP over stdin and stdout, for applications that launch it; {other}; Ctrl-D ends it"
        );
        announce(paint(DIM, wrap_text(&text, 0, talk_width())));
    }
}

/// Returns true if there is a terminal that can be drawn on and typed into.
pub(crate) fn is_screen() -> bool {
    let is_plain = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_plain
}

/// Returns true if messages go to a terminal on which a line can be redrawn.
pub(crate) fn is_screen_for_messages() -> bool {
    let is_plain = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stderr().is_terminal() && !is_plain
}

/// Returns true if there is a person who sees messages and can answer.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Returns true if a person sees messages.
pub(crate) fn is_seen() -> bool {
    io::stderr().is_terminal()
}

pub(crate) const BOLD: &str = "1";
pub(crate) const DIM: &str = "2";
pub(crate) const RED: &str = "1;31";
pub(crate) const GREEN: &str = "32";
pub(crate) const YELLOW: &str = "33";
pub(crate) const CYAN: &str = "36";

/// Wraps a text in a style. The style is removed on printing if colour is off.
pub(crate) fn paint(style: &str, text: impl fmt::Display) -> String {
    format!("\x1b[{style}m{text}\x1b[0m")
}

/// Makes hidden and control characters visible, so that text from servers cannot control the terminal. Line breaks stay.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            _ if hospes_policy::is_hidden(character) => safe.extend(character.escape_default()),
            _ => safe.push(character),
        }
    }
    safe
}

/// Makes a text from servers one line without hidden characters, so that it cannot forge a line of its own.
pub(crate) fn one_line(text: &str) -> String {
    printable(&without_breaks(text))
}

/// Makes a printable text as wide as a number of columns, if it is not wider. Wide characters count as two columns.
pub(crate) fn table_cell(text: &str, columns: usize) -> String {
    let text = printable(text);
    let missing = columns.saturating_sub(text.width());
    text + &" ".repeat(missing)
}

/// Returns the columns of the widest of these texts as [`table_cell`] prints them.
pub(crate) fn widest<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| printable(text).width()).max().unwrap_or_default()
}

/// Replaces line breaks and tabs by spaces. Other hidden characters stay.
pub(crate) fn without_breaks(text: &str) -> String {
    let is_break = |letter: char| matches!(letter, '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}');
    let plain: String = text.chars().map(|letter| if is_break(letter) { ' ' } else { letter }).collect();
    plain.trim().to_owned()
}

/// Returns true if a line of a problem is a detail: an address that was tried before a failure, or an HTML page.
pub(crate) fn is_detail(line: &str) -> bool {
    ["  tried: ", "         ", "  body: <"].iter().any(|head| line.starts_with(head))
}

/// Returns the width of the terminal for messages, in columns.
pub(crate) fn talk_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| width.0.into())
}

/// Returns the width of the terminal for results, in columns.
pub(crate) fn result_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into())
}

/// Puts `margin` before a text and breaks it at spaces into lines no longer than `width`, if given. A longer word stays
/// whole.
pub(crate) fn wrap_text(text: &str, margin: usize, width: Option<usize>) -> String {
    /// Text in a narrower column is harder to read than overlong lines.
    const NARROWEST: usize = 20;

    let most = width.map_or(usize::MAX, |width| width.saturating_sub(margin).max(NARROWEST));
    let mut lines: Vec<String> = Vec::new();
    for word in text.trim_end().split(' ') {
        match lines.last_mut() {
            // The line so far is only the text's own indentation.
            Some(line) if line.trim().is_empty() || columns(line) + 1 + columns(word) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            // Several blanks between columns of a row are one line break.
            Some(_) if word.is_empty() => {}
            _ => lines.push(word.to_owned()),
        }
    }
    let margin = " ".repeat(margin);
    lines.iter().map(|line| format!("{margin}{}", line.trim_end())).collect::<Vec<_>>().join("\n")
}

/// Breaks each line of a text at spaces where the terminal would break it inside a word. What continues a line begins
/// `hang` columns after its begin.
pub(crate) fn wrap_lines(text: &str, hang: usize, width: Option<usize>) -> String {
    let wrap = |line: &str| {
        if width.is_none_or(|width| columns(line) <= width) {
            return line.to_owned();
        }
        let begin = line.len() - line.trim_start_matches(' ').len();
        let margin = begin + hang;
        wrap_text(line.trim_start_matches(' '), margin, width).split_off(hang)
    };
    text.lines().map(wrap).collect::<Vec<_>>().join("\n")
}

/// Returns the number of columns of a text on a terminal. Styles have none.
pub(crate) fn columns(text: &str) -> usize {
    anstream::adapter::strip_str(text).map(UnicodeWidthStr::width).sum()
}

/// Returns the first line of a text, cut if it is longer than `most` characters.
pub(crate) fn first_line(text: &str, most: usize) -> String {
    let line = printable(text.trim().lines().next().unwrap_or_default().trim());
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_wide_names_are_as_wide_as_others() {
        assert_eq!(table_cell("ab", 4), "ab  ");
        assert_eq!(table_cell("日本", 5), "日本 ");
        assert_eq!(table_cell("long enough", 4), "long enough");
        assert_eq!(widest(["abc", "日本"]), 4);
    }

    #[test]
    fn what_hides_in_json_is_escaped_and_the_value_stays() {
        let value = serde_json::json!({ "a\u{202e}": "\u{9b}31m\u{200b}é\u{e0041}\n" });
        let text = escape_hidden(&serde_json::to_string_pretty(&value).unwrap());
        assert!(
            text.is_ascii() || !text.chars().any(|one| one != '\n' && hospes_policy::is_hidden(one)),
            "{text}"
        );
        assert!(text.contains("\\u009b31m\\u200bé\\udb40\\udc41\\n"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn what_follows_a_label_is_broken_at_spaces() {
        let text = format_labelled("hint", CYAN, "one two three four five six\nseven", Some(24));
        assert_eq!(text, format!("{}: one two three four\nfive six\nseven\n", paint(CYAN, "hint")));
    }

    #[test]
    fn long_lines_are_broken_at_spaces() {
        assert_eq!(wrap_text("one two", 2, None), "  one two");
        assert_eq!(
            wrap_text("one two three four five six seven", 4, Some(24)),
            "    one two three four\n    five six seven"
        );
        assert_eq!(wrap_text("  stderr: x", 0, Some(80)), "  stderr: x");
        assert_eq!(
            wrap_text("a averyveryveryveryverylongword b", 0, Some(5)),
            "a\naveryveryveryveryverylongword\nb"
        );
    }

    #[test]
    fn rows_are_broken_at_spaces_and_styles_and_wide_characters_count_as_they_are_shown() {
        let row =
            format!("  {}  reads the files of a folder  {}", paint(GREEN, "+"), paint(DIM, "from Cursor"));
        let plain = |width| anstream::adapter::strip_str(&wrap_lines(&row, 4, Some(width))).to_string();
        assert_eq!(plain(80), "  +  reads the files of a folder  from Cursor");
        assert_eq!(plain(45), plain(80), "it is 45 columns wide");
        assert_eq!(plain(44), "  +  reads the files of a folder  from\n      Cursor");
        assert_eq!(plain(35), "  +  reads the files of a\n      folder  from Cursor");
        assert_eq!(wrap_text("漢字漢字漢字 漢字漢字漢字", 0, Some(24)), "漢字漢字漢字\n漢字漢字漢字");
        assert_eq!(wrap_lines("a\n\nb", 4, Some(80)), "a\n\nb");
    }

    #[test]
    fn a_server_cannot_write_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d"), "a\\u{1b}[31mb\nc\\u{202e}d");
        assert_eq!(printable("a\u{ad}b\u{2028}c\u{e0041}"), "a\\u{ad}b\\u{2028}c\\u{e0041}");
        assert_eq!(
            one_line(" Jane\r\n  from  Example\u{2028}\u{1b}[2K "),
            "Jane    from  Example \\u{1b}[2K"
        );
        assert_eq!(first_line("  one\ntwo", 10), "one");
        assert_eq!(first_line("abcdef", 3), "abc…");
    }
}
