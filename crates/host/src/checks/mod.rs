//! Checks of arguments and results beside the policy: schemas, secrets, destinations, hidden characters, instructions.
//!
//! A check finds; the gateway and the guard decide what follows. What this module remembers is bounded and in memory
//! only.

mod arguments;
mod schemas;
mod settings;

pub use settings::CheckSettings;

use schemas::SchemaCache;

/// Checks of calls and results, with what they remember.
#[derive(Debug, Default)]
pub(crate) struct CallChecks {
    schemas: SchemaCache,
}
