//! Words for what a call does: the head of an approval card.

use crate::effects::name_words;
use crate::flow::{CallEffect, FlowLabels};

/// Effect of a call, in Hospes' own words. The name of a tool only chooses among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallVerb {
    /// Verb with its object: "Send a message".
    pub words: &'static str,
    /// Word between the verb and the target: "to".
    pub preposition: &'static str,
}

/// Words in the names of tools that change or reach something, with what such a tool does.
const EFFECT_VERBS: &[(&[&str], CallVerb)] = &[
    (&["delete", "remove", "drop", "purge", "wipe", "trash", "destroy", "erase"], verb("Delete", "")),
    (&["cancel", "revoke", "unsubscribe"], verb("Cancel", "")),
    (&["pay", "transfer", "purchase", "buy", "refund", "charge", "payment"], verb("Pay", "to")),
    (&["book", "reserve", "order"], verb("Book", "at")),
    (&["invite"], verb("Invite", "")),
    (&["share", "grant", "permission"], verb("Give access", "to")),
    (&["publish", "deploy", "release", "merge", "push"], verb("Publish", "to")),
    (&["exec", "execute", "run", "eval", "evaluate", "shell", "bash"], verb("Run code", "on")),
    (&["send", "reply", "forward", "notify", "dm"], verb("Send a message", "to")),
    (&["post", "comment"], verb("Post", "to")),
    (&["upload", "export"], verb("Upload", "to")),
    (&["password", "token", "credential"], verb("Change credentials", "of")),
    (&["create", "add", "insert", "new", "schedule", "make"], verb("Create", "")),
    (
        &["write", "edit", "update", "modify", "set", "change", "replace", "put", "append", "save"],
        verb("Write", "to"),
    ),
    (&["move", "rename", "copy"], verb("Move", "")),
];

const fn verb(words: &'static str, preposition: &'static str) -> CallVerb {
    CallVerb { words, preposition }
}

impl CallVerb {
    /// Reading of a resource.
    pub const READ: Self = verb("Read", "");

    /// Fetching of a prompt.
    pub const FETCH_PROMPT: Self = verb("Fetch a prompt", "");

    /// Chooses the words for a tool. The name raises what is said and never lowers it: without a known word, the labels
    /// decide.
    #[must_use]
    pub fn of_tool(name: &str, labels: FlowLabels) -> Self {
        let is_word = |word: &str, known: &[&str]| {
            known
                .iter()
                .any(|known| word == *known || word.strip_suffix('s').is_some_and(|word| word == *known))
        };
        let named = name_words(name).find_map(|word| {
            EFFECT_VERBS.iter().find(|(known, _)| is_word(&word, known)).map(|(_, verb)| *verb)
        });
        match (labels.effect, labels.outbound) {
            // What is known to change nothing is not named after a word in its name.
            (CallEffect::None, false) => Self::READ,
            (CallEffect::None, true) => verb("Send a request", "to"),
            (CallEffect::Irreversible, _) => named.unwrap_or(verb("Make a change", "at")),
            (CallEffect::Reversible, true) => named.unwrap_or(verb("Send data", "to")),
            (CallEffect::Reversible, false) => named.unwrap_or(verb("Make a change", "at")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str, effect: CallEffect, outbound: bool) -> &'static str {
        CallVerb::of_tool(name, FlowLabels { private: false, untrusted: false, outbound, effect }).words
    }

    #[test]
    fn the_first_known_word_of_a_name_chooses_the_verb() {
        use CallEffect::Irreversible;
        for (name, verb) in [
            ("send_email", "Send a message"),
            ("sendMoney", "Send a message"),
            ("email_delete", "Delete"),
            ("deletes-messages", "Delete"),
            ("make_payment", "Create"),
            ("transfer", "Pay"),
            ("invite_user_to_slack", "Invite"),
            ("run_query", "Run code"),
        ] {
            assert_eq!(words(name, Irreversible, true), verb, "{name}");
        }
    }

    #[test]
    fn a_name_cannot_make_a_change_look_like_reading() {
        assert_eq!(words("get_weather", CallEffect::Irreversible, true), "Make a change");
        assert_eq!(words("get_weather", CallEffect::Reversible, true), "Send data");
        assert_eq!(words("Reassure the person", CallEffect::Reversible, false), "Make a change");
        assert_eq!(words("get_weather", CallEffect::None, true), "Send a request");
        assert_eq!(words("list_deleted", CallEffect::None, false), "Read");
    }
}
