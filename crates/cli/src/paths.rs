//! Paths of files: configuration, state, and the notes of running hosts.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::exit::{CliError, CliResult};
use crate::platform;
use crate::user_folders::{FolderKind, UserFolders, machine_folder};
use hospes_host::config::applications::SystemKind;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Returns the default configuration file, if it exists. Also one that cannot be read, such as a link to a file that is
/// gone: reading it names the fault, and other servers are not started in place of its own.
pub(crate) fn default_config() -> Option<PathBuf> {
    let file = folder(FolderKind::Config)?.join("config.toml");
    file.symlink_metadata().is_ok().then_some(file)
}

/// Returns the path of the default configuration, even if there is no such file.
pub(crate) fn new_config_path() -> Option<PathBuf> {
    Some(folder(FolderKind::Config)?.join("config.toml"))
}

/// Returns the default configuration files that exist: the one that is used, and the one that would be without variables of
/// the environment.
pub(crate) fn own_configs() -> Vec<PathBuf> {
    let is_folder = |path: &Path| path.is_dir();
    let unset = |_: &str| None;
    let usual = UserFolders::new(SystemKind::current(), std::env::home_dir(), &unset, &is_folder);
    let usual = usual.folder(FolderKind::Config).map(|folder| folder.join("config.toml"));
    let mut files: Vec<PathBuf> = default_config().into_iter().collect();
    files.extend(usual.filter(|file| file.is_file() && !files.contains(file)));
    files
}

/// Returns the folder of systemd's units of the user.
pub(crate) fn systemd_units() -> Option<PathBuf> {
    let base =
        absolute_variable("XDG_CONFIG_HOME").or_else(|| Some(std::env::home_dir()?.join(".config")))?;
    Some(base.join("systemd/user"))
}

/// Formats a path for people, with `~` for the home folder.
pub(crate) fn display_path(file: &Path) -> String {
    // Other programs of Windows do not know `~`.
    let home = if cfg!(windows) { None } else { std::env::home_dir() };
    let below = home.and_then(|home| file.strip_prefix(home).ok().map(Path::to_owned));
    below.map_or_else(|| file.display().to_string(), |below| format!("~/{}", below.display()))
}

/// Returns the path of the host's memory, which lasts from run to run.
pub(crate) fn memory_file() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("memory.json"))
}

/// Returns the path of the default policy file.
pub(crate) fn policy_file() -> Option<PathBuf> {
    Some(folder(FolderKind::Config)?.join("policy.toml"))
}

/// Returns the path of the policy file of an organisation for all users of this machine.
pub(crate) fn organization_policy_file() -> PathBuf {
    machine_folder(SystemKind::current(), &absolute_variable).join("policy.toml")
}

/// Returns the paths of the audit log and of its key. They are in one folder, so neither exists without the other.
pub(crate) fn audit_files() -> Option<(PathBuf, PathBuf)> {
    let folder = folder(FolderKind::State)?;
    Some((folder.join("audit.db"), folder.join("audit.key")))
}

/// Returns the path of the host's state: decisions of people, and pending approvals.
pub(crate) fn state_file() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("state.db"))
}

/// Returns the folders in which this program keeps its own files.
pub(crate) fn own_folders() -> impl Iterator<Item = PathBuf> {
    [FolderKind::Config, FolderKind::State, FolderKind::Cache].into_iter().filter_map(folder)
}

/// Returns the file that keeps how far the user is with the first steps in the console.
pub(crate) fn onboarding_file() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("onboarding.json"))
}

/// Returns the folder of the log files.
pub(crate) fn log_folder() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("logs"))
}

/// Returns the folder of an unpacked bundle.
pub(crate) fn bundle_folder(server: &str, version: &str) -> Option<PathBuf> {
    version_folder("bundles", server, version)
}

/// Returns the folder of an installed package.
pub(crate) fn package_folder(server: &str, version: &str) -> Option<PathBuf> {
    version_folder("packages", server, version)
}

/// Returns the folders that have a folder for each server, with one for each version in it.
pub(crate) fn version_folders() -> Vec<PathBuf> {
    let data = folder(FolderKind::Data);
    data.iter().flat_map(|data| ["bundles", "packages"].map(|kind| data.join(kind))).collect()
}

/// Returns the folder of the records about how servers were added.
pub(crate) fn server_records() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("servers"))
}

/// Returns the file about how a server of a configuration file was added. Those of the default file have no folder of
/// their own.
pub(crate) fn server_record(config: &Path, server: &str) -> Option<PathBuf> {
    let mut folder = server_records()?;
    let config = absolute_path(config);
    if new_config_path().map(|default| absolute_path(&default)) != Some(config.clone()) {
        let hash = Sha256::digest(config.as_os_str().as_encoded_bytes());
        folder.push(hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    Some(folder.join(format!("{}.json", safe_name(server))))
}

/// Returns the absolute path of a file, without links if it or its folder exists.
pub(crate) fn absolute_path(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let in_folder = || {
        let folder = absolute.parent()?.canonicalize().ok()?;
        Some(folder.join(absolute.file_name()?))
    };
    absolute.canonicalize().ok().or_else(in_folder).unwrap_or(absolute)
}

/// Returns the file that is locked while a server is added, updated or removed.
pub(crate) fn server_lock(server: &str) -> Option<PathBuf> {
    let name = safe_name(server);
    Some(folder(FolderKind::State)?.join("servers").join(format!("{name}.lock")))
}

/// Returns the note about the last automatic updates.
pub(crate) fn auto_update_note() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("auto-update"))
}

/// Returns the note that says when secrets of servers that were not added have to be removed.
pub(crate) fn pending_secrets() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("pending-secrets"))
}

/// Returns a text of others as a name of a file that leads to no other folder.
fn safe_name(text: &str) -> String {
    let text = text.trim_start_matches('.');
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || ".-+_".contains(letter) { letter } else { '_' };
    let text: String = text.chars().map(plain).collect();
    // Windows drops a final dot, and takes the name of a device for the device, on all its disks.
    match () {
        () if is_device_name(&text) => format!("_{text}"),
        () if text.is_empty() || text.ends_with('.') => format!("{text}_"),
        () => text,
    }
}

fn version_folder(kind: &str, server: &str, version: &str) -> Option<PathBuf> {
    Some(folder(FolderKind::Data)?.join(kind).join(safe_name(server)).join(safe_name(version)))
}

/// Returns true if Windows takes a name for a device: what is before its first dot counts.
fn is_device_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).to_ascii_uppercase();
    let is_numbered = |device: &str| {
        stem.strip_prefix(device)
            .is_some_and(|rest| rest.len() == 1 && rest.starts_with(|one: char| one.is_ascii_digit()))
    };
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL") || is_numbered("COM") || is_numbered("LPT")
}

/// Returns the path of the cache of MCP registries.
pub(crate) fn registry_cache() -> Option<PathBuf> {
    Some(folder(FolderKind::Cache)?.join("registry.db"))
}

/// Returns the folder with the records of connected applications.
pub(crate) fn connections() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("connections"))
}

/// Returns the file that is locked while an application is connected or disconnected. It is not in the folder of the
/// records, which is empty without connections.
pub(crate) fn connections_lock() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("connections.lock"))
}

/// Returns the path of the authorization server's store.
#[cfg(feature = "authorization-server")]
pub(crate) fn authorization() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("auth.db"))
}

/// Returns the path of the key that seals other parties' secrets in the authorization server's store. It is not in the
/// same folder as the store.
#[cfg(feature = "authorization-server")]
pub(crate) fn authorization_key() -> Option<PathBuf> {
    Some(folder(FolderKind::Config)?.join("auth.key"))
}

/// Returns the path of the token that programs present to the endpoint if they are not admitted by their user id.
pub(crate) fn endpoint_token() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("endpoint.token"))
}

/// Returns the path of the tokens with which programs may decide.
pub(crate) fn decision_tokens() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("decision-tokens.json"))
}

/// Returns the path of the tokens with which single applications use the endpoint.
pub(crate) fn application_tokens() -> Option<PathBuf> {
    Some(folder(FolderKind::State)?.join("application-tokens.json"))
}

/// Reads a secret from a file that only its owner can read. Creates the file if it does not exist.
pub(crate) fn read_or_create_secret(
    file: &Path,
    make: impl FnOnce() -> CliResult<String>,
) -> CliResult<String> {
    // A shorter text is an incomplete secret, for example in a file whose writing was interrupted.
    let kept =
        || fs::read_to_string(file).ok().map(|text| text.trim().to_owned()).filter(|text| text.len() >= 20);
    if let Some(kept) = kept() {
        return Ok(kept);
    }
    let made = make()?;
    let written =
        file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| write_private(file, made.as_bytes()));
    written
        .map_err(|error| CliError::usage(format!("cannot write {}", file.display())).with_cause(&error))?;
    // If two hosts start at the same time, one of them has created it.
    Ok(kept().unwrap_or(made))
}

/// Returns the paths of the sealed tokens and of the key that seals them, which is unused with a passphrase.
pub(crate) fn credentials() -> Option<(PathBuf, PathBuf)> {
    let sealed = folder(FolderKind::State)?.join("credentials");
    Some((sealed, folder(FolderKind::Config)?.join("credentials.key")))
}

/// Returns the program's folder of a kind.
fn folder(kind: FolderKind) -> Option<PathBuf> {
    let is_folder = |path: &Path| path.is_dir();
    UserFolders::new(SystemKind::current(), std::env::home_dir(), &absolute_variable, &is_folder).folder(kind)
}

/// Returns the path in a variable. The XDG Base Directory Specification requires relative paths to be ignored.
fn absolute_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// Returns the folder of the notes and sockets of running hosts.
pub(crate) fn runtime() -> Option<PathBuf> {
    match absolute_variable("XDG_RUNTIME_DIR") {
        Some(folder) => Some(folder.join("hospes")),
        // Without a login session, as in a container and on other systems, there is no runtime folder.
        None => Some(folder(FolderKind::State)?.join("run")),
    }
}

/// Note in the runtime folder that a host is running.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct HostNote {
    pub(crate) pid: u32,
    /// URL of the endpoint on this machine.
    pub(crate) endpoint: String,
    /// Token for programs that can read the note, if the endpoint requires tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

/// Returns the path of the Unix socket at which the host with this process serves its console to programs of the same
/// user.
pub(crate) fn socket(pid: u32) -> Option<PathBuf> {
    Some(runtime()?.join(format!("{pid}.sock")))
}

/// Returns the path of the socket of the host that wrote this note.
pub(crate) fn socket_beside(note: &Path) -> PathBuf {
    note.with_extension("sock")
}

/// Creates the folder of running hosts, readable by its owner alone.
pub(crate) fn create_runtime_folder() -> std::io::Result<()> {
    let folder = runtime().ok_or(std::io::ErrorKind::NotFound)?;
    hospes_fs::create_private_folder(&folder)
}

/// Writes a page beside the notes that redirects to an address, readable by its owner alone. Opening the page does not
/// show the address in the list of processes.
pub(crate) fn write_redirect_page(url: &str) -> std::io::Result<PathBuf> {
    let folder = runtime().ok_or(std::io::ErrorKind::NotFound)?;
    let file = folder.join(format!("console-{}.html", std::process::id()));
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><title>hospes</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"><p><a href=\"{url}\">Open the console</a></p>\n"
    );
    write_private(&file, page.as_bytes())?;
    Ok(file)
}

/// Creates a temporary folder beside the notes, accessible to its owner alone. It is removed on drop.
pub(crate) fn private_folder() -> std::io::Result<tempfile::TempDir> {
    create_runtime_folder()?;
    let folder = runtime().ok_or(std::io::ErrorKind::NotFound)?;
    let mut builder = tempfile::Builder::new();
    platform::make_temporary_private(&mut builder);
    builder.prefix("edit-").tempdir_in(folder)
}

/// Removes the note of a running host on drop.
#[derive(Debug)]
pub(crate) struct HostNoteGuard(PathBuf);

impl Drop for HostNoteGuard {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.0);
    }
}

/// Writes the note that this process is a host. Without it, `hospes status` needs the URL, so a failure is not an
/// error.
pub(crate) fn write_host_note(endpoint: &str, token: Option<String>) -> Option<HostNoteGuard> {
    let folder = runtime()?;
    create_runtime_folder().ok()?;
    let note = HostNote { pid: std::process::id(), endpoint: endpoint.to_owned(), token };
    let file = folder.join(format!("{}.json", note.pid));
    write_private(&file, &serde_json::to_vec(&note).ok()?).ok()?;
    Some(HostNoteGuard(file))
}

/// Replaces a file by one that only its owner can read.
pub(crate) fn write_private(file: &Path, content: &[u8]) -> std::io::Result<()> {
    create_private_file(file)?.write_all(content)
}

/// Creates an empty file that only its owner can read, in place of one of the same name.
pub(crate) fn create_private_file(file: &Path) -> std::io::Result<fs::File> {
    // An existing file might belong to another user.
    let _gone = fs::remove_file(file);
    // It follows no link that was created after the removal.
    hospes_fs::create_private(file)
}

/// Returns the notes of hosts, newest first. A note may have outlived its host.
pub(crate) fn list_host_notes() -> Vec<(PathBuf, HostNote)> {
    let Some(entries) = runtime().and_then(|folder| fs::read_dir(folder).ok()) else { return Vec::new() };
    let mut notes: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        .filter_map(|entry| {
            let note = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
            let written = entry.metadata().and_then(|data| data.modified()).ok();
            Some((written, entry.path(), note))
        })
        .collect();
    notes.sort_by_key(|(written, ..)| std::cmp::Reverse(*written));
    notes.into_iter().map(|(_, file, note)| (file, note)).collect()
}

/// Removes the note of a host that no longer runs.
pub(crate) fn remove_host_note(file: &Path) {
    let _gone = fs::remove_file(file);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_bundle_is_a_folder_on_every_system() {
        let name = |server: &str| {
            let folder = bundle_folder(server, "1.0");
            folder.and_then(|folder| Some(folder.parent()?.file_name()?.to_string_lossy().into_owned()))
        };
        for (server, expected) in [
            ("mail", "mail"),
            ("../mail", "_mail"),
            ("a/b:c", "a_b_c"),
            ("nul", "_nul"),
            ("Con.txt", "_Con.txt"),
            ("lpt1", "_lpt1"),
            ("com10", "com10"),
            ("mail.", "mail._"),
            ("", "_"),
        ] {
            assert_eq!(name(server).as_deref(), Some(expected), "{server:?}");
        }
    }
}
