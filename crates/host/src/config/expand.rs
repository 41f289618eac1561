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
use super::text_file::read_text;

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
type ReferenceValue = Option<String>;

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

    /// Translates a reference to Hospes' own form. `None` if it is none there.
    fn kept(&self, body: &str, default: Option<&str>) -> ReferenceValue {
        let default = default.map(|default| format!(":-{default}")).unwrap_or_default();
        if let Some(path) = body.strip_prefix("file:") {
            let path = self.path(self.folder, path);
            return Some(format!("${{file:{}{default}}}", path.display()));
        }
        if body.starts_with("input:") || (self.dialect == ConfigDialect::Own && body.starts_with("secret:")) {
            return Some(format!("${{{body}{default}}}"));
        }
        let place = match body {
            "userHome" => self.home?.to_string_lossy().into_owned(),
            // The project does not follow from where Hospes' own file is.
            "workspaceFolder" => self.workspace.to_string_lossy().into_owned(),
            "workspaceFolderBasename" => self.workspace.file_name()?.to_string_lossy().into_owned(),
            "pathSeparator" | "/" => std::path::MAIN_SEPARATOR_STR.to_owned(),
            _ => {
                let name = body.strip_prefix("env:").unwrap_or(body);
                return is_name(name).then(|| self.kept_variable(name, &default));
            }
        };
        Some(escape_references(&place))
    }

    fn kept_variable(&self, name: &str, default: &str) -> String {
        if self.asked.iter().any(|asked| asked == name) {
            return format!("${{input:{name}}}");
        }
        format!("${{{name}{default}}}")
    }

    fn look_up(&self, body: &str, default: Option<&str>, shown: &str) -> Result<ReferenceValue, ExpandError> {
        if self.keep
            && let Some(kept) = self.kept(body, default)
        {
            return Ok(Some(kept));
        }
        if let Some(name) = body.strip_prefix("secret:")
            && self.dialect == ConfigDialect::Own
        {
            return self.look_up_secret(name, default, shown);
        }
        if let Some(path) = body.strip_prefix("file:") {
            let path = self.path(self.folder, path);
            return match read_text(&path) {
                Ok(mut content) => {
                    content.truncate(content.trim_end_matches(['\n', '\r']).len());
                    Ok(Some(content))
                }
                Err(error) => match default {
                    Some(default) => Ok(Some(default.to_owned())),
                    None if self.allow_unset => Ok(None),
                    None => Err(ExpandError::File(path, error)),
                },
            };
        }
        if let Some(id) = body.strip_prefix("input:") {
            let variable = input_variable(id);
            return match (self.variable)(&variable).or_else(|| default.map(str::to_owned)) {
                Some(value) => Ok(Some(value)),
                None if self.allow_unset => Ok(None),
                None => {
                    Err(ExpandError::Input { id: id.to_owned(), description: self.describe(id), variable })
                }
            };
        }
        match body {
            "userHome" => {
                return match self.home.and_then(Path::to_str) {
                    Some(home) => Ok(Some(home.to_owned())),
                    None if self.allow_unset => Ok(None),
                    None => Err(ExpandError::Unset("HOME".to_owned())),
                };
            }
            "workspaceFolder" => return Ok(Some(self.workspace.to_string_lossy().into_owned())),
            "workspaceFolderBasename" => {
                let name = self.workspace.file_name().unwrap_or_default();
                return Ok(Some(name.to_string_lossy().into_owned()));
            }
            "pathSeparator" | "/" => return Ok(Some(std::path::MAIN_SEPARATOR_STR.to_owned())),
            _ => {}
        }
        let name = body.strip_prefix("env:").unwrap_or(body);
        if !is_name(name) {
            let expected = "the name of a variable, `env:NAME`, `secret:NAME`, `file:PATH`, `input:ID`, `userHome` or `workspaceFolder`";
            return self.reject_malformed(shown, expected).map(|()| None);
        }
        match ((self.variable)(name), default) {
            (Some(value), None) => Ok(Some(value)),
            // As in a shell, `:-` replaces an empty value as well.
            (Some(value), Some(_)) if !value.is_empty() => Ok(Some(value)),
            (_, Some(default)) => Ok(Some(default.to_owned())),
            (None, None) if self.allow_unset => Ok(None),
            (None, None) => Err(ExpandError::Unset(name.to_owned())),
        }
    }

    fn look_up_secret(
        &self,
        name: &str,
        default: Option<&str>,
        shown: &str,
    ) -> Result<ReferenceValue, ExpandError> {
        if !is_secret_reference(name) || default.is_some() {
            let expected = "`secret:NAME` with letters, digits, `.`, `_` and `-`, and without a default";
            return self.reject_malformed(shown, expected).map(|()| None);
        }
        let found = self.secret.map_or(Ok(None), |secret| secret(name));
        match found {
            Ok(Some(value)) => Ok(Some(value)),
            _ if self.allow_unset => Ok(None),
            Ok(None) => Err(ExpandError::Secret { name: name.to_owned(), why: None }),
            Err(why) => Err(ExpandError::Secret { name: name.to_owned(), why: Some(why) }),
        }
    }

    /// Handles an invalid reference: an error in Hospes' own file, left unchanged in files of other applications.
    fn reject_malformed(&self, text: &str, expected: &str) -> Result<(), ExpandError> {
        if self.dialect != ConfigDialect::Own {
            return Ok(());
        }
        // What follows a reference that never ends may be a secret; the sign is enough to find it.
        let start = if text.ends_with('}') { text.to_owned() } else { "${".to_owned() };
        Err(ExpandError::Malformed { expected: expected.to_owned(), start })
    }

    fn describe(&self, id: &str) -> String {
        let found = self.inputs.iter().find(|(known, _)| known == id);
        found.map_or_else(String::new, |(_, text)| format!(" ({text})"))
    }

    /// Makes a path absolute. `~` is the home folder; relative paths start at `base`.
    pub(super) fn path(&self, base: &Path, path: &str) -> PathBuf {
        // Where it leads is not known before the reference is resolved.
        if self.keep && path.starts_with("${") {
            return PathBuf::from(path);
        }
        match (path.strip_prefix('~'), self.home) {
            // `~name` would be the home of another user, and is a relative path here.
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with(std::path::is_separator) => {
                home.join(rest.trim_start_matches(std::path::is_separator))
            }
            _ => base.join(path),
        }
    }
}

/// Returns the environment variable with the value of `${input:id}`.
pub(super) fn input_variable(id: &str) -> String {
    let id: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("HOSPES_INPUT_{id}")
}

/// Maximum length of the name of a secret, in bytes.
pub const MAX_SECRET_NAME: usize = 128;

/// Returns true if a text can be the name of a sealed secret: letters, digits, `.`, `_` and `-`.
#[must_use]
pub fn is_secret_reference(name: &str) -> bool {
    (1..=MAX_SECRET_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
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
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "NAME" => "value",
            "EMPTY" => "",
            "NESTED" => "${NAME}",
            "HOSPES_INPUT_API_KEY" => "typed",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn scope(dialect: ConfigDialect) -> ExpansionScope<'static> {
        ExpansionScope {
            dialect,
            variable: &variable,
            home: Some(Path::new("/home/me")),
            workspace: Path::new("/some/space"),
            folder: Path::new("/etc/conf"),
            inputs: &[],
            allow_unset: false,
            secret: None,
            keep: false,
            asked: &[],
        }
    }

    fn expand(dialect: ConfigDialect, text: &str) -> String {
        scope(dialect).expand(text).unwrap().text.reveal().to_owned()
    }

    #[test]
    fn every_form_is_understood() {
        for (text, expected) in [
            ("plain", "plain"),
            ("${NAME}", "value"),
            ("a${NAME}b${NAME}c", "avaluebvaluec"),
            ("${env:NAME}", "value"),
            ("${NONE:-text}", "text"),
            ("${NONE:-}", ""),
            ("${EMPTY}", ""),
            ("${EMPTY:-text}", "text"),
            ("${NAME:-text}", "value"),
            ("${env:NONE:-a:-b}", "a:-b"),
            ("${userHome}/x", "/home/me/x"),
            ("${workspaceFolder}", "/some/space"),
            ("${workspaceFolderBasename}", "space"),
            ("${input:api-key}", "typed"),
            ("é${NAME}é", "évalueé"),
            ("$", "$"),
            ("$ {x} $5 }{", "$ {x} $5 }{"),
        ] {
            assert_eq!(expand(ConfigDialect::Own, text), expected, "{text}");
            assert_eq!(expand(ConfigDialect::Common, text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_is_expanded_twice() {
        assert_eq!(expand(ConfigDialect::Common, "${NESTED}"), "${NAME}");
    }

    #[test]
    fn each_dialect_has_its_own_forms() {
        for (dialect, text, expected) in [
            (ConfigDialect::Own, "$${NAME}", "${NAME}"),
            (ConfigDialect::Common, "$${NAME}", "$value"),
            (ConfigDialect::Own, "$env:NAME", "$env:NAME"),
            (ConfigDialect::Common, "$env:NAME", "value"),
            (ConfigDialect::Common, "x$env:NAME", "x$env:NAME"),
            (ConfigDialect::Common, "$NAME", "$NAME"),
            (ConfigDialect::Gemini, "$NAME", "value"),
            (ConfigDialect::Gemini, "Bearer $NAME-$NAME.", "Bearer value-value."),
            (ConfigDialect::Gemini, "$5 $", "$5 $"),
            (ConfigDialect::OpenCode, "{env:NAME}/{x}", "value/{x}"),
            (ConfigDialect::Common, "{env:NAME}", "{env:NAME}"),
            (ConfigDialect::Codex, "${NAME} $NAME", "${NAME} $NAME"),
            (ConfigDialect::Crush, "$NAME ${NAME}", "value value"),
            (ConfigDialect::Continue, "a ${{ secrets.NAME }} ${{secrets.NAME}}", "a value value"),
            (ConfigDialect::Continue, "${{ inputs.x }}", "${{ inputs.x }}"),
        ] {
            assert_eq!(expand(dialect, text), expected, "{dialect:?} {text}");
        }
    }

    #[test]
    fn kept_references_are_written_in_the_own_form() {
        for (dialect, text, expected) in [
            (ConfigDialect::Common, "a ${env:NONE} b", "a ${NONE} b"),
            (ConfigDialect::Common, "${NONE:-d}", "${NONE:-d}"),
            (ConfigDialect::Common, "$env:NONE", "${NONE}"),
            (ConfigDialect::Common, "${userHome}/x", "/home/me/x"),
            (ConfigDialect::Common, "${file:key}", "${file:/etc/conf/key}"),
            (ConfigDialect::Common, "${input:id}", "${input:id}"),
            (ConfigDialect::Common, "${command:pick}", "$${command:pick}"),
            (ConfigDialect::Common, "${secret:x}", "$${secret:x}"),
            (ConfigDialect::Own, "$${X} ${secret:x}", "$${X} ${secret:x}"),
            (ConfigDialect::Gemini, "Bearer $NONE.", "Bearer ${NONE}."),
            (ConfigDialect::Crush, "$NONE ${NONE}", "${NONE} ${NONE}"),
            (ConfigDialect::OpenCode, "{env:NONE}", "${NONE}"),
            (ConfigDialect::Codex, "${NONE} $NONE", "$${NONE} $NONE"),
            (ConfigDialect::Continue, "${{ secrets.NONE }}", "${input:NONE}"),
            (ConfigDialect::Goose, "Bearer ${ASKED}", "Bearer ${input:ASKED}"),
        ] {
            let asked = ["ASKED".to_owned()];
            let scope = ExpansionScope { keep: true, asked: &asked, ..scope(dialect) };
            assert_eq!(scope.expand(text).unwrap().text.reveal(), expected, "{dialect:?} {text}");
        }
        let scope = ExpansionScope { keep: true, ..scope(ConfigDialect::Common) };
        assert!(matches!(scope.expand("$${NONE}"), Err(ExpandError::Malformed { .. })));
    }

    #[test]
    fn a_command_substitution_is_an_error_that_shows_no_arguments() {
        let failure = scope(ConfigDialect::Crush).expand("Bearer $(pass show s3cret)").unwrap_err();
        assert!(matches!(&failure, ExpandError::Command { shown } if shown == "$(pass …)"), "{failure:?}");
    }

    #[test]
    fn secrets_are_looked_up_in_the_own_file_only() {
        let secret = |name: &str| match name {
            "there" => Ok(Some("s3cret".to_owned())),
            "locked" => Err("the keyring is locked".to_owned()),
            _ => Ok(None),
        };
        let own = ExpansionScope { secret: Some(&secret), ..scope(ConfigDialect::Own) };
        let text = own.expand("Bearer ${secret:there}").unwrap().text;
        assert_eq!((text.reveal(), text.written()), ("Bearer s3cret", "Bearer ${secret:there}"));
        assert!(
            matches!(own.expand("${secret:gone}"), Err(ExpandError::Secret { name, why: None }) if name == "gone")
        );
        assert!(matches!(own.expand("${secret:locked}"), Err(ExpandError::Secret { why: Some(_), .. })));
        for malformed in ["${secret:}", "${secret:a b}", "${secret:there:-x}"] {
            assert!(matches!(own.expand(malformed), Err(ExpandError::Malformed { .. })), "{malformed}");
        }
        let other = ExpansionScope { secret: Some(&secret), ..scope(ConfigDialect::Common) };
        assert_eq!(other.expand("${secret:there}").unwrap().text.reveal(), "${secret:there}");
    }

    #[test]
    fn unset_is_an_error_in_every_form() {
        for (dialect, text) in [
            (ConfigDialect::Own, "a ${NONE}"),
            (ConfigDialect::Common, "${env:NONE}"),
            (ConfigDialect::Common, "$env:NONE"),
            (ConfigDialect::Gemini, "$NONE"),
            (ConfigDialect::OpenCode, "{env:NONE}"),
        ] {
            let failure = scope(dialect).expand(text).unwrap_err();
            assert!(matches!(&failure, ExpandError::Unset(name) if name == "NONE"), "{text} {failure:?}");
        }
    }

    #[test]
    fn unset_can_be_let_through_literally() {
        for (dialect, text) in [
            (ConfigDialect::Own, "a ${NONE} b"),
            (ConfigDialect::Common, "$env:NONE"),
            (ConfigDialect::Common, "${input:none}"),
            (ConfigDialect::Common, "${file:/none/such}"),
            (ConfigDialect::Gemini, "$NONE"),
            (ConfigDialect::OpenCode, "{env:NONE}"),
        ] {
            let outcome = ExpansionScope { allow_unset: true, ..scope(dialect) }.expand(text).unwrap();
            assert_eq!(outcome.text.reveal(), text);
            assert_eq!(outcome.left.len(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_reference_is_an_error_at_home_and_literal_abroad() {
        for text in ["${not a name}", "${}", "${1}", "x ${NAME", "${command:pick}", "${A:=b}"] {
            let failure = scope(ConfigDialect::Own).expand(text).unwrap_err();
            assert!(matches!(failure, ExpandError::Malformed { .. }), "{text} {failure:?}");
            let outcome = scope(ConfigDialect::Common).expand(text).unwrap();
            assert_eq!(outcome.text.reveal(), text);
            assert_eq!(outcome.left.len(), 1, "{text}");
        }
    }

    #[test]
    fn a_reference_in_a_default_is_refused_everywhere() {
        for dialect in [ConfigDialect::Own, ConfigDialect::Common] {
            let failure = scope(dialect).expand("${NONE:-${NAME}}").unwrap_err();
            assert!(
                matches!(&failure, ExpandError::Malformed { start, .. } if start == "${NONE}"),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn what_is_written_shows_neither_values_nor_defaults() {
        let text = scope(ConfigDialect::Own).expand("--key=${NAME} ${NONE:-hunter2}").unwrap().text;
        assert_eq!(text.written(), "--key=${NAME} ${NONE}");
    }

    #[test]
    fn a_dollar_name_outside_gemini_is_pointed_out() {
        assert_eq!(scope(ConfigDialect::Common).expand("$TOKEN").unwrap().left, ["$TOKEN"]);
        assert!(scope(ConfigDialect::Common).expand("costs $5").unwrap().left.is_empty());
    }

    #[test]
    fn files_are_read_without_their_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "abc\r\n").unwrap();
        let scope = ExpansionScope { folder: folder.path(), ..scope(ConfigDialect::OpenCode) };
        assert_eq!(scope.expand("<${file:key}|{file:./key}>").unwrap().text.reveal(), "<abc|abc>");
        assert!(
            matches!(scope.expand("${file:none}"), Err(ExpandError::File(path, _)) if path.ends_with("none"))
        );
    }

    #[test]
    fn inputs_name_the_variable_that_answers_them() {
        let inputs = [("gh-token".to_owned(), "GitHub token".to_owned())];
        let scope = ExpansionScope { inputs: &inputs, ..scope(ConfigDialect::Common) };
        let ExpandError::Input { id, description, variable } = scope.expand("${input:gh-token}").unwrap_err()
        else {
            panic!("expected an input")
        };
        assert_eq!((id.as_str(), description.as_str()), ("gh-token", " (GitHub token)"));
        assert_eq!(variable, "HOSPES_INPUT_GH_TOKEN");
    }

    #[test]
    fn a_tilde_is_the_home_folder() {
        let scope = scope(ConfigDialect::Own);
        let base = Path::new("/base");
        assert_eq!(scope.path(base, "~"), Path::new("/home/me"));
        assert_eq!(scope.path(base, "~/x"), Path::new("/home/me/x"));
        assert_eq!(scope.path(base, "~x"), Path::new("/base/~x"));
        assert_eq!(scope.path(base, "/x"), Path::new("/x"));
        assert_eq!(scope.path(base, "x"), Path::new("/base/x"));
    }
}
