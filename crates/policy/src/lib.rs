//! Policy of ordered, readable rules on calls: callers, actions and arguments.
//!
//! A [`Policy`] is read from a TOML file. [`Policy::decide`] looks at one [`Asked`] and says allow, ask or deny, and which
//! rule said so; [`Policy::explain`] says the same for a person, rule by rule. Nothing here does I/O, and nothing here
//! knows what became of a decision.
//!
//! ```
//! use hospes_policy::{Action, Arguments, Asked, Decision, Effects, Policy};
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
//!     &hospes_policy::Reading::default(),
//! )?;
//!
//! let arguments = Arguments::read(r#"{ "path": "/home/me/project/README.md" }"#)?;
//! let asked = Asked::new("files", Action::tool("read_file", Effects::unknown(), &arguments));
//! assert_eq!(policy.decide(&asked, jiff::Timestamp::now()).decision, Decision::Allow);
//!
//! let outside = Arguments::read(r#"{ "path": "/home/me/project/../.ssh/id_ed25519" }"#)?;
//! let asked = Asked::new("files", Action::tool("read_file", Effects::unknown(), &outside));
//! assert_eq!(policy.decide(&asked, jiff::Timestamp::now()).decision, Decision::Ask);
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
//! | `effects` | the tool's `read_only`, `destructive`, `idempotent` and `open_world` are as said ([`Effects`]) |
//! | `arguments.NAME` | the argument is as said ([`Condition`]); `a.b` and `/a/b` reach inside, `*` means all |
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
//! [`FollowLinks`] was given) cannot be seen here: a denial narrows what may happen, and only a list of what is allowed
//! bounds it.

mod action;
mod arguments;
mod condition;
mod destination;
mod document;
mod effects;
mod file;
mod flow;
mod folders;
mod known;
mod nearest;
mod paths;
mod pattern;
mod place;
mod policy;
mod readings;
mod rule;
mod strings;
mod verdict;
mod ways;

pub use action::{About, Action, Asked};
pub use arguments::{Arguments, ArgumentsError};
pub use condition::Condition;
pub use destination::{Destination, Destinations, MAX_DESTINATIONS};
pub use effects::Effects;
pub use file::{FollowLinks, Mistake, PolicyError, Reading};
pub use flow::{DataFlow, Flow, Labels};
pub use known::{KnownServer, KnownTool, Offers, Unmatched};
pub use nearest::nearest;
pub use paths::{is_hidden, visible, visible_line};
pub use policy::{Explanation, Policy, Step};
pub use rule::{Miss, Rule};
pub use verdict::{Because, Decision, Ordinary, Verdict};
