//! Memory of the host between runs: era, transport and extensions of each server, and the capabilities of applications.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use hospes_model::Era;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::config::ServerTransport;
use crate::server::{CapabilitySet, ExtensionSettings, KnownProtocol};

/// The most servers that are remembered.
pub const MAX_REMEMBERED: usize = 1000;

/// Stores each server's era and transport, so that they are detected only once for each definition of a server.
///
/// The key is a hash of the definition: a changed command line is another server. A wrong entry does no harm, because
/// the era is then detected again, so a file that cannot be read or written is not an error.
#[derive(Debug, Default)]
pub struct ServerMemory {
    file: Option<PathBuf>,
    content: Mutex<ServerMemoryFile>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct ServerMemoryFile {
    #[serde(default)]
    eras: BTreeMap<String, String>,
    #[serde(default)]
    abilities: u8,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    extensions: ExtensionSettings,
    /// The extensions that servers declared, by definition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    declared: BTreeMap<String, ExtensionSettings>,
}

/// The most bytes of JSON that are kept of the extensions of one server.
const MAX_DECLARED_BYTES: usize = 16 * 1024;

/// Value stored for a server that was started and has not answered yet.
const STARTED: &str = "started";

impl ServerMemoryFile {
    fn remember(&mut self, definition: &str, known: &str) {
        if self.eras.len() >= MAX_REMEMBERED {
            // Forgetting costs each server one detection, so no order of use is kept for it.
            self.eras.clear();
        }
        self.eras.insert(definition.to_owned(), known.to_owned());
    }
}

impl ServerMemory {
    /// Remembers nothing beyond this run.
    #[must_use]
    pub fn forgetful() -> Self {
        Self::default()
    }

    /// Creates a memory in this file.
    #[must_use]
    pub fn at(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let text = fs::read_to_string(&file).unwrap_or_default();
        let content = serde_json::from_str(&text).unwrap_or_default();
        Self { file: Some(file), content: Mutex::new(content) }
    }

    /// Returns the protocol of the server with this definition.
    #[must_use]
    pub fn known(&self, definition: &str) -> Option<KnownProtocol> {
        match self.content.lock().eras.get(definition).map(String::as_str) {
            Some("legacy") => Some(KnownProtocol { era: Era::Legacy, sse: false }),
            Some("modern") => Some(KnownProtocol { era: Era::Modern, sse: false }),
            Some("sse") => Some(KnownProtocol { era: Era::Legacy, sse: true }),
            // `STARTED`, or a word of a later version: the server is asked.
            _ => None,
        }
    }

    /// Keeps how the server of this definition is spoken to.
    pub fn learn(&self, definition: &str, known: KnownProtocol) {
        let known = match known {
            // First, because HTTP+SSE is of the older era, too, and the next pattern would take it.
            KnownProtocol { sse: true, .. } => "sse",
            KnownProtocol { era: Era::Legacy, .. } => "legacy",
            KnownProtocol { era: Era::Modern, .. } => "modern",
        };
        self.change(|content| content.remember(definition, known));
    }

    /// Returns the extensions that the server with this definition declared on its last connection.
    #[must_use]
    pub(crate) fn extensions(&self, definition: &str) -> ExtensionSettings {
        self.content.lock().declared.get(definition).cloned().unwrap_or_default()
    }

    /// Keeps the extensions that the server of this definition declares, unless they are longer than 16 KiB.
    pub(crate) fn learn_extensions(&self, definition: &str, declared: ExtensionSettings) {
        let is_short = serde_json::to_vec(&declared).is_ok_and(|text| text.len() <= MAX_DECLARED_BYTES);
        self.change(|content| {
            if declared.is_empty() || !is_short {
                // What it declared before does not hold any more.
                content.declared.remove(definition);
                return;
            }
            if content.declared.len() >= MAX_REMEMBERED {
                content.declared.clear();
            }
            content.declared.insert(definition.to_owned(), declared);
        });
    }

    /// Returns true if a server of this definition has not been started before, and remembers that it is started now.
    /// Always false if nothing is stored.
    pub fn is_first_start(&self, definition: &str) -> bool {
        let is_first = self.file.is_some() && !self.content.lock().eras.contains_key(definition);
        if is_first {
            self.change(|content| content.remember(definition, STARTED));
        }
        is_first
    }

    /// Returns the capabilities of the last application, with its extensions. Servers are started for these, so that
    /// they need no second start when that application returns.
    #[must_use]
    pub fn abilities(&self) -> CapabilitySet {
        let content = self.content.lock();
        CapabilitySet::from_bits(content.abilities).with_extensions(&content.extensions)
    }

    /// Stores the capabilities of an application.
    pub fn learn_abilities(&self, abilities: CapabilitySet) {
        self.change(|content| {
            (content.abilities, content.extensions) = (abilities.bits(), abilities.extensions());
        });
    }

    fn change(&self, change: impl FnOnce(&mut ServerMemoryFile)) {
        // Held over the writing: two threads would use the same file beside, and the older content could come last.
        let mut content = self.content.lock();
        let before = content.clone();
        change(&mut content);
        // Each connection tells what it learned, which is mostly known already; the disk is spared.
        if *content == before {
            return;
        }
        let Some(file) = &self.file else { return };
        if let Err(error) = write(file, &content) {
            tracing::debug!(file = %file.display(), %error, "failed to write the server memory file");
        }
    }
}

/// Writes beside the file, then puts it in place: another process may read at any moment.
fn write(file: &Path, content: &ServerMemoryFile) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    // Hosts that run at the same time write beside under different names.
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    let mut out = fs::File::create(&beside)?;
    out.write_all(&serde_json::to_vec_pretty(content)?)?;
    drop(out);
    hospes_fs::rename(&beside, file)
}

/// Returns the key under which a server's era is stored. Returns `None` if the transport needs no detection.
#[must_use]
pub fn definition(transport: &ServerTransport) -> Option<String> {
    let mut hasher = Sha256::new();
    let mut add = |part: &str| {
        // The lengths keep apart lists that only differ in where one part ends.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    };
    match transport {
        ServerTransport::Stdio(stdio) => {
            add("stdio");
            add(stdio.command.reveal());
            stdio.args.iter().for_each(|arg| add(arg.reveal()));
            // Without the values: a secret that was renewed does not make another server.
            stdio.env.keys().for_each(|name| add(name));
            add(&stdio.cwd.as_deref().map(Path::to_string_lossy).unwrap_or_default());
        }
        ServerTransport::Http(http) => {
            add("http");
            add(http.url.reveal().as_str());
        }
        ServerTransport::Builtin(_) => return None,
    }
    Some(hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_era_outlives_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/memory.json");
        let memory = ServerMemory::at(&file);
        let key = definition(&ServerTransport::stdio("npx", ["-y", "server"])).unwrap();
        assert_eq!(memory.known(&key), None);
        memory.learn(&key, KnownProtocol { era: Era::Legacy, sse: false });
        let url = definition(&ServerTransport::target("http://127.0.0.1:1/sse").unwrap()).unwrap();
        memory.learn(&url, KnownProtocol { era: Era::Legacy, sse: true });
        memory.learn_abilities(CapabilitySet::NONE.with_roots());
        let memory = ServerMemory::at(&file);
        assert_eq!(memory.known(&key), Some(KnownProtocol { era: Era::Legacy, sse: false }));
        assert_eq!(memory.known(&url), Some(KnownProtocol { era: Era::Legacy, sse: true }));
        assert_eq!(memory.abilities(), CapabilitySet::NONE.with_roots());
        let other = definition(&ServerTransport::stdio("npx", ["-y", "server", "--new"])).unwrap();
        assert_eq!(memory.known(&other), None, "another definition is another server");
    }

    #[test]
    fn the_extensions_of_a_server_outlive_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.json");
        let declared: ExtensionSettings = serde_json::from_str(r#"{"a/b":{"x":1}}"#).unwrap();
        ServerMemory::at(&file).learn_extensions("x", declared.clone());
        let memory = ServerMemory::at(&file);
        assert_eq!((memory.extensions("x"), memory.extensions("y")), (declared, ExtensionSettings::new()));
        let long = format!(r#"{{"a/b":{{"x":"{}"}}}}"#, "y".repeat(MAX_DECLARED_BYTES));
        memory.learn_extensions("x", serde_json::from_str(&long).unwrap());
        assert!(
            ServerMemory::at(&file).extensions("x").is_empty(),
            "neither what is too long nor what was before it"
        );
    }

    #[test]
    fn a_file_that_makes_no_sense_is_an_empty_memory() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.json");
        fs::write(&file, "{\"eras\": 5").unwrap();
        let memory = ServerMemory::at(&file);
        assert_eq!(memory.known("x"), None);
        let modern = KnownProtocol { era: Era::Modern, sse: false };
        memory.learn("x", modern);
        assert_eq!(ServerMemory::at(&file).known("x"), Some(modern));
    }

    #[test]
    fn no_secret_is_written() {
        let mut transport = ServerTransport::stdio("npx", ["--token", "hunter2"]);
        if let ServerTransport::Stdio(stdio) = &mut transport {
            stdio.env.insert("TOKEN".into(), crate::config::Secret::new("hunter2"));
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.json");
        ServerMemory::at(&file)
            .learn(&definition(&transport).unwrap(), KnownProtocol { era: Era::Legacy, sse: false });
        assert!(!fs::read_to_string(&file).unwrap().contains("hunter2"));
    }
}
