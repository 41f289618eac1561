//! Comparison of a server's definitions with the accepted ones, as connections and calls use it.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use hospes_store::pins::ItemKind;
use tokio::sync::watch;

use super::block_reason::BlockReason;
use super::connector::{ConnectorFuture, UpstreamConnectError};
use super::definition_hashes::DefinitionHashes;
use super::listing::UpstreamListing;

/// Enforcement of the accepted definitions of one server.
pub(crate) trait DefinitionGate: Debug + Send + Sync + 'static {
    /// Checks the program of the server before it is started. Returns true if it starts in quarantine.
    ///
    /// # Errors
    /// The server must not be started: it was rejected, its program differs from the accepted one, or the pins cannot
    /// be read.
    fn check_start(&self) -> ConnectorFuture<'_, Result<bool, UpstreamConnectError>>;

    /// Records the listing of a connection. The listing must not be used before this returns.
    ///
    /// # Errors
    /// When it cannot be told what was accepted.
    fn record_listing<'a>(
        &'a self,
        instructions: Option<&'a str>,
        listing: &'a UpstreamListing,
        sight: String,
    ) -> ConnectorFuture<'a, Result<Arc<DefinitionHashes>, UpstreamConnectError>>;

    /// Returns a receiver that changes when the status may have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Returns true if a connection must be replaced because its quarantine no longer matches the status. The server
    /// was told on connecting which requests it may make.
    fn needs_reconnect(&self, is_quarantined: bool) -> bool;

    /// Returns true if the server may be started, as far as is known.
    fn may_start(&self) -> bool;

    /// Returns the reason for which the whole server is blocked, if it is.
    fn server_block_reason(&self) -> Option<BlockReason>;

    /// Returns the reason for which an item is blocked, given the hashes of its connection.
    fn item_block_reason(&self, hashes: &DefinitionHashes, kind: ItemKind, name: &str)
    -> Option<BlockReason>;

    /// Returns true if a person has accepted the definitions of an item: its first use alone does not count.
    fn is_accepted_by_person(&self, kind: ItemKind, name: &str) -> bool;

    /// Returns the listing of a connection without blocked content.
    fn filter_listing<'l>(
        &self,
        listing: &'l UpstreamListing,
        hashes: &DefinitionHashes,
    ) -> Cow<'l, UpstreamListing>;

    /// Returns a warning for the person, as one sentence.
    fn warning(&self) -> Option<String>;
}

/// Record of the listings of a server that is not pinned.
pub(crate) trait ListingRecorder: Debug + Send + Sync + 'static {
    /// Records the listing of a connection.
    fn record_listing<'a>(&'a self, listing: &'a UpstreamListing) -> ConnectorFuture<'a, ()>;
}
