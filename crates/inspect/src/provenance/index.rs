//! The texts that a conversation has read, and the search for a value in them.
//!
//! A value is looked up in a filter of words and pairs of words first. Most values are in no text, and for them this is
//! all. Only if all words of a value may be there, the text is searched.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::BitOr;

use memchr::memmem;

use super::fields::TextField;
use super::forms::other_forms;
use super::normal::{append_normal_form, normal_form};
use super::values::{ArgumentValue, ValueKind};

/// Default maximum length of the normal forms of all texts of one conversation, in bytes.
pub const DEFAULT_MAX_TEXT: usize = 1024 * 1024;

/// Bits of the filter for each of its elements.
const BITS_PER_ELEMENT: usize = 12;

/// Smallest size of the filter, in bits.
const MIN_FILTER_BITS: usize = 64 * 1024;

/// Maximum number of places of a value that are looked at.
const MAX_PLACES: usize = 256;

/// Kinds of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever marks a text must not overlook one")]
pub struct TextMarks {
    /// True if somebody other than the person may have written the text.
    pub untrusted: bool,
    /// True if the text may be private.
    pub private: bool,
    /// True if the text is from a trusted source, so that who it names is known.
    pub trusted: bool,
}

impl BitOr for TextMarks {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self {
            untrusted: self.untrusted || other.untrusted,
            private: self.private || other.private,
            trusted: self.trusted || other.trusted,
        }
    }
}

/// Places in which a value was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueOrigin {
    /// Marks of all texts with the value.
    pub marks: TextMarks,
    /// Number of the first source of an untrusted text with the value.
    pub untrusted: Option<u64>,
    /// Number of the first source of a private text with the value.
    pub private: Option<u64>,
}

/// The texts of one conversation.
#[derive(Debug)]
pub struct TextIndex {
    text: String,
    segments: VecDeque<Segment>,
    filter: WordFilter,
    max_text: usize,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: usize,
    end: usize,
    source: u64,
    marks: TextMarks,
}

impl Default for TextIndex {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_TEXT)
    }
}

impl TextIndex {
    /// Creates an empty index for this many bytes of text.
    #[must_use]
    pub fn new(max_text: usize) -> Self {
        Self { text: String::new(), segments: VecDeque::new(), filter: WordFilter::default(), max_text }
    }

    /// Adds the fields of a result. `source` numbers grow. Fields that nobody has written are marked private or trusted
    /// at most. Returns false if there is no room; then nothing of the result can be found.
    #[must_use]
    pub fn add(&mut self, source: u64, marks: TextMarks, fields: &[TextField]) -> bool {
        let mut added = String::new();
        let mut segments = Vec::new();
        for field in fields {
            let untrusted = marks.untrusted && field.is_written;
            let marks = TextMarks { untrusted, ..marks };
            if !marks.untrusted && !marks.private && !marks.trusted {
                continue;
            }
            let start = added.len();
            append_normal_form(&field.text, &mut added);
            added.push('\n');
            for form in other_forms(&field.text) {
                append_normal_form(&form, &mut added);
                added.push('\n');
            }
            segments.push(Segment { start, end: added.len(), source, marks });
            if added.len() > self.max_text {
                return false;
            }
        }
        if self.text.len() + added.len() > self.max_text {
            return false;
        }
        let offset = self.text.len();
        self.text.push_str(&added);
        for mut segment in segments {
            segment.start += offset;
            segment.end += offset;
            match self.segments.back_mut() {
                Some(last) if last.source == source && last.marks == segment.marks => last.end = segment.end,
                _ => self.segments.push_back(segment),
            }
        }
        if !self.filter.add(&added) {
            self.filter = WordFilter::with_room_for(&self.text);
        }
        true
    }

    /// Removes the texts of all sources before this one. They can be found no more.
    pub fn remove_before(&mut self, source: u64) {
        let kept = self.segments.iter().position(|segment| segment.source >= source);
        let cut = kept.and_then(|at| self.segments.get(at)).map_or(self.text.len(), |segment| segment.start);
        if cut == 0 {
            return;
        }
        self.segments.drain(..kept.unwrap_or(self.segments.len()));
        self.text.drain(..cut);
        for segment in &mut self.segments {
            segment.start -= cut;
            segment.end -= cut;
        }
        self.filter = WordFilter::with_room_for(&self.text);
    }

    /// Returns true if no text is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Memory of the index, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.text.capacity() + self.filter.bits.len() * 8 + self.segments.len() * size_of::<Segment>()
    }

    /// Finds the texts with a value. `exact` compares its normal form alone; otherwise other spellings of the value
    /// count too.
    #[must_use]
    pub fn find(&self, value: &ArgumentValue, exact: bool) -> ValueOrigin {
        let mut origin = ValueOrigin::default();
        if self.segments.is_empty() {
            return origin;
        }
        for needle in spellings(value, exact) {
            self.find_text(&needle, &mut origin);
        }
        origin
    }

    fn find_text(&self, needle: &str, origin: &mut ValueOrigin) {
        if needle.is_empty() || !self.filter.may_contain(needle) {
            return;
        }
        let finder = memmem::Finder::new(needle);
        let mut places = 0;
        let mut from = 0;
        while let Some(at) = self.text.as_bytes().get(from..).and_then(|rest| finder.find(rest)) {
            let (start, end) = (from + at, from + at + needle.len());
            if self.is_whole(start, end) {
                self.note(start, origin);
                places += 1;
                if places >= MAX_PLACES
                    || (origin.marks.untrusted && origin.marks.private && origin.marks.trusted)
                {
                    return;
                }
            }
            from = start + 1;
        }
    }

    /// Returns true if the characters around a place are not part of a word.
    fn is_whole(&self, start: usize, end: usize) -> bool {
        let before = self.text.get(..start).and_then(|text| text.chars().next_back());
        let after = self.text.get(end..).and_then(|text| text.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    }

    fn note(&self, at: usize, origin: &mut ValueOrigin) {
        let next = self.segments.partition_point(|segment| segment.end <= at);
        let Some(segment) = self.segments.get(next) else { return };
        origin.marks = origin.marks | segment.marks;
        if segment.marks.untrusted {
            origin.untrusted.get_or_insert(segment.source);
        }
        if segment.marks.private {
            origin.private.get_or_insert(segment.source);
        }
    }
}

/// Returns the spellings under which a value is looked for, in normal form.
fn spellings(value: &ArgumentValue, exact: bool) -> Vec<String> {
    let normal = normal_form(&value.text);
    let mut all = Vec::with_capacity(4);
    if value.kind == ValueKind::Url {
        let host_on = normal.split_once("://").map_or(&*normal, |(_, rest)| rest);
        let bare = host_on.strip_prefix("www.").unwrap_or(host_on);
        for text in [host_on, bare] {
            all.push(text.trim_end_matches('/').to_owned());
        }
    }
    let compact: String = normal.chars().filter(|ch| ch.is_alphanumeric() || *ch == '+').collect();
    if matches!(value.kind, ValueKind::Iban | ValueKind::Phone)
        || (compact.len() < normal.len() && is_number_like(&compact))
    {
        all.push(compact);
    }
    if !exact {
        for form in other_forms(&value.text) {
            all.push(normal_form(&form));
        }
        // Only what is long enough is not another word backwards.
        if normal.chars().count() >= 8 && value.kind != ValueKind::Text {
            all.push(normal.chars().rev().collect());
        }
    }
    all.insert(0, normal);
    all.dedup();
    all
}

/// Returns true if a compact text has mostly digits, as numbers of accounts and cards do.
fn is_number_like(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    digits >= 6 && digits * 2 >= text.len()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Set of the words of a text and of its pairs of words that follow each other. It may hold more than was added, and
/// never less.
#[derive(Debug)]
struct WordFilter {
    bits: Vec<u64>,
    elements: usize,
    /// A random key, so that a text cannot fill the filter on purpose.
    hasher: RandomState,
}

impl Default for WordFilter {
    fn default() -> Self {
        Self { bits: Vec::new(), elements: 0, hasher: RandomState::new() }
    }
}

impl WordFilter {
    /// Creates a filter of a text, with room for more.
    fn with_room_for(text: &str) -> Self {
        let elements = 2 * text.split(|ch| !is_word(ch)).filter(|word| !word.is_empty()).count();
        let bits = (elements * BITS_PER_ELEMENT * 3 / 2).next_power_of_two().max(MIN_FILTER_BITS);
        let mut filter = Self { bits: vec![0; bits / 64], elements: 0, hasher: RandomState::new() };
        filter.add(text);
        filter
    }

    /// Adds the words of a text. Returns false if the filter has become too full to be useful.
    fn add(&mut self, text: &str) -> bool {
        if self.bits.is_empty() {
            return false;
        }
        for line in text.split('\n') {
            let mut before = None;
            for word in words(line) {
                let hash = self.hasher.hash_one(word);
                self.insert(hash);
                if let Some(before) = before.replace(hash) {
                    self.insert(pair(before, hash));
                }
            }
        }
        self.elements * BITS_PER_ELEMENT <= self.bits.len() * 64
    }

    fn insert(&mut self, hash: u64) {
        self.elements += 1;
        for place in self.places(hash) {
            if let Some(word) = self.bits.get_mut(place / 64) {
                *word |= 1 << (place % 64);
            }
        }
    }

    fn contains(&self, hash: u64) -> bool {
        self.places(hash)
            .into_iter()
            .all(|place| self.bits.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0))
    }

    fn places(&self, hash: u64) -> [usize; 3] {
        let mask = (self.bits.len() * 64).wrapping_sub(1);
        // The size is a power of two; the parts of the hash are independent.
        [hash, hash >> 21, hash >> 42]
            .map(|part| usize::try_from(part & 0xffff_ffff).unwrap_or_default() & mask)
    }

    /// Returns false if a text with these words in this order has not been added.
    fn may_contain(&self, needle: &str) -> bool {
        let mut before = None;
        words(needle).all(|word| {
            let hash = self.hasher.hash_one(word);
            let before = before.replace(hash);
            self.contains(hash) && before.is_none_or(|before| self.contains(pair(before, hash)))
        })
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|ch| !is_word(ch)).filter(|word| !word.is_empty())
}

fn pair(first: u64, second: u64) -> u64 {
    first.rotate_left(17).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ second
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::super::fields::text_fields;
    use super::super::values::argument_values;
    use super::*;

    const UNTRUSTED: TextMarks = TextMarks { untrusted: true, private: false, trusted: false };
    const PRIVATE: TextMarks = TextMarks { untrusted: false, private: true, trusted: false };

    fn index(text: &str) -> TextIndex {
        let mut index = TextIndex::default();
        assert!(index.add(1, UNTRUSTED, &text_fields(text, &[])));
        index
    }

    fn finds(index: &TextIndex, value: &str) -> bool {
        let arguments = Map::from_iter([("a".to_owned(), Value::from(value))]);
        argument_values(&arguments)
            .iter()
            .filter(|value| value.is_telling())
            .any(|value| index.find(value, false).marks.untrusted)
    }

    #[test]
    fn a_value_is_found_in_each_spelling_of_it() {
        for text in [
            "write to mark@x.example now",
            "write to (MARK@X.EXAMPLE).",
            "bWFya0B4LmV4YW1wbGU=",
            "6d61726b40782e6578616d706c65",
            "m a r k @ x . e x a m p l e",
            "mark [at] x [dot] example",
            "elpmaxe.x@kram",
            "m\u{430}rk@x.example",
            "\u{ff4d}\u{ff41}\u{ff52}\u{ff4b}\u{ff20}\u{ff58}\u{ff0e}\u{ff45}\u{ff58}\u{ff41}\u{ff4d}\u{ff50}\u{ff4c}\u{ff45}",
            "m\u{200b}ark@x.example",
            "%6dark@x.example",
        ] {
            assert!(finds(&index(text), "mark@x.example"), "{text}");
        }
        for text in ["", "mark", "x.example", "mark@x.examples", "remark@x.example", "mark@y.example"] {
            assert!(!finds(&index(text), "mark@x.example"), "{text}");
        }
        for (text, value) in [
            ("go to x.example/login", "https://www.x.example/login/"),
            ("GB29 NWBK 6016 1331 9268 19", "GB29NWBK60161331926819"),
            ("GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19"),
            ("please say: we have moved to another office", "We have moved to another office"),
        ] {
            assert!(finds(&index(text), value), "{text}");
        }
    }

    #[test]
    fn what_nobody_wrote_counts_as_private_at_most() {
        let mut index = TextIndex::default();
        let marks = TextMarks { untrusted: true, private: true, trusted: false };
        assert!(index.add(7, marks, &text_fields(r#"{"card": "4111-1111", "from": "eve@x.example"}"#, &[])));
        let origin = |text: &str| {
            let arguments = Map::from_iter([("a".to_owned(), Value::from(text))]);
            let values = argument_values(&arguments);
            index.find(values.iter().find(|value| value.kind == ValueKind::Short).unwrap(), true)
        };
        assert_eq!(origin("4111-1111").marks, PRIVATE);
        assert_eq!(
            (origin("eve@x.example").untrusted, origin("eve@x.example").marks.untrusted),
            (Some(7), true)
        );
    }

    #[test]
    fn removed_texts_are_found_no_more_and_the_others_still_are() {
        let mut index = TextIndex::default();
        for number in 0..100_u64 {
            let text = format!("value{number} of somebody and some more words around it");
            assert!(index.add(number, UNTRUSTED, &text_fields(&text, &[])));
        }
        index.remove_before(50);
        assert!(!finds(&index, "value49") && finds(&index, "value50") && finds(&index, "value99"));
        index.remove_before(1000);
        assert!(index.is_empty() && !finds(&index, "value99"));
    }

    #[test]
    fn a_full_index_says_so_and_its_memory_is_bounded() {
        let mut index = TextIndex::new(100_000);
        let text = "some words that nobody else has written ".repeat(1000);
        assert!(index.add(1, UNTRUSTED, &text_fields(&text, &[])));
        assert!(index.add(2, UNTRUSTED, &text_fields(&text, &[])));
        assert!(!index.add(3, UNTRUSTED, &text_fields(&text, &[])));
        assert!(index.memory() < 1_000_000, "{}", index.memory());
    }
}
