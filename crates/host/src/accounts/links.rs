//! Links with which users connect their accounts. Each link is for one user and one server, and is valid once and for a
//! limited time. Nodes that share the store of pending documents share the links.

use std::sync::Arc;
use std::time::Duration;

use hospes_auth::AccountLink;
use hospes_oauth::StepError;
use hospes_oauth::pending::{
    AddPendingResult, NewPendingDocument, PendingDocument, PendingKind, PendingLimits, PendingStore,
};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{AccountLimits, MAX_LINK_LIFETIME, UpstreamAccount};

/// Maximum time between two looks at a link that is waited for. Its store usually tells earlier that something changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

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

impl AccountLinkStage {
    /// Stages without a result.
    const PENDING: [Self; 2] = [Self::Open, Self::Taken];
    const ALL: [Self; 5] = [Self::Open, Self::Taken, Self::Connected, Self::Refused, Self::Failed];

    /// Returns the number under which a store keeps the stage.
    const fn number(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Taken => 1,
            Self::Connected => 2,
            Self::Refused => 3,
            Self::Failed => 4,
        }
    }

    /// Returns the stage with this number; that of a newer program counts as a failure.
    fn of(number: u8) -> Self {
        Self::ALL.into_iter().find(|stage| stage.number() == number).unwrap_or(Self::Failed)
    }

    pub(crate) fn is_pending(self) -> bool {
        Self::PENDING.contains(&self)
    }
}

/// Stored form of a link.
#[derive(Serialize, Deserialize)]
struct LinkRecord {
    principal: Arc<str>,
    server: Arc<str>,
    host: String,
    page: String,
    /// Scopes that the server required, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
}

/// Link that has not expired.
#[derive(Clone, Debug)]
pub(crate) struct KnownLink {
    pub(crate) link: AccountLink,
    pub(crate) stage: AccountLinkStage,
    pub(crate) until: Instant,
    id: String,
    wanted: Option<String>,
}

impl KnownLink {
    /// Reads a stored link. `None` if it is not one that this program has written.
    fn of(document: PendingDocument) -> Option<Self> {
        let record: LinkRecord = serde_json::from_str(document.body.expose_secret()).ok()?;
        let page = Url::parse(&record.page).ok()?;
        Some(Self {
            link: AccountLink::new(record.principal, record.server, record.host, page),
            stage: AccountLinkStage::of(document.stage),
            until: Instant::now() + document.left,
            id: document.id,
            wanted: record.wanted,
        })
    }
}

/// All links.
#[derive(Clone, Debug)]
pub(crate) struct AccountLinks(Arc<dyn PendingStore>);

impl AccountLinks {
    pub(super) fn new(store: Arc<dyn PendingStore>) -> Self {
        Self(store)
    }

    /// Creates a link. At a limit the oldest link is removed, of this account or of all accounts.
    pub(super) async fn create(
        &self,
        id: String,
        link: AccountLink,
        account: &UpstreamAccount,
        wanted: Option<String>,
        limits: &AccountLimits,
    ) -> Result<(), StepError> {
        let AccountLink { principal, server, host, page, .. } = link;
        let record = LinkRecord { principal, server, host, page: page.into(), wanted };
        let body = serde_json::to_string(&record).map_err(|_| StepError::new("cannot serialize the link"))?;
        let document = NewPendingDocument {
            kind: PendingKind::Link,
            id,
            family: account.family(),
            body: body.into(),
            lifetime: limits.link_lifetime.min(MAX_LINK_LIFETIME),
        };
        let limits = PendingLimits {
            family: limits.max_links_per_account,
            all: limits.max_links,
            removes_oldest: true,
        };
        let limit = match self.0.add(document, limits).await? {
            AddPendingResult::AddedForOldestOfFamily => "max_links_per_account",
            AddPendingResult::AddedForOldest => "max_links",
            _ => return Ok(()),
        };
        tracing::warn!(limit, "oldest account link dropped to make room for a new one");
        Ok(())
    }

    /// Returns the link with this id if it is unused and has not expired.
    pub(super) async fn find_open(&self, id: &str) -> Result<Option<AccountLink>, StepError> {
        let known = self.look_up(id).await?;
        Ok(known.filter(|known| known.stage == AccountLinkStage::Open).map(|known| known.link))
    }

    /// Returns the id of an unused link of this account for the same scopes.
    pub(super) async fn find_reusable(
        &self,
        account: &UpstreamAccount,
        wanted: Option<&str>,
    ) -> Result<Option<String>, StepError> {
        let all = self.0.list(PendingKind::Link, &account.family()).await?;
        let mut known = all.into_iter().filter_map(KnownLink::of);
        let fits =
            |known: &KnownLink| known.stage == AccountLinkStage::Open && known.wanted.as_deref() == wanted;
        Ok(known.find(fits).map(|known| known.id))
    }

    /// Marks a link as used. Returns true if it was valid, to one of several callers.
    pub(super) async fn consume(&self, id: &str) -> Result<bool, StepError> {
        let open = [AccountLinkStage::Open.number()];
        self.0.advance(PendingKind::Link, id, &open, AccountLinkStage::Taken.number()).await
    }

    /// Returns a link that was used and has no result yet.
    pub(super) async fn find_taken(&self, id: &str) -> Result<Option<AccountLink>, StepError> {
        let known = self.look_up(id).await?;
        Ok(known.filter(|known| known.stage == AccountLinkStage::Taken).map(|known| known.link))
    }

    /// Invalidates all links of this account.
    pub(super) async fn remove_links_of(&self, account: &UpstreamAccount) -> Result<(), StepError> {
        self.0.remove_family(PendingKind::Link, &account.family()).await
    }

    /// Records the result of a link. Once the account is connected, all of its links are settled as connected.
    pub(super) async fn settle(&self, id: &str, stage: AccountLinkStage) -> Result<(), StepError> {
        let family = match self.0.find(PendingKind::Link, id).await? {
            Some(found) => found.family,
            None => return Ok(()),
        };
        let all = AccountLinkStage::ALL.map(AccountLinkStage::number);
        self.0.advance(PendingKind::Link, id, &all, stage.number()).await?;
        if stage == AccountLinkStage::Connected {
            let pending = AccountLinkStage::PENDING.map(AccountLinkStage::number);
            self.0.advance_family(PendingKind::Link, &family, &pending, stage.number()).await?;
        }
        Ok(())
    }

    /// Returns the link with this id, with its progress.
    pub(crate) async fn look_up(&self, id: &str) -> Result<Option<KnownLink>, StepError> {
        Ok(self.0.find(PendingKind::Link, id).await?.and_then(KnownLink::of))
    }

    /// Waits until a link has a result, at any node, or is gone. Returns `None` if it has none at `end`.
    pub(crate) async fn wait_for_result(
        &self,
        id: &str,
        end: Instant,
    ) -> Result<Option<AccountLinkStage>, StepError> {
        let mut changes = self.0.changes();
        loop {
            // Before the look, so that a change during it is not missed.
            changes.mark_unchanged();
            match self.look_up(id).await? {
                Some(known) if known.stage.is_pending() => {}
                Some(known) => return Ok(Some(known.stage)),
                // Its account was given up, or newer links have taken its place.
                None if Instant::now() < end => return Ok(Some(AccountLinkStage::Failed)),
                None => return Ok(None),
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            let next = end.min(Instant::now() + LOOK_INTERVAL);
            // A store that has ended changes no more; then the time passes.
            if let Ok(Err(_)) = timeout_at(next, changes.changed()).await {
                tokio::time::sleep_until(next).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use hospes_oauth::{MemoryPendingStore, OAuthClient};

    use super::super::account::AccountOwner;
    use super::*;

    fn links() -> AccountLinks {
        AccountLinks::new(Arc::new(MemoryPendingStore::new()))
    }

    fn account(user: &str) -> Arc<UpstreamAccount> {
        let oauth = OAuthClient::builder("https://site.example/mcp").unwrap().build();
        let owner = AccountOwner { user: user.into(), accounts: Weak::new() };
        UpstreamAccount::of_user(oauth, "site".into(), "site.example".into(), owner, None)
    }

    fn link() -> AccountLink {
        let page = url::Url::parse("https://as.example/authorize?state=x").unwrap();
        AccountLink::new("https://here.example user ann".into(), "site".into(), "site.example", page)
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_is_good_for_a_while_and_once() {
        let (links, ann) = (links(), account("ann"));
        let limits = AccountLimits::default();
        for id in ["old", "new"] {
            links.create(id.into(), link(), &ann, Some("read".into()), &limits).await.unwrap();
            tokio::time::advance(Duration::from_secs(200)).await;
        }
        assert!(links.find_open("old").await.unwrap().is_none() && !links.consume("old").await.unwrap());
        assert!(links.look_up("old").await.unwrap().is_none());
        let reusable =
            async |account: &UpstreamAccount, wanted| links.find_reusable(account, wanted).await.unwrap();
        assert_eq!(reusable(&ann, Some("read")).await.as_deref(), Some("new"));
        assert_eq!((reusable(&ann, None).await, reusable(&account("bob"), Some("read")).await), (None, None));
        assert_eq!(links.find_open("new").await.unwrap(), Some(link()));
        assert!(links.find_taken("new").await.unwrap().is_none(), "nobody has gone on from it");
        assert!(links.consume("new").await.unwrap() && !links.consume("new").await.unwrap());
        assert!(links.find_open("new").await.unwrap().is_none());
        assert!(links.find_taken("new").await.unwrap().is_some());
        assert_eq!(reusable(&ann, Some("read")).await, None);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(links.find_taken("new").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn links_are_settled_with_their_account_and_only_so_many_are_kept() {
        let (links, mine, other) = (links(), account("mine"), account("other"));
        let limits = AccountLimits { max_links_per_account: 3, max_links: 5, ..AccountLimits::default() };
        let create = async |id: String, account: &UpstreamAccount| {
            links.create(id, link(), account, None, &limits).await.unwrap();
        };
        create("other".into(), &other).await;
        for number in 0..20 {
            create(number.to_string(), &mine).await;
        }
        let is_there = async |id: &str| links.look_up(id).await.unwrap().is_some();
        assert_eq!(
            [is_there("16").await, is_there("17").await, is_there("19").await, is_there("other").await],
            [false, true, true, true]
        );
        links.settle("18", AccountLinkStage::Refused).await.unwrap();
        links.settle("19", AccountLinkStage::Connected).await.unwrap();
        let stage = async |id: &str| links.look_up(id).await.unwrap().unwrap().stage;
        assert_eq!(
            [stage("other").await, stage("17").await, stage("18").await, stage("19").await],
            [
                AccountLinkStage::Open,
                AccountLinkStage::Connected,
                AccountLinkStage::Refused,
                AccountLinkStage::Connected
            ]
        );
        for number in 0..3 {
            create(format!("more {number}"), &account(&format!("user {number}"))).await;
        }
        assert!(!is_there("other").await && is_there("more 0").await, "the oldest goes");
        links.remove_links_of(&mine).await.unwrap();
        assert!(!is_there("19").await && is_there("more 0").await);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_link_is_told_of_its_result_or_that_there_is_none() {
        let (links, ann) = (links(), account("ann"));
        links.create("id".into(), link(), &ann, None, &AccountLimits::default()).await.unwrap();
        let wait = |seconds| {
            let links = links.clone();
            let end = Instant::now() + Duration::from_secs(seconds);
            tokio::spawn(async move { links.wait_for_result("id", end).await.unwrap() })
        };
        assert_eq!(wait(10).await.unwrap(), None);
        let waiting = wait(10);
        tokio::task::yield_now().await;
        assert!(links.consume("id").await.unwrap());
        tokio::task::yield_now().await;
        links.settle("id", AccountLinkStage::Connected).await.unwrap();
        let begun = Instant::now();
        assert_eq!(waiting.await.unwrap(), Some(AccountLinkStage::Connected));
        assert_eq!(begun.elapsed(), Duration::ZERO, "at once");
        links.remove_links_of(&ann).await.unwrap();
        assert_eq!(wait(10).await.unwrap(), Some(AccountLinkStage::Failed), "it is gone");
    }
}
