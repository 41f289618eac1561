//! Writing JSON objects into a buffer that begins before they do.

use std::borrow::Cow;
use std::{fmt, io};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::types::tagged::Text;

/// A writer that drops its first bytes: the brace, or the opening of `_meta`, that stands in the buffer already.
pub(crate) struct SkipFirst<'a> {
    out: &'a mut Vec<u8>,
    left: usize,
}

impl<'a> SkipFirst<'a> {
    pub(crate) fn write<T: Serialize + ?Sized>(
        out: &'a mut Vec<u8>,
        skip: usize,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        serde_json::to_writer(Self { out, left: skip }, value)
    }
}

impl io::Write for SkipFirst<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.left > 0 {
            let skip = self.left.min(bytes.len());
            self.left -= skip;
            bytes = &bytes[skip..];
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends a JSON string.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // Writing a string into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends an object of members that are JSON already.
pub(crate) fn write_object<'a>(out: &mut Vec<u8>, members: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push(b'{');
    for (index, (key, value)) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_text(out, key);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
}

/// An object of members that are JSON already.
pub(crate) fn object_text<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = Vec::new();
    write_object(&mut out, members);
    String::from_utf8(out).expect("put together from text")
}

/// The members of an object in order, not decoded.
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
                    members.push((key, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
