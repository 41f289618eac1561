//! Subscriptions: one stream of change notifications (2026-07-28).

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::types::lenient::or_default;

/// Changes that a client subscribes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "or_default")]
    pub tools_list_changed: bool,
    /// Changes of the list of prompts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "or_default")]
    pub prompts_list_changed: bool,
    /// Changes of the list of resources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", deserialize_with = "or_default")]
    pub resources_list_changed: bool,
    /// Changes of these resources, by URI.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub resource_subscriptions: Vec<String>,
    /// Changes of these tasks, by id (tasks extension).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub task_ids: Vec<String>,
}

impl SubscriptionFilter {
    /// Creates an empty `SubscriptionFilter`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(SubscriptionFilter {
    set with_tools_list_changed(tools_list_changed: bool);
    set with_prompts_list_changed(prompts_list_changed: bool);
    set with_resources_list_changed(resources_list_changed: bool);
    set with_resource_subscriptions(resource_subscriptions: Vec<String>);
    set with_task_ids(task_ids: Vec<String>);
});

impl SubscriptionFilter {
    /// Returns true if the filter selects nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Params of `subscriptions/listen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionsListenParams {
    /// Changes to subscribe to.
    pub notifications: SubscriptionFilter,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl SubscriptionsListenParams {
    /// Creates a `SubscriptionsListenParams` with the required members; all others are absent.
    #[must_use]
    pub fn new(notifications: SubscriptionFilter) -> Self {
        Self { notifications, meta: Meta::new() }
    }
}

setters!(SubscriptionsListenParams {
    set with_meta(meta: Meta);
});

/// Result of `subscriptions/listen`, sent at the end of the stream, which its `_meta` names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionsListenResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl SubscriptionsListenResult {
    /// Creates an empty `SubscriptionsListenResult`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(SubscriptionsListenResult {
    set with_meta(meta: Meta);
});

/// Params of `notifications/subscriptions/acknowledged`: the changes that the stream will carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionsAcknowledgedParams {
    /// Changes that the stream will carry.
    pub notifications: SubscriptionFilter,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl SubscriptionsAcknowledgedParams {
    /// Creates a `SubscriptionsAcknowledgedParams` with the required members; all others are absent.
    #[must_use]
    pub fn new(notifications: SubscriptionFilter) -> Self {
        Self { notifications, meta: Meta::new() }
    }
}

setters!(SubscriptionsAcknowledgedParams {
    set with_meta(meta: Meta);
});
