//! Detection of stop sequences.

/// Searches text that arrives in pieces for stop sequences, and holds back text that may become one.
#[derive(Debug)]
pub(super) struct StopSequences {
    sequences: Vec<String>,
    held: String,
}

/// Text that may be passed on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckedText {
    pub(super) text: String,
    /// True if a stop sequence was found. It and the text after it are not passed on.
    pub(super) ended: bool,
}

impl StopSequences {
    pub(super) fn new(mut sequences: Vec<String>) -> Self {
        // An empty sequence would end every answer immediately.
        sequences.retain(|sequence| !sequence.is_empty());
        Self { sequences, held: String::new() }
    }

    /// Adds a piece of text.
    pub(super) fn push(&mut self, piece: &str) -> CheckedText {
        self.held.push_str(piece);
        let found = self.sequences.iter().filter_map(|sequence| self.held.find(sequence.as_str())).min();
        if let Some(at) = found {
            self.held.truncate(at);
            return CheckedText { text: std::mem::take(&mut self.held), ended: true };
        }
        let keep =
            self.sequences.iter().map(|sequence| partial_match_len(&self.held, sequence)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        CheckedText { text: std::mem::replace(&mut self.held, rest), ended: false }
    }

    /// Returns the text that was held back and belongs to no sequence.
    pub(super) fn rest(self) -> String {
        self.held
    }
}

/// Returns the number of bytes at the end of the text that begin the sequence.
fn partial_match_len(text: &str, sequence: &str) -> usize {
    // Shorter than the sequence, because a complete one would already have been found.
    let most = text.len().min(sequence.len().saturating_sub(1));
    (1..=most)
        .rev()
        .find(|&length| sequence.is_char_boundary(length) && text.ends_with(&sequence[..length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The text before the first sequence passes, independent of the pieces.
        #[test]
        fn pieces_make_no_difference(
            pieces in prop::collection::vec("[aäb]{0,3}", 0..12),
            sequences in prop::collection::vec("[aäb]{0,3}", 0..3),
        ) {
            let whole = pieces.concat();
            let first = sequences.iter().filter(|s| !s.is_empty()).filter_map(|s| whole.find(s.as_str())).min();
            let mut stops = StopSequences::new(sequences.clone());
            let (mut passed, mut ended) = (String::new(), false);
            for piece in &pieces {
                let CheckedText { text, ended: now } = stops.push(piece);
                passed.push_str(&text);
                if now {
                    ended = true;
                    break;
                }
            }
            if !ended {
                passed.push_str(&stops.rest());
            }
            prop_assert_eq!(ended, first.is_some());
            // Of overlapping sequences, one that is complete earlier wins over one that begins earlier.
            prop_assert!(whole.starts_with(&passed));
            if sequences.len() <= 1 {
                prop_assert_eq!(passed, &whole[..first.unwrap_or(whole.len())]);
            }
        }
    }

    #[test]
    fn what_may_become_a_sequence_is_held_back() {
        let mut stops = StopSequences::new(vec!["END".to_owned(), String::new()]);
        assert_eq!(stops.push("so it E"), CheckedText { text: "so it ".to_owned(), ended: false });
        assert_eq!(stops.push("N"), CheckedText { text: String::new(), ended: false });
        assert_eq!(stops.push("T E"), CheckedText { text: "ENT ".to_owned(), ended: false });
        assert_eq!(stops.push("ND more"), CheckedText { text: String::new(), ended: true });
    }
}
