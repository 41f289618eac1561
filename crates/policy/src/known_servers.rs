//! Check of rules and labels against the known offers of servers.

use std::fmt;

use crate::document::quoted;
use crate::effects::ToolEffectSet;
use crate::nearest::nearest;
use crate::paths::TextReadings;
use crate::pattern::{TextPattern, TextPatterns};
use crate::policy::Policy;
use crate::rule::PolicyRule;
use crate::selector::RuleSelector;

/// Maximum number of names that a message lists.
const MAX_NAMES: usize = 12;

/// A configured server and its known offers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KnownServer {
    /// Name in the configuration.
    pub name: String,
    /// Tools and prompts that the server offers, if known.
    pub offers: Option<KnownOffers>,
}

/// Names of the tools and prompts that a server offers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KnownOffers {
    /// Tools of the server.
    pub tools: Vec<KnownTool>,
    /// Names of its prompts.
    pub prompts: Vec<String>,
}

/// A tool of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KnownTool {
    /// Name at the server, without the server's prefix.
    pub name: String,
    /// Effects that the server declares.
    pub effects: ToolEffectSet,
    /// Names of its arguments. `None` if the schema lists none or allows others.
    pub arguments: Option<Vec<String>>,
}

/// A part of the policy that matches no known server, tool, prompt or argument.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmatchedPart {
    /// Line of the rule, the label or `trusted`, from 1.
    pub line: usize,
    /// Description of the unmatched part, with a suggestion.
    pub message: String,
}

impl KnownServer {
    /// Creates a server with unknown offers.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), offers: None }
    }

    /// Sets the tools and prompts that the server offers.
    #[must_use]
    pub fn offering(mut self, offers: KnownOffers) -> Self {
        self.offers = Some(offers);
        self
    }
}

impl KnownOffers {
    /// Creates offers from tools and names of prompts.
    #[must_use]
    pub fn new(tools: Vec<KnownTool>, prompts: Vec<String>) -> Self {
        Self { tools, prompts }
    }
}

impl KnownTool {
    /// Creates a tool from its definition.
    #[must_use]
    pub fn new(name: impl Into<String>, effects: ToolEffectSet, schema: &serde_json::Value) -> Self {
        // Most schemas omit the keyword without meaning to accept more arguments, so its absence counts as closed.
        let is_open = schema.get("additionalProperties").is_some_and(|more| *more != false);
        let is_composed = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
        let named = schema.get("properties").and_then(|named| named.as_object());
        let named = named.filter(|_| !is_open && !is_composed.iter().any(|key| schema.get(key).is_some()));
        let arguments = named.map(|named| named.keys().cloned().collect());
        Self { name: name.into(), effects, arguments }
    }
}

impl fmt::Display for UnmatchedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl Policy {
    /// Returns the rules, labels and trusted names that match none of these servers, their tools, prompts or arguments.
    /// Servers with unknown offers count as possible matches.
    #[must_use]
    pub fn unmatched(&self, servers: &[KnownServer]) -> Vec<UnmatchedPart> {
        let mut found = Vec::new();
        for name in self.trusted() {
            if !servers.iter().any(|server| server.name == *name) {
                let message = format!("`trusted`: {}", unknown_server_message(name, servers));
                found.push(UnmatchedPart { line: self.trusted_line(), message });
            }
        }
        for selector in self.selectors() {
            let messages = selector.unmatched(self, servers);
            found.extend(messages.into_iter().map(|message| UnmatchedPart {
                line: selector.line,
                message: format!("{}: {message}", selector.section),
            }));
        }
        found.sort_by_key(|one| one.line);
        found
    }

    /// Returns the rules with a condition on groups. They match nobody at a host that reads no groups.
    #[must_use]
    pub fn rules_with_groups(&self) -> Vec<UnmatchedPart> {
        let rules = self.rules().iter().filter(|rule| rule.has_groups());
        let part = |rule: &PolicyRule| UnmatchedPart {
            line: rule.line(),
            message: format!(
                "rule {}: `group` matches nobody, because no groups are read; set `groups_claim` under [auth] of the \
                 configuration",
                rule.number()
            ),
        };
        rules.map(part).collect()
    }

    /// Returns the rules with approvers. Nobody can decide what they ask about at a host whose console is not for a team.
    #[must_use]
    pub fn rules_with_approvers(&self) -> Vec<UnmatchedPart> {
        let rules = self.rules().iter().filter(|rule| rule.has_approvers());
        let part = |rule: &PolicyRule| UnmatchedPart {
            line: rule.line(),
            message: format!(
                "rule {}: nobody can decide what it asks about, because `approver` names groups of people who sign in to the \
                 console; set [console.team] in the configuration",
                rule.number()
            ),
        };
        rules.map(part).collect()
    }
}

impl RuleSelector<'_> {
    fn unmatched(&self, policy: &Policy, servers: &[KnownServer]) -> Vec<String> {
        let mut found = Vec::new();
        for pattern in self.server.into_iter().flat_map(TextPatterns::each) {
            if !servers.iter().any(|server| pattern.fits(&TextReadings::new(&server.name), self.doubt)) {
                found.push(format!("`server`: {}", unknown_server_message(pattern.text(), servers)));
            }
        }
        let here: Vec<&KnownServer> =
            servers.iter().filter(|server| self.fits(self.server, &server.name)).collect();
        if here.is_empty() {
            return found;
        }
        found.extend(self.untrusted(policy, &here));
        // If the offers of one server are unknown, the name may be among them.
        let Some(offers) = here.iter().map(|server| Some((*server, server.offers.as_ref()?))).collect()
        else {
            return found;
        };
        let offers: Vec<(&KnownServer, &KnownOffers)> = offers;
        let tools = || offers.iter().flat_map(|(_, offers)| offers.tools.iter().map(|tool| &*tool.name));
        let prompts = || offers.iter().flat_map(|(_, offers)| offers.prompts.iter().map(|name| &**name));
        found.extend(self.unmatched_names("tool", self.tool, &tools().collect::<Vec<_>>(), &here));
        found.extend(self.unmatched_names("prompt", self.prompt, &prompts().collect::<Vec<_>>(), &here));
        found.extend(self.unmatched_arguments(&offers));
        found
    }

    /// Returns a finding if the rule requires declared effects of servers that are not trusted, whose effects always
    /// count as the worst.
    fn untrusted(&self, policy: &Policy, here: &[&KnownServer]) -> Option<String> {
        let wanted = self.effects?;
        let (key, value) = wanted.first_mismatch(ToolEffectSet::unknown())?;
        let trusted: Vec<&&KnownServer> =
            here.iter().filter(|server| policy.lists_as_trusted(&server.name)).collect();
        if trusted.is_empty() {
            return Some(format!(
                "`effects.{key} = {value}` matches no tool: annotations count only for servers in `trusted`, and {} \
                 not listed there",
                match here {
                    [one] => format!("`{}` is", quoted(&one.name)),
                    many => format!("{} are", names(many.iter().map(|server| &*server.name), "and")),
                }
            ));
        }
        let mut tools = trusted.iter().map(|server| server.offers.as_ref().map(|offers| &offers.tools));
        let fits_none = tools.all(|tools| {
            tools.is_some_and(|tools| {
                !tools.iter().any(|tool| {
                    self.fits(self.tool, &tool.name) && wanted.first_mismatch(tool.effects).is_none()
                })
            })
        });
        let of = names(trusted.iter().map(|server| &*server.name), "or");
        fits_none.then(|| format!("`effects`: no tool of {of} that the rule names has these annotations"))
    }

    fn unmatched_names(
        &self,
        key: &str,
        patterns: Option<&TextPatterns>,
        known: &[&str],
        here: &[&KnownServer],
    ) -> Vec<String> {
        let Some(patterns) = patterns else { return Vec::new() };
        // A rule without a server is also meant for servers added later.
        if self.server.is_none() && known.iter().any(|name| self.fits(Some(patterns), name)) {
            return Vec::new();
        }
        let of = names(here.iter().map(|server| &*server.name), "or");
        let fits_none = |pattern: &&TextPattern| {
            !known.iter().any(|name| pattern.fits(&TextReadings::new(name), self.doubt))
        };
        let unmatched = patterns.each().filter(fits_none);
        let message = |pattern: &TextPattern| {
            let hint = suggest_name(pattern.text(), known, &format!("{key}s"));
            format!("`{key}`: no {key} of {of} matches `{}`{hint}", quoted(pattern.text()))
        };
        unmatched.map(message).collect()
    }

    fn unmatched_arguments(&self, offers: &[(&KnownServer, &KnownOffers)]) -> Vec<String> {
        let tools: Vec<&KnownTool> = offers
            .iter()
            .flat_map(|(_, offers)| &offers.tools)
            .filter(|tool| self.fits(self.tool, &tool.name))
            .collect();
        let mut found = Vec::new();
        for (key, way, condition) in self.arguments {
            let Some(name) = way.first().filter(|name| *name != "*" && !condition.is_absence()) else {
                continue;
            };
            let known: Option<Vec<&Vec<String>>> = tools.iter().map(|tool| tool.arguments.as_ref()).collect();
            let Some(known) = known.filter(|known| !known.is_empty()) else { continue };
            let known: Vec<&str> = known.into_iter().flatten().map(String::as_str).collect();
            if !known.contains(&name) {
                let of = names(tools.iter().map(|tool| &*tool.name), "or");
                let hint = suggest_name(name, &known, "arguments");
                found.push(format!("`arguments.{}`: {of} has no such argument{hint}", quoted(key)));
            }
        }
        found
    }
}

fn unknown_server_message(name: &str, servers: &[KnownServer]) -> String {
    let known: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
    let hint = suggest_name(name, &known, "servers");
    format!("no configured server is named `{}`{hint}", quoted(name))
}

/// Suggests the name that was probably meant, or lists all names.
fn suggest_name(pattern: &str, known: &[&str], what: &str) -> String {
    let bare = pattern.trim_matches(['*', '?', '_', '-', '.']);
    match nearest(bare, known.iter().copied()) {
        Some(meant) => format!("; did you mean `{}`?", quoted(meant)),
        None if known.is_empty() => format!("; there are no {what}"),
        None => format!("; known {what}: {}", names(known.iter().copied(), "and")),
    }
}

/// Lists names in a sentence without duplicates, shortened if there are many.
fn names<'n>(names: impl Iterator<Item = &'n str>, last: &str) -> String {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let name = format!("`{}`", quoted(name));
        if !all.contains(&name) {
            all.push(name);
        }
    }
    if let Some(more) = all.len().checked_sub(MAX_NAMES).filter(|more| *more > 0) {
        all.truncate(MAX_NAMES);
        all.push(format!("{more} more"));
    }
    match all.split_last() {
        Some((only, [])) => only.clone(),
        Some((end, others)) => format!("{} {last} {end}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::PolicyEnvironment;

    fn servers() -> Vec<KnownServer> {
        let schema = json!({ "type": "object", "properties": { "path": {}, "lines": {} } });
        let tool = |name: &str| KnownTool::new(name, ToolEffectSet::unknown(), &schema);
        let reads = ToolEffectSet { read_only: true, destructive: false, ..ToolEffectSet::unknown() };
        let log = KnownTool::new("log", reads, &json!({ "additionalProperties": true, "properties": {} }));
        let files = vec![tool("read"), tool("list"), tool("search")];
        vec![
            KnownServer::named("files").offering(KnownOffers::new(files, vec![])),
            KnownServer::named("git").offering(KnownOffers::new(vec![log], vec!["review".to_owned()])),
            KnownServer::named("mail"),
        ]
    }

    fn of(text: &str) -> Vec<String> {
        let policy =
            Policy::read(text, &PolicyEnvironment::default()).unwrap_or_else(|error| panic!("{error}"));
        policy.unmatched(&servers()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_that_fit_something_or_that_cannot_be_judged_are_not_pointed_out() {
        for text in [
            "trusted = ['git']\n[[rule]]\ndecide = 'allow'\nserver = 'git'\neffects.read_only = true",
            "[[rule]]\ndecide = 'allow'\nserver = 'files'\ntool = ['read', 'l*']\narguments.path = 'a'",
            "[[rule]]\ndecide = 'allow'\nserver = 'mail'\ntool = 'anything'\narguments.x = 1",
            "[[rule]]\ndecide = 'deny'\ntool = ['delete_*', 'read']",
            "[[rule]]\ndecide = 'deny'\nserver = ['files', 'FILES']",
            "[[rule]]\ndecide = 'deny'\nserver = 'git'\ntool = 'log'\narguments.whatever = 'x'",
            "[[rule]]\ndecide = 'allow'\nserver = 'files'\narguments.pth = { present = false }",
            "[[rule]]\ndecide = 'ask'\nserver = 'git'\nprompt = 'rev*'",
            "[[rule]]\ndecide = 'deny'\neffects.destructive = true",
        ] {
            assert_eq!(of(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn names_that_fit_nothing_are_pointed_out_with_what_was_meant() {
        for (text, said) in [
            (
                "\ntrusted = ['gti']",
                "line 2: `trusted`: no configured server is named `gti`; did you mean `git`?",
            ),
            (
                "[[rule]]\ndecide = 'allow'\nserver = 'fiels'\ntool = 'x'",
                "line 1: rule 1: `server`: no configured server is named `fiels`; did you mean `files`?",
            ),
            (
                "[[rule]]\ndecide = 'allow'\nserver = 'files'\ntool = ['read_*', 'list']",
                "line 1: rule 1: `tool`: no tool of `files` matches `read_*`; did you mean `read`?",
            ),
            (
                "[[rule]]\ndecide = 'allow'\nserver = 'files'\ntool = 'Read'",
                "line 1: rule 1: `tool`: no tool of `files` matches `Read`; did you mean `read`?",
            ),
            (
                "[[rule]]\ndecide = 'deny'\nserver = 'files'\ntool = 'delete_everything'",
                "line 1: rule 1: `tool`: no tool of `files` matches `delete_everything`; known tools: `read`, `list` \
                 and `search`",
            ),
            (
                "[[rule]]\ndecide = 'ask'\nserver = 'git'\nprompt = 'reviw'",
                "line 1: rule 1: `prompt`: no prompt of `git` matches `reviw`; did you mean `review`?",
            ),
            (
                "[[rule]]\ndecide = 'deny'\nserver = 'files'\ntool = 'read'\narguments.pth = 'x'",
                "line 1: rule 1: `arguments.pth`: `read` has no such argument; did you mean `path`?",
            ),
            (
                "[[rule]]\ndecide = 'allow'\nserver = ['files', 'git']\neffects.read_only = true",
                "line 1: rule 1: `effects.read_only = true` matches no tool: annotations count only for servers in \
                 `trusted`, and `files` and `git` are not listed there",
            ),
            (
                "trusted = ['git']\n[[rule]]\ndecide = 'deny'\nserver = 'git'\neffects.open_world = false",
                "line 2: rule 1: `effects`: no tool of `git` that the rule names has these annotations",
            ),
            (
                "[[label]]\nserver = 'files'\ntool = 'serch'\nprivate = true",
                "line 1: label 1: `tool`: no tool of `files` matches `serch`; did you mean `search`?",
            ),
        ] {
            assert_eq!(of(text), [said], "{text}");
        }
    }
}
