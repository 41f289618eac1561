//! Lists and panes of the overview.

use hospes_host::upstream::UpstreamState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use unicode_width::UnicodeWidthStr as _;

use super::data::{LiveData, ServerRow};
use super::detail;
use super::rows::{self, filled};
use super::state::{LiveFocus, LiveState};
use crate::approve::{bold, dim, text};
use crate::commands::up::NO_SERVERS;

/// Maximum width of the column with the names of applications.
const MAX_APPLICATION_WIDTH: usize = 16;
/// Number of columns of a row about a server beside its name, with the line at the right of the pane.
const SERVER_COLUMNS: u16 = 50;
/// Minimum and maximum number of rows of the list of calls on a wide screen.
const MIN_WIDE_CALLS: u16 = 6;
const WIDE_CALLS: u16 = 20;

/// Draws the servers above the calls.
pub(super) fn draw_lists(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    let count = u16::try_from(state.servers(data).count().max(1)).unwrap_or(u16::MAX);
    let log = if area.height >= 16 && !data.log.is_empty() { 3 } else { 0 };
    let calls = u16::try_from(state.calls(data).count().max(1)).unwrap_or(u16::MAX).saturating_add(1);
    // The servers get half of the room, or more if there are few calls.
    let spare = area.height.saturating_sub(log).saturating_sub(calls);
    let servers = count.saturating_add(1).min((area.height / 2).max(3).max(spare));
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(servers), Constraint::Min(2), Constraint::Length(log)])
            .areas(area);
    draw_servers(frame, data, state, top);
    draw_calls(frame, data, state, middle);
    draw_log_tail(frame, data, bottom);
}

/// Draws three panes above the calls: the servers, the applications below them, and at the right the selected row.
pub(super) fn draw_wide(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    let log = if data.log.is_empty() { 0 } else { 4 };
    // Rows that no call needs are of more use above.
    let count =
        u16::try_from(state.calls(data).count()).unwrap_or(u16::MAX).clamp(MIN_WIDE_CALLS, WIDE_CALLS);
    let calls = (count + 1).min(area.height.saturating_sub(log) / 2 + 3);
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Min(6), Constraint::Length(calls), Constraint::Length(log)])
            .areas(area);
    let servers: Vec<ServerRow<'_>> = state.servers(data).collect();
    // The selected row has sentences, so it gets what the columns of the lists do not need.
    let needed = u16::try_from(rows::name_width(&servers)).unwrap_or(u16::MAX).saturating_add(SERVER_COLUMNS);
    let [left, right] =
        Layout::horizontal([Constraint::Length(needed.max(area.width / 2)), Constraint::Fill(1)]).areas(top);
    let left = pane(frame, left);
    let rows_of = |count: usize| u16::try_from(count.max(1) + 1).unwrap_or(u16::MAX);
    let applications = rows_of(data.calls.applications.len()).min((left.height / 3).max(2));
    let listed = rows_of(servers.len()).min(left.height.saturating_sub(applications));
    let [first, second] = Layout::vertical([Constraint::Length(listed), Constraint::Fill(1)]).areas(left);
    draw_servers(frame, data, state, first);
    draw_applications(frame, data, second);
    let third = right;
    let lines = detail::lines(data, state, usize::from(third.width.saturating_sub(2)));
    let room = usize::from(third.height);
    frame.render_widget(Paragraph::new(lines.into_iter().take(room).collect::<Vec<_>>()), third);
    draw_calls(frame, data, state, middle);
    draw_log_tail(frame, data, bottom);
}

/// Draws the line at the right of a pane, and returns the room beside it.
fn pane(frame: &mut Frame<'_>, area: Rect) -> Rect {
    let block = Block::new().borders(Borders::RIGHT).border_style(dim());
    let inside = block.inner(area);
    frame.render_widget(block, area);
    inside
}

fn draw_applications(frame: &mut Frame<'_>, data: &LiveData, area: Rect) {
    let width = usize::from(area.width);
    let mut lines = vec![rows::fit(
        vec![
            Span::styled(filled(" APPLICATIONS", width.saturating_sub(12)), heading(false)),
            Span::styled(" calls  last", dim()),
        ],
        width,
    )];
    let mut all: Vec<_> = data.calls.applications.iter().collect();
    all.sort_by_key(|application| std::cmp::Reverse(application.last));
    for application in all.into_iter().take(usize::from(area.height).saturating_sub(1)) {
        let name = filled(&application.name, width.saturating_sub(13));
        lines.push(rows::fit(
            vec![
                Span::raw(format!(" {name}")),
                Span::raw(format!("{:>6}", application.calls)),
                Span::styled(format!(" {}", rows::minute_of_day(application.last)), dim()),
            ],
            width,
        ));
    }
    if lines.len() == 1 {
        lines.push(Line::styled(" none yet", dim()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_servers(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    let servers: Vec<ServerRow<'_>> = state.servers(data).collect();
    let (width, names) = (usize::from(area.width), rows::name_width(&servers));
    let is_focused = state.focus == LiveFocus::Servers;
    let mut lines = vec![rows::server_heading(names, width, is_focused)];
    let room = usize::from(area.height).saturating_sub(1);
    let at = servers.iter().position(|server| Some(server.name()) == state.server.as_deref()).unwrap_or(0);
    let (first, count) = shown_rows(at, room, servers.len());
    if first > 0 && count < room {
        lines.push(Line::styled(format!("   ↑ {first} more"), dim()));
    }
    for server in servers.iter().skip(first).take(count) {
        let is_selected = is_focused && Some(server.name()) == state.server.as_deref();
        lines.push(match server {
            ServerRow::Configured(server) => {
                rows::server(server, data.calls_of(&server.name), (names, width), is_selected)
            }
            ServerRow::LeftOut(server) => rows::left_out(server, (names, width), is_selected),
        });
    }
    if servers.is_empty() {
        lines.push(Line::raw(format!("   no servers: {NO_SERVERS}")));
    }
    let hidden = servers.get(first + count..).unwrap_or_default();
    if !hidden.is_empty() && count < room {
        lines.push(hidden_servers(hidden, width));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the line about servers below the shown ones, which names what a person must not overlook.
fn hidden_servers(hidden: &[ServerRow<'_>], width: usize) -> Line<'static> {
    let word = |row: &ServerRow<'_>| match row {
        ServerRow::LeftOut(server) if server.is_disabled() => None,
        ServerRow::LeftOut(_) => Some("not started"),
        ServerRow::Configured(server) => match server.state {
            UpstreamState::Ready | UpstreamState::Starting => None,
            _ => Some(rows::sign(server).2),
        },
    };
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for word in hidden.iter().filter_map(word) {
        match parts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => parts.push((word, 1)),
        }
    }
    let said: Vec<String> = parts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let mut spans = vec![Span::styled(format!("   ↓ {} more", hidden.len()), dim())];
    if !said.is_empty() {
        spans.push(Span::styled(format!(": {}", said.join(", ")), bold().fg(Color::Yellow)));
    }
    rows::fit(spans, width)
}

fn draw_calls(frame: &mut Frame<'_>, data: &LiveData, state: &LiveState, area: Rect) {
    let (width, room) = (usize::from(area.width), usize::from(area.height).saturating_sub(1));
    let is_focused = state.focus == LiveFocus::Calls;
    let mut heading_line = vec![Span::styled(" CALLS", heading(is_focused))];
    if !data.calls.running.is_empty() {
        heading_line.push(Span::styled(format!("  {} running", data.calls.running.len()), dim()));
    }
    let mut lines = vec![rows::fit(heading_line, width)];
    let calls: Vec<_> = state.calls(data).collect();
    let at = calls.iter().position(|call| Some(call.number) == state.call).unwrap_or(0);
    let first = first_shown(at, room, calls.len());
    let shown: Vec<_> = calls.into_iter().skip(first).take(room).collect();
    let widest = |most: usize, part: &dyn Fn(&hospes_host::ObservedCall) -> String| {
        shown.iter().map(|call| text::line(&part(call), most).width()).max().unwrap_or(0)
    };
    let applications = widest(MAX_APPLICATION_WIDTH, &|call| rows::short_application(call).to_owned()).max(8);
    let servers = widest(14, &|call| call.server.clone()).max(6);
    let subjects = widest(if width < 100 { 18 } else { 36 }, &|call| call.subject.clone()).max(6);
    for call in &shown {
        let is_selected = is_focused && Some(call.number) == state.call;
        lines.push(rows::call(call, (applications, servers, subjects, width), is_selected));
    }
    if shown.is_empty() {
        let empty = match (state.filter.is_empty(), data.servers.is_empty()) {
            (false, _) => "no call passes the filter",
            (true, false) => "no calls yet: connect an application with `hospes connect NAME`",
            // Without a server, an application has nothing to call.
            (true, true) => "no calls yet",
        };
        lines.push(Line::styled(format!("   {empty}"), dim()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_log_tail(frame: &mut Frame<'_>, data: &LiveData, area: Rect) {
    if area.height < 2 {
        return;
    }
    let (width, room) = (usize::from(area.width), usize::from(area.height) - 1);
    let mut lines =
        vec![Line::from(vec![Span::styled(" LOG", heading(false)), Span::styled("  L shows all", dim())])];
    lines.extend(detail::log_tail(&data.log, width, room));
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the first of `count` rows that is shown, and the number of shown ones, so that the one at `at` is visible and
/// there is room for a line about those above and one about those below.
fn shown_rows(at: usize, room: usize, count: usize) -> (usize, usize) {
    if count <= room || room < 3 {
        return (first_shown(at, room, count), room.min(count));
    }
    let one_line = room - 1;
    if at < one_line {
        (0, one_line)
    } else if at >= count - one_line {
        (count - one_line, one_line)
    } else {
        let both = room - 2;
        (at + 1 - both, both)
    }
}

/// Returns the first of `count` rows that is shown so that the one at `at` is visible.
fn first_shown(at: usize, room: usize, count: usize) -> usize {
    at.saturating_sub(room.saturating_sub(2)).min(count.saturating_sub(room))
}

fn heading(is_focused: bool) -> Style {
    if is_focused { bold().fg(Color::Cyan) } else { dim().add_modifier(Modifier::BOLD) }
}
