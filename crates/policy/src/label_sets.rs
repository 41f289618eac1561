//! Built-in labels for the tools of well-known servers, bound to the package that a server runs.
//!
//! A set names tools one by one and says nothing about any other tool. It raises the labels of a server. It lowers them
//! only after a person has accepted the definition of the tool, because the name of a package proves neither who
//! published it nor what its next version does.

mod table;

use std::fmt;

use crate::effects::ToolEffectSet;
use crate::flow::{CallEffect, FlowLabels};

/// Built-in labels of a package.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PackageLabels {
    package: &'static str,
    set: &'static LabelSet,
}

/// Labels of the tools of one server, which is published as one or more packages.
#[derive(Debug, PartialEq, Eq)]
struct LabelSet {
    /// Packages as `npm:NAME`, `pypi:NAME` and `oci:IMAGE`, or `https://HOST` for a server of the provider.
    packages: &'static [&'static str],
    /// Labels, with the names of the tools that have them, separated by spaces.
    tools: &'static [(ToolLabels, &'static str)],
}

/// Labels that a set gives to a tool. A label that is `None` stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolLabels {
    pub(crate) private: Option<bool>,
    pub(crate) untrusted: Option<bool>,
    pub(crate) outbound: Option<bool>,
    pub(crate) effect: Option<CallEffect>,
}

/// Knowledge of the host about a server and one of its tools, independent of the policy file.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "whoever labels a call must not overlook one")]
pub struct KnownLabels {
    /// Labels of a server that is part of the program.
    pub program: Option<FlowLabels>,
    /// Built-in labels of the package that the server runs.
    pub package: Option<PackageLabels>,
    /// True if a person has accepted the definition of the tool, so that the built-in labels may lower its labels.
    pub may_lower: bool,
}

impl PackageLabels {
    /// Returns the built-in labels of a package, if there are any. The name must be exact: `npm:@scope/name`,
    /// `pypi:name`, `oci:registry/image` or `https://host`.
    #[must_use]
    pub fn find(package: &str) -> Option<Self> {
        table::SETS.iter().find_map(|set| {
            let package = set.packages.iter().find(|known| **known == package)?;
            Some(Self { package, set })
        })
    }

    /// Returns the name of the package.
    #[must_use]
    pub fn package(&self) -> &'static str {
        self.package
    }

    /// Returns the labels of a tool. `None` if the set does not name it.
    pub(crate) fn of_tool(&self, name: &str) -> Option<ToolLabels> {
        let found = self.set.named_tools().find(|(_, known)| *known == name);
        found.map(|(labels, _)| labels)
    }
}

impl LabelSet {
    /// Iterates over the tools with their labels.
    fn named_tools(&self) -> impl Iterator<Item = (ToolLabels, &'static str)> {
        self.tools.iter().flat_map(|(labels, names)| names.split(' ').map(|name| (*labels, name)))
    }
}

impl ToolLabels {
    /// Returns the labels that are applied to a tool with these labels: all of them, or those that raise one.
    /// A tool that says that it is destructive stays irreversible.
    pub(crate) fn applied_to(self, known: FlowLabels, effects: ToolEffectSet, may_lower: bool) -> Self {
        let least = if effects.says_destructive { CallEffect::Irreversible } else { CallEffect::None };
        if may_lower {
            return Self { effect: self.effect.map(|effect| effect.max(least)), ..self };
        }
        let raised = |label: Option<bool>| label.filter(|label| *label);
        Self {
            private: raised(self.private),
            untrusted: raised(self.untrusted),
            outbound: raised(self.outbound),
            effect: self.effect.filter(|effect| *effect > known.effect),
        }
    }

    /// Returns the labels of a tool after these are applied.
    pub(crate) fn over(self, known: FlowLabels) -> FlowLabels {
        FlowLabels {
            private: self.private.unwrap_or(known.private),
            untrusted: self.untrusted.unwrap_or(known.untrusted),
            outbound: self.outbound.unwrap_or(known.outbound),
            effect: self.effect.unwrap_or(known.effect),
        }
    }
}

impl fmt::Debug for PackageLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PackageLabels").field(&self.package).finish()
    }
}

#[cfg(test)]
mod tests;
