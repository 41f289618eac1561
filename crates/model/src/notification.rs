//! Notifications, typed by their method, in every revision.

use std::borrow::Cow;

use serde::Serialize;

use crate::message::write_notification;
use crate::revision::v2025_11_25::{NEWER_META, WireTask, WireTaskWithMeta};
use crate::types::*;
use crate::{Method, RawJson, RequestId, Revision, meta_key};

/// A decoded notification.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notification {
    /// Progress of a request.
    Progress(ProgressParams),
    /// A log message.
    LogMessage(LogMessageParams),
    /// The list of tools has changed.
    ToolsListChanged,
    /// The list of prompts has changed.
    PromptsListChanged,
    /// The list of resources has changed.
    ResourcesListChanged,
    /// A resource has changed.
    ResourceUpdated(ResourceUpdatedParams),
    /// A request is cancelled.
    Cancelled(CancelledParams),
    /// A URL elicitation is complete (2025-11-25).
    ElicitationComplete(ElicitationCompleteParams),
    /// Changes that a subscription stream will carry (2026-07-28).
    SubscriptionsAcknowledged(SubscriptionsAcknowledgedParams),
    /// Status of a task (2025-11-25).
    TaskStatus(Box<Task>),
    /// State of a task, with its result or error (2026-07-28).
    TasksChanged(Box<GetTaskResult>),
    /// The client's roots have changed (up to 2025-11-25).
    RootsListChanged,
    /// The client is ready (up to 2025-11-25).
    Initialized,
    /// A notification that the specification does not define.
    Other {
        /// Method of the notification.
        method: Method,
        /// Params, unchanged.
        params: Option<RawJson>,
    },
}

impl Notification {
    /// Returns the method. The two variants for tasks have different methods, one for 2025-11-25 and one for
    /// 2026-07-28.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::Progress(_) => Method::Progress,
            Self::LogMessage(_) => Method::LogMessage,
            Self::ToolsListChanged => Method::ToolsListChanged,
            Self::PromptsListChanged => Method::PromptsListChanged,
            Self::ResourcesListChanged => Method::ResourcesListChanged,
            Self::ResourceUpdated(_) => Method::ResourceUpdated,
            Self::Cancelled(_) => Method::Cancelled,
            Self::ElicitationComplete(_) => Method::ElicitationComplete,
            Self::SubscriptionsAcknowledged(_) => Method::SubscriptionsAcknowledged,
            Self::TaskStatus(_) => Method::TaskStatus,
            Self::TasksChanged(_) => Method::TasksChanged,
            Self::RootsListChanged => Method::RootsListChanged,
            Self::Initialized => Method::Initialized,
            Self::Other { method, .. } => method.clone(),
        }
    }

    /// Appends the whole message in revision `to`. Returns false and appends nothing if the revision has no such
    /// notification.
    ///
    /// `subscription` is the id of the listen request whose stream carries it (SUBS-04).
    ///
    /// # Errors
    /// If it cannot be serialized.
    pub fn encode(
        &self,
        to: Revision,
        subscription: Option<&RequestId>,
        out: &mut Vec<u8>,
    ) -> Result<bool, serde_json::Error> {
        let method = match (self, to) {
            (Self::TaskStatus(_), Revision::V2026_07_28) => Method::TasksChanged,
            (Self::TasksChanged(_), Revision::V2025_11_25) => Method::TaskStatus,
            _ => self.method(),
        };
        if !method.in_revision(to) {
            return Ok(false);
        }
        let start = out.len();
        let written = self.write(&method, to, subscription.filter(|_| !to.is_legacy()), out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn write(
        &self,
        method: &Method,
        to: Revision,
        subscription: Option<&RequestId>,
        out: &mut Vec<u8>,
    ) -> Result<bool, serde_json::Error> {
        /// Params without members other than `_meta`.
        #[derive(Serialize)]
        struct MetaOnlyParams<'a> {
            #[serde(rename = "_meta")]
            meta: &'a Meta,
        }

        fn put<P: Serialize>(
            out: &mut Vec<u8>,
            method: &Method,
            params: Option<&P>,
        ) -> Result<bool, serde_json::Error> {
            write_notification(out, method.name(), params).map(|()| true)
        }

        macro_rules! with_meta {
            ($params:expr) => {{
                let params = $params;
                match meta_for(&params.meta, to, subscription) {
                    Cow::Borrowed(_) => put(out, method, Some(params)),
                    Cow::Owned(meta) => {
                        let mut params = params.clone();
                        params.meta = meta;
                        put(out, method, Some(&params))
                    }
                }
            }};
        }

        match self {
            // `message` was added in 2025-03-26.
            Self::Progress(params) if to == Revision::V2024_11_05 && params.message.is_some() => {
                let mut params = params.clone();
                params.message = None;
                with_meta!(&params)
            }
            // Only 2025-11-25 allows a cancellation without an id.
            Self::Cancelled(params) if params.request_id.is_none() && to != Revision::V2025_11_25 => {
                Ok(false)
            }
            Self::Progress(params) => with_meta!(params),
            Self::LogMessage(params) => with_meta!(params),
            Self::ResourceUpdated(params) => with_meta!(params),
            Self::Cancelled(params) => with_meta!(params),
            Self::ElicitationComplete(params) => with_meta!(params),
            Self::SubscriptionsAcknowledged(params) => with_meta!(params),
            Self::TaskStatus(task) if to == Revision::V2025_11_25 => {
                let task = WireTaskWithMeta { meta: Meta::new(), task: WireTask::from(task.as_ref()) };
                put(out, method, Some(&task))
            }
            Self::TaskStatus(task) => with_meta!(&GetTaskResult::new(task.as_ref().clone())),
            Self::TasksChanged(changed) if to == Revision::V2025_11_25 => {
                let meta = meta_for(&changed.meta, to, None).into_owned();
                put(out, method, Some(&WireTaskWithMeta { meta, task: WireTask::from(changed.as_ref()) }))
            }
            Self::TasksChanged(changed) => with_meta!(changed.as_ref()),
            Self::ToolsListChanged
            | Self::PromptsListChanged
            | Self::ResourcesListChanged
            | Self::RootsListChanged
            | Self::Initialized => {
                let empty = Meta::new();
                let meta = meta_for(&empty, to, subscription);
                put(out, method, (!meta.is_empty()).then_some(&MetaOnlyParams { meta: &meta }))
            }
            Self::Other { params, .. } => put(out, method, params.as_ref()),
        }
    }

    /// Decodes a notification from a peer.
    ///
    /// # Errors
    /// If the params do not match the method. Do not report this to the peer: a notification is never answered
    /// (MSG-20).
    pub fn decode(
        method: &Method,
        from: Revision,
        params: Option<&RawJson>,
    ) -> Result<Self, serde_json::Error> {
        let empty = RawJson::empty_object();
        let given = params.unwrap_or(&empty);
        Ok(match method {
            Method::Progress => Self::Progress(given.decode()?),
            Method::LogMessage => Self::LogMessage(given.decode()?),
            Method::ToolsListChanged => Self::ToolsListChanged,
            Method::PromptsListChanged => Self::PromptsListChanged,
            Method::ResourcesListChanged => Self::ResourcesListChanged,
            Method::ResourceUpdated => Self::ResourceUpdated(given.decode()?),
            Method::Cancelled => Self::Cancelled(given.decode()?),
            Method::ElicitationComplete => Self::ElicitationComplete(given.decode()?),
            Method::SubscriptionsAcknowledged => Self::SubscriptionsAcknowledged(given.decode()?),
            Method::TaskStatus => {
                let wire: WireTaskWithMeta = given.decode()?;
                Self::TaskStatus(Box::new(wire.task.into()))
            }
            Method::TasksChanged if !from.is_legacy() => Self::TasksChanged(given.decode()?),
            Method::RootsListChanged => Self::RootsListChanged,
            Method::Initialized => Self::Initialized,
            other => Self::Other { method: other.clone(), params: params.cloned() },
        })
    }

    /// Returns the id of the listen request that a notification of a stream belongs to (SUBS-04).
    #[must_use]
    pub fn subscription_of(params: Option<&RawJson>) -> Option<RequestId> {
        #[derive(serde::Deserialize)]
        struct SubscriptionIdPeek {
            #[serde(rename = "_meta")]
            meta: Meta,
        }
        params?.decode::<SubscriptionIdPeek>().ok()?.meta.read(meta_key::SUBSCRIPTION_ID)
    }
}

/// Converts the metadata to `to` and adds the id of the stream.
fn meta_for<'a>(meta: &'a Meta, to: Revision, subscription: Option<&RequestId>) -> Cow<'a, Meta> {
    let mut meta = Cow::Borrowed(meta);
    if to.is_legacy() {
        crate::revision::step::remove_keys(&mut meta, NEWER_META);
    }
    if to != Revision::V2025_11_25 {
        crate::revision::step::remove_keys(&mut meta, crate::revision::v2025_06_18::NEWER_META);
    }
    match subscription {
        Some(id) => Cow::Owned(meta.into_owned().with(meta_key::SUBSCRIPTION_ID, id)),
        None => meta,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(notification: &Notification, to: Revision) -> Option<String> {
        let mut out = Vec::new();
        notification.encode(to, None, &mut out).unwrap().then(|| String::from_utf8(out).unwrap())
    }

    fn read(method: &Method, from: Revision, params: serde_json::Value) -> Notification {
        Notification::decode(method, from, Some(&params.into())).unwrap()
    }

    /// covers: PROG-04
    #[test]
    fn what_is_said_is_read_as_the_same() {
        let all = [
            Notification::Progress(ProgressParams::new("p".into(), 0.5).with_total(1.0).with_message("half")),
            Notification::LogMessage(LogMessageParams::new(LoggingLevel::Alert, RawJson::null())),
            Notification::ToolsListChanged,
            Notification::PromptsListChanged,
            Notification::ResourcesListChanged,
            Notification::ResourceUpdated(ResourceUpdatedParams::new("a:b")),
            Notification::Cancelled(CancelledParams::new().with_request_id(5).with_reason("r")),
            Notification::ElicitationComplete(ElicitationCompleteParams::new("e")),
            Notification::SubscriptionsAcknowledged(SubscriptionsAcknowledgedParams::new(
                SubscriptionFilter::new().with_task_ids(vec!["t".to_owned()]),
            )),
            Notification::TaskStatus(Box::new(Task::new("t", "now").with_poll_interval_ms(5_u64))),
            Notification::TasksChanged(Box::new(
                GetTaskResult::new(Task::new("t", "now")).with_result(RawJson::empty_object()),
            )),
            Notification::RootsListChanged,
            Notification::Initialized,
            Notification::Other {
                method: Method::from_name("acme/did"),
                params: Some(json!({"x": 1}).into()),
            },
            Notification::Other { method: Method::from_name("acme/did"), params: None },
        ];
        for notification in &all {
            let mut revisions = 0;
            for to in Revision::ALL.into_iter().filter(|to| notification.method().in_revision(*to)) {
                let text = said(notification, to).unwrap();
                let Ok(crate::Frame::Single(crate::JsonRpcMessage::Notification(message))) =
                    crate::message::decode(text.as_bytes())
                else {
                    panic!("{text}")
                };
                let params = message.params.map(RawJson::from);
                let method = Method::from_name(&message.method);
                let mut expected = notification.clone();
                if let (Notification::Progress(progress), Revision::V2024_11_05) = (&mut expected, to) {
                    progress.message = None;
                }
                assert_eq!(Notification::decode(&method, to, params.as_ref()).unwrap(), expected, "{to}");
                revisions += 1;
            }
            assert!(revisions > 0, "{notification:?}");
        }
    }

    #[test]
    fn a_changed_task_is_told_in_the_words_of_the_revision() {
        let task = Task::new("t", "now").with_ttl_ms(5_u64);
        let new = Notification::TasksChanged(Box::new(
            GetTaskResult::new(task.clone()).with_result(RawJson::empty_object()),
        ));
        let text = said(&new, Revision::V2025_11_25).unwrap();
        assert!(text.contains("notifications/tasks/status") && text.contains("\"ttl\":5"), "{text}");
        assert!(!text.contains("result"), "{text}");
        let old = Notification::TaskStatus(Box::new(task));
        let text = said(&old, Revision::V2026_07_28).unwrap();
        assert!(text.contains("\"notifications/tasks\"") && text.contains("\"ttlMs\":5"), "{text}");
        assert_eq!(said(&old, Revision::V2025_06_18), None);
    }

    #[test]
    fn what_a_revision_does_not_have_is_read_as_unknown() {
        let params =
            json!({"taskId": "t", "status": "working", "createdAt": "c", "lastUpdatedAt": "c", "ttlMs": 5});
        for from in Revision::ALL {
            let told = read(&Method::TasksChanged, from, params.clone());
            assert_eq!(
                matches!(told, Notification::TasksChanged(_)),
                from == Revision::V2026_07_28,
                "{from}"
            );
            assert_eq!(matches!(told, Notification::Other { .. }), from.is_legacy(), "{from}");
        }
    }

    #[test]
    fn the_task_that_a_notification_belongs_to_is_said_in_one_revision_only() {
        let meta = Meta::new().with("a/b", &1).with(meta_key::RELATED_TASK, &json!({"taskId": "t"}));
        let updated = Notification::ResourceUpdated(ResourceUpdatedParams::new("a:b").with_meta(meta));
        for to in Revision::ALL {
            let text = said(&updated, to).unwrap();
            assert!(text.contains("a/b"), "{to}: {text}");
            assert_eq!(text.contains(meta_key::RELATED_TASK), to == Revision::V2025_11_25, "{to}: {text}");
        }
    }

    #[test]
    fn a_cancellation_without_an_id_is_read_and_said_in_one_revision_only() {
        let nothing = read(&Method::Cancelled, Revision::V2025_11_25, json!({"reason": "r"}));
        assert!(matches!(&nothing, Notification::Cancelled(params) if params.request_id.is_none()));
        assert!(said(&nothing, Revision::V2025_11_25).is_some());
        assert_eq!(said(&nothing, Revision::V2025_06_18), None);
    }

    #[test]
    fn params_of_another_shape_are_refused() {
        for (method, params) in [
            (Method::Progress, json!({"progress": 1})),
            (Method::Progress, json!({"progressToken": null, "progress": 1})),
            (Method::LogMessage, json!({"level": "loud", "data": 1})),
            (Method::LogMessage, json!({"level": "info"})),
            (Method::ResourceUpdated, json!({})),
        ] {
            let params = RawJson::from(params);
            assert!(
                Notification::decode(&method, Revision::LATEST, Some(&params)).is_err(),
                "{method} {params:?}"
            );
        }
        assert!(Notification::decode(&Method::Progress, Revision::LATEST, None).is_err());
        let list = Notification::decode(&Method::ToolsListChanged, Revision::LATEST, None).unwrap();
        assert_eq!(list, Notification::ToolsListChanged);
    }

    /// covers: SUBS-04
    #[test]
    fn the_stream_of_a_notification_is_on_it_and_nowhere_else() {
        let mut out = Vec::new();
        let foreign = Meta::new().with(meta_key::SUBSCRIPTION_ID, &"theirs");
        let updated = Notification::ResourceUpdated(ResourceUpdatedParams::new("a:b").with_meta(foreign));
        updated.encode(Revision::V2026_07_28, Some(&7.into()), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\"io.modelcontextprotocol/subscriptionId\":7") && !text.contains("theirs"),
            "{text}"
        );
        let params =
            RawJson::from(serde_json::from_str::<serde_json::Value>(&text).unwrap()["params"].clone());
        assert_eq!(Notification::subscription_of(Some(&params)), Some(7.into()));
        assert_eq!(Notification::subscription_of(None), None);
        let legacy = said(&updated, Revision::V2025_11_25).unwrap();
        assert!(!legacy.contains("_meta"), "{legacy}");
    }
}
