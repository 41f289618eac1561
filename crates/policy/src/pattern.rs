use std::fmt;

use globset::{GlobBuilder, GlobMatcher};

use crate::paths::{self, Text};

/// In which direction a rule leans when a text can be taken in more than one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The rule permits: only what means just what it says fits.
    Refuses,
    /// The rule asks or forbids: what may mean it fits.
    Counts,
}

/// One pattern: a glob over a whole text.
#[derive(Clone)]
pub(crate) struct Pattern {
    text: String,
    glob: GlobMatcher,
    /// Matcher that ignores case.
    loose: GlobMatcher,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, globset::Error> {
        let mut glob = GlobBuilder::new(text);
        glob.literal_separator(true).backslash_escape(true).empty_alternates(true);
        let strict = glob.build()?.compile_matcher();
        let loose = glob.case_insensitive(true).build()?.compile_matcher();
        Ok(Self { text: text.to_owned(), glob: strict, loose })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether it fits a text that is one reading already.
    pub(crate) fn is_like(&self, reading: &str) -> bool {
        self.loose.is_match(reading)
    }

    /// Returns whether it has a wildcard.
    pub(crate) fn is_wild(&self) -> bool {
        self.text.contains(['*', '?', '[', '{', '\\'])
    }

    pub(crate) fn fits(&self, text: &Text<'_>, doubt: Doubt) -> bool {
        match doubt {
            // Who wrote the whole text has seen what is in it.
            Doubt::Refuses if self.text == text.raw() => true,
            _ if text.is_too_long() => doubt == Doubt::Counts,
            Doubt::Refuses => paths::is_plain(text.raw()) && self.glob.is_match(text.raw()),
            Doubt::Counts => text.readings().iter().any(|reading| self.loose.is_match(reading)),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// One or more patterns, of which one must fit.
#[derive(Clone, Debug)]
pub(crate) struct Patterns(Vec<Pattern>);

impl Patterns {
    pub(crate) fn new(texts: &[String]) -> Result<Self, String> {
        let all = texts.iter().map(|text| Pattern::new(text).map_err(|error| error.to_string()));
        all.collect::<Result<_, _>>().map(Self)
    }

    /// The patterns in their order.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter()
    }

    pub(crate) fn fits(&self, text: &Text<'_>, doubt: Doubt) -> bool {
        self.0.iter().any(|pattern| pattern.fits(text, doubt))
    }
}

impl fmt::Display for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.0.iter().enumerate() {
            let between = if index == 0 { "" } else { " or " };
            write!(f, "{between}{one}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str, doubt: Doubt) -> bool {
        Pattern::new(pattern).unwrap().fits(&Text::new(text), doubt)
    }

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        for doubt in [Doubt::Refuses, Doubt::Counts] {
            assert!(fits("read_*", "read_file", doubt));
            assert!(fits("/home/*", "/home/me", doubt));
            assert!(!fits("/home/*", "/home/me/x", doubt));
            assert!(fits("/home/**", "/home/me/x", doubt));
            assert!(fits("{a,b}?", "b1", doubt));
            assert!(!fits("read", "read_file", doubt));
        }
    }

    #[test]
    fn a_prohibition_holds_in_every_spelling() {
        for text in [
            "file:///etc/passwd",
            "file:/etc/passwd",
            "file://localhost/etc/passwd",
            "FILE:///ETC/passwd",
            "file:////etc/passwd",
            "file:///etc/%70asswd",
            " file:///x/../etc/passwd",
        ] {
            assert!(fits("file:///etc/**", text, Doubt::Counts), "{text:?}");
        }
        assert!(fits("https://a.example/x", "https://me@A.example:443//x", Doubt::Counts));
        assert!(!fits("read", "READ", Doubt::Refuses));
    }

    #[test]
    fn a_text_too_long_to_be_looked_at_fits_no_permission_and_every_prohibition() {
        let long = "a".repeat(paths::MAX_TEXT + 1);
        assert!(!fits("**", &long, Doubt::Refuses));
        assert!(fits("b", &long, Doubt::Counts));
        assert!(fits("**", &long[1..], Doubt::Refuses) && !fits("b", &long[1..], Doubt::Counts));
    }

    #[test]
    fn what_climbs_fits_no_permission_and_every_prohibition_it_may_mean() {
        let sly = "/home/me/../../etc/passwd";
        assert!(!fits("/home/**", sly, Doubt::Refuses));
        assert!(fits("/etc/**", sly, Doubt::Counts));
        assert!(fits("/home/**", sly, Doubt::Counts));
        assert!(!fits("/home/**", "/home/%2e%2e/etc", Doubt::Refuses));
        assert!(fits(sly, sly, Doubt::Refuses), "written out");
    }
}
