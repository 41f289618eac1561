use hospes_model::ToolAnnotations;

/// Effects that a tool may have, as far as its declaration is trusted.
///
/// What a server does not say is taken for the worst, as the specification has it: not read-only, destructive, not
/// idempotent, open to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolEffectSet {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It reaches things outside a closed set.
    pub open_world: bool,
}

impl ToolEffectSet {
    /// Effects of a tool whose declaration is not trusted.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }

    /// Effects that a server declares for its tool. The policy determines if the server is trusted
    /// ([`Policy::decide`](crate::Policy::decide)).
    #[must_use]
    pub fn from_annotations(annotations: Option<&ToolAnnotations>) -> Self {
        let worst = Self::unknown();
        let Some(said) = annotations else { return worst };
        let read_only = said.read_only_hint.unwrap_or(worst.read_only);
        Self {
            read_only,
            // What changes nothing destroys nothing; the other hints mean something only for what changes things.
            destructive: !read_only && said.destructive_hint.unwrap_or(worst.destructive),
            idempotent: read_only || said.idempotent_hint.unwrap_or(worst.idempotent),
            open_world: said.open_world_hint.unwrap_or(worst.open_world),
        }
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
