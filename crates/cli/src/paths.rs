//! Paths of files: configuration, state, and the notes of running hosts.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::exit::{CliError, CliResult};
use serde::{Deserialize, Serialize};

/// Returns the default configuration file, if it exists.
pub(crate) fn default_config() -> Option<PathBuf> {
    let file = folder("XDG_CONFIG_HOME", ".config")?.join("hospes/config.toml");
    file.is_file().then_some(file)
}

/// Returns the path of the default configuration, even if there is no such file.
pub(crate) fn new_config_path() -> Option<PathBuf> {
    Some(folder("XDG_CONFIG_HOME", ".config")?.join("hospes/config.toml"))
}

/// Returns the folder of the user's configurations.
pub(crate) fn config_home() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config")
}

/// Formats a path for people, with `~` for the home folder.
pub(crate) fn display_path(file: &Path) -> String {
    let below = std::env::home_dir().and_then(|home| file.strip_prefix(home).ok().map(Path::to_owned));
    below.map_or_else(|| file.display().to_string(), |below| format!("~/{}", below.display()))
}

/// Returns the path of the host's memory, which lasts from run to run.
pub(crate) fn memory_file() -> Option<PathBuf> {
    Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/memory.json"))
}

/// Returns the path of the default policy file.
pub(crate) fn policy_file() -> Option<PathBuf> {
    Some(folder("XDG_CONFIG_HOME", ".config")?.join("hospes/policy.toml"))
}

/// Returns the paths of the audit log and of its key. They are in one folder, so neither exists without the other.
pub(crate) fn audit_files() -> Option<(PathBuf, PathBuf)> {
    let folder = folder("XDG_STATE_HOME", ".local/state")?.join("hospes");
    Some((folder.join("audit.db"), folder.join("audit.key")))
}

/// Returns the path of the host's state: decisions of people, and pending approvals.
pub(crate) fn state_file() -> Option<PathBuf> {
    Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/state.db"))
}

/// Returns the folder of the log files.
pub(crate) fn log_folder() -> Option<PathBuf> {
    Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/logs"))
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
    let data = folder("XDG_DATA_HOME", ".local/share");
    data.iter().flat_map(|data| ["bundles", "packages"].map(|kind| data.join("hospes").join(kind))).collect()
}

/// Returns the file about how a server was added.
pub(crate) fn server_record(server: &str) -> Option<PathBuf> {
    let name = safe_name(server);
    Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/servers").join(format!("{name}.json")))
}

/// Returns a text of others as a name of a file that leads to no other folder.
fn safe_name(text: &str) -> String {
    let text = text.trim_start_matches('.');
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || ".-+_".contains(letter) { letter } else { '_' };
    format!("{}{}", text.chars().map(plain).collect::<String>(), if text.is_empty() { "_" } else { "" })
}

fn version_folder(kind: &str, server: &str, version: &str) -> Option<PathBuf> {
    let data = folder("XDG_DATA_HOME", ".local/share")?;
    Some(data.join("hospes").join(kind).join(safe_name(server)).join(safe_name(version)))
}

/// Returns the path of the cache of MCP registries.
pub(crate) fn registry_cache() -> Option<PathBuf> {
    Some(folder("XDG_CACHE_HOME", ".cache")?.join("hospes/registry.db"))
}

/// Returns the folder with the records of connected applications.
pub(crate) fn connections() -> Option<PathBuf> {
    Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/connections"))
}

/// Returns the path of the authorization server's store.
#[cfg(feature = "authorization-server")]
pub(crate) fn authorization() -> Option<PathBuf> {
    Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/auth.db"))
}

/// Returns the path of the key that seals other parties' secrets in the authorization server's store. It is not in the
/// same folder as the store.
#[cfg(feature = "authorization-server")]
pub(crate) fn authorization_key() -> Option<PathBuf> {
    Some(folder("XDG_CONFIG_HOME", ".config")?.join("hospes/auth.key"))
}

/// Returns the path of the token that programs present to the endpoint if they are not admitted by their user id.
pub(crate) fn endpoint_token() -> Option<PathBuf> {
    Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/endpoint.token"))
}

/// Returns the path of the tokens with which programs may decide.
pub(crate) fn decision_tokens() -> Option<PathBuf> {
    Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/decision-tokens.json"))
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
    let sealed = folder("XDG_STATE_HOME", ".local/state")?.join("hospes/credentials");
    Some((sealed, folder("XDG_CONFIG_HOME", ".config")?.join("hospes/credentials.key")))
}

fn folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    // The XDG Base Directory Specification requires relative paths to be ignored.
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.or_else(|| Some(std::env::home_dir()?.join(below_home)))
}

fn runtime() -> Option<PathBuf> {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute()) {
        Some(folder) => Some(folder.join("hospes")),
        // Without a login session, as in a container, there is no runtime folder.
        None => Some(folder("XDG_STATE_HOME", ".local/state")?.join("hospes/run")),
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

/// Returns the path of the Unix socket at which the host with this process serves attached programs. It does not end in
/// `.sock`, because programs look for the console by that.
pub(crate) fn attach_socket(pid: u32) -> Option<PathBuf> {
    Some(runtime()?.join(format!("{pid}.attach")))
}

/// Returns the path of the socket of the host that wrote this note.
pub(crate) fn socket_beside(note: &Path) -> PathBuf {
    note.with_extension("sock")
}

/// Creates the folder of running hosts, readable by its owner alone.
pub(crate) fn create_runtime_folder() -> std::io::Result<()> {
    let folder = runtime().ok_or(std::io::ErrorKind::NotFound)?;
    create_private_folder(&folder)
}

/// Creates a folder, and those above it, accessible to their owner alone.
pub(crate) fn create_private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
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
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
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
    let mut options = fs::OpenOptions::new();
    // `create_new` follows no link that was created after the removal.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
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
