//! Notifications, typed by their method, in every revision.

use std::borrow::Cow;

use serde::Serialize;

use crate::message::write_notification;
use crate::revision::v2025_11_25::{NEWER_META, WireTask, WireTaskWithMeta};
use crate::types::*;
use crate::{Id, Method, RawJson, Revision, meta_key};

/// A message that wants no answer, read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notification {
    /// How far a request has come.
    Progress(ProgressParams),
    /// A log message.
    LogMessage(LogMessageParams),
    /// The tools changed.
    ToolsListChanged,
    /// The prompts changed.
    PromptsListChanged,
    /// The resources changed.
    ResourcesListChanged,
    /// A resource changed.
    ResourceUpdated(ResourceUpdatedParams),
    /// A request is no longer wanted.
    Cancelled(CancelledParams),
    /// A person finished what a URL elicitation opened (2025-11-25).
    ElicitationComplete(ElicitationCompleteParams),
    /// What a stream of changes will carry (2026-07-28).
    SubscriptionsAcknowledged(SubscriptionsAcknowledgedParams),
    /// A task changed (2025-11-25).
    TaskStatus(Box<Task>),
    /// A task changed, with what it has come to (2026-07-28).
    TasksChanged(Box<GetTaskResult>),
    /// The client's roots changed (up to 2025-11-25).
    RootsListChanged,
    /// The client is ready (up to 2025-11-25).
    Initialized,
    /// One that the specification does not define.
    Other {
        /// The method.
        method: Method,
        /// The params as they came.
        params: Option<RawJson>,
    },
}

impl Notification {
    /// The method. Of a changed task it is that of 2026-07-28 or of 2025-11-25, as the variant says.
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

    /// Appends the whole message as `to` has it, and says whether that revision can say it; if not, nothing is
    /// appended.
    ///
    /// `subscription` is the id of the listen request whose stream carries it (SUBS-04).
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn encode(
        &self,
        to: Revision,
        subscription: Option<&Id>,
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
        subscription: Option<&Id>,
        out: &mut Vec<u8>,
    ) -> Result<bool, serde_json::Error> {
        /// Params without members of their own.
        #[derive(Serialize)]
        struct OnlyMeta<'a> {
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
            Self::Progress(params) if to == Revision::V2024_11_05 && params.message.is_some() => {
                let mut params = params.clone();
                params.message = None;
                with_meta!(&params)
            }
            // Only 2025-11-25 lets a cancellation go without an id.
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
                put(out, method, Some(&WireTaskWithMeta { meta, task: WireTask::from(&changed.task) }))
            }
            Self::TasksChanged(changed) => with_meta!(changed.as_ref()),
            Self::ToolsListChanged
            | Self::PromptsListChanged
            | Self::ResourcesListChanged
            | Self::RootsListChanged
            | Self::Initialized => {
                let empty = Meta::new();
                let meta = meta_for(&empty, to, subscription);
                put(out, method, (!meta.is_empty()).then_some(&OnlyMeta { meta: &meta }))
            }
            Self::Other { params, .. } => put(out, method, params.as_ref()),
        }
    }

    /// Reads a notification of a peer.
    ///
    /// # Errors
    /// When the params do not have the shape that the method says. Nobody is to be told: a notification is never
    /// answered (MSG-20).
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

    /// The listen request that a notification of a stream belongs to (SUBS-04).
    #[must_use]
    pub fn subscription_of(params: Option<&RawJson>) -> Option<Id> {
        #[derive(serde::Deserialize)]
        struct Params {
            #[serde(rename = "_meta")]
            meta: Meta,
        }
        params?.decode::<Params>().ok()?.meta.read(meta_key::SUBSCRIPTION_ID)
    }
}

/// The metadata as `to` has it, with the id of the stream.
fn meta_for<'a>(meta: &'a Meta, to: Revision, subscription: Option<&Id>) -> Cow<'a, Meta> {
    let mut meta = Cow::Borrowed(meta);
    if to.is_legacy() {
        crate::revision::step::without(&mut meta, NEWER_META);
    }
    if to != Revision::V2025_11_25 {
        crate::revision::step::without(&mut meta, crate::revision::v2025_06_18::NEWER_META);
    }
    match subscription {
        Some(id) => Cow::Owned(meta.into_owned().with(meta_key::SUBSCRIPTION_ID, id)),
        None => meta,
    }
}
