//! The table `[console.team]`.

use super::*;

const TEAM: &str = "[console]\nlisten = '0.0.0.0:7338'\n[console.team]\nissuer = 'https://login.example'\nclient_id = 'c'\n\
                    client_secret = 's3cret'\npublic_url = 'https://console.example'\n[console.team.roles]\n\
                    member = ['staff']\nadmin = ['it', 'ops']\n";

#[test]
fn a_team_has_a_provider_an_address_and_roles() {
    let team = parse("h.toml", TEAM).console_team.unwrap();
    assert_eq!((&*team.issuer, &*team.client_id), ("https://login.example", "c"));
    assert_eq!((&*team.public_url, &*team.groups_claim), ("https://console.example", "groups"));
    assert_eq!(team.client_secret.as_ref().map(Secret::reveal), Some("s3cret"));
    assert!(!format!("{team:?}").contains("s3cret"));
    let roles: Vec<(&str, usize)> = team.roles.iter().map(|(role, groups)| (&**role, groups.len())).collect();
    assert_eq!(roles, [("admin", 2), ("member", 1)]);
    // Only people who sign in may come from other machines.
    let alone = "[console]\nlisten = '0.0.0.0:7338'";
    assert_eq!(errors("h.toml", alone), [format!("h.toml:2:10: `console.listen`: expected {CONSOLE_FORM}")]);
}

#[test]
fn what_nobody_could_sign_in_with_is_a_mistake() {
    let without = |line: &str| {
        let text: String = TEAM
            .lines()
            .filter(|known| !known.starts_with(line))
            .map(|line| line.to_owned() + "\n")
            .collect();
        errors("h.toml", &text).join("\n")
    };
    for key in ["issuer", "client_id", "public_url"] {
        let said = without(key);
        assert!(said.contains(&format!("`console.team.{key}`: expected a string")), "{said}");
    }
    let said = errors("h.toml", &TEAM.replace("['staff']", "[]").replace("['it', 'ops']", "[]")).join("\n");
    assert!(said.contains("`console.team.roles`: expected groups for at least one role"), "{said}");
    let said = errors("h.toml", &TEAM.replace("member", "owner")).join("\n");
    assert!(said.contains("owner"), "{said}");
}
