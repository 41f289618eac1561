//! Differences between the offers of servers and the merged lists, with reasons, for the status.

use super::gateway_state::CatalogueView;
use crate::catalogue::MergedCatalogue;
use crate::config::ToolFilter;
use crate::upstream::{UpstreamEntry, UpstreamState, UpstreamStatus};

/// Describes each difference between a server's offers and what applications of a view see of it. Returns nothing for a
/// server with an account for each user, whose connections are private to the users.
pub(super) fn differences(
    (slot, narrowed): (&UpstreamEntry, Option<&ToolFilter>),
    position: usize,
    view: &CatalogueView,
    catalogue: &MergedCatalogue,
) -> impl Iterator<Item = String> {
    let found = || {
        // Only a server that all users share has a connection without a user.
        let upstream = slot.of(None)?;
        let applications = format!("applications that support {}", view.abilities);
        let line = upstream.line(view.abilities);
        let of_line = UpstreamStatus::of(&upstream.server, &line.phase());
        let not_up = (of_line.state != UpstreamState::Ready).then(|| {
            let problem = of_line.problem.map(|problem| format!(": {problem}")).unwrap_or_default();
            let failures = match of_line.failures {
                0 => String::new(),
                1 => ", failed once".to_owned(),
                count => format!(", failed {count} times"),
            };
            format!(
                "the connection for {applications} is not up ({}{failures}{problem}); they see the lists of another \
                 connection, and their calls wait",
                of_line.state.as_str()
            )
        });
        let live = upstream.offers(view.abilities)?;
        let offered = live.listing.tools.iter().filter(|tool| {
            slot.filter.allows(&tool.name) && narrowed.is_none_or(|narrowed| narrowed.allows(&tool.name))
        });
        let offered = offered.count();
        let listed = catalogue.tools.items().iter();
        let origins = listed.filter_map(|tool| catalogue.tools.origin(&tool.name));
        let listed = origins.filter(|place| place.server == position).count();
        let missing = (listed < offered).then(|| {
            format!(
                "{} of its {offered} tools are not listed for {applications}, because their names clash with those of \
                 other tools",
                offered - listed
            )
        });
        Some([not_up, missing].into_iter().flatten())
    };
    found().into_iter().flatten()
}
