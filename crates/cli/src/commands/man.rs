//! `hospes man`: manual pages, one for each command.

use std::fmt::Write as _;
use std::fs;
use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Cli, ManArgs};
use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;

pub(crate) fn run(args: &ManArgs, output: CliOutput) -> CliResult {
    let pages = pages().map_err(|error| CliError::usage("cannot write the manual").with_cause(&error))?;
    let Some(folder) = &args.output else {
        // The page of the program itself is the last one.
        output.result(pages.last().map(|page| page.roff.as_str()).unwrap_or_default());
        return Ok(());
    };
    let failed = |what: String| {
        move |error: io::Error| {
            CliError::usage(format!("cannot write {what}")).with_cause(&error).hint("choose another --output")
        }
    };
    fs::create_dir_all(folder).map_err(failed(folder.display().to_string()))?;
    for page in &pages {
        let file = folder.join(&page.file);
        fs::write(&file, &page.roff).map_err(failed(file.display().to_string()))?;
    }
    output.say(format_args!("{} pages in {}", pages.len(), folder.display()));
    Ok(())
}

/// A manual page.
struct ManPage {
    file: String,
    roff: String,
}

/// Returns the pages of all commands that help lists, that of the program last.
fn pages() -> io::Result<Vec<ManPage>> {
    // The help of `help` says nothing that the pages do not say.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, pages: &mut Vec<ManPage>) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add_pages(below, pages)?;
    }
    let notes = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    // clap_mangen would fill the lines of the notes, which are tables and commands.
    let bare = command.clone().after_help(None::<&str>).after_long_help(None::<&str>);
    let man = Man::new(bare);
    let mut rendered = Vec::new();
    man.render(&mut rendered)?;
    let rendered = String::from_utf8_lossy(&rendered);
    let file = man.get_filename();
    let mut roff = String::with_capacity(rendered.len());
    for line in rendered.lines() {
        // Writing into a string cannot fail. clap_mangen leaves the empty date out, and the version would be read as the date.
        if line.starts_with(".TH ") {
            let _ = writeln!(roff, "{}", title(&file));
        } else {
            let _ = writeln!(roff, "{}", line.trim_end());
        }
    }
    if let Some(notes) = notes {
        roff.push_str(&notes_section(&notes));
    }
    pages.push(ManPage { file, roff });
    Ok(())
}

/// Formats the title of a page. It has no date, so that a version always gives the same files.
fn title(file: &str) -> String {
    let name = file.trim_end_matches(".1").to_uppercase();
    format!(".TH {name} 1 \"\" \"hospes {}\" \"Hospes\"", env!("CARGO_PKG_VERSION"))
}

/// Formats a text whose line breaks stay.
fn notes_section(notes: &str) -> String {
    let mut roff = String::from(".SH NOTES\n.nf\n");
    for line in notes.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
        // A line that begins with a dot would be a request; `\&` is an empty character.
        let guard = if line.starts_with('.') { "\\&" } else { "" };
        let _ = writeln!(roff, "{guard}{line}");
    }
    roff.push_str(".fi\n");
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let files: Vec<String> = pages().unwrap().into_iter().map(|page| page.file).collect();
        for file in ["hospes.1", "hospes-up.1", "hospes-auth-login.1", "hospes-serve-files.1", "hospes-man.1"]
        {
            assert!(files.iter().any(|known| known == file), "{file}: {files:?}");
        }
        assert_eq!(files.last().map(String::as_str), Some("hospes.1"));
    }

    #[test]
    fn a_text_cannot_become_a_request() {
        assert_eq!(
            notes_section(".so x\n'b' \\fB --c"),
            ".SH NOTES\n.nf\n\\&.so x\n\\(aqb\\(aq \\efB \\-\\-c\n.fi\n"
        );
    }
}
