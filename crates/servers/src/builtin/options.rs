//! Command line options of the built-in servers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hospes::Server;

use super::BuiltinOptionsError;
use crate::{FetchConfig, FilesConfig, GitConfig, IpNetwork, MemoryConfig};

#[derive(Debug, Args)]
pub(super) struct FetchOptions {
    /// Also fetch from this machine and the networks behind it, not only from the public internet
    #[arg(long)]
    allow_private: bool,
    /// Also fetch from these addresses, such as 10.1.0.0/16. May be repeated
    #[arg(long = "allow-network", value_name = "NETWORK")]
    networks: Vec<IpNetwork>,
    /// Fetch for models what robots.txt asks programs not to
    #[arg(long)]
    ignore_robots: bool,
    /// User agent that is sent to sites
    #[arg(long, value_name = "TEXT")]
    user_agent: Option<String>,
    /// Maximum time of one fetch, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Maximum size of a page, in bytes [default: 5242880]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..=268_435_456))]
    max_bytes: Option<u32>,
    /// Trust the certificate authorities in this PEM file too. May be repeated
    #[arg(long = "ca-file", value_name = "FILE")]
    ca_files: Vec<PathBuf>,
}

impl FetchOptions {
    pub(super) fn server(self) -> Result<Server, BuiltinOptionsError> {
        let mut config = FetchConfig::new();
        if self.allow_private {
            config = config.allow_private();
        }
        if self.ignore_robots {
            config = config.ignore_robots();
        }
        if let Some(agent) = self.user_agent {
            config = config.user_agent(agent);
        }
        if let Some(time) = self.timeout {
            config = config.timeout(time);
        }
        if let Some(bytes) = self.max_bytes {
            config = config.max_bytes(bytes as usize);
        }
        config = self.networks.into_iter().fold(config, FetchConfig::allow_network);
        config = self.ca_files.into_iter().fold(config, FetchConfig::ca_file);
        Ok(crate::fetch(config)?)
    }
}

#[derive(Debug, Args)]
pub(super) struct FilesOptions {
    /// The folders to serve; without one, what each client names as its roots is served to that client
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Also write, edit and move files, and make folders
    #[arg(long)]
    write: bool,
    /// Also delete files and empty folders
    #[arg(long, requires = "write")]
    delete: bool,
    /// Deny access to this folder, even if it lies in one that is served. May be repeated
    #[arg(long, value_name = "FOLDER")]
    except: Vec<PathBuf>,
    /// Serve to a client that has roots only what is in them as well
    #[arg(long)]
    within_roots: bool,
    /// Maximum size of one read, in bytes [default: 1048576]
    #[arg(long, value_name = "BYTES")]
    max_read_bytes: Option<u64>,
    /// Maximum size of a file that is written, in bytes [default: 4194304]
    #[arg(long, value_name = "BYTES", requires = "write")]
    max_write_bytes: Option<u64>,
}

impl FilesOptions {
    pub(super) fn server(self) -> Result<Server, BuiltinOptionsError> {
        // `--within-roots` restricts configured folders. Without any it has to fail instead of serving the client's
        // roots.
        let mut config = if self.folders.is_empty() && !self.within_roots {
            FilesConfig::of_client()
        } else {
            FilesConfig::new(self.folders).within_roots(self.within_roots)
        };
        // Keys, decisions and the audit log of this program are never served, even from the home folder or a parent of
        // it.
        config = config.except(own_folders()).except(self.except).write(self.write).delete(self.delete);
        if let Some(bytes) = self.max_read_bytes {
            config = config.max_read_bytes(bytes);
        }
        if let Some(bytes) = self.max_write_bytes {
            config = config.max_write_bytes(bytes);
        }
        Ok(crate::files(config)?)
    }
}

#[derive(Debug, Args)]
pub(super) struct GitOptions {
    /// The folders whose repositories to serve; without one, those in what each client names as its roots
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Also add, commit, make branches and switch between them
    #[arg(long)]
    write: bool,
    /// Maximum time of git for one call, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Maximum size of the text of one answer, in bytes [default: 65536]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..=16_777_216))]
    max_output: Option<u32>,
}

impl GitOptions {
    pub(super) fn server(self) -> Result<Server, BuiltinOptionsError> {
        let config =
            if self.folders.is_empty() { GitConfig::of_client() } else { GitConfig::new(self.folders) };
        let mut config = config.write(self.write);
        if let Some(time) = self.timeout {
            config = config.timeout(time);
        }
        if let Some(bytes) = self.max_output {
            config = config.max_output(bytes as usize);
        }
        Ok(crate::git(config)?)
    }
}

#[derive(Debug, Args)]
pub(super) struct MemoryOptions {
    /// The file to remember in [default: hospes/knowledge.db in the state folder, ~/.local/state]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Take over what the reference server wrote: its memory.jsonl. May be done again
    #[arg(long, value_name = "FILE")]
    import: Option<PathBuf>,
    /// Maximum number of entities [default: 100000]
    #[arg(long, value_name = "COUNT")]
    max_entities: Option<u32>,
}

impl MemoryOptions {
    pub(super) fn server(self) -> Result<Server, BuiltinOptionsError> {
        let file = self.file.or_else(default_memory_file).ok_or(BuiltinOptionsError::NoFile)?;
        let mut config = MemoryConfig::new(file);
        if let Some(file) = self.import {
            config = config.import(file);
        }
        if let Some(entities) = self.max_entities {
            config = config.max_entities(entities);
        }
        Ok(crate::memory(config)?)
    }
}

/// Returns the default file of the memory.
fn default_memory_file() -> Option<PathBuf> {
    Some(own_folder("XDG_STATE_HOME", Some(".local/state"))?.join("knowledge.db"))
}

/// Returns the folders in which this program keeps its own files.
fn own_folders() -> impl Iterator<Item = PathBuf> {
    let folders = [
        own_folder("XDG_CONFIG_HOME", Some(".config")),
        own_folder("XDG_STATE_HOME", Some(".local/state")),
        // The XDG specification has no default for this variable.
        own_folder("XDG_RUNTIME_DIR", None),
    ];
    folders.into_iter().flatten()
}

fn own_folder(variable: &str, below_home: Option<&str>) -> Option<PathBuf> {
    // The XDG specification requires relative paths in these variables to be ignored.
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
    Some(named.or_else(|| Some(std::env::home_dir()?.join(below_home?)))?.join("hospes"))
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    // The conversion that cannot panic, because a person can write a negative, infinite or NaN number.
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|time| !time.is_zero()).ok_or("expected a time above zero, in seconds")
}
