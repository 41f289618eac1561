//! Reader of the settings that confine a server: files, network, variables and roots.

use std::path::{Path, PathBuf};

use hospes_sandbox::{SandboxFiles, SandboxKind, SandboxNetwork};

use super::command_line::is_env_name;
use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::keys;
use super::nearest::hint;
use super::server::ServerEntryReader;
use super::server_transport::SandboxConfig;
use super::table::SettingsTable;

impl ServerEntryReader<'_, '_, '_> {
    /// Reads the table `sandbox`.
    pub(super) fn sandbox(&mut self) -> SandboxConfig {
        let mut sandbox = SandboxConfig::default();
        let Some(entry) = self.take("sandbox") else { return sandbox };
        let Some(mut table) =
            SettingsTable::new(&entry.node, Some(self.name), &keys::SANDBOX, "sandbox.", self.report)
        else {
            return sandbox;
        };
        if let Some(entry) = table.take("kind", self.report) {
            let words = [
                ("auto", SandboxKind::Auto),
                ("bubblewrap", SandboxKind::Bubblewrap),
                ("landlock", SandboxKind::Landlock),
                ("off", SandboxKind::Off),
            ];
            sandbox.profile.kind = self.word(&table, entry, &words);
        }
        if let Some(entry) = table.take("network", self.report) {
            let words = [("host", SandboxNetwork::Host), ("none", SandboxNetwork::None)];
            sandbox.profile.network = self.word(&table, entry, &words);
        }
        if let Some(mut files) = table.table("files", &keys::SANDBOX_FILES, self.report) {
            let mut granted = SandboxFiles::default();
            granted.read = self.paths(&mut files, "read").unwrap_or_default();
            granted.write = self.paths(&mut files, "write").unwrap_or_default();
            files.report_unknown_keys(self.report);
            // A table that is there confines, even if it grants nothing.
            sandbox.profile.files = Some(granted);
        }
        if let Some(entry) = table.take("environment", self.report) {
            let names = table.texts(entry, self.report).unwrap_or_default();
            for (index, (name, at)) in names.iter().enumerate() {
                if !is_env_name(name) {
                    let field = format!("sandbox.environment[{index}]");
                    table.invalid::<()>(at, &field, "a name without `=` and white space", "", self.report);
                }
            }
            sandbox.environment = Some(names.into_iter().map(|(name, _)| name.to_owned()).collect());
        }
        table.report_unknown_keys(self.report);
        // Without a sandbox nothing is enforced, so the limits would only seem to hold.
        if sandbox.profile.kind == SandboxKind::Off && sandbox.profile.is_demanding() {
            self.report_contradiction(
                entry,
                "`sandbox.kind` = `off`",
                "`sandbox.files` or `sandbox.network`",
            );
        }
        sandbox
    }

    /// Reads the sandbox of VS Code: files that the program may write, and hosts that it may reach.
    ///
    /// What cannot be enforced here makes the entry unusable, since the server would run with more rights than there.
    pub(super) fn foreign_sandbox(&mut self) -> SandboxConfig {
        let enabled = self.table.boolean("sandbox_enabled", self.report).unwrap_or(false);
        let entry = self.take("sandbox");
        if !enabled {
            // Other applications have other things under `sandbox`.
            if let Some(entry) = entry {
                let message = "`sandbox` is ignored because `sandboxEnabled` is not true";
                self.report.warn(&entry.at, Some(self.name), message);
            }
            return SandboxConfig::default();
        }
        let member = |table: &str, key: &str| entry.and_then(|entry| entry.node.get(table)?.get(key));
        let hosts = member("network", "allowedDomains");
        if hosts.is_some_and(|hosts| !matches!(&hosts.value, ConfigValue::Array(items) if items.is_empty())) {
            self.unusable = Some(
                "`sandbox.network.allowedDomains` limits it to some hosts, and a sandbox of Hospes has the whole \
                 network or none"
                    .to_owned(),
            );
            return SandboxConfig::default();
        }
        let mut sandbox = SandboxConfig::default();
        sandbox.profile.network = SandboxNetwork::None;
        let mut files = SandboxFiles::default();
        files.write = self.foreign_paths(member("filesystem", "allowWrite"), "allowWrite");
        let unreadable = self.foreign_paths(member("filesystem", "denyRead"), "denyRead");
        let unwritable = self.foreign_paths(member("filesystem", "denyWrite"), "denyWrite");
        // A path outside the granted folders is denied anyway, but the system's own folders are always readable.
        let is_granted = |path: &PathBuf| {
            files.write.iter().any(|write| path.starts_with(write) || write.starts_with(path))
        };
        let is_system = |path: &PathBuf| !self.scope.home.is_some_and(|home| path.starts_with(home));
        if let Some(path) = unreadable.iter().find(|path| is_granted(path) || is_system(path)) {
            self.unusable = Some(format!(
                "`sandbox.filesystem.denyRead` excludes {}, which a sandbox of Hospes cannot exclude",
                path.display()
            ));
        } else if let Some(path) = unwritable.iter().find(|path| is_granted(path)) {
            self.unusable = Some(format!(
                "`sandbox.filesystem.denyWrite` excludes {} from a folder of `allowWrite`, which a sandbox of Hospes \
                 cannot do",
                path.display()
            ));
        }
        if unreadable.is_empty() {
            // VS Code lets the program read everything; programs in the user's folders could not start otherwise.
            files.read.extend(self.scope.home.map(Path::to_owned));
        }
        if self.entry.node.get("sandbox").is_some_and(|node| node.as_object().is_none()) {
            self.unusable = Some("`sandbox` is not a table, so its limits are unknown".to_owned());
        }
        sandbox.profile.files = Some(files);
        sandbox
    }

    /// Reads paths of another application. What is no list of paths makes the entry unusable.
    fn foreign_paths(&mut self, node: Option<&ConfigNode>, key: &str) -> Vec<PathBuf> {
        let Some(node) = node else { return Vec::new() };
        let mut paths = Vec::new();
        let items = match &node.value {
            ConfigValue::Array(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for item in items {
            let text = item.as_str().filter(|text| !text.contains(['*', '?']));
            let field = format!("sandbox.filesystem.{key}");
            let text = text.and_then(|_| self.table.expanded(item, &field, self.scope, self.report));
            match text {
                Some(text) => paths.push(self.scope.path(self.base(), text.reveal())),
                None => {
                    self.unusable = Some(format!(
                        "`sandbox.filesystem.{key}` has an entry that is not the path of a file"
                    ));
                }
            }
        }
        paths
    }

    /// Reads the folders that the server is given as roots. None if it gets those of all servers.
    pub(super) fn roots(&mut self) -> Option<Vec<PathBuf>> {
        let entry = self.take("roots")?;
        let items = self.table.items(entry, self.report)?;
        let expanded: Option<Vec<_>> = self.expand_all(items, &entry.key).into_iter().collect();
        Some(expanded?.iter().map(|path| self.scope.path(self.base(), path.reveal())).collect())
    }

    fn word<T: Copy + Default>(
        &mut self,
        table: &SettingsTable<'_>,
        entry: &ConfigEntry,
        words: &[(&'static str, T)],
    ) -> T {
        let Some(text) = entry.node.as_str() else {
            self.report.wrong_type::<()>(&entry.node, Some(self.name), table.field(entry), "a string");
            return T::default();
        };
        if let Some((_, meant)) = words.iter().find(|(word, _)| *word == text) {
            return *meant;
        }
        let names: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        let hint = hint(text, words.iter().map(|(word, _)| *word));
        table.invalid::<()>(&entry.node.at, &table.field(entry), names.join(", "), hint, self.report);
        T::default()
    }

    fn paths(&mut self, table: &mut SettingsTable<'_>, key: &'static str) -> Option<Vec<PathBuf>> {
        let entry = table.take(key, self.report)?;
        let field = table.field(entry);
        let items = table.items(entry, self.report)?;
        let mut paths = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = table.expanded(item, &format!("{field}[{index}]"), self.scope, self.report)?;
            paths.push(self.scope.path(self.base(), path.reveal()));
        }
        Some(paths)
    }
}
