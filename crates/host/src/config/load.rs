//! Loading of files to one configuration.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::accounts::AccountsConfig;
use super::auth::AuthConfig;
use super::console_team::ConsoleTeamConfig;
use super::document::{ConfigFormat, format, parse};
use super::error::{ConfigError, ConfigErrors, ConfigSource, ConfigWarning};
use super::expand::{ConfigDialect, ExpansionScope, SecretLookup};
use super::fleet::FleetConfig;
use super::foreign::{dialect, is_foreign_toml, read_foreign, yaml_dialect};
use super::model::{AllowedCallers, ConsoleConfig, HostConfig, RejectedServer, server_label};
use super::native::read_native;
use super::notify::NotificationWebhook;
use super::partial::{LocatedSetting, PartialConfig};
use super::profiles::{ParsedProfile, ProfileConfig, check_profiles};
use super::secret::ExpandedText;
use super::telemetry::TelemetryConfig;
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
        let mut texts = Vec::new();
        for file in files {
            let file = file.as_ref();
            match read_bytes(file) {
                Ok(bytes) => match std::str::from_utf8(&bytes) {
                    Ok(text) => {
                        merge.add(self.part(file, text, None));
                        texts.push((file.to_owned(), text.to_owned()));
                    }
                    Err(error) => merge.errors.push(invalid_utf8_error(file, &bytes, &error)),
                },
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    merge.errors.push(ConfigError::TooLarge { file: file.to_owned(), limit: MAX_FILE });
                }
                Err(source) => merge.errors.push(ConfigError::Read { file: file.to_owned(), source }),
            }
        }
        self.finish(merge, &texts)
    }

    /// Reads text as if it were the content of `file`, which gives it its format, its folder and its name in
    /// messages, and need not exist.
    pub fn parse(&self, file: impl AsRef<Path>, text: &str) -> Result<HostConfig, ConfigErrors> {
        let mut merge = ConfigMerge::default();
        let file = file.as_ref();
        merge.add(self.part(file, text, None));
        self.finish(merge, &[(file.to_owned(), text.to_owned())])
    }

    /// Checks the profiles of a file as it is done when the file is loaded with others, which have these servers.
    pub(super) fn check_profiles_of(
        &self,
        file: &Path,
        text: &str,
        other_servers: &[String],
    ) -> Result<(), ConfigErrors> {
        let mut merge = ConfigMerge::default();
        merge.add(self.part(file, text, None));
        let names = merge.names.iter().map(|(name, _)| name);
        let names = names.chain(merge.config.skipped.iter().map(|server| &server.name)).chain(other_servers);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let mut errors = Vec::new();
        check_profiles(merge.profiles, &names, &mut errors);
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors::new(errors)) }
    }

    /// Checks the profiles, which may name servers of all files, and ends the merge.
    fn finish(&self, mut merge: ConfigMerge, files: &[FileText]) -> Result<HostConfig, ConfigErrors> {
        let profiles = std::mem::take(&mut merge.profiles);
        if self.keep_references {
            merge.config.profiles = profiles.into_iter().map(|profile| profile.config).collect();
            return merge.finish(self.keep_going);
        }
        let mut names: Vec<&str> = merge.names.iter().map(|(name, _)| name.as_str()).collect();
        names.extend(merge.config.skipped.iter().map(|server| server.name.as_str()));
        merge.config.profiles = check_profiles(profiles, &names, &mut merge.errors);
        // Without the store of the secrets nothing is started, and a profile's servers are none but these.
        if self.secrets.is_some() && merge.errors.is_empty() {
            let mut profiles = std::mem::take(&mut merge.config.profiles);
            for profile in profiles.iter_mut().filter(|profile| !profile.secrets.is_empty()) {
                self.add_profile_servers(&mut merge, profile, files);
            }
            merge.config.profiles = profiles;
        }
        merge.finish(self.keep_going)
    }

    /// Reads the servers again with the secrets of a profile. Those that are then others run for the profile alone.
    fn add_profile_servers(&self, merge: &mut ConfigMerge, profile: &mut ProfileConfig, files: &[FileText]) {
        let used = RefCell::default();
        for (file, text) in files {
            let secrets = ReplacedSecrets { names: &profile.secrets, used: &used };
            let part = self.part(file, text, Some(&secrets));
            let errors = part.report.errors.into_iter();
            merge.errors.extend(errors.map(|error| name_secret(error, &profile.secrets)));
            for mut server in part.servers {
                let usual = merge.config.server(&server.name);
                let is_same = usual.is_some_and(|usual| usual.without_source() == server.without_source());
                if is_same || server.disabled || !profile.includes(&server.name) {
                    continue;
                }
                if server.is_per_user() {
                    merge.errors.push(ConfigError::ProfileSecrets {
                        at: profile.source.clone(),
                        name: profile.name.clone(),
                        server: server.name,
                    });
                    continue;
                }
                server.profile = Some(profile.name.clone());
                profile.own_servers.push(server.name.clone());
                merge.config.profile_servers.push(server);
            }
            // Also where the entry is rejected for everybody: one that runs from before must not stand in.
            for rejected in part.rejected {
                let replaced = rejected.secrets.iter().filter(|name| profile.secrets.contains_key(*name));
                let replaced: Vec<&String> = replaced.collect();
                if replaced.is_empty() || !profile.includes(&rejected.name) {
                    continue;
                }
                used.borrow_mut().extend(replaced.into_iter().cloned());
                profile.own_servers.push(rejected.name.clone());
                if merge.config.server(&rejected.name).is_some() {
                    let errors = rejected.errors.into_inner().into_iter();
                    let errors = errors.map(|error| name_secret(error, &profile.secrets)).collect();
                    merge.config.rejected.push(RejectedServer {
                        name: server_label(&rejected.name, Some(&profile.name)),
                        source: rejected.source,
                        errors: ConfigErrors::new(errors),
                        secrets: rejected.secrets,
                    });
                }
            }
        }
        let used = used.into_inner();
        for name in profile.secrets.keys().filter(|name| !used.contains(*name)) {
            merge.config.warnings.push(ConfigWarning {
                at: profile.source.clone(),
                server: None,
                message: format!(
                    "profile `{}`: the secret `{name}` is replaced, but no server refers to it",
                    profile.name
                ),
            });
        }
    }

    /// Reads one file, for a profile with the secrets of that profile.
    fn part(&self, file: &Path, text: &str, replaced: Option<&ReplacedSecrets<'_>>) -> PartialConfig {
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
        let look_up = self.secrets.as_ref().map(|look_up| {
            move |name: &str| look_up(replaced.map_or(name, |replaced| replaced.stored_name(name)))
        });
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
            secret: look_up.as_ref().map(|look_up| look_up as &SecretLookup<'_>),
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

/// A file and its text.
type FileText = (PathBuf, String);

/// Secrets of a profile that are used in place of others.
struct ReplacedSecrets<'a> {
    names: &'a BTreeMap<String, String>,
    /// Names that were replaced.
    used: &'a RefCell<BTreeSet<String>>,
}

impl<'a> ReplacedSecrets<'a> {
    /// Returns the name of the stored secret that a reference with this name means.
    fn stored_name<'n>(&self, name: &'n str) -> &'n str
    where
        'a: 'n,
    {
        let names: &'a BTreeMap<String, String> = self.names;
        match names.get(name) {
            Some(stored) => {
                self.used.borrow_mut().insert(name.to_owned());
                stored
            }
            None => name,
        }
    }
}

/// Makes an error about a secret name the stored one, which is the one that is missing.
fn name_secret(mut error: ConfigError, replaced: &BTreeMap<String, String>) -> ConfigError {
    if let ConfigError::Secret { name, .. } = &mut error
        && let Some(stored) = replaced.get(name)
    {
        name.clone_from(stored);
    }
    error
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
    console_team: Option<LocatedSetting<ConsoleTeamConfig>>,
    accounts: Option<LocatedSetting<AccountsConfig>>,
    metrics_listen: Option<LocatedSetting<SocketAddr>>,
    fleet: Option<LocatedSetting<FleetConfig>>,
    telemetry: Option<LocatedSetting<TelemetryConfig>>,
    notification_command: Option<LocatedSetting<Vec<ExpandedText>>>,
    notification_webhook: Option<LocatedSetting<NotificationWebhook>>,
    audit_kept_for: Option<LocatedSetting<Duration>>,
    registry: Option<LocatedSetting<String>>,
    organization_policy: Option<LocatedSetting<PathBuf>>,
    names: Vec<(String, ConfigSource)>,
    profiles: Vec<ParsedProfile>,
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
        merge_setting("console.team", &mut self.console_team, part.console_team, &mut self.errors);
        merge_setting("accounts", &mut self.accounts, part.accounts, &mut self.errors);
        merge_setting("metrics.listen", &mut self.metrics_listen, part.metrics_listen, &mut self.errors);
        merge_setting("fleet", &mut self.fleet, part.fleet, &mut self.errors);
        merge_setting("telemetry", &mut self.telemetry, part.telemetry, &mut self.errors);
        let (command, webhook) = (part.notification_command, part.notification_webhook);
        merge_setting("notify.command", &mut self.notification_command, command, &mut self.errors);
        merge_setting("notify.webhook", &mut self.notification_webhook, webhook, &mut self.errors);
        merge_setting("audit.keep_days", &mut self.audit_kept_for, part.audit_kept_for, &mut self.errors);
        merge_setting("registry", &mut self.registry, part.registry, &mut self.errors);
        let (known, found) = (&mut self.organization_policy, part.organization_policy);
        merge_setting("organization_policy", known, found, &mut self.errors);
        self.config.models.extend(part.models);
        self.config.audit_arguments |= part.audit_arguments.unwrap_or_default();
        if let Some(answers) = part.console_questions {
            let before = self.config.console_questions.unwrap_or_default();
            self.config.console_questions = Some(before | answers);
        }
        if let Some(streams) = part.console_streams {
            let before = self.config.console_streams.unwrap_or(streams);
            self.config.console_streams = Some(before.min(streams));
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
        self.profiles.extend(part.profiles);
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
                    part.rejected.push(RejectedServer {
                        name,
                        source: second,
                        errors: error.into(),
                        secrets: BTreeSet::new(),
                    });
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
        self.config.console_team = self.console_team.map(|team| team.value);
        self.config.metrics_listen = self.metrics_listen.map(|listen| listen.value);
        self.config.fleet = self.fleet.map(|fleet| fleet.value);
        self.config.telemetry = self.telemetry.map(|telemetry| telemetry.value);
        self.config.audit_kept_for = self.audit_kept_for.map(|kept| kept.value);
        self.config.notifications.command =
            self.notification_command.map(|one| one.value).unwrap_or_default();
        self.config.notifications.webhook = self.notification_webhook.map(|one| one.value);
        self.config.registry = self.registry.map(|registry| registry.value);
        self.config.organization_policy = self.organization_policy.map(|file| file.value);
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
