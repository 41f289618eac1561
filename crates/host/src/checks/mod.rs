//! Checks of arguments and results beside the policy: schemas, secrets, destinations, hidden characters, instructions.
//!
//! A check finds; the gateway and the guard decide what follows. What this module remembers is bounded and in memory
//! only.

mod arguments;
mod findings;
mod results;
mod schemas;
mod secret_memory;
mod settings;

pub(crate) use findings::{ArgumentFinding, ArgumentFindingKind, InspectedCall};
pub(crate) use results::ResultSource;
pub use settings::CheckSettings;

use schemas::SchemaCache;
use secret_memory::SecretMemory;

/// Checks of calls and results, with what they remember.
#[derive(Debug, Default)]
pub(crate) struct CallChecks {
    schemas: SchemaCache,
    secrets: SecretMemory,
}
