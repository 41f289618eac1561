//! State that a call carries between rounds, so that the next round reaches the server and connection that asked.

/// Request state of an upstream server, with the name of the server.
///
/// Between rounds the state travels in [`Round::carried`](hospes::Round). The transport seals it together with a digest
/// of the call, so it cannot be redirected. The gateway also checks that it names the server the call goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoundState<'a> {
    /// Label of the server that sent the input request; the server of a profile has another one than that of everybody.
    pub(super) server: &'a str,
    /// Connection of the pending call, for a legacy server: its call cannot continue on another connection.
    pub(super) connection: Option<u64>,
    /// State that the server's client has left for the next round.
    pub(super) inner: Option<&'a str>,
}

impl<'a> RoundState<'a> {
    /// Encodes the state as text.
    pub(super) fn write(&self) -> String {
        let connection = self.connection.map_or_else(|| "-".to_owned(), |id| id.to_string());
        // Its length goes first because a server may be called anything.
        let (server, length) = (self.server, self.server.len());
        match self.inner {
            Some(inner) => format!("{length} {server} {connection} +{inner}"),
            None => format!("{length} {server} {connection} -"),
        }
    }

    /// Parses the state. Returns `None` if the host has not written it.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let (length, rest) = text.split_once(' ')?;
        let length: usize = length.parse().ok()?;
        // `get` and no index: the length may point beyond the text or into a character.
        let server = rest.get(..length)?;
        let (connection, inner) = rest.get(length..)?.strip_prefix(' ')?.split_once(' ')?;
        let connection = if connection == "-" { None } else { Some(connection.parse().ok()?) };
        let inner = match inner.strip_prefix('+') {
            Some(inner) => Some(inner),
            None if inner == "-" => None,
            None => return None,
        };
        Some(Self { server, connection, inner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_carried_comes_back() {
        for server in ["files", "my server", "", "3 x -", "ü"] {
            for connection in [None, Some(0), Some(u64::MAX)] {
                for inner in [None, Some(""), Some("-"), Some("a b\nc")] {
                    let carried = RoundState { server, connection, inner };
                    assert_eq!(RoundState::read(&carried.write()), Some(carried.clone()));
                }
            }
        }
    }

    #[test]
    fn what_is_not_ours_is_nothing() {
        for text in ["", "handle-7", "5 files", "5 files x +y", "9999 files - -", "5 files - y", "-1 a - -"] {
            assert_eq!(RoundState::read(text), None, "{text}");
        }
    }
}
