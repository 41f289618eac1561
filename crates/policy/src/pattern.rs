use std::fmt;

use globset::{GlobBuilder, GlobMatcher};

use crate::paths;

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
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, globset::Error> {
        let mut glob = GlobBuilder::new(text);
        glob.literal_separator(true).backslash_escape(true).empty_alternates(true);
        Ok(Self { text: text.to_owned(), glob: glob.build()?.compile_matcher() })
    }

    pub(crate) fn fits(&self, text: &str, doubt: Doubt) -> bool {
        match doubt {
            // Who wrote the whole text has seen what is in it.
            Doubt::Refuses if self.text == text => true,
            Doubt::Refuses => paths::is_plain(text) && self.glob.is_match(text),
            Doubt::Counts => {
                self.glob.is_match(text)
                    || paths::readings(text).iter().any(|reading| self.glob.is_match(reading))
            }
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

    pub(crate) fn fits(&self, text: &str, doubt: Doubt) -> bool {
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
        Pattern::new(pattern).unwrap().fits(text, doubt)
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
    fn what_climbs_fits_no_permission_and_every_prohibition_it_may_mean() {
        let sly = "/home/me/../../etc/passwd";
        assert!(!fits("/home/**", sly, Doubt::Refuses));
        assert!(fits("/etc/**", sly, Doubt::Counts));
        assert!(fits("/home/**", sly, Doubt::Counts));
        assert!(!fits("/home/**", "/home/%2e%2e/etc", Doubt::Refuses));
        assert!(fits(sly, sly, Doubt::Refuses), "written out");
    }
}
