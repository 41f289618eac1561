//! Shares of the clients in what the console has a limited number of: event streams, and connections to the socket.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// Part of the places of a kind that one client may have.
const CLIENT_SHARE: usize = 4;

/// A client whose use is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConsoleClient {
    /// Session of a browser.
    Browser(String),
    /// Process at a terminal. `None` if the system does not report processes.
    Terminal(Option<u32>),
    /// Any other process.
    Program(Option<u32>),
}

/// Kind of a client. Each kind has places of its own, because a program can start any number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    Browser,
    Terminal,
    Program,
}

impl ConsoleClient {
    pub(crate) fn kind(&self) -> ClientKind {
        match self {
            Self::Browser(_) => ClientKind::Browser,
            Self::Terminal(_) => ClientKind::Terminal,
            Self::Program(_) => ClientKind::Program,
        }
    }
}

impl fmt::Display for ClientKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Browser => "browsers",
            Self::Terminal => "programs at terminals",
            Self::Program => "programs without a terminal",
        })
    }
}

/// Places for the clients of each kind.
#[derive(Debug)]
pub(crate) struct ClientQuota {
    max_of_kind: usize,
    used: Arc<Mutex<HashMap<ConsoleClient, usize>>>,
}

impl ClientQuota {
    /// Creates the places: so many for each kind of client, and a quarter of them for one client.
    pub(crate) fn new(max_of_kind: usize) -> Self {
        Self { max_of_kind, used: Arc::default() }
    }

    /// Takes a place for a client until the permit is dropped.
    pub(crate) fn take(&self, client: ConsoleClient) -> Result<QuotaPermit, QuotaExceeded> {
        let max_of_kind = self.max_of_kind;
        let max_of_client = (max_of_kind / CLIENT_SHARE).max(1);
        let kind = client.kind();
        let mut used = self.used.lock();
        let of_client = used.get(&client).copied().unwrap_or_default();
        if of_client >= max_of_client {
            return Err(QuotaExceeded::OfClient { max_of_client, max_of_kind });
        }
        let same_kind = used.iter().filter(|(known, _)| known.kind() == kind);
        if same_kind.map(|(_, count)| count).sum::<usize>() >= max_of_kind {
            return Err(QuotaExceeded::OfKind { kind, max_of_kind });
        }
        used.insert(client.clone(), of_client + 1);
        Ok(QuotaPermit { client, used: Arc::clone(&self.used) })
    }
}

/// A client has no place left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaExceeded {
    OfClient { max_of_client: usize, max_of_kind: usize },
    OfKind { kind: ClientKind, max_of_kind: usize },
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfClient { max_of_client, max_of_kind } => write!(
                f,
                "at most {max_of_client} of one client, a quarter of the setting `console.max_streams` ({max_of_kind}); \
                 close one of them"
            ),
            Self::OfKind { kind, max_of_kind } => write!(
                f,
                "at most {max_of_kind} of all {kind}, the setting `console.max_streams`; close one of them, or raise it"
            ),
        }
    }
}

/// A place of a client, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct QuotaPermit {
    client: ConsoleClient,
    used: Arc<Mutex<HashMap<ConsoleClient, usize>>>,
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut used = self.used.lock();
        if let Some(count) = used.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                used.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_and_no_kind_takes_the_places_of_another() {
        let quota = ClientQuota::new(8);
        let program = |process: u32| quota.take(ConsoleClient::Program(Some(process)));
        let mut held = vec![program(1).unwrap(), program(1).unwrap()];
        assert_eq!(program(1).unwrap_err(), QuotaExceeded::OfClient { max_of_client: 2, max_of_kind: 8 });
        // A program that starts others gets no more than all programs have.
        for process in 2..=4 {
            held.extend([program(process).unwrap(), program(process).unwrap()]);
        }
        assert_eq!(
            program(5).unwrap_err(),
            QuotaExceeded::OfKind { kind: ClientKind::Program, max_of_kind: 8 }
        );
        let _terminal = quota.take(ConsoleClient::Terminal(Some(1))).unwrap();
        let _browser = quota.take(ConsoleClient::Browser("a".to_owned())).unwrap();
        held.pop();
        let _other = program(5).unwrap();
        held.clear();
        let used = quota.used.lock();
        assert_eq!(used.len(), 3, "what is not used is not remembered: {used:?}");
    }

    #[test]
    fn a_client_has_a_place_whatever_the_setting_is() {
        let quota = ClientQuota::new(1);
        let held = quota.take(ConsoleClient::Terminal(None)).unwrap();
        let refused = quota.take(ConsoleClient::Terminal(None)).unwrap_err().to_string();
        assert!(refused.contains("at most 1 ") && refused.contains("`console.max_streams`"), "{refused}");
        drop(held);
        assert!(quota.take(ConsoleClient::Terminal(None)).is_ok());
    }
}
