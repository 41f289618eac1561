//! Layout of the screen: pending approvals on the left, the selected card on the right, the keys below.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use super::card::{self, ApprovalRisk, bold, dim, title};
use super::key_argument::key_argument;
use super::line_editor::LineEditor;
use super::permission_editor::{ConditionKind, PermissionEditor};
use super::state::{MessageTone, ScreenMode, ScreenState};
use super::text;

/// Width of the list, in columns.
const LIST_WIDTH: u16 = 28;
/// Minimum width of the screen at which the list is shown beside the card, in columns.
const MIN_SPLIT_WIDTH: u16 = 76;
/// Number of lines of each entry in the list.
const LINES_PER_ITEM: usize = 2;

/// Draws the screen. Returns the maximum scroll position of the card, the number of lines of one page step, and the
/// position to scroll to before the card can be allowed.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &ScreenState) -> (usize, usize, usize) {
    let [head, body, said, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(header(state), head);
    let room = if state.open.is_empty() {
        frame.render_widget(nothing(state, body), body);
        (0, 1, 0)
    } else if body.width >= MIN_SPLIT_WIDTH {
        let [list, shown] =
            Layout::horizontal([Constraint::Length(LIST_WIDTH), Constraint::Min(1)]).areas(body);
        draw_list(frame, state, list);
        draw_card(frame, state, shown)
    } else {
        draw_card(frame, state, body)
    };
    frame.render_widget(words(state), said);
    draw_keys(frame, state, keys);
    match &state.mode {
        ScreenMode::Help => draw_help(frame, body),
        ScreenMode::Rule(rule) => draw_rule(frame, state, rule, body),
        ScreenMode::Filling(filling) => {
            let field = &filling.fields[filling.at];
            let count = format!(" field {} of {} ", filling.at + 1, filling.fields.len());
            let mut lines = vec![Line::styled(text::line(&field.name, 60), bold())];
            let width = usize::from(body.width.saturating_sub(6).max(1));
            lines.extend(
                text::lines(&card::kind(field), width).into_iter().map(|line| Line::styled(line, dim())),
            );
            lines.push(Line::default());
            draw_box(frame, body, count, lines, Some(&filling.entry));
        }
        ScreenMode::Reason { entry, block } => {
            let name = state.selected_approval().map(|approval| title(approval).0).unwrap_or_default();
            let head = if *block { " deny always " } else { " deny " };
            let lines = vec![
                Line::styled(text::line(&name, 60), bold()),
                Line::styled("optional reason, reported to the model", dim()),
                Line::default(),
            ];
            draw_box(frame, body, head.to_owned(), lines, Some(entry));
        }
        ScreenMode::Watching => {}
    }
    room
}

fn header(state: &ScreenState) -> Line<'static> {
    let waiting = match state.open.len() {
        0 => "none pending".to_owned(),
        1 => "1 pending".to_owned(),
        count => format!("{count} pending"),
    };
    let mut spans = vec![Span::styled(" hospes approve ", bold()), Span::styled(waiting, dim())];
    if let Some(why) = &state.lost {
        let style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        spans.push(Span::styled(format!("   {}", text::line(why, 60)), style));
    }
    Line::from(spans)
}

fn nothing(state: &ScreenState, area: Rect) -> Paragraph<'static> {
    let mut lines = vec![Line::default(); usize::from(area.height / 2).saturating_sub(1)];
    if state.lost.is_some() {
        lines.push(Line::raw("The host has stopped. This screen resumes when a host runs again."));
    } else {
        lines.push(Line::raw("No pending approvals."));
        lines.push(Line::styled("Calls that need your approval appear here.", dim()));
    }
    Paragraph::new(lines).centered()
}

fn draw_list(frame: &mut Frame<'_>, state: &ScreenState, area: Rect) {
    let selected = state.selected_approval().map(|approval| approval.id.as_str());
    let at =
        state.open.iter().position(|approval| Some(approval.id.as_str()) == selected).unwrap_or_default();
    let fits = (usize::from(area.height) / LINES_PER_ITEM).max(1);
    let first = at.saturating_sub(fits - 1).min(state.open.len().saturating_sub(fits));
    let width = usize::from(area.width).saturating_sub(3);
    let mut lines = Vec::new();
    for approval in state.open.iter().skip(first).take(fits) {
        let (what, server) = title(approval);
        let is_here = Some(approval.id.as_str()) == selected;
        let color = ApprovalRisk::of(approval).color();
        let bar = Span::styled(if is_here { "▌" } else { " " }, Style::new().fg(Color::Cyan));
        let left = left(approval.expires_at, state.time());
        let room = width.saturating_sub(left.len() + 3);
        let what = text::line(&what, room);
        let filling = " ".repeat((room + 1).saturating_sub(Span::raw(what.as_str()).width()));
        let style = if is_here { bold() } else { Style::new() };
        let hurry =
            if is_short(approval.expires_at, state.time()) { Style::new().fg(Color::Red) } else { dim() };
        lines.push(Line::from(vec![
            bar.clone(),
            Span::styled("● ", Style::new().fg(color)),
            Span::styled(what, style),
            Span::raw(filling),
            Span::styled(left, hurry),
        ]));
        // The argument distinguishes calls of one tool; the card names the caller.
        let rest = key_argument(approval, width).or_else(|| approval.application.clone());
        let rest = rest.map(|rest| format!(" · {rest}")).unwrap_or_default();
        let whose = text::line(&format!("{server}{rest}"), width.saturating_sub(2));
        lines.push(Line::from(vec![bar, Span::styled(format!("  {whose}"), dim())]));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_card(frame: &mut Frame<'_>, state: &ScreenState, area: Rect) -> (usize, usize, usize) {
    let Some(approval) = state.selected_approval() else { return (0, 1, 0) };
    let risk = ApprovalRisk::of(approval);
    let at = state.open.iter().position(|one| one.id == approval.id).unwrap_or_default();
    let place = format!(" {} of {} ", at + 1, state.open.len());
    let left = format!(" {} left ", left(approval.expires_at, state.time()));
    let hurry = if is_short(approval.expires_at, state.time()) {
        Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    let mut block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(risk.color()))
        .title(Line::styled(place, dim()))
        .title(Line::styled(left, hurry).right_aligned());
    let inside = block.inner(area).inner(Margin::new(1, 0));
    let (lines, needed) =
        card::layout_card(approval, &state.draft(), state.pins.as_deref(), usize::from(inside.width));
    let page = usize::from(inside.height).max(1);
    let most = lines.len().saturating_sub(page);
    // The card may have become shorter, or the window larger, since it was scrolled.
    let from = state.scroll.min(most);
    if most > from {
        let below = format!(" ↓ {} more lines: space ", most - from);
        block = block.title_bottom(Line::styled(below, bold().fg(Color::Yellow)));
    }
    frame.render_widget(block, area);
    let shown: Vec<Line<'_>> = lines.into_iter().skip(from).take(page).collect();
    frame.render_widget(Paragraph::new(shown), inside);
    // A page step keeps one line of the page before it in view, so that none is skipped.
    (most, page.saturating_sub(1).max(1), needed.saturating_sub(page).min(most))
}

fn words(state: &ScreenState) -> Line<'static> {
    let Some((tone, words)) = &state.said else { return Line::default() };
    let style = match tone {
        MessageTone::Good => Style::new().fg(Color::Green),
        MessageTone::Bad => Style::new().fg(Color::Red),
        MessageTone::Plain => Style::new().fg(Color::Yellow),
    };
    Line::styled(format!(" {}", text::line(words, 200)), style)
}

fn draw_keys(frame: &mut Frame<'_>, state: &ScreenState, area: Rect) {
    let armed = state.is_armed();
    // Keys that everybody knows are dropped first if the line is too short.
    let mut keys: Vec<(&str, &str, bool)> = Vec::new();
    match &state.mode {
        ScreenMode::Watching => {
            if let Some(approval) = state.selected_approval() {
                let offers = approval.offers;
                keys.push(("d", "deny", true));
                if offers.block {
                    keys.push(("b", "block", true));
                }
                if matches!(approval.card, hospes_host::approvals::ApprovalCard::Form(_)) {
                    keys.push(("f", "fill in", true));
                }
                if approval.approvers.is_none() {
                    keys.push(("o", approve_label(approval), armed));
                }
                if matches!(approval.card, hospes_host::approvals::ApprovalCard::Plan(_)) {
                    keys.push(("n", "one by one", true));
                }
                if offers.targets {
                    keys.push(("t", "once, remember target", armed));
                }
                if offers.session {
                    keys.push(("s", "session", armed));
                }
                if offers.always {
                    keys.push(("A", "always…", armed));
                }
                // The weakest choice comes last of those that allow.
                if offers.values {
                    keys.push(("V", "value is right", armed));
                }
                if offers.edit {
                    keys.push(("e", "edit", true));
                }
                keys.push(("v", "JSON", true));
            }
            let leave = if state.is_inner { ("Esc", "back", true) } else { ("q", "quit", true) };
            keys.extend([("?", "help", true), leave]);
        }
        ScreenMode::Reason { .. } => keys.extend([("Enter", "deny", true), ("Esc", "back", true)]),
        ScreenMode::Filling(_) => {
            keys.extend([("Enter", "next", true), ("↑", "previous", true), ("Esc", "back", true)]);
        }
        ScreenMode::Rule(rule) if rule.writing.is_some() => {
            keys.extend([("Enter", "apply", true), ("Esc", "back", true)]);
        }
        ScreenMode::Rule(_) => keys.extend([
            ("↑↓", "line", true),
            ("←→", "change", true),
            ("e", "edit", true),
            ("A", "allow always", armed),
            ("Esc", "back", true),
        ]),
        ScreenMode::Help => keys.push(("any key", "back", true)),
    }
    let mut spans = vec![Span::raw(" ")];
    for (key, does, is_ready) in keys {
        let style = if is_ready { bold().fg(Color::Cyan) } else { dim() };
        spans.extend([Span::styled(key, style), Span::styled(format!(" {does}  "), dim())]);
    }
    frame.render_widget(Line::from(spans), area);
}

/// Returns the label of the key that allows, in one or two words.
fn approve_label(approval: &hospes_host::approvals::Approval) -> &'static str {
    use hospes_host::approvals::ApprovalCard;
    match approval.card {
        ApprovalCard::SamplingRequest(_) => "send",
        ApprovalCard::Form(_) => "send the form",
        ApprovalCard::SamplingResult(_) | ApprovalCard::Result(_) => "deliver",
        ApprovalCard::Url(_) => "visited",
        ApprovalCard::Plan(_) => "allow the plan",
        _ => "once",
    }
}

fn draw_rule(frame: &mut Frame<'_>, state: &ScreenState, rule: &PermissionEditor, body: Rect) {
    let Some(approval) = state.selected_approval() else { return };
    let (what, server) = title(approval);
    let width = usize::from(body.width.saturating_sub(6).max(20));
    let mut lines: Vec<Line<'static>> = text::lines(
        &format!(
            "{what} of {server} is then allowed without asking, as long as its definition does not change, if all of \
             these conditions hold:"
        ),
        width,
    )
    .into_iter()
    .map(Line::raw)
    .collect();
    lines.push(Line::default());
    let row = |at: usize, name: &str, words: &str, value: &str| {
        let is_here = at == rule.at;
        let bar = Span::styled(if is_here { "▌" } else { " " }, Style::new().fg(Color::Cyan));
        let style = if is_here { bold() } else { Style::new() };
        let name = text::line(name, 18);
        let gap = " ".repeat(20_usize.saturating_sub(Span::raw(name.as_str()).width()));
        let words = if words.is_empty() { String::new() } else { format!("{words} ") };
        let room = width.saturating_sub(24 + words.len());
        Line::from(vec![
            bar,
            Span::styled(name, style),
            Span::raw(gap),
            Span::styled(words, dim()),
            Span::styled(text::line(value, room), style),
        ])
    };
    for (at, one) in rule.rows.iter().enumerate() {
        let value = if one.kind == ConditionKind::Any { "" } else { &one.value };
        lines.push(row(at, &one.name, one.kind.words(), value));
    }
    let count = rule.rows.len();
    let places = if rule.destinations.is_empty() { "anywhere" } else { &rule.destinations };
    let others = match (rule.any_others, rule.rows.is_empty()) {
        (true, _) => "any, also those that are not shown",
        (false, true) => "no arguments",
        (false, false) => "no other arguments",
    };
    lines.push(row(count, "others", "", others));
    lines.push(row(count + 1, "destinations", "", places));
    lines.push(row(count + 2, "for", "", &format!("{} days", rule.days())));
    let asker = approval.application.as_deref().unwrap_or("the requesting application");
    let who = if rule.any_application { "any application" } else { asker };
    lines.push(row(count + 3, "asked by", "", who));
    if rule.is_wide() {
        lines.push(Line::default());
        let wide = "This rule matches any values of arguments. A narrower rule is safer.";
        lines.push(Line::styled(wide, Style::new().fg(Color::Yellow)));
    }
    if let Some(problem) = &rule.problem {
        lines.push(Line::default());
        let style = Style::new().fg(Color::Red);
        lines.extend(text::lines(problem, width).into_iter().map(|line| Line::styled(line, style)));
    }
    if rule.writing.is_some() {
        lines.push(Line::default());
    }
    draw_box(frame, body, " allow always ".to_owned(), lines, rule.writing.as_ref());
}

/// Draws a box over the screen, with an optional input line at the bottom.
fn draw_box(
    frame: &mut Frame<'_>,
    body: Rect,
    head: String,
    lines: Vec<Line<'static>>,
    entry: Option<&LineEditor>,
) {
    let asked = lines.len() + usize::from(entry.is_some());
    let height = u16::try_from(asked + 2).unwrap_or(u16::MAX).min(body.height);
    let width = body.width.saturating_sub(2).max(1);
    let area = Rect {
        x: body.x + (body.width - width) / 2,
        y: body.y + body.height.saturating_sub(height),
        width,
        height,
    };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::Cyan))
        .title(Line::styled(head, bold()));
    let inside = block.inner(area).inner(Margin::new(1, 0));
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    // If not all lines fit, the last ones are shown: those are being edited.
    let room = usize::from(inside.height).saturating_sub(usize::from(entry.is_some()));
    let skipped = lines.len().saturating_sub(room);
    frame.render_widget(Paragraph::new(lines.into_iter().skip(skipped).collect::<Vec<_>>()), inside);
    if let Some(entry) = entry {
        let line = Rect { y: inside.bottom().saturating_sub(1), height: 1.min(inside.height), ..inside };
        draw_entry(frame, entry, line);
    }
}

fn draw_entry(frame: &mut Frame<'_>, entry: &LineEditor, area: Rect) {
    let (before, after) = entry.parts();
    // Pasted text may hold hidden characters, which are made visible.
    let (before, after) = (hospes_policy::visible_line(before), hospes_policy::visible_line(after));
    let room = usize::from(area.width).saturating_sub(4);
    // The text before the cursor is cut from the left, so that the cursor stays visible.
    let mut head = String::new();
    let mut used = 0;
    for character in before.chars().rev() {
        used += Span::raw(character.to_string()).width();
        if used > room {
            break;
        }
        head.insert(0, character);
    }
    let at = u16::try_from(Span::raw(head.as_str()).width()).unwrap_or(0);
    let line =
        Line::from(vec![Span::styled("> ", Style::new().fg(Color::Cyan)), Span::raw(head), Span::raw(after)]);
    frame.render_widget(line, area);
    frame.set_cursor_position((area.x + 2 + at, area.y));
}

fn draw_help(frame: &mut Frame<'_>, body: Rect) {
    const KEYS: [(&str, &str); 17] = [
        ("d", "deny, with an optional reason for the model"),
        ("b", "deny this and all future calls"),
        ("o", "allow once"),
        ("t", "allow once, and remember its targets for 30 days"),
        ("s", "allow for the session shown on the card"),
        ("A", "allow always, by a rule that you review first"),
        ("V", "allow once; the value is right, for this session"),
        ("n", "deny a plan, and be asked about its calls one by one"),
        ("e", "edit the request in $VISUAL or $EDITOR"),
        ("f", "fill in the form here"),
        ("u", "discard your changes"),
        ("v", "switch between summary and JSON"),
        ("j k ↓ ↑", "next, previous approval"),
        ("space PgUp", "scroll the card down, up"),
        ("J K", "scroll by one line"),
        ("Esc q", "leave; approvals stay pending"),
        ("", "Enter never allows. No decision counts as a denial."),
    ];
    let line = |(key, does): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("{key:<12}"), bold().fg(Color::Cyan)), Span::raw(*does)])
    };
    draw_box(frame, body, " keys ".to_owned(), KEYS.iter().map(line).collect(), None);
}

/// Formats the remaining time for people.
pub(crate) fn left(until: Timestamp, now: Timestamp) -> String {
    let seconds = until.duration_since(now).as_secs().max(0);
    match seconds {
        0..600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        600..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn is_short(until: Timestamp, now: Timestamp) -> bool {
    until.duration_since(now).as_secs() < 20
}
