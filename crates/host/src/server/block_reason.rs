//! Reasons for which calls are blocked.

/// Reasons for which a server or an item is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlockReason {
    /// The server was never accepted.
    NewServer,
    /// Somebody has rejected it.
    RejectedServer,
    /// Its program is not the one that was accepted.
    Replaced,
    /// It cannot be read what was accepted.
    Unreadable(String),
    /// It was not there when the server was accepted.
    New,
    /// It is not as it was accepted.
    Changed,
    /// Somebody has rejected it.
    Rejected,
    /// The server does not offer it any more, or not here.
    NotOffered,
    /// The server's definitions have changed, and cannot be read.
    Unread,
}

impl BlockReason {
    /// Returns the reason as the end of a sentence that says which action failed. The model reads it and may tell the
    /// person.
    pub(crate) fn message(&self, server: &str) -> String {
        let (why, item) = match self {
            Self::NewServer => ("this server has not been accepted yet", ""),
            Self::RejectedServer => ("this server was rejected", ""),
            Self::Replaced => ("the program of this server is not the one that was accepted", ""),
            Self::Unreadable(why) => {
                return format!("the pins of this server cannot be read: {why}");
            }
            Self::New => ("it is new since this server was accepted", " with its new items"),
            Self::Changed => {
                ("the server has changed its definition since it was accepted", " with its changes")
            }
            Self::Rejected => ("it was rejected", ""),
            Self::NotOffered => return "the server does not offer it now".to_owned(),
            Self::Unread => {
                return "the server's lists have changed and have not been read again yet; try again"
                    .to_owned();
            }
        };
        format!(
            "{why}. A person has to review {server} in the host's console and can accept it{item}; until \
             then calls are refused"
        )
    }

    /// Returns the reason for the audit log.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::NewServer => "the server is not accepted",
            Self::RejectedServer => "the server is rejected",
            Self::Replaced => "the server's program was replaced",
            Self::Unreadable(_) => "the pins cannot be read",
            Self::New => "the definition is new",
            Self::Changed => "the definition has changed",
            Self::Rejected => "the definition is rejected",
            Self::NotOffered => "the item is not offered",
            Self::Unread => "the definition is being read",
        }
    }
}
