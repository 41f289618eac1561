//! Comparison of the places that readers reached with the program's decisions.

use std::collections::{BTreeMap, BTreeSet};

use super::fixture::DestinationFixture;
use super::spellings::{DestinationKind, DestinationRule, DestinationSpelling};
use crate::report::{PartOutcome, say};

/// Readers that open the path of a URL whatever its scheme and host are. A permission for a host says nothing about them, which
/// `docs/threats.md` says; a denial has to know what they do.
const PATH_READERS: [&str; 2] = ["open of a URL", "readFile of a URL's path"];

/// Maximum number of faults printed.
const MAX_PRINTED_FAULTS: usize = 40;

/// Decision of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramDecision {
    Allow,
    Ask,
    Deny,
}

impl ProgramDecision {
    pub(super) fn read(text: &str) -> Option<Self> {
        match text {
            "allow" => Some(Self::Allow),
            "ask" => Some(Self::Ask),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// Places reached, by spelling and reader.
#[derive(Clone, Debug, Default)]
pub(super) struct ReachedPlaces(BTreeMap<usize, BTreeMap<String, BTreeSet<String>>>);

impl ReachedPlaces {
    pub(super) fn reached(&mut self, spelling: usize, reader: &str, place: &str) {
        self.0.entry(spelling).or_default().entry(place.to_owned()).or_default().insert(reader.to_owned());
    }

    pub(super) fn add(&mut self, other: Self) {
        for (spelling, places) in other.0 {
            for (place, readers) in places {
                readers.iter().for_each(|reader| self.reached(spelling, reader, &place));
            }
        }
    }

    /// By how many spellings a reader reached something.
    pub(super) fn count(&self, reader: &str) -> usize {
        let is_its = |readers: &BTreeSet<String>| {
            readers.iter().any(|one| {
                one == reader || one.strip_prefix(reader).is_some_and(|rest| rest.starts_with(", from"))
            })
        };
        self.0.values().filter(|places| places.values().any(is_its)).count()
    }

    fn readers(&self) -> usize {
        self.0.values().flat_map(BTreeMap::values).flatten().collect::<BTreeSet<_>>().len()
    }

    /// Returns a description of a reader's access to a place that the rule must prevent.
    fn fault(&self, spelling: usize, rule: &DestinationRule) -> Option<String> {
        let counts =
            |reader: &String| rule.is_denial || !PATH_READERS.iter().any(|one| reader.starts_with(one));
        let places = self.0.get(&spelling)?.iter().filter(|(place, _)| rule.forbids(place));
        let mut hits =
            places.filter_map(|(place, readers)| Some((place, readers.iter().find(|one| counts(one))?)));
        hits.next().map(|(place, reader)| format!("{reader} reached {place}"))
    }
}

/// Result of the comparison.
#[derive(Clone, Debug, Default)]
pub(super) struct DestinationTally {
    spellings: usize,
    judged: usize,
    pub(super) faults: Vec<String>,
    /// Faults of spellings that are known not to be covered.
    known: usize,
    /// Denials that did not let pass what is ordinary, and how many there were to be judged; denied and not only asked about.
    honest: (usize, usize, usize),
    /// Number of refused spellings by which no reader reached the denied place, in the order of `honest`.
    needless: (usize, usize, usize),
}

/// Compares what readers reached with what was decided.
pub(super) fn compare(
    spellings: &[DestinationSpelling],
    rules: &[DestinationRule],
    seen: &ReachedPlaces,
    decisions: &[Vec<Option<ProgramDecision>>],
) -> DestinationTally {
    let mut tally = DestinationTally {
        spellings: spellings.iter().filter(|one| !one.is_honest).count(),
        ..DestinationTally::default()
    };
    for (at, (spelling, decisions)) in spellings.iter().zip(decisions).enumerate() {
        for (rule, decision) in rules.iter().zip(decisions) {
            let Some(decision) = *decision else { continue };
            tally.judged += 1;
            match seen.fault(at, rule) {
                Some(_) if decision == ProgramDecision::Allow && spelling.is_known => tally.known += 1,
                Some(fault) if decision == ProgramDecision::Allow => {
                    let verb = if rule.is_denial { "denying" } else { "allowing" };
                    tally.faults.push(format!(
                        "{}: {:?} passed a rule {verb} `{}`, and {fault}",
                        spelling.trick, spelling.text, rule.condition
                    ));
                }
                None if rule.is_denial => {
                    let (alarms, denied, all) =
                        if spelling.is_honest { &mut tally.honest } else { &mut tally.needless };
                    *all += 1;
                    *alarms += usize::from(decision != ProgramDecision::Allow);
                    *denied += usize::from(decision == ProgramDecision::Deny);
                }
                _ => (),
            }
        }
    }
    tally
}

impl DestinationTally {
    /// Formats a summary over several lines.
    pub(super) fn shown(&self, seen: &ReachedPlaces) -> String {
        let share = |(alarms, denied, all): (usize, usize, usize)| {
            let percent = alarms * 1000 / all.max(1);
            format!("{alarms} of {all} ({}.{} %), {denied} of them denied", percent / 10, percent % 10)
        };
        format!(
            "{} spellings, {} readers that reached something, {} decisions\n\
             not let pass though no reader led there: {} where the text is ordinary; {} where it plays a trick\n\
             passed as docs/threats.md says: {}",
            self.spellings,
            seen.readers(),
            self.judged,
            share(self.honest),
            share(self.needless),
            self.known
        )
    }

    pub(super) fn outcome(&self) -> PartOutcome {
        for fault in self.faults.iter().take(MAX_PRINTED_FAULTS) {
            say!("  {fault}");
        }
        match self.faults.as_slice() {
            [] => PartOutcome::Passed(format!("{} spellings, {} decisions", self.spellings, self.judged)),
            [first, ..] => {
                PartOutcome::Failed(format!("{} of {} decisions: {first}", self.faults.len(), self.judged))
            }
        }
    }
}

/// Returns the decisions of a naive judge that takes texts literally: the host follows `://`, and a path begins with
/// its folder.
pub(super) fn naive_decisions(
    spellings: &[DestinationSpelling],
    rules: &[DestinationRule],
    world: &DestinationFixture,
) -> Vec<Vec<Option<ProgramDecision>>> {
    let judged = |spelling: &DestinationSpelling, rule: &DestinationRule| {
        let text = &spelling.text;
        let rest = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
        let path =
            text.strip_prefix("file://").unwrap_or(text).replacen('~', &world.home.to_string_lossy(), 1);
        let named = rule.places.iter().any(|place| match place.strip_prefix("file:") {
            Some(file) => path.starts_with(&*world.home.join(file).to_string_lossy()),
            None => {
                let wanted = place.trim_end_matches(":P").trim_end_matches(":Q").trim_start_matches('*');
                name == wanted || place.starts_with('*') && name.ends_with(wanted)
            }
        });
        if named == rule.is_denial { ProgramDecision::Deny } else { ProgramDecision::Allow }
    };
    let all = spellings.iter().map(|spelling| {
        let rules = rules.iter().map(|rule| {
            let is_asked = spelling.kind.is_for(rule.kind) || rule.kind == DestinationKind::Both;
            is_asked.then(|| judged(spelling, rule))
        });
        rules.collect()
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelling(text: &str) -> DestinationSpelling {
        DestinationSpelling {
            text: text.to_owned(),
            trick: "t".to_owned(),
            kind: DestinationKind::Hosts,
            is_honest: false,
            is_known: false,
        }
    }

    fn rule(is_denial: bool) -> DestinationRule {
        let places = vec!["evil.example".to_owned()];
        DestinationRule {
            server: "r0".to_owned(),
            is_denial,
            condition: "c".to_owned(),
            places,
            kind: DestinationKind::Hosts,
        }
    }

    fn faults(is_denial: bool, reached: &str, decision: ProgramDecision) -> usize {
        let mut seen = ReachedPlaces::default();
        seen.reached(0, "curl", reached);
        compare(&[spelling("x")], &[rule(is_denial)], &seen, &[vec![Some(decision)]]).faults.len()
    }

    #[test]
    fn a_denial_that_is_passed_and_a_permission_that_leads_elsewhere_are_faults() {
        assert_eq!(faults(true, "evil.example", ProgramDecision::Allow), 1);
        assert_eq!(faults(true, "good.example", ProgramDecision::Allow), 0);
        assert_eq!(faults(false, "good.example", ProgramDecision::Allow), 1);
        assert_eq!(faults(false, "evil.example", ProgramDecision::Allow), 0);
        for decision in [ProgramDecision::Ask, ProgramDecision::Deny] {
            assert_eq!(faults(true, "evil.example", decision) + faults(false, "good.example", decision), 0);
        }
    }

    #[test]
    fn needless_alarms_are_counted() {
        let decisions = [vec![Some(ProgramDecision::Ask)]];
        let tally = compare(&[spelling("x")], &[rule(true)], &ReachedPlaces::default(), &decisions);
        assert_eq!((tally.needless, tally.honest), ((1, 0, 1), (0, 0, 0)));
    }
}
