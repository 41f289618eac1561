//! Comparison of definitions that no person has accepted with tools that became known later.

use std::sync::Arc;

use hospes_inspect::lints::ToolNames;
use hospes_policy::visible_line;
use hospes_store::pins::{ItemKind, ServerPinState, Sha256Digest, StoredServer};
use hospes_store::{AuditEntry, StoreError};

use super::lint::needs_review;
use super::pin_store::PinStore;
use crate::server::UpstreamListing;

/// Items of a server, by kind, name and hash.
type ItemList = Vec<(ItemKind, String, Sha256Digest)>;

impl PinStore {
    /// Records the tools of a server that is not pinned, because it is part of the program, and compares the definitions
    /// of the others with them.
    ///
    /// # Errors
    /// If the state cannot be read or written.
    pub(super) async fn record_builtin(
        &self,
        server: &str,
        listing: &UpstreamListing,
    ) -> Result<(), StoreError> {
        let names = listing.tools.iter().map(|tool| tool.name.clone()).collect();
        let before = {
            let mut tools = self.tools.lock();
            let before = tools.last();
            tools.set(server, names);
            before
        };
        self.compare_with_later_tools(before).await
    }

    /// Compares the definitions that were accepted on first use with the tools that became known after a number, or were
    /// not compared yet. An item that calls for such a tool waits for a person from then on. Servers start in no order, so
    /// the one that names a tool may be seen before the one that has it.
    ///
    /// # Errors
    /// If the state cannot be read or written.
    pub(super) async fn compare_with_later_tools(&self, number: u64) -> Result<(), StoreError> {
        // A trial decides about its own server only.
        if !self.neighbours.is_empty() {
            return Ok(());
        }
        let (learned, last) = {
            let tools = self.tools.lock();
            (tools.learned_since(number), tools.last())
        };
        if learned.is_empty() {
            return Ok(());
        }
        let members = self.members.lock().clone();
        let is_member = |name: &String| members.as_ref().is_none_or(|members| members.contains(name));
        let all = self.store.servers().await?;
        for server in all.iter().filter(|server| server.is_current && is_member(&server.name)) {
            let others = self.tools.lock().others(&server.name).0;
            let learned: Vec<_> = others.into_iter().filter(|(name, _)| learned.contains(name)).collect();
            if server.state != ServerPinState::Accepted || learned.is_empty() {
                continue;
            }
            let calls = self.calls_for(server, learned).await?;
            if calls.is_empty() {
                continue;
            }
            let by = "calls for a tool of a new server";
            let entry = |(kind, name, _): &(ItemKind, String, Sha256Digest)| {
                self.entry(&server.name, Some((*kind, name)), "new", by)
            };
            let entries: Vec<AuditEntry> = calls.iter().map(entry).collect();
            let (name, target) = (&server.name, server.fingerprint.target);
            if self.store.withdraw_unreviewed(name, target, calls.clone(), entries.clone()).await? == 0 {
                // Another process was quicker.
                continue;
            }
            for ((kind, name, _), entry) in calls.iter().zip(entries) {
                tracing::warn!(
                    server = %server.name, kind = kind.as_str(), name = visible_line(name),
                    "suspicious: calls for a tool of a server that is new: blocked until accepted"
                );
                self.note(entry).await;
            }
        }
        self.tools.lock().set_compared(last);
        Ok(())
    }

    /// Returns the items of a server that no person has accepted and that call for one of these tools.
    async fn calls_for(
        &self,
        server: &StoredServer,
        learned: Vec<(String, Vec<String>)>,
    ) -> Result<ItemList, StoreError> {
        let unreviewed = server.items.iter().filter(|item| item.is_current && item.is_unreviewed());
        let unreviewed: ItemList = unreviewed.map(|item| (item.kind, item.name.clone(), item.hash)).collect();
        if unreviewed.is_empty() {
            return Ok(Vec::new());
        }
        let mut history = self.store.history(&server.name, server.fingerprint.target, None).await?;
        history.retain(|known| {
            unreviewed.contains(&(known.item.kind, known.item.name.clone(), known.item.hash))
        });
        let own = server.items.iter().filter(|item| item.is_current && item.kind == ItemKind::Tool);
        let own: Vec<String> = own.map(|item| item.name.clone()).collect();
        let name: Arc<str> = server.name.as_str().into();
        let search = move || {
            let pairs =
                learned.iter().flat_map(|(server, tools)| tools.iter().map(|tool| (&**server, &**tool)));
            let tools = ToolNames::new(pairs.chain(own.iter().map(|tool| (&*name, tool.as_str()))));
            let no_tools = ToolNames::default();
            let is_call = |text: &str| {
                tools.may_mention(text, &name)
                    && needs_review(text, &name, &tools)
                    && !needs_review(text, &name, &no_tools)
            };
            history.retain(|known| known.definition.as_deref().is_some_and(is_call));
            history.into_iter().map(|known| (known.item.kind, known.item.name, known.item.hash)).collect()
        };
        // Of a task that panicked nothing is known, so everything waits.
        Ok(tokio::task::spawn_blocking(search).await.unwrap_or(unreviewed))
    }
}
