//! Capabilities and instructions of the gateway, and its lists.

use hospes::{Call, Outcome};
use hospes_model::{
    DiscoverResult, Method, PromptsCapability, RawJson, Reply, ResourcesCapability, Revision, RpcError,
    ServerCapabilities, TASKS_EXTENSION, ToolsCapability,
};
use hospes_store::pins::ItemKind;

use super::gateway_state::ViewLease;
use super::handle::Gateway;
use crate::catalogue::MergedCatalogue;
use crate::server::{ListKinds, implementation};

impl Gateway {
    /// Returns the capabilities of the gateway. All of them are declared, always. A server with prompts may connect
    /// later, and an application of the older era reads the capabilities only once.
    pub(super) async fn discover(&self, using: &ViewLease) -> Outcome {
        let mut tools = ToolsCapability::new();
        tools.list_changed = Some(true);
        let mut prompts = PromptsCapability::new();
        prompts.list_changed = Some(true);
        let mut resources = ResourcesCapability::new();
        resources.list_changed = Some(true);
        resources.subscribe = Some(true);
        let mut capabilities = ServerCapabilities::new();
        capabilities.tools = Some(tools);
        capabilities.prompts = Some(prompts);
        capabilities.resources = Some(resources);
        capabilities.completions = Some(RawJson::empty_object());
        capabilities.logging = Some(RawJson::empty_object());
        // An application of the older era reads the extensions once, so servers that are starting get some time.
        self.shared.wait_for_first_start(&using.view, |_| self.shared.settings.greeting_wait).await;
        capabilities.extensions = self.extensions(using);
        // Whatever a server may have: which of its tools become tasks, the list and the server say.
        capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
        let versions = Revision::ALL.iter().map(|revision| revision.as_str().to_owned()).collect();
        let mut result = DiscoverResult::new(versions, capabilities);
        result.meta = result.meta.with(hospes_model::meta_key::SERVER_INFO, &implementation());
        result.instructions = self.instructions(using);
        Outcome::Complete(result.into())
    }

    /// Returns the instructions of the servers, each under the server's name.
    fn instructions(&self, using: &ViewLease) -> Option<String> {
        let view = &using.view;
        let mut text = String::new();
        let prefixes = self.shared.upstreams.prefixes();
        for (server, slot) in self.shared.upstreams.current() {
            if !using.sees(server) {
                continue;
            }
            let Some(upstream) = slot.of(view.user.as_ref()) else { continue };
            let Some(live) = upstream.offers(view.abilities) else { continue };
            let gate = slot.server.gate.as_ref();
            // Instructions go straight to the model, so only accepted ones are passed on (HOST-10).
            if gate.is_some_and(|gate| {
                gate.item_block_reason(&live.hashes, ItemKind::Instructions, "").is_some()
            }) {
                continue;
            }
            let Some(said) = live.connection.instructions.as_deref().filter(|said| !said.trim().is_empty())
            else {
                continue;
            };
            if self.is_single() {
                return Some(said.to_owned());
            }
            let Some(prefix) = prefixes.of(&upstream.server.name) else { continue };
            text.push_str(&format!("# {prefix} (tools {prefix}__…)\n\n{}\n\n", said.trim()));
        }
        let text = text.trim_end();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(super) async fn list(
        &self,
        call: &Call,
        using: &ViewLease,
        page: impl Fn(&MergedCatalogue, Option<&str>) -> Result<Reply, RpcError>,
    ) -> Result<Outcome, RpcError> {
        let params: hospes_model::PaginatedParams = call.decode()?;
        self.shared.wait_for_first_start(&using.view, |slot| slot.server.start_wait).await;
        // The pages of one list are of one state.
        if params.cursor.is_none() {
            self.shared.freshen(&using.view, list_kinds(&call.method)).await;
        }
        let catalogue = using.catalogue();
        page(&catalogue, params.cursor.as_deref()).map(Outcome::Complete)
    }
}

/// Returns the list that a method reads.
fn list_kinds(method: &Method) -> ListKinds {
    ListKinds {
        tools: *method == Method::ToolsList,
        prompts: *method == Method::PromptsList,
        // The templates are read with them.
        resources: *method == Method::ResourcesList,
    }
}
