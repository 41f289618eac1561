//! Changes of the audit log's settings in Hospes' own file, in which comments, order and form of all else stay.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, Value};

use super::own_file::{OwnDocument, OwnFileError};
use super::own_profiles::{check, read, set};
use super::profiles::ProfileConfig;

/// Returns the text of Hospes' own file with `[audit] arguments` set to `records`. All else stays as it is.
///
/// # Errors
/// If the file cannot be read, or has a form in which the key cannot be written.
pub fn set_recorded_arguments(file: &Path, text: &str, records: bool) -> Result<String, OwnFileError> {
    let failed = |reason: String| OwnFileError::NotSet { key: "audit.arguments", reason };
    let mut edited = OwnDocument::read(text).map_err(failed)?;
    let old = read(file, text).map_err(failed)?;
    if recorded_arguments(&edited.document) == records {
        return Ok(text.to_owned());
    }
    let audit = edited.document.entry("audit").or_insert_with(|| {
        let mut table = Table::new();
        table.decor_mut().set_prefix(if text.trim().is_empty() { "" } else { "\n" });
        Item::Table(table)
    });
    let audit = audit.as_table_like_mut().ok_or_else(|| failed("`audit` is not a table".to_owned()))?;
    set(audit, "arguments", Some(Value::from(records)));
    let after = edited.text();
    let profiles = old.profiles.iter().map(ProfileConfig::without_source).collect();
    check(file, &old, &after, profiles).map_err(failed)?;
    let written = OwnDocument::read(&after).map_err(failed)?;
    if recorded_arguments(&written.document) == records {
        Ok(after)
    } else {
        Err(failed("the result would be read differently".to_owned()))
    }
}

/// Returns what a document says. A file that is loaded with its references kept has no settings of the audit log.
fn recorded_arguments(document: &DocumentMut) -> bool {
    let audit = document.get("audit").and_then(Item::as_table_like);
    audit.and_then(|audit| audit.get("arguments")).and_then(Item::as_bool).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_written_and_all_else_stays() {
        let set = |text: &str, records| set_recorded_arguments(Path::new("h.toml"), text, records);
        for (before, after) in [
            ("", "[audit]\narguments = true\n"),
            (
                "# mine\n[servers.a]\nbuiltin = 'time' # a\n",
                "# mine\n[servers.a]\nbuiltin = 'time' # a\n\n[audit]\narguments = true\n",
            ),
            (
                "[audit] # log\nkeep_days = 9\n\n[servers.a]\nbuiltin = 'time'\n",
                "[audit] # log\nkeep_days = 9\narguments = true\n\n[servers.a]\nbuiltin = 'time'\n",
            ),
            ("[audit]\narguments = false # no\n", "[audit]\narguments = true # no\n"),
            ("audit.keep_days = 9\r\n", "audit.keep_days = 9\r\naudit.arguments = true\r\n"),
        ] {
            assert_eq!(set(before, true).unwrap(), after);
            assert_eq!(set(after, true).unwrap(), after);
            let off = set(after, false).unwrap();
            assert_eq!(off, after.replace("arguments = true", "arguments = false"));
        }
        let own = "[audit]\narguments = true\n\n[servers.a]\ncommand = 'x'\nenv = { A = \"${secret:a}\" }\n";
        assert_eq!(set(own, false).unwrap(), own.replace("true", "false"), "also beside references");
        assert_eq!(set("# nothing\n", false).unwrap(), "# nothing\n");
        assert!(set("audit = 7\n", true).is_err());
        assert!(set("[servers\n", true).is_err());
    }
}
