//! The screen without a terminal: what is drawn, and what the keys do.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::cells::ScreenLook;
use super::data::{LeftOutServer, LiveData, WaitingRow, mend};
use super::draw::draw;
use super::state::{LiveEffect, LiveFocus, LiveMode, LiveState, LiveView};
use crate::screen_log::LogLine;

const NOW: &str = "2026-06-01T12:00:00Z";
const PLAIN: ScreenLook = ScreenLook { has_colour: true, is_ascii: false };
/// Text that would take over a terminal that obeys it.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}漢字\r\nnext\u{200b}";

fn server(name: &str, state: &str, more: &Value) -> Value {
    let mut whole = json!({
        "name": name, "target": "npx", "state": state, "tools": 6, "prompts": 0, "resources": 0, "templates": 0,
    });
    for (key, value) in more.as_object().unwrap() {
        whole[key] = value.clone();
    }
    whole
}

fn call(number: u64, subject: &str, more: &Value) -> Value {
    let mut whole = json!({
        "number": number, "at": NOW, "application": "Cursor 1.7 (node, process 12)", "server": "github",
        "subject": subject, "arguments": { "query": "rust", "password": "hunter22" }, "progress": null,
        "decision": "allow", "by": "rule 3 (line 9)", "outcome": "done", "duration": { "secs": 0, "nanos": 12_000_000 },
    });
    for (key, value) in more.as_object().unwrap() {
        whole[key] = value.clone();
    }
    whole
}

fn data() -> LiveData {
    let servers = [
        server("files", "ready", &json!({})),
        server("github", "ready", &json!({ "tools": 31, "warnings": ["a list cannot be read"] })),
        server(
            "mail",
            "failed",
            &json!({
                "problem": "the server answered 401", "hint": "sign in with `hospes auth login mail`", "failures": 4,
            }),
        ),
        server("slow", "starting", &json!({})),
    ];
    let running = call(
        9,
        "search_issues",
        &json!({
            "outcome": null, "duration": { "secs": 3, "nanos": 0 },
            "progress": { "done": 2.0, "total": 5.0, "message": "page 2 of 5" },
        }),
    );
    let calls = json!({
        "running": [running, call(8, "send", &json!({ "outcome": null, "decision": "ask", "by": null }))],
        "ended": [
            call(7, "write_file", &json!({ "by": "the person at the console", "basis": "person" })),
            call(6, "delete", &json!({ "outcome": "refused", "decision": "deny", "by": "rule 1 (line 2)" })),
            call(5, "read", &json!({ "outcome": "tool_error" })),
        ],
        "servers": [{
            "name": "github", "calls": 88, "failed": 1, "running": 2, "p50": { "secs": 0, "nanos": 210_000_000 },
            "p95": { "secs": 0, "nanos": 890_000_000 }, "history": [0, 1, 9, 3],
        }],
        "applications": [{ "name": "Cursor 1.7", "calls": 500, "last": NOW }],
    });
    LiveData {
        now: NOW.parse().unwrap(),
        version: "0.2.0".to_owned(),
        endpoint: "http://127.0.0.1:7337/mcp".to_owned(),
        uptime: Duration::from_secs(2 * 3600 + 14 * 60),
        rules: "preset balanced".to_owned(),
        servers: servers.into_iter().map(|server| serde_json::from_value(server).unwrap()).collect(),
        // By text, because raw JSON cannot be read from a tree.
        calls: serde_json::from_str(&calls.to_string()).unwrap(),
        waiting: vec![WaitingRow {
            sentence: "Cursor wants to write ~/docs/notes.md (write_file of files)".to_owned(),
            expires_at: "2026-06-01T12:01:52Z".parse().unwrap(),
        }],
        log: vec![LogLine { at: NOW.parse().unwrap(), level: String::new(), text: "a line".to_owned() }],
        ..LiveData::default()
    }
}

fn state(data: &LiveData) -> LiveState {
    let mut state = LiveState::default();
    state.tick(data, Duration::ZERO);
    state
}

fn screen(data: &LiveData, state: &LiveState, (width, height): (u16, u16), look: ScreenLook) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, data, state, look)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content.chunks(usize::from(width));
    rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>()).collect()
}

fn press(state: &mut LiveState, data: &LiveData, keys: &str) -> Option<LiveEffect> {
    let mut last = None;
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            '↓' => KeyCode::Down,
            letter => KeyCode::Char(letter),
        };
        last = state.key(KeyEvent::new(code, KeyModifiers::NONE), data, Duration::ZERO);
        state.tick(data, Duration::ZERO);
    }
    last
}

fn row<'a>(rows: &'a [String], part: &str) -> &'a str {
    rows.iter().find(|row| row.contains(part)).unwrap_or_else(|| panic!("no {part} in\n{}", rows.join("\n")))
}

#[test]
fn the_overview_says_what_waits_how_servers_are_and_what_is_called() {
    let data = data();
    let rows = screen(&data, &state(&data), (80, 24), PLAIN);
    let header = &rows[0];
    assert!(header.contains("hospes 0.2.0  http://127.0.0.1:7337/mcp"), "{header}");
    assert!(header.contains("up 2 h 14 m"), "{header}");
    assert!(rows[1].contains("▲ 1 waits  Cursor wants to write ~/docs/notes.md"), "{}", rows[1]);
    assert!(rows[1].contains("1:52  [a] look"), "{}", rows[1]);
    let github = row(&rows, "● github");
    assert!(github.contains("31 tools") && github.contains("88    210    890"), "{github}");
    assert!(github.contains("▁▁▁▁▁▁▁▁█▃") || github.contains("▂█▃"), "{github}");
    assert!(github.contains("2 running"), "{github}");
    let mail = row(&rows, "✗ mail");
    assert!(
        mail.contains("failed: the server answered") && mail.contains("hospes auth login mail"),
        "{mail}"
    );
    assert!(row(&rows, "◐ slow").contains("starting"));
    let running = row(&rows, "search_issues");
    assert!(running.contains("Cursor 1.7 github search_issues running 3 s ▰▰▰▱▱▱▱▱ 40 %  page"), "{running}");
    assert!(row(&rows, "send ").contains("▲ waits for you"));
    assert!(row(&rows, "write_file ").contains("done 12 ms  allowed by you, console"));
    assert!(row(&rows, "delete").contains("✗ refused: rule 1"));
    assert!(row(&rows, "read ").contains("✗ tool error 12 ms"));
    assert!(rows[23].contains("c console  a approve") && rows[23].contains("q quit"), "{}", rows[23]);
}

#[test]
fn the_endpoints_of_profiles_stand_below_the_header() {
    let mut data = data();
    data.profiles = vec!["home".to_owned(), "work".to_owned()];
    let rows = screen(&data, &state(&data), (80, 24), PLAIN);
    assert_eq!(rows[1].trim_end(), " profiles  /mcp/home  /mcp/work");
    assert!(rows[2].contains("▲ 1 waits"), "{}", rows[2]);
}

#[test]
fn a_wide_screen_has_three_panes_and_the_selected_row() {
    let data = data();
    let mut state = state(&data);
    let rows = screen(&data, &state, (120, 40), PLAIN);
    assert!(row(&rows, "SERVERS").contains("│ files"), "{}", rows.join("\n"));
    assert!(row(&rows, "APPLICATIONS").contains("calls  last"), "{}", rows.join("\n"));
    assert!(row(&rows, "Cursor 1.7").contains("500"));
    assert!(rows.iter().any(|row| row.contains("│ target      npx")), "{}", rows.join("\n"));
    let bar = row(&rows, "│ target").split('│').next().map_or(0, unicode_width::UnicodeWidthStr::width);
    assert!(bar <= 64, "the selected row has a good share: {bar}\n{}", rows.join("\n"));
    press(&mut state, &data, "\t↓↓");
    let text = screen(&data, &state, (120, 40), PLAIN).join("\n");
    assert!(text.contains("github write_file") && text.contains("allow: the person"), "{text}");
    assert!(text.contains("\"query\": \"rust\"") && text.contains("[redacted]"), "{text}");
    assert!(!text.contains("hunter22"), "secrets of arguments are masked: {text}");
}

#[test]
fn a_small_screen_has_the_state_and_what_waits() {
    let data = data();
    let rows = screen(&data, &state(&data), (50, 12), PLAIN);
    assert!(rows[0].contains("2 of 4 servers ready") && rows[0].contains("2 running"), "{}", rows[0]);
    assert!(rows[1].contains("▲ 1 waits") && rows[1].contains("1:52"), "{}", rows[1]);
    assert!(rows[2].contains("a approve") && rows[3..].iter().all(|row| row.trim().is_empty()));
}

/// No size makes it panic, and no line is longer than the screen.
#[test]
fn every_size_is_drawn() {
    let data = data();
    for view in [
        LiveView::Overview,
        LiveView::Detail,
        LiveView::ServerLog,
        LiveView::Log,
        LiveView::Doctor,
        LiveView::Keys,
    ] {
        for focus in [LiveFocus::Servers, LiveFocus::Calls] {
            let state = LiveState { view, focus, ..state(&data) };
            for (width, height) in
                [(1, 1), (10, 3), (59, 40), (60, 15), (61, 16), (80, 24), (110, 30), (250, 90)]
            {
                let _rows = screen(&data, &state, (width, height), PLAIN);
            }
        }
    }
    let empty = LiveData::default();
    let _rows = screen(&empty, &state(&empty), (80, 24), PLAIN);
}

#[test]
fn text_of_others_takes_over_nothing() {
    let mut data = data();
    let long = "x".repeat(10_000);
    for (at, text) in [HOSTILE, &long].into_iter().enumerate() {
        data.servers[at].name = text.to_owned();
        data.servers[2].problem = Some(format!("{text}\n{text}"));
        data.servers[2].hint = Some(text.to_owned());
        data.calls.running[at].subject = text.to_owned();
        data.calls.running[at].application = Some(text.to_owned());
        if let Some(progress) = &mut data.calls.running[0].progress {
            progress.message = Some(text.to_owned());
        }
        data.log[0].text = text.to_owned();
        data.server_log = data.log.clone();
        data.waiting[0].sentence = crate::approve::text::line(text, 200);
        data.endpoint = text.to_owned();
        for view in
            [LiveView::Overview, LiveView::Detail, LiveView::ServerLog, LiveView::Log, LiveView::Doctor]
        {
            for size in [(80, 24), (120, 40), (50, 12)] {
                let state = LiveState { view, ..state(&data) };
                let text = screen(&data, &state, size, PLAIN).concat();
                let steers = |letter: char| letter.is_control() || hospes_policy::is_hidden(letter);
                assert!(!text.contains(steers), "{view:?} {size:?}: {text:?}");
            }
        }
    }
}

#[test]
fn without_colour_the_signs_and_words_stay() {
    let data = data();
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let look = ScreenLook { has_colour: false, is_ascii: false };
    terminal.draw(|frame| draw(frame, &data, &state(&data), look)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    let coloured = {
        terminal.draw(|frame| draw(frame, &data, &state(&data), PLAIN)).unwrap();
        terminal.backend().buffer().clone()
    };
    assert!(coloured.content.iter().any(|cell| cell.fg == Color::Red), "there is colour otherwise");
    let symbols = |buffer: &ratatui::buffer::Buffer| {
        buffer.content.iter().map(|cell| cell.symbol().to_owned()).collect::<String>()
    };
    assert_eq!(symbols(&buffer), symbols(&coloured));
}

#[test]
fn with_ascii_only_every_sign_has_another_one() {
    let mut data = data();
    data.servers[3].name = "漢字".to_owned();
    let look = ScreenLook { has_colour: true, is_ascii: true };
    for size in [(80, 24), (120, 40), (50, 12)] {
        for view in [LiveView::Overview, LiveView::Keys, LiveView::Doctor] {
            let rows = screen(&data, &LiveState { view, ..state(&data) }, size, look);
            assert!(rows.concat().is_ascii(), "{}", rows.join("\n"));
        }
    }
    let rows = screen(&data, &state(&data), (80, 24), look);
    assert!(row(&rows, "* github").contains("31 tools"));
    assert!(row(&rows, "x mail").contains("failed"));
    assert!(rows[1].contains("! 1 waits"));
    assert!(row(&rows, "search_issues").contains("###....."), "{}", row(&rows, "search_issues"));
}

#[test]
fn keys_do_what_the_last_line_says() {
    let data = data();
    let mut state = state(&data);
    assert_eq!(press(&mut state, &data, "c"), Some(LiveEffect::OpenConsole));
    assert_eq!(press(&mut state, &data, "a"), Some(LiveEffect::Approve));
    assert_eq!(press(&mut state, &data, "d"), None);
    assert_eq!(state.view, LiveView::Doctor);
    press(&mut state, &data, "\u{1b}l");
    assert_eq!(state.view, LiveView::ServerLog);
    press(&mut state, &data, "l?");
    assert_eq!(state.view, LiveView::Keys);
    press(&mut state, &data, "?p");
    assert!(state.is_paused && state.view == LiveView::Overview);
    press(&mut state, &data, "p↓↓");
    assert_eq!((state.is_paused, state.server.as_deref()), (false, Some("mail")));
    let rows = screen(&data, &LiveState { view: LiveView::Doctor, ..state.clone() }, (80, 24), PLAIN);
    assert!(row(&rows, "mend").contains("hospes auth login mail"), "{}", rows.join("\n"));
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(state.key(control('c'), &data, Duration::ZERO), Some(LiveEffect::Stop));
    assert_eq!(state.key(control('z'), &data, Duration::ZERO), Some(LiveEffect::Suspend));
    assert_eq!(state.key(control('q'), &data, Duration::ZERO), None);
}

/// Nothing that cannot be undone happens by one key.
#[test]
fn q_asks_if_calls_run_or_wait() {
    let mut busy = data();
    let mut state = state(&busy);
    assert_eq!(press(&mut state, &busy, "q"), None);
    assert_eq!(state.mode, LiveMode::Stopping);
    assert!(screen(&busy, &state, (80, 24), PLAIN)[23].contains("2 running, 1 waiting. Stop the host?"));
    assert_eq!(press(&mut state, &busy, "n"), None);
    assert_eq!(state.mode, LiveMode::Watching);
    assert_eq!(press(&mut state, &busy, "qq"), Some(LiveEffect::Stop));
    busy.calls.running.clear();
    busy.waiting.clear();
    assert_eq!(press(&mut state, &busy, "q"), Some(LiveEffect::Stop));
    assert_eq!(press(&mut state, &busy, "a"), None, "nothing waits");
    assert!(state.message.as_deref().is_some_and(|message| message.contains("nothing waits")));
}

#[test]
fn pasted_text_is_no_keys() {
    let data = data();
    let mut state = state(&data);
    let before = format!("{state:?}");
    state.paste("qqa\u{3}c\n");
    assert_eq!(format!("{state:?}"), before);
    press(&mut state, &data, "/");
    state.paste("wri\u{1b}[2J\nte");
    assert_eq!(state.filter, "wri[2Jte");
}

#[test]
fn a_filter_keeps_what_it_names() {
    let data = data();
    let mut state = state(&data);
    press(&mut state, &data, "/WRITE\n");
    assert_eq!((state.calls(&data).count(), state.servers(&data).count()), (1, 4));
    let rows = screen(&data, &state, (80, 24), PLAIN);
    assert!(rows[0].contains("filter: WRITE"), "{}", rows[0]);
    assert_eq!(press(&mut state, &data, "\u{1b}"), None);
    assert!(state.filter.is_empty());
    press(&mut state, &data, "/gith\n");
    assert_eq!(state.servers(&data).count(), 1);
    assert_eq!(state.server.as_deref(), Some("github"), "what is seen is selected");
    // Letters in the filter are no keys.
    assert_eq!(press(&mut state, &data, "/qqc"), None);
    assert!(state.filter.ends_with("qqc"));
}

#[test]
fn a_server_names_the_command_that_mends_it() {
    let data = data();
    let commands: Vec<Option<String>> = data.servers.iter().map(mend).collect();
    let expected =
        [None, Some("hospes doctor github".to_owned()), Some("hospes auth login mail".to_owned()), None];
    assert_eq!(commands, expected);
}

/// Many servers and calls are cut to the screen, and the selected ones are in view.
#[test]
fn long_lists_scroll_to_the_selected_row() {
    let mut data = data();
    let first = data.servers[0].clone();
    data.servers = (0..100)
        .map(|at| {
            let mut server = first.clone();
            server.name = format!("server-{at}");
            server
        })
        .collect();
    let mut state = state(&data);
    press(&mut state, &data, &"↓".repeat(70));
    let rows = screen(&data, &state, (80, 24), PLAIN);
    assert!(row(&rows, "▌").contains("server-70"), "{}", rows.join("\n"));
    assert!(rows.iter().all(|row| row.width() <= 80));
}

fn left_out(name: &str, reason: &str) -> LeftOutServer {
    LeftOutServer { name: name.to_owned(), reason: reason.to_owned() }
}

/// A faulty entry had no row, and its warning was printed before the screen was opened.
#[test]
fn servers_that_were_not_started_have_a_row_and_their_mistake() {
    let mut data = data();
    let mistake = "hospes.toml:4:9: the variable `MISSING_TOKEN` is not set, and there is no default for it";
    data.left_out = vec![left_out("unset", mistake), left_out("old", "disabled")];
    let mut state = state(&data);
    let rows = screen(&data, &state, (80, 24), PLAIN);
    assert!(row(&rows, "✗ unset").contains("not started: the variable `MISSING_TOKEN`"), "{rows:?}");
    assert!(row(&rows, "- old").contains("disabled"), "{rows:?}");
    assert!(screen(&data, &state, (50, 12), PLAIN)[0].contains("2 of 5 servers ready"));
    press(&mut state, &data, "↓↓↓↓d");
    assert_eq!(state.server.as_deref(), Some("unset"));
    let text = screen(&data, &state, (80, 24), PLAIN).join("\n");
    assert!(text.contains("✗ unset  not started"), "{text}");
    assert!(text.contains("mistake     the variable `MISSING_TOKEN` is not set, and there is no"), "{text}");
    assert!(text.contains("correct the entry"), "{text}");
    press(&mut state, &data, "d\n");
    let text = screen(&data, &state, (120, 40), PLAIN).join("\n");
    assert!(text.contains("│ mistake     the variable `MISSING_TOKEN`"), "{text}");
    press(&mut state, &data, "/unset\n");
    assert_eq!(state.servers(&data).count(), 1);
}

/// The path of the file took all the room of the row.
#[test]
fn the_row_of_a_missing_secret_has_the_reason_and_the_command() {
    let mut data = data();
    let mistake = "/home/somebody/a/long/path/of/a/folder/hospes.toml:4:9: `env.TOKEN` of server `gh`: the secret `gh` is \
                   not stored; `hospes secret set gh` stores it";
    data.left_out = vec![left_out("gh", mistake)];
    let mut state = state(&data);
    let rows = screen(&data, &state, (80, 24), PLAIN);
    let row = row(&rows, "✗ gh");
    assert!(
        row.contains("not started: the secret `gh` is not stored") && row.contains("hospes secret set gh"),
        "{row}"
    );
    press(&mut state, &data, "↓↓↓↓d");
    let text = screen(&data, &state, (80, 24), PLAIN).join("\n");
    assert!(
        text.contains("hint        `hospes secret set gh`") && !text.contains("correct the entry"),
        "{text}"
    );
}

/// A connected server of which nothing can be called had the sign of one that is ready.
#[test]
fn a_server_that_waits_for_its_first_review_has_the_sign_of_that() {
    let mut data = data();
    let mut blocked = server("mail", "ready", &json!({}));
    blocked["needsReview"] = json!(true);
    data.servers[2] = serde_json::from_value(blocked).unwrap();
    data.file_problems = serde_json::from_value(json!([
        { "file": "~/.config/hospes/policy.toml", "problem": "expected a decision (~/p.toml:2:1)", "since": NOW }
    ]))
    .unwrap();
    let rows = screen(&data, &state(&data), (80, 24), PLAIN);
    let shown = row(&rows, "◍ mail");
    assert!(shown.contains("waits for review") && shown.contains("hospes pins show mail"), "{shown}");
    let shown = row(&rows, "▲ policy.toml");
    assert!(shown.contains("mistake since") && shown.contains("expected a decision"), "{shown}");
}

#[test]
fn without_servers_the_screen_names_the_commands_that_add_them() {
    let data = LiveData { now: NOW.parse().unwrap(), ..LiveData::default() };
    for size in [(80, 24), (120, 40)] {
        let text = screen(&data, &state(&data), size, PLAIN).join("\n");
        assert!(text.contains("no servers: ") && text.contains("`hospes add`"), "{text}");
        assert!(text.contains("`hospes import`") && !text.contains("hospes connect"), "{text}");
    }
}

/// covers: LIFE-03
#[test]
fn a_row_has_the_reason_rather_than_the_wait() {
    let mut data = data();
    let row_of = |data: &LiveData, width: u16| {
        let rows = screen(data, &state(data), (width, 24), PLAIN);
        row(&rows, "mail").to_owned()
    };
    let mut broken = server("mail", "retrying", &json!({ "next_try_ms": 13_000 }));
    broken["nextTryMs"] = json!(13_000);
    broken["problem"] = json!(
        "cannot connect to /usr/local/bin/a-mail-server --port 99 (initialize): the program ended with code 1\n  stderr:"
    );
    data.servers[2] = serde_json::from_value(broken).unwrap();
    assert_eq!(data.servers[2].next_try_ms, Some(13_000));
    let narrow = row_of(&data, 80);
    assert!(narrow.contains("retrying: the program ended with code 1   "), "{narrow}");
    assert!(narrow.contains("hospes doctor mail"), "{narrow}");
    let wide = row_of(&data, 109);
    assert!(wide.contains("retrying, again in 13 s: the program ended with code 1   "), "{wide}");
    data.servers[2].problem = None;
    assert!(row_of(&data, 80).contains("retrying, again in 13 s   "));
}

#[test]
fn a_message_ends_with_the_next_key() {
    let mut data = data();
    data.waiting.clear();
    let mut state = state(&data);
    press(&mut state, &data, "a");
    assert!(screen(&data, &state, (80, 24), PLAIN)[23].contains("nothing waits"));
    press(&mut state, &data, "↓");
    assert!(screen(&data, &state, (80, 24), PLAIN)[23].contains("q quit"));
}

#[test]
fn logs_are_wrapped_at_words_and_scrolled_by_lines_of_the_screen() {
    let mut data = data();
    let words: Vec<String> = (0..400).map(|at| format!("word{at}")).collect();
    let long = LogLine { at: NOW.parse().unwrap(), level: "info".to_owned(), text: words.join(" ") };
    data.log = vec![long.clone()];
    data.server_log =
        vec![long, LogLine { at: NOW.parse().unwrap(), level: "warn".to_owned(), text: "x".to_owned() }];
    for key in ["L", "l"] {
        let mut state = LiveState { rows: 24, columns: 80, ..state(&data) };
        press(&mut state, &data, key);
        let mut seen = screen(&data, &state, (80, 24), PLAIN).join("\n");
        for _ in 0..80 {
            press(&mut state, &data, "k");
            seen.push_str(&screen(&data, &state, (80, 24), PLAIN).join("\n"));
        }
        for word in &words {
            assert!(seen.contains(&format!(" {word} ")), "{word} is not whole:\n{seen}");
        }
        assert!(!seen.contains("info"), "{seen}");
        assert_eq!(seen.contains("warn x"), key == "l");
        let top = state.scroll;
        press(&mut state, &data, "j");
        assert_eq!(state.scroll, top - 1, "scrolled to the begin, and no further");
    }
}

/// A message that was broken at the width of the terminal lost words in the log, which is narrower, and its lines looked
/// like messages of their own.
#[test]
fn a_message_of_the_log_is_whole_has_one_time_and_its_begin_comes_first() {
    let at = NOW.parse().unwrap();
    let message = |text: &str| LogLine { at, level: String::new(), text: text.to_owned() };
    let long = "● mail             waits for review\n      hint: two of its tools are new; review with `hospes pins show \
                mail`, accept with `hospes pins accept mail`, or remove the server";
    let mut data = data();
    data.log = vec![message("before"), message(long)];
    let mut state = state(&data);
    let shown = screen(&data, &state, (80, 24), PLAIN);
    let heads: Vec<&String> = shown.iter().skip_while(|row| !row.contains("L shows all")).skip(1).collect();
    assert!(heads[0].contains("● mail") && heads[1].contains("hint: two of its tools"), "{shown:?}");
    press(&mut state, &data, "L");
    let rows = screen(&data, &state, (80, 24), PLAIN);
    let text = rows.join("\n");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("accept with `hospes pins accept mail`, or remove the server"), "{text}");
    let times = rows[1..].iter().filter(|row| row.contains(":00:00 ")).count();
    assert_eq!(times, 2, "{text}");
    assert!(row(&rows, "hint:").starts_with("                "), "{text}");
    // The begin of a message that does not fit is shown.
    let words: Vec<String> = (0..100).map(|at| format!("word{at}")).collect();
    data.log = vec![message(&words.join(" "))];
    let rows = screen(&data, &LiveState { view: LiveView::Overview, ..state }, (80, 24), PLAIN);
    assert!(row(&rows, "word0").contains(":00:00 word0 word1"), "{rows:?}");
    assert!(rows.iter().any(|row| row.trim_end().ends_with('…')), "{rows:?}");
}

/// Rows that no call needs belong to the servers, and what is hidden is named.
#[test]
fn servers_get_the_room_that_calls_do_not_need_and_hidden_ones_are_named() {
    let mut data = data();
    data.waiting.clear();
    (data.calls.running, data.calls.ended) = (Vec::new(), Vec::new());
    let (well, mut failed) = (data.servers[0].clone(), data.servers[2].clone());
    failed.name = "broken".to_owned();
    let named = |at: usize| {
        let mut server = well.clone();
        server.name = format!("server-{at}");
        server
    };
    data.servers = (0..12).map(named).chain([failed.clone()]).collect();
    let rows = screen(&data, &state(&data), (80, 24), PLAIN);
    assert!(row(&rows, "broken").contains("failed"), "{}", rows.join("\n"));
    data.servers = (0..30).map(named).chain([failed]).collect();
    data.left_out = vec![left_out("unset", "a mistake"), left_out("old", "disabled")];
    let mut state = state(&data);
    let rows = screen(&data, &state, (80, 24), PLAIN);
    assert!(row(&rows, "↓").contains("more: 1 failed, 1 not started"), "{}", rows.join("\n"));
    assert!(!rows.join("").contains('↑'), "{}", rows.join("\n"));
    press(&mut state, &data, &"↓".repeat(16));
    let rows = screen(&data, &state, (80, 24), PLAIN);
    let (above, below) = (row(&rows, "↑ ").to_owned(), row(&rows, "↓ ").to_owned());
    let shown = rows.iter().filter(|row| row.contains("server-")).count();
    let number = |text: &str| {
        let digits = text.chars().skip_while(|letter| !letter.is_ascii_digit());
        digits.take_while(char::is_ascii_digit).collect::<String>().parse::<usize>().unwrap()
    };
    assert_eq!(number(&above) + shown + number(&below), 33, "{}", rows.join("\n"));
    press(&mut state, &data, &"↓".repeat(30));
    let rows = screen(&data, &state, (80, 24), PLAIN);
    assert!(row(&rows, "▌").contains("old") && !rows.join("").contains("↓ "), "{}", rows.join("\n"));
}

#[test]
fn the_overview_of_the_keys_is_whole_at_80_columns() {
    let mut data = data();
    data.waiting.clear();
    let state = LiveState { view: LiveView::Keys, ..state(&data) };
    let rows = screen(&data, &state, (80, 24), PLAIN);
    let words = rows.join("\n").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("Enter decides nothing") && words.contains("▲ waits for you"),
        "{}",
        rows.join("\n")
    );
    assert!(!rows[..23].concat().contains('…'), "{}", rows.join("\n"));
}

#[test]
fn a_command_for_a_name_with_blanks_can_be_pasted() {
    let mut data = data();
    data.servers[0].name = "Mein Server (ü)".to_owned();
    data.servers[0].state = hospes_host::upstream::UpstreamState::Withheld;
    let quoted = hospes_host::shell_word("Mein Server (ü)");
    assert_eq!(mend(&data.servers[0]), Some(format!("hospes pins show {quoted}")));
}
