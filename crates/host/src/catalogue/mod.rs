//! What all servers offer, merged under names that can be taken apart again.

pub mod names;
pub mod uris;
