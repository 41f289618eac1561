//! Names of files on Windows. They are ordinary text here, so that all systems test them.

/// Device names, which no folder can contain, whatever their extension.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

/// Returns the reason why Windows does not take a text as the name of one file. `None` if it does.
///
/// A colon would name a stream of the file, and dots and blanks at the end are dropped: two names for one file.
pub(super) fn name_problem(name: &str) -> Option<&'static str> {
    if name.chars().any(|letter| letter.is_control() || "<>:\"|?*\\/".contains(letter)) {
        return Some("it contains one of < > : \" | ? * or a control character");
    }
    if name.ends_with(['.', ' ']) {
        return Some("it ends with a dot or a blank");
    }
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_uppercase();
    let is_numbered = |device: &str| {
        stem.strip_prefix(device).is_some_and(|rest| {
            let mut digits = rest.chars();
            matches!((digits.next(), digits.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
        })
    };
    if DEVICES.contains(&stem.as_str()) || is_numbered("COM") || is_numbered("LPT") {
        return Some("it is the name of a device");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_streams_and_two_names_for_one_file_are_no_names() {
        for name in [
            "NUL",
            "nul.txt",
            "con",
            "Aux.tar.gz",
            "COM1",
            "lpt9.log",
            "COM¹",
            "CONIN$",
            "nul .txt",
            "a:b",
            "notes.txt::$DATA",
            "what?",
            "end.",
            "end ",
            "a\u{1}b",
            "a\\b",
            "..",
        ] {
            assert!(name_problem(name).is_some(), "{name:?}");
        }
        for name in
            ["notes.txt", ".gitignore", "COM", "COM10", "console", "nullable.rs", "a b", "Größe", "auxiliary"]
        {
            assert_eq!(name_problem(name), None, "{name:?}");
        }
    }
}
