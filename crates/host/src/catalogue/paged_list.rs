//! A merged list, split into pages that are encoded once.

use std::collections::HashMap;
use std::sync::Arc;

use hospes_model::{PreparedResult, Reply, RpcError};

use crate::server::CatalogueItem;

/// A merged list.
#[derive(Debug)]
pub(crate) struct PagedList<T> {
    items: Vec<T>,
    pages: Vec<PreparedPage>,
    page_size: usize,
    origins: HashMap<Box<str>, ItemLocation>,
}

/// Location of a shown item: its server and its name there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemLocation {
    /// The position of the server.
    pub(crate) server: usize,
    /// The item's name at the server.
    pub(crate) name: Arc<str>,
}

#[derive(Debug)]
struct PreparedPage {
    cursor: Option<String>,
    answer: Arc<PreparedResult>,
}

impl<T: CatalogueItem> PagedList<T> {
    /// Sorts the items and cuts them into pages.
    pub(crate) fn new(mut items: Vec<T>, origins: HashMap<Box<str>, ItemLocation>, page_size: usize) -> Self {
        items.sort_by(|one, two| one.key().cmp(two.key()));
        let page_size = page_size.max(1);
        let mut pages = Vec::with_capacity(items.len() / page_size + 1);
        let mut cursor = None;
        // There is a first page even when there is nothing.
        for start in (0..items.len().max(1)).step_by(page_size) {
            let (answer, next) = page(&items, start, page_size);
            pages.push(PreparedPage {
                cursor: std::mem::replace(&mut cursor, next),
                answer: Arc::new(answer),
            });
        }
        Self { items, pages, page_size, origins }
    }

    /// Returns the location of a shown item.
    pub(crate) fn origin(&self, shown: &str) -> Option<&ItemLocation> {
        self.origins.get(shown)
    }

    /// Returns the item that is shown under this name.
    pub(crate) fn get(&self, shown: &str) -> Option<&T> {
        let at = self.items.binary_search_by(|item| item.key().cmp(shown)).ok()?;
        self.items.get(at)
    }

    /// Returns all items in sorted order.
    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the page after `cursor`. A cursor names the last item of the previous page, so it stays valid when the
    /// list changes.
    pub(crate) fn page(&self, cursor: Option<&str>) -> Result<Reply, RpcError> {
        // A cursor of these very pages has its page ready; any other is from before the list changed.
        if let Some(page) = self.pages.iter().find(|page| page.cursor.as_deref() == cursor) {
            return Ok(Reply::Prepared(Arc::clone(&page.answer)));
        }
        let Some(key) = cursor.and_then(|cursor| cursor.strip_prefix(CURSOR)) else {
            return Err(RpcError::invalid_params("unknown or expired cursor"));
        };
        let start = self.items.partition_point(|item| item.key() <= key);
        Ok(Reply::Prepared(Arc::new(page(&self.items, start, self.page_size).0)))
    }

    /// Returns true if both lists show the same items from the same locations.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.origins == other.origins && self.items == other.items && self.page_size == other.page_size
    }
}

/// Prefix of the host's cursors.
const CURSOR: &str = "after:";

fn page<T: CatalogueItem>(items: &[T], start: usize, size: usize) -> (PreparedResult, Option<String>) {
    let end = items.len().min(start.saturating_add(size));
    let part = items.get(start..end).unwrap_or_default();
    let last = part.last().filter(|_| end < items.len());
    let next = last.map(|item| format!("{CURSOR}{}", item.key()));
    (PreparedResult::new(T::list(part.to_vec(), next.clone())), next)
}
