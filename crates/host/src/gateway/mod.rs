//! All servers as one service.
//!
//! A call is routed by the name it carries and forwarded without being read: only the member of its params that holds
//! the name is written anew. If there are rules, the guard reads its arguments first, and changes nothing. Lists are
//! merged, cut into pages and written once for each change. Questions that a server asks during a call go back to the
//! application with a note about where they came from.
//!
//! `routed_call.rs` has the layers of a call in their order.

mod account_login;
mod admission;
mod call_record;
mod declared_extensions;
mod discovery;
mod elicitation;
mod era_fallback;
mod extension_lists;
mod extensions;
mod forward;
mod gateway_state;
mod handle;
mod header_params;
mod host_health;
mod host_servers;
mod host_status;
mod listen;
mod listing_differences;
mod local_answers;
mod person_call;
mod pin_checks;
mod profile_table;
mod propose_plan;
mod reach;
mod request_placement;
mod resources;
mod result_checks;
mod result_identity;
mod rewrite;
mod round_state;
mod route;
mod routed_call;
mod server_table;
mod sign_in_tool;
mod subscription_sink;
mod task_ids;
mod task_owners;
mod task_watches;
mod tasks;
#[cfg(test)]
mod tests;

use hospes::{Call, Context, Outcome, Service};
use hospes_model::{Method, Notification, RawJson, RpcError};

pub(crate) use gateway_state::GatewayState;
pub use handle::Gateway;
pub use host_health::{HostHealth, PartHealth, ServerCounts};
pub use host_servers::{HostServers, UnknownServerError};
pub use host_status::{HostStatus, ProfileStatus};
pub use person_call::{PERSON_APPLICATION, PersonCall, PersonCallError, PersonCallEvent};
pub(crate) use profile_table::GatewayScope;
use route::NamedItemKind;

impl Service for Gateway {
    async fn call(&self, call: Call) -> Outcome {
        self.shared.metrics.measure_server_operation(call, |call| self.answer_call(call)).await
    }

    async fn notified(&self, notification: Notification, context: Context) {
        let Notification::Other { method, params } = notification else { return };
        let params = params.unwrap_or_else(RawJson::empty_object);
        // Boxed, since notifications of extensions are rare and the others need not carry its future.
        Box::pin(self.unknown_notification(method, params, context)).await;
    }

    /// Returns true: a call never blocks its thread, and servers receive the calls of one application in order.
    fn is_cooperative(&self) -> bool {
        true
    }
}

impl Gateway {
    async fn answer_call(&self, call: Call) -> Outcome {
        let answer = match &self.shared.accounts {
            Some(accounts) => self.answer_with_account(accounts, call).await,
            None => self.answer(call).await,
        };
        match answer {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Answers a call that needs no sign-in, or whose user has signed in.
    async fn answer(&self, call: Call) -> Result<Outcome, RpcError> {
        person_call::check_name(&call)?;
        let using = self.shared.view(call.context.peer(), self.scope)?;
        match call.method {
            Method::ToolsCall => self.call_named_item(call, &using, NamedItemKind::Tool).await,
            Method::PromptsGet => self.call_named_item(call, &using, NamedItemKind::Prompt).await,
            Method::ResourcesRead => self.read(call, &using).await,
            Method::ToolsList => self.list(&call, &using, |all, cursor| all.tools.page(cursor)).await,
            Method::PromptsList => self.list(&call, &using, |all, cursor| all.prompts.page(cursor)).await,
            Method::ResourcesList => self.list(&call, &using, |all, cursor| all.resources.page(cursor)).await,
            Method::ResourceTemplatesList => {
                self.list(&call, &using, |all, cursor| all.templates.page(cursor)).await
            }
            Method::Complete => self.complete(call, &using).await,
            Method::SubscriptionsListen => self.listen(&call, &using).await,
            Method::Discover => Ok(self.discover(&using).await),
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
                self.handle_task_request(call, &using).await
            }
            ref own if declared_extensions::is_extension_method(own) => {
                Box::pin(self.forward_extension_request(call, &using)).await
            }
            ref other => Err(RpcError::method_not_found(other.name())),
        }
    }
}
