//! The configured models, and the choice of one for a request.

mod choice;
mod model;
mod reason;

pub use choice::{ExclusionReason, ModelChoice, ModelChoiceError, RequestEstimate};
pub use model::{DuplicateModelError, Model, ModelAbilities, ModelCatalogue, ModelScores};
pub use reason::{ChoiceReason, ExcludedModel, HintMatch, PriorityKind, WeighedPriority};

#[cfg(test)]
mod tests;
