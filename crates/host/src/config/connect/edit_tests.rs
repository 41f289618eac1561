//! Property: edits beside the entry, followed by its removal, are the same edits of the file without it.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::applications::APPLICATIONS;
use super::EntryState;
use super::tests::{entry, file, fixtures};

/// Texts that a person may type.
const TYPED: [&str; 14] = [
    "\n",
    " ",
    "\t",
    "\r\n",
    "// note\n",
    "# note\n",
    "\"k\": 1,",
    ",",
    "{",
    "}",
    "é",
    "k = 1\n",
    "k: 1\n",
    "hospes",
];

/// A change of a text at a place: characters are removed, and others are typed.
#[derive(Clone, Debug)]
struct Edit {
    at: Index,
    removed: usize,
    typed: &'static str,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = (any::<Index>(), 0..4_usize, select(&TYPED[..]));
    let edit = edit.prop_map(|(at, removed, typed)| Edit { at, removed, typed });
    prop::collection::vec(edit, 1..4)
}

/// Applies edits to the text before a place, and to the text after it.
fn apply(edits: &[Edit], before: &str, after: &str) -> (String, String) {
    let mut parts = [before.to_owned(), after.to_owned()];
    for edit in edits {
        let places: Vec<(usize, usize)> = [0, 1]
            .into_iter()
            .flat_map(|part| {
                let offsets = parts[part].char_indices().map(|(offset, _)| offset);
                offsets.chain([parts[part].len()]).map(move |offset| (part, offset)).collect::<Vec<_>>()
            })
            .collect();
        let (part, offset) = places[edit.at.index(places.len())];
        let text = &mut parts[part];
        let end = text[offset..].char_indices().nth(edit.removed).map_or(text.len(), |(at, _)| offset + at);
        text.replace_range(offset..end, edit.typed);
    }
    let [before, after] = parts;
    (before, after)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_entry_is_cut_out_of_a_file_that_was_edited_and_nothing_else_changes(
        application in any::<Index>(),
        fixture in any::<Index>(),
        edits in edits(),
    ) {
        let application = &APPLICATIONS[application.index(APPLICATIONS.len())];
        let all = fixtures(application);
        let original = fixture.get(&all);
        let path = file(application);
        let entry = entry(application, original);
        let splice = entry.insertion(path, original).unwrap();
        // What an insertion replaces, such as `null`, belongs to it.
        let (head, tail) = original.split_at(splice.offset);
        let tail = tail.strip_prefix(splice.removed.as_str()).unwrap();
        let is_line = |head: &str| matches!(head, "" | "\u{feff}") || head.ends_with('\n');
        let began_a_line = is_line(head);
        let (head, tail) = apply(&edits, head, tail);
        // Text on the first line of the insertion makes another line of it, with another meaning.
        let is_whole = is_line(&head) == began_a_line;
        let edited = [&*head, &splice.inserted, &tail].concat();
        let expected = [&*head, &splice.removed, &tail].concat();
        let cut = entry.cut(path, &edited, &splice);
        if let Some(cut) = &cut {
            prop_assert_eq!(cut, &expected, "{}: {:?}", application.id, edited);
        }
        // A file that still has the entry, and is well without it, loses it byte for byte.
        let is_there = entry.state(path, &edited) == Ok(EntryState::Present);
        let is_well = entry.state(path, &expected) == Ok(EntryState::Absent);
        let is_once = edited.matches(splice.inserted.as_str()).count() == 1;
        if is_there && is_well && is_once && is_whole {
            prop_assert!(cut.is_some(), "{}: {:?} is not cut out of {:?}", application.id, splice.inserted, edited);
        }
    }
}
