//! Conversion of command-line words to the arguments of a tool.
//!
//! | written | means |
//! |---|---|
//! | `name=text` | the text, converted to the type in the tool's schema |
//! | `name:=json` | JSON as it is |
//! | `name=@file`, `name:=@file` | the same with a file's content; `@-` is standard input, `@@` a literal `@` |
//! | `name=a name=b` | an array, if the schema expects one |
//! | `outer.inner=text` | a member of an object, unless an argument has the name `outer.inner` |
//!
//! A whole object of arguments ([`ArgumentSource::json`]) may be given as well; the words then override its members.
//!
//! Values that contradict the types of the schema are never sent: text that is not an integer is an error that names
//! the argument, the type and the text, and never becomes `null`. Only the shape is checked here (types, choices,
//! required and unknown names); patterns and ranges are left to the server, which has to check them in any case.

mod coerce;
mod schema;
mod signature;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};

use serde_json::{Map, Value};

use self::coerce::GivenValue;
use self::schema::ArgumentSchema;
pub(crate) use self::signature::signature;

/// Maximum size of a file or of standard input read for one argument, in bytes.
pub(crate) const MAX_SOURCE: u64 = 64 << 20;

/// The arguments of a tool call as given on the command line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ArgumentSource<'a> {
    /// All arguments as one JSON object, or `@file`.
    pub(crate) json: Option<&'a str>,
    /// Words such as `name=value`.
    pub(crate) words: &'a [String],
}

/// Reads the content of a source such as `@file`; `-` is standard input.
pub(crate) type SourceReader<'a> = &'a dyn Fn(&str) -> io::Result<String>;

/// Reads a file, or standard input for `-`.
pub(crate) fn read_source(name: &str) -> io::Result<String> {
    let mut text = String::new();
    let read = match name {
        "-" => io::stdin().lock().take(MAX_SOURCE + 1).read_to_string(&mut text)?,
        _ => std::fs::File::open(name)?.take(MAX_SOURCE + 1).read_to_string(&mut text)?,
    };
    if read as u64 > MAX_SOURCE { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

/// Converts the given words and JSON to the arguments of a tool with this input schema.
pub(crate) fn arguments(
    tool: &str,
    input_schema: &Value,
    source: ArgumentSource<'_>,
    read: SourceReader<'_>,
) -> Result<Map<String, Value>, ToolArgumentsError> {
    let schema = ArgumentSchema::new(input_schema);
    let mut problems = ArgumentProblems::default();
    let base = source.json.and_then(|text| base(text, read, &mut problems)).unwrap_or_default();
    let mut entries = Vec::with_capacity(source.words.len());
    for word in source.words {
        if let Some(entry) = entry(word, read, &mut problems) {
            entries.push(entry);
        }
    }
    let object = coerce::object("", &schema, base, entries, &mut problems);
    if problems.list.is_empty() {
        return Ok(object);
    }
    Err(ToolArgumentsError {
        tool: tool.to_owned(),
        problems: problems.list,
        signature: signature(tool, input_schema, None),
    })
}

fn base(text: &str, read: SourceReader<'_>, problems: &mut ArgumentProblems) -> Option<Map<String, Value>> {
    const NAME: &str = "--input-json";
    let content = match text.strip_prefix('@') {
        Some(file) => file_content(NAME, file, false, read, problems)?,
        None => text.to_owned(),
    };
    match serde_json::from_str(&content) {
        Ok(Value::Object(object)) => Some(object),
        Ok(other) => problems.add(NAME, ArgumentMistake::wrong("a JSON object", shown(&other))),
        Err(error) => problems.add(NAME, ArgumentMistake::Json(error.to_string())),
    }
}

/// Parses one word into a name and a value.
fn entry(
    word: &str,
    read: SourceReader<'_>,
    problems: &mut ArgumentProblems,
) -> Option<(String, GivenValue)> {
    // Words such as `=x` and `:=x` name no argument.
    let Some((name, value)) = word.split_once('=').filter(|(name, _)| !matches!(*name, "" | ":")) else {
        return problems.add(&printable(word), ArgumentMistake::NoValue(form_hint(word)));
    };
    let (name, is_json) = match name.strip_suffix(':') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let text = match value.strip_prefix('@') {
        // No JSON text begins with `@`, so that `:=` needs no escape for it.
        Some(escaped) if escaped.starts_with('@') && !is_json => escaped.to_owned(),
        Some(file) => file_content(name, file, !is_json, read, problems)?,
        None => value.to_owned(),
    };
    if !is_json {
        return Some((name.to_owned(), GivenValue::Text(text)));
    }
    match serde_json::from_str(&text) {
        Ok(value) => Some((name.to_owned(), GivenValue::Json(value))),
        Err(error) => problems.add(name, ArgumentMistake::Json(error.to_string())),
    }
}

fn file_content(
    name: &str,
    file: &str,
    may_be_text: bool,
    read: SourceReader<'_>,
    problems: &mut ArgumentProblems,
) -> Option<String> {
    match read(file) {
        Ok(mut text) => {
            // The final line break of a file is not part of the value.
            if text.ends_with('\n') {
                text.pop();
                text.truncate(text.strip_suffix('\r').map_or(text.len(), str::len));
            }
            Some(text)
        }
        Err(error) => problems.add(
            name,
            ArgumentMistake::File { file: file.to_owned(), error: error.to_string(), may_be_text },
        ),
    }
}

fn form_hint(word: &str) -> String {
    if word.starts_with(['{', '[']) {
        return "; for all arguments as JSON use `--input-json`".to_owned();
    }
    match word.trim_start_matches('-').split_once(':') {
        Some((name, value)) if !name.is_empty() => {
            format!("; did you mean `{}={}`?", printable(name), printable(value))
        }
        _ => String::new(),
    }
}

/// Error for invalid tool arguments: each mistake, and the signature of the tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolArgumentsError {
    pub(crate) tool: String,
    pub(crate) problems: Vec<ArgumentProblem>,
    pub(crate) signature: String,
}

impl fmt::Display for ToolArgumentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid arguments for `{}`:", printable(&self.tool))?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        write!(f, "\nsignature: {}", self.signature)
    }
}

impl std::error::Error for ToolArgumentsError {}

/// A problem with one argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArgumentProblem {
    /// Path to the invalid part, beginning with the argument's name: `filter.tags[2]`.
    pub(crate) path: String,
    pub(crate) trouble: ArgumentMistake,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ArgumentMistake {
    /// A required argument is missing.
    Missing { expected: String },
    /// The value has the wrong type or is not one of the choices.
    Wrong { expected: String, given: String, hint: String },
    /// The tool has no argument with this name.
    Unknown { hint: String },
    /// An argument that takes one value is given several times.
    Repeated { times: usize, expected: String },
    /// The word has no `=`.
    NoValue(String),
    /// The value of `:=` is not valid JSON.
    Json(String),
    /// The file or standard input cannot be read.
    File { file: String, error: String, may_be_text: bool },
}

impl ArgumentMistake {
    pub(crate) fn wrong(expected: impl Into<String>, given: impl Into<String>) -> Self {
        Self::Wrong { expected: expected.into(), given: given.into(), hint: String::new() }
    }
}

impl fmt::Display for ArgumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", printable(&self.path))?;
        match &self.trouble {
            ArgumentMistake::Missing { expected } => write!(f, "missing, expected {expected}"),
            ArgumentMistake::Wrong { expected, given, hint } => {
                write!(f, "expected {expected}, got {given}{hint}")
            }
            ArgumentMistake::Unknown { hint } => write!(f, "unknown argument{hint}"),
            ArgumentMistake::Repeated { times, expected } => {
                write!(f, "given {times} times, expected one {expected}")
            }
            ArgumentMistake::NoValue(hint) => write!(f, "expected `name=value`{hint}"),
            ArgumentMistake::Json(error) => write!(f, "not valid JSON: {error}"),
            ArgumentMistake::File { file, error, may_be_text } => {
                write!(f, "cannot read {}: {error}", printable(file))?;
                if *may_be_text {
                    f.write_str("; for text that begins with `@` write `@@`")?;
                }
                Ok(())
            }
        }
    }
}

/// The problems found so far, at most one for each path.
#[derive(Debug, Default)]
pub(crate) struct ArgumentProblems {
    list: Vec<ArgumentProblem>,
    seen: BTreeSet<String>,
}

impl ArgumentProblems {
    /// Records a problem. Returns `None`, for use in place of a value.
    fn add<T>(&mut self, path: &str, trouble: ArgumentMistake) -> Option<T> {
        if self.seen.insert(path.to_owned()) {
            self.list.push(ArgumentProblem { path: path.to_owned(), trouble });
        }
        None
    }
}

/// Formats the message for an unknown tool name, with the available tools.
pub(crate) fn unknown_tool<'a>(asked: &str, tools: impl IntoIterator<Item = &'a str>) -> String {
    let asked_for = format!("unknown tool `{}`", printable(asked));
    let mut tools: Vec<&str> = tools.into_iter().collect();
    tools.sort_unstable();
    if let Some(meant) = nearest_tool(asked, &tools) {
        return format!("{asked_for}; did you mean `{}`?", printable(meant));
    }
    /// A longer list would push the message off the screen.
    const SHOWN: usize = 12;
    match tools.len() {
        0 => format!("{asked_for}; no tools are available"),
        1..=SHOWN => {
            let names: Vec<String> = tools.iter().map(|tool| printable(tool)).collect();
            format!("{asked_for}; available: {}", names.join(", "))
        }
        many => format!("{asked_for}; {many} tools are available"),
    }
}

/// A merged list prefixes tool names with the server's name, which the given name may lack.
fn nearest_tool<'a>(asked: &str, tools: &[&'a str]) -> Option<&'a str> {
    let bare = |tool: &'a str| tool.split_once("__").map_or(tool, |(_, name)| name);
    // With the prefix first, because a bare name may match tools of several servers.
    hospes_host::config::nearest(asked, tools.iter().copied()).or_else(|| {
        let meant = hospes_host::config::nearest(asked, tools.iter().map(|tool| bare(tool)))?;
        tools.iter().copied().find(|tool| bare(tool) == meant)
    })
}

/// Formats a value for people: compact JSON, cut if it is long.
fn shown(value: &Value) -> String {
    shorten(&printable(&value.to_string()))
}

/// Quotes a text for people, cut if it is long.
fn quoted(text: &str) -> String {
    shorten(&format!("{text:?}"))
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Escapes control characters and those that change the direction of writing. Names come from servers and must not
/// control the terminal.
fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // `escape_debug` would escape these as well, and they cannot control a terminal.
            '"' | '\'' | '\\' => safe.push(character),
            _ => safe.extend(character.escape_debug()),
        }
    }
    safe
}
