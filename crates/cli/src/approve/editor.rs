//! Editing of a text in the person's own editor: `VISUAL`, `EDITOR` or that of the system.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use tempfile::TempDir;

use crate::{paths, platform};

/// Maximum size of an edited text, in bytes: the maximum that the console accepts.
pub(super) const MAX_EDIT: u64 = 4 << 20;

/// Opens a text in the person's editor and returns the edited text. The temporary file is readable by its owner alone
/// and removed afterwards.
///
/// # Errors
/// A message for the person if the editor cannot be started or fails, or if the edited file cannot be read.
pub(crate) fn edit(text: &str) -> Result<String, String> {
    let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    // An empty variable counts as unset.
    let editor = editor.into_iter().find(|name| !name.trim().is_empty());
    let editor = editor.unwrap_or_else(|| platform::DEFAULT_EDITOR.to_owned());
    // A folder of its own, so that backup and swap files of the editor are removed with it.
    let folder =
        paths::private_folder().map_err(|error| failed("cannot create a folder for the editor", &error))?;
    edit_in(&folder, &editor, text)
}

fn failed(what: &str, error: &std::io::Error) -> String {
    format!("{what}: {error}")
}

fn edit_in(folder: &TempDir, editor: &str, text: &str) -> Result<String, String> {
    let file = folder.path().join("edit.json");
    write(&file, text).map_err(|error| failed("cannot create a file for the editor", &error))?;
    let mut command = platform::editor_command(editor, &file)
        .map_err(|why| format!("cannot start the editor `{editor}`: {why}"))?;
    match command.status() {
        Ok(status) if status.success() => read(&file),
        Ok(status) => Err(format!("the editor `{editor}` ended with {status}; nothing was changed")),
        Err(error) => Err(failed("cannot start the editor", &error)),
    }
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    // It never follows a link or writes into a file that another program has created.
    hospes_fs::create_private(file)?.write_all(text.as_bytes())
}

/// Reads the edited text from the editor's file or from a file named by the user.
pub(super) fn read(file: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    // Checked before reading, so that a huge file does not fill the memory.
    let length = fs::metadata(file).map_err(failed)?.len();
    if length > MAX_EDIT {
        return Err(format!("{} is longer than {MAX_EDIT} bytes", file.display()));
    }
    fs::read_to_string(file).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An editor that writes its arguments to `told` and `{"a":2}` to its second argument, and one that fails.
    fn editors(place: &Path, told: &Path) -> (String, &'static str) {
        let name = if cfg!(windows) { "editor.cmd" } else { "editor.sh" };
        let (script, told) = (place.join(name), told.display());
        if cfg!(windows) {
            let words = format!("@echo off\r\necho %1 %2>\"{told}\"\r\necho {{\"a\":2}}>%2\r\n");
            fs::write(&script, words).unwrap();
            return (format!("'{}' --option", script.display()), "cmd /c exit 1");
        }
        fs::write(&script, format!("echo \"$1 $2\" > '{told}'; echo '{{\"a\":2}}' > \"$2\"\n")).unwrap();
        (format!("sh '{}' --option", script.display()), "false")
    }

    #[test]
    fn the_file_is_for_the_person_alone() {
        let place = tempfile::tempdir().unwrap();
        let told = place.path().join("told");
        let (editor, failing) = editors(place.path(), &told);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(edit_in(&folder, &editor, "{\"a\":1}").unwrap().trim_end(), "{\"a\":2}");
        let file = folder.path().join("edit.json");
        let told = fs::read_to_string(&told).unwrap();
        assert_eq!(told.trim_end().replace('"', ""), format!("--option {}", file.display()));
        assert!(!hospes_fs::is_open_to_others(&file).unwrap(), "others can read the file");
        let folder = tempfile::tempdir().unwrap();
        assert!(edit_in(&folder, failing, "{}").unwrap_err().contains("nothing was changed"));
    }
}
