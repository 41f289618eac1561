//! Definitions that a server offers, for a terminal: the names of its tools, and all of the text on request.

use std::fmt::Write as _;

use hospes_console::OfferedItem;
use serde_json::Value;
use unicode_width::UnicodeWidthChar as _;

use super::screen::Screen;
use crate::output::{self, BOLD, CliOutput, YELLOW, announce, escape_hidden, one_line, paint, printable};

/// Maximum number of names in a row.
const MAX_NAMES: usize = 40;
/// Maximum number of characters of a name in a row.
const MAX_NAME: usize = 64;
/// Beginning of each line of a text that is the server's. No line of the program has it.
const QUOTE: &str = "    │ ";
/// Width of a terminal that does not tell it, in columns.
const USUAL_WIDTH: usize = 80;
/// Height of a terminal that does not tell it, in lines.
const USUAL_HEIGHT: usize = 24;

/// Effect of a tool, as the tool claims it. Tools that destroy come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ToolEffect {
    Destroys,
    Changes,
    Reads,
}

impl ToolEffect {
    /// Reads the effect from the definition of a tool. A tool that claims nothing may change something.
    pub(super) fn of(definition: Option<&Value>) -> Self {
        let hint = |name: &str| definition.and_then(|definition| definition["annotations"][name].as_bool());
        match (hint("readOnlyHint"), hint("destructiveHint")) {
            (Some(true), _) => Self::Reads,
            (_, Some(true)) => Self::Destroys,
            _ => Self::Changes,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Destroys => "may destroy",
            Self::Changes => "may change something",
            Self::Reads => "says that it only reads",
        }
    }
}

/// Writes the names of what is offered: first the tools that change or destroy, and among them those with findings.
pub(super) fn rows(screen: &mut Screen, offers: &[OfferedItem]) {
    for (label, effect) in
        [("destroys", ToolEffect::Destroys), ("changes", ToolEffect::Changes), ("reads", ToolEffect::Reads)]
    {
        let is_meant =
            |item: &&OfferedItem| item.kind == "tool" && ToolEffect::of(item.definition.as_ref()) == effect;
        names_row(screen, label, offers.iter().filter(is_meant));
    }
    for (label, kind) in [("prompts", "prompt"), ("resources", "resource"), ("templates", "template")] {
        names_row(screen, label, offers.iter().filter(|item| item.kind == kind));
    }
}

fn names_row<'o>(screen: &mut Screen, label: &str, items: impl Iterator<Item = &'o OfferedItem>) {
    let names: Vec<String> = items.map(row_name).collect();
    if names.is_empty() {
        return;
    }
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        count => format!(", and {count} more (v shows them)"),
    };
    screen.terminal_row(label, &format!("{}{more}", names[..names.len().min(MAX_NAMES)].join(", ")));
}

/// Returns a name that cannot be mistaken for several.
fn row_name(item: &OfferedItem) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:{}+".contains(letter);
    let mut name: String = item.name.chars().take(MAX_NAME).collect();
    if name.len() < item.name.len() {
        name.push('…');
    }
    let name = match name.chars().all(|letter| is_plain(letter) || letter == '…') && !name.is_empty() {
        true => name,
        false => format!("\"{}\"", one_line(&name).replace('"', "\\\"")),
    };
    match item.findings.len() {
        0 => name,
        1 => format!("{name} (1 warning)"),
        count => format!("{name} ({count} warnings)"),
    }
}

/// Formats all definitions. Each line of a text of the server is quoted, so that none can look like one of the program,
/// and hidden characters are visible.
pub(super) fn text(offers: &[OfferedItem], width: usize) -> String {
    let mut text = String::new();
    for item in offers {
        let effect = match item.kind.as_str() {
            "tool" => format!(" · {}", ToolEffect::of(item.definition.as_ref()).describe()),
            _ => String::new(),
        };
        let name = one_line(&item.name);
        let _ = writeln!(text, "\n  {} {}{effect}", item.kind, paint(BOLD, name));
        for finding in &item.findings {
            let _ = writeln!(text, "    {} {}", paint(YELLOW, "warning"), one_line(finding));
        }
        let Some(definition) = &item.definition else {
            let _ = writeln!(text, "    {} it is too long to be shown", paint(YELLOW, "warning"));
            continue;
        };
        let mut rest = definition.clone();
        let description = match rest.as_object_mut() {
            Some(members) => {
                members.remove("name");
                ["description", "instructions"].into_iter().find_map(|key| match members.get(key) {
                    Some(Value::String(_)) => members.remove(key),
                    _ => None,
                })
            }
            None => None,
        };
        if let Some(description) = description.as_ref().and_then(Value::as_str) {
            quote(&mut text, description, printable, width);
        }
        if rest.as_object().is_none_or(|members| !members.is_empty()) {
            let json = serde_json::to_string_pretty(&rest).unwrap_or_default();
            quote(&mut text, &json, escape_hidden, width);
        }
    }
    text
}

/// Writes the lines of a foreign text, none of them wider than the terminal.
fn quote(text: &mut String, foreign: &str, show: fn(&str) -> String, width: usize) {
    let room = width.saturating_sub(QUOTE.chars().count()).max(20);
    for line in foreign.lines() {
        let shown = show(&line.replace('\t', "    "));
        let mut piece = String::new();
        let mut columns = 0;
        for letter in shown.chars() {
            let wide = letter.width().unwrap_or(1);
            if columns + wide > room {
                let _ = writeln!(text, "{QUOTE}{piece}");
                piece.clear();
                columns = 0;
            }
            piece.push(letter);
            columns += wide;
        }
        let _ = writeln!(text, "{QUOTE}{piece}");
    }
}

/// Shows all definitions, one screen after the other.
pub(super) fn page(offers: &[OfferedItem], output: CliOutput) {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    let (width, height) = size
        .map_or((USUAL_WIDTH, USUAL_HEIGHT), |(width, height)| (usize::from(width.0), usize::from(height.0)));
    let text = text(offers, width);
    let lines: Vec<&str> = text.lines().collect();
    // The question needs lines of its own.
    let step = height.saturating_sub(3).max(5);
    for (number, part) in lines.chunks(step).enumerate() {
        announce(part.join("\n"));
        let shown = number * step + part.len();
        if shown == lines.len() {
            return;
        }
        output::discard_typed_input();
        let question = format!("  {shown} of {} lines [Enter goes on · q ends the list] ", lines.len());
        if output.ask(question).is_none_or(|answer| matches!(answer.trim(), "q" | "Q")) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, findings: &[&str], definition: Value) -> OfferedItem {
        OfferedItem {
            kind: "tool".to_owned(),
            name: name.to_owned(),
            findings: findings.iter().map(|text| (*text).to_owned()).collect(),
            definition: Some(definition),
        }
    }

    #[test]
    fn names_are_listed_by_effect_and_none_can_be_mistaken_for_several() {
        let offers = [
            tool("drop, now", &["hidden"], json!({ "annotations": { "destructiveHint": true } })),
            tool("write", &[], json!({})),
            tool("now", &[], json!({ "annotations": { "readOnlyHint": true, "destructiveHint": true } })),
        ];
        let mut screen = Screen::default();
        rows(&mut screen, &offers);
        let text = screen.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("destroys") && lines[0].contains("\"drop, now\" (1 warning)"), "{text}");
        assert!(lines[1].contains("changes") && lines[1].ends_with("write"), "{text}");
        assert!(lines[2].contains("reads") && lines[2].ends_with("now"), "{text}");
    }

    /// A text of a server has hidden characters, lines like those of the program, and a line that the terminal would break.
    #[test]
    fn every_line_of_a_definition_is_quoted_and_hides_nothing() {
        let forged = "Reads.\n  tool other · says that it only reads\r\u{2028}x\u{202e}evil\u{1b}[2J";
        let long = "w".repeat(300);
        let schema = json!({ "type": "object", "properties": { "a\u{200b}b": { "description": forged } } });
        let offers = [tool(
            "a\n  tool b",
            &["one\n  tool c"],
            json!({
                "name": "x", "description": format!("{forged}\n{long}"), "inputSchema": schema,
            }),
        )];
        let text = text(&offers, 60);
        for line in text.lines().filter(|line| !line.is_empty()) {
            let is_own = line.starts_with("  tool ") || line.contains("warning");
            assert!(is_own || line.starts_with(QUOTE), "{line:?}");
            assert!(line.chars().count() <= 60 || is_own, "{line:?}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("  tool ")).count(), 1, "{text}");
        let foreign = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "").replace("\u{1b}[33m", "");
        assert!(!foreign.contains(['\u{202e}', '\u{1b}', '\u{200b}', '\u{2028}', '\r']), "{foreign:?}");
        // A line may be broken inside of such a mark.
        let joined = text.replace(&format!("\n{QUOTE}"), "");
        assert!(joined.contains("\\u{202e}") && joined.contains("a\\u200bb"), "{text}");
    }
}
