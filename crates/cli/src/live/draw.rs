//! Layout of the screen: a header, what waits, the servers, the calls, the last lines of the log, and the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr as _;

use super::cells::ScreenLook;
use super::data::LiveData;
use super::detail;
use super::panes;
use super::rows;
use super::state::{LiveMode, LiveState, LiveView};
use crate::approve::{bold, dim, text};

/// Minimum size of the screen with lists.
const MIN_SIZE: (u16, u16) = (60, 15);
/// Minimum size of the screen with three panes.
const WIDE_SIZE: (u16, u16) = (110, 30);

/// Draws the screen.
pub(crate) fn draw(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, look: ScreenLook) {
    let area = frame.area();
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        draw_small(frame, data, state, area);
    } else {
        draw_full(frame, data, state, area);
    }
    look.apply(frame.buffer_mut());
}

/// Draws one line about the state of the host and one about what waits.
fn draw_small(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    let width = usize::from(area.width);
    let well = data.servers.iter().filter(|server| super::data::mend(server).is_none()).count();
    let wanted = data.servers.len() + data.left_out.iter().filter(|server| !server.is_disabled()).count();
    let mut first = vec![
        Span::styled(" hospes", bold()),
        Span::raw(format!("  {well} of {wanted} servers ready")),
        Span::raw(format!("  {} running", data.calls.running.len())),
        Span::styled(format!("  {}", text::line(&data.endpoint, 60)), dim()),
    ];
    if state.is_paused {
        first.insert(1, Span::styled("  PAUSED", bold()));
    }
    let mut lines = vec![rows::fit(first, width)];
    lines.extend(rows::waiting(data, width));
    lines.push(key_line(state, data, width));
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the lines above the lists, and the rows that they get.
fn top_lines(data: &LiveData, state: &LiveState, area: Rect) -> (Vec<Line<'static>>, u16) {
    let width = usize::from(area.width);
    let mut top = vec![rows::header(data, state, width)];
    top.extend(rows::profiles(data, width));
    top.extend(rows::waiting(data, width));
    if let Some(problem) = &data.problem {
        let style = bold().fg(Color::Red);
        top.push(Line::styled(format!(" ✗ {}", text::line(problem, width.saturating_sub(4))), style));
    }
    top.extend(rows::file_problems(data, width));
    if data.calls.ended.is_empty() && data.calls.running.is_empty() {
        let notice = data.notice.iter();
        top.extend(notice.map(|line| Line::raw(format!(" {}", text::line(line, width.saturating_sub(2))))));
    }
    let height = u16::try_from(top.len()).unwrap_or(u16::MAX).min(area.height / 2);
    (top, height)
}

/// Returns the number of rows of a log: the screen without the lines above, the title of the log and the keys.
pub(super) fn log_rows(data: &LiveData, state: &LiveState) -> usize {
    let size = |value: usize| u16::try_from(value).unwrap_or(u16::MAX);
    let area = Rect::new(0, 0, size(state.columns), size(state.rows));
    let (_, height) = top_lines(data, state, area);
    state.rows.saturating_sub(usize::from(height) + 2)
}

fn draw_full(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    let width = usize::from(area.width);
    let (top, height) = top_lines(data, state, area);
    let [head, body, keys] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(1), Constraint::Length(1)]).areas(area);
    frame.render_widget(Paragraph::new(top), head);
    let is_wide = area.width >= WIDE_SIZE.0 && area.height >= WIDE_SIZE.1;
    match state.view {
        LiveView::Overview | LiveView::Detail if is_wide => panes::draw_wide(frame, data, state, body),
        LiveView::Overview => panes::draw_lists(frame, data, state, body),
        LiveView::Detail => detail::draw_detail(frame, data, state, body),
        LiveView::ServerLog => detail::draw_server_log(frame, data, state, body),
        LiveView::Log => detail::draw_log(frame, data, state, body),
        LiveView::Doctor => detail::draw_doctor(frame, data, state, body),
        LiveView::Keys => detail::draw_keys(frame, state, body),
    }
    frame.render_widget(key_line(state, data, width), keys);
}

/// Returns the last line: a question, the filter, a message or the keys.
fn key_line(state: &LiveState, data: &LiveData, width: usize) -> Line<'static> {
    match state.mode {
        LiveMode::Stopping => {
            let (running, waiting) = (data.calls.running.len(), data.waiting.len());
            let what = format!(" {running} running, {waiting} waiting. Stop the host? ");
            return rows::fit(
                vec![
                    Span::styled(what, bold().fg(Color::Yellow)),
                    Span::styled("q", bold().fg(Color::Cyan)),
                    Span::raw(" stop   any other key: go on"),
                ],
                width,
            );
        }
        LiveMode::Filtering => {
            let shown = text::line(&state.filter, width.saturating_sub(32));
            return rows::fit(
                vec![
                    Span::styled(" /", bold().fg(Color::Cyan)),
                    Span::raw(shown),
                    Span::styled("▌  Enter keep · Esc clear", dim()),
                ],
                width,
            );
        }
        LiveMode::Watching => {}
    }
    if let Some(message) = &state.message {
        return Line::styled(
            format!(" {}", text::line(message, width.saturating_sub(2))),
            Style::new().fg(Color::Yellow),
        );
    }
    let resume = if state.is_paused { "go on" } else { "pause" };
    let keys: Vec<(&str, &str)> = match state.view {
        _ if width < usize::from(MIN_SIZE.0) => vec![("a", "approve"), ("c", "console"), ("q", "quit")],
        LiveView::Overview => vec![
            ("c", "console"),
            ("a", "approve"),
            ("s", "servers"),
            ("l", "log"),
            ("/", "filter"),
            ("p", resume),
            ("d", "doctor"),
            ("?", "keys"),
            ("q", "quit"),
        ],
        _ => vec![("Esc", "back"), ("↑↓", "scroll"), ("p", resume), ("?", "keys"), ("q", "quit")],
    };
    let columns: usize = 1 + keys.iter().map(|(key, does)| key.width() + does.width() + 3).sum::<usize>() - 2;
    let mut spans = vec![Span::raw(" ")];
    // Keys that are found in the overview of all keys are left out first.
    let is_short = columns > width;
    for (key, does) in keys.into_iter().filter(|(key, _)| !is_short || *key != "s") {
        spans.push(Span::styled(key, bold().fg(Color::Cyan)));
        spans.push(Span::styled(format!(" {does}  "), dim()));
    }
    // The blanks after the last key may be cut.
    if let Some(last) = spans.last_mut() {
        last.content = last.content.trim_end().to_owned().into();
    }
    rows::fit(spans, width)
}
