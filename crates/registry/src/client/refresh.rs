//! Reading of the list into the cache.

use http::header::HeaderMap;
use jiff::{SignedDuration, Timestamp};

use super::requests::target;
use super::{RefreshMode, RefreshReport, RegistryClient};
use crate::error::RegistryError;
use crate::fetch::shown;

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 500;
/// Overlap of two readings of changes, because clocks differ.
const OVERLAP: SignedDuration = SignedDuration::from_mins(10);
/// Time after which the list is read anew, because a registry without `_meta` reports no deletions.
const FULL_LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Maximum number of servers that are looked up one by one after a reading of changes.
const MAX_LOOKUPS: usize = 20;

impl RegistryClient {
    /// Reads the list into the cache. Searches are answered from it afterwards.
    ///
    /// # Errors
    /// If the registry is not reached, or does not answer as a registry. What was read before stays.
    pub async fn refresh(&self, mode: RefreshMode) -> Result<RefreshReport, RegistryError> {
        let started = self.now();
        let times = self.cache.list_times(self.base_url()).await?;
        let since = match (mode, times) {
            (RefreshMode::Changes, Some(times)) if started.duration_since(times.full_at) <= FULL_LIFETIME => {
                Some(times.changed_at.saturating_sub(OVERLAP).unwrap_or(Timestamp::UNIX_EPOCH))
            }
            _ => None,
        };
        let mut report = RefreshReport { everything: since.is_none(), ..RefreshReport::default() };
        let mut removed: Vec<String> = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            if report.pages == MAX_PAGES {
                return Err(RegistryError::TooManyPages { host: self.host().to_owned(), limit: MAX_PAGES });
            }
            let url = self.list_url(since, cursor.as_deref());
            let response = self.get(&url, &HeaderMap::new()).await?;
            let body = self.success(&url, &response, "the list of servers")?;
            let page = self.page(&url, &body)?;
            report.pages += 1;
            report.skipped += page.skipped;
            let changes = self.cache.store_page(self.base_url(), page.entries, started).await?;
            report.stored += changes.stored;
            removed.extend(changes.removed);
            match page.next {
                Some(next) if Some(&next) == cursor.as_ref() => {
                    let what = "two pages have the same cursor".to_owned();
                    return Err(RegistryError::NotRegistry { url: shown(&url), what });
                }
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        report.removed = self.replace_deleted(removed, started).await?;
        report.removed += self.cache.end_reading(self.base_url(), started, since.is_none()).await?;
        report.servers = self.cache.count(self.base_url()).await?;
        Ok(report)
    }

    /// Looks for another version of servers whose newest one was deleted. Returns how many have none.
    async fn replace_deleted(&self, names: Vec<String>, started: Timestamp) -> Result<usize, RegistryError> {
        let mut gone = 0;
        for (index, name) in names.iter().enumerate() {
            if self.cache.listed(self.base_url(), name).await?.is_some() {
                continue;
            }
            gone += 1;
            if index >= MAX_LOOKUPS {
                continue;
            }
            let url = self.path_url(&[name, "versions", "latest"]);
            self.cache.forget_answer(self.base_url(), &target(&url)).await?;
            if let Ok(answer) = self.entry(name, None).await {
                self.cache.store_page(self.base_url(), vec![answer.value], started).await?;
                gone -= 1;
            }
        }
        Ok(gone)
    }
}
