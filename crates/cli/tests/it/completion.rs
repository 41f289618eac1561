//! Completion of the command line in real shells, and the scripts that `hospes completions` prints.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use crate::support;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use support::terminal::Terminal;
use support::{House, installed, text};

/// A house with a built-in server and one that a host has seen. A tool of the latter has a name that is a command.
fn house() -> House {
    let house = House::new();
    for folder in ["home", "config/hospes"] {
        std::fs::create_dir_all(house.path(folder)).unwrap();
    }
    house.server("mail", &["send_letter", "$(touch made)"], "");
    let script = text(&house.path("mail.sh"));
    house.write(
        "config/hospes/config.toml",
        &format!(
            "[servers.filing]\nbuiltin = 'files'\nargs = ['.']\n\
             [servers.mail]\ncommand = ['sh', '{script}']\n"
        ),
    );
    let mut host = house.up(&[]);
    host.said(|line| line.contains("event=ready server=mail"));
    host.signal("-TERM");
    host.wait();
    house
}

/// The answer to a completion script.
fn answer(house: &House, words: &[&str]) -> Vec<String> {
    let mut command = house.command(&[&["--", "hospes"], words].concat());
    let output = command.env("HOSPES_COMPLETE", "fish").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn servers_and_tools_are_completed_without_starting_a_server() {
    let house = house();
    std::fs::remove_file(house.path("mail.pid")).unwrap();
    assert_eq!(answer(&house, &["call", "ma"]), ["mail"]);
    assert_eq!(answer(&house, &["call", "mail", "send"]), ["send_letter"]);
    assert_eq!(answer(&house, &["pins", "show", "mail", "send"]), ["send_letter"]);
    assert_eq!(answer(&house, &["audit", "search", "--server", "fil"]), ["filing"]);
    assert_eq!(answer(&house, &["list", "fi"]), ["filing", "files"]);
    let other = text(&house.write("other.toml", "[servers.elsewhere]\nbuiltin = 'time'\n"));
    assert_eq!(answer(&house, &["list", "--config", &other, "else"]), ["elsewhere"]);
    assert_eq!(answer(&house, &["statu"]), ["status"]);
    // Options are offered as well; the name that a shell would execute is not.
    let tools = answer(&house, &["call", "mail", ""]);
    assert!(tools.contains(&"send_letter".to_owned()), "{tools:?}");
    assert!(!tools.iter().any(|name| name.contains("touch")), "{tools:?}");
    assert!(!house.path("mail.pid").exists(), "a server was started");
}

/// A configuration that cannot be read offers nothing and prints nothing into the command line.
#[test]
fn a_broken_configuration_is_silent() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", "[servers");
    assert_eq!(answer(&house, &["pins", "show", "ma"]), Vec::<String>::new());
}

/// The lookup is short enough for a person with a finger on the key. The limit is generous, because other tests run at
/// the same time; alone it takes about 30 ms in a debug build.
#[test]
fn a_lookup_ends_within_its_limit() {
    let house = house();
    let begun = Instant::now();
    assert_eq!(answer(&house, &["call", "mail", "send"]), ["send_letter"]);
    assert!(begun.elapsed() < support::LIMIT / 10, "{:?}", begun.elapsed());
}

#[test]
fn each_shell_has_a_script_and_the_help_has_its_line() {
    let house = House::new();
    let help = house.run(&["completions", "--help"]).stdout;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = house.run(&["completions", shell]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("HOSPES_COMPLETE"), "{shell}: {ran:?}");
        assert!(help.contains(&format!("hospes completions {shell}")), "{shell}: {help}");
    }
    assert_eq!(house.run(&["completions", "csh"]).code, Some(1));
}

/// A shell in a terminal, with the program in its `PATH`.
fn shell(house: &House, program: &Path, args: &[&str]) -> Terminal {
    let mut command: Command = house.program(&text(program), args);
    let own = Path::new(env!("CARGO_BIN_EXE_hospes")).parent().unwrap();
    command.env("PATH", format!("{}:{}", own.display(), std::env::var("PATH").unwrap()));
    // Fish and Elvish keep their history there.
    command.env("XDG_DATA_HOME", house.path("data"));
    Terminal::start(&command, 120, 30)
}

/// Types the line of the help, then presses Tab after the beginnings of a command, a server and a tool.
fn completes(mut shell: Terminal, setup: &[&str]) {
    // A prompt has one of these, root's `#`; Elvish writes something at the right, too.
    shell.until("a prompt", |screen| screen.contents().contains(['$', '#', '%', '>']));
    for line in setup {
        shell.type_keys(&format!("{line}\r"));
    }
    // The shell has read the setup when it prints what is not in the typed line.
    shell.type_keys("echo rea''dy\r");
    shell.sees("ready");
    shell.type_keys("hospes statu\t");
    shell.sees("hospes status");
    // Ctrl-U empties the line in all four shells.
    shell.type_keys("\u{15}hospes call mai\t");
    shell.sees("hospes call mail");
    shell.type_keys("\u{15}hospes call mail send\t");
    shell.sees("hospes call mail send_letter");
}

#[test]
fn bash_completes() {
    let Some(bash) = installed("bash") else { return };
    let house = house();
    let shell = shell(&house, &bash, &["--norc", "--noprofile", "-i"]);
    completes(shell, &["source <(hospes completions bash)"]);
    assert!(!house.path("made").exists());
}

#[test]
fn zsh_completes() {
    let Some(zsh) = installed("zsh") else { return };
    let house = house();
    let shell = shell(&house, &zsh, &["-f", "-i"]);
    let setup = ["autoload -U compinit && compinit -u -D", "source <(hospes completions zsh)"];
    completes(shell, &setup);
}

#[test]
fn fish_completes() {
    let Some(fish) = installed("fish") else { return };
    let house = house();
    let shell = shell(&house, &fish, &["--no-config", "-i"]);
    completes(shell, &["hospes completions fish | source"]);
}

#[test]
fn elvish_completes() {
    let Some(elvish) = installed("elvish") else { return };
    let house = house();
    let shell = shell(&house, &elvish, &["-norc"]);
    completes(shell, &["eval (hospes completions elvish | slurp)"]);
}
