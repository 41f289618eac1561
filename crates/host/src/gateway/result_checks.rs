//! Checks of results before they are recorded and delivered.

use std::sync::{Arc, Weak};

use hospes::{Outcome, Peer};
use hospes_inspect::lints::ToolNames;
use hospes_model::{Method, Reply};
use parking_lot::Mutex;

use super::handle::Gateway;
use crate::catalogue::MergedCatalogue;
use crate::checks::ResultSource;
use crate::guard::TargetItem;

/// Maximum number of catalogues whose names are kept.
const MAX_CATALOGUES: usize = 16;

/// Names of the tools of each catalogue in use.
#[derive(Debug, Default)]
pub(crate) struct CatalogueToolNames(Mutex<Vec<(Weak<MergedCatalogue>, Arc<ToolNames>)>>);

impl CatalogueToolNames {
    fn get(
        &self,
        catalogue: &Arc<MergedCatalogue>,
        server_name: impl Fn(usize) -> Arc<str>,
    ) -> Arc<ToolNames> {
        let mut known = self.0.lock();
        let is_this = |one: &Weak<MergedCatalogue>| std::ptr::eq(one.as_ptr(), Arc::as_ptr(catalogue));
        if let Some((_, names)) = known.iter().find(|(one, _)| is_this(one)) {
            return Arc::clone(names);
        }
        let origins = catalogue.tools.items().iter().filter_map(|tool| catalogue.tools.origin(&tool.name));
        let tools: Vec<_> = origins.map(|origin| (server_name(origin.server), &*origin.name)).collect();
        let names = Arc::new(ToolNames::new(tools.iter().map(|(server, tool)| (&**server, *tool))));
        // The memory of a catalogue is not used again while its weak reference is here.
        known.retain(|(one, _)| one.strong_count() > 0);
        if known.len() >= MAX_CATALOGUES {
            known.remove(0);
        }
        known.push((Arc::downgrade(catalogue), Arc::clone(&names)));
        names
    }
}

impl Gateway {
    /// Checks the outcome of a call to an item. Nearly always this is the outcome itself, undecoded.
    pub(super) fn check_outcome(
        &self,
        peer: &Peer,
        method: &Method,
        (server, item): (usize, &TargetItem<'_>),
        catalogue: &Arc<MergedCatalogue>,
        outcome: Outcome,
    ) -> Outcome {
        let Outcome::Complete(reply) = outcome else { return outcome };
        let tool = match item {
            TargetItem::Tool(_, tool) => *tool,
            _ => None,
        };
        Outcome::Complete(self.check_reply(peer, method, (server, tool), catalogue, reply))
    }

    /// Checks the result of a method.
    pub(super) fn check_reply(
        &self,
        peer: &Peer,
        method: &Method,
        (server, tool): (usize, Option<&hospes_model::Tool>),
        catalogue: &Arc<MergedCatalogue>,
        reply: Reply,
    ) -> Reply {
        let Some(guard) = &self.shared.guard else { return reply };
        let settings = guard.checks();
        if !settings.results && !settings.structured_results && !settings.destinations {
            return reply;
        }
        let upstream = &self.shared.upstreams[server].server;
        let is_trusted =
            upstream.known.is_some() || guard.policy().is_some_and(|policy| policy.trusts(&upstream.name));
        let name = |position: usize| Arc::clone(&self.shared.upstreams[position].server.name);
        let tools = if is_trusted { Arc::default() } else { self.shared.tool_names.get(catalogue, name) };
        let source = ResultSource { server: &upstream.name, is_trusted, tool, tools: &tools };
        guard.call_checks().check_result(settings, peer, method, reply, source)
    }
}
