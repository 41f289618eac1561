//! Checks of launchers: the version of what runs the server, and whether Docker runs.

use std::ffi::OsStr;
use std::path::Path;

use super::check::{C04, DoctorChain, DoctorFinding};
use super::system::version_of;
use crate::program_sources::{program_source, start_container_service};

/// A program that runs servers, and what is needed of it.
struct Launcher {
    /// Commands that need it.
    commands: &'static [&'static str],
    /// Name for people.
    name: &'static str,
    /// Program whose version counts.
    program: &'static str,
    args: &'static [&'static str],
    /// Oldest version that packages of servers usually support.
    oldest: Option<(u32, u32)>,
    /// Source of a newer one.
    source: &'static str,
}

const LAUNCHERS: [Launcher; 4] = [
    Launcher {
        commands: &["node", "npx", "npm", "pnpm"],
        name: "Node.js",
        program: "node",
        args: &["--version"],
        oldest: Some((18, 0)),
        source: "install Node.js 20 or newer: https://nodejs.org",
    },
    Launcher {
        commands: &["uv", "uvx"],
        name: "uv",
        program: "uv",
        args: &["--version"],
        oldest: None,
        source: "",
    },
    Launcher {
        commands: &["python", "python3"],
        name: "Python",
        program: "",
        args: &["--version"],
        oldest: Some((3, 10)),
        source: "install Python 3.10 or newer, or run the server with uv: https://docs.astral.sh/uv",
    },
    Launcher {
        commands: &["docker", "podman"],
        name: "",
        program: "",
        // Asks the daemon, unlike `--version`.
        args: &["version", "--format", "{{.Server.Version}}"],
        oldest: None,
        source: "",
    },
];

/// Checks the launcher of a command, if it is one. Returns false if the server cannot be started. An old version is a
/// warning, because some servers work with it.
pub(super) async fn check(
    command: &str,
    found: &Path,
    path: Option<&OsStr>,
    chain: &mut DoctorChain,
) -> bool {
    let stem = Path::new(command).file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let Some(launcher) = LAUNCHERS.iter().find(|launcher| launcher.commands.contains(&stem)) else {
        return true;
    };
    let name = if launcher.name.is_empty() { stem } else { launcher.name };
    let program = match launcher.program {
        "" => Ok(found.to_owned()),
        program if program == stem => Ok(found.to_owned()),
        // Beside the launcher or in PATH: `npx` is a script that `node` runs.
        program => hospes_sandbox::resolve(OsStr::new(program), path, Path::new("/")),
    };
    let version = match &program {
        Ok(program) => version_of(program, launcher.args).await,
        Err(_) => None,
    };
    let Some(version) = version.filter(|version| !version.is_empty()) else {
        let is_container = launcher.name.is_empty();
        let finding = match is_container {
            true => DoctorFinding::new(format!("{name} does not run, or may not be used by you"))
                .why(format!("`{stem} version` got no answer"))
                .mend(start_container_service(stem)),
            false => DoctorFinding::new(format!("{name} cannot be used"))
                .why(format!("`{} {}` failed", launcher.program, launcher.args.join(" ")))
                .mend(program_source(launcher.program).unwrap_or_default()),
        };
        chain.fail(&C04, finding, &super::failed_connection::PROCESS_STEPS);
        return false;
    };
    match (launcher.oldest, parse(&version)) {
        (Some(oldest), Some(known)) if known < oldest => {
            let (major, minor) = oldest;
            let finding = DoctorFinding::new(format!("{name} is {}", version.trim_start_matches(['v', 'V'])))
                .why(format!("packages of servers usually need {major}.{minor} or newer"))
                .mend(launcher.source);
            chain.warn(&C04, finding);
        }
        _ => chain.ok(&C04, ""),
    }
    true
}

/// Returns the first two numbers of a version: `v16.3.0`, `Python 3.9.2`.
fn parse(text: &str) -> Option<(u32, u32)> {
    let begin = text.find(|letter: char| letter.is_ascii_digit())?;
    let mut numbers = text[begin..].split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_print() {
        assert_eq!(parse("v16.3.0"), Some((16, 3)));
        assert_eq!(parse("Python 3.9.2+"), Some((3, 9)));
        assert_eq!(parse("uv 0.8.4 (e176e1714 2025-07-30)"), Some((0, 8)));
        assert_eq!(parse("no version"), None);
    }
}
