//! Pins: items of servers are used only with their accepted definitions.
//!
//! A server that was never seen is in quarantine. Its tools are listed by name only and cannot be called; its prompts,
//! resources and instructions are not forwarded; its requests are not answered. A person accepts its command line or
//! URL together with its definitions. From then on each definition is compared with the accepted one, whenever a list
//! is read and again on each call. A definition that differs is blocked until the difference is accepted; all others
//! stay usable. [`PinMode`] sets how definitions are accepted that are seen first.
//!
//! Calls check an in-memory copy. The pins are stored in the host's state, which other processes may change at any
//! time.

mod builtin_tools;
mod changed_tools;
mod default_pin_mode;
mod definition;
mod fingerprint;
mod gate;
mod known_tools;
mod later_tools;
mod lint;
mod manager;
mod package_identity;
mod packages;
mod pin_store;
mod pinning_config;
mod redacted_listing;
mod scripts;
mod small_change;
mod status;
mod view;

pub use crate::config::PinMode;
pub use default_pin_mode::DefaultPinMode;
pub(crate) use fingerprint::target;
pub use gate::REVIEW_INSTRUCTION;
pub use hospes_store::pins::{ItemKind, ItemPinState, RecordedDefinition, Sha256Digest};
pub use lint::{Lint, LintKind};
pub use manager::{PinManager, PinManagerError};
pub(crate) use manager::{PinMember, PinMembers};
pub(crate) use package_identity::PackageIdentity;
pub(crate) use pin_store::{PinStore, format_error_chain, reload_on_change};
pub use pinning_config::PinningConfig;
pub use view::{
    DefinitionChange, DefinitionDifference, PinState, PinnedItem, PinnedServer, definition_changes,
};
