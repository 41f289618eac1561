//! The selected row in full, logs, the doctor's text and the keys.

use hospes::redact;
use hospes_host::ObservedCall;
use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::data::{LeftOutServer, LiveData, ServerRow, mend};
use super::rows;
use super::state::{LiveFocus, LiveState};
use crate::approve::{bold, dim, text};
use crate::commands::up::offered_counts;
use crate::mistake_text::{mistakes_first, named_commands};
use crate::output::is_detail;
use crate::screen_log::LogLine;
use crate::shown_commands::shown_command;

/// Width of the names of facts, in columns.
const NAMES: usize = 12;
/// Maximum number of lines of the standard error of a server below its facts.
const STDERR_LINES: usize = 8;
/// Minimum number of columns of the text of a line of a log.
const MIN_LOG_TEXT: usize = 12;
/// Maximum number of columns by which a line of a message is indented.
const MAX_LOG_INDENT: usize = 6;
/// Maximum number of lines of arguments.
const ARGUMENT_LINES: usize = 24;

/// Returns the lines about the selected row.
pub(super) fn lines(data: &LiveData, state: &LiveState, width: usize) -> Vec<Line<'static>> {
    let call = || state.calls(data).find(|call| Some(call.number) == state.call);
    match state.focus {
        LiveFocus::Calls => match call() {
            Some(call) => call_lines(call, width),
            None => vec![Line::styled(" ↓ selects a call", dim())],
        },
        LiveFocus::Servers => match selected(data, state) {
            Some(ServerRow::Configured(server)) => server_lines(data, server, width),
            Some(ServerRow::LeftOut(server)) => left_out_lines(server, width),
            None => vec![Line::styled(" no server", dim())],
        },
    }
}

fn selected<'a>(data: &'a LiveData, state: &LiveState) -> Option<ServerRow<'a>> {
    data.server_rows().find(|server| Some(server.name()) == state.server.as_deref())
}

/// Returns the lines about a server that was not started.
fn left_out_lines(server: &LeftOutServer, width: usize) -> Vec<Line<'static>> {
    let (_, color, word) = rows::left_out_sign(server);
    let mut lines =
        vec![Line::styled(format!(" {}", text::line(&server.name, width.saturating_sub(2))), bold())];
    fact(&mut lines, "state", word, width, Style::new().fg(color));
    left_out_reason(&mut lines, server, width);
    lines
}

/// Adds why a server was not started, and what mends it.
fn left_out_reason(lines: &mut Vec<Line<'static>>, server: &LeftOutServer, width: usize) {
    if server.is_disabled() {
        return fact(lines, "", "The configuration disables it.", width, Style::new());
    }
    fact(lines, "mistake", &mistakes_first(&server.reason), width, Style::new());
    let commands: Vec<String> =
        named_commands(&server.reason).iter().map(|command| format!("`{command}`")).collect();
    let hint = match commands.as_slice() {
        [] => "correct the entry; the host reads the file again when it changes".to_owned(),
        commands => format!("{}; the host notices it and starts the server", commands.join(", ")),
    };
    fact(lines, "hint", &hint, width, Style::new());
}

fn fact(lines: &mut Vec<Line<'static>>, name: &'static str, said: &str, width: usize, style: Style) {
    for (at, line) in text::lines(said, width.saturating_sub(NAMES + 1).max(8)).into_iter().enumerate() {
        let name = if at == 0 { name } else { "" };
        lines.push(Line::from(vec![
            Span::styled(format!(" {name:<NAMES$}"), dim()),
            Span::styled(line, style),
        ]));
    }
}

fn call_lines(call: &ObservedCall, width: usize) -> Vec<Line<'static>> {
    let plain = Style::new();
    let mut lines = vec![Line::styled(
        format!(" {}", text::line(&format!("{} {}", call.server, call.subject), width.saturating_sub(2))),
        bold(),
    )];
    let mut state = vec![Span::raw(" ")];
    state.extend(rows::call_state(call));
    lines.push(rows::fit(state, width));
    fact(&mut lines, "began", &rows::time_of_day(call.at), width, plain);
    if let Some(application) = &call.application {
        fact(&mut lines, "application", application, width, plain);
    }
    if let Some(by) = &call.by {
        let decision = call.decision.as_deref().unwrap_or("decided");
        fact(&mut lines, "decision", &format!("{decision}: {by}"), width, plain);
    }
    let arguments = call.arguments.as_ref().and_then(|raw| raw.decode::<Value>().ok());
    if let Some(mut arguments) = arguments {
        redact::value(&mut arguments);
        lines.push(Line::styled(" arguments (secrets are hidden)", dim()));
        let shown = serde_json::to_string_pretty(&arguments).unwrap_or_default();
        let folded = text::lines(&shown, width.saturating_sub(3).max(8));
        lines.extend(folded.into_iter().take(ARGUMENT_LINES).map(|line| Line::raw(format!("  {line}"))));
    }
    lines
}

fn server_lines(data: &LiveData, server: &UpstreamStatus, width: usize) -> Vec<Line<'static>> {
    let plain = Style::new();
    let (_, color, word) = rows::sign(server);
    let mut lines =
        vec![Line::styled(format!(" {}", text::line(&server.name, width.saturating_sub(2))), bold())];
    fact(&mut lines, "state", word, width, Style::new().fg(color));
    trouble(&mut lines, server, width);
    fact(&mut lines, "target", &server.target, width, plain);
    if let Some(implementation) = &server.implementation {
        fact(&mut lines, "program", implementation, width, plain);
    }
    if let Some(revision) = &server.revision {
        fact(&mut lines, "revision", revision, width, plain);
    }
    if server.state == UpstreamState::Ready {
        let offers = offered_counts(server).unwrap_or_else(|| "nothing".to_owned());
        fact(&mut lines, "offers", &offers, width, plain);
    }
    if let Some(sandbox) = server.process.as_ref().and_then(|process| process.sandbox.as_ref()) {
        fact(&mut lines, "sandbox", &sandbox.to_string(), width, plain);
    }
    if !data.server_log.is_empty() {
        lines.push(Line::styled(" log, last lines (l shows all)", dim()));
        let skipped = data.server_log.len().saturating_sub(STDERR_LINES);
        lines.extend(wrapped_log(&data.server_log[skipped..], width));
    }
    lines
}

/// Adds what is wrong with a server, and the command that mends it.
fn trouble(lines: &mut Vec<Line<'static>>, server: &UpstreamStatus, width: usize) {
    if let Some(problem) = &server.problem {
        let shown: Vec<&str> = problem.lines().filter(|line| !is_detail(line)).collect();
        fact(lines, "problem", &shown.join("\n"), width, Style::new());
    }
    for warning in &server.warnings {
        fact(lines, "warning", warning, width, Style::new().fg(Color::Yellow));
    }
    if let Some(hint) = &server.hint {
        fact(lines, "hint", hint, width, Style::new());
    }
    if let Some(command) = mend(server) {
        fact(lines, "mend", &command, width, bold());
    }
}

/// Draws the selected row over the whole body.
pub(super) fn draw_detail(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    draw_lines(frame, lines(data, state, usize::from(area.width)), area, None);
}

/// Draws the log of the selected server.
pub(super) fn draw_server_log(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    let name = state.server.as_deref().unwrap_or_default();
    draw_log_of(frame, (&format!("LOG of {name}"), &data.server_log), state, area);
}

/// Draws everything that was printed.
pub(super) fn draw_log(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    draw_log_of(frame, ("LOG", &data.log), state, area);
}

fn draw_log_of(frame: &mut Frame<'_>, (title, log): (&str, &[LogLine]), state: &LiveState, area: Rect) {
    let width = usize::from(area.width);
    let mut lines = wrapped_log(log, width);
    if lines.is_empty() {
        lines.push(Line::styled("   nothing yet", dim()));
    }
    let title = Line::styled(format!(" {}", text::line(title, width.saturating_sub(2))), bold());
    let [head, body] = ratatui::layout::Layout::vertical([
        ratatui::layout::Constraint::Length(1),
        ratatui::layout::Constraint::Min(1),
    ])
    .areas(area);
    frame.render_widget(title, head);
    draw_lines(frame, lines, body, Some(state.scroll));
}

/// Breaks the text of a message into lines. What continues a line is indented.
fn folded(message: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in message.trim().lines() {
        let rest = line.trim_start_matches(' ');
        let begin = (line.len() - rest.len()).min(MAX_LOG_INDENT);
        let hang = begin + 2;
        let (first, indent) = (" ".repeat(begin), " ".repeat(hang));
        // A line that fits is not broken because of the indentation of what would continue it.
        let room = if rest.width() + begin <= width { width } else { width.saturating_sub(hang) };
        let pieces = text::lines(rest, room.max(1)).into_iter().enumerate();
        lines.extend(pieces.map(|(at, piece)| format!("{}{piece}", if at == 0 { &first } else { &indent })));
    }
    lines
}

/// Returns the first lines of the last messages of a log, at most `room`: of a longer message its begin, because its end
/// alone says nothing.
pub(super) fn log_tail(log: &[LogLine], width: usize, room: usize) -> Vec<Line<'static>> {
    let mut blocks: Vec<Vec<Line<'static>>> = Vec::new();
    let mut left = room;
    for message in log.iter().rev() {
        if left == 0 {
            break;
        }
        let mut lines = wrapped_log(std::slice::from_ref(message), width);
        if lines.len() > left {
            lines.truncate(left);
            if let Some(last) = lines.last_mut() {
                let spans = std::mem::take(&mut last.spans);
                let mut cut = rows::fit(spans, width.saturating_sub(2));
                cut.spans.push(Span::styled(" …", dim()));
                *last = cut;
            }
        }
        left -= lines.len();
        blocks.push(lines);
    }
    blocks.into_iter().rev().flatten().collect()
}

/// Returns the lines of a log, wrapped at words. Only the first line of a message has its time.
pub(super) fn wrapped_log(log: &[LogLine], width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::with_capacity(log.len());
    for line in log {
        let head = log_head(line);
        let margin: usize = head.iter().map(Span::width).sum();
        let mut rest = folded(&line.text, width.saturating_sub(margin).max(MIN_LOG_TEXT)).into_iter();
        let mut first = head;
        first.extend(rest.next().map(Span::raw));
        lines.push(rows::fit(first, width));
        lines.extend(rest.map(|text| rows::fit(vec![Span::raw(" ".repeat(margin)), Span::raw(text)], width)));
    }
    lines
}

/// Returns the time of a line, and its level if it says more than that the line is there.
fn log_head(line: &LogLine) -> Vec<Span<'static>> {
    let style = match line.level.as_str() {
        "error" => Style::new().fg(Color::Red),
        "warn" => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    };
    let mut spans = vec![Span::styled(format!(" {} ", rows::time_of_day(line.at)), dim())];
    if !matches!(line.level.as_str(), "" | "info") {
        spans.push(Span::styled(format!("{} ", text::line(&line.level, 6)), style));
    }
    spans
}

/// Draws what is known to be wrong with the selected server.
pub(super) fn draw_doctor(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    let width = usize::from(area.width);
    let Some(row) = selected(data, state) else { return };
    let (sign, color, word) = match row {
        ServerRow::Configured(server) => rows::sign(server),
        ServerRow::LeftOut(server) => rows::left_out_sign(server),
    };
    let mut lines = vec![Line::from(vec![
        Span::styled(format!(" {sign} "), Style::new().fg(color)),
        Span::styled(text::line(row.name(), width / 2), bold()),
        Span::raw(format!("  {word}")),
    ])];
    let server = match row {
        ServerRow::Configured(server) => server,
        ServerRow::LeftOut(server) => {
            left_out_reason(&mut lines, server, width);
            return draw_lines(frame, lines, area, None);
        }
    };
    if mend(server).is_none() {
        let text = match server.state {
            UpstreamState::Starting => "It is starting. Calls to it wait.",
            _ => "Nothing is known to be wrong with it.",
        };
        fact(&mut lines, "", text, width, Style::new());
    }
    if server.failures > 0 {
        fact(&mut lines, "failures", &format!("{} in a row", server.failures), width, Style::new());
    }
    trouble(&mut lines, server, width);
    let command = format!("`{}` in another terminal checks each step", shown_command("doctor", &server.name));
    fact(&mut lines, "", &command, width, dim());
    if !data.server_log.is_empty() {
        lines.push(Line::styled(" log, last lines", dim()));
        let skipped = data.server_log.len().saturating_sub(STDERR_LINES);
        lines.extend(wrapped_log(&data.server_log[skipped..], width));
    }
    draw_lines(frame, lines, area, None);
}

/// Columns of a key in the overview of the keys, with the blank before it.
const KEY_COLUMNS: usize = 10;

/// Draws the overview of the keys.
pub(super) fn draw_keys(frame: &mut Frame<'_>, _: &LiveState, area: Rect) {
    const KEYS: [(&str, &str); 15] = [
        ("c", "open the console in the browser, with a new link that is valid once"),
        ("a", "look at what waits; nothing is selected there, and Enter decides nothing"),
        ("s, tab", "go to the servers; switch between servers and calls"),
        ("↑ ↓ j k", "select a row, or scroll"),
        ("Enter", "show the selected row in full: arguments, the rule, what mends it"),
        ("l", "log of the selected server"),
        ("L", "everything that was printed"),
        ("d", "what is wrong with the selected server"),
        ("/", "filter by application, server or tool; Esc clears"),
        ("p", "pause the screen; the host goes on"),
        ("Esc", "back"),
        ("q", "stop the host; asks first if calls run or wait"),
        ("Ctrl-C", "stop the host at once; again: without waiting for calls"),
        ("Ctrl-Z", "suspend the host; `fg` continues it"),
        ("", "● ready  ◐ starting  ○ retrying  ◍ waits for review  ✗ failed  ▲ waits for you"),
    ];
    let width = usize::from(area.width);
    let mut lines = Vec::new();
    for (key, does) in KEYS {
        for (at, does) in text::lines(does, width.saturating_sub(KEY_COLUMNS).max(1)).into_iter().enumerate()
        {
            let key = if at == 0 { key } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!(" {key:<9}"), bold().fg(Color::Cyan)),
                Span::raw(does),
            ]));
        }
    }
    draw_lines(frame, lines, area, None);
}

/// Draws lines from their begin, or with a scroll position from their end.
fn draw_lines(frame: &mut Frame<'_>, lines: Vec<Line<'static>>, area: Rect, scroll: Option<usize>) {
    let room = usize::from(area.height);
    let skipped = scroll.map_or(0, |up| {
        let most = lines.len().saturating_sub(room);
        most.saturating_sub(up)
    });
    frame.render_widget(Clear, area);
    let shown: Vec<Line<'static>> = lines.into_iter().skip(skipped).take(room).collect();
    frame.render_widget(Paragraph::new(shown), area);
}
