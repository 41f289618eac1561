//! Settings of cargo that decide where crates come from.

use std::path::PathBuf;

use toml::Table;

use super::files;

/// Returns true if cargo's own configuration replaces the usual registry, for example by a mirror. The index of that one
/// is not asked for a hash then.
pub(crate) fn replaces_registry() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let Some(home) = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))) else { return false };
    let texts = ["config.toml", "config"].into_iter().filter_map(|name| files::read_text(&home.join(name)));
    texts.filter_map(|text| text.parse::<Table>().ok()).any(|config| {
        let source = config.get("source").and_then(|sources| sources.get("crates-io"));
        source.is_some_and(|source| source.get("replace-with").is_some())
    })
}
