//! Hidden characters of a text: found, counted and stripped.
//!
//! Characters without a shape carry text that a model reads and a person does not see, and marks of direction make a
//! person read another text than the model. The same characters have uses in natural text, which are no findings:
//! joiners in emoji and in scripts that need them, marks in text from right to left, soft hyphens inside words,
//! variation selectors after symbols, and flags of regions.

use std::borrow::Cow;

use hospes_policy::is_hidden;

/// Returns the number of hidden characters.
#[must_use]
pub fn count_hidden(text: &str) -> usize {
    if text.is_ascii() { 0 } else { HiddenCharacters::new(text).count() }
}

/// Removes hidden characters and returns their number.
#[must_use]
pub fn strip_hidden(text: &str) -> (Cow<'_, str>, usize) {
    let count = count_hidden(text);
    if count == 0 {
        return (Cow::Borrowed(text), 0);
    }
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for (hidden, character) in HiddenCharacters::new(text) {
        shown.push_str(&text[at..hidden]);
        at = hidden + character.len_utf8();
    }
    shown.push_str(&text[at..]);
    (Cow::Owned(shown), count)
}

/// Returns true if a JSON text may have hidden characters in its strings, written as themselves or as escapes. Costs
/// little for ASCII.
#[must_use]
pub fn may_hide_in_json(json: &str) -> bool {
    if !json.is_ascii() && count_hidden(json) > 0 {
        return true;
    }
    let bytes = json.as_bytes();
    memchr::memmem::find_iter(bytes, b"\\u").any(|at| {
        let digits = bytes.get(at + 2..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        // The first half of a pair stands for the characters from U+E0000 on.
        unit.is_some_and(|unit| {
            (0xdb40..=0xdb43).contains(&unit) || char::from_u32(unit).is_some_and(is_shapeless)
        })
    })
}

/// Returns a text without any character that has no shape, also without those of natural text: as a model reads it.
pub(crate) fn without_shapeless(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(is_shapeless) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|one| !is_shapeless(*one)).collect())
}

/// Returns true for characters without a shape of their own, and marks of direction.
fn is_shapeless(character: char) -> bool {
    // Line and paragraph separators are seen as line ends, and control characters are weighed elsewhere.
    is_hidden(character) && !character.is_control() && !matches!(character, '\u{2028}' | '\u{2029}')
}

/// Hidden characters with their places.
struct HiddenCharacters<'a> {
    text: &'a str,
    at: usize,
    before: Option<char>,
    /// True if the text has letters of a script from right to left. Determined when it is needed.
    is_right_to_left: Option<bool>,
    /// Open embeddings and isolates that are natural.
    open: usize,
    /// End of the flag of a region.
    flag_end: usize,
}

impl<'a> HiddenCharacters<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, before: None, is_right_to_left: None, open: 0, flag_end: 0 }
    }

    fn has_right_to_left(&mut self) -> bool {
        let text = self.text;
        *self.is_right_to_left.get_or_insert_with(|| text.chars().any(is_right_to_left))
    }

    /// Returns true if a shapeless character has a use in natural text at this place.
    fn is_natural(&mut self, character: char) -> bool {
        let before = self.before.unwrap_or(' ');
        let mut rest = self.text[self.at + character.len_utf8()..].chars();
        let after = rest.next().unwrap_or(' ');
        match character {
            // The mark of the byte order of a file.
            '\u{feff}' => self.at == 0,
            '\u{ad}' => before.is_alphabetic() && after.is_alphabetic(),
            '\u{200c}' | '\u{200d}' => {
                needs_joiners(before) && (needs_joiners(after) || !after.is_alphanumeric())
                    || character == '\u{200d}' && is_pictograph(before) && is_pictograph(after)
            }
            // Words of these scripts have no blanks between them.
            '\u{200b}' => is_without_blanks(before) && is_without_blanks(after),
            '\u{2060}' => false,
            '\u{200e}' | '\u{200f}' | '\u{61c}' => self.has_right_to_left(),
            '\u{202a}' | '\u{202b}' | '\u{2066}'..='\u{2068}' => {
                let is_natural = self.has_right_to_left();
                self.open += usize::from(is_natural);
                is_natural
            }
            '\u{202c}' | '\u{2069}' => {
                let is_natural = self.open > 0;
                self.open = self.open.saturating_sub(1);
                is_natural
            }
            // One after a symbol selects its drawing; more of them, or after a letter, encode something.
            '\u{fe00}'..='\u{fe0f}' => is_drawn(before),
            '\u{e0100}'..='\u{e01ef}' => is_ideograph(before),
            '\u{180b}'..='\u{180f}' => ('\u{1800}'..='\u{18af}').contains(&before),
            '\u{115f}' | '\u{1160}' => is_hangul_part(before) || is_hangul_part(after),
            '\u{17b4}' | '\u{17b5}' => ('\u{1780}'..='\u{17ff}').contains(&before),
            '\u{2800}' => is_braille(before) || is_braille(after) || after == '\u{2800}',
            '\u{e0020}'..='\u{e007f}' => {
                if before == '\u{1f3f4}' {
                    self.flag_end = find_flag_end(&self.text[self.at..]).map_or(0, |end| self.at + end);
                }
                self.at < self.flag_end
            }
            _ => false,
        }
    }
}

impl Iterator for HiddenCharacters<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(character) = self.text[self.at..].chars().next() {
            let at = self.at;
            let is_hidden = is_shapeless(character) && !self.is_natural(character);
            self.at += character.len_utf8();
            self.before = Some(character);
            if is_hidden {
                return Some((at, character));
            }
        }
        None
    }
}

/// Returns the end of the tags of a region: two to six letters or digits and the final tag.
fn find_flag_end(text: &str) -> Option<usize> {
    let mut count = 0;
    for (at, character) in text.char_indices() {
        match character {
            '\u{e007f}' if (2..=6).contains(&count) => return Some(at + character.len_utf8()),
            '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}' if count < 6 => count += 1,
            _ => return None,
        }
    }
    None
}

const fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{5d0}'..='\u{5f2}' | '\u{620}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Returns true for letters of scripts that join or part letters: Arabic, Syriac and Indic ones, Khmer and others.
const fn needs_joiners(character: char) -> bool {
    matches!(character, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{1900}'..='\u{1c7f}' | '\u{a800}'..='\u{abff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{11000}'..='\u{11fff}')
}

const fn is_without_blanks(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3000}'..='\u{9fff}' | '\u{f00}'..='\u{fff}')
}

const fn is_pictograph(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{3030}'..='\u{303d}' | '\u{3297}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}' | '\u{fe0f}' | '\u{e007f}')
}

const fn is_drawn(character: char) -> bool {
    matches!(character, '0'..='9' | '#' | '*' | '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{2bff}' | '\u{3030}'..='\u{303d}' | '\u{3297}'..='\u{3299}' | '\u{1000}'..='\u{109f}' | '\u{1f000}'..='\u{1faff}')
        || is_ideograph(character)
}

const fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

const fn is_hangul_part(character: char) -> bool {
    matches!(character, '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{d7b0}'..='\u{d7ff}')
}

const fn is_braille(character: char) -> bool {
    matches!(character, '\u{2801}'..='\u{28ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_counted_and_removed() {
        for (text, shown, count) in [
            ("a\u{200b}b", "ab", 1),
            ("pay\u{200d}pal", "paypal", 1),
            ("\u{202e}txt.exe", "txt.exe", 1),
            ("a\u{2066}b\u{2069}", "ab", 2),
            ("a\u{feff}b", "ab", 1),
            ("x\u{e0049}\u{e0067}\u{e006e}", "x", 3),
            ("a\u{fe01}\u{fe02}", "a", 2),
            ("\u{1f600}\u{fe0f}\u{e0121}\u{e0122}", "\u{1f600}\u{fe0f}", 2),
            ("a\u{2060}\u{2061}\u{2064}b", "ab", 3),
            ("a\u{3164}b\u{ffa0}", "ab", 2),
            ("a \u{ad}\u{ad}\u{ad}b", "a b", 3),
            ("a\u{200e}b\u{200f}", "ab", 2),
            (
                "\u{1f3f4}\u{e0069}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}\u{e0020}\u{e0061}",
                "\u{1f3f4}",
                8,
            ),
            ("ü\u{fff9}x", "üx", 1),
        ] {
            assert_eq!(strip_hidden(text), (Cow::Borrowed(shown), count), "{text:?}");
        }
    }

    #[test]
    fn characters_of_natural_text_stay() {
        for text in [
            "plain ASCII\n\twith\u{1b}[31mcolours",
            "Grüße, naïve café – “quotes” … 10\u{202f}€ a\u{a0}b",
            "👩\u{200d}💻 👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3} ©\u{fe0f}",
            "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} Scotland",
            "می\u{200c}خواهم نامه\u{200c}ای",
            "क\u{94d}\u{200d}ष न\u{94d}\u{200c}",
            "שלום\u{200f}! (\u{200e}ABC\u{200e})",
            "مرحبا \u{2067}نص\u{2069} \u{202b}x\u{202c}",
            "Donau\u{ad}dampf\u{ad}schiff",
            "ภาษา\u{200b}ไทย",
            "\u{feff}a file with a mark",
            "葛\u{e0100}飾区 ☀\u{fe0e}",
            "⣿\u{2800}⣿ \u{2800}⠁",
            "日本語 한국어 中文 Ελληνικά Русский",
        ] {
            assert_eq!(strip_hidden(text), (Cow::Borrowed(text), 0), "{text:?}");
        }
    }

    #[test]
    fn escapes_in_json_are_noticed() {
        for (json, hides) in [
            (r#"{"a":"plain \u00fc \n \u0041"}"#, false),
            (r#"{"a":"x\u200bx"}"#, true),
            (r#"{"a":"x\uDB40\uDC41"}"#, true),
            (r#"{"a":"\u00ADx"}"#, true),
            ("{\"a\":\"\u{fc}\u{200b}x\"}", true),
            ("{\"a\":\"\u{fc}\"}", false),
            (r#"{"a":"\u"}"#, false),
        ] {
            assert_eq!(may_hide_in_json(json), hides, "{json}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_left_hides_nothing_that_was_found(text in "[a-z\u{200b}-\u{200f}\u{202a}-\u{202e}\u{e0020}-\u{e0030}א👩\u{fe0f}]{0,30}") {
            let (shown, count) = strip_hidden(&text);
            let removed = text.chars().count() - shown.chars().count();
            proptest::prop_assert_eq!(removed, count);
        }
    }
}
