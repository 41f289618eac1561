//! Access lists of Windows as text, in the security descriptor definition language. They are ordinary text here, so that
//! all systems test them.

/// Security identifiers that may have access to a private file besides its user: the system, administrators, the local
/// administrator, administrators of the domain and the forest, and the owner in two forms.
const TRUSTED: [&str; 7] = ["SY", "BA", "LA", "DA", "EA", "OW", "CO"];
/// The same identifiers where the system does not abbreviate them.
const TRUSTED_NUMBERS: [&str; 4] = ["S-1-5-18", "S-1-5-32-544", "S-1-3-4", "S-1-3-0"];
/// Last numbers of the administrators of a machine, a domain and a forest, after `S-1-5-21-…`.
const TRUSTED_ACCOUNTS: [&str; 3] = ["500", "512", "519"];

/// Returns the access list of a private file. It inherits nothing.
pub(crate) fn of_private_file(user: &str) -> String {
    format!("D:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;FA;;;{user})")
}

/// Returns the access list of a private folder, which all that is created in it inherits.
pub(crate) fn of_private_folder(user: &str) -> String {
    format!("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;{user})")
}

/// Returns true if an access list, which may follow other parts of a security descriptor, gives any right to somebody
/// other than the user and administrators. A missing list gives all rights to everybody. What cannot be read counts as
/// a right of others.
pub(crate) fn is_open_to_others(descriptor: &str, user: &str) -> bool {
    let Some((_, list)) = descriptor.split_once("D:") else { return true };
    let list = list.split_once("S:").map_or(list, |(list, _)| list);
    let Some((flags, entries)) = list.split_once('(') else {
        // Without entries, nobody has access. `NO_ACCESS_CONTROL` is a missing list.
        return list.contains("NO_ACCESS_CONTROL");
    };
    if flags.contains("NO_ACCESS_CONTROL") {
        return true;
    }
    entries.split('(').any(|entry| is_open_entry(entry.trim_end_matches(')'), user))
}

/// Returns true if one entry, `type;flags;rights;object;inherited object;who`, gives rights to others.
fn is_open_entry(entry: &str, user: &str) -> bool {
    let mut fields = entry.split(';');
    let (kind, flags, who) = (fields.next(), fields.next(), fields.nth(3));
    let (Some(kind), Some(flags), Some(who)) = (kind, flags, who) else { return true };
    // Entries that deny, or that only what is created in a folder inherits.
    if matches!(kind, "D" | "OD" | "XD") || inherits_only(flags) {
        return false;
    }
    let is_account = who
        .strip_prefix("S-1-5-21-")
        .and_then(|rest| rest.rsplit_once('-'))
        .is_some_and(|(_, account)| TRUSTED_ACCOUNTS.contains(&account));
    !(who == user || TRUSTED.contains(&who) || TRUSTED_NUMBERS.contains(&who) || is_account)
}

/// Flags are pairs of letters.
fn inherits_only(flags: &str) -> bool {
    flags.as_bytes().chunks(2).any(|flag| flag == b"IO")
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "S-1-5-21-1-2-3-1001";

    #[test]
    fn lists_for_the_user_and_administrators_are_private() {
        for list in [
            of_private_file(USER),
            of_private_folder(USER),
            // What files below a profile inherit.
            format!("O:{USER}G:BAD:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;ID;FA;;;{USER})"),
            format!("D:(D;;FA;;;WD)(A;;FA;;;{USER})"),
            format!("D:(A;OICIIO;GA;;;WD)(A;;FA;;;{USER})S:(ML;;NW;;;LW)"),
            "D:P".to_owned(),
            "D:(A;;FA;;;S-1-5-18)(A;;FA;;;S-1-5-32-544)(A;;FA;;;S-1-5-21-9-9-9-512)".to_owned(),
        ] {
            assert!(!is_open_to_others(&list, USER), "{list}");
        }
    }

    #[test]
    fn a_right_of_anybody_else_is_noticed() {
        for who in ["WD", "BU", "AU", "AC", "IU", "NU", "BG", "S-1-5-21-1-2-3-1002", "S-1-5-21-1-2-3-513", ""]
        {
            let list = format!("O:{USER}D:AI(A;ID;FA;;;SY)(A;ID;0x1200a9;;;{who})(A;ID;FA;;;{USER})");
            assert!(is_open_to_others(&list, USER), "{list}");
        }
        for list in [
            "",
            "O:BAG:BA",
            "D:NO_ACCESS_CONTROL",
            "D:(A;;FA)",
            "D:(XA;;FX;;;WD;(@User.x))",
            "D:(OA;;FA;;;WD)",
        ] {
            assert!(is_open_to_others(list, USER), "{list}");
        }
    }
}
