//! Loading of files to one configuration.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::accounts::AccountsConfig;
use super::auth::AuthConfig;
use super::document::{ConfigFormat, format, parse};
use super::error::{ConfigError, ConfigErrors, ConfigSource};
use super::expand::{ConfigDialect, ExpansionScope, SecretLookup};
use super::foreign::{dialect, is_foreign_toml, read_foreign, yaml_dialect};
use super::model::{AllowedCallers, ConsoleConfig, HostConfig, RejectedServer};
use super::native::read_native;
use super::partial::{LocatedSetting, PartialConfig};
use super::text_file::{MAX_FILE, invalid_utf8_error, read_bytes};

/// Folders in which applications keep a project's settings; the project is the folder above.
const SETTINGS_FOLDERS: [&str; 7] = [".vscode", ".cursor", ".gemini", ".codex", ".claude", ".github", ".zed"];

type SecretSource<'a> = Box<dyn Fn(&str) -> Result<Option<String>, String> + Send + Sync + 'a>;
type VariableLookup<'a> = Box<dyn Fn(&str) -> Option<String> + Send + Sync + 'a>;

/// Reads configuration files.
pub struct ConfigLoader<'a> {
    variables: VariableLookup<'a>,
    workspace: Option<PathBuf>,
    allow_unset: bool,
    keep_going: bool,
    keep_references: bool,
    secrets: Option<SecretSource<'a>>,
}

impl Default for ConfigLoader<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> ConfigLoader<'a> {
    /// Creates a loader that reads variables from this process's environment.
    pub fn new() -> Self {
        Self {
            variables: Box::new(|name| std::env::var(name).ok()),
            workspace: None,
            allow_unset: false,
            keep_going: false,
            keep_references: false,
            secrets: None,
        }
    }

    /// Sets the function that looks up variables. The home folder is `HOME` or `USERPROFILE`.
    #[must_use]
    pub fn variables(mut self, look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'a) -> Self {
        self.variables = Box::new(look_up);
        self
    }

    /// Sets the value of `${workspaceFolder}`. Default: the folder of each file, or its parent if the file is in a
    /// settings folder such as `.vscode`.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// Passes references that cannot be resolved on as they are written, with a warning, as Claude Code does.
    #[must_use]
    pub fn allow_unset(mut self, allow: bool) -> Self {
        self.allow_unset = allow;
        self
    }

    /// Puts servers with a mistake into [`HostConfig::rejected`] instead of failing for all of them.
    #[must_use]
    pub fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Sets the function that looks up `${secret:NAME}` in Hospes' own files. It returns the value, `None` if there is no
    /// secret of this name, or the reason why the store cannot be read. Without it, no secret is stored.
    #[must_use]
    pub fn secrets(
        mut self,
        look_up: impl Fn(&str) -> Result<Option<String>, String> + Send + Sync + 'a,
    ) -> Self {
        self.secrets = Some(Box::new(look_up));
        self
    }

    /// Resolves no references. The texts of the servers then have the form of Hospes' own file, also those of other
    /// applications: `${env:NAME}` becomes `${NAME}`. Only the servers are read. Such a configuration can be written to
    /// a file, and not be started.
    #[must_use]
    pub fn keep_references(mut self, keep: bool) -> Self {
        self.keep_references = keep;
        self
    }

    /// Reads several files and merges them. A server may be defined in only one of them.
    pub fn load<P: AsRef<Path>>(
        &self,
        files: impl IntoIterator<Item = P>,
    ) -> Result<HostConfig, ConfigErrors> {
        let mut merge = ConfigMerge::default();
        for file in files {
            let file = file.as_ref();
            match read_bytes(file) {
                Ok(bytes) => match std::str::from_utf8(&bytes) {
                    Ok(text) => merge.add(self.part(file, text)),
                    Err(error) => merge.errors.push(invalid_utf8_error(file, &bytes, &error)),
                },
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    merge.errors.push(ConfigError::TooLarge { file: file.to_owned(), limit: MAX_FILE });
                }
                Err(source) => merge.errors.push(ConfigError::Read { file: file.to_owned(), source }),
            }
        }
        merge.finish(self.keep_going)
    }

    /// Reads text as if it were the content of `file`, which gives it its format, its folder and its name in
    /// messages, and need not exist.
    pub fn parse(&self, file: impl AsRef<Path>, text: &str) -> Result<HostConfig, ConfigErrors> {
        let mut merge = ConfigMerge::default();
        merge.add(self.part(file.as_ref(), text));
        merge.finish(self.keep_going)
    }

    fn part(&self, file: &Path, text: &str) -> PartialConfig {
        // An import starts nothing, so that a required server is as good as any other.
        let mut part = PartialConfig { is_lenient: self.keep_references, ..PartialConfig::default() };
        let name: Arc<Path> = file.into();
        let format = format(file, text);
        let root = match parse(&name, format, text) {
            Ok(root) => root,
            Err(error) => {
                part.report.errors.push(*error);
                return part;
            }
        };
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let folder = absolute.parent().unwrap_or_else(|| Path::new(""));
        let workspace = self.workspace.clone().unwrap_or_else(|| project_folder(folder).to_owned());
        let home = ["HOME", "USERPROFILE"].iter().find_map(|name| (self.variables)(name)).map(PathBuf::from);
        let own = format == ConfigFormat::Toml && !is_foreign_toml(&absolute, &root);
        let scope = ExpansionScope {
            dialect: match format {
                ConfigFormat::Toml if own => ConfigDialect::Own,
                ConfigFormat::Toml => ConfigDialect::Codex,
                ConfigFormat::Json => dialect(&absolute),
                ConfigFormat::Yaml => yaml_dialect(&absolute, &root),
            },
            variable: &*self.variables,
            home: home.as_deref(),
            workspace: &workspace,
            folder,
            inputs: &[],
            allow_unset: self.allow_unset,
            secret: self.secrets.as_ref().map(|look_up| &**look_up as &SecretLookup<'_>),
            keep: self.keep_references,
            asked: &[],
        };
        if own {
            read_native(&root, &scope, &mut part)
        } else {
            read_foreign(&root, &scope, &mut part)
        }
        part
    }
}

impl fmt::Debug for ConfigLoader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigLoader")
            .field("workspace", &self.workspace)
            .field("allow_unset", &self.allow_unset)
            .field("keep_going", &self.keep_going)
            .field("keep_references", &self.keep_references)
            .finish_non_exhaustive()
    }
}

fn project_folder(folder: &Path) -> &Path {
    let is_settings = |name: &std::ffi::OsStr| SETTINGS_FOLDERS.iter().any(|known| name == *known);
    match folder.parent() {
        Some(project) if folder.file_name().is_some_and(is_settings) => project,
        _ => folder,
    }
}

#[derive(Debug, Default)]
struct ConfigMerge {
    config: HostConfig,
    listen: Option<LocatedSetting<SocketAddr>>,
    start_wait: Option<LocatedSetting<Duration>>,
    callers: Option<LocatedSetting<AllowedCallers>>,
    auth: Option<LocatedSetting<AuthConfig>>,
    console: Option<LocatedSetting<ConsoleConfig>>,
    accounts: Option<LocatedSetting<AccountsConfig>>,
    audit_kept_for: Option<LocatedSetting<Duration>>,
    registry: Option<LocatedSetting<String>>,
    names: Vec<(String, ConfigSource)>,
    errors: Vec<ConfigError>,
}

impl ConfigMerge {
    fn add(&mut self, mut part: PartialConfig) {
        if part.is_lenient {
            self.reject_repeated(&mut part);
        }
        self.errors.extend(part.report.errors);
        self.config.warnings.extend(part.report.warnings);
        merge_setting("endpoint.listen", &mut self.listen, part.listen, &mut self.errors);
        merge_setting("endpoint.start_wait", &mut self.start_wait, part.start_wait, &mut self.errors);
        merge_setting("endpoint.callers", &mut self.callers, part.callers, &mut self.errors);
        merge_setting("auth", &mut self.auth, part.auth, &mut self.errors);
        merge_setting("console.listen", &mut self.console, part.console, &mut self.errors);
        merge_setting("accounts", &mut self.accounts, part.accounts, &mut self.errors);
        merge_setting("audit.keep_days", &mut self.audit_kept_for, part.audit_kept_for, &mut self.errors);
        merge_setting("registry", &mut self.registry, part.registry, &mut self.errors);
        self.config.models.extend(part.models);
        if let Some(answers) = part.console_questions {
            let before = self.config.console_questions.unwrap_or_default();
            self.config.console_questions = Some(before | answers);
        }
        if let Some(shown) = part.desktop_notifications {
            let before = self.config.desktop_notifications.unwrap_or(true);
            self.config.desktop_notifications = Some(before && shown);
        }
        // The strictest of all files holds.
        if let Some(from) = part.decisions_from {
            let before = self.config.decisions_from.unwrap_or(from);
            self.config.decisions_from = Some(before.min(from));
        }
        extend(&mut self.config.allowed_hosts, part.allowed_hosts);
        extend(&mut self.config.allowed_origins, part.allowed_origins);
        // Rejected ones count, or a server of another file could take the place of one with a mistake.
        let named = part.servers.iter().map(|server| (&server.name, &server.source));
        for (name, source) in named.chain(part.rejected.iter().map(|server| (&server.name, &server.source))) {
            match self.names.iter().find(|(known, _)| known == name) {
                Some((_, first)) => self.errors.push(ConfigError::DuplicateServer {
                    name: name.clone(),
                    first: first.clone(),
                    second: source.clone(),
                }),
                None => self.names.push((name.clone(), source.clone())),
            }
        }
        self.config.servers.extend(part.servers);
        self.config.rejected.extend(part.rejected);
        self.config.skipped.extend(part.skipped);
        self.config.inputs.extend(part.inputs);
    }

    /// Rejects servers whose name another one has already, in this part or an earlier one.
    fn reject_repeated(&self, part: &mut PartialConfig) {
        let mut known = self.names.clone();
        for server in std::mem::take(&mut part.servers) {
            match known.iter().find(|(name, _)| *name == server.name) {
                Some((_, first)) => {
                    let (name, second) = (server.name, server.source);
                    let first = first.clone();
                    let error =
                        ConfigError::DuplicateServer { name: name.clone(), first, second: second.clone() };
                    // Under another name, since the first one keeps its own.
                    let name = format!("{name} (repeated)");
                    part.rejected.push(RejectedServer { name, source: second, errors: error.into() });
                }
                None => {
                    known.push((server.name.clone(), server.source.clone()));
                    part.servers.push(server);
                }
            }
        }
    }

    fn finish(mut self, keep_going: bool) -> Result<HostConfig, ConfigErrors> {
        if !keep_going {
            for rejected in self.config.rejected.drain(..) {
                self.errors.extend(rejected.errors.into_inner());
            }
        }
        self.config.listen = self.listen.map(|listen| listen.value);
        self.config.start_wait = self.start_wait.map(|wait| wait.value);
        self.config.callers = self.callers.map(|callers| callers.value);
        self.config.auth = self.auth.map(|auth| auth.value);
        self.config.console = self.console.map(|console| console.value);
        self.config.audit_kept_for = self.audit_kept_for.map(|kept| kept.value);
        self.config.registry = self.registry.map(|registry| registry.value);
        self.config.accounts = self.accounts.map(|accounts| accounts.value).unwrap_or_default();
        if self.errors.is_empty() { Ok(self.config) } else { Err(ConfigErrors::new(self.errors)) }
    }
}

/// Merges a setting that may occur in one file only, or with the same value in several.
fn merge_setting<T: PartialEq>(
    setting: &'static str,
    known: &mut Option<LocatedSetting<T>>,
    found: Option<LocatedSetting<T>>,
    errors: &mut Vec<ConfigError>,
) {
    match (&known, found) {
        (Some(first), Some(second)) if first.value != second.value => {
            errors.push(ConfigError::DuplicateSetting {
                setting,
                first: first.at.clone(),
                second: second.at,
            });
        }
        (None, Some(found)) => *known = Some(found),
        _ => {}
    }
}

fn extend(all: &mut Vec<String>, more: Vec<String>) {
    for item in more {
        if !all.contains(&item) {
            all.push(item);
        }
    }
}
