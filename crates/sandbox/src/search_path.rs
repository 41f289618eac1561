//! The folders in which programs are looked up.

use std::ffi::OsString;

/// Returns the `PATH` of this process. `None` if it has none.
///
/// On Windows, folders of the user and the machine that the process lacks are added at the end: a program that was started
/// from the desktop keeps the `PATH` of its start, without what was installed since.
#[must_use]
pub fn search_path() -> Option<OsString> {
    let own = std::env::var_os("PATH");
    #[cfg(windows)]
    let own = extend_own(own);
    own
}

/// Adds the folders of the registry. Values that cannot be read are left out.
#[cfg(windows)]
fn extend_own(own: Option<OsString>) -> Option<OsString> {
    use windows_registry::{CURRENT_USER, LOCAL_MACHINE};

    /// Variables of the machine and of the user.
    const MACHINE_KEY: &str = r"SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
    const USER_KEY: &str = "Environment";

    let read =
        |root: &windows_registry::Key, key: &str| root.open(key).and_then(|key| key.get_string("Path"));
    let stored = [read(LOCAL_MACHINE, MACHINE_KEY), read(CURRENT_USER, USER_KEY)];
    let stored: Vec<String> = stored.into_iter().flatten().collect();
    // A text that is not Unicode is left as it is.
    let text = match own.unwrap_or_default().into_string() {
        Ok(text) => text,
        Err(other) => return Some(other),
    };
    let path = extend(&text, &stored, &|name| std::env::var(name).ok());
    (!path.is_empty()).then(|| path.into())
}

/// Adds the folders of `stored` lists that `own` lacks. Letter case does not count. Folders that are relative, or contain
/// an unknown variable, are left out.
#[cfg(any(windows, test))]
fn extend(own: &str, stored: &[String], variable: &dyn Fn(&str) -> Option<String>) -> String {
    let comparable = |folder: &str| folder.trim_end_matches(['\\', '/']).to_lowercase();
    let mut known: Vec<String> = own.split(';').map(comparable).collect();
    let mut path = own.to_owned();
    for folder in stored.iter().flat_map(|list| list.split(';')) {
        let Some(folder) = expand(folder.trim(), variable) else { continue };
        let is_absolute = folder.as_bytes().get(1..3) == Some(b":\\") || folder.starts_with(r"\\");
        if !is_absolute || known.contains(&comparable(&folder)) {
            continue;
        }
        known.push(comparable(&folder));
        if !path.is_empty() && !path.ends_with(';') {
            path.push(';');
        }
        path.push_str(&folder);
    }
    path
}

/// Replaces `%NAME%` by the variable. `None` if there is no such variable.
#[cfg(any(windows, test))]
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut expanded = String::new();
    for (at, part) in text.split('%').enumerate() {
        // Every second part is between two percent signs.
        if at % 2 == 0 { expanded.push_str(part) } else { expanded.push_str(&variable(part)?) }
    }
    Some(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(own: &str, stored: &[&str]) -> String {
        let variable = |name: &str| name.eq_ignore_ascii_case("SystemRoot").then(|| r"C:\Windows".to_owned());
        let stored: Vec<String> = stored.iter().map(|&list| list.to_owned()).collect();
        extend(own, &stored, &variable)
    }

    #[test]
    fn folders_that_were_added_later_come_last_and_once() {
        let machine = r"%SystemRoot%\system32;C:\Program Files\nodejs\;;relative;%NOTHING%\x";
        let user = r"C:\Users\me\bin;c:\program files\NODEJS;\\server\tools";
        assert_eq!(
            extended(r"C:\own;c:\windows\System32\", &[machine, user]),
            r"C:\own;c:\windows\System32\;C:\Program Files\nodejs\;C:\Users\me\bin;\\server\tools"
        );
        assert_eq!(extended(r"C:\own;", &[r"C:\a"]), r"C:\own;C:\a");
        assert_eq!(extended("", &[r"C:\a;C:\b"]), r"C:\a;C:\b");
        assert_eq!(extended(r"C:\own", &[]), r"C:\own");
    }

    #[cfg(windows)]
    #[test]
    fn the_folders_of_the_registry_are_there() {
        let path = search_path().unwrap().into_string().unwrap().to_lowercase();
        assert!(path.split(';').any(|folder| folder.ends_with(r"\system32")), "{path}");
    }
}
