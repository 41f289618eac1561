use hospes_model::ToolAnnotations;

use crate::flow::CallEffect;

/// Effects that a tool may have, as far as its declaration is trusted.
///
/// Undeclared effects have the worst value, which the specification makes the default: not read-only, destructive, not
/// idempotent, open-world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolEffectSet {
    /// True if the tool changes nothing.
    pub read_only: bool,
    /// True if the tool may make destructive changes.
    pub destructive: bool,
    /// True if repeated calls with the same arguments have no further effect.
    pub idempotent: bool,
    /// True if the tool interacts with external entities, such as the web.
    pub open_world: bool,
    /// True if the declaration says that the tool is destructive, and not only fails to deny it.
    pub says_destructive: bool,
}

impl ToolEffectSet {
    /// Returns the effects of a tool whose declaration is not trusted.
    #[must_use]
    pub const fn unknown() -> Self {
        Self {
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: true,
            says_destructive: false,
        }
    }

    /// Returns the effects that a server declares for its tool. [`Policy::decide`](crate::Policy::decide) uses them
    /// only if the server is trusted.
    #[must_use]
    pub fn from_annotations(annotations: Option<&ToolAnnotations>) -> Self {
        let worst = Self::unknown();
        let Some(said) = annotations else { return worst };
        let read_only = said.read_only_hint.unwrap_or(worst.read_only);
        Self {
            read_only,
            // A read-only tool destroys nothing; the other hints are meaningful only for tools that change something.
            destructive: !read_only && said.destructive_hint.unwrap_or(worst.destructive),
            idempotent: read_only || said.idempotent_hint.unwrap_or(worst.idempotent),
            open_world: said.open_world_hint.unwrap_or(worst.open_world),
            says_destructive: !read_only && said.destructive_hint == Some(true),
        }
    }

    /// Returns the change that a tool of this name makes. The declaration lowers it only if it is `believed`; the name
    /// never does.
    pub(crate) fn effect_of(self, name: &str, believed: bool) -> CallEffect {
        if believed && self.read_only {
            CallEffect::None
        } else if self.says_destructive || has_word(name, &IRREVERSIBLE_WORDS) {
            CallEffect::Irreversible
        } else {
            CallEffect::Reversible
        }
    }

    /// Returns true if a tool of this name is irreversible only because it sends something.
    pub(crate) fn only_sends(self, name: &str) -> bool {
        let is_other = |word: &&str| *word != "send" && has_word(name, &[*word]);
        !self.says_destructive && has_word(name, &["send"]) && !IRREVERSIBLE_WORDS.iter().any(is_other)
    }

    /// Returns true if a tool of this name only reads by its own account.
    pub(crate) fn claims_to_read(self, name: &str) -> bool {
        let begins = name_words(name).next().is_some_and(|word| READING_WORDS.contains(&&*word));
        self.read_only || (begins && !self.says_destructive && !has_word(name, &IRREVERSIBLE_WORDS))
    }
}

/// Words in the names of tools whose effect can hardly be undone.
const IRREVERSIBLE_WORDS: [&str; 26] = [
    "delete",
    "remove",
    "drop",
    "purge",
    "send",
    "pay",
    "payment",
    "transfer",
    "book",
    "reserve",
    "invite",
    "share",
    "publish",
    "merge",
    "deploy",
    "exec",
    "execute",
    "run",
    "eval",
    "evaluate",
    "password",
    "token",
    "credential",
    "permission",
    "forward",
    "wipe",
];

/// Further words that tell somebody to do something, in a text of few words.
const TELLING_WORDS: [&str; 24] = [
    "accept", "add", "approve", "buy", "call", "cancel", "close", "confirm", "create", "email", "erase",
    "grant", "ignore", "mail", "must", "order", "please", "post", "reset", "set", "sign", "unlock", "update",
    "write",
];

/// Returns true if a text has a word that may tell a model to do something: `delete`, `send`, `approve`.
#[must_use]
pub fn has_telling_word(text: &str) -> bool {
    has_word(text, &IRREVERSIBLE_WORDS) || has_word(text, &TELLING_WORDS)
}

/// Words with which the names of tools begin that only read.
const READING_WORDS: [&str; 22] = [
    "get",
    "list",
    "read",
    "search",
    "find",
    "fetch",
    "describe",
    "show",
    "query",
    "view",
    "count",
    "check",
    "status",
    "help",
    "lookup",
    "browse",
    "inspect",
    "explain",
    "summarize",
    "directory",
    "tree",
    "info",
];

/// Returns true if a name has one of the words, in the singular or the plural.
pub(crate) fn has_word(name: &str, of: &[&str]) -> bool {
    name_words(name).any(|word| {
        of.iter().any(|known| word == *known || word.strip_suffix('s').is_some_and(|word| word == *known))
    })
}

/// Returns the words of a name such as `send_email` or `sendEmail`, in lower case.
pub(crate) fn name_words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in name.chars() {
        let begins = !character.is_alphanumeric() || (character.is_uppercase() && was_lower);
        was_lower = character.is_lowercase();
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// Effects that a rule requires of a tool; `None` for those that it does not restrict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequiredEffects {
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) open_world: Option<bool>,
}

impl RequiredEffects {
    /// Returns the first effect that differs from the required value, and that value.
    pub(crate) fn first_mismatch(self, effects: ToolEffectSet) -> Option<(&'static str, bool)> {
        [
            ("read_only", self.read_only, effects.read_only),
            ("destructive", self.destructive, effects.destructive),
            ("idempotent", self.idempotent, effects.idempotent),
            ("open_world", self.open_world, effects.open_world),
        ]
        .into_iter()
        .find_map(|(name, said, is)| said.filter(|said| *said != is).map(|said| (name, said)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: impl FnOnce(&mut ToolAnnotations)) -> ToolEffectSet {
        let mut annotations = ToolAnnotations::new();
        set(&mut annotations);
        ToolEffectSet::from_annotations(Some(&annotations))
    }

    #[test]
    fn what_is_not_said_is_taken_for_the_worst() {
        assert_eq!(ToolEffectSet::from_annotations(None), ToolEffectSet::unknown());
        assert_eq!(of(|_| ()), ToolEffectSet::unknown());
        assert_eq!(
            of(|said| said.open_world_hint = Some(false)),
            ToolEffectSet { open_world: false, ..ToolEffectSet::unknown() }
        );
        assert!(of(|said| said.destructive_hint = Some(true)).says_destructive);
        assert!(!of(|said| said.destructive_hint = Some(false)).destructive);
    }

    #[test]
    fn what_changes_nothing_destroys_nothing() {
        let effects = of(|said| {
            said.read_only_hint = Some(true);
            said.destructive_hint = Some(true);
        });
        assert!(effects.read_only && !effects.destructive && effects.idempotent && effects.open_world);
    }

    #[test]
    fn a_name_raises_an_effect_and_never_lowers_it() {
        use CallEffect::{Irreversible, None, Reversible};
        let read = of(|said| said.read_only_hint = Some(true));
        let unknown = ToolEffectSet::unknown();
        for (name, effects, believed, effect, claims) in [
            ("get_issue", unknown, false, Reversible, true),
            ("get_issue", read, true, None, true),
            ("get_issue", read, false, Reversible, true),
            ("sendEmail", unknown, false, Irreversible, false),
            ("deletes-all", read, false, Irreversible, true),
            ("get_and_delete", unknown, true, Irreversible, false),
            ("bookmark", unknown, false, Reversible, false),
            ("x", of(|said| said.destructive_hint = Some(true)), true, Irreversible, false),
        ] {
            assert_eq!(effects.effect_of(name, believed), effect, "{name}");
            assert_eq!(effects.claims_to_read(name), claims, "{name}");
        }
    }
}
