//! Destinations for readers: ports that are free on several loopback addresses, and a home folder with files and links.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::paths;

/// Addresses of the readers' listeners; the last two are reached by name.
const ADDRESSES: [&str; 5] = ["127.0.0.1", "127.0.0.2", "::1", "127.0.0.4", "127.0.0.5"];
/// The names that lead somewhere.
const NAMES: [&str; 4] = ["evil.example", "good.example", "db.internal.example", "xn--bcher-kva.example"];
/// The files, below the home folder.
const FILES: [&str; 3] = [".ssh/id", "work/note", "other/note"];
/// The links, with what they hold.
const LINKS: [(&str, &str); 5] =
    [("out", "../.ssh"), ("key", "../.ssh/id"), ("up", ".."), ("in", "."), ("dangling", "../.ssh/new")];

/// One run's ports and files.
#[derive(Debug)]
pub(super) struct DestinationFixture {
    pub(super) folder: PathBuf,
    pub(super) home: PathBuf,
    ports: [u16; 2],
    canaries: BTreeMap<String, String>,
    inside: FolderProcess,
}

impl DestinationFixture {
    /// Creates the files. An error means that this machine lacks a requirement.
    pub(super) fn new() -> Result<Self> {
        let folder = paths::tools()?.join("destinations");
        let _absent = fs::remove_dir_all(&folder);
        let home = folder.join("home");
        for below in [".ssh", "work", "other"] {
            fs::create_dir_all(home.join(below)).with_context(|| format!("creating {}", home.display()))?;
        }
        let (folder, home) = (fs::canonicalize(&folder)?, fs::canonicalize(&home)?);
        let moment = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mut canaries = BTreeMap::new();
        for (at, file) in FILES.iter().enumerate() {
            let canary = format!("canary-{at}-{moment}");
            fs::write(home.join(file), format!("{canary}\n"))?;
            canaries.insert(format!("file:{file}"), canary);
        }
        for (name, target) in LINKS {
            symlink(target, home.join("work").join(name))?;
        }
        let inside = FolderProcess::start(&home.join(".ssh"))?;
        Ok(Self { folder, home, ports: ports()?, canaries, inside })
    }

    /// Returns the replacements of the names between guillemets.
    pub(super) fn words(&self) -> BTreeMap<&'static str, String> {
        let home = self.home.to_string_lossy().into_owned();
        BTreeMap::from([
            ("P", self.ports[0].to_string()),
            ("Q", self.ports[1].to_string()),
            ("pid", self.inside.0.id().to_string()),
            ("rest", home.trim_start_matches('/').to_owned()),
            ("base", "home".to_owned()),
            ("up", ["..\u{2f}"; 16].concat().trim_end_matches('/').to_owned()),
            ("home", home),
        ])
    }

    /// Returns the input for readers.
    pub(super) fn described(&self, texts: &[&str], networked: &[bool]) -> Value {
        json!({
            "ports": self.ports, "home": self.home, "names": NAMES, "canaries": self.canaries, "texts": texts,
            "networked": networked,
        })
    }

    /// Sets the environment of the judging program.
    pub(super) fn dress(&self, command: &mut Command) {
        command.current_dir(&self.folder).env("HOME", &self.home);
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
            command.env(name, self.folder.join("state"));
        }
        command.env_remove("HOSPES_LOG").env_remove("HOSPES_CONFIG").env_remove("HOSPES_POLICY");
    }
}

/// Two ports that are free on all addresses, below those that systems give out by themselves.
fn ports() -> Result<[u16; 2]> {
    let begin = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap_or_default();
    let free = (begin..begin + 1000)
        .filter(|port| ADDRESSES.iter().all(|address| TcpListener::bind((*address, *port)).is_ok()));
    let ports: Vec<u16> = free.take(2).collect();
    match ports.as_slice() {
        [first, second] => Ok([*first, *second]),
        _ => bail!(
            "no two ports are free on all of {}, or not all are addresses of this machine",
            ADDRESSES.join(", ")
        ),
    }
}

/// A process in a folder, with the file `id` of it open as number 7. It ends with this program.
#[derive(Debug)]
struct FolderProcess(Child);

impl FolderProcess {
    fn start(folder: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "exec 7<id; echo; read -r _"]).current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Self(command.spawn().context("starting sh")?);
        let mut ready = [0];
        let mut said = child.0.stdout.take().context("no output")?;
        said.read_exact(&mut ready).context("a process in the folder did not begin")?;
        Ok(child)
    }
}

impl Drop for FolderProcess {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}
