//! References to variables in configuration texts.
//!
//! References are expanded once: the value of a variable is not expanded again. The supported references depend on the
//! application that the file belongs to, because text that an application passes on literally must not change its
//! meaning here:
//!
//! | reference | meaning | supported in |
//! |---|---|---|
//! | `${NAME}`, `${env:NAME}` | environment variable; unset is an error | all but Codex |
//! | `${NAME:-text}`, `${env:NAME:-text}` | the same, or `text` where unset or empty | all but Codex |
//! | `${userHome}`, `${workspaceFolder}`, `${workspaceFolderBasename}`, `${pathSeparator}`, `${/}` | as in VS Code | all but Codex |
//! | `${file:path}` | content of a file, without the line break at its end | all but Codex |
//! | `${input:id}` | the environment variable `HOSPES_INPUT_ID`, without asking | all but Codex |
//! | `$env:NAME` | environment variable, only as the whole text (mcporter) | all but Hospes' own and Codex |
//! | `$NAME` | environment variable, anywhere in the text | Gemini, Antigravity and Crush |
//! | `$(command)` | an error; never run | Crush |
//! | `{env:NAME}`, `{file:path}` | as above | OpenCode: servers under `mcp` or `mcp.servers` |
//! | `${{ secrets.NAME }}` | environment variable | Continue |
//! | `${secret:NAME}` | a sealed secret, see [`ConfigLoader::secrets`](super::ConfigLoader::secrets) | Hospes' own TOML |
//! | `$${` | a literal `${` | Hospes' own TOML |
//!
//! An unknown `${…}` is an error in Hospes' own TOML. In the files of other applications it is kept as written, with a
//! warning, because it may be shell syntax. Codex expands nothing, so nothing is expanded in its files.
//!
//! A scope that keeps references resolves none of them. It translates the text to Hospes' own form instead, so that it
//! means the same in Hospes' own file.

use std::io;
use std::path::{Path, PathBuf};

use super::secret::ExpandedText;

/// Application whose rules apply to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigDialect {
    /// Hospes' own TOML.
    Own,
    /// `mcpServers` and similar formats.
    Common,
    Codex,
    /// Gemini CLI and Antigravity.
    Gemini,
    /// OpenCode 1 and 2.
    OpenCode,
    Crush,
    /// Goose's YAML format.
    Goose,
    Continue,
}

/// Function that looks up a sealed secret: its value, `None` if there is none of this name, or the reason why the store
/// cannot be read.
pub(super) type SecretLookup<'a> = dyn Fn(&str) -> Result<Option<String>, String> + 'a;

/// Values to which references can refer.
pub(super) struct ExpansionScope<'a> {
    pub(super) dialect: ConfigDialect,
    /// Function that looks up `${VAR}`.
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) home: Option<&'a Path>,
    pub(super) workspace: &'a Path,
    /// Base folder of relative paths in `${file:…}`.
    pub(super) folder: &'a Path,
    /// Descriptions of the inputs the file declares.
    pub(super) inputs: &'a [(String, String)],
    /// Pass on references to unset variables literally.
    pub(super) allow_unset: bool,
    /// Function that looks up `${secret:NAME}`; without it no secret is set.
    pub(super) secret: Option<&'a SecretLookup<'a>>,
    /// Translate references to Hospes' own form instead of resolving them.
    pub(super) keep: bool,
    /// Names of variables that only the application knows. They become `${input:NAME}` if references are kept.
    pub(super) asked: &'a [String],
}

/// Error of expanding a text.
#[derive(Debug)]
pub(super) enum ExpandError {
    Unset(String),
    Input {
        id: String,
        description: String,
        variable: String,
    },
    Malformed {
        expected: String,
        start: String,
    },
    /// A command whose output the application would insert.
    Command {
        shown: String,
    },
    /// A secret that is not stored, or a store that cannot be read.
    Secret {
        name: String,
        why: Option<String>,
    },
    File(PathBuf, io::Error),
}

/// Result of the expansion, and the unexpanded parts that look like references.
#[derive(Debug)]
pub(super) struct ExpandedReferences {
    pub(super) text: ExpandedText,
    pub(super) left: Vec<String>,
}

/// Value of a reference; `None` keeps the reference as written.
pub(super) type ReferenceValue = Option<String>;

/// A reference at the beginning of a text.
struct VariableReference<'t> {
    /// The reference as shown in messages: as written, without its default.
    shown: String,
    found: ReferenceValue,
    /// Text after the reference.
    after: &'t str,
}

impl ExpansionScope<'_> {
    /// Replaces every reference in a text.
    pub(super) fn expand(&self, text: &str) -> Result<ExpandedReferences, ExpandError> {
        if self.dialect == ConfigDialect::Codex {
            let value = if self.keep { escape_references(text) } else { text.to_owned() };
            return Ok(ExpandedReferences {
                text: ExpandedText::new(text.to_owned(), value),
                left: Vec::new(),
            });
        }
        if self.dialect != ConfigDialect::Own
            && let Some(name) = text.strip_prefix("$env:").filter(|name| is_name(name))
        {
            return self.whole(text, name);
        }
        let (mut written, mut value) = (String::new(), String::new());
        let mut left = Vec::new();
        let mut rest = text;
        while let Some(index) = rest.find(['$', '{']) {
            let (before, reference) = rest.split_at(index);
            written.push_str(before);
            value.push_str(before);
            let Some(VariableReference { shown, found, after }) = self.reference(reference)? else {
                // A lone `$` or `{`; both are one byte long.
                let (sign, after) = reference.split_at(1);
                written.push_str(sign);
                value.push_str(sign);
                rest = after;
                continue;
            };
            let raw = &reference[..reference.len() - after.len()];
            match found {
                // `$${` would be a literal `${`, and Hospes' own form has no other way to write a `$` before a reference.
                Some(found) if self.keep && value.ends_with('$') && found.starts_with("${") => {
                    let expected = "a text without `$` before a reference".to_owned();
                    return Err(ExpandError::Malformed { expected, start: shown });
                }
                Some(found) => value.push_str(&found),
                None => {
                    if self.keep {
                        value.push_str(&escape_references(raw));
                    } else {
                        value.push_str(raw);
                    }
                    left.push(shown.clone());
                }
            }
            written.push_str(&shown);
            rest = after;
        }
        written.push_str(rest);
        value.push_str(rest);
        // It looks like a reference and is none here, which should be said.
        if matches!(self.dialect, ConfigDialect::Common | ConfigDialect::Goose)
            && text.strip_prefix('$').is_some_and(is_name)
        {
            left.push(text.to_owned());
        }
        Ok(ExpandedReferences { text: ExpandedText::new(written, value), left })
    }

    fn whole(&self, text: &str, name: &str) -> Result<ExpandedReferences, ExpandError> {
        if self.keep {
            let text = ExpandedText::new(text.to_owned(), self.kept_variable(name, ""));
            return Ok(ExpandedReferences { text, left: Vec::new() });
        }
        match (self.variable)(name) {
            Some(value) => {
                Ok(ExpandedReferences { text: ExpandedText::new(text.to_owned(), value), left: Vec::new() })
            }
            None if self.allow_unset => {
                Ok(ExpandedReferences { text: ExpandedText::literal(text), left: vec![text.to_owned()] })
            }
            None => Err(ExpandError::Unset(name.to_owned())),
        }
    }

    /// Reads the reference at the beginning of `text`, if there is one.
    fn reference<'t>(&self, text: &'t str) -> Result<Option<VariableReference<'t>>, ExpandError> {
        if self.dialect == ConfigDialect::Own && text.starts_with("$${") {
            let brace = "${".to_owned();
            let found = if self.keep { "$${".to_owned() } else { brace.clone() };
            return Ok(Some(VariableReference { shown: brace, found: Some(found), after: &text[3..] }));
        }
        if self.dialect == ConfigDialect::Continue
            && let Some((body, after)) = text.strip_prefix("${{").and_then(|inner| inner.split_once("}}"))
        {
            let shown = format!("${{{{{body}}}}}");
            let name = body.trim().strip_prefix("secrets.").filter(|name| is_name(name));
            let found = match name {
                Some(name) if self.keep => Some(format!("${{input:{name}}}")),
                Some(name) => self.look_up(name, None, &shown)?,
                None => None,
            };
            return Ok(Some(VariableReference { shown, found, after }));
        }
        if self.dialect == ConfigDialect::Crush && text.starts_with("$(") {
            // The first word only: the arguments may hold a secret.
            let word = text[2..].split([')', ' ', '\t', '\n']).next().unwrap_or_default();
            return Err(ExpandError::Command { shown: format!("$({word} …)") });
        }
        if let Some(inner) = text.strip_prefix("${") {
            let Some((body, after)) = inner.split_once('}') else {
                self.reject_malformed(text, "`}` at the end")?;
                return Ok(Some(VariableReference { shown: "${".to_owned(), found: None, after: inner }));
            };
            // At the first `:-`: a default may hold another one, a name cannot.
            let (name, default) = match body.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (body, None),
            };
            let shown = format!("${{{name}}}");
            if default.is_some_and(|default| default.contains("${")) {
                // The first `}` would end it, and what was meant is anybody's guess.
                let expected = "a default without references".to_owned();
                return Err(ExpandError::Malformed { expected, start: shown });
            }
            return Ok(Some(VariableReference { found: self.look_up(name, default, &shown)?, shown, after }));
        }
        if self.dialect == ConfigDialect::OpenCode
            && let Some((body, after)) = text.strip_prefix('{').and_then(|inner| inner.split_once('}'))
            && (body.starts_with("env:") || body.starts_with("file:"))
        {
            let shown = format!("{{{body}}}");
            return Ok(Some(VariableReference { found: self.look_up(body, None, &shown)?, shown, after }));
        }
        if matches!(self.dialect, ConfigDialect::Gemini | ConfigDialect::Crush)
            && let Some(inner) = text.strip_prefix('$')
        {
            let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
            let (name, after) = inner.split_at(end);
            if is_name(name) {
                let shown = format!("${name}");
                return Ok(Some(VariableReference {
                    found: self.look_up(name, None, &shown)?,
                    shown,
                    after,
                }));
            }
        }
        Ok(None)
    }

    /// Handles an invalid reference: an error in Hospes' own file, left unchanged in files of other applications.
    pub(super) fn reject_malformed(&self, text: &str, expected: &str) -> Result<(), ExpandError> {
        if self.dialect != ConfigDialect::Own {
            return Ok(());
        }
        // What follows a reference that never ends may be a secret; the sign is enough to find it.
        let start = if text.ends_with('}') { text.to_owned() } else { "${".to_owned() };
        Err(ExpandError::Malformed { expected: expected.to_owned(), start })
    }
}

/// Writes a literal text in Hospes' own form.
pub(super) fn escape_references(text: &str) -> String {
    text.replace("${", "$${")
}

pub(super) fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests;
