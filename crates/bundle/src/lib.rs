//! MCP bundles: ZIP archives with a server, and a manifest that says how to start it.
//!
//! Nothing here starts a process or opens a connection. Bundles and manifests are untrusted input: every size and number
//! is bounded, and an error names the limit.
//!
//! - [`Bundle::open`] reads the records of an archive and refuses what cannot be unpacked safely.
//! - [`BundleManifest`] is the decoded `manifest.json`. [`BundleManifest::launch`] turns it into a command.
//! - [`Bundle::signature`] judges the signature.
//! - [`pack()`] makes a bundle of a folder.
//! - [`review_bundle`] and [`review_folder`] list what is wrong with one.

pub mod archive;
pub mod launch;
pub mod manifest;
pub mod pack;
pub mod review;
pub mod signature;

pub use self::archive::{Bundle, BundleError};
pub use self::launch::{BundleLaunch, BundlePlaces, BundlePlatform, LaunchError, UserValue, UserValues};
pub use self::manifest::{BundleManifest, ManifestError};
pub use self::pack::{PackError, PackOptions, PackedBundle, pack};
pub use self::review::{BundleReview, FindingLevel, ReviewFinding, review_bundle, review_folder};
pub use self::signature::{SignatureVerdict, TrustRoots};

/// Name of the manifest in a bundle.
pub const MANIFEST_NAME: &str = "manifest.json";
