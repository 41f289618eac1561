//! Presets of the guard: which calls a person is asked about, by what they do and what the conversation has read.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::document::KeywordTable;
use crate::flow::{CallEffect, FlowLabels};

/// Preset of the guard: the key `preset`.
///
/// A preset asks about a call that the rules would allow. It never allows what a rule denies or asks about. A stricter
/// preset is less than others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Preset {
    /// Asks about every effect.
    Cautious,
    /// Asks about effects that an untrusted text may have caused.
    #[default]
    Balanced,
    /// Asks about effects with a value from an untrusted text.
    Open,
}

/// Facts about a call and its conversation on which a preset decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever describes a call must not overlook anything")]
pub struct CallSituation {
    /// Labels of the call.
    pub labels: FlowLabels,
    /// True if the operator has labelled the tool, or its server is built in or trusted.
    pub is_described: bool,
    /// True if a server that is not trusted says that the tool only reads, by its annotations or its name.
    pub claims_to_read: bool,
    /// True if the call cannot be undone only because the name of its tool says that it sends something.
    pub only_sends: bool,
    /// True if a prompt or a resource is fetched, which changes nothing and reaches its own server alone.
    pub fetches: bool,
    /// True if the conversation has read untrusted text.
    pub has_untrusted: bool,
    /// True if the conversation has read private data.
    pub has_private: bool,
    /// True if the conversation has read more than can be remembered.
    pub has_forgotten: bool,
    /// True if an argument has a value from an untrusted text.
    pub follows_untrusted: bool,
    /// True if the call names a target that is not known.
    pub has_unknown_target: bool,
    /// True if an argument has an identifier or number from a private result.
    pub carries_private: bool,
}

/// Reason for which a preset asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuardCause {
    /// The preset asks about every effect.
    Effect,
    /// The call cannot be undone, and the conversation has read untrusted text.
    Irreversible,
    /// The call cannot be undone, and nobody has labelled its tool.
    UnlabelledIrreversible,
    /// A value of the call stands in an untrusted text.
    UntrustedValue,
    /// The call names a target that is not known, after untrusted text was read.
    UnknownTarget,
    /// A value from a private result would leave, after untrusted text was read.
    PrivateValue,
    /// The conversation has read more than can be remembered, so a value may come from anywhere.
    Forgotten,
    /// An argument has a secret that another server returned.
    Secret,
    /// An argument names a private or local address.
    PrivateAddress,
    /// An argument has characters that a shell interprets.
    ShellCharacters,
}

impl Preset {
    /// Words for the values in the policy file.
    pub(crate) const WORDS: &KeywordTable<Self> =
        &[("cautious", Self::Cautious), ("balanced", Self::Balanced), ("open", Self::Open)];

    /// All presets, the strictest first.
    pub const ALL: [Self; 3] = [Self::Cautious, Self::Balanced, Self::Open];

    /// Decides whether a person is asked about a call that the rules allow. Returns the most serious cause.
    #[must_use]
    pub fn cause_to_ask(self, call: &CallSituation) -> Option<GuardCause> {
        let FlowLabels { effect, outbound, .. } = call.labels;
        if effect == CallEffect::None && !outbound {
            return None;
        }
        match self {
            Self::Cautious if call.fetches => call.cause_in_untrusted(),
            Self::Cautious => {
                let is_first_read = call.claims_to_read && !call.has_untrusted;
                (!is_first_read).then(|| call.cause_in_untrusted().unwrap_or(GuardCause::Effect))
            }
            Self::Balanced if call.has_untrusted => call.cause_in_untrusted(),
            // Nobody but the person can have said what to send to whom.
            Self::Balanced => (effect == CallEffect::Irreversible && !call.is_described && !call.only_sends)
                .then_some(GuardCause::UnlabelledIrreversible),
            Self::Open => (call.has_untrusted && call.follows_untrusted && effect != CallEffect::None)
                .then_some(GuardCause::UntrustedValue),
        }
    }
}

impl CallSituation {
    /// Returns the cause to ask after untrusted text was read.
    fn cause_in_untrusted(&self) -> Option<GuardCause> {
        if !self.has_untrusted {
            return None;
        }
        let FlowLabels { effect, outbound, .. } = self.labels;
        let is_local = effect == CallEffect::Reversible && !outbound;
        let leaves = outbound && self.has_private && self.carries_private;
        match effect {
            _ if leaves => Some(GuardCause::PrivateValue),
            CallEffect::Irreversible => Some(GuardCause::Irreversible),
            _ if self.has_forgotten && !self.fetches => Some(GuardCause::Forgotten),
            _ if is_local => None,
            _ if self.follows_untrusted => Some(GuardCause::UntrustedValue),
            _ if self.has_unknown_target && !self.claims_to_read && !self.fetches => {
                Some(GuardCause::UnknownTarget)
            }
            _ => None,
        }
    }
}

impl GuardCause {
    /// Returns true if the call is asked about each time: no lasting decision about a value or target silences it.
    #[must_use]
    pub const fn is_asked_each_time(self) -> bool {
        matches!(
            self,
            Self::Irreversible | Self::PrivateValue | Self::Secret | Self::Forgotten | Self::Effect
        )
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, preset)| preset == self).map_or("", |(word, _)| word);
        f.write_str(word)
    }
}

impl std::str::FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::WORDS.iter().find(|(word, _)| *word == text).map(|(_, preset)| *preset);
        known.ok_or_else(|| format!("unknown preset `{text}`: it is `cautious`, `balanced` or `open`"))
    }
}

impl fmt::Display for GuardCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Effect => "it changes or reaches something, and the preset asks about all such calls",
            Self::Irreversible => "it cannot be undone, and this conversation has read text that others wrote",
            Self::UnlabelledIrreversible => "it may not be possible to undo it, and nobody has labelled this tool",
            Self::UntrustedValue => "a value of the call stands in a text that somebody else wrote",
            Self::UnknownTarget => {
                "it reaches somebody or something that is not known yet, after text that others wrote was read"
            }
            Self::PrivateValue => "private data would leave, after text that others wrote was read",
            Self::Forgotten => {
                "this conversation has read more text than is remembered, so its values may come from anywhere"
            }
            Self::Secret => "it would send a secret to a server that did not return it",
            Self::PrivateAddress => "it reaches a private or local address",
            Self::ShellCharacters => "an argument has characters that a shell interprets",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row of the truth table: state and evidence, then the causes for a read, an outbound read, and a local, a
    /// reversible and an irreversible effect.
    type Row = (&'static str, [Option<GuardCause>; 5]);

    const CALLS: [(CallEffect, bool); 5] = [
        (CallEffect::None, false),
        (CallEffect::None, true),
        (CallEffect::Reversible, false),
        (CallEffect::Reversible, true),
        (CallEffect::Irreversible, true),
    ];

    fn situation(state: &str, (effect, outbound): (CallEffect, bool)) -> CallSituation {
        let has = |word: &str| state.split(' ').any(|part| part == word);
        CallSituation {
            labels: FlowLabels { private: false, untrusted: false, outbound, effect },
            is_described: !has("unlabelled"),
            claims_to_read: has("claims"),
            only_sends: has("sends"),
            fetches: has("fetches"),
            has_untrusted: has("untrusted"),
            has_private: has("private"),
            has_forgotten: has("forgotten"),
            follows_untrusted: has("hit"),
            has_unknown_target: has("unknown"),
            carries_private: has("carries"),
        }
    }

    fn check(preset: Preset, rows: &[Row]) {
        for (state, causes) in rows {
            for (call, cause) in CALLS.into_iter().zip(causes) {
                assert_eq!(
                    preset.cause_to_ask(&situation(state, call)),
                    *cause,
                    "{preset}: {state}: {call:?}"
                );
            }
        }
    }

    #[test]
    fn balanced_asks_what_a_text_may_have_caused() {
        use GuardCause::{
            Forgotten, Irreversible, PrivateValue, UnknownTarget, UnlabelledIrreversible, UntrustedValue,
        };
        let (i, u, h) = (Some(Irreversible), Some(UnknownTarget), Some(UntrustedValue));
        check(
            Preset::Balanced,
            &[
                ("", [None; 5]),
                ("private hit unknown carries forgotten", [None; 5]),
                ("unlabelled", [None, None, None, None, Some(UnlabelledIrreversible)]),
                ("unlabelled sends", [None; 5]),
                ("untrusted", [None, None, None, None, i]),
                ("untrusted unlabelled sends", [None, None, None, None, i]),
                ("untrusted unknown", [None, u, None, u, i]),
                ("untrusted unknown claims", [None, None, None, None, i]),
                ("untrusted hit", [None, h, None, h, i]),
                ("untrusted hit claims", [None, h, None, h, i]),
                ("untrusted forgotten fetches unknown", [None, None, None, None, i]),
                ("untrusted carries", [None, None, None, None, i]),
                ("untrusted private carries", {
                    let p = Some(PrivateValue);
                    [None, p, None, p, p]
                }),
                ("untrusted forgotten", {
                    let f = Some(Forgotten);
                    [None, f, f, f, i]
                }),
            ],
        );
    }

    #[test]
    fn cautious_asks_about_every_effect_and_open_about_values_of_others() {
        let all = |cause| [None, cause, cause, cause, cause];
        let h = Some(GuardCause::UntrustedValue);
        check(
            Preset::Cautious,
            &[
                ("", all(Some(GuardCause::Effect))),
                ("claims", [None; 5]),
                ("untrusted claims", {
                    let e = Some(GuardCause::Effect);
                    [None, e, e, e, Some(GuardCause::Irreversible)]
                }),
            ],
        );
        check(
            Preset::Open,
            &[
                ("unlabelled", [None; 5]),
                ("untrusted private unknown carries forgotten", [None; 5]),
                ("untrusted hit", [None, None, h, h, h]),
            ],
        );
    }

    #[test]
    fn presets_are_read_as_they_are_written() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
        }
        assert!("strict".parse::<Preset>().unwrap_err().contains("`cautious`"));
    }
}
