//! Checks of results before they are recorded and delivered.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hospes::{Outcome, Peer};
use hospes_inspect::lints::ToolNames;
use hospes_inspect::pages::find_password_leak;
use hospes_model::{Meta, Method, Reply, ResourceBody, RpcError};
use hospes_policy::visible_line;
use parking_lot::Mutex;

use super::handle::Gateway;
use crate::catalogue::MergedCatalogue;
use crate::checks::ResultSource;
use crate::guard::TargetItem;
use crate::server::decoded;

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

/// Returns the origins that a page declares to send something to.
fn declared_origins(meta: &Meta) -> Vec<String> {
    let origins = || {
        let ui = meta.get("ui")?.to_value().ok()?;
        let origins = ui.get("csp")?.get("connectDomains")?.as_array()?.clone();
        Some(origins.iter().filter_map(|origin| origin.as_str().map(str::to_owned)).collect())
    };
    origins().unwrap_or_default()
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
        if let Some(why) = self.withheld_page(method, (server, item), &reply) {
            return Outcome::Failed(RpcError::invalid_request(why));
        }
        let tool = match item {
            TargetItem::Tool(_, tool) => *tool,
            _ => None,
        };
        Outcome::Complete(self.check_reply(peer, method, (server, tool), catalogue, reply))
    }

    /// Returns the reason that a page of an app is not delivered: it asks for a password and sends it to a place that it
    /// does not declare, which the policy that an application gives to the page does not prevent.
    fn withheld_page(
        &self,
        method: &Method,
        (server, item): (usize, &TargetItem<'_>),
        reply: &Reply,
    ) -> Option<String> {
        let TargetItem::Resource(uri) = item else { return None };
        let guard = self.shared.guard.as_ref()?;
        let server = &self.shared.upstreams[server].server;
        if !uri.starts_with("ui://") || !guard.checks().destinations || server.known.is_some() {
            return None;
        }
        let Ok(Reply::ReadResource(result)) = decoded(method, reply.clone()) else { return None };
        let host = result.contents.iter().find_map(|contents| {
            let page = match &contents.body {
                ResourceBody::Text(text) => Cow::Borrowed(&**text),
                ResourceBody::Blob(blob) => {
                    let bytes = STANDARD.decode(blob).ok()?;
                    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
                }
            };
            find_password_leak(&page, &declared_origins(&contents.meta))
        })?;
        tracing::warn!(server = %server.name, uri, "suspicious: a page sends a password to {}", visible_line(&host));
        Some(format!(
            "the page `{}` of the server `{}` was not delivered: it asks for a password and sends it to `{}`, which it \
             does not declare in `_meta.ui.csp.connectDomains`",
            visible_line(uri),
            server.name,
            visible_line(&host)
        ))
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
