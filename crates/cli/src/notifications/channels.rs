//! Notifications besides the desktop: a program of the user, and a service that takes a text.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hospes_host::config::{NotificationChannels, NotificationWebhook};
use hospes_http_client::{EgressClient, EgressPolicy};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use http_body_util::Full;

use super::notification_plan::Notification;

/// Maximum time that the program, or the service, may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The configured channels.
#[derive(Debug, Default)]
pub(super) struct NotificationSender {
    channels: NotificationChannels,
    has_reported_failure: Arc<AtomicBool>,
}

impl NotificationSender {
    pub(super) fn new(channels: NotificationChannels) -> Self {
        Self { channels, has_reported_failure: Arc::default() }
    }

    /// Returns true if there is a channel.
    pub(super) fn is_used(&self) -> bool {
        !self.channels.command.is_empty() || self.channels.webhook.is_some()
    }

    /// Sends a notification, in tasks of their own, so that a slow service delays nothing.
    pub(super) fn send(&self, notification: &Notification) {
        if !self.channels.command.is_empty() {
            let command =
                self.channels.command.iter().map(|word| fill(word.reveal(), notification)).collect();
            self.report("the command of `notify`", run(command, notification.body.clone()));
        }
        if let Some(webhook) = self.channels.webhook.clone() {
            self.report("the webhook of `notify`", post(webhook, notification.clone()));
        }
    }

    /// Runs `work` in a task. The first failure of all is logged.
    fn report(&self, what: &'static str, work: impl Future<Output = Result<(), String>> + Send + 'static) {
        let has_reported = Arc::clone(&self.has_reported_failure);
        tokio::spawn(async move {
            let done = tokio::time::timeout(SEND_TIMEOUT, work).await;
            let done = done.unwrap_or_else(|_| Err(format!("not done within {SEND_TIMEOUT:?}")));
            if let Err(problem) = done
                && !has_reported.swap(true, Ordering::Relaxed)
            {
                tracing::warn!(problem, "{what} failed; further failures are not reported");
            }
        });
    }
}

/// Puts the texts into an argument. A text is never an option of the program.
fn fill(word: &str, notification: &Notification) -> String {
    let filled = word.replace("{summary}", &notification.summary).replace("{body}", &notification.body);
    if filled.starts_with('-') && !word.starts_with('-') { format!(" {filled}") } else { filled }
}

async fn run(command: Vec<String>, body: String) -> Result<(), String> {
    let Some((program, args)) = command.split_first() else { return Ok(()) };
    let mut command = tokio::process::Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read it may be gone already.
        let _unread = tokio::io::AsyncWriteExt::write_all(&mut stdin, body.as_bytes()).await;
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

async fn post(webhook: NotificationWebhook, notification: Notification) -> Result<(), String> {
    let url = webhook.url.reveal();
    let mut request = Request::new(Full::new(Bytes::from(notification.body)));
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // The summary has no names, and therefore no letters that a header cannot have.
    if let Ok(title) = HeaderValue::from_str(&notification.summary) {
        headers.insert("title", title);
    }
    if let Some(token) = &webhook.token {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
            .map_err(|_| "`webhook_token` has letters that a header cannot have".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let client = EgressClient::new(EgressPolicy::of_endpoint(url), CONNECT_TIMEOUT);
    let response = client.send(url, request).await.map_err(|error| error.to_string())?;
    match response.status().is_success() {
        true => Ok(()),
        false => Err(format!("status {}", response.status().as_u16())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_an_option() {
        let notification = Notification {
            summary: "Hospes: 1 call waits for you".to_owned(),
            body: "--exec: call x (y)".to_owned(),
            lifetime: Duration::ZERO,
        };
        assert_eq!(fill("{body}", &notification), " --exec: call x (y)");
        assert_eq!(fill("--title={summary}", &notification), "--title=Hospes: 1 call waits for you");
        assert_eq!(fill("-n", &notification), "-n");
    }
}
