//! The models there are, and which of them suits a request.

mod choice;
mod model;
mod reason;

pub use choice::{Choice, Estimate, NoModel, Shortage};
pub use model::{Abilities, Catalogue, DuplicateModel, Model, Scores};
pub use reason::{Matched, PassedOver, Reason, Weighed, Wish};

#[cfg(test)]
mod tests;
