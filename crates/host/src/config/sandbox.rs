//! Reader of the settings that confine a server: files, network, variables and roots.

use std::path::PathBuf;

use hospes_sandbox::{SandboxFiles, SandboxKind, SandboxNetwork};

use super::command_line::is_env_name;
use super::document::ConfigEntry;
use super::keys;
use super::model::SandboxConfig;
use super::nearest::hint;
use super::server::ServerEntryReader;
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
