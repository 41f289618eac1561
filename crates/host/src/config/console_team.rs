//! Settings of a console for a team.

use super::document::ConfigNode;
use super::expand::ExpansionScope;
use super::keys;
use super::secret::Secret;
use super::table::{ConfigReport, SettingsTable};

/// Settings of a console at which the people of a team sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsoleTeamConfig {
    /// Issuer identifier of the OpenID provider.
    pub issuer: String,
    /// Client id of the console at the provider.
    pub client_id: String,
    /// Client secret of the console at the provider.
    pub client_secret: Option<Secret>,
    /// Origin at which browsers reach the console.
    pub public_url: String,
    /// Scopes that are requested; `openid` and `profile` if empty.
    pub scopes: Vec<String>,
    /// Claim that has the groups of a person.
    pub groups_claim: String,
    /// Names of roles, each with the groups that have it. Not empty.
    pub roles: Vec<(String, Vec<String>)>,
}

/// Default claim that has the groups of a person.
const GROUPS_CLAIM: &str = "groups";

/// Roles that groups can have.
const ROLES: [&str; 4] = ["admin", "approver", "auditor", "member"];

/// Reads the table.
pub(super) fn read_console_team(
    at: &ConfigNode,
    scope: &ExpansionScope<'_>,
    report: &mut ConfigReport,
) -> Option<ConsoleTeamConfig> {
    let mut table = SettingsTable::new(at, None, &keys::CONSOLE_TEAM, "console.team.", report)?;
    let mut text = |key: &'static str| {
        let entry = table.take(key, report)?;
        let text = table.expanded(&entry.node, &table.field(entry), scope, report)?;
        Some(text.reveal().to_owned())
    };
    let (issuer, client_id, public_url) = (text("issuer"), text("client_id"), text("public_url"));
    let client_secret = text("client_secret").map(Secret::new);
    let groups_claim = text("groups_claim").unwrap_or_else(|| GROUPS_CLAIM.to_owned());
    let scopes = table.strings("scopes", report).unwrap_or_default();
    let mut roles = Vec::new();
    if let Some(entry) = table.take("roles", report)
        && let Some(mut groups) =
            SettingsTable::new(&entry.node, None, &keys::CONSOLE_TEAM_ROLES, "console.team.roles.", report)
    {
        for role in ROLES {
            roles.extend(groups.strings(role, report).map(|groups| (role.to_owned(), groups)));
        }
        groups.report_unknown_keys(report);
    }
    table.report_unknown_keys(report);
    for key in ["issuer", "client_id", "public_url"] {
        if table.entry(key).is_none() {
            table.invalid::<()>(&at.at, &format!("console.team.{key}"), "a string", "", report);
        }
    }
    // Nobody could sign in without one.
    if roles.iter().all(|(_, groups)| groups.is_empty()) {
        let expected = "groups for at least one role, such as member = [\"staff\"]";
        return table.invalid(&at.at, "console.team.roles", expected, "", report);
    }
    Some(ConsoleTeamConfig {
        issuer: issuer?,
        client_id: client_id?,
        client_secret,
        public_url: public_url?,
        scopes,
        groups_claim,
        roles,
    })
}
