//! Nodes that have to serve requests of 2026-07-28, in a fleet: those for servers with placement `per-user`, and for tasks
//! that only the process of one node knows.

use hospes::transport::http_server::shared_sessions::RequestPlace;
use hospes_model::Method;

use super::handle::Gateway;
use super::task_ids::TaskId;
use crate::catalogue::{ACCOUNTS_URI, STATUS_URI};
use crate::config::ServerPlacement;

/// Kind of the transport of servers that every node reaches.
const HTTP: &str = "http";

impl Gateway {
    /// Returns the node that has to serve a request of 2026-07-28. `name` is the tool, prompt, URI or task that it names.
    #[must_use]
    pub fn request_place(&self, method: &str, name: Option<&str>) -> RequestPlace {
        let method = Method::from_name(method);
        let follows_caller = self.follows_caller(&method, name);
        let is_of_task = matches!(method, Method::TasksGet | Method::TasksUpdate | Method::TasksCancel);
        let task = name.filter(|_| is_of_task).and_then(TaskId::parse);
        match task.and_then(|task| task.node) {
            Some(node) if self.is_here(node) => RequestPlace::Anywhere,
            Some(node) => RequestPlace::Process { origin: node.to_owned(), else_caller: follows_caller },
            None if follows_caller => RequestPlace::Caller,
            None => RequestPlace::Anywhere,
        }
    }

    /// Returns true if a request belongs to the node that serves its caller.
    ///
    /// A request that may be for several servers does if one of them has the placement `per-user`: the others can be
    /// called from any node.
    fn follows_caller(&self, method: &Method, name: Option<&str>) -> bool {
        let follows =
            |position: usize| self.shared.upstreams[position].server.placement == ServerPlacement::PerUser;
        let any = || {
            let mut all = self.shared.upstreams.current();
            all.any(|(position, _)| self.shared.sees(self.scope, position) && follows(position))
        };
        match method {
            Method::ToolsCall
            | Method::PromptsGet
            | Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksCancel
                if !self.is_single() =>
            {
                let prefixes = self.shared.upstreams.prefixes();
                let named = name.and_then(TaskId::parse);
                let position = named.and_then(|named| self.position(prefixes.server(named.prefix)?));
                // What names no server is answered with an error, wherever it is.
                position.is_some_and(follows)
            }
            Method::ResourcesRead if matches!(name, Some(STATUS_URI | ACCOUNTS_URI)) => false,
            // Lists are the same at all nodes.
            Method::Discover
            | Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourceTemplatesList => false,
            _ => any(),
        }
    }

    /// Returns true if this node has this name, or had it since it started.
    pub(super) fn is_here(&self, node: &str) -> bool {
        self.shared.nodes.as_ref().is_some_and(|nodes| nodes.is_here(node))
    }

    /// Returns the name of this node, if a new task of the server is known to a process of this node alone.
    pub(super) fn node_of_new_task(&self, server: usize) -> Option<String> {
        let server = &self.shared.upstreams[server].server;
        let is_reached_by_all = server.placement == ServerPlacement::One || server.transport == HTTP;
        self.shared.nodes.as_ref().filter(|_| !is_reached_by_all)?.node()
    }

    /// Returns true if a task was known to the process of another node alone, and that node has certainly ended.
    pub(super) async fn ended_with_its_node(&self, shown: &str) -> bool {
        let Some(node) = TaskId::parse(shown).and_then(|task| task.node) else { return false };
        match &self.shared.nodes {
            Some(nodes) => nodes.has_ended(node).await,
            None => false,
        }
    }
}
