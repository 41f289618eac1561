//! Description of a process.

use serde::{Deserialize, Serialize};

/// Maximum number of ancestors that are named.
pub(super) const MAX_PARENTS: usize = 3;
/// Maximum length of a program's name, in characters.
const MAX_NAME: usize = 48;

/// Description of a process at the time it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessDescription {
    /// Process id.
    pub pid: u32,
    /// Name of the program's file or, if it cannot be read, the name that the process gives itself.
    pub program: String,
    /// Controlling terminal.
    pub terminal: Option<TerminalName>,
    /// The programs that started it, the nearest first; at most three.
    pub parents: Vec<String>,
}

/// Name of a terminal, such as `pts/3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TerminalName(String);

impl TerminalName {
    /// Returns the name below `/dev`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the terminal with this device number from `/proc/PID/stat`. `None` for 0.
    #[cfg(target_os = "linux")]
    pub(super) fn from_device(number: i64) -> Option<Self> {
        let number = u32::try_from(number & 0xffff_ffff).ok().filter(|number| *number != 0)?;
        // As the kernel encodes them: the major in bits 8 to 19, the minor in bits 0 to 7 and 20 to 31.
        let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xf_ff00));
        // Of the kernel's list of devices: 136 to 143 are pseudo-terminals, 4 has consoles and serial lines.
        Some(Self(match (major, minor) {
            (136..=143, minor) => format!("pts/{}", (major - 136) * 256 + minor),
            (4, 0..64) => format!("tty{minor}"),
            (4, minor) => format!("ttyS{}", minor - 64),
            (major, minor) => format!("terminal {major}:{minor}"),
        }))
    }
}

impl ProcessDescription {
    /// Returns its name and origin as text: `python3, process 5, started by bash, sshd`.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { pid, program, parents, .. } = self;
        match parents.is_empty() {
            true => format!("{program}, process {pid}"),
            false => format!("{program}, process {pid}, started by {}", parents.join(", ")),
        }
    }
}

/// Makes a program's name safe to print in one line. The program's author or user chooses the name.
pub(super) fn sanitize_name(name: &str) -> String {
    // The kernel adds this where the file was replaced while the program runs, as by an update.
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let plain = |c: char| match c {
        // A name with these could pose as more ancestors or end a quotation; beyond ASCII there are look-alikes.
        ',' | '(' | ')' | '`' | '\u{7f}'.. => '?',
        c if c.is_control() => '?',
        c => c,
    };
    let clean: String = name.chars().take(MAX_NAME).map(plain).collect();
    if clean.is_empty() { "?".to_owned() } else { clean }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_called_as_below_dev() {
        let name = |number| TerminalName::from_device(number).map(|terminal| terminal.0);
        assert_eq!(name(0), None);
        assert_eq!(name(34_816).as_deref(), Some("pts/0"));
        assert_eq!(name(34_819).as_deref(), Some("pts/3"));
        assert_eq!(name((1 << 20) | 34_817).as_deref(), Some("pts/257"));
        assert_eq!(name(1025).as_deref(), Some("tty1"));
        assert_eq!(name(1088).as_deref(), Some("ttyS0"));
    }

    #[test]
    fn a_name_of_a_program_cannot_pass_for_more() {
        assert_eq!(sanitize_name("node"), "node");
        assert_eq!(sanitize_name("sh, process 1 of user 0\n\u{202e}"), "sh? process 1 of user 0??");
        assert_eq!(sanitize_name(&"x".repeat(500)).len(), MAX_NAME);
        assert_eq!(sanitize_name("python3 (deleted)"), "python3");
    }
}
