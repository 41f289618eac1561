//! Policy of ordered, readable rules on calls: callers, actions and arguments.
//!
//! A [`Policy`] is read from a TOML file. [`Policy::decide`] looks at one [`PolicyRequest`] and says allow, ask or deny, and which
//! rule said so; [`Policy::explain`] says the same for a person, rule by rule. Nothing here does I/O, and nothing here
//! knows what became of a decision.
//!
//! ```
//! use hospes_policy::{PolicyAction, CallArguments, PolicyRequest, PolicyDecision, ToolEffectSet, Policy};
//!
//! let policy = Policy::read(
//!     r#"
//!     [[rule]]
//!     decide = "deny"
//!     tool = "delete_*"
//!     reason = "this project only grows"
//!
//!     [[rule]]
//!     decide = "allow"
//!     server = "files"
//!     tool = ["read_*", "list_*"]
//!     arguments.path = { under = "/home/me/project" }
//!     "#,
//!     &hospes_policy::PolicyEnvironment::default(),
//! )?;
//!
//! let arguments = CallArguments::read(r#"{ "path": "/home/me/project/README.md" }"#)?;
//! let asked = PolicyRequest::new("files", PolicyAction::tool("read_file", ToolEffectSet::unknown(), &arguments));
//! assert_eq!(policy.decide(&asked, jiff::Timestamp::now()).decision, PolicyDecision::Allow);
//!
//! let outside = CallArguments::read(r#"{ "path": "/home/me/project/../.ssh/id_ed25519" }"#)?;
//! let asked = PolicyRequest::new("files", PolicyAction::tool("read_file", ToolEffectSet::unknown(), &outside));
//! assert_eq!(policy.decide(&asked, jiff::Timestamp::now()).decision, PolicyDecision::Ask);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The file
//!
//! Rules stand in order; the first that fits decides. A condition that is absent holds always.
//!
//! | key | fits when |
//! |---|---|
//! | `decide` | `"allow"`, `"ask"` or `"deny"`; owed |
//! | `server`, `tool`, `prompt`, `resource` | one of the patterns is the server's, tool's or prompt's own name, or the resource's URI |
//! | `about` | it is one of `"tool"`, `"prompt"`, `"resource"`, `"sampling"`, `"elicitation"`, `"roots"` |
//! | `application`, `principal` | one of the patterns is the name that the application gave itself, or the name of who signed in |
//! | `effects` | the tool's `read_only`, `destructive`, `idempotent` and `open_world` are as said ([`ToolEffectSet`]) |
//! | `arguments.NAME` | the argument is as said ([`ArgumentCondition`]); `a.b` and `/a/b` reach inside, `*` means all |
//! | `destinations` | what the arguments, or the resource's URI, point to is there ([`Destination`]) |
//! | `until` | the day (which it includes, UTC) or moment has not passed |
//!
//! and beside the conditions: `name` and `reason` (the model receives the reason of a denial), `strong = true` (only
//! the console may approve), `remember = false` ("always" is not offered), `review = true` (the result is shown before
//! it is delivered). `trusted = ["git"]` at the top names the servers whose annotations are trusted.
//!
//! # Data flow
//!
//! The data that a session has read also decides. A session that has read private data and untrusted text could be made
//! by that text to send the data out. From then on, every outbound call needs an approval, regardless of rules and
//! lasting permissions. Any two of private data, untrusted text and outbound calls are allowed without asking.
//! `data_flow` at the top is `"ask"` (the default), `"strong"` (only the console may approve) or `"off"`. Labels
//! classify servers and tools:
//!
//! ```toml
//! [[label]]
//! server = "mail"
//! tool = ["search_*", "read_*"]
//! private = true        # the results are the person's own
//! outbound = false      # what it is called with stays at the server
//! ```
//!
//! | key | says |
//! |---|---|
//! | `server`, `tool`, `prompt`, `resource` | of what, as in a rule |
//! | `private` | results may hold the person's own data; by default only of servers that the host knows to be such |
//! | `untrusted` | results may hold text of others; by default all do, except of a trusted server's tool that is not `open_world` |
//! | `outbound` | arguments may reach others; by default the same as `untrusted` |
//!
//! For each of the three, the first label that fits and says it decides. The word of a server that is not trusted lowers
//! nothing.
//!
//! # Patterns
//!
//! In patterns, `*` is any text without `/`, `**` any text, `?` one character, `[a-z]` one of these, `{a,b}` either.
//!
//! **In doubt, nothing is permitted.** A rule that allows fits only what means just what it says: a text with `..`, with
//! percent-encoding or with hidden characters fits no pattern but one that is the same text, and a `regex` only if it fits
//! decoded and resolved too; of many values each must fit, and all must be there. A rule that asks or denies fits if it does
//! in any reading known here: decoded up to twice, without what hides, resolved, in another case, as the URL that a parser
//! makes of it, a relative path from any folder on the way to the one that is named, a string as the number it spells.
//! Texts longer than 64 KiB fit no permission by pattern and every prohibition by pattern. Arguments with a name twice, also
//! in another case, are denied before any rule.
//!
//! What a server does with a text beyond that (paths that it computes, names that resolve elsewhere, links where no
//! [`LinkResolver`] was given) cannot be seen here: a denial narrows what may happen, and only a list of what is allowed
//! bounds it.

mod action;
mod arguments;
mod condition;
mod destination;
mod destination_pattern;
mod document;
mod effects;
mod file;
mod flow;
mod folders;
mod known_servers;
mod nearest;
mod paths;
mod pattern;
mod policy;
mod readings;
mod rule;
mod strings;
mod verdict;
mod wildcard_paths;

pub use action::{PolicyAction, PolicyActionKind, PolicyRequest};
pub use arguments::{CallArguments, CallArgumentsError};
pub use condition::ArgumentCondition;
pub use destination::{CallDestinations, Destination, MAX_DESTINATIONS};
pub use effects::ToolEffectSet;
pub use file::{LinkResolver, PolicyEnvironment, PolicyError, PolicyMistake};
pub use flow::{DataFlowPolicy, FlowLabels, SessionFlow};
pub use known_servers::{KnownOffers, KnownServer, KnownTool, UnmatchedPart};
pub use nearest::nearest;
pub use paths::{is_hidden, visible, visible_line};
pub use policy::{Policy, PolicyExplanation, RuleEvaluation};
pub use rule::{PolicyRule, UnmetCondition};
pub use verdict::{DecisionReason, DefaultReason, PolicyDecision, PolicyVerdict};
