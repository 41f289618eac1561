//! Policy of ordered, readable rules on calls: callers, actions and arguments.
//!
//! For the host, and for programs that check a policy file. The policy reference of the documentation is for those who write rules.
//!
//! A [`Policy`] is parsed from TOML. [`Policy::decide`] decides on a [`PolicyRequest`]: allow, ask or deny, with the
//! rule that decided. [`Policy::explain`] also returns the evaluation of each rule, for people. Nothing here does I/O
//! or tracks what happens to a decision.
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
//! Rules are evaluated in order, and the first one that matches decides. An absent condition always holds.
//!
//! | key | matches if |
//! |---|---|
//! | `decide` | (the decision: `"allow"`, `"ask"` or `"deny"`; required) |
//! | `server`, `tool`, `prompt`, `resource` | one of the patterns matches the name of the server, tool or prompt, or the URI of the resource |
//! | `about` | the action is one of `"tool"`, `"prompt"`, `"resource"`, `"sampling"`, `"elicitation"`, `"roots"` |
//! | `application`, `principal` | one of the patterns matches the name that the application reports, or the name of the signed-in user |
//! | `group` | one of the patterns matches one of the groups of the signed-in user; never without groups |
//! | `effects` | the tool's `read_only`, `destructive`, `idempotent` and `open_world` have these values ([`ToolEffectSet`]) |
//! | `arguments.NAME` | the argument matches the [`ArgumentCondition`]; `a.b` and `/a/b` select nested members, `*` selects all |
//! | `other_arguments` | every argument has a condition in `arguments` or is in this list, which may be empty |
//! | `destinations` | the arguments, or the resource's URI, point to one of these hosts or folders ([`Destination`]) |
//! | `until` | this date (inclusive, UTC) or time has not passed |
//!
//! Further keys of a rule are `name` and `reason` (the model receives the reason of a denial), `strong = true` (only
//! the console may approve), `remember = false` ("always" is not offered), `review = true` (the result is shown before
//! it is delivered). `approver = ["finance"]` names groups whose members decide about what the rule asks about, in place
//! of the caller ([`RequiredApprovers`]), and `not_self = true` excludes the caller among them. `trusted = ["git"]` at the top names the servers whose annotations are trusted.
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
//! | key | meaning |
//! |---|---|
//! | `server`, `tool`, `prompt`, `resource` | labelled items, as in a rule |
//! | `private` | results may contain the user's private data; by default only those of servers that the host knows to have such data |
//! | `untrusted` | results may contain text from third parties; by default all do, except those of a trusted server's tools that are not `open_world` |
//! | `outbound` | arguments may reach third parties; by default the same as `untrusted` |
//!
//! For each of the three, the first matching label that sets it decides. Declarations of an untrusted server never
//! lower a label.
//!
//! # Layers
//!
//! [`Policy::below`] puts the policy of a user below that of an organisation, which the user cannot loosen:
//!
//! | part | effective with two layers |
//! |---|---|
//! | decision | the strictest: deny, ask, allow; what no rule of the organisation matches, the user's policy decides |
//! | `strong`, `review` | true if one layer says so |
//! | `remember` | true if every layer that asks says so |
//! | `approver`, `not_self` | whoever decides is in a group of each layer that names some; true if one layer says so |
//! | `delegable` | a matching rule of the user, and no default, decides instead of this rule of the organisation |
//! | `trusted` in rules | each layer evaluates its rules with its own list |
//! | `trusted`, `own` elsewhere | what each layer that has the key lists |
//! | `[[label]]` | one of the organisation stays; a label of the user can only raise it |
//! | `preset`, `data_flow` | the strictest |
//! | `plans` | false if one layer says so |
//! | `built_in_labels` | the organisation's, if its file has the key |
//! | destinations that a rule allows by name | a matching rule of the organisation names them, too |
//! | version | covers both |
//!
//! # Patterns
//!
//! In patterns, `*` matches any text without `/`, `**` any text, `?` one character, `[a-z]` one of these characters,
//! and `{a,b}` either alternative.
//!
//! **When a match is ambiguous, allow rules do not match, and ask and deny rules do.**
//!
//! - An allow rule matches only text with a single interpretation. Text with `..`, percent-encoding or hidden
//!   characters matches no pattern except the identical text, and a `regex` must also match its decoded and resolved
//!   form. If there are several values, all of them must be present and match.
//! - An ask or deny rule matches if any known reading of the text does: decoded up to twice, without hidden characters,
//!   resolved, in another case, as parsed by a URL parser, as a relative path from any folder on the way to the named
//!   one, or a string as the number it spells.
//! - Text longer than 64 KiB matches no pattern of an allow rule and every pattern of an ask or deny rule.
//! - Arguments with a duplicate name, also in another case, are denied before any rule is evaluated.
//!
//! Other processing by a server cannot be detected: computed paths, names that resolve elsewhere, or links without a
//! [`LinkResolver`]. Deny rules therefore only reduce what a call can do; a strict limit needs a list of what is
//! allowed.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `policy`, `rule`, `selector`, `condition`, `verdict` | [`Policy`], its rules and layers, and what they decide |
//! | `layer` | whose policy file it is |
//! | `approvers` | who decides in place of the caller |
//! | `action`, `arguments`, `effects` | what is asked: the action, its arguments, the effects of a tool |
//! | `file`, `document` | the file, read so that all mistakes are found at once |
//! | `pattern`, `destination`, `destination_pattern` | patterns of names, hosts and folders |
//! | `addresses` | hosts that are not on the public network, in any spelling |
//! | `call_destinations` | hosts and paths that a call visibly points to, for display |
//! | `readings`, `strings` | every host and path that a common reader could take a string for |
//! | `paths`, `folders`, `wildcard_paths` | paths, also behind symbolic links and with wildcards |
//! | `flow` | labels of tools, and the data flow of a session |
//! | `label_sets` | built-in labels of well-known servers, by their package |
//! | `preset` | presets of the guard |
//! | `plan_exclusion` | calls that are never part of a plan |
//! | `known_servers`, `nearest` | warnings about names that no server has, with suggestions |

mod action;
mod addresses;
mod approvers;
mod arguments;
mod call_destinations;
mod condition;
mod destination;
mod destination_pattern;
mod document;
mod effects;
mod file;
mod flow;
mod folders;
mod known_servers;
mod label_sets;
mod layer;
mod nearest;
mod paths;
mod pattern;
mod plan_exclusion;
mod policy;
mod preset;
mod readings;
mod rule;
mod selector;
mod strings;
mod verb;
mod verdict;
mod wildcard_paths;

pub use action::{PolicyAction, PolicyActionKind, PolicyCaller, PolicyRequest};
pub use addresses::{AddressFinding, AddressKind, find_addresses};
pub use approvers::RequiredApprovers;
pub use arguments::{CallArguments, CallArgumentsError};
pub use call_destinations::{CallDestinations, MAX_DESTINATIONS};
pub use condition::ArgumentCondition;
pub use destination::Destination;
pub use effects::{ToolEffectSet, has_telling_word};
pub use file::{LinkResolver, PolicyEnvironment, PolicyError, PolicyMistake};
pub use flow::{CallEffect, DataFlowPolicy, FlowLabels, LabelPlace, SessionFlow, ToolDescription};
pub use known_servers::{KnownOffers, KnownServer, KnownTool, UnmatchedPart};
pub use label_sets::{KnownLabels, PackageLabels};
pub use layer::PolicyLayer;
pub use nearest::nearest;
pub use paths::{is_hidden, visible, visible_line};
pub use plan_exclusion::PlanExclusion;
pub use policy::{
    LabelSource, LabelSources, OrganizationExplanation, Policy, PolicyExplanation, RuleEvaluation,
};
pub use preset::{CallSituation, GuardCause, Preset};
pub use rule::{PolicyRule, UnmetCondition};
pub use strings::ArgumentStrings;
pub use verb::CallVerb;
pub use verdict::{DecisionReason, DefaultReason, PolicyDecision, PolicyVerdict};
