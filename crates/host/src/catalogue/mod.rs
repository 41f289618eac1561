//! The merged catalogue: offers of all servers, under names that map back to their servers.

mod labels;
mod merged;
pub mod names;
mod paged_list;
mod template;
pub mod uris;

pub use crate::config::DEFAULT_PAGE_SIZE;
pub(crate) use labels::{is_labelled, show_in};
pub use merged::{ACCOUNTS_URI, STATUS_URI};
pub(crate) use merged::{CatalogueSource, MergedCatalogue};
pub(crate) use merged::{accounts_resource, status_resource};
pub(crate) use paged_list::ItemLocation;
pub(crate) use template::matches as template_matches;
