//! Programs of servers that are not in this process's `PATH`, but in that of the user's login shell.
//!
//! An application that was started from a dock or a menu has the short `PATH` of the system, without the folders of
//! Homebrew, nvm or mise. So have the programs that it starts, such as `hospes stdio`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use hospes_host::config::{HostConfig, ServerTransport};

use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;
use crate::{login_path, platform};

/// Variable of a process that has been started again, so that it never is twice.
const RESTARTED: &str = "HOSPES_LOGIN_PATH";
/// Folders of the home folder in which version managers put programs, although some shells do not name them.
const FOLDERS: [&str; 3] = [".local/bin", ".local/share/mise/shims", ".asdf/shims"];
/// Folders of Homebrew.
const HOMEBREW: [&str; 3] = ["/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin"];

/// Starts this process again with a longer `PATH` if that has a server's program which is missing otherwise. Does
/// nothing on a terminal, whose shell has set `PATH` already, and on Windows, where the registry has it.
///
/// To be called before anything is opened or read from stdin. The process keeps its id, arguments and streams.
///
/// # Errors
/// If the process cannot be started again.
pub(crate) fn restart_with_login_path(config: &HostConfig, output: CliOutput) -> CliResult {
    if cfg!(windows) || std::env::var_os(RESTARTED).is_some() || std::io::stdin().is_terminal() {
        return Ok(());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing: Vec<&str> = programs(config).filter(|program| !is_found(program, &path)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let login = login_path::read().unwrap_or_default();
    let Some(longer) = joined(&path, OsStr::new(&login), std::env::home_dir().as_deref()) else {
        return Ok(());
    };
    let Some(found) = missing.into_iter().find(|program| is_found(program, &longer)) else { return Ok(()) };
    output.say(format_args!("PATH is extended by that of your login shell, in which `{found}` is found"));
    let problem = platform::restart(&[("PATH", &longer), (RESTARTED, OsStr::new("1"))]);
    Err(CliError::usage("cannot start again with the PATH of the login shell").with_cause(&problem))
}

/// Programs of servers that are found in the host's `PATH`, if at all.
fn programs(config: &HostConfig) -> impl Iterator<Item = &str> {
    config.servers.iter().chain(&config.profile_servers).filter(|server| !server.disabled).filter_map(
        |server| {
            let ServerTransport::Stdio(stdio) = &server.transport else { return None };
            let program = stdio.command.reveal();
            let is_bare = !program.contains(std::path::is_separator);
            // The server's own variable is not changed by this.
            (is_bare && !stdio.env.contains_key("PATH")).then_some(program)
        },
    )
}

fn is_found(program: &str, path: &OsStr) -> bool {
    hospes_sandbox::resolve(OsStr::new(program), Some(path), Path::new("/")).is_ok()
}

/// Returns the folders of `path`, then those of the login shell and of version managers that exist. `None` if there is
/// no further one.
fn joined(path: &OsStr, login: &OsStr, home: Option<&Path>) -> Option<OsString> {
    let mut folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    let before = folders.len();
    let usual = home.into_iter().flat_map(|home| FOLDERS.map(|folder| home.join(folder)));
    let further = std::env::split_paths(login).chain(usual).chain(HOMEBREW.map(PathBuf::from));
    for folder in further {
        // A relative folder would mean another one for each server.
        if folder.is_absolute() && folder.is_dir() && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    if folders.len() == before { None } else { std::env::join_paths(folders).ok() }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn the_login_shells_folders_come_after_those_of_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        std::fs::create_dir_all(home.join(".local/bin")).unwrap();
        std::fs::create_dir_all(home.join("nvm")).unwrap();
        let login = format!("/usr/bin:{0}/nvm:relative:{0}/absent:{0}/nvm", home.display());
        let longer = joined(OsStr::new("/usr/bin:/bin"), OsStr::new(&login), Some(home)).unwrap();
        let folders: Vec<PathBuf> = std::env::split_paths(&longer).take(4).collect();
        assert_eq!(
            folders,
            [PathBuf::from("/usr/bin"), PathBuf::from("/bin"), home.join("nvm"), home.join(".local/bin")]
        );
    }
}
