//! Single lines of the screen: the header, what waits, a server, a call.

use std::time::Duration;

use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use hospes_host::{CallProgress, ObservedCall, ServerCalls};
use hospes_store::{AuditOutcome, DecisionBasis};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::data::{LeftOutServer, LiveData, ServerRow, mend};
use super::state::LiveState;
use crate::approve::draw::left;
use crate::approve::{bold, dim, text};
use crate::mistake_text::reason;
use crate::output::{first_line, is_detail};

/// Number of steps of a progress bar.
const BAR_STEPS: usize = 8;
/// Number of columns of a history.
pub(super) const HISTORY_WIDTH: usize = 10;
/// Minimum number of columns of a reason, which is left out otherwise.
const MIN_REASON: usize = 8;
/// Number of columns of a reason that are more useful than the wait before the next attempt.
const MIN_REASON_ROOM: usize = 40;
/// Levels of a history.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the text cut or filled to exactly `width` columns.
pub(super) fn filled(value: &str, width: usize) -> String {
    let mut shown = text::line(value, width);
    shown.push_str(&" ".repeat(width.saturating_sub(shown.width())));
    shown
}

/// Returns the text at the right of `width` columns.
fn right(value: &str, width: usize) -> String {
    let shown = text::line(value, width);
    format!("{}{shown}", " ".repeat(width.saturating_sub(shown.width())))
}

/// Cuts spans at `width` columns.
pub(super) fn fit(spans: Vec<Span<'static>>, width: usize) -> Line<'static> {
    let mut room = width;
    let mut kept = Vec::with_capacity(spans.len());
    for span in spans {
        if room == 0 {
            break;
        }
        let used = span.width();
        if used <= room {
            room -= used;
            kept.push(span);
        } else {
            kept.push(Span::styled(text::line(&span.content, room), span.style));
            room = 0;
        }
    }
    Line::from(kept)
}

/// Returns one line with `left` at its begin and `right` at its end. The end is left out if there is no room.
fn spread(left: Vec<Span<'static>>, right: Vec<Span<'static>>, width: usize) -> Line<'static> {
    let columns = |spans: &[Span<'_>]| spans.iter().map(Span::width).sum::<usize>();
    let (used, wanted) = (columns(&left), columns(&right));
    if used + wanted + 2 > width {
        return fit(left, width);
    }
    let mut spans = left;
    spans.push(Span::raw(" ".repeat(width - used - wanted)));
    spans.extend(right);
    Line::from(spans)
}

/// Returns the line with the paths of the profiles' endpoints, if there are profiles.
pub(super) fn profiles(data: &LiveData, width: usize) -> Option<Line<'static>> {
    let path = |name: &String| format!("  /mcp/{}", text::line(name, 32));
    let paths: String = data.profiles.iter().map(path).collect();
    let spans = vec![Span::styled(" profiles", dim()), Span::styled(paths, Style::new().fg(Color::Cyan))];
    (!data.profiles.is_empty()).then(|| fit(spans, width))
}

pub(super) fn header(data: &LiveData, state: &LiveState, width: usize) -> Line<'static> {
    let mut left = vec![
        Span::raw(" "),
        Span::styled("hospes", bold()),
        Span::styled(format!(" {}", text::line(&data.version, 20)), dim()),
        Span::styled(format!("  {}", text::line(&data.endpoint, 60)), Style::new().fg(Color::Cyan)),
    ];
    if state.is_paused {
        left.push(Span::styled("  PAUSED", bold().fg(Color::Yellow)));
    }
    if !state.filter.is_empty() {
        left.push(Span::styled(format!("  filter: {}", text::line(&state.filter, 20)), bold()));
    }
    let right = vec![
        Span::raw(format!("up {}", uptime(data.uptime))),
        Span::styled("  rules: ", dim()),
        Span::raw(text::line(&data.rules, 20)),
        Span::raw(" "),
    ];
    spread(left, right, width)
}

/// Returns the lines about followed files with mistakes.
pub(super) fn file_problems(data: &LiveData, width: usize) -> impl Iterator<Item = Line<'static>> {
    data.file_problems.iter().map(move |one| {
        let name = one.file.rsplit(['/', '\\']).next().unwrap_or_default();
        let since = minute_of_day(one.since);
        let said = format!(" ▲ {name}, mistake since {since}: {}", one.problem);
        Line::styled(text::line(&said, width), bold().fg(Color::Yellow))
    })
}

/// Returns the line about what waits, with the time left of what expires first.
pub(super) fn waiting(data: &LiveData, width: usize) -> Option<Line<'static>> {
    let first = data.waiting.iter().min_by_key(|row| row.expires_at)?;
    let alarm = bold().fg(Color::Yellow);
    let count = data.waiting.len();
    let verb = if count == 1 { "waits" } else { "wait" };
    let end = vec![
        Span::styled(format!("  {}", left(first.expires_at, data.now)), alarm),
        Span::styled("  [a] look ", dim()),
    ];
    let head = format!(" ▲ {count} {verb}  ");
    let room = width.saturating_sub(head.width() + end.iter().map(Span::width).sum::<usize>() + 2);
    let start = vec![Span::styled(head, alarm), Span::raw(text::line(&first.sentence, room.max(10)))];
    Some(spread(start, end, width))
}

/// Returns the sign of a server, its colour and the word for its state.
pub(super) fn sign(server: &UpstreamStatus) -> (&'static str, Color, &'static str) {
    match server.state {
        _ if server.waits_for_review() => ("◍", Color::Yellow, "waits for review"),
        UpstreamState::Ready if server.warnings.is_empty() => ("●", Color::Green, "ready"),
        UpstreamState::Ready => ("●", Color::Yellow, "ready, with a warning"),
        UpstreamState::Starting => ("◐", Color::Yellow, "starting"),
        UpstreamState::Retrying => ("○", Color::Yellow, "retrying"),
        UpstreamState::Failed => ("✗", Color::Red, "failed"),
        _ => ("✗", Color::Red, "stopped"),
    }
}

/// Returns the width of the column with the names of the servers.
pub(super) fn name_width(servers: &[ServerRow<'_>]) -> usize {
    servers.iter().map(|server| text::line(server.name(), 20).width()).max().unwrap_or(0).clamp(8, 20)
}

pub(super) fn server_heading(name_width: usize, width: usize, is_focused: bool) -> Line<'static> {
    let title = if is_focused { bold().fg(Color::Cyan) } else { dim().add_modifier(Modifier::BOLD) };
    let spans = vec![
        Span::styled(filled(" SERVERS", name_width + 4), title),
        Span::styled(filled("", 9), dim()),
        Span::styled(right("calls", 7), dim()),
        Span::styled(right("p50 ms", 7), dim()),
        Span::styled(right("p95 ms", 7), dim()),
        Span::styled("  last min", dim()),
    ];
    fit(spans, width)
}

/// Returns the line about a server.
pub(super) fn server(
    server: &UpstreamStatus,
    calls: Option<&ServerCalls>,
    (name_width, width): (usize, usize),
    is_selected: bool,
) -> Line<'static> {
    let (mark, color, word) = sign(server);
    let mut spans = row_begin((mark, color), &server.name, name_width, is_selected);
    let is_well = server.state == UpstreamState::Ready && !server.waits_for_review();
    if is_well {
        let offers = match (server.users, server.tools) {
            (Some(users), _) => format!("{users} users"),
            (None, 0) => "no tools".to_owned(),
            (None, 1) => "1 tool".to_owned(),
            (None, tools) => format!("{tools} tools"),
        };
        let number = calls.map_or(0, |calls| calls.calls);
        spans.extend([
            Span::styled(filled(&offers, 9), dim()),
            Span::raw(right(&number.to_string(), 7)),
            Span::raw(right(
                &calls.and_then(|calls| calls.p50).map_or_else(|| "-".to_owned(), milliseconds),
                7,
            )),
            Span::raw(right(
                &calls.and_then(|calls| calls.p95).map_or_else(|| "-".to_owned(), milliseconds),
                7,
            )),
            Span::raw("  "),
            Span::styled(
                history(calls.map_or(&[], |calls| calls.history.as_slice())),
                Style::new().fg(Color::Cyan),
            ),
        ]);
        let running = calls.map_or(0, |calls| calls.running);
        let failed = calls.map_or(0, |calls| calls.failed);
        let notes = [
            (running > 0).then(|| Span::styled(format!("  {running} running"), bold())),
            (failed > 0).then(|| Span::styled(format!("  {failed} failed"), Style::new().fg(Color::Red))),
            (!server.warnings.is_empty()).then(|| Span::styled("  ▲ warning", bold().fg(Color::Yellow))),
        ];
        for note in notes.into_iter().flatten() {
            // A part of a note says nothing.
            if spans.iter().map(Span::width).sum::<usize>() + note.width() <= width {
                spans.push(note);
            }
        }
        return fit(spans, width);
    }
    let command = mend(server).map(|command| text::line(&command, 40));
    let used: usize = spans.iter().map(Span::width).sum();
    let end = command.as_ref().map_or(0, |command| command.width() + 3);
    let room = width.saturating_sub(used + end);
    let reason = server.problem.as_deref().map(short_problem).unwrap_or_default();
    let wait = server.next_try_ms.map(|wait| format!(", again in {}", short(Duration::from_millis(wait))));
    // The reason says more than the wait, which is left out first.
    let wait = wait.filter(|wait| {
        let rest = if reason.is_empty() { 0 } else { reason.width().min(MIN_REASON_ROOM) + 2 };
        word.width() + wait.width() + rest <= room
    });
    spans.push(Span::styled(format!("{word}{}", wait.unwrap_or_default()), Style::new().fg(color)));
    push_reason(&mut spans, &reason, width.saturating_sub(end));
    let end = command.map(|command| vec![Span::styled(format!("{command} "), bold())]);
    spread(spans, end.unwrap_or_default(), width)
}

/// Returns the line about a server that was not started.
pub(super) fn left_out(
    server: &LeftOutServer,
    (name_width, width): (usize, usize),
    is_selected: bool,
) -> Line<'static> {
    let (mark, color, word) = left_out_sign(server);
    let mut spans = row_begin((mark, color), &server.name, name_width, is_selected);
    spans.push(Span::styled(word, Style::new().fg(color)));
    let command = server.mend().map(|command| text::line(&command, 40));
    let end = command.as_ref().map_or(0, |command| command.width() + 3);
    if !server.is_disabled() {
        // The file is in the full view, for which the row has no room.
        let said = reason(&server.reason).split("; `hospes ").next().unwrap_or_default();
        push_reason(&mut spans, &first_line(said, 200), width.saturating_sub(end));
    }
    let end = command.map(|command| vec![Span::styled(format!("{command} "), bold())]);
    spread(spans, end.unwrap_or_default(), width)
}

/// Returns the sign of a server that was not started, its colour and the word for its state.
pub(super) fn left_out_sign(server: &LeftOutServer) -> (&'static str, Color, &'static str) {
    match server.is_disabled() {
        true => ("-", Color::Reset, "disabled"),
        false => ("✗", Color::Red, "not started"),
    }
}

/// Returns the begin of the line about a server: its sign and its name.
fn row_begin(
    (mark, color): (&'static str, Color),
    name: &str,
    name_width: usize,
    is_selected: bool,
) -> Vec<Span<'static>> {
    vec![
        Span::styled(if is_selected { "▌" } else { " " }, Style::new().fg(Color::Cyan)),
        Span::styled(mark, Style::new().fg(color)),
        Span::raw(" "),
        Span::styled(filled(name, name_width), if is_selected { bold() } else { Style::new() }),
        Span::raw(" "),
    ]
}

/// Adds a reason, if there is room for some of its words.
fn push_reason(spans: &mut Vec<Span<'static>>, reason: &str, width: usize) {
    let room = width.saturating_sub(spans.iter().map(Span::width).sum::<usize>() + 2);
    if !reason.is_empty() && (room >= MIN_REASON || reason.width() <= room) {
        spans.push(Span::styled(format!(": {}", text::line(reason, room)), dim()));
    }
}

/// Returns the reason of a problem in a few words, without the target and the stage, which the row has no room for.
fn short_problem(problem: &str) -> String {
    let line = problem.lines().find(|line| !is_detail(line)).unwrap_or_default();
    let stage = line.strip_prefix("cannot connect to ").and_then(|rest| rest.split_once("): "));
    first_line(stage.map_or(line, |(_, reason)| reason), 200)
}

/// Returns the name of the application of a call, without its process.
pub(super) fn short_application(call: &ObservedCall) -> &str {
    let name = call.application.as_deref().unwrap_or("-");
    name.split(" (").next().unwrap_or(name)
}

/// Returns the line about a call.
pub(super) fn call(
    call: &ObservedCall,
    (application_width, server_width, subject_width, width): (usize, usize, usize, usize),
    is_selected: bool,
) -> Line<'static> {
    let time = time_of_day(call.at);
    let application = short_application(call);
    let style = if is_selected { bold() } else { Style::new() };
    let mut spans = vec![
        Span::styled(if is_selected { "▌" } else { " " }, Style::new().fg(Color::Cyan)),
        Span::styled(time, dim()),
        Span::raw(" "),
        Span::styled(filled(application, application_width), style),
        Span::raw(" "),
        Span::styled(filled(&call.server, server_width), style),
        Span::raw(" "),
        Span::styled(filled(&call.subject, subject_width), style),
        Span::raw(" "),
    ];
    spans.extend(call_state(call));
    fit(spans, width)
}

/// Returns a decider in a few words. `Decider::describe` and the console name persons by their place.
fn decider(by: &str) -> String {
    let place = by.split_once("the person at the ").map(|(_, rest)| rest.split([' ', ':', ',']).next());
    match place.flatten() {
        Some(place) => format!("you, {}", text::line(place, 20)),
        None => text::line(by, 60),
    }
}

/// Returns how a call is, or how it ended and who decided.
pub(super) fn call_state(call: &ObservedCall) -> Vec<Span<'static>> {
    let by_person = match call.basis {
        basis if basis.is_answer() => call.by.as_deref().map(decider),
        DecisionBasis::Grant => Some("an earlier decision".to_owned()),
        _ => None,
    };
    let by = by_person.as_ref().map(|by| {
        let word = if call.decision.as_deref() == Some("deny") { "denied" } else { "allowed" };
        Span::styled(format!("  {word} by {by}"), dim())
    });
    let took = milliseconds(call.duration);
    let mut spans = match call.outcome {
        None if call.decision.as_deref() == Some("ask") => {
            let words = format!("▲ waits for you {}", short(call.duration));
            return vec![Span::styled(words, bold().fg(Color::Yellow))];
        }
        None => {
            let mut spans =
                vec![Span::styled(format!("running {}", short(call.duration)), bold().fg(Color::Cyan))];
            spans.extend(call.progress.iter().flat_map(progress));
            spans
        }
        Some(AuditOutcome::Done) => vec![Span::styled(format!("done {took} ms"), Style::new())],
        Some(AuditOutcome::ToolError) => {
            vec![Span::styled(format!("✗ tool error {took} ms"), Style::new().fg(Color::Red))]
        }
        Some(AuditOutcome::Failed) => {
            vec![Span::styled(format!("✗ failed {took} ms"), Style::new().fg(Color::Red))]
        }
        Some(AuditOutcome::Cancelled) => vec![Span::styled(format!("cancelled after {took} ms"), dim())],
        Some(AuditOutcome::Asked) => vec![Span::styled("▲ asked", bold().fg(Color::Yellow))],
        Some(AuditOutcome::Refused) => {
            let mut spans = vec![Span::styled("✗ refused", bold().fg(Color::Red))];
            if let (Some(by), None) = (&call.by, &by_person) {
                spans.push(Span::styled(format!(": {}", text::line(by, 100)), dim()));
            }
            spans
        }
        Some(_) => vec![Span::styled("ended", dim())],
    };
    spans.extend(by);
    spans
}

/// Returns the bar, the percentage and the message of a progress report.
pub(super) fn progress(progress: &CallProgress) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    match progress.total.filter(|total| total.is_finite() && *total > 0.0) {
        Some(total) => {
            // Servers may report more than their total.
            let percent = (progress.done / total * 100.0).clamp(0.0, 100.0);
            // Between 0 and 100.
            let percent: usize = format!("{percent:.0}").parse().unwrap_or(0);
            let full = percent * BAR_STEPS / 100;
            let bar = format!(" {}{}", "▰".repeat(full), "▱".repeat(BAR_STEPS - full));
            spans.push(Span::styled(bar, Style::new().fg(Color::Cyan)));
            spans.push(Span::raw(format!(" {percent} %")));
        }
        // Some servers only show that they are alive, with tiny steps.
        None if progress.done >= 1.0 => {
            spans.push(Span::raw(format!("  {}", text::line(&format!("{:.0}", progress.done), 12))));
        }
        None => {}
    }
    if let Some(message) = &progress.message {
        spans.push(Span::styled(format!("  {}", text::line(message, 60)), dim()));
    }
    spans
}

/// Returns a history as bars, the newest at the right.
pub(super) fn history(counts: &[u32]) -> String {
    let last = &counts[counts.len().saturating_sub(HISTORY_WIDTH)..];
    let most = last.iter().copied().max().unwrap_or(0).max(1);
    let level = |count: u32| {
        let at = u64::from(count) * (LEVELS.len() as u64 - 1) / u64::from(most);
        // One call is seen, however many others there are.
        let at = if count > 0 { at.max(1) } else { at };
        usize::try_from(at).ok().and_then(|at| LEVELS.get(at)).copied().unwrap_or(LEVELS[0])
    };
    let missing = HISTORY_WIDTH - last.len();
    std::iter::repeat_n(LEVELS[0], missing).chain(last.iter().map(|count| level(*count))).collect()
}

/// Returns a duration in milliseconds, with one digit after the point if it is short.
pub(super) fn milliseconds(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..10_000 => format!("{}.{}", micros / 1000, micros % 1000 / 100),
        _ => (micros / 1000).to_string(),
    }
}

/// Returns a duration in one unit.
pub(super) fn short(duration: Duration) -> String {
    match duration.as_secs() {
        0 => "0 s".to_owned(),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// Returns how long the host has run.
fn uptime(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} m", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h {} m", seconds / 3600, seconds / 60 % 60),
        seconds => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// Returns the time of day.
pub(super) fn time_of_day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Returns the time of day without seconds.
pub(super) fn minute_of_day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%H:%M").to_string()
}
