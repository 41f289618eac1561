//! Everything that the servers offer, merged under names that can be mapped back to their servers.

mod labels;
mod merged;
pub mod names;
mod shelf;
mod template;
pub mod uris;

pub(crate) use labels::{is_labelled, show_in};
pub use merged::{ACCOUNTS_URI, STATUS_URI};
pub(crate) use merged::{Catalogue, Part};
pub(crate) use merged::{accounts_resource, status_resource};
pub use shelf::DEFAULT_PAGE_SIZE;
pub(crate) use shelf::{Item, Place};
pub(crate) use template::matches as template_matches;
