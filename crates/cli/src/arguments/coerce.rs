//! Coercion of command-line text to the types of a JSON Schema.

use serde_json::{Map, Number, Value};

use super::schema::ArgumentSchema;
use super::signature::type_name;
use super::{ArgumentMistake, ArgumentProblems, printable, quoted, shown};

/// A value as given on the command line.
#[derive(Debug, Clone)]
pub(super) enum GivenValue {
    Text(String),
    Json(Value),
}

/// A member of an object and all values given for it.
struct MemberInput {
    name: String,
    given: Vec<GivenValue>,
    /// Values given for its own members.
    nested: Vec<(String, GivenValue)>,
}

impl MemberInput {
    fn find<'m>(members: &'m mut Vec<Self>, name: &str) -> &'m mut Self {
        let index = members.iter().position(|member| member.name == name).unwrap_or_else(|| {
            members.push(Self { name: name.to_owned(), given: Vec::new(), nested: Vec::new() });
            members.len() - 1
        });
        &mut members[index]
    }
}

/// Builds an object from a base and named values that override it.
pub(super) fn object(
    path: &str,
    schema: &ArgumentSchema<'_>,
    mut object: Map<String, Value>,
    entries: Vec<(String, GivenValue)>,
    problems: &mut ArgumentProblems,
) -> Map<String, Value> {
    // In the order given; a name given twice is one member with two values.
    let mut members: Vec<MemberInput> = Vec::new();
    for (name, value) in entries {
        match name.split_once('.') {
            // A property whose own name contains the dot takes precedence over a path into an object.
            Some((head, rest))
                if schema.property(&name).is_none()
                    && !rest.is_empty()
                    && schema.property(head).is_some_and(|inner| accepts(&inner, "object")) =>
            {
                MemberInput::find(&mut members, head).nested.push((rest.to_owned(), value));
            }
            _ => MemberInput::find(&mut members, &name).given.push(value),
        }
    }
    for MemberInput { name, given, nested } in members {
        let path = join(path, &name);
        let inner = match schema.property(&name) {
            Some(inner) => inner,
            // JSON Schema allows unlisted members, but on a command line such a name is mostly a typo. They are
            // accepted only if the schema explicitly allows further members.
            None if schema.welcomes_more() => schema.additional().unwrap_or_else(|| schema.any()),
            None => {
                problems.add::<()>(&path, unknown(schema, &name));
                continue;
            }
        };
        if !given.is_empty() {
            match value(&path, &inner, given, problems) {
                Some(value) => object.insert(name.clone(), value),
                None => continue,
            };
        }
        if !nested.is_empty() {
            let base = match object.remove(&name) {
                Some(Value::Object(base)) => base,
                None => Map::new(),
                Some(other) => {
                    problems.add::<()>(&path, ArgumentMistake::wrong("an object", shown(&other)));
                    continue;
                }
            };
            let made = self::object(&path, &inner, base, nested, problems);
            object.insert(name, Value::Object(made));
        }
    }
    if path.is_empty() {
        let whole = Value::Object(object);
        check_members(path, schema, &whole, problems);
        let Value::Object(back) = whole else { return Map::new() };
        object = back;
    }
    object
}

fn unknown(schema: &ArgumentSchema<'_>, name: &str) -> ArgumentMistake {
    let known = schema.properties();
    let hint = match hospes_host::config::nearest(name, known.iter().copied()) {
        Some(meant) => format!("; did you mean `{}`?", printable(meant)),
        None if known.is_empty() => "; there are none".to_owned(),
        None => String::new(),
    };
    ArgumentMistake::Unknown { hint }
}

/// Converts all values given for one member.
fn value(
    path: &str,
    schema: &ArgumentSchema<'_>,
    mut given: Vec<GivenValue>,
    problems: &mut ArgumentProblems,
) -> Option<Value> {
    if given.len() == 1 {
        return match given.pop()? {
            GivenValue::Text(text) => match from_text(schema, &text) {
                Ok(value) => Some(value),
                Err(CoercionError { inner, trouble }) => problems.add(&format!("{path}{inner}"), trouble),
            },
            GivenValue::Json(value) => checked(path, schema, value, problems),
        };
    }
    let Some(array) = array_part(schema) else {
        let (times, expected) = (given.len(), type_name(schema));
        return problems.add(path, ArgumentMistake::Repeated { times, expected });
    };
    let mut items = Vec::with_capacity(given.len());
    for (index, given) in given.into_iter().enumerate() {
        items.push(value(&format!("{path}[{index}]"), &array.item(index), vec![given], problems));
    }
    items.into_iter().collect::<Option<Vec<_>>>().map(Value::Array)
}

/// Reason why text does not match a schema, and the place inside it.
struct CoercionError {
    inner: String,
    trouble: ArgumentMistake,
}

impl CoercionError {
    fn new(schema: &ArgumentSchema<'_>, text: &str) -> Self {
        Self { inner: String::new(), trouble: ArgumentMistake::wrong(type_name(schema), quoted(text)) }
    }
}

fn from_text(schema: &ArgumentSchema<'_>, text: &str) -> Result<Value, CoercionError> {
    // The schema is too large or too deep to follow, so the text is sent unchanged and the server decides.
    if schema.is_exhausted() {
        return Ok(Value::String(text.to_owned()));
    }
    if let Some(choices) = schema.choices() {
        let written = |choice: &Value| match choice {
            Value::String(choice) => choice == text,
            other => serde_json::from_str::<Value>(text).is_ok_and(|value| same(other, &value)),
        };
        return choices.iter().find(|choice| written(choice)).cloned().ok_or_else(|| {
            let names = choices.iter().filter_map(Value::as_str);
            let hint = hospes_host::config::nearest(text, names)
                .map_or_else(String::new, |meant| format!("; did you mean {}?", quoted(meant)));
            let expected = type_name(schema);
            CoercionError {
                inner: String::new(),
                trouble: ArgumentMistake::Wrong { expected, given: quoted(text), hint },
            }
        });
    }
    if let Some(alternatives) = schema.alternatives() {
        let branches = alternatives.iter().map(|node| schema.branch(node));
        return first(schema, text, branches.map(|branch| from_text(&branch, text)));
    }
    let types = schema.types();
    match types.as_slice() {
        [] => Ok(Value::String(text.to_owned())),
        [name] => from_typed_text(schema, name, text),
        names => first(schema, text, names.iter().map(|name| from_typed_text(schema, name, text))),
    }
}

/// Returns the most specific of several readings. Any text can be read as a string, little of it as `null`.
fn first(
    schema: &ArgumentSchema<'_>,
    text: &str,
    readings: impl Iterator<Item = Result<Value, CoercionError>>,
) -> Result<Value, CoercionError> {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::Array(_) => 4,
        Value::Object(_) => 3,
        Value::String(_) => 5,
    };
    let mut refusal = None;
    let mut best: Option<Value> = None;
    for reading in readings {
        match reading {
            // An exact match of a choice is more specific than a guess at the type.
            Ok(value) if best.as_ref().is_none_or(|best| rank(&value) < rank(best)) => best = Some(value),
            Ok(_) => {}
            // A reading that failed inside the value got furthest, so its reason is shown.
            Err(found) if !found.inner.is_empty() => refusal = refusal.or(Some(found)),
            Err(_) => {}
        }
    }
    best.ok_or_else(|| refusal.unwrap_or_else(|| CoercionError::new(schema, text)))
}

fn from_typed_text(schema: &ArgumentSchema<'_>, name: &str, text: &str) -> Result<Value, CoercionError> {
    // Blanks around a number or literal are insignificant, but in a string they are part of the value.
    let word = text.trim();
    let value = match name {
        "string" => Some(Value::String(text.to_owned())),
        "integer" => integer(word).map(Value::Number),
        "number" => number(word).map(Value::Number),
        "boolean" if word.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        "boolean" if word.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        "null" if word == "null" => Some(Value::Null),
        "array" => return from_array_text(schema, text),
        "object" => match serde_json::from_str(word) {
            Ok(value @ Value::Object(_)) => return check_json(schema, value),
            _ => None,
        },
        _ => None,
    };
    value.ok_or_else(|| match name {
        "object" if word.starts_with('{') => {
            let error =
                serde_json::from_str::<Value>(word).err().map_or_else(String::new, |error| error.to_string());
            CoercionError { inner: String::new(), trouble: ArgumentMistake::Json(error) }
        }
        _ => CoercionError::new(schema, text),
    })
}

/// Parses an array from JSON, or takes the text as its only item.
fn from_array_text(schema: &ArgumentSchema<'_>, text: &str) -> Result<Value, CoercionError> {
    if text.trim_start().starts_with('[')
        && let Ok(value @ Value::Array(_)) = serde_json::from_str(text)
    {
        return check_json(schema, value);
    }
    match from_text(&schema.item(0), text) {
        Ok(item) => Ok(Value::Array(vec![item])),
        Err(refusal) => Err(CoercionError { inner: format!("[0]{}", refusal.inner), ..refusal }),
    }
}

fn check_json(schema: &ArgumentSchema<'_>, value: Value) -> Result<Value, CoercionError> {
    let mut problems = ArgumentProblems::default();
    check("", schema, &value, &mut problems);
    match problems.list.into_iter().next() {
        None => Ok(value),
        Some(problem) => {
            let inner = match problem.path.as_str() {
                path if path.is_empty() || path.starts_with('[') => path.to_owned(),
                path => format!(".{path}"),
            };
            Err(CoercionError { inner, trouble: problem.trouble })
        }
    }
}

fn integer(text: &str) -> Option<Number> {
    if let Ok(value) = text.parse::<i64>() {
        return Some(value.into());
    }
    if let Ok(value) = text.parse::<u64>() {
        return Some(value.into());
    }
    // JSON Schema counts `3.0` and `1e3` as integers. Beyond 2^53 a float is no longer exact.
    let float: f64 = text.parse().ok()?;
    let whole = (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)?;
    Some(whole.into())
}

fn number(text: &str) -> Option<Number> {
    if let Ok(value) = text.parse::<i64>() {
        return Some(value.into());
    }
    if let Ok(value) = text.parse::<u64>() {
        return Some(value.into());
    }
    // Rust also reads `inf` and `nan`; JSON has no such numbers, and this gives `None` for them.
    Number::from_f64(text.parse().ok()?)
}

/// Returns the part of a schema that allows an array.
fn array_part<'a>(schema: &ArgumentSchema<'a>) -> Option<ArgumentSchema<'a>> {
    if schema.is_exhausted() {
        return None;
    }
    if let Some(alternatives) = schema.alternatives() {
        return alternatives.iter().find_map(|node| array_part(&schema.branch(node)));
    }
    let types = schema.types();
    (types.contains(&"array") || (types.is_empty() && schema.choices().is_none())).then(|| schema.clone())
}

fn accepts(schema: &ArgumentSchema<'_>, name: &str) -> bool {
    if schema.is_exhausted() {
        return false;
    }
    match schema.alternatives() {
        Some(alternatives) => alternatives.iter().any(|node| accepts(&schema.branch(node), name)),
        None => schema.types().contains(&name),
    }
}

fn checked(
    path: &str,
    schema: &ArgumentSchema<'_>,
    value: Value,
    problems: &mut ArgumentProblems,
) -> Option<Value> {
    let before = problems.list.len();
    check(path, schema, &value, problems);
    (problems.list.len() == before).then_some(value)
}

/// Finds the parts of a value that contradict the schema's types.
pub(super) fn check(path: &str, schema: &ArgumentSchema<'_>, value: &Value, problems: &mut ArgumentProblems) {
    if schema.is_exhausted() {
        return;
    }
    if let Some(choices) = schema.choices() {
        if !choices.iter().any(|choice| same(choice, value)) {
            problems.add::<()>(path, ArgumentMistake::wrong(type_name(schema), shown(value)));
        }
        return;
    }
    if let Some(alternatives) = schema.alternatives() {
        let mut closest: Option<ArgumentProblems> = None;
        for node in alternatives {
            let mut found = ArgumentProblems::default();
            check(path, &schema.branch(node), value, &mut found);
            if found.list.is_empty() {
                return;
            }
            // A branch whose only problems are inside the value accepts the value's own type.
            if closest.is_none() && found.list.iter().all(|problem| problem.path != path) {
                closest = Some(found);
            }
        }
        match closest {
            Some(found) => {
                for problem in found.list {
                    problems.add::<()>(&problem.path, problem.trouble);
                }
            }
            None => {
                problems.add::<()>(path, ArgumentMistake::wrong(type_name(schema), shown(value)));
            }
        }
        return;
    }
    let types = schema.types();
    if !types.is_empty() && !types.iter().any(|name| is_type(value, name)) {
        problems.add::<()>(path, ArgumentMistake::wrong(type_name(schema), shown(value)));
        return;
    }
    check_members(path, schema, value, problems);
}

fn check_members(path: &str, schema: &ArgumentSchema<'_>, value: &Value, problems: &mut ArgumentProblems) {
    match value {
        Value::Object(object) => {
            for name in schema.required() {
                if !object.contains_key(name) {
                    let expected =
                        schema.property(name).map_or_else(|| "any".to_owned(), |inner| type_name(&inner));
                    problems.add::<()>(&join(path, name), ArgumentMistake::Missing { expected });
                }
            }
            for (name, value) in object {
                let path = join(path, name);
                match schema.property(name).or_else(|| schema.additional()) {
                    Some(inner) => check(&path, &inner, value, problems),
                    None => {
                        problems.add::<()>(&path, unknown(schema, name));
                    }
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(&format!("{path}[{index}]"), &schema.item(index), item, problems);
            }
        }
        _ => {}
    }
}

fn is_type(value: &Value, name: &str) -> bool {
    match (name, value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_))
        | ("number", Value::Number(_)) => true,
        // JSON Schema counts a number without a fraction, such as 1.0, as an integer.
        ("integer", Value::Number(number)) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        _ => false,
    }
}

/// Compares values as JSON Schema does: `1` and `1.0` are equal.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
