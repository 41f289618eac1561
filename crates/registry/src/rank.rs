//! Order of search results. It depends only on the words and the state of an entry: registries count no downloads, and
//! none are invented.

/// How well an entry fits a query, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MatchTier {
    /// The full name is the query.
    ExactName,
    /// The last part of the name is the query.
    LastPart,
    /// The last part of the name begins with it.
    Prefix,
    /// A word of the name or the title is it.
    Word,
    /// The name or the title contains it.
    Substring,
    /// Only the description contains it.
    Description,
}

/// A query, prepared for comparisons.
#[derive(Clone, Debug)]
pub(crate) struct SearchQuery {
    whole: String,
    words: Vec<String>,
}

/// Maximum number of words of a query that count.
const MAX_WORDS: usize = 8;

impl SearchQuery {
    pub(crate) fn new(query: &str) -> Self {
        let lower = query.trim().to_lowercase();
        let words = lower.split_whitespace().take(MAX_WORDS).map(str::to_owned).collect::<Vec<_>>();
        Self { whole: words.join("-"), words }
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns how well an entry fits: as its worst word does. Returns `None` if a word is not there.
    pub(crate) fn tier(&self, name: &str, title: &str, description: &str) -> Option<MatchTier> {
        let (name, title) = (name.to_lowercase(), title.to_lowercase());
        let description = description.to_lowercase();
        let whole = word_tier(&self.whole, &name, &title, &description);
        let worst = self.words.iter().map(|word| word_tier(word, &name, &title, &description)).max_by_key(
            // No match is worse than any.
            |tier| (tier.is_none(), *tier),
        );
        match (whole, worst.flatten()) {
            (Some(whole), Some(worst)) => Some(whole.min(worst.max(MatchTier::Word))),
            (tier, None) | (None, tier) => tier,
        }
    }
}

fn word_tier(word: &str, name: &str, title: &str, description: &str) -> Option<MatchTier> {
    let last = name.rsplit('/').next().unwrap_or(name);
    let has_word = |text: &str| text.split(|letter: char| !letter.is_alphanumeric()).any(|part| part == word);
    if name == word {
        Some(MatchTier::ExactName)
    } else if last == word {
        Some(MatchTier::LastPart)
    } else if last.starts_with(word) {
        Some(MatchTier::Prefix)
    } else if has_word(name) || has_word(title) {
        Some(MatchTier::Word)
    } else if name.contains(word) || title.contains(word) {
        Some(MatchTier::Substring)
    } else if description.contains(word) {
        Some(MatchTier::Description)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_counts_more_than_the_description() {
        let tier = |query: &str, name: &str, title: &str, description: &str| {
            SearchQuery::new(query).tier(name, title, description)
        };
        assert_eq!(tier("com.example/mail", "com.example/Mail", "", ""), Some(MatchTier::ExactName));
        assert_eq!(tier("Mail", "com.example/mail", "", ""), Some(MatchTier::LastPart));
        assert_eq!(tier("mail", "com.example/mail-server", "", ""), Some(MatchTier::Prefix));
        assert_eq!(tier("mail", "com.example/the-mail", "", ""), Some(MatchTier::Word));
        assert_eq!(tier("mail", "com.example/x", "My Mail", ""), Some(MatchTier::Word));
        assert_eq!(tier("mail", "com.example/hotmails", "", ""), Some(MatchTier::Substring));
        assert_eq!(tier("mail", "com.example/x", "", "Reads mails"), Some(MatchTier::Description));
        assert_eq!(tier("mail", "com.example/x", "", ""), None);
    }

    #[test]
    fn all_words_must_be_there() {
        let tier =
            |query: &str, name: &str, description: &str| SearchQuery::new(query).tier(name, "", description);
        assert_eq!(tier("time server", "a.b/time-server", ""), Some(MatchTier::LastPart));
        assert_eq!(tier("time zone", "a.b/time", "Knows each zone"), Some(MatchTier::Description));
        assert_eq!(tier("time zone", "a.b/time", ""), None);
        assert_eq!(tier("time server", "a.b/my-time-server", ""), Some(MatchTier::Word));
    }
}
