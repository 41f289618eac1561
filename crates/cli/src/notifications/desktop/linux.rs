//! Desktop notifications over D-Bus, by the Desktop Notifications Specification.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt as _;
use zbus::message::Type;
use zbus::names::OwnedUniqueName;
use zbus::zvariant::Value;
use zbus::{Connection, MatchRule, MessageStream};

use super::{FailureReport, with_advice};
use crate::notifications::notification_plan::Notification;

const SERVICE: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";
/// Maximum time of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of signals that wait to be read.
const MAX_QUEUED_SIGNALS: usize = 16;
/// Key of the button. A click on the notification itself has the key `default`.
const LOOK: &str = "look";
const CLICK: &str = "default";

/// The desktop of the user, connected when it is first needed.
#[derive(Debug, Default)]
pub(in crate::notifications) struct Desktop {
    session: Option<DesktopSession>,
    /// Id of the notification that is shown, or 0.
    shown: u32,
    failures: FailureReport,
}

#[derive(Debug)]
struct DesktopSession {
    connection: Connection,
    signals: MessageStream,
    /// The notification daemon.
    daemon: Option<OwnedUniqueName>,
    has_actions: bool,
    has_markup: bool,
}

impl Desktop {
    /// Shows a notification, in place of an earlier one. `can_look` adds the button that opens the console.
    pub(in crate::notifications) async fn show(&mut self, notification: &Notification, can_look: bool) {
        let shown = tokio::time::timeout(CALL_TIMEOUT, self.try_show(notification, can_look)).await;
        let problem = match shown {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {CALL_TIMEOUT:?}"),
        };
        // Connected anew next time: the desktop may have been restarted.
        self.session = None;
        self.shown = 0;
        self.failures.report(&problem);
    }

    async fn try_show(&mut self, notification: &Notification, can_look: bool) -> zbus::Result<()> {
        if self.session.is_none() {
            self.session = Some(DesktopSession::open().await?);
        }
        let Some(session) = &mut self.session else { return Ok(()) };
        let actions: &[&str] =
            if can_look && session.has_actions { &[CLICK, "Look", LOOK, "Look"] } else { &[] };
        let mut body = if actions.is_empty() { with_advice(notification) } else { notification.body.clone() };
        if session.has_markup {
            body = body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        }
        // Normal urgency, which the desktop may silence.
        let hints: HashMap<&str, Value<'_>> = HashMap::from([("urgency", Value::U8(1))]);
        let lifetime = i32::try_from(notification.lifetime.as_millis()).unwrap_or(i32::MAX);
        let arguments = (
            "Hospes",
            self.shown,
            "",
            notification.summary.as_str(),
            body.as_str(),
            actions,
            hints,
            lifetime,
        );
        let reply =
            session.connection.call_method(Some(SERVICE), PATH, Some(SERVICE), "Notify", &arguments).await?;
        session.daemon = reply.header().sender().map(|name| name.to_owned().into());
        self.shown = reply.body().deserialize()?;
        Ok(())
    }

    /// Closes the notification that is shown.
    pub(in crate::notifications) async fn close(&mut self) {
        let shown = std::mem::take(&mut self.shown);
        let Some(session) = self.session.as_ref().filter(|_| shown != 0) else { return };
        let arguments = (shown,);
        let close = session.connection.call_method(
            Some(SERVICE),
            PATH,
            Some(SERVICE),
            "CloseNotification",
            &arguments,
        );
        // It may have been closed by the person.
        let _closed = tokio::time::timeout(CALL_TIMEOUT, close).await;
    }

    /// Waits until the person wants to look at what waits. Signals that are read are no longer queued, so it loses
    /// nothing only if it is not cancelled between reading and returning: there is no wait in between.
    pub(in crate::notifications) async fn look_requested(&mut self) {
        let Some(session) = &mut self.session else { return std::future::pending().await };
        while let Some(message) = session.signals.next().await {
            let Ok(message) = message else { continue };
            // Any program on the bus can send the signal.
            let is_of_daemon = match (message.header().sender(), &session.daemon) {
                (Some(sender), Some(daemon)) => sender == daemon,
                _ => false,
            };
            let invoked: Result<(u32, String), _> = message.body().deserialize();
            let Ok((id, key)) = invoked else { continue };
            if is_of_daemon && id != 0 && id == self.shown && (key == LOOK || key == CLICK) {
                // Once for each notification, because the daemon closes it.
                self.shown = 0;
                return;
            }
        }
        // The connection is gone.
        self.session = None;
        self.shown = 0;
        std::future::pending().await
    }
}

impl DesktopSession {
    async fn open() -> zbus::Result<Self> {
        let connection = Connection::session().await?;
        let rule = MatchRule::builder()
            .msg_type(Type::Signal)
            .interface(SERVICE)?
            .member("ActionInvoked")?
            .path(PATH)?
            .build();
        let signals = MessageStream::for_match_rule(rule, &connection, Some(MAX_QUEUED_SIGNALS)).await?;
        let reply =
            connection.call_method(Some(SERVICE), PATH, Some(SERVICE), "GetCapabilities", &()).await?;
        let capabilities: Vec<String> = reply.body().deserialize()?;
        let has = |wanted: &str| capabilities.iter().any(|capability| capability == wanted);
        Ok(Self {
            connection,
            signals,
            daemon: None,
            has_actions: has("actions"),
            has_markup: has("body-markup"),
        })
    }
}
