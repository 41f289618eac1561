//! Detection of names that look alike.

use hospes_policy::is_hidden;
use unicode_security::skeleton;

/// Returns the skeleton by which easily confused names are compared. It ignores case, separators, hidden characters and
/// the script of a letter.
pub(crate) fn loose_skeleton(name: &str) -> String {
    let seen = strict_skeleton(&name.to_lowercase());
    seen.chars()
        .filter(|letter| *letter != '-')
        .map(|letter| if letter == 'i' { 'l' } else { letter })
        .collect()
}

/// Returns the skeleton of a name that a person has chosen. Separators count, and a small `i` differs from `l`.
pub(crate) fn strict_skeleton(name: &str) -> String {
    let bare: String =
        name.chars().filter(|letter| !is_hidden(*letter)).map(normalize_small_capital).collect();
    // Once as it is written, for a capital `I` looks like an `l`, and once more in small letters.
    let small = skeleton(&bare).collect::<String>().to_lowercase();
    let seen = skeleton(&small).map(|letter| if matches!(letter, '_' | '.' | ' ') { '-' } else { letter });
    seen.collect::<String>().to_lowercase().replace("vv", "w")
}

/// Maps letters that the standard's table (UTS #39) treats as small capitals, because a reader of a name sees Latin
/// letters.
fn normalize_small_capital(letter: char) -> char {
    match letter {
        'κ' | 'к' => 'k',
        'τ' | 'т' => 't',
        'β' | 'в' => 'b',
        'η' | 'н' => 'h',
        'м' => 'm',
        'σ' => 'o',
        'ε' | 'є' => 'e',
        'ι' | 'ı' => 'i',
        letter => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_alike_is_alike_and_what_does_not_is_not() {
        for (one, other) in [
            ("mail", "m\u{430}il"),
            ("mail", "mаıl"),
            ("paypal", "раураӏ"),
            ("scope", "ѕсоре"),
            ("token", "token".replace('t', "\u{442}").as_str()),
            ("a-b", "a_b"),
            ("a b", "a.b"),
            ("db1", "dbl"),
            ("s0", "sO"),
            ("Illuminate", "lIluminate"),
            ("modern", "modem"),
            ("mail", "ｍａｉｌ"),
            ("mail", "𝐦𝐚𝐢𝐥"),
            ("mail", "m\u{200b}ail"),
        ] {
            assert_eq!(strict_skeleton(one), strict_skeleton(other), "{one} {other}");
            assert_eq!(loose_skeleton(one), loose_skeleton(other), "{one} {other}");
        }
        for (one, other) in
            [("mail", "mall"), ("ab", "a-b"), ("files", "file"), ("検索", "編集"), ("db1", "db2")]
        {
            assert_ne!(strict_skeleton(one), strict_skeleton(other), "{one} {other}");
        }
        assert_eq!(loose_skeleton("mail_box"), loose_skeleton("MallBox"));
    }
}
