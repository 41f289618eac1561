use hospes_model::ToolAnnotations;

/// Effects that a tool may have, as far as its declaration is trusted.
///
/// Undeclared effects have the worst value, which the specification makes the default: not read-only, destructive, not
/// idempotent, open-world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolEffectSet {
    /// True if the tool changes nothing.
    pub read_only: bool,
    /// True if the tool may make destructive changes.
    pub destructive: bool,
    /// True if repeated calls with the same arguments have no further effect.
    pub idempotent: bool,
    /// True if the tool interacts with external entities, such as the web.
    pub open_world: bool,
}

impl ToolEffectSet {
    /// Returns the effects of a tool whose declaration is not trusted.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }

    /// Returns the effects that a server declares for its tool. [`Policy::decide`](crate::Policy::decide) uses them
    /// only if the server is trusted.
    #[must_use]
    pub fn from_annotations(annotations: Option<&ToolAnnotations>) -> Self {
        let worst = Self::unknown();
        let Some(said) = annotations else { return worst };
        let read_only = said.read_only_hint.unwrap_or(worst.read_only);
        Self {
            read_only,
            // A read-only tool destroys nothing; the other hints are meaningful only for tools that change something.
            destructive: !read_only && said.destructive_hint.unwrap_or(worst.destructive),
            idempotent: read_only || said.idempotent_hint.unwrap_or(worst.idempotent),
            open_world: said.open_world_hint.unwrap_or(worst.open_world),
        }
    }
}

/// Effects that a rule requires of a tool; `None` for those that it does not restrict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequiredEffects {
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) open_world: Option<bool>,
}

impl RequiredEffects {
    /// Returns the first effect that differs from the required value, and that value.
    pub(crate) fn first_mismatch(self, effects: ToolEffectSet) -> Option<(&'static str, bool)> {
        [
            ("read_only", self.read_only, effects.read_only),
            ("destructive", self.destructive, effects.destructive),
            ("idempotent", self.idempotent, effects.idempotent),
            ("open_world", self.open_world, effects.open_world),
        ]
        .into_iter()
        .find_map(|(name, said, is)| said.filter(|said| *said != is).map(|said| (name, said)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: impl FnOnce(&mut ToolAnnotations)) -> ToolEffectSet {
        let mut annotations = ToolAnnotations::new();
        set(&mut annotations);
        ToolEffectSet::from_annotations(Some(&annotations))
    }

    #[test]
    fn what_is_not_said_is_taken_for_the_worst() {
        assert_eq!(ToolEffectSet::from_annotations(None), ToolEffectSet::unknown());
        assert_eq!(of(|_| ()), ToolEffectSet::unknown());
        assert_eq!(
            of(|said| said.open_world_hint = Some(false)),
            ToolEffectSet { open_world: false, ..ToolEffectSet::unknown() }
        );
        assert!(!of(|said| said.destructive_hint = Some(false)).destructive);
    }

    #[test]
    fn what_changes_nothing_destroys_nothing() {
        let effects = of(|said| {
            said.read_only_hint = Some(true);
            said.destructive_hint = Some(true);
        });
        assert!(effects.read_only && !effects.destructive && effects.idempotent && effects.open_world);
    }
}
