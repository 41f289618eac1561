//! One server, as all of its connections and those who call it see it.

use std::sync::Arc;
use std::time::Duration;

use hospes_policy::{FlowLabels, KnownLabels, PackageLabels};
use hospes_store::pins::ItemKind;
use tokio::sync::{Semaphore, watch};

use super::definition_gate::{DefinitionGate, ListingRecorder};
use super::launch_recorder::LaunchRecorder;
use super::server_folders::ServerFolders;
use crate::config::{ArgumentCheck, BackoffPolicy, ServerPlacement, server_label};

/// Package that a server runs, if there are built-in labels for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerPackage {
    pub(crate) labels: PackageLabels,
    /// True if it is certain that the server runs this package.
    pub(crate) is_certain: bool,
}

/// Properties that all connections of a server share.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamServer {
    pub(crate) name: Arc<str>,
    /// Profile for which the server runs, with the secrets of that profile; none for everybody.
    pub(crate) profile: Option<Arc<str>>,
    /// Whose account is used there, where each user has one.
    pub(crate) user: Option<Arc<str>>,
    /// Accepted definition of the server; none if nothing is pinned.
    pub(crate) gate: Option<Arc<dyn DefinitionGate>>,
    /// Recorder of what the server lists, if nothing is pinned of it and others are compared with it.
    pub(crate) listings: Option<Arc<dyn ListingRecorder>>,
    /// The server as it may be shown.
    pub(crate) shown: String,
    /// The hash of its command line or URL: what a person decided about a server is not decided about another that takes
    /// its name. Whether anything is pinned makes no difference.
    pub(crate) target: Arc<str>,
    /// Recorder of the server's launches and connections.
    pub(crate) launches: Option<Arc<LaunchRecorder>>,
    /// Labels of the server's data; set if the server is built into the program.
    pub(crate) known: Option<FlowLabels>,
    /// Built-in labels of the package that the server runs.
    pub(crate) package: Option<ServerPackage>,
    /// Strictness with which arguments of its tools are checked.
    pub(crate) check_arguments: ArgumentCheck,
    /// Nodes of a fleet that run it.
    pub(crate) placement: ServerPlacement,
    /// Folders of this machine that the server can reach.
    pub(crate) folders: ServerFolders,
    /// Transport: `stdio`, `http` or `builtin`.
    pub(crate) transport: &'static str,
    /// Under what its era and transport are remembered.
    pub(crate) definition: Option<String>,
    pub(crate) policy: BackoffPolicy,
    /// From starting or dialling until its lists are read.
    pub(crate) connect_timeout: Duration,
    /// Time that the first lists wait for the server.
    pub(crate) start_wait: Duration,
    /// Time after which an idle connection is closed.
    pub(crate) idle_after: Duration,
    /// Permits of processes that start at once, for all servers together; none for what is no process.
    pub(crate) starts: Option<Arc<Semaphore>>,
    /// True once it was found out that it can only ask in the older era. Shared by all of its connections.
    pub(crate) older: Arc<watch::Sender<bool>>,
}

impl UpstreamServer {
    /// Returns the name under which the server is listed.
    pub(crate) fn label(&self) -> String {
        server_label(&self.name, self.profile.as_deref())
    }

    /// Returns what is known about a tool without the policy file. The built-in labels may lower labels if a person has
    /// accepted the definition of the tool, with the command line that names the package.
    pub(crate) fn known_labels(&self, tool: Option<&str>) -> KnownLabels {
        let Some(ServerPackage { labels, is_certain }) = self.package else {
            return KnownLabels { program: self.known, ..KnownLabels::default() };
        };
        let is_accepted = |tool: &str| {
            self.gate.as_ref().is_some_and(|gate| gate.is_accepted_by_person(ItemKind::Tool, tool))
        };
        let may_lower = is_certain && tool.is_some_and(is_accepted);
        KnownLabels { program: self.known, package: Some(labels), may_lower }
    }

    /// Reconnects all connections of newer eras in the older era. Returns true if this was not requested before.
    pub(crate) fn switch_to_legacy(&self) -> bool {
        !self.older.send_replace(true)
    }
}
