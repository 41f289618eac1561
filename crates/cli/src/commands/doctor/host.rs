//! Checks of the host itself: its endpoint, its folders, and what the system offers.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use hospes_host::HostStatus;
use hospes_host::config::HostConfig;

use super::check::{C01, DoctorChain, DoctorFinding, H01, H02, H03, H04, H06, H09, H12, H13};
use super::port_owner::port_owner;
use super::running_hosts::running_hosts;
use super::{service, system};
use crate::commands::policy::RulePeople;
use crate::enforcement::read_policy;
use crate::exit::CliError;
use crate::known_servers::configured_servers;
use crate::output::{CliOutput, shell_word};
use crate::paths::{self, display_path};
use crate::platform;
use crate::policy_files::PolicyFiles;
use crate::settings::launch_helper;

/// Address of the endpoint, unless another is chosen.
pub(super) const DEFAULT_ENDPOINT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7337);

/// Free space below which it is a fault, in bytes.
const MIN_FREE: u64 = 100 * 1024 * 1024;

/// Number of files that can still be created below which it is a warning.
const MIN_FREE_FILES: u64 = 1000;

/// Limit of open files below which it is a warning. Each server and each connection needs some.
const MIN_OPEN_FILES: u64 = 1024;

/// Checks the host. `running` is the state of the one that runs, if one does; `configs` are the configuration files that were
/// named.
pub(super) async fn check(
    config: Option<&HostConfig>,
    running: Option<&HostStatus>,
    configs: &[PathBuf],
) -> DoctorChain {
    let mut chain = DoctorChain::new("host");
    port(config, &mut chain).await;
    let state = paths::state_file().and_then(|file| file.parent().map(Path::to_owned));
    match &state {
        Some(folder) => state_folder(folder, &mut chain),
        None => {
            chain.warn(&H02, DoctorFinding::new("there is no home folder for the state").mend("set HOME"))
        }
    }
    system::databases(&mut chain);
    private_files(&mut chain);
    system::keyring(&mut chain).await;
    system::clock(config, &mut chain).await;
    sandbox(&mut chain);
    system::version(running, &mut chain);
    system::copies(&mut chain).await;
    open_files(&mut chain);
    let organization = config.and_then(|config| config.organization_policy.as_deref());
    rules(organization, configs, &mut chain).await;
    service::check(config, &mut chain);
    chain
}

/// Returns the chain of a configuration that cannot be read at all.
pub(super) fn unreadable_configuration(error: &CliError) -> DoctorChain {
    let mut chain = DoctorChain::new("configuration");
    let mut finding = DoctorFinding::new("the configuration cannot be read").why(error.to_string());
    finding.mend = Some("correct the file named above".to_owned());
    chain.fail(&C01, finding, &[]);
    chain
}

async fn port(config: Option<&HostConfig>, chain: &mut DoctorChain) {
    if let Some(note) = running_hosts().await.first() {
        return chain.ok(&H01, format!("running at {} (process {})", note.endpoint, note.pid));
    }
    let address = config.and_then(|config| config.listen).unwrap_or(DEFAULT_ENDPOINT);
    let Err(error) = TcpListener::bind(address) else { return chain.ok(&H01, "not running") };
    let finding = DoctorFinding::new(format!("{address} cannot be used, and no host of yours runs"));
    let finding = match error.kind() {
        ErrorKind::AddrInUse => {
            // No command that ends it: it may be one that the person needs.
            let (program, end) = match port_owner(address) {
                Some((name, pid)) => {
                    let program = format!("{name} (process {pid})");
                    (program.clone(), format!("end {program}"))
                }
                None => ("another program".to_owned(), "end the other program".to_owned()),
            };
            finding
                .why(format!("{program} listens there ({error})"))
                .mend(format!("hospes up --listen 127.0.0.1:0, or {end}"))
        }
        _ => finding
            .why(error.to_string())
            .mend("hospes up --listen 127.0.0.1:0, or another address as `endpoint.listen`"),
    };
    chain.fail(&H01, finding, &[]);
}

fn state_folder(folder: &Path, chain: &mut DoctorChain) {
    let shown = display_path(folder);
    // A folder that is not there is created by `hospes up`, in the first folder above that is.
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder).to_owned();
    let probe = tempfile::Builder::new().prefix(".hospes-doctor-").tempfile_in(&existing);
    let written = probe.and_then(|mut file| {
        std::io::Write::write_all(&mut file, b"probe")?;
        file.as_file().sync_all()
    });
    let space = platform::free_space(&existing);
    match written {
        Ok(()) => chain.ok(&H02, ""),
        Err(error) if error.kind() == ErrorKind::QuotaExceeded => return quota(&shown, &error, chain),
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            // The same error for two causes, which need different remedies.
            return match space {
                Some(space) if space.files == Some(0) => quota(&shown, &error, chain),
                _ => disk_full(&shown, space, chain),
            };
        }
        Err(error) => {
            let finding = DoctorFinding::new(format!("{shown} cannot be written"))
                .why(error.to_string())
                .mend(writable(&existing, &error));
            return chain.fail(&H02, finding, &[&H03, &H04]);
        }
    }
    match space {
        Some(space) if space.bytes < MIN_FREE || space.bytes < space.all_bytes / 100 => {
            disk_full(&shown, Some(space), chain);
        }
        _ => {
            chain.ok(&H03, "");
            match space.and_then(|space| space.files) {
                Some(files) if files < MIN_FREE_FILES => {
                    let finding = DoctorFinding::new(format!(
                        "there is room for {files} more files at {shown}"
                    ))
                    .mend(
                        "delete files that are not needed, or set XDG_STATE_HOME to a folder on another disk",
                    );
                    chain.warn(&H04, finding);
                }
                _ => chain.ok(&H04, ""),
            }
        }
    }
}

/// Returns what makes a folder writable, or another folder the one that is used.
fn writable(folder: &Path, error: &std::io::Error) -> String {
    let other = "export XDG_STATE_HOME=FOLDER, with one that you may write";
    let shown = shell_word(&folder.to_string_lossy());
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => format!("mount the disk of {shown} for writing; or: {other}"),
        ErrorKind::NotADirectory => format!("mv {shown} {shown}.old; or: {other}"),
        _ if cfg!(windows) => other.to_owned(),
        _ if platform::is_of_other_user(folder) => format!("sudo chown \"$USER\" {shown}; or: {other}"),
        _ => format!("chmod u+rwx {shown}; or: {other}"),
    }
}

fn disk_full(shown: &str, space: Option<platform::FreeSpace>, chain: &mut DoctorChain) {
    let left = space.map_or(0, |space| space.bytes >> 20);
    let finding = DoctorFinding::new(format!("{left} MiB are left for {shown}"))
        .why("calls are refused when they cannot be recorded")
        .mend("free some space, or set XDG_STATE_HOME to a folder on another disk");
    chain.fail(&H03, finding, &[&H04]);
}

fn quota(shown: &str, error: &std::io::Error, chain: &mut DoctorChain) {
    let finding = DoctorFinding::new(format!("no more files can be created in {shown}"))
        .why(format!("a quota or the number of files of the disk is exhausted ({error})"))
        .mend("delete files that are not needed, or set XDG_STATE_HOME to a folder on another disk");
    chain.fail(&H04, finding, &[]);
}

fn private_files(chain: &mut DoctorChain) {
    let credentials = paths::credentials().map(|(store, key)| [store, key]);
    let audit = paths::audit_files().map(|(log, key)| [log, key]);
    let files = credentials.into_iter().chain(audit).flatten().chain(paths::endpoint_token());
    let exposed: Vec<PathBuf> = files.filter(|file| is_exposed(file)).collect();
    let Some(first) = exposed.first() else { return chain.ok(&H06, "") };
    let names: Vec<String> = exposed.iter().map(|file| display_path(file)).collect();
    let finding = DoctorFinding::new(format!("other users can read {}", names.join(", ")))
        .mend(hospes_fs::protection_hint(first));
    chain.fail(&H06, finding, &[]);
}

/// Returns true if other users can read a file. A link counts as what it leads to.
fn is_exposed(file: &Path) -> bool {
    file.canonicalize().and_then(|real| hospes_fs::is_open_to_others(&real)).unwrap_or(false)
}

fn sandbox(chain: &mut DoctorChain) {
    let Some(helper) = launch_helper() else {
        return chain.ok(&H09, "programs are not confined on this system");
    };
    let files = hospes_sandbox::SandboxFiles::new();
    let profile = hospes_sandbox::SandboxProfile::new()
        .with_files(files)
        .with_network(hospes_sandbox::SandboxNetwork::None);
    match helper.launch(&profile, None) {
        Ok(_) => chain.ok(&H09, ""),
        Err(error) => {
            let finding =
                DoctorFinding::new("programs cannot be confined").why(error.to_string()).mend(error.hint());
            chain.warn(&H09, finding);
        }
    }
}

fn open_files(chain: &mut DoctorChain) {
    match platform::open_file_limit() {
        Some(current) if current < MIN_OPEN_FILES => {
            let finding = DoctorFinding::new(format!("{current} open files are allowed"))
                .why("every server, connection and log needs some")
                .mend(format!("ulimit -n {MIN_OPEN_FILES}"));
            chain.warn(&H12, finding);
        }
        _ => chain.ok(&H12, ""),
    }
}

async fn rules(organization: Option<&Path>, configs: &[PathBuf], chain: &mut DoctorChain) {
    let found = PolicyFiles::find(None, organization)
        .and_then(|files| files.organization.read().map(|policy| (files.user, policy)));
    let people = RulePeople::of(configs);
    if let Ok((_, Some(policy))) = &found {
        let parts = people.unmatched(policy);
        if !parts.is_empty() {
            let finding = DoctorFinding::new("the policy of the organisation has rules about unknown people")
                .why(parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
                .mend("hospes policy check");
            return chain.warn(&H13, finding);
        }
    }
    let file = match found {
        Ok((Some(file), _)) => file,
        Ok((None, None)) => return chain.ok(&H13, "preset balanced"),
        Ok((None, Some(_))) => return chain.ok(&H13, "preset balanced, and the policy of an organisation"),
        Err(error) => {
            let mut finding = DoctorFinding::new(error.message.to_string());
            finding.mend = error.hint.clone().or_else(|| Some("hospes policy check".to_owned()));
            return chain.fail(&H13, finding, &[]);
        }
    };
    match read_policy(&file) {
        Ok(policy) => {
            let quiet = CliOutput { json: false, quiet: true };
            let known = configured_servers(configs, quiet).await.unwrap_or_default();
            let servers: Vec<_> = known.into_iter().map(|one| one.server).collect();
            let mut unmatched = if servers.is_empty() { Vec::new() } else { policy.unmatched(&servers) };
            unmatched.extend(people.unmatched(&policy));
            if unmatched.is_empty() {
                return chain.ok(&H13, display_path(&file));
            }
            let parts: Vec<String> = unmatched.iter().map(ToString::to_string).collect();
            let what = "has rules that match nothing, or that nobody can decide about";
            let finding = DoctorFinding::new(format!("{} {what}", display_path(&file)))
                .why(parts.join("; "))
                .mend("correct the names, or remove what is not needed; then: hospes policy check");
            chain.warn(&H13, finding);
        }
        Err(error) => {
            let mut finding = DoctorFinding::new(format!("{} cannot be used", display_path(&file)));
            finding.why = Some(error.to_string());
            finding.mend = error.hint.clone().or_else(|| Some("hospes policy check".to_owned()));
            chain.fail(&H13, finding, &[]);
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn what_makes_a_folder_writable_is_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a b");
        std::fs::create_dir(&folder).unwrap();
        for (kind, command) in [
            (ErrorKind::PermissionDenied, "chmod u+rwx '"),
            (ErrorKind::NotADirectory, "mv '"),
            (ErrorKind::ReadOnlyFilesystem, "mount the disk of '"),
        ] {
            let mend = writable(&folder, &std::io::Error::from(kind));
            assert!(mend.starts_with(command) && mend.contains("export XDG_STATE_HOME="), "{mend}");
        }
        // Of the superuser.
        let mend = writable(Path::new("/"), &std::io::Error::from(ErrorKind::PermissionDenied));
        let is_own = platform::user_id() == 0;
        assert!(mend.starts_with(if is_own { "chmod" } else { "sudo chown" }), "{mend}");
    }
}
