//! Values of references: variables, files, inputs, secrets and places, or the same reference in Hospes' own form.

use std::path::{Path, PathBuf};

use super::expand::{ConfigDialect, ExpandError, ExpansionScope, ReferenceValue, escape_references, is_name};
use super::text_file::read_text;

impl ExpansionScope<'_> {
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

    pub(super) fn kept_variable(&self, name: &str, default: &str) -> String {
        if self.asked.iter().any(|asked| asked == name) {
            return format!("${{input:{name}}}");
        }
        format!("${{{name}{default}}}")
    }

    pub(super) fn look_up(
        &self,
        body: &str,
        default: Option<&str>,
        shown: &str,
    ) -> Result<ReferenceValue, ExpandError> {
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
