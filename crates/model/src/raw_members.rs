//! Access to the members of a validated JSON object without decoding it.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memchr2;

use crate::RawJson;

/// An undecoded member of an object.
#[derive(Clone, Copy, Debug)]
pub struct RawMember<'a> {
    owner: &'a Bytes,
    /// The key as JSON text, including its quotes.
    key: &'a [u8],
    value: &'a [u8],
}

impl<'a> RawMember<'a> {
    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> Cow<'a, str> {
        text(self.key).unwrap_or_default()
    }

    /// Returns the value, sharing memory.
    #[must_use]
    pub fn value(&self) -> RawJson {
        RawJson::from_trusted_bytes(self.owner.slice_ref(self.value))
    }

    /// Returns the value if it is a string.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'a, str>> {
        text(self.value)
    }

    /// Returns true if the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.value == b"null"
    }

    /// Appends the member unchanged, preceded by a comma unless it is the first one.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_as(out, self.value);
    }

    fn write_as(&self, out: &mut Vec<u8>, value: &[u8]) {
        if !matches!(out.last(), None | Some(b'{')) {
            out.push(b',');
        }
        out.extend_from_slice(self.key);
        out.push(b':');
        out.extend_from_slice(value);
    }
}

/// Edit applied to a member of an object.
pub(crate) enum MemberEdit {
    Stays,
    Becomes(RawJson),
    Goes,
}

impl RawJson {
    /// Iterates over the members of this object in order. Yields nothing for other values. Member values are not
    /// decoded.
    pub fn members(&self) -> impl Iterator<Item = RawMember<'_>> {
        let owner = self.bytes();
        let at = if owner.first() == Some(&b'{') { 1 } else { owner.len() };
        RawMemberIter { owner, at }
    }

    /// Returns the object with `value` for its member `key`. Everything else stays unchanged, byte for byte. If the
    /// object has no such member, none is added.
    #[must_use]
    pub fn with_member(&self, key: &str, value: &Self) -> Self {
        let changed = self.edit_members(|member| {
            if member.key() == key { MemberEdit::Becomes(value.clone()) } else { MemberEdit::Stays }
        });
        changed.unwrap_or_else(|| self.clone())
    }

    /// Returns the object without the members for whose keys `left_out` returns true. Returns `None` if that changes
    /// nothing.
    pub(crate) fn without_members(&self, left_out: impl Fn(&str) -> bool) -> Option<Self> {
        self.edit_members(|member| if left_out(&member.key()) { MemberEdit::Goes } else { MemberEdit::Stays })
    }

    /// Returns the object with each member edited as `fate` decides. Returns `None` if that changes nothing.
    pub(crate) fn edit_members(&self, mut fate: impl FnMut(&RawMember<'_>) -> MemberEdit) -> Option<Self> {
        let mut changed = false;
        let mut out = Vec::with_capacity(self.as_bytes().len());
        out.push(b'{');
        for member in self.members() {
            match fate(&member) {
                MemberEdit::Stays => member.write(&mut out),
                MemberEdit::Becomes(value) => {
                    changed = true;
                    member.write_as(&mut out, value.as_bytes());
                }
                MemberEdit::Goes => changed = true,
            }
        }
        out.push(b'}');
        changed.then(|| Self::from_trusted_bytes(out.into()))
    }
}

struct RawMemberIter<'a> {
    owner: &'a Bytes,
    at: usize,
}

impl<'a> Iterator for RawMemberIter<'a> {
    type Item = RawMember<'a>;

    fn next(&mut self) -> Option<RawMember<'a>> {
        let all: &'a [u8] = self.owner;
        let begin = skip(all, self.at, |byte| byte.is_ascii_whitespace() || byte == b',');
        if all.get(begin) != Some(&b'"') {
            return None;
        }
        let end = value_end(all, begin)?;
        let key = &all[begin..end];
        let begin = skip(all, end, |byte| byte.is_ascii_whitespace() || byte == b':');
        let end = value_end(all, begin)?;
        self.at = end;
        Some(RawMember { owner: self.owner, key, value: &all[begin..end] })
    }
}

/// Decodes a JSON string; borrows it unless it contains escapes.
fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(json).ok().map(Cow::Owned)
}

fn skip(all: &[u8], from: usize, passed: impl Fn(u8) -> bool) -> usize {
    let rest = all.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| passed(**byte)).count()
}

/// Returns the position after the value that begins at `from`.
fn value_end(all: &[u8], from: usize) -> Option<usize> {
    match all.get(from)? {
        b'"' => string_end(all, from),
        b'{' | b'[' => {
            let (mut at, mut depth) = (from, 0_usize);
            loop {
                match all.get(at)? {
                    b'"' => {
                        at = string_end(all, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => Some(skip(all, from, |byte| !byte.is_ascii_whitespace() && !matches!(byte, b',' | b'}' | b']'))),
    }
}

fn string_end(all: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        let found = at + memchr2(b'"', b'\\', all.get(at..)?)?;
        if all[found] == b'"' {
            return Some(found + 1);
        }
        // Skips the escaped byte as well, which may be a quote.
        at = found + 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "(?s)[a\"\\\\,:{}\\[\\] \u{e9}\n]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map("(?s)[a-c\"\\\\,:{}]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn members_are_what_a_decoder_finds(value in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let raw = RawJson::parse(text.unwrap()).unwrap();
            let found: Vec<(String, Value)> =
                raw.members().map(|m| (m.key().into_owned(), m.value().to_value().unwrap())).collect();
            let wanted: Vec<(String, Value)> = match value {
                Value::Object(map) => map.into_iter().collect(),
                _ => Vec::new(),
            };
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn strings_are_read_and_nothing_else_is_taken_for_one() {
        let raw =
            RawJson::parse(r#"{"n\u0061me": "a\"b", "x" : [1,{"name":2}],"y":"plain","z":null}"#).unwrap();
        let all: Vec<_> = raw.members().collect();
        assert_eq!((&*all[0].key(), all[0].text().as_deref()), ("name", Some("a\"b")));
        assert_eq!((&*all[1].key(), all[1].text()), ("x", None));
        assert!(matches!(all[2].text(), Some(Cow::Borrowed("plain"))));
        assert!(all[3].is_null() && all.len() == 4);
        assert!(!all[0].is_null() && !all[1].is_null());
    }

    #[test]
    fn a_member_is_exchanged_and_the_rest_stays_as_it_is() {
        let raw = RawJson::parse(r#"{"name": "a", "x":[1, {"name":"a"}], "n\u0061me":2}"#).unwrap();
        let new = RawJson::parse(r#"{"b": 1}"#).unwrap();
        // Blanks around members are not part of them; twice the name is twice the member.
        assert_eq!(
            raw.with_member("name", &new).as_str(),
            r#"{"name":{"b": 1},"x":[1, {"name":"a"}],"n\u0061me":{"b": 1}}"#
        );
        assert_eq!(raw.with_member("y", &new).as_str(), raw.as_str());
        assert_eq!(new.with_member("b", &RawJson::null()).as_str(), r#"{"b":null}"#);
    }
}
