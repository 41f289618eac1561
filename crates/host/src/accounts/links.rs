//! Links by which users connect their accounts: each for one user and one server, good once and for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hospes_auth::server::Link;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Account;

/// How long a link is good. From then on the other server's answer is still waited for as long again.
pub const DEFAULT_LINK_LIFETIME: Duration = Duration::from_secs(300);
/// How many links there are at once. At the cap the oldest goes.
const MAX_LINKS: usize = 16 * 1024;
/// How many of one account.
const MAX_LINKS_OF_ACCOUNT: usize = 8;

/// How far a link has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nobody has gone on from it yet.
    Open,
    /// The user signs in elsewhere.
    Taken,
    /// The account is connected.
    Connected,
    /// The user, or the other server, said no.
    Refused,
    /// Something failed.
    Failed,
}

struct Entry {
    link: Link,
    account: Arc<Account>,
    /// What for: the scopes that the server wanted.
    wanted: Option<String>,
    until: Instant,
    stage: watch::Sender<Stage>,
}

impl Entry {
    fn is_good(&self) -> bool {
        Instant::now() < self.until
    }

    fn is_open(&self) -> bool {
        self.is_good() && *self.stage.borrow() == Stage::Open
    }
}

/// All links.
#[derive(Default)]
pub(crate) struct Links(HashMap<String, Entry>);

impl Links {
    /// Makes a link.
    pub(super) fn make(
        &mut self,
        id: String,
        link: Link,
        account: Arc<Account>,
        wanted: Option<String>,
        lifetime: Duration,
    ) {
        let now = Instant::now();
        self.0.retain(|_, entry| now < entry.until);
        let of_account = |entry: &Entry| Arc::ptr_eq(&entry.account, &account);
        while self.0.values().filter(|entry| of_account(entry)).count() >= MAX_LINKS_OF_ACCOUNT {
            self.drop_oldest(of_account);
        }
        if self.0.len() >= MAX_LINKS {
            self.drop_oldest(|_| true);
        }
        let stage = watch::Sender::new(Stage::Open);
        self.0.insert(id, Entry { link, account, wanted, until: now + lifetime, stage });
    }

    fn drop_oldest(&mut self, which: impl Fn(&Entry) -> bool) {
        let oldest = self.0.iter().filter(|(_, entry)| which(entry)).min_by_key(|(_, entry)| entry.until);
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            self.0.remove(&id);
        }
    }

    /// The link of this id, while nobody has used it and it is not too old.
    pub(super) fn open(&self, id: &str) -> Option<Link> {
        self.0.get(id).filter(|entry| entry.is_open()).map(|entry| entry.link.clone())
    }

    /// A link of this account that somebody could still use, for the same.
    pub(super) fn of(&self, account: &Account, wanted: Option<&str>) -> Option<&str> {
        let mut all = self.0.iter();
        let fits = |entry: &Entry| {
            std::ptr::eq(&raw const *entry.account, account) && entry.wanted.as_deref() == wanted
        };
        all.find(|(_, entry)| fits(entry) && entry.is_open()).map(|(id, _)| id.as_str())
    }

    /// Uses a link up.
    pub(super) fn take(&mut self, id: &str) -> bool {
        let Some(entry) = self.0.get(id).filter(|entry| entry.is_open()) else { return false };
        entry.stage.send_replace(Stage::Taken);
        true
    }

    /// The account of a link that was taken and not settled.
    pub(super) fn account(&self, id: &str) -> Option<Arc<Account>> {
        let entry = self.0.get(id)?;
        (entry.is_good() && *entry.stage.borrow() == Stage::Taken).then(|| Arc::clone(&entry.account))
    }

    /// What came of a link. Once the account is connected, so it is for all of its links.
    pub(super) fn settle(&mut self, id: &str, stage: Stage) {
        let Some(entry) = self.0.get(id) else { return };
        let account = Arc::clone(&entry.account);
        let same = |other: &Entry| Arc::ptr_eq(&other.account, &account);
        for (other, entry) in &self.0 {
            let is_open = matches!(*entry.stage.borrow(), Stage::Open | Stage::Taken);
            if other == id || (stage == Stage::Connected && same(entry) && is_open) {
                entry.stage.send_replace(stage);
            }
        }
    }

    /// Whose link it is, of which server, how far it has come, and until when it is good.
    pub(crate) fn look(&self, id: &str) -> Option<(&Link, watch::Receiver<Stage>, Instant)> {
        let entry = self.0.get(id).filter(|entry| entry.is_good())?;
        Some((&entry.link, entry.stage.subscribe(), entry.until))
    }
}

#[cfg(test)]
mod tests {
    use hospes_auth::client::OAuthClient;

    use super::*;

    fn account() -> Arc<Account> {
        let oauth = OAuthClient::builder("https://site.example/mcp").unwrap().build();
        Account::new(oauth, "site".into(), "site.example".into(), None)
    }

    fn link() -> Link {
        let page = url::Url::parse("https://as.example/authorize?state=x").unwrap();
        Link::new("https://here.example user ann".into(), "site".into(), "site.example", page)
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_good_for_a_while_and_once() {
        let (mut links, account) = (Links::default(), account());
        let lifetime = Duration::from_secs(300);
        for id in ["old", "new"] {
            links.make(id.into(), link(), Arc::clone(&account), Some("read".into()), lifetime);
            tokio::time::advance(Duration::from_secs(200)).await;
        }
        assert!(links.open("old").is_none() && !links.take("old") && links.look("old").is_none());
        assert_eq!(links.of(&account, Some("read")), Some("new"));
        assert_eq!((links.of(&account, None), links.of(&self::account(), Some("read"))), (None, None));
        assert!(links.account("new").is_none(), "nobody has gone on from it");
        assert!(links.take("new") && !links.take("new") && links.open("new").is_none());
        assert!(links.account("new").is_some() && links.of(&account, Some("read")).is_none());
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(links.account("new").is_none());
    }

    #[tokio::test]
    async fn links_are_settled_with_their_account_and_only_so_many_are_kept() {
        let (mut links, mine, other) = (Links::default(), account(), account());
        links.make("other".into(), link(), other, None, DEFAULT_LINK_LIFETIME);
        for number in 0..20 {
            links.make(number.to_string(), link(), Arc::clone(&mine), None, DEFAULT_LINK_LIFETIME);
        }
        assert_eq!(links.0.len(), 1 + MAX_LINKS_OF_ACCOUNT);
        assert!(links.open("0").is_none() && links.open("19").is_some());
        links.settle("18", Stage::Refused);
        links.settle("19", Stage::Connected);
        let stage = |id: &str| *links.look(id).unwrap().1.borrow();
        assert_eq!(
            [stage("other"), stage("17"), stage("18"), stage("19")],
            [Stage::Open, Stage::Connected, Stage::Refused, Stage::Connected]
        );
    }
}
