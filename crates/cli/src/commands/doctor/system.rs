//! Checks of what the host needs of the system: its databases, the keyring, the clock, and the program itself.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use hospes_host::HostStatus;
use hospes_host::config::{HostConfig, ServerTransport};
use hospes_store::{AuditLog, StateStore, StoreError};
use jiff::Timestamp;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;
use url::Url;

use super::check::{DoctorChain, DoctorFinding, H05, H07, H08, H10, H11};
use super::fetch;
use crate::credentials;
use crate::exit::error_chain;
use crate::output::first_line;
use crate::paths::{self, display_path};

/// Maximum time of one check.
pub(super) const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// Difference of two clocks, in seconds, from which tokens and certificates may be refused.
const MAX_CLOCK_DIFFERENCE: i64 = 60;
/// Number of servers whose clocks are read.
const MAX_CLOCKS: usize = 2;
/// Maximum number of other programs in PATH that are started.
const MAX_COPIES: usize = 5;
/// Maximum number of bytes that are read of a program that says its version.
const MAX_VERSION_BYTES: u64 = 4096;
/// Version of this program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Checks the files of the state and of the audit log, if they exist.
pub(super) fn databases(chain: &mut DoctorChain) {
    let state = paths::state_file().map(|file| (file, StateStore::examine as fn(PathBuf) -> _));
    let audit = paths::audit_files().map(|(file, _)| (file, AuditLog::examine as fn(PathBuf) -> _));
    for (file, examine) in state.into_iter().chain(audit) {
        if !file.is_file() {
            continue;
        }
        let shown = display_path(&file);
        match examine(file) {
            Ok(()) => {}
            Err(error @ StoreError::Newer(_)) => {
                let finding = DoctorFinding::new(format!("{shown} was written by a newer version of hospes"))
                    .why(format!("this program is {VERSION} ({error})"))
                    .mend("hospes upgrade");
                return chain.fail(&H05, finding, &[]);
            }
            Err(error) => {
                let finding = DoctorFinding::new(format!("{shown} cannot be read as a database"))
                    .why(error_chain(&error))
                    .mend(format!("restore it from a back-up, or start anew: mv {shown} {shown}.damaged"));
                return chain.fail(&H05, finding, &[]);
            }
        }
    }
    chain.ok(&H05, "");
}

/// Checks that the key of the stored tokens and secrets can be read, or that one could be stored.
pub(super) async fn keyring(chain: &mut DoctorChain) {
    // On a thread of its own: a locked keyring may ask the person, and the call blocks meanwhile.
    let opened = tokio::task::spawn_blocking(|| match credentials::open_existing() {
        Ok(None) => match credentials::try_new_key() {
            Ok(place) => Ok(format!("nothing is stored; a key would be {}", place.shown())),
            Err(error) => Err((error.message, error.cause, error.hint)),
        },
        Ok(Some((store, place))) => match store.can_open() {
            Ok(true) => Ok(format!("the key is {}", place.shown())),
            Ok(false) => Err((
                "the stored tokens and secrets cannot be decrypted".to_owned(),
                Some(format!("the key {} is not the one that encrypted them", place.shown())),
                Some("hospes auth repair SERVER, which signs in anew".to_owned()),
            )),
            Err(error) => {
                Err(("the stored tokens cannot be read".to_owned(), Some(error_chain(&error)), None))
            }
        },
        Err(error) => Err((error.message, error.cause, error.hint)),
    });
    match timeout(CHECK_TIMEOUT, opened).await {
        Ok(Ok(Ok(place))) => chain.ok(&H07, place),
        Ok(Ok(Err((what, why, mend)))) => {
            chain.fail(&H07, DoctorFinding { what, why, mend, evidence: None }, &[])
        }
        Ok(Err(_)) | Err(_) => {
            let finding = DoctorFinding::new(format!("the keyring did not answer within {CHECK_TIMEOUT:?}"))
                .why("it may be waiting to be unlocked")
                .mend("unlock the keyring; or keep the key in a file: HOSPES_CREDENTIALS_STORE=file");
            chain.warn(&H07, finding);
        }
    }
}

/// Compares the clock with the answers of servers of the configuration. Only their hosts are asked, without a path.
pub(super) async fn clock(config: Option<&HostConfig>, chain: &mut DoctorChain) {
    let mut seen = HashSet::new();
    let servers = config.iter().flat_map(|config| &config.servers).filter(|server| !server.disabled);
    let urls = servers.filter_map(|server| match &server.transport {
        ServerTransport::Http(http) => origin(http.url.reveal()),
        _ => None,
    });
    let urls: Vec<Url> = urls.filter(|url| seen.insert(url.clone())).take(MAX_CLOCKS).collect();
    let asked = urls.iter().map(|url| async {
        let date = timeout(CHECK_TIMEOUT, fetch::date(url)).await.ok()??;
        Some((url.host_str().unwrap_or_default().to_owned(), date.as_second() - Timestamp::now().as_second()))
    });
    let differences: Vec<(String, i64)> =
        futures::future::join_all(asked).await.into_iter().flatten().collect();
    let Some((host, ahead)) = differences.iter().min_by_key(|(_, seconds)| seconds.abs()) else {
        return chain.ok(&H08, "");
    };
    // If one of the clocks agrees, it is the other one that is wrong.
    if ahead.abs() <= MAX_CLOCK_DIFFERENCE {
        return chain.ok(&H08, "");
    }
    let direction = if *ahead < 0 { "ahead of" } else { "behind" };
    let finding = DoctorFinding::new(format!(
        "the clock is {} {direction} that of {host}",
        duration(ahead.unsigned_abs())
    ))
    .why("tokens and certificates are refused when their times do not fit")
    .mend(set_clock());
    match differences.len() {
        1 => chain.warn(&H08, finding),
        _ => chain.fail(&H08, finding, &[]),
    }
}

/// Command that sets the clock from the network.
const fn set_clock() -> &'static str {
    if cfg!(windows) {
        "w32tm /resync"
    } else if cfg!(target_os = "macos") {
        "sudo sntp -sS time.apple.com"
    } else {
        "sudo timedatectl set-ntp true"
    }
}

fn origin(url: &Url) -> Option<Url> {
    let mut origin = url.clone();
    origin.set_username("").and_then(|()| origin.set_password(None)).ok()?;
    origin.set_path("/");
    origin.set_query(None);
    origin.set_fragment(None);
    Some(origin)
}

/// Formats a duration: `40 s`, `47 min`, `3 h`, `2 days`.
pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Compares the version of the running host. Releases are not looked up: that would be a network call unasked.
pub(super) fn version(running: Option<&HostStatus>, chain: &mut DoctorChain) {
    match running {
        Some(host) if host.version != VERSION => {
            let finding = DoctorFinding::new(format!(
                "the running host is of version {}",
                first_line(&host.version, 40)
            ))
            .why(format!("this program is {VERSION}; it was upgraded while the host ran"))
            .mend(format!("kill {}, and start it again with `hospes up`", host.pid));
            chain.warn(&H10, finding);
        }
        _ => chain.ok(&H10, VERSION),
    }
}

/// Compares the versions of all programs of this name in PATH.
pub(super) async fn copies(chain: &mut DoctorChain) {
    let this = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let name = if cfg!(windows) { "hospes.exe" } else { "hospes" };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut seen: HashSet<PathBuf> = this.iter().cloned().collect();
    let others = std::env::split_paths(&folders).map(|folder| folder.join(name)).filter(|file| {
        // A relative folder of PATH may hold anything.
        file.is_absolute()
            && file.is_file()
            && std::fs::canonicalize(file).is_ok_and(|file| seen.insert(file))
    });
    for other in others.take(MAX_COPIES) {
        let said = version_of(&other, &["--version"]).await;
        let of_other = said.as_deref().unwrap_or("unknown").trim_start_matches("hospes").trim().to_owned();
        if of_other == VERSION {
            continue;
        }
        let this = this.as_deref().map(display_path).unwrap_or_default();
        let shown = display_path(&other);
        let finding = DoctorFinding::new(format!("{shown} is another hospes, of version {of_other}"))
            .why(format!("this one is {this}, of version {VERSION}; applications may start the other"))
            .mend(format!("remove it in the way in which it was installed, or: rm {shown}"));
        return chain.warn(&H11, finding);
    }
    chain.ok(&H11, "");
}

/// Returns the first line that a program prints about its version. `None` if it fails or prints without end.
pub(super) async fn version_of(program: &std::path::Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let run = async {
        let mut child = command.spawn().ok()?;
        let mut text = Vec::new();
        child.stdout.take()?.take(MAX_VERSION_BYTES).read_to_end(&mut text).await.ok()?;
        let status = child.wait().await.ok()?;
        status.success().then(|| first_line(&String::from_utf8_lossy(&text), 80))
    };
    timeout(CHECK_TIMEOUT, run).await.ok()?
}
