//! Client of MCP registries: entries, search with a cache, and how a listed server is started.
//!
//! ```no_run
//! use hospes_registry::{LaunchAnswers, LaunchPlan, LaunchSettings, RegistryClient, launch_options, questions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = RegistryClient::new(hospes_registry::DEFAULT_REGISTRY, Some("registry.db".into()))?;
//! for entry in registry.search("weather", 10).await?.value.entries {
//!     println!("{} {}", entry.name, entry.version);
//! }
//! let entry = registry.entry("com.example/weather", None).await?.value;
//! let option = &launch_options(&entry)[0];
//! let mut answers = LaunchAnswers::new();
//! for question in questions(&entry, option.choice) {
//!     answers.set(&question.id, "an answer");
//! }
//! let plan = LaunchPlan::new(&entry, option.choice, &answers, &LaunchSettings::default())?;
//! println!("{:?} {:?}", plan.command, plan.args);
//! # Ok(())
//! # }
//! ```
//!
//! - **Reading is lenient.** Unknown fields are kept, and unknown kinds are listed as not startable. [`validate`] is
//!   strict, for publishing.
//! - **Everything is bounded**: pages, entries, texts, answers, downloads, times.
//! - **Text of entries is data.** Errors escape hidden characters of it. Callers that print it must do the same.
//! - **Nothing is run.** A [`LaunchPlan`] is a description; the artifacts are downloaded and checked by
//!   [`ArtifactClient`].
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `entry` | [`ServerEntry`] and its parts; lenient reading |
//! | `validate` | the strict rules as a list of [`EntryViolation`]s |
//! | `client`, `fetch`, `error` | [`RegistryClient`] and its HTTP requests |
//! | `cache`, `rank` | SQLite cache of lists and answers; order of search results |
//! | `launch` | [`launch_options`], [`questions`], [`LaunchPlan`] |
//! | `trust` | [`trust_signs`]: what is proved about an entry, and what is conspicuous |
//! | `artifact` | [`ArtifactClient`]: hashes of packages, downloads of bundles |
//! | `card` | server cards and catalogs of a domain |

mod artifact;
mod cache;
mod card;
mod client;
mod entry;
mod error;
mod fetch;
mod launch;
mod page;
mod rank;
mod trust;
mod validate;
mod version;

pub use self::artifact::{
    ArtifactClient, ArtifactError, DownloadProgress, DownloadedFile, MAX_BUNDLE_BYTES, PackageRegistries,
    ResolvedArtifact, npm_programs,
};
pub use self::card::{domain_cards, endpoint_card};
pub use self::client::{
    AnswerSource, RefreshMode, RefreshReport, RegistryAnswer, RegistryClient, SearchResults,
};
pub use self::entry::{
    ArgumentKind, EntryArgument, EntryError, EntryIcon, EntryInput, EntryRepository, EntryStatus,
    InputFormat, KeyValueInput, MAX_ENTRY_BYTES, OfficialMeta, PackageTransport, PostInstallInstruction,
    RegistryPackage, RegistryRemote, RegistryType, ServerEntry, TransportKind,
};
pub use self::error::RegistryError;
pub use self::fetch::is_local_registry;
pub use self::launch::{
    AnswerProblem, InstallObstacle, InstallStep, LaunchAnswers, LaunchChoice, LaunchError, LaunchObstacle,
    LaunchOption, LaunchPermission, LaunchPlan, LaunchQuestion, LaunchSettings, LaunchWarning,
    NetworkSuggestion, OptionReason, PlannedSecret, PlannedText, QuestionKind, QuestionTarget,
    SandboxSuggestion, SecretPosition, TextPart, install_obstacle, launch_options, local_name,
    other_registry, own_domain, questions, source_install,
};
pub use self::trust::{EntryPublisher, TrustContext, TrustSign, publisher, trust_signs};
pub use self::validate::{EntryViolation, validate};
pub use self::version::{compare_versions, is_patch, is_prerelease, is_same_version};

/// Base URL of the official registry.
pub const DEFAULT_REGISTRY: &str = "https://registry.modelcontextprotocol.io";
