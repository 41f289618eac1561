//! The table `[notify]`: ways to tell a person that something waits.

use url::Url;

use super::expand::ExpansionScope;
use super::partial::LocatedSetting;
use super::secret::{ExpandedText, Secret, ServerUrl};
use super::table::{ConfigReport, SettingsTable};

/// Ways besides the desktop in which a person is notified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotificationChannels {
    /// Program and arguments, in which `{summary}` and `{body}` stand for the texts. Empty if none is configured.
    pub command: Vec<ExpandedText>,
    /// URL to which the text is sent.
    pub webhook: Option<NotificationWebhook>,
}

/// URL to which notifications are sent, as a topic of ntfy accepts them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotificationWebhook {
    /// The URL.
    pub url: ServerUrl,
    /// Bearer token.
    pub token: Option<Secret>,
}

/// Reads the table.
pub(super) fn read_notify(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> NotifySettings {
    NotifySettings {
        desktop: table.boolean("desktop", report),
        command: command(table, scope, report),
        webhook: webhook(table, scope, report),
    }
}

/// Settings of one file.
#[derive(Debug, Default)]
pub(super) struct NotifySettings {
    pub(super) desktop: Option<bool>,
    pub(super) command: Option<LocatedSetting<Vec<ExpandedText>>>,
    pub(super) webhook: Option<LocatedSetting<NotificationWebhook>>,
}

fn command(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<LocatedSetting<Vec<ExpandedText>>> {
    let entry = table.take("command", report)?;
    let field = table.field(entry);
    let mut value = Vec::new();
    for item in table.items(entry, report)? {
        value.push(table.expanded(item, &field, scope, report)?);
    }
    match value.first().is_some_and(|program| !program.reveal().is_empty()) {
        true => Some(LocatedSetting { value, at: entry.at.clone() }),
        false => table.invalid(&entry.node.at, &field, "a program and its arguments", "", report),
    }
}

fn webhook(
    table: &mut SettingsTable<'_>,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<LocatedSetting<NotificationWebhook>> {
    let token = table.take("webhook_token", report).and_then(|entry| {
        let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
        (!text.reveal().is_empty()).then(|| text.into_secret())
    });
    let entry = table.take("webhook", report)?;
    let field = table.field(entry);
    let text = table.expanded(&entry.node, &field, scope, report)?;
    // The text names applications and files, and the token opens the topic.
    let is_usable = |url: &Url| {
        url.scheme() == "https" || super::server_transport::is_loopback(url) && url.scheme() == "http"
    };
    match Url::parse(text.reveal()).ok().filter(is_usable) {
        Some(url) => {
            let url = ServerUrl::expanded(text.written().to_owned(), url);
            Some(LocatedSetting { value: NotificationWebhook { url, token }, at: entry.at.clone() })
        }
        None => {
            let expected = "a URL that begins with https://, or http:// to this machine";
            table.invalid(&entry.node.at, &field, expected, "", report)
        }
    }
}
