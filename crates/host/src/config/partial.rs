//! Settings of one file, before they are merged with those of other files.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::accounts::AccountsConfig;
use super::auth::AuthConfig;
use super::console_team::ConsoleTeamConfig;
use super::decision_source::DecisionSource;
use super::document::{ConfigEntry, ConfigValue};
use super::error::{ConfigErrors, ConfigSource};
use super::fleet::FleetConfig;
use super::model::{AllowedCallers, ConfigInput, ConsoleConfig, RejectedServer, ServerConfig, SkippedServer};
use super::models::ModelsConfig;
use super::notify::NotificationWebhook;
use super::profiles::ParsedProfile;
use super::secret::ExpandedText;
use super::server::ParsedServer;
use super::table::ConfigReport;
use super::telemetry::TelemetryConfig;

/// A setting and its location.
#[derive(Debug)]
pub(super) struct LocatedSetting<T> {
    pub(super) value: T,
    pub(super) at: ConfigSource,
}

/// Settings of one file.
#[derive(Debug, Default)]
pub(super) struct PartialConfig {
    pub(super) listen: Option<LocatedSetting<SocketAddr>>,
    pub(super) start_wait: Option<LocatedSetting<Duration>>,
    pub(super) callers: Option<LocatedSetting<AllowedCallers>>,
    pub(super) auth: Option<LocatedSetting<AuthConfig>>,
    pub(super) console: Option<LocatedSetting<ConsoleConfig>>,
    pub(super) console_team: Option<LocatedSetting<ConsoleTeamConfig>>,
    pub(super) accounts: Option<LocatedSetting<AccountsConfig>>,
    pub(super) metrics_listen: Option<LocatedSetting<SocketAddr>>,
    pub(super) fleet: Option<LocatedSetting<FleetConfig>>,
    pub(super) telemetry: Option<LocatedSetting<TelemetryConfig>>,
    pub(super) audit_arguments: Option<bool>,
    pub(super) audit_kept_for: Option<LocatedSetting<Duration>>,
    pub(super) registry: Option<LocatedSetting<String>>,
    pub(super) organization_policy: Option<LocatedSetting<PathBuf>>,
    pub(super) models: ModelsConfig,
    pub(super) console_questions: Option<bool>,
    pub(super) console_streams: Option<usize>,
    pub(super) desktop_notifications: Option<bool>,
    pub(super) notification_command: Option<LocatedSetting<Vec<ExpandedText>>>,
    pub(super) notification_webhook: Option<LocatedSetting<NotificationWebhook>>,
    pub(super) decisions_from: Option<DecisionSource>,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) servers: Vec<ServerConfig>,
    pub(super) profiles: Vec<ParsedProfile>,
    pub(super) rejected: Vec<RejectedServer>,
    pub(super) skipped: Vec<SkippedServer>,
    pub(super) inputs: Vec<ConfigInput>,
    pub(super) report: ConfigReport,
    /// True if a mistake in a server's entry never stops the other servers.
    pub(super) is_lenient: bool,
}

impl PartialConfig {
    /// Adds the result for one server; the errors from index `before` on belong to it.
    pub(super) fn add(&mut self, entry: &ConfigEntry, reading: Option<ParsedServer>, before: usize) {
        let errors = self.report.errors.split_off(before);
        match reading {
            Some(ParsedServer::Server(server)) if errors.is_empty() => self.servers.push(*server),
            // Errors in an entry that cannot be used anyway are not worth a correction.
            Some(ParsedServer::Skipped(reason)) => {
                self.skipped.push(SkippedServer { name: entry.key.clone(), source: entry.at.clone(), reason })
            }
            // The host is not to start without it, so it is not left out either.
            _ if is_required(entry) && !self.is_lenient => self.report.errors.extend(errors),
            _ => self.rejected.push(RejectedServer {
                name: entry.key.clone(),
                source: entry.at.clone(),
                errors: ConfigErrors::new(errors),
                secrets: entry.node.secret_names(),
            }),
        }
    }
}

fn is_required(entry: &ConfigEntry) -> bool {
    let mut members = entry.node.as_object().unwrap_or_default().iter();
    members.any(|member| member.key == "required" && matches!(member.node.value, ConfigValue::Boolean(true)))
}
