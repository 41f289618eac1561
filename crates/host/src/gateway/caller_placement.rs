//! Requests that belong to the node of their caller, in a fleet: those for servers with placement `per-user`.

use hospes_model::Method;

use super::handle::Gateway;
use super::tasks::label_prefix;
use crate::catalogue::names::SEPARATOR;
use crate::catalogue::{ACCOUNTS_URI, STATUS_URI};
use crate::config::ServerPlacement;

impl Gateway {
    /// Returns true if a request of 2026-07-28 belongs to the node that serves its caller. `name` is the tool, prompt,
    /// URI or task that it names.
    ///
    /// A request that may be for several servers does if one of them has the placement `per-user`: the others can be
    /// called from any node.
    #[must_use]
    pub fn follows_caller(&self, method: &str, name: Option<&str>) -> bool {
        let follows =
            |position: usize| self.shared.upstreams[position].server.placement == ServerPlacement::PerUser;
        let any = || {
            let mut all = self.shared.upstreams.current();
            all.any(|(position, _)| self.shared.sees(self.scope, position) && follows(position))
        };
        match Method::from_name(method) {
            Method::ToolsCall
            | Method::PromptsGet
            | Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksCancel
                if !self.is_single() =>
            {
                let label =
                    name.and_then(|name| name.split_once(SEPARATOR)).map(|(label, _)| label_prefix(label));
                let prefixes = self.shared.upstreams.prefixes();
                let position = label.and_then(|prefix| self.position(prefixes.server(prefix)?));
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
}
