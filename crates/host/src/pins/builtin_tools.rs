//! The tools of a built-in server, as other servers' definitions are compared with them.

use std::sync::Arc;

use super::pin_store::{PinStore, format_error_chain};
use crate::server::{ConnectorFuture, ListingRecorder, UpstreamListing};

/// Recorder of the tools of a built-in server, which is not pinned.
#[derive(Debug)]
pub(crate) struct BuiltinTools {
    server: String,
    book: Arc<PinStore>,
}

impl BuiltinTools {
    /// Creates the recorder of a server.
    pub(super) fn new(server: &str, book: &Arc<PinStore>) -> Arc<Self> {
        Arc::new(Self { server: server.to_owned(), book: Arc::clone(book) })
    }
}

impl ListingRecorder for BuiltinTools {
    fn record_listing<'a>(&'a self, listing: &'a UpstreamListing) -> ConnectorFuture<'a, ()> {
        Box::pin(async move {
            // The built-in server itself works without the state; the pins of the others do not, and say so.
            if let Err(error) = self.book.record_builtin(&self.server, listing).await {
                let error = format_error_chain(&error);
                tracing::error!(server = %self.server, %error, "definitions were not compared with its tools");
            }
        })
    }
}
