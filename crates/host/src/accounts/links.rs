//! Links with which users connect their accounts. Each link is for one user and one server, and is valid once and for a
//! limited time.

use std::collections::HashMap;
use std::sync::Arc;

use hospes_auth::AccountLink;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{AccountLimits, MAX_LINK_LIFETIME, UpstreamAccount};

/// Progress of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountLinkStage {
    /// The link has not been opened yet.
    Open,
    /// The user signs in elsewhere.
    Taken,
    /// The account is connected.
    Connected,
    /// The user or the upstream server refused.
    Refused,
    /// The sign-in failed.
    Failed,
}

struct AccountLinkEntry {
    link: AccountLink,
    account: Arc<UpstreamAccount>,
    /// Scopes that the server required, if any.
    wanted: Option<String>,
    until: Instant,
    stage: watch::Sender<AccountLinkStage>,
}

impl AccountLinkEntry {
    fn is_at(&self, stage: AccountLinkStage) -> bool {
        Instant::now() < self.until && *self.stage.borrow() == stage
    }

    fn is_of(&self, account: &UpstreamAccount) -> bool {
        // The account itself: another user has another one at the same server.
        std::ptr::eq(&raw const *self.account, account)
    }
}

/// All links.
#[derive(Default)]
pub(crate) struct AccountLinks(HashMap<String, AccountLinkEntry>);

impl AccountLinks {
    /// Creates a link. At a limit the oldest link is removed, of this account or of all accounts.
    pub(super) fn create(
        &mut self,
        id: String,
        link: AccountLink,
        account: Arc<UpstreamAccount>,
        wanted: Option<String>,
        limits: &AccountLimits,
    ) {
        let now = Instant::now();
        self.0.retain(|_, entry| now < entry.until);
        while self.0.values().filter(|entry| entry.is_of(&account)).count()
            >= limits.max_links_per_account.max(1)
        {
            self.drop_oldest("max_links_per_account", |entry| entry.is_of(&account));
        }
        // A limit of zero would leave no room for the link that is being made.
        while self.0.len() >= limits.max_links.max(1) {
            self.drop_oldest("max_links", |_| true);
        }
        let stage = watch::Sender::new(AccountLinkStage::Open);
        let until = now + limits.link_lifetime.min(MAX_LINK_LIFETIME);
        self.0.insert(id, AccountLinkEntry { link, account, wanted, until, stage });
    }

    fn drop_oldest(&mut self, limit: &str, which: impl Fn(&AccountLinkEntry) -> bool) {
        // All links live equally long, so the oldest is the one that ends first.
        let oldest = self.0.iter().filter(|(_, entry)| which(entry)).min_by_key(|(_, entry)| entry.until);
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            tracing::warn!(limit, "oldest account link dropped to make room for a new one");
            self.0.remove(&id);
        }
    }

    fn at(&self, id: &str, stage: AccountLinkStage) -> Option<&AccountLinkEntry> {
        self.0.get(id).filter(|entry| entry.is_at(stage))
    }

    /// Returns the link with this id if it is unused and has not expired.
    pub(super) fn find_open(&self, id: &str) -> Option<AccountLink> {
        self.at(id, AccountLinkStage::Open).map(|entry| entry.link.clone())
    }

    /// Returns an unused link of this account for the same scopes.
    pub(super) fn find_reusable(&self, account: &UpstreamAccount, wanted: Option<&str>) -> Option<&str> {
        let fits = |entry: &AccountLinkEntry| entry.is_of(account) && entry.wanted.as_deref() == wanted;
        let mut all = self.0.iter();
        all.find(|(_, entry)| fits(entry) && entry.is_at(AccountLinkStage::Open)).map(|(id, _)| id.as_str())
    }

    /// Marks a link as used. Returns true if it was valid.
    pub(super) fn consume(&mut self, id: &str) -> bool {
        let Some(entry) = self.at(id, AccountLinkStage::Open) else { return false };
        // Unlike `send`, this sets the stage while no call waits for it, too.
        entry.stage.send_replace(AccountLinkStage::Taken);
        true
    }

    /// Returns the account of a link that was used and has no result yet.
    pub(super) fn account(&self, id: &str) -> Option<Arc<UpstreamAccount>> {
        self.at(id, AccountLinkStage::Taken).map(|entry| Arc::clone(&entry.account))
    }

    /// Invalidates all links of this account.
    pub(super) fn remove_links_of(&mut self, account: &UpstreamAccount) {
        self.0.retain(|_, entry| !entry.is_of(account));
    }

    /// Records the result of a link. Once the account is connected, all of its links are settled as connected.
    pub(super) fn settle(&mut self, id: &str, stage: AccountLinkStage) {
        let Some(entry) = self.0.get(id) else { return };
        let account = Arc::clone(&entry.account);
        let same = |other: &AccountLinkEntry| other.is_of(&account);
        for (other, entry) in &self.0 {
            let is_open = matches!(*entry.stage.borrow(), AccountLinkStage::Open | AccountLinkStage::Taken);
            if other == id || (stage == AccountLinkStage::Connected && same(entry) && is_open) {
                entry.stage.send_replace(stage);
            }
        }
    }

    /// Returns the owner, the server, the progress and the expiry of a link.
    pub(crate) fn look_up(
        &self,
        id: &str,
    ) -> Option<(&AccountLink, watch::Receiver<AccountLinkStage>, Instant)> {
        let entry = self.0.get(id).filter(|entry| Instant::now() < entry.until)?;
        Some((&entry.link, entry.stage.subscribe(), entry.until))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hospes_oauth::OAuthClient;

    use super::*;

    fn account() -> Arc<UpstreamAccount> {
        let oauth = OAuthClient::builder("https://site.example/mcp").unwrap().build();
        UpstreamAccount::shared(oauth, "site".into(), None, "site.example".into())
    }

    fn link() -> AccountLink {
        let page = url::Url::parse("https://as.example/authorize?state=x").unwrap();
        AccountLink::new("https://here.example user ann".into(), "site".into(), "site.example", page)
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_good_for_a_while_and_once() {
        let (mut links, account) = (AccountLinks::default(), account());
        let limits = AccountLimits::default();
        for id in ["old", "new"] {
            links.create(id.into(), link(), Arc::clone(&account), Some("read".into()), &limits);
            tokio::time::advance(Duration::from_secs(200)).await;
        }
        assert!(links.find_open("old").is_none() && !links.consume("old") && links.look_up("old").is_none());
        assert_eq!(links.find_reusable(&account, Some("read")), Some("new"));
        assert_eq!(
            (links.find_reusable(&account, None), links.find_reusable(&self::account(), Some("read"))),
            (None, None)
        );
        assert!(links.account("new").is_none(), "nobody has gone on from it");
        assert!(links.consume("new") && !links.consume("new") && links.find_open("new").is_none());
        assert!(links.account("new").is_some() && links.find_reusable(&account, Some("read")).is_none());
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(links.account("new").is_none());
    }

    #[tokio::test]
    async fn links_are_settled_with_their_account_and_only_so_many_are_kept() {
        let (mut links, mine, other) = (AccountLinks::default(), account(), account());
        let limits = AccountLimits { max_links_per_account: 3, max_links: 5, ..AccountLimits::default() };
        links.create("other".into(), link(), other, None, &limits);
        for number in 0..20 {
            links.create(number.to_string(), link(), Arc::clone(&mine), None, &limits);
        }
        assert_eq!(links.0.len(), 1 + 3);
        assert!(links.find_open("0").is_none() && links.find_open("19").is_some());
        links.settle("18", AccountLinkStage::Refused);
        links.settle("19", AccountLinkStage::Connected);
        let stage = |id: &str| *links.look_up(id).unwrap().1.borrow();
        assert_eq!(
            [stage("other"), stage("17"), stage("18"), stage("19")],
            [
                AccountLinkStage::Open,
                AccountLinkStage::Connected,
                AccountLinkStage::Refused,
                AccountLinkStage::Connected
            ]
        );
        for number in 0..3 {
            links.create(format!("more {number}"), link(), account(), None, &limits);
        }
        assert_eq!(links.0.len(), 5);
        assert!(links.look_up("other").is_none() && links.look_up("more 0").is_some(), "the oldest goes");
        links.remove_links_of(&mine);
        assert!(links.look_up("19").is_none() && links.look_up("more 0").is_some());
    }
}
