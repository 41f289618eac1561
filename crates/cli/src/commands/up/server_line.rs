//! Line about one server, as `up` and `status` print it.

use std::fmt::Write as _;

use hospes_host::pins::REVIEW_INSTRUCTION;
use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use unicode_width::UnicodeWidthStr as _;

use crate::output::{
    CYAN, DIM, GREEN, RED, YELLOW, first_line, is_detail, paint, printable, table_cell, wrap_text,
};
use crate::shown_commands::shown_command;

/// Indentation of the messages below a server's name, in columns.
pub(crate) const MARGIN: usize = 6;

/// Returns what a server offers, such as `6 tools, 1 resource`; kinds of which it has none are left out.
/// `None` if it offers nothing.
pub(crate) fn offered_counts(server: &UpstreamStatus) -> Option<String> {
    let counts = [
        (server.tools, "tool"),
        (server.prompts, "prompt"),
        (server.resources, "resource"),
        (server.templates, "template"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    if counts.is_empty() { None } else { Some(counts.join(", ")) }
}

/// Columns of the time before a line of the log of the screen, also after the screen has ended.
pub(super) const LOG_TIME_COLUMNS: usize = 11;

/// Formats one server on one line, followed by its problems in lines no longer than `width`.
pub(crate) fn line(server: &UpstreamStatus, width: Option<usize>) -> String {
    row_and_problems(server, (width, width))
}

/// Formats a server for the log of a screen of this width: problems are not broken, because the log does that.
pub(super) fn logged_line(server: &UpstreamStatus, width: Option<usize>) -> String {
    row_and_problems(server, (width.map(|width| width.saturating_sub(LOG_TIME_COLUMNS)), None))
}

/// Formats a server: a row of at most `row_width` columns, and problems in lines of at most `width`.
fn row_and_problems(server: &UpstreamStatus, (row_width, width): (Option<usize>, Option<usize>)) -> String {
    let (sign, style) = match server.state {
        _ if server.waits_for_review() => ("◍", YELLOW),
        UpstreamState::Ready => ("●", GREEN),
        UpstreamState::Starting => ("◌", YELLOW),
        UpstreamState::Retrying => ("○", YELLOW),
        _ => ("✗", RED),
    };
    let mut text = format!("{} {} ", paint(style, sign), table_cell(&server.name, 16));
    match server.state {
        UpstreamState::Ready if server.users.is_some() => {
            let users = match server.users.unwrap_or_default() {
                1 => "1 user".to_owned(),
                users => format!("{users} users"),
            };
            let _ = write!(text, "an account for each user  {}", paint(DIM, users));
        }
        UpstreamState::Ready => {
            let counts = offered_counts(server).unwrap_or_else(|| "offers nothing".to_owned());
            let waits = if server.needs_review { "waits for review, " } else { "" };
            let node = server.node.as_deref().map(|node| format!(", at {node}")).unwrap_or_default();
            let counts = format!("{waits}{counts}{node}");
            let revision = server.revision.as_deref().unwrap_or_default();
            let who = server.implementation.as_deref().unwrap_or(&server.target);
            // Columns before the text: the margin, the sign, the name and the blanks between them.
            let before = 5 + table_cell(&server.name, 16).width() + counts.len() + revision.len() + 4;
            let room = row_width.map_or(40, |width| width.saturating_sub(before + 1).min(40));
            // A few letters of a name are not informative.
            let who = if room < 8 { String::new() } else { format!("  {}", first_line(who, room)) };
            if row_width.is_some_and(|width| before > width + 2) {
                // A long server name leaves no room beside it.
                let rest = wrap_text(&format!("{counts}  {revision}"), MARGIN, row_width);
                let _ = write!(text, "\n{}", paint(DIM, rest));
            } else {
                let _ = write!(text, "{counts}  {}", paint(DIM, format!("{revision}{who}")));
            }
        }
        UpstreamState::Starting => {
            let _ = write!(text, "starting  {}", paint(DIM, first_line(&server.target, 60)));
        }
        _ => {
            let next =
                server.next_try_ms.map(|wait| format!(", again in {}", wait_text(wait))).unwrap_or_default();
            let _ = write!(text, "{}{next}", paint(style, server.state_word()));
            let problem = server.problem.iter().flat_map(|problem| problem.lines());
            for line in problem.filter(|line| !is_detail(line)) {
                let _ = write!(text, "\n{}", paint(DIM, wrap_text(&printable(line), MARGIN, width)));
            }
            if let Some(hint) = &server.hint {
                let hint = with_commands(hint, &server.name);
                let hint = wrap_text(&format!("hint: {}", printable(&hint)), MARGIN, width);
                let _ = write!(text, "\n{}", hint.replacen("hint", &paint(CYAN, "hint"), 1));
            }
        }
    }
    for (at, warning) in server.warnings.iter().enumerate() {
        // Printed once, even if several connections report it.
        if server.warnings[..at].contains(warning) {
            continue;
        }
        let warning = with_commands(warning, &server.name);
        let warning = wrap_text(&format!("warning: {}", printable(&warning)), MARGIN, width);
        let _ = write!(text, "\n{}", warning.replacen("warning", &paint(YELLOW, "warning"), 1));
    }
    text
}

/// Adds the equivalent commands to a host's message about a server that waits for review. The reader is a person, not a
/// model.
fn with_commands(text: &str, server: &str) -> String {
    let commands = format!(
        "review with `{}`, accept with `{}`",
        shown_command("pins show", server),
        shown_command("pins accept", server)
    );
    text.replace(REVIEW_INSTRUCTION, &commands)
}

fn wait_text(millis: u64) -> String {
    match millis {
        0..1000 => "a moment".to_owned(),
        1000..120_000 => format!("{} s", millis / 1000),
        _ => format!("{} min", millis / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers of a server with a long name are printed on a line below it, and the terminal breaks no line.
    #[test]
    fn a_long_name_of_a_server_has_a_line_of_its_own() {
        let server = serde_json::json!({
            "name": "a-server-with-a-really-long-name", "target": "npx", "state": "ready", "revision": "2025-11-25",
            "tools": 36, "prompts": 5, "resources": 3, "templates": 1,
        });
        let server: UpstreamStatus = serde_json::from_value(server).unwrap();
        for width in 40..130 {
            let text = anstream::adapter::strip_str(&line(&server, Some(width))).to_string();
            for row in format!("  {text}").lines() {
                assert!(row.chars().count() <= width, "{width}: {row}");
            }
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                words.contains("36 tools, 5 prompts, 3 resources, 1 template 2025-11-25"),
                "{width}: {text}"
            );
        }
    }

    /// A long name of a server was broken anywhere.
    #[test]
    fn what_is_said_of_a_server_that_is_ready_is_one_line() {
        let server = serde_json::json!({
            "name": "everything", "target": "npx", "state": "ready", "revision": "2025-11-25",
            "implementation": "mcp-servers/everything 2.0.0", "tools": 13, "prompts": 4, "resources": 7, "templates": 2,
        });
        let server: UpstreamStatus = serde_json::from_value(server).unwrap();
        for width in 85..130 {
            let text = line(&server, Some(width));
            // Colours take no room.
            let seen = text.split('\u{1b}').enumerate();
            let seen = seen.map(|(part, text)| match part {
                0 => text,
                _ => text.split_once('m').map_or(text, |(_, text)| text),
            });
            let columns = 2 + seen.map(|text| text.chars().count()).sum::<usize>();
            assert!(columns <= width, "{columns} of {width}: {text}");
            assert!(width < 110 || text.contains("everything 2.0.0"), "{text}");
        }
    }
}
