//! Check of tool filters: those of the server's entry and of profiles.

use hospes_host::config::{ProfileConfig, ServerConfig, ToolFilter};

use super::check::{DoctorChain, DoctorFinding, T04};
use crate::profiles::unmatched_text;
use crate::shown_commands::shown_command;

/// Warns of patterns that match none of the server's tools. Without tools there is nothing to compare with.
pub(super) fn check(
    server: &ServerConfig,
    profiles: &[ProfileConfig],
    tools: &[impl AsRef<str>],
    chain: &mut DoctorChain,
) {
    if tools.is_empty() {
        return;
    }
    let key = format!("tools.{}", server.name);
    let own = (&server.tools, "`tools`".to_owned(), format!("`[servers.{}]`", server.name));
    let of_profiles = profiles.iter().filter_map(|profile| {
        let filter = profile.tools.get(&server.name)?;
        Some((filter, format!("`{key}`"), format!("`[profiles.{}]`", profile.name)))
    });
    let filters: Vec<(&ToolFilter, String, String)> = std::iter::once(own).chain(of_profiles).collect();
    let mut is_well = true;
    for (filter, key, table) in filters {
        let Some(text) = unmatched_text(filter, &server.name, tools) else { continue };
        is_well = false;
        let finding = DoctorFinding::new(text).mend(format!(
            "correct {key} of {table}; {} shows the tools",
            shown_command("list", &server.name)
        ));
        chain.warn(&T04, finding);
    }
    if is_well {
        chain.ok(&T04, "");
    }
}
