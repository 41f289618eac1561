use std::fmt;

use globset::{GlobBuilder, GlobMatcher};

use crate::paths::{self, TextReadings};

/// Bias of a rule for text with more than one interpretation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AmbiguityBias {
    /// Allow rules: only unambiguous text matches.
    Refuses,
    /// Ask and deny rules: text that may match does.
    Counts,
}

/// Result of matching a string against the destinations of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PatternMatch {
    No,
    Maybe,
    Yes,
}

/// A glob pattern over a whole text.
#[derive(Clone)]
pub(crate) struct TextPattern {
    text: String,
    glob: GlobMatcher,
    /// Matcher that ignores case.
    loose: GlobMatcher,
}

impl TextPattern {
    pub(crate) fn new(text: &str) -> Result<Self, globset::Error> {
        let mut glob = GlobBuilder::new(text);
        // Set explicitly, because the default for backslashes depends on the platform.
        glob.literal_separator(true).backslash_escape(true).empty_alternates(true);
        let strict = glob.build()?.compile_matcher();
        let loose = glob.case_insensitive(true).build()?.compile_matcher();
        Ok(Self { text: text.to_owned(), glob: strict, loose })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the pattern matches one reading of a text.
    pub(crate) fn is_like(&self, reading: &str) -> bool {
        self.loose.is_match(reading)
    }

    /// Returns true if the pattern has a wildcard.
    pub(crate) fn is_wild(&self) -> bool {
        self.text.contains(['*', '?', '[', '{', '\\'])
    }

    pub(crate) fn fits(&self, text: &TextReadings<'_>, doubt: AmbiguityBias) -> bool {
        match doubt {
            // A pattern that repeats the whole text was written with knowledge of its content.
            AmbiguityBias::Refuses if self.text == text.raw() => true,
            // Every text is one of its own readings.
            AmbiguityBias::Counts if self.text == text.raw() && !self.is_wild() => true,
            _ if text.is_too_long() => doubt == AmbiguityBias::Counts,
            AmbiguityBias::Refuses => paths::is_plain(text.raw()) && self.glob.is_match(text.raw()),
            AmbiguityBias::Counts => text.readings().iter().any(|reading| self.loose.is_match(reading)),
        }
    }
}

impl fmt::Display for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.text)
    }
}

impl fmt::Debug for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// One or more patterns, one of which must match.
#[derive(Clone, Debug)]
pub(crate) struct TextPatterns(Vec<TextPattern>);

impl TextPatterns {
    pub(crate) fn new(texts: &[String]) -> Result<Self, String> {
        let all = texts.iter().map(|text| TextPattern::new(text).map_err(|error| error.to_string()));
        all.collect::<Result<_, _>>().map(Self)
    }

    /// Iterates over the patterns in order.
    pub(crate) fn each(&self) -> impl Iterator<Item = &TextPattern> {
        self.0.iter()
    }

    pub(crate) fn fits(&self, text: &TextReadings<'_>, doubt: AmbiguityBias) -> bool {
        self.0.iter().any(|pattern| pattern.fits(text, doubt))
    }
}

impl fmt::Display for TextPatterns {
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

    fn fits(pattern: &str, text: &str, doubt: AmbiguityBias) -> bool {
        TextPattern::new(pattern).unwrap().fits(&TextReadings::new(text), doubt)
    }

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        for doubt in [AmbiguityBias::Refuses, AmbiguityBias::Counts] {
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
            assert!(fits("file:///etc/**", text, AmbiguityBias::Counts), "{text:?}");
        }
        assert!(fits("https://a.example/x", "https://me@A.example:443//x", AmbiguityBias::Counts));
        assert!(!fits("read", "READ", AmbiguityBias::Refuses));
    }

    /// A name is compared with a plain pattern without computing its readings.
    #[test]
    fn a_pattern_with_wildcards_is_not_compared_as_text() {
        for doubt in [AmbiguityBias::Refuses, AmbiguityBias::Counts] {
            assert!(fits("read_file", "read_file", doubt));
            assert!(!fits("read_file", "read_files", doubt));
        }
        assert!(!fits("[ab]", "[ab]", AmbiguityBias::Counts));
        assert!(fits("[ab]", "a", AmbiguityBias::Counts));
    }

    #[test]
    fn a_text_too_long_to_be_looked_at_fits_no_permission_and_every_prohibition() {
        let long = "a".repeat(paths::MAX_TEXT + 1);
        assert!(!fits("**", &long, AmbiguityBias::Refuses));
        assert!(fits("b", &long, AmbiguityBias::Counts));
        assert!(
            fits("**", &long[1..], AmbiguityBias::Refuses) && !fits("b", &long[1..], AmbiguityBias::Counts)
        );
    }

    #[test]
    fn what_climbs_fits_no_permission_and_every_prohibition_it_may_mean() {
        let sly = "/home/me/../../etc/passwd";
        assert!(!fits("/home/**", sly, AmbiguityBias::Refuses));
        assert!(fits("/etc/**", sly, AmbiguityBias::Counts));
        assert!(fits("/home/**", sly, AmbiguityBias::Counts));
        assert!(!fits("/home/**", "/home/%2e%2e/etc", AmbiguityBias::Refuses));
        assert!(fits(sly, sly, AmbiguityBias::Refuses), "written out");
    }
}
