//! Domain types, one file for each subject, in the form of the newest revision.

#[macro_use]
mod macros;
#[macro_use]
pub(crate) mod tagged;
pub(crate) mod lenient;

mod cache;
mod capabilities;
mod completion;
mod content;
mod elicitation;
mod form;
mod input;
mod key;
mod lifecycle;
mod logging;
mod meta;
mod parse;
mod progress;
mod prompt;
mod resource;
mod roots;
mod sampling;
mod subscription;
mod task;
mod tool;

#[cfg(test)]
mod tests;

pub use cache::*;
pub use capabilities::*;
pub use completion::*;
pub use content::*;
pub use elicitation::*;
pub use form::*;
pub use input::*;
pub use key::BadMetaKey;
pub use lifecycle::*;
pub use logging::*;
pub use meta::*;
pub use parse::*;
pub use progress::*;
pub use prompt::*;
pub use resource::*;
pub use roots::*;
pub use sampling::*;
pub use subscription::*;
pub use task::*;
pub use tool::*;

/// Members of an open type that the specification does not define. They survive a round trip.
pub type ExtraMembers = serde_json::Map<String, serde_json::Value>;
