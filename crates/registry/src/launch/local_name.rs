//! Local names of servers.

/// Maximum length of a local name. Names of tools are made of it, and applications allow 64 characters.
const MAX_LOCAL_NAME: usize = 32;

/// Returns the local name of an entry: the last part of its full name in lower case, with `-` for other characters than
/// letters, digits, `-` and `_`. A name that is taken gets a number: `files`, `files-2`.
#[must_use]
pub fn local_name(full_name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let last = full_name.rsplit('/').next().unwrap_or_default();
    let plain: String = last
        .chars()
        .map(|letter| match letter.to_ascii_lowercase() {
            plain if plain.is_ascii_alphanumeric() || matches!(plain, '-' | '_') => plain,
            _ => '-',
        })
        .take(MAX_LOCAL_NAME)
        .collect();
    // Tools are called `server__tool`.
    let mut name = plain.trim_matches(['-', '_']).to_owned();
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    if name.is_empty() {
        "server".clone_into(&mut name);
    }
    if !is_taken(&name) {
        return name;
    }
    (2_u64..).map(|number| format!("{name}-{number}")).find(|name| !is_taken(name)).unwrap_or(name)
}
