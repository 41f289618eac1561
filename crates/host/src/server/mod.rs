//! Types that several modules need: a server and its connection, what it offers, and what may be told to it.
//!
//! Modules that stand side by side, such as `upstream` and `pins`, meet here: each uses these types and traits, and
//! neither imports the other.

mod block_reason;
mod capability_set;
mod catalogue_item;
pub(crate) mod confusables;
mod connector;
mod definition_gate;
mod definition_hashes;
mod epoch;
mod extension_sets;
mod implementation;
mod launch_recorder;
mod listing;
mod lost_call;
mod measured_connector;
mod process;
mod replies;
mod server_folders;
mod server_places;
mod upstream_server;

pub(crate) use block_reason::BlockReason;
pub use capability_set::CapabilitySet;
pub(crate) use catalogue_item::CatalogueItem;
pub(crate) use connector::AccountAuthorizer;
pub use connector::{
    ConnectOptions, ConnectorFuture, KnownProtocol, MissingSignIn, ServerLogCallback,
    ServerNotificationCallback, SignInChanges, UpstreamConnectError, UpstreamConnection, UpstreamConnector,
};
pub(crate) use definition_gate::{DefinitionGate, ListingRecorder};
pub(crate) use definition_hashes::DefinitionHashes;
pub(crate) use epoch::UpstreamEpoch;
pub(crate) use extension_sets::{ExtensionSettings, own_extensions};
pub use hospes_model::Era;
pub use implementation::implementation;
pub(crate) use launch_recorder::LaunchRecorder;
pub use listing::{ListKinds, ListProblem, UpstreamListing};
pub(crate) use lost_call::lost_call;
pub(crate) use measured_connector::MeasuredConnector;
pub use process::ServerProcess;
pub(crate) use replies::{complete, decoded};
pub use server_folders::ServerFolders;
pub use server_places::{FleetNodeStatus, ServerHold, ServerPlace, ServerPlaces, ServerStream};
pub(crate) use upstream_server::{ServerPackage, UpstreamServer};
