//! Commands of this program that are shown to a person, who copies them into a shell.

use crate::output::{one_line, shell_word};

/// Returns a command about a server, such as `hospes pins show mail`. `name` may be the name of a server, or what stands
/// in its place: a URL or a path.
pub(crate) fn shown_command(words: &str, name: &str) -> String {
    format!("hospes {words} {}", shell_word(&one_line(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_name_is_one_word_of_the_command() {
        assert_eq!(shown_command("pins show", "mail"), "hospes pins show mail");
        assert_eq!(shown_command("pins show", "Mein Server (ü)"), "hospes pins show 'Mein Server (ü)'");
        assert_eq!(shown_command("logs", "a\n\u{202e}b"), r"hospes logs 'a \u{202e}b'");
    }

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// Returns true if a command about a server is followed by a value of a format string. In a source, `{{` is a brace.
    fn is_unquoted(line: &str) -> bool {
        const COMMANDS: [&str; 12] = [
            "pins show",
            "pins accept",
            "pins reject",
            "auth login",
            "auth logout",
            "update",
            "logs",
            "doctor",
            "list",
            "call",
            "remove",
            "test",
        ];
        COMMANDS.iter().any(|command| {
            let shown = format!("hospes {command} ");
            line.split(&shown).skip(1).any(|rest| {
                // What follows may be the value of an option.
                let words = rest.split(' ').skip_while(|word| matches!(*word, "--all" | "--rollback"));
                words.take(1).any(|word| word.starts_with('{'))
            })
        })
    }

    /// A name with a blank or a bracket made a command that no shell reads as it was meant.
    #[test]
    fn every_command_about_a_server_is_made_here() {
        assert!(is_unquoted(r#"format!("then: hospes pins show --all {server}")"#));
        assert!(!is_unquoted(r#"format!("{file}: hospes doctor mail {more}")"#));
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let mut wrong = Vec::new();
        for file in
            files.iter().filter(|file| !file.ends_with("shown_commands.rs") && !file.ends_with("tests.rs"))
        {
            let text = fs::read_to_string(file).unwrap();
            let lines = text.lines().enumerate().filter(|(_, line)| is_unquoted(line));
            wrong.extend(lines.map(|(at, line)| format!("{}:{}: {line}", file.display(), at + 1)));
        }
        assert!(wrong.is_empty(), "use `shown_command`:\n{}", wrong.join("\n"));
    }
}
