//! Choice of a model by the server's preferences.

use hospes_model::ModelPreferences;

/// A model that the client could use, with ratings for the server's priorities, each from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelCandidate {
    /// Its name; hints of servers are parts of names.
    pub name: String,
    /// Rating of its cost: 1 is the cheapest.
    pub cheapness: f64,
    /// Rating of its speed.
    pub speed: f64,
    /// Rating of its capability.
    pub intelligence: f64,
}

impl ModelCandidate {
    /// Creates a candidate with only a name; all its ratings are average.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), cheapness: 0.5, speed: 0.5, intelligence: 0.5 }
    }

    /// Sets the ratings for cost, speed and capability, each from 0 to 1.
    #[must_use]
    pub fn rated(mut self, cheapness: f64, speed: f64, intelligence: f64) -> Self {
        (self.cheapness, self.speed, self.intelligence) = (cheapness, speed, intelligence);
        self
    }

    fn score(&self, wishes: &ModelPreferences) -> f64 {
        let part = |priority: Option<f64>, rating: f64| match priority {
            Some(priority) if priority.is_finite() && rating.is_finite() => priority.clamp(0.0, 1.0) * rating,
            _ => 0.0,
        };
        part(wishes.cost_priority, self.cheapness)
            + part(wishes.speed_priority, self.speed)
            + part(wishes.intelligence_priority, self.intelligence)
    }
}

/// Returns the candidate that best matches a server's preferences. The first hint with a match limits the candidates;
/// among these, the priorities decide. Ties are decided by the order of the candidates. Returns `None` only if there
/// are no candidates.
///
/// The client remains free in its choice of a model (SAMP-10, SAMP-21).
///
/// ```
/// use hospes::client::{ModelCandidate, choose_model};
/// use hospes::model::{ModelHint, ModelPreferences};
///
/// let ours = [ModelCandidate::new("oak-large").rated(0.1, 0.3, 0.9), ModelCandidate::new("oak-mini").rated(0.9, 0.9, 0.4)];
/// let wishes = ModelPreferences::new().with_hints(vec![ModelHint::new().with_name("oak")]).with_speed_priority(0.8);
/// assert_eq!(choose_model(Some(&wishes), &ours).unwrap().name, "oak-mini");
/// ```
#[must_use]
pub fn choose_model<'m>(
    wishes: Option<&ModelPreferences>,
    candidates: &'m [ModelCandidate],
) -> Option<&'m ModelCandidate> {
    let Some(wishes) = wishes else { return candidates.first() };
    // An empty hint would be a part of every name.
    for hint in wishes.hints.iter().filter_map(|hint| hint.name.as_deref()).filter(|name| !name.is_empty()) {
        let hint = hint.to_lowercase();
        let named = candidates.iter().filter(|candidate| candidate.name.to_lowercase().contains(&hint));
        if let Some(best) = best(wishes, named) {
            return Some(best);
        }
    }
    best(wishes, candidates.iter())
}

fn best<'m>(
    wishes: &ModelPreferences,
    candidates: impl Iterator<Item = &'m ModelCandidate>,
) -> Option<&'m ModelCandidate> {
    candidates.fold(None, |best: Option<&ModelCandidate>, candidate| match best {
        Some(best) if best.score(wishes) >= candidate.score(wishes) => Some(best),
        _ => Some(candidate),
    })
}

#[cfg(test)]
mod tests {
    use hospes_model::ModelHint;

    use super::*;

    fn chosen(hints: &[&str], priorities: [Option<f64>; 3]) -> String {
        let ours = [
            ModelCandidate::new("elm-2-large").rated(0.2, 0.2, 0.9),
            ModelCandidate::new("oak-1-large").rated(0.1, 0.3, 0.8),
            ModelCandidate::new("oak-1-mini").rated(0.9, 0.9, 0.3),
        ];
        let hints: Vec<_> = hints.iter().map(|name| ModelHint::new().with_name(*name)).collect();
        let mut wishes = ModelPreferences::new().with_hints(hints);
        [wishes.cost_priority, wishes.speed_priority, wishes.intelligence_priority] = priorities;
        choose_model(Some(&wishes), &ours).unwrap().name.clone()
    }

    /// covers: SAMP-17 SAMP-18 SAMP-19 SAMP-25
    #[test]
    fn the_first_hint_with_a_match_counts_and_priorities_settle_the_rest() {
        const NONE: [Option<f64>; 3] = [None; 3];
        assert_eq!(
            chosen(&["ash", "oak", "elm"], NONE),
            "oak-1-large",
            "the first that matches, in their order"
        );
        assert_eq!(
            chosen(&["elm", "oak"], [Some(1.0), Some(1.0), None]),
            "elm-2-large",
            "hints go before priorities"
        );
        assert_eq!(chosen(&["mini"], [None, None, Some(1.0)]), "oak-1-mini", "a part of the name");
        assert_eq!(
            chosen(&["OAK"], [Some(0.2), Some(0.9), Some(0.1)]),
            "oak-1-mini",
            "priorities settle a tie"
        );
        assert_eq!(chosen(&["oak"], [None, None, Some(1.0)]), "oak-1-large");
        assert_eq!(chosen(&["ash"], [None, Some(1.0), None]), "oak-1-mini", "no hint has a match");
        assert_eq!(chosen(&[""], [None, None, Some(f64::NAN)]), "elm-2-large", "nothing is wished for");
        assert_eq!(choose_model(None, &[]), None);
    }
}
