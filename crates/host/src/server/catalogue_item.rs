//! Items of lists.

use hospes_model::Reply;

/// An item of a merged list: its sort key and the result type of its list request.
pub(crate) trait CatalogueItem: Clone + PartialEq + Send + Sync + 'static {
    /// The name or URI under which the item is shown. The list is sorted by it and searched by it.
    fn key(&self) -> &str;

    /// The answer to a request for a list.
    fn list(items: Vec<Self>, next_cursor: Option<String>) -> Reply;
}
