//! The setting `placement`.

/// Nodes of a fleet that run a server: the setting `placement`. It has no meaning without a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerPlacement {
    /// Each node runs the server, and calls it for the requests that reach this node.
    Any,
    /// Each node runs the server, and one node calls it for each pair of principal and application.
    PerUser,
    /// One node runs the server, and calls it for all nodes.
    One,
}

impl ServerPlacement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Any, Self::PerUser, Self::One];

    /// Returns its name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::PerUser => "per-user",
            Self::One => "one",
        }
    }

    /// Parses the name in the configuration.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.as_str() == text)
    }
}
