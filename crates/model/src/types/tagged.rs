//! Enumerations tagged by the member `type`, decoded in one pass if it comes first.
//!
//! Internally tagged enumerations of serde buffer the whole object, which loses raw JSON.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::RawJson;

/// Trait that [`tagged_enum`] implements.
pub(crate) trait Tagged: Sized {
    /// Decodes the members that follow the tag. Returns `None` with the deserializer for an unknown tag.
    fn decode<'de, D: Deserializer<'de>>(tag: &str, members: D) -> Result<Decoded<Self, D>, D::Error>;

    /// Wraps an object with an unknown tag.
    fn unknown(raw: RawJson) -> Self;
}

/// Result of decoding a tag.
pub(crate) enum Decoded<T, D> {
    Known(T),
    Unknown(D),
}

pub(crate) fn deserialize<'de, T: Tagged, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(TaggedVisitor(PhantomData))
}

struct TaggedVisitor<T>(PhantomData<T>);

impl<'de, T: Tagged> Visitor<'de> for TaggedVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the member \"type\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let Some(first) = map.next_key::<BorrowedText<'de>>()? else {
            return Err(de::Error::missing_field("type"));
        };
        if first.0 == "type" {
            let tag = map.next_value::<BorrowedText<'de>>()?;
            return match T::decode(&tag.0, MapAccessDeserializer::new(map))? {
                Decoded::Known(value) => Ok(value),
                Decoded::Unknown(rest) => {
                    let mut raw = TaggedMembers::default();
                    rest.deserialize_map(&mut raw)?;
                    // Only now, so that the first of two tags counts.
                    raw.tag = Some(tag.0.into_owned());
                    raw.whole().map(T::unknown)
                }
            };
        }
        // The tag is not first: collects the members as text, then decodes that.
        let mut raw = TaggedMembers::default();
        raw.push(&first.0, map.next_value::<RawJson>()?.as_str());
        (&mut raw).visit_map(map)?;
        let Some(tag) = &raw.tag else {
            return Err(de::Error::missing_field("type"));
        };
        let rest = format!("{{{}}}", raw.members);
        match T::decode(tag, &mut serde_json::Deserializer::from_str(&rest)).map_err(de::Error::custom)? {
            Decoded::Known(value) => Ok(value),
            Decoded::Unknown(_) => raw.whole().map(T::unknown),
        }
    }
}

/// A string that is borrowed if possible.
pub(crate) struct BorrowedText<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for BorrowedText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BorrowedTextVisitor;
        impl<'de> Visitor<'de> for BorrowedTextVisitor {
            type Value = BorrowedText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<BorrowedText<'de>, E> {
                Ok(BorrowedText(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<BorrowedText<'de>, E> {
                Ok(BorrowedText(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(BorrowedTextVisitor)
    }
}

/// Members of an object, reassembled as text, and the tag separate from them.
#[derive(Default)]
struct TaggedMembers {
    tag: Option<String>,
    members: String,
}

impl TaggedMembers {
    fn push(&mut self, key: &str, value: &str) {
        if !self.members.is_empty() {
            self.members.push(',');
        }
        push_text(&mut self.members, key);
        self.members.push(':');
        self.members.push_str(value);
    }

    fn whole<E: de::Error>(&self) -> Result<RawJson, E> {
        let mut text = String::from("{\"type\":");
        push_text(&mut text, self.tag.as_deref().unwrap_or_default());
        if !self.members.is_empty() {
            text.push(',');
            text.push_str(&self.members);
        }
        text.push('}');
        RawJson::parse(text).map_err(E::custom)
    }
}

fn push_text(out: &mut String, text: &str) {
    // Serializing a string cannot fail.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

impl<'de> Visitor<'de> for &mut TaggedMembers {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<BorrowedText<'de>>()? {
            if key.0 == "type" {
                self.tag = Some(map.next_value()?);
            } else {
                self.push(&key.0, map.next_value::<RawJson>()?.as_str());
            }
        }
        Ok(())
    }
}

/// Decodes the members that follow the tag.
pub(crate) fn variant<'de, T: DeserializeOwned, D: Deserializer<'de>>(members: D) -> Result<T, D::Error> {
    T::deserialize(members)
}

/// Writes `{"type":tag` and the members of `value`.
pub(crate) fn serialize<S: Serializer, T: Serialize>(
    serializer: S,
    tag: &'static str,
    value: &T,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct WithTag<'a, T> {
        r#type: &'static str,
        #[serde(flatten)]
        value: &'a T,
    }
    WithTag { r#type: tag, value }.serialize(serializer)
}

/// Decodes one value, or an array of them.
pub(crate) fn one_or_many<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Tagged + Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct OneOrMany<T>(PhantomData<T>);
    impl<'de, T: Tagged + Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a block or an array of blocks")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
            TaggedVisitor(PhantomData).visit_map(map).map(|one| vec![one])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut many = Vec::new();
            while let Some(one) = seq.next_element()? {
                many.push(one);
            }
            Ok(many)
        }
    }
    deserializer.deserialize_any(OneOrMany(PhantomData))
}

/// Implements `Serialize` and `Deserialize` for an enumeration with the variant `Unknown(RawJson)`.
macro_rules! tagged_enum {
    ($name:ident { $($tag:literal => $variant:ident($type:ty)),+ $(,)? }) => {
        impl Tagged for $name {
            fn decode<'de, D: serde::Deserializer<'de>>(
                tag: &str,
                members: D,
            ) -> Result<tagged::Decoded<Self, D>, D::Error> {
                match tag {
                    $($tag => tagged::variant::<$type, D>(members).map(|v| tagged::Decoded::Known(Self::$variant(v))),)+
                    _ => Ok(tagged::Decoded::Unknown(members)),
                }
            }

            fn unknown(raw: RawJson) -> Self {
                Self::Unknown(raw)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(value) => tagged::serialize(serializer, $tag, value),)+
                    Self::Unknown(raw) => raw.serialize(serializer),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                tagged::deserialize(deserializer)
            }
        }
    };
}
