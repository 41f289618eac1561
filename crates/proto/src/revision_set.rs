//! Set of supported revisions.

use std::fmt;

use hospes_model::{Era, Revision, RpcError, code};
use serde::Serialize;

/// A set of revisions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RevisionSet(u8);

impl Default for RevisionSet {
    fn default() -> Self {
        Self::ALL
    }
}

impl RevisionSet {
    /// All revisions.
    pub const ALL: Self = Self((1 << Revision::ALL.len()) - 1);

    /// Creates a set of one revision.
    #[must_use]
    pub const fn only(revision: Revision) -> Self {
        Self(1 << revision.index())
    }

    /// Creates the set of all revisions of an era.
    #[must_use]
    pub fn of_era(era: Era) -> Self {
        Revision::ALL.into_iter().filter(|r| r.era() == era).collect()
    }

    /// Returns the revisions that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns true if the revision is in the set.
    #[must_use]
    pub const fn contains(self, revision: Revision) -> bool {
        self.0 & (1 << revision.index()) != 0
    }

    /// Returns true if the set has a revision of this era.
    #[must_use]
    pub fn has_era(self, era: Era) -> bool {
        self.latest_of(era).is_some()
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the revisions, oldest first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Revision> {
        Revision::ALL.into_iter().filter(move |r| self.contains(*r))
    }

    /// Returns the newest revision of an era.
    #[must_use]
    pub fn latest_of(self, era: Era) -> Option<Revision> {
        self.iter().rfind(|r| r.era() == era)
    }

    /// Returns the revision with this name, if it is in the set.
    #[must_use]
    pub fn find_by_name(self, name: &str) -> Option<Revision> {
        name.parse().ok().filter(|r| self.contains(*r))
    }

    /// Returns the newest revision of an era that the other side supports too.
    #[must_use]
    pub fn latest_common<S: AsRef<str>>(self, era: Era, theirs: &[S]) -> Option<Revision> {
        self.iter().rfind(|r| r.era() == era && theirs.iter().any(|name| name.as_ref() == r.as_str()))
    }

    /// Selects the revision that a legacy server returns for `initialize`: the requested one if it is supported, else
    /// the latest (VER-03..05). `None` if it supports no legacy revision.
    #[must_use]
    pub fn negotiate(self, requested: &str) -> Option<Revision> {
        self.find_by_name(requested).filter(|r| r.is_legacy()).or_else(|| self.latest_of(Era::Legacy))
    }

    /// Creates the error `-32022` for an unsupported version, with the supported ones.
    #[must_use]
    pub fn unsupported_version_error(self, requested: &str) -> RpcError {
        #[derive(Serialize)]
        struct VersionErrorData<'a> {
            supported: Vec<Revision>,
            requested: &'a str,
        }
        let modern = self.intersection(Self::of_era(Era::Modern));
        let supported = if modern.is_empty() { self } else { modern };
        RpcError::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
            .with_data(&VersionErrorData { supported: supported.iter().collect(), requested })
    }
}

impl FromIterator<Revision> for RevisionSet {
    fn from_iter<I: IntoIterator<Item = Revision>>(revisions: I) -> Self {
        Self(revisions.into_iter().fold(0, |set, r| set | 1 << r.index()))
    }
}

impl fmt::Debug for RevisionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use hospes_model::Revision::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};

    use super::*;

    /// covers: VER-03 VER-04 VER-05
    #[test]
    fn initialize_gets_the_version_asked_for_or_the_latest_legacy_one() {
        let all = RevisionSet::ALL;
        assert_eq!(all.negotiate("2024-11-05"), Some(V2024_11_05));
        assert_eq!(all.negotiate("1999-01-01"), Some(V2025_11_25));
        assert_eq!(all.negotiate("2026-07-28"), Some(V2025_11_25));
        let some: RevisionSet = [V2024_11_05, V2025_06_18].into_iter().collect();
        assert_eq!(some.negotiate("2025-11-25"), Some(V2025_06_18));
        assert_eq!(RevisionSet::only(V2026_07_28).negotiate("2025-11-25"), None);
    }

    /// covers: VER-12
    #[test]
    fn the_refusal_of_a_version_names_those_spoken() {
        let error = RevisionSet::ALL.unsupported_version_error("v999.0.0");
        assert_eq!(error.code, -32022);
        assert_eq!(error.data.unwrap().as_str(), r#"{"supported":["2026-07-28"],"requested":"v999.0.0"}"#);
        let error = RevisionSet::only(V2024_11_05).unsupported_version_error("2026-07-28");
        assert_eq!(error.data.unwrap().as_str(), r#"{"supported":["2024-11-05"],"requested":"2026-07-28"}"#);
    }

    #[test]
    fn sets_do_what_sets_do() {
        let legacy = RevisionSet::of_era(Era::Legacy);
        assert!(legacy.has_era(Era::Legacy) && !legacy.has_era(Era::Modern));
        assert_eq!(legacy.intersection(RevisionSet::only(V2026_07_28)), RevisionSet(0));
        assert_eq!(legacy.latest_common(Era::Legacy, &["x", "2025-06-18", "2024-11-05"]), Some(V2025_06_18));
        assert_eq!(legacy.latest_common(Era::Modern, &["2026-07-28"]), None);
        assert_eq!(format!("{:?}", RevisionSet::only(V2024_11_05)), "{V2024_11_05}");
        assert_eq!([V2024_11_05; 2].into_iter().collect::<RevisionSet>(), RevisionSet::only(V2024_11_05));
    }
}
