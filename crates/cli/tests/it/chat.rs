//! `hospes chat`, the whole program.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::Write;
use std::process::Stdio;

use support::terminal::Terminal;
use support::{House, Ran, text};

const CONFIG: &str = "[models.demo]\nprovider = 'scripted'\nreplies = ['forty-two', 'and so on']\n\
                      [models.other]\nprovider = 'scripted'\nreplies = ['another']\n\
                      [servers.time]\nbuiltin = 'time'\n";

fn chat(house: &House, args: &[&str], said: &str) -> Ran {
    let config = text(&house.write("hospes.toml", CONFIG));
    let args = [&["chat", "--config", &config, "--start-wait", "10"], args].concat();
    let mut command = house.command(&args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn each_line_is_answered_on_standard_output_and_talk_stands_beside_it() {
    let house = House::new();
    let ran = chat(&house, &[], "What is it?\n/tools\nand then?\n/model other\nwho?\n/clear\n/quit\nnever\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout, "forty-two\nand so on\nanother\n", "{ran:?}");
    for wanted in ["approval are denied", "time__", "3 tools", "tokens in", "`other`"] {
        assert!(ran.stderr.contains(wanted), "{wanted}: {ran:?}");
    }
}

#[test]
fn a_model_that_is_not_there_is_named_before_anything_is_started() {
    let house = House::new();
    let ran = chat(&house, &["--model", "none"], "What is it?\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("unknown model `none`") && ran.stderr.contains("`demo`, `other`"), "{ran:?}");
    let ran = house.run(&["chat"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("[models.fast]") && ran.stderr.contains("config.toml"), "{ran:?}");
}

#[test]
fn scripts_learn_of_a_turn_without_an_answer() {
    let house = House::new();
    let long = "x".repeat(1024 * 1024 + 1);
    let ran = chat(&house, &[], &format!("{long}\nWhat is it?\n"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "forty-two\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("longer than 1048576 bytes"), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn in_a_terminal_ctrl_c_twice_leaves() {
    let house = House::new();
    let config = text(&house.write("hospes.toml", CONFIG));
    let command = house.command(&["chat", "--config", &config, "--start-wait", "10"]);
    let mut terminal = Terminal::start(&command, 100, 30);
    terminal.sees("/help lists the commands");
    terminal.type_keys("What is it?\r");
    terminal.sees("forty-two");
    terminal.sees("in this conversation");
    terminal.type_keys("\u{3}");
    terminal.sees("Ctrl-C again to quit");
    terminal.type_keys("and then?\r");
    terminal.sees("and so on");
    for said in ["Ctrl-C again to quit", ""] {
        terminal.type_keys("\u{3}");
        if !said.is_empty() {
            terminal.until("the second warning", |screen| screen.contents().matches(said).count() == 2);
        }
    }
    assert_eq!(terminal.wait(), 0);
}

/// A script that calls tools, and a server that asks for an answer of the model and for one of the person.
const ASKING: &str = "[models.demo]\nprovider = 'scripted'\nreplies = [\n\
                      { tool = 'try__test_sampling', arguments = { prompt = 'Is it blue?' } }, 'It is blue.', 'Done.',\n\
                      { tool = 'try__test_elicitation', arguments = { message = 'Who are you?' } }, 'Thanks.',\n\
                      ]\n[sampling.servers.try]\ntokens = 100000\n[servers.try]\nbuiltin = 'everything'\n";

/// Everything that waits for a person is asked in the flow: a call, both looks at an answer of the model, a form, and what
/// came back.
#[cfg(unix)]
#[test]
fn in_a_terminal_whatever_waits_is_decided_by_a_letter() {
    let house = House::new();
    let config = text(&house.write("hospes.toml", ASKING));
    let rules = text(&house.write("rules.toml", "[[rule]]\nabout = 'tool'\ndecide = 'ask'\n"));
    let command = house.command(&[
        "chat",
        "--config",
        &config,
        "--policy",
        &rules,
        "--pins",
        "off",
        "--start-wait",
        "10",
    ]);
    let mut terminal = Terminal::start(&command, 100, 250);
    // A line when the question for it stands there; an empty one is no answer.
    let steps = [
        ("> ", "Is it?", 0),
        ("call the tool test_sampling", "", 1),
        ("call the tool test_sampling", "o", 2),
        ("ask the model demo", "o", 3),
        ("return the answer of the model to try", "o", 4),
        ("Done.", "And who am I?", 4),
        ("call the tool test_elicitation", "o", 5),
        ("fill in a form of try", "f", 6),
        ("username", "ann", 6),
        ("email", "ann@example.com", 6),
        ("changed by you", "o", 7),
        ("Thanks.", "/quit", 7),
    ];
    for (seen, line, questions) in steps {
        terminal.until(&format!("{seen} and question {questions}"), |screen| {
            let text = screen.contents();
            let is_asked = text.trim_end().ends_with(['>', ')']);
            is_asked && text.contains(seen) && text.matches("deny (with reason)").count() == questions
        });
        terminal.type_keys(&format!("{line}\r"));
    }
    assert_eq!(terminal.wait(), 0);
    let ran = house.run(&["audit", "search", "--json"]);
    assert!(ran.stdout.contains("the person in the chat"), "{ran:?}");
}
