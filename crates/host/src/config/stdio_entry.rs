//! Reader of the entry of a server that is a child process: its command, folder and environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::command_line::{is_env_name, parse_env_file, split_command};
use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::error::ConfigError;
use super::expand::ConfigDialect;
use super::secret::{ExpandedText, Secret};
use super::server::ServerEntryReader;
use super::server_transport::StdioTransport;
use super::text_file::read_text;

impl<'n> ServerEntryReader<'_, 'n, '_> {
    pub(super) fn stdio(&mut self, command: &'n ConfigEntry) -> Option<StdioTransport> {
        let words = self.command(command);
        let args = self.args();
        // Later values replace earlier ones: what is written out in the entry itself counts most.
        let (mut env, mut env_file, mut pass_env) = (BTreeMap::new(), None, Vec::new());
        if self.scope.keep {
            env_file = self.kept_env_file();
            pass_env = self.kept_pass_env(&mut env);
        } else {
            env = self.env_file().unwrap_or_default();
            self.pass_env(&mut env);
        }
        if let Some(entry) = self.take("env") {
            self.env(&entry.node, &entry.key, &mut env);
        }
        let cwd = self.cwd();
        // Only now, so that the mistakes in all other settings are reported, too.
        let (program, mut all) = words?;
        if let ConfigValue::Object(_) = command.node.value
            && let Some(node) = command.node.get("env")
        {
            self.env(node, "command.env", &mut env);
        }
        all.extend(args?);
        let stdio = StdioTransport { command: program, args: all, env, cwd, env_file, pass_env };
        // In our own file somebody wrote it for us; what others' files have in them, few have looked at.
        if self.scope.dialect != ConfigDialect::Own {
            for name in stdio.loader_variables() {
                let message =
                    format!("`{name}` decides which code the program loads; check that this is intended");
                self.report.warn(&command.at, Some(self.name), message);
            }
        }
        Some(stdio)
    }

    /// Returns the program, and the arguments that the same setting contains.
    fn command(&mut self, entry: &'n ConfigEntry) -> Option<(ExpandedText, Vec<ExpandedText>)> {
        let own = self.scope.dialect == ConfigDialect::Own;
        let args = self.table.spellings("args");
        let has_args = self
            .entry
            .node
            .as_object()
            .is_some_and(|entries| entries.iter().any(|other| args.contains(&other.key.as_str())));
        match &entry.node.value {
            ConfigValue::String(text) => {
                // With `args`, or as a path, the text is the program, spaces and all.
                let head = text.split_whitespace().next().unwrap_or("");
                let whole =
                    has_args || (!own && (head == text.trim() || head.contains(['/', '\\', '"', '\''])));
                let words = if whole { Ok(vec![text.clone()]) } else { split_command(text) };
                let words = match words {
                    Ok(words) if words.first().is_some_and(|word| !word.trim().is_empty()) => words,
                    Ok(_) => {
                        let at = &entry.node.at;
                        return self.table.invalid(at, &entry.key, "the name of a program", "", self.report);
                    }
                    Err(error) => {
                        let at = &entry.node.at;
                        return self.table.invalid(at, &entry.key, error.to_string(), "", self.report);
                    }
                };
                let mut expanded = Vec::with_capacity(words.len());
                for word in &words {
                    expanded.push(self.table.expand(
                        word,
                        &entry.node.at,
                        &entry.key,
                        self.scope,
                        self.report,
                    ));
                }
                self.program(expanded)
            }
            ConfigValue::Array(items) => {
                if items.is_empty() {
                    let expected = "the name of a program, then its arguments";
                    return self.table.invalid(&entry.node.at, &entry.key, expected, "", self.report);
                }
                let expanded = self.expand_all(items, &entry.key);
                self.program(expanded)
            }
            // An older form of Zed's: `{ path, args, env }`.
            ConfigValue::Object(_) if !own => {
                let Some(path) = entry.node.get("path") else {
                    return self.table.invalid(
                        &entry.node.at,
                        &entry.key,
                        "a `path` in the table",
                        "",
                        self.report,
                    );
                };
                let mut expanded = vec![self.table.expanded(path, "command.path", self.scope, self.report)];
                match entry.node.get("args") {
                    Some(ConfigNode { value: ConfigValue::Array(items), .. }) => {
                        expanded.extend(self.expand_all(items, "command.args"));
                    }
                    Some(ConfigNode { value: ConfigValue::Null, .. }) | None => {}
                    Some(other) => {
                        let field = "command.args".to_owned();
                        return self.report.wrong_type(other, Some(self.name), field, "an array");
                    }
                }
                self.program(expanded)
            }
            _ => {
                let expected = "a string or an array of strings";
                self.report.wrong_type(&entry.node, Some(self.name), entry.key.clone(), expected)
            }
        }
    }

    fn program(&self, words: Vec<Option<ExpandedText>>) -> Option<(ExpandedText, Vec<ExpandedText>)> {
        let mut words = words.into_iter().collect::<Option<Vec<_>>>()?.into_iter();
        let program = words.next()?;
        let program = match program.reveal().strip_prefix("~/") {
            Some(_) => {
                let path = self.scope.path(self.scope.folder, program.reveal());
                ExpandedText::new(program.written().to_owned(), path.to_string_lossy().into_owned())
            }
            None => program,
        };
        Some((program, words.collect()))
    }

    pub(super) fn expand_all(&mut self, items: &[ConfigNode], field: &str) -> Vec<Option<ExpandedText>> {
        let mut expanded = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            expanded.push(self.table.expanded(item, &format!("{field}[{index}]"), self.scope, self.report));
        }
        expanded
    }

    pub(super) fn args(&mut self) -> Option<Vec<ExpandedText>> {
        let Some(entry) = self.take("args") else { return Some(Vec::new()) };
        let items = self.table.items(entry, self.report)?;
        self.expand_all(items, &entry.key).into_iter().collect()
    }

    fn cwd(&mut self) -> Option<PathBuf> {
        let entry = self.take("cwd")?;
        let path = self.table.expanded(&entry.node, &entry.key, self.scope, self.report)?;
        Some(self.scope.path(self.base(), path.reveal()))
    }

    /// Returns the base folder of relative paths: the file's folder for Hospes' own format, the workspace for other
    /// formats.
    pub(super) fn base(&self) -> &std::path::Path {
        if self.scope.dialect == ConfigDialect::Own { self.scope.folder } else { self.scope.workspace }
    }

    fn env_file(&mut self) -> Option<BTreeMap<String, Secret>> {
        let entry = self.take("env_file")?;
        let path = self.table.expanded(&entry.node, &entry.key, self.scope, self.report)?;
        let file = self.scope.path(self.base(), path.reveal());
        let text = match read_text(&file) {
            Ok(text) => text,
            Err(_) if self.scope.allow_unset => return None,
            Err(source) => {
                let (at, place) = (entry.node.at.clone(), self.table.place(&entry.key));
                self.report.errors.push(ConfigError::File { at, place, file, source });
                return None;
            }
        };
        match parse_env_file(&text) {
            Ok(variables) => {
                Some(variables.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
            }
            Err(line) => {
                let expected = format!("`NAME=value` in line {line} of {}", file.display());
                self.table.invalid(&entry.node.at, &entry.key, expected, "", self.report)
            }
        }
    }

    /// Returns the file with variables, without reading it.
    fn kept_env_file(&mut self) -> Option<PathBuf> {
        let entry = self.take("env_file")?;
        let path = self.table.expanded(&entry.node, &entry.key, self.scope, self.report)?;
        Some(self.scope.path(self.base(), path.reveal()))
    }

    /// Returns the names of variables to hand on. Those that only the application knows go into `env` instead.
    fn kept_pass_env(&mut self, env: &mut BTreeMap<String, Secret>) -> Vec<String> {
        let mut names = Vec::new();
        for (name, _) in self.variable_names().into_iter().filter(|(name, _)| is_env_name(name)) {
            if self.scope.asked.iter().any(|asked| asked == name) {
                env.insert(name.to_owned(), Secret::new(format!("${{input:{name}}}")));
            } else {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// Returns the names of variables to hand on, with their locations.
    fn variable_names(&mut self) -> Vec<(&'n str, &'n ConfigNode)> {
        let Some(entry) = self.take("pass_env") else { return Vec::new() };
        let Some(items) = self.table.items(entry, self.report) else { return Vec::new() };
        let mut names = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            // Codex also writes `{ name = "X", source = "local" }`.
            match item.as_str().or_else(|| item.get("name").and_then(ConfigNode::as_str)) {
                Some(name) => names.push((name, item)),
                None => {
                    let field = format!("{}[{index}]", entry.key);
                    self.report.wrong_type::<()>(item, Some(self.name), field, "a string");
                }
            }
        }
        names
    }

    /// Hands on variables by name; one that is not set is left out, as a shell would.
    fn pass_env(&mut self, env: &mut BTreeMap<String, Secret>) {
        for (name, item) in self.variable_names() {
            match (self.scope.variable)(name) {
                Some(value) => drop(env.insert(name.to_owned(), Secret::new(value))),
                None if self.scope.dialect == ConfigDialect::Goose => {
                    let message = format!("`{name}` is not set here; Goose may keep it in its keyring");
                    self.report.warn(&item.at, Some(self.name), message);
                }
                None => {}
            }
        }
    }

    pub(super) fn env(&mut self, node: &ConfigNode, field: &str, env: &mut BTreeMap<String, Secret>) {
        let Some(entries) = node.as_object() else {
            self.report.wrong_type::<()>(node, Some(self.name), field.to_owned(), "a table");
            return;
        };
        for (index, variable) in entries.iter().enumerate() {
            let field = format!("{field}.{}", variable.key);
            if let Some(first) = entries[..index].iter().find(|first| first.key == variable.key) {
                self.report.report_repeated_key(variable, Some(self.name), field, first);
                continue;
            }
            if !is_env_name(&variable.key) {
                let expected = "a name without `=` and white space";
                self.table.invalid::<()>(&variable.at, &field, expected, "", self.report);
                continue;
            }
            let Some(value) = self.table.expanded(&variable.node, &field, self.scope, self.report) else {
                continue;
            };
            if value.reveal().contains('\0') {
                self.table.invalid::<()>(&variable.node.at, &field, "text without NUL", "", self.report);
                continue;
            }
            env.insert(variable.key.clone(), value.into_secret());
        }
    }
}
