//! Arguments that are repeated in headers: `x-mcp-header` in a tool's input schema (2026-07-28).

use std::fmt;

use hospes_model::{RawJson, RpcError};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::headers::{PARAM_PREFIX, decode_value, encode_value, mismatch};
use crate::number;

/// Schema keyword that marks a property.
const KEYWORD: &str = "x-mcp-header";

/// Arguments of one tool that are repeated in headers. Created once per tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderParams(Vec<HeaderParam>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HeaderParam {
    /// Names of the members that lead to the argument.
    path: Vec<Box<str>>,
    header: HeaderName,
}

/// Error for a tool with invalid annotations, with their position. A client drops such a tool and logs the error
/// (HHDR-29, HHDR-30).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("x-mcp-header at {path}: {reason}")]
#[non_exhaustive]
pub struct HeaderParamsError {
    /// Position in the schema, as a JSON pointer.
    pub path: String,
    /// Fault of the annotation.
    pub reason: HeaderParamsFault,
}

/// Faults of an annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderParamsFault {
    /// The schema is not a JSON object.
    #[error("the schema is not a JSON object")]
    Schema,
    /// The name is not a string that may follow `Mcp-Param-` in a header's name (HHDR-25).
    #[error("the name is not a header name")]
    Name,
    /// Two properties have the same name, ignoring case (HHDR-26).
    #[error("the name is used twice")]
    Twice,
    /// The property is not a string, integer or boolean (HHDR-27).
    #[error("only string, integer and boolean properties can be sent in a header")]
    Type,
    /// The property is nested in another keyword than `properties` (HHDR-28).
    #[error("only values reached through `properties` alone can be sent in a header")]
    Place,
}

impl HeaderParams {
    /// Reads the annotations of an input schema.
    ///
    /// # Errors
    /// [`HeaderParamsError`] for the first one that is invalid.
    pub fn from_schema(input_schema: &RawJson) -> Result<Self, HeaderParamsError> {
        // Most tools have none, and most schemas are long.
        if memchr::memmem::find(input_schema.as_bytes(), b"mcp-header").is_none() {
            return Ok(Self::default());
        }
        let mut reader = HeaderParamsReader::default();
        match input_schema.decode() {
            Ok(Value::Object(schema)) => {
                if schema.contains_key(KEYWORD) {
                    return Err(reader.fault(HeaderParamsFault::Place));
                }
                reader.schema(&schema, true)?;
            }
            _ => return Err(reader.fault(HeaderParamsFault::Schema)),
        }
        Ok(Self(reader.found))
    }

    /// Returns true if no argument is repeated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the headers for a call with these arguments (HHDR-20, HHDR-21).
    pub fn add_headers(&self, arguments: Option<&RawValue>, headers: &mut HeaderMap) {
        for marked in &self.0 {
            if let Some(text) = marked.argument(arguments).and_then(as_text) {
                headers.insert(marked.header.clone(), encode_value(&text));
            }
        }
    }

    /// Checks that the headers of a call agree with its arguments (HHDR-18, HHDR-22..24).
    ///
    /// # Errors
    /// `-32020` if a header is missing or contradicts its argument.
    pub fn check(&self, arguments: Option<&RawValue>, headers: &HeaderMap) -> Result<(), RpcError> {
        self.0.iter().try_for_each(|marked| marked.check(arguments, headers))
    }
}

impl HeaderParam {
    fn argument<'a>(&self, arguments: Option<&'a RawValue>) -> Option<&'a RawValue> {
        let value = self.path.iter().try_fold(arguments?, |object, name| member(object, name))?;
        // A null argument has no header (HHDR-21, HHDR-22).
        (value.get() != "null").then_some(value)
    }

    fn check(&self, arguments: Option<&RawValue>, headers: &HeaderMap) -> Result<(), RpcError> {
        let argument = self.argument(arguments);
        let mut values = headers.get_all(&self.header).iter();
        let fault = match (values.next(), argument) {
            (None, None) => return Ok(()),
            // An array or object cannot be sent in a header. Its validator reports that it does not match the schema.
            (None, Some(argument)) if as_text(argument).is_none() => return Ok(()),
            (None, Some(_)) => "is missing",
            (Some(_), None) => "has no matching argument in the body",
            (Some(_), Some(_)) if values.next().is_some() => "appears twice",
            (Some(value), Some(argument)) => match agrees(value, argument) {
                Ok(true) => return Ok(()),
                Ok(false) => "does not match the argument in the body",
                Err(_) => "cannot be decoded",
            },
        };
        Err(mismatch(format!("the header {} {fault}", self.header)))
    }
}

fn agrees(value: &HeaderValue, argument: &RawValue) -> Result<bool, super::headers::HeaderValueError> {
    let value = decode_value(value)?;
    let Some(text) = as_text(argument) else { return Ok(false) };
    if value == text {
        return Ok(true);
    }
    // Only numbers have more than one spelling.
    let is_number = argument.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let number = is_number.then(|| serde_json::from_str::<Number>(&value).ok()).flatten();
    Ok(number.is_some_and(|number| number::canonical(&number) == text))
}

/// Formats a scalar as a header value: strings unchanged, numbers in decimal, `true` and `false`.
fn as_text(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number::canonical(&number)),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns the member `name` of an object, undecoded.
fn member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    struct MemberVisitor<'n>(&'n str);
    impl<'de> Visitor<'de> for MemberVisitor<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            // The last of several members with one name counts, as it does when the arguments are decoded.
            let mut found = None;
            while let Some(is_it) = map.next_key_seed(NameMatcher(self.0))? {
                if is_it {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(object.get()).deserialize_map(MemberVisitor(name)).ok().flatten()
}

struct NameMatcher<'n>(&'n str);

impl<'de> serde::de::DeserializeSeed<'de> for NameMatcher<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameMatcher<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// Reads the annotations of a schema recursively.
#[derive(Default)]
struct HeaderParamsReader {
    found: Vec<HeaderParam>,
    /// Names of the members from the root to the current node.
    path: Vec<String>,
}

impl HeaderParamsReader {
    /// Reads the annotations below `schema`. `reached` is true if only `properties` lead to it.
    fn schema(&mut self, schema: &Map<String, Value>, reached: bool) -> Result<(), HeaderParamsError> {
        for (keyword, value) in schema {
            self.path.push(keyword.clone());
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        self.below(name, property, reached)?;
                    }
                }
                // These keywords contain values, not schemas.
                ("const" | "enum" | "default" | "examples", _) => {}
                (
                    "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                    Value::Object(schemas),
                ) => {
                    for (name, schema) in schemas {
                        self.below(name, schema, false)?;
                    }
                }
                (_, Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter().enumerate() {
                        self.below(&index.to_string(), schema, false)?;
                    }
                }
                (_, Value::Object(inner)) => {
                    if inner.contains_key(KEYWORD) {
                        return Err(self.fault(HeaderParamsFault::Place));
                    }
                    self.schema(inner, false)?;
                }
                _ => {}
            }
            self.path.pop();
        }
        Ok(())
    }

    fn below(&mut self, name: &str, schema: &Value, reached: bool) -> Result<(), HeaderParamsError> {
        let Value::Object(schema) = schema else { return Ok(()) };
        self.path.push(name.to_owned());
        if let Some(header) = schema.get(KEYWORD) {
            if !reached {
                return Err(self.fault(HeaderParamsFault::Place));
            }
            let header = self.header(header).ok_or_else(|| self.fault(HeaderParamsFault::Name))?;
            if !is_plain(schema.get("type")) {
                return Err(self.fault(HeaderParamsFault::Type));
            }
            if self.found.iter().any(|other| other.header == header) {
                return Err(self.fault(HeaderParamsFault::Twice));
            }
            // Every other member of the path is the keyword `properties`.
            let path = self.path.iter().skip(1).step_by(2).map(|name| name.as_str().into()).collect();
            self.found.push(HeaderParam { path, header });
        }
        self.schema(schema, reached)?;
        self.path.pop();
        Ok(())
    }

    fn header(&self, name: &Value) -> Option<HeaderName> {
        let name = name.as_str().filter(|name| !name.is_empty())?;
        HeaderName::from_bytes(format!("{PARAM_PREFIX}{name}").as_bytes()).ok()
    }

    fn fault(&self, reason: HeaderParamsFault) -> HeaderParamsError {
        let mut path = String::from("#");
        for name in &self.path {
            path.push('/');
            path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        }
        HeaderParamsError { path, reason }
    }
}

/// Returns true if the `type` of a schema is one of the three that a header can hold. `null` beside it is allowed,
/// because a null argument has no header.
fn is_plain(kind: Option<&Value>) -> bool {
    let plain = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    match kind {
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter(|kind| kind.as_str() != Some("null"));
            kinds.next().is_some_and(plain) && kinds.next().is_none()
        }
        Some(kind) => plain(kind),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mirror(properties: &Value) -> Result<HeaderParams, HeaderParamsFault> {
        HeaderParams::from_schema(&json!({"type": "object", "properties": properties}).into())
            .map_err(|error| error.reason)
    }

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    fn sample() -> HeaderParams {
        mirror(&json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": ["integer", "null"], "x-mcp-header": "Count"},
            "nested": {"type": "object", "properties": {"dry": {"type": "boolean", "x-mcp-header": "Dry"}}},
            "free": {"type": "string"},
        }))
        .unwrap()
    }

    fn headers(arguments: &Value) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        sample().add_headers(Some(&raw(arguments)), &mut headers);
        let mut list: Vec<_> = headers
            .iter()
            .map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned()))
            .collect();
        list.sort();
        list
    }

    /// covers: HHDR-20 HHDR-21
    #[test]
    fn marked_arguments_are_repeated_in_headers() {
        let got = headers(&json!({"region": "us ", "count": 42.0, "nested": {"dry": false}, "free": "x"}));
        let want =
            [("mcp-param-count", "42"), ("mcp-param-dry", "false"), ("mcp-param-region", "=?base64?dXMg?=")];
        assert_eq!(got, want.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(headers(&json!({"region": null, "nested": 7, "free": "x"})), []);
        assert_eq!(headers(&json!({"region": ""})), [("mcp-param-region".to_owned(), String::new())]);
        let mut none = HeaderMap::new();
        sample().add_headers(None, &mut none);
        assert!(none.is_empty());
    }

    /// covers: HHDR-18 HHDR-22 HHDR-23 HHDR-24
    #[test]
    fn headers_are_checked_against_arguments() {
        let check = |headers: &[(&'static str, &[u8])], arguments: &Value| {
            let map: HeaderMap = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()))
                .collect();
            sample().check(Some(&raw(arguments)), &map).map_err(|error| error.code)
        };
        let region = |value: &'static [u8]| [("mcp-param-region", value)];
        for (header, argument) in [
            (&b"=?base64?SGVsbG8=?="[..], "Hello"),
            (b"SGVsbG8=", "SGVsbG8="),
            (b"=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
            (b" Hello ", "Hello"),
            (b"", ""),
        ] {
            assert_eq!(check(&region(header), &json!({"region": argument})), Ok(()), "{header:?}");
        }
        for (header, argument) in [
            (&b"=?base64?SGVsbG8?="[..], "Hello"),
            (b"=?base64?SGVs!!!bG8=?=", "Hello"),
            (b"hello", "Hello"),
            (b"42.0", "42"),
            (b"caf\xc3\xa9", "caf\u{e9}"),
        ] {
            assert_eq!(check(&region(header), &json!({"region": argument})), Err(-32020), "{header:?}");
        }
        let count = |value: &'static [u8]| [("mcp-param-count", value)];
        assert_eq!(check(&count(b"42.0"), &json!({"count": 42})), Ok(()));
        assert_eq!(check(&count(b"42"), &json!({"count": 42.0})), Ok(()));
        assert_eq!(check(&count(b"43"), &json!({"count": 42})), Err(-32020));
        assert_eq!(check(&[], &json!({"region": "x"})), Err(-32020));
        assert_eq!(check(&[], &json!({"region": null})), Ok(()));
        assert_eq!(check(&[], &json!({"region": ["x"]})), Ok(()));
        assert_eq!(check(&region(b"x"), &json!({})), Err(-32020));
        assert_eq!(check(&[("mcp-param-unknown", b"x")], &json!({})), Ok(()));
        assert_eq!(check(&[region(b"x"), region(b"x")].concat(), &json!({"region": "x"})), Err(-32020));
    }

    /// covers: HHDR-25 HHDR-26 HHDR-27 HHDR-28 HHDR-29
    #[test]
    fn invalid_annotations_are_found() {
        use HeaderParamsFault::{Name, Place, Twice, Type};
        let marked = |kind: &str, name: &str| json!({"type": kind, "x-mcp-header": name});
        for (properties, fault) in [
            (json!({"a": marked("string", "")}), Name),
            (json!({"a": marked("string", "My Region")}), Name),
            (json!({"a": marked("string", "A:B")}), Name),
            (json!({"a": marked("string", "R\u{e9}gion")}), Name),
            (json!({"a": marked("string", "A\u{7}")}), Name),
            (json!({"a": {"type": "string", "x-mcp-header": 5}}), Name),
            (json!({"a": marked("number", "A")}), Type),
            (json!({"a": marked("object", "A")}), Type),
            (json!({"a": marked("array", "A")}), Type),
            (json!({"a": marked("null", "A")}), Type),
            (json!({"a": {"x-mcp-header": "A"}}), Type),
            (json!({"a": {"type": ["string", "integer"], "x-mcp-header": "A"}}), Type),
            (json!({"a": marked("string", "Same"), "b": marked("string", "SAME")}), Twice),
            (json!({"a": {"type": "array", "items": marked("string", "A")}}), Place),
            (json!({"a": {"anyOf": [marked("string", "A")]}}), Place),
            (json!({"a": {"not": {"properties": {"b": marked("string", "A")}}}}), Place),
            (json!({"a": {"$defs": {"b": marked("string", "A")}}}), Place),
            // A schema in `$defs` may have the name of a keyword.
            (json!({"a": {"$defs": {"const": marked("string", "A")}}}), Place),
            (
                json!({"a": {"definitions": {"properties": {"properties": {"b": marked("string", "A")}}}}}),
                Place,
            ),
        ] {
            assert_eq!(mirror(&properties), Err(fault), "{properties}");
        }
        let root = json!({"type": "object", "x-mcp-header": "A"});
        let error = HeaderParams::from_schema(&root.into()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x-mcp-header at #: only values reached through `properties` alone can be sent in a header"
        );
        let deep = json!({"properties": {"a/b": {"items": marked("string", "A")}}});
        assert_eq!(HeaderParams::from_schema(&deep.into()).unwrap_err().path, "#/properties/a~1b/items");
    }

    #[test]
    fn the_word_alone_is_no_annotation() {
        let named = mirror(&json!({"x-mcp-header": {"type": "string"}})).unwrap();
        assert!(named.is_empty());
        let value = mirror(&json!({"a": {"type": "object", "default": {"x-mcp-header": ""}}})).unwrap();
        assert!(value.is_empty());
        let called =
            mirror(&json!({"a": {"patternProperties": {"x-mcp-header": {"type": "string"}}}})).unwrap();
        assert!(called.is_empty());
        assert!(HeaderParams::from_schema(&json!({"type": "object"}).into()).unwrap().is_empty());
        assert!(!sample().is_empty());
    }
}
