//! Messages about mistakes in files, for places with little room: the mistake first, and its place last.

use std::path::Path;

use crate::paths;

/// Returns the mistakes of a message in one line, each before its place.
pub(crate) fn mistakes_first(message: &str) -> String {
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let others: Vec<String> = lines.map(place_last).collect();
    // Of several mistakes, the first line may be their number.
    match (others.is_empty(), split_place(first)) {
        (true, _) => place_last(first),
        (false, None) => format!("{first}: {}", others.join("; ")),
        (false, Some(_)) => format!("{}; {}", place_last(first), others.join("; ")),
    }
}

/// Returns the mistake without its place and without the setting and the server it is about.
pub(crate) fn reason(mistake: &str) -> &str {
    let line = mistake.lines().next().unwrap_or_default();
    let said = split_place(line).map_or(line, |(_, said)| said);
    // ``…` of server `x`: …`, in a row that begins with the server.
    let about = said.split_once(" of server `").and_then(|(_, rest)| rest.split_once("`: "));
    about.map_or(said, |(_, said)| said)
}

/// Returns the commands of this program that a message names between backticks, each once.
pub(crate) fn named_commands(message: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for word in message.split('`').skip(1).step_by(2).filter(|word| word.starts_with("hospes ")) {
        if !commands.iter().any(|known| known == word) {
            commands.push(word.to_owned());
        }
    }
    commands
}

fn place_last(line: &str) -> String {
    match split_place(line) {
        Some((place, said)) => format!("{said} ({})", paths::display_path(Path::new(place))),
        None => line.to_owned(),
    }
}

/// Splits `file:line:column: mistake`, or `/file: mistake`.
fn split_place(line: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    for (at, _) in line.match_indices(": ") {
        let place = &line[..at];
        let mut parts = place.rsplitn(3, ':');
        let numbers = [parts.next(), parts.next()];
        let has_numbers = numbers.iter().all(|part| part.is_some_and(is_number)) && parts.next().is_some();
        if has_numbers || Path::new(place).is_absolute() && !place.contains('`') {
            return Some((place, &line[at + 2..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mistake_comes_before_its_place() {
        let secret = "h.toml:3:13: `env.K` of server `a`: the secret `k` is not stored; `hospes secret set k` stores it";
        for (message, expected) in [
            ("policy.toml:4:2: expected `=`", "expected `=` (policy.toml:4:2)"),
            ("no place: here", "no place: here"),
            (
                "2 errors in the policy\n  p.toml:1:2: one\n  p.toml:3:4: two",
                "2 errors in the policy: one (p.toml:1:2); two (p.toml:3:4)",
            ),
            ("p.toml:1:2: one\np.toml:3:4: two", "one (p.toml:1:2); two (p.toml:3:4)"),
        ] {
            assert_eq!(mistakes_first(message), expected);
        }
        assert_eq!(reason(secret), "the secret `k` is not stored; `hospes secret set k` stores it");
        assert_eq!(named_commands(secret), ["hospes secret set k"]);
        assert_eq!(named_commands("the variable `A` is not set"), [""; 0]);
        if let Some(home) = std::env::home_dir().filter(|_| cfg!(unix)) {
            let place = home.join("a folder/config.toml");
            let said = mistakes_first(&format!("{}:3:13: it is wrong: so", place.display()));
            assert_eq!(said, "it is wrong: so (~/a folder/config.toml:3:13)");
            let said = mistakes_first(&format!("{}: cannot be read", place.display()));
            assert_eq!(said, "cannot be read (~/a folder/config.toml)");
        }
    }
}
