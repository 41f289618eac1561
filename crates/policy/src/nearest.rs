//! "Did you mean" suggestions: the candidate closest to a given word.

/// Maximum length of a compared word. A longer word is not a typo, and comparing takes time proportional to the product
/// of the lengths.
const MAX_WORD: usize = 256;

/// Returns the candidate that `asked` was most likely meant to be, if any is close enough.
///
/// Case and the separators `_`, `-` and `.` cost nothing; swapping two neighbours costs as much as one typo.
pub fn nearest<'a>(asked: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if asked.len() > MAX_WORD {
        return None;
    }
    let wanted = fold(asked);
    let length = wanted.chars().count();
    // One mistake in three characters. A single character is a guess, not a typo.
    let limit = (length / 3).max(usize::from(length > 1));
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_WORD)
        .map(|candidate| {
            let folded = fold(candidate);
            let distance = strsim::osa_distance(&wanted, &folded);
            // A distinctive prefix or suffix, such as `read` for `read_file`.
            let part = length >= 3 && (folded.starts_with(&wanted) || folded.ends_with(&wanted));
            (if part { distance.min(limit) } else { distance }, candidate)
        })
        .filter(|(distance, _)| *distance <= limit)
        // Of equal distances the first in alphabetical order wins, so that messages are deterministic.
        .min()
        .map(|(_, candidate)| candidate)
}

fn fold(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '_' | '-' | '.')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_word() {
        let keys = ["command", "args", "env", "url", "headers"];
        for (typo, word) in [
            ("comand", "command"),
            ("cmomand", "command"),
            ("COMMAND", "command"),
            ("header", "headers"),
            ("arg", "args"),
            ("ulr", "url"),
            ("evn", "env"),
        ] {
            assert_eq!(nearest(typo, keys), Some(word), "{typo}");
        }
        assert_eq!(nearest("timeout", keys), None);
        assert_eq!(nearest("x", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest("anything", []), None);
    }

    #[test]
    fn separators_and_parts_are_forgiven() {
        assert_eq!(nearest("readFile", ["read_file", "write_file"]), Some("read_file"));
        assert_eq!(nearest("sum", ["echo", "get-sum"]), Some("get-sum"));
        assert_eq!(nearest("get", ["get-sum", "get-tiny-image"]), Some("get-sum"));
    }

    #[test]
    fn long_texts_are_not_compared() {
        let long = "a".repeat(1 << 20);
        assert_eq!(nearest(&long, ["a", &long]), None);
        assert_eq!(nearest("abc", [long.as_str()]), None);
    }

    #[test]
    fn ties_do_not_depend_on_order() {
        assert_eq!(nearest("bat", ["cat", "bar"]), nearest("bat", ["bar", "cat"]));
    }

    #[test]
    fn distances_are_right() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!(strsim::osa_distance(a, b), expected, "{a} {b}");
        }
    }
}
