//! Status of the host, as `hospes://status` returns it.

use hospes_policy::Preset;
use serde::{Deserialize, Serialize};

use crate::file_problems::FileProblem;
use crate::server::FleetNodeStatus;
use crate::upstream::{UpstreamState, UpstreamStatus};

/// A profile and the servers that it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProfileStatus {
    /// Name of the profile, the last segment of its endpoint's path.
    pub name: String,
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Names of its servers, in the order of the configuration.
    pub servers: Vec<String>,
}

/// Status of the host and all its servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HostStatus {
    /// The version of the host.
    pub version: String,
    /// Process id of the host.
    pub pid: u32,
    /// Time since the start, in milliseconds.
    pub uptime_ms: u64,
    /// The servers, in the order of the configuration.
    pub servers: Vec<UpstreamStatus>,
    /// Profiles, in alphabetical order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ProfileStatus>,
    /// Servers that were not started, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<(String, String)>,
    /// Configuration and policy files that were changed and could not be used, sorted by file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_problems: Vec<FileProblem>,
    /// Names shared by several tools or prompts, none of which is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collisions: Vec<String>,
    /// Problems with the audit record: it was broken when the host began to add to it, or it cannot be written now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_problem: Option<String>,
    /// Status as a node of a fleet, if the host is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<FleetNodeStatus>,
    /// True if calls go unasked, because there is no policy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_policy: bool,
    /// Preset of the guard, if one applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
}

impl HostStatus {
    pub(crate) fn new(servers: Vec<UpstreamStatus>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: 0,
            servers,
            profiles: Vec::new(),
            left_out: Vec::new(),
            file_problems: Vec::new(),
            collisions: Vec::new(),
            record_problem: None,
            node: None,
            without_policy: false,
            preset: None,
        }
    }

    /// Returns true if every server is ready.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.servers.iter().all(|server| server.state == UpstreamState::Ready)
    }
}
