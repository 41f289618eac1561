//! The normal form in which texts are compared: case, width, look-alikes, white space and invisible characters make no
//! difference in it.

use hospes_policy::is_hidden;
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::skeleton;

/// Returns the normal form of a text.
#[must_use]
pub fn normal_form(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    append_normal_form(text, &mut normal);
    normal
}

/// Appends the normal form of a text. White space at its ends is left out.
pub(super) fn append_normal_form(text: &str, normal: &mut String) {
    let begin = normal.len();
    if text.is_ascii() {
        // Nearly all text; it needs no tables.
        text.chars().filter(|character| is_kept(*character)).for_each(|ch| append(ch, begin, normal));
    } else {
        let visible = text.chars().filter(|character| is_kept(*character));
        for character in visible.nfkc() {
            append_latin(character, begin, normal);
        }
    }
    if normal.len() > begin && normal.ends_with(' ') {
        normal.pop();
    }
}

/// Returns true if a character is part of the normal form.
fn is_kept(character: char) -> bool {
    character.is_whitespace() || !is_hidden(character)
}

/// Appends a character in lower case. A run of white space becomes one space.
fn append(character: char, begin: usize, normal: &mut String) {
    if character.is_whitespace() {
        if normal.len() > begin && !normal.ends_with(' ') {
            normal.push(' ');
        }
    } else if character.is_ascii() {
        normal.push(character.to_ascii_lowercase());
    } else {
        normal.extend(character.to_lowercase());
    }
}

/// Appends a character, or the ASCII text that it looks like.
fn append_latin(character: char, begin: usize, normal: &mut String) {
    if character.is_ascii() || character.is_whitespace() {
        return append(character, begin, normal);
    }
    let mut encoded = [0; 4];
    let mut similar = skeleton(character.encode_utf8(&mut encoded));
    match (similar.next(), similar.next()) {
        (Some(one), None) if one.is_ascii() => append(one, begin, normal),
        _ => append(character, begin, normal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_look_alike_have_one_normal_form() {
        for (text, normal) in [
            ("Mark@X.example", "mark@x.example"),
            ("m\u{200b}a\u{ad}rk\u{e0041}", "mark"),
            ("\u{ff2d}\u{ff21}\u{ff32}\u{ff2b}", "mark"),
            ("\u{fb01}le", "file"),
            ("p\u{430}yp\u{430}l.example", "paypal.example"),
            ("  two\t\r\n words ", "two words"),
            ("Zürich", "zürich"),
            ("Z\u{75}\u{308}rich", "zürich"),
            ("", ""),
            (" \u{200b} ", ""),
        ] {
            assert_eq!(normal_form(text), normal, "{text:?}");
        }
    }

    #[test]
    fn appended_texts_do_not_run_into_each_other() {
        let mut all = String::from("before ");
        append_normal_form("  After ", &mut all);
        assert_eq!(all, "before after");
    }
}
