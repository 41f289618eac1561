//! The help of the program itself: its commands under a heading for each purpose, instead of one list of thirty.

use std::fmt::Write as _;

use clap::error::Result;
use clap::{Command, CommandFactory, FromArgMatches};

use crate::args::Cli;

/// Headings and the commands below each, in the order in which they are shown.
const GROUPS: &[(&str, &[&str])] = &[
    ("Host", &["up", "stdio", "status", "doctor", "console", "approve", "logs", "service", "state"]),
    ("Servers", &["search", "add", "update", "remove", "import", "export", "secret", "auth", "bundle"]),
    ("Applications", &["connect", "disconnect", "profile"]),
    ("Use a server", &["list", "call", "chat", "serve"]),
    ("Rules and record", &["policy", "pins", "grants", "audit"]),
    ("This program", &["upgrade", "completions", "man", "help"]),
];

/// Heading of commands that no group names.
const OTHER: &str = "Other commands";

/// Parses the arguments of this process.
pub(crate) fn parse() -> Result<Cli> {
    let mut command = Cli::command();
    command.build();
    let template = template(&command);
    Cli::from_arg_matches(&Cli::command().help_template(template).try_get_matches()?)
}

/// The help template of `program`, which must be built, with its visible commands in groups.
fn template(program: &Command) -> String {
    let header = *program.get_styles().get_header();
    let literal = *program.get_styles().get_literal();
    let visible: Vec<&Command> = program.get_subcommands().filter(|one| !one.is_hide_set()).collect();
    let width = visible.iter().map(|one| one.get_name().len()).max().unwrap_or_default();
    let is_named = |one: &&Command| GROUPS.iter().any(|(_, names)| names.contains(&one.get_name()));
    let other: Vec<&str> = visible.iter().filter(|one| !is_named(one)).map(|one| one.get_name()).collect();

    let mut text = String::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS.iter().copied().chain([(OTHER, other.as_slice())]) {
        let commands = names.iter().filter_map(|name| visible.iter().find(|one| one.get_name() == *name));
        for (number, command) in commands.enumerate() {
            if number == 0 {
                let _ = write!(text, "\n{header}{heading}:{header:#}\n");
            }
            let (name, about) = (command.get_name(), command.get_about().cloned().unwrap_or_default());
            let _ = writeln!(text, "  {literal}{name}{literal:#}{:1$}  {about}", "", width - name.len());
        }
    }
    let _ = writeln!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_stands_in_exactly_one_group() {
        let mut program = Cli::command();
        program.build();
        let mut named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let visible = program.get_subcommands().filter(|one| !one.is_hide_set());
        let mut existing: Vec<&str> = visible.map(Command::get_name).collect();
        named.sort_unstable();
        existing.sort_unstable();
        assert_eq!(named, existing);
    }

    #[test]
    fn a_command_without_a_group_is_shown_all_the_same() {
        let mut program = Command::new("program").subcommand(Command::new("fetch-all").about("Fetch all"));
        program.build();
        let text = template(&program);
        assert!(text.contains(OTHER) && text.contains("Fetch all"), "{text}");
    }
}
