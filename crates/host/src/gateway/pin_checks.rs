//! Pins layer: checks that items which differ from their accepted definition are not used.

use hospes_store::pins::ItemKind;

use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::reach::ReachedUpstream;
use crate::guard::TargetItem;
use crate::server::{BlockReason, DefinitionGate};
use crate::upstream::ReadyConnection;

impl Gateway {
    /// Returns the reason that an item is blocked for this application, according to its listing. This check runs
    /// before a person is asked.
    pub(super) fn block_reason(
        &self,
        server: usize,
        what: &TargetItem<'_>,
        using: &ViewLease,
    ) -> Option<BlockReason> {
        let slot = &self.shared.upstreams[server];
        let gate = slot.server.gate.as_ref()?;
        let upstream = slot.of(using.view.user.as_ref())?;
        let own = upstream.own(&using.application, using.view.abilities);
        let own = own.and_then(|line| line.phase().offers().cloned());
        // What is being started is looked at when it is there.
        let live = own.or_else(|| upstream.offers(using.view.abilities))?;
        of(&**gate, &live, what)
    }

    /// Returns the reason that an item is blocked, according to the listing on the connection that the call uses. The
    /// item may have changed between the list and the call.
    pub(super) async fn block_reason_on_connection(
        &self,
        server: usize,
        what: &TargetItem<'_>,
        reached: &mut ReachedUpstream,
    ) -> Option<BlockReason> {
        let gate = self.shared.upstreams[server].server.gate.as_ref()?;
        // What the server says to have changed cannot be compared before it is read.
        if !reached.lease.line.wait_for_reread().await {
            return Some(BlockReason::Unread);
        }
        // The same connection, with its lists as they are by now.
        if let Some(now) = reached.lease.line.live().filter(|now| now.id == reached.live.id) {
            reached.live = now;
        }
        of(&**gate, &reached.live, what)
    }
}

fn of(gate: &dyn DefinitionGate, live: &ReadyConnection, what: &TargetItem<'_>) -> Option<BlockReason> {
    match what {
        TargetItem::Tool(name, _) => gate.item_block_reason(&live.hashes, ItemKind::Tool, name),
        TargetItem::Prompt(name) | TargetItem::PromptCompletion(name) => {
            gate.item_block_reason(&live.hashes, ItemKind::Prompt, name)
        }
        // The set of resources changes all the time, so a resource that was never accepted can be read. Only a
        // rejected definition blocks it.
        TargetItem::Resource(uri) | TargetItem::Subscription(uri) => {
            gate.server_block_reason().or_else(|| {
                let rejected = gate.item_block_reason(&live.hashes, ItemKind::Resource, uri);
                rejected.filter(|why| matches!(why, BlockReason::Rejected))
            })
        }
        TargetItem::TemplateCompletion(_) | TargetItem::Method(..) | TargetItem::Notification(..) => {
            gate.server_block_reason()
        }
    }
}
