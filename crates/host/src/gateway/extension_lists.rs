//! Lists of extensions (`skills/list`): the lists of all servers, merged into one list with the host's own pages.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::join_all;
use hospes::{Call, Outcome};
use hospes_model::{CacheScope, Method, RawJson, Reply, Revision, RpcError};

use super::declared_extensions::declared;
use super::extensions::{with_shown_uris, without_meta};
use super::forward::ForwardRoute;
use super::gateway_state::ViewLease;
use super::handle::Gateway;
use crate::catalogue::{MergedCatalogue, template_matches};
use crate::guard::{METHOD_SUBJECT, TargetItem};
use crate::upstream::ReadyConnection;

/// The lists that are known: the method, the identifier of the extension, and the member that holds the entries.
const LISTS: [(&str, &str, &str); 1] = [("skills/list", "io.modelcontextprotocol/skills", "skills")];
/// The largest number of pages that one server is asked for.
const MAX_PAGES: usize = 256;
/// The largest number of entries that one server is asked for.
const MAX_ENTRIES: usize = 10_000;
/// The most bytes that the entries of one server may have together.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Prefix of the host's cursors. The URI of the last entry before the page follows it.
const CURSOR: &str = "after:";

/// One server's part of a list.
#[derive(Default)]
struct ListPart {
    /// Each entry with the URI that it is shown under.
    entries: Vec<(String, RawJson)>,
    /// Time for which the list may be cached, in milliseconds. `None` if the server does not specify one.
    ttl_ms: Option<u64>,
    /// True if the list may be cached for every user.
    is_public: bool,
}

impl Gateway {
    /// Returns the merged list, if the call requests one and several servers are in view.
    pub(super) async fn extension_list(
        &self,
        call: &Call,
        using: &ViewLease,
    ) -> Option<Result<Outcome, RpcError>> {
        let name = call.method.name();
        let (_, extension, member) = LISTS.into_iter().find(|(method, ..)| *method == name)?;
        let seen = self.in_view(using);
        // The pages and cursors of a single server pass as they are; only a merged list needs some of its own.
        if self.is_single() || seen.len() < 2 {
            return None;
        }
        let has_list = |live: &ReadyConnection| declared(live).any(|(identifier, _)| identifier == extension);
        let servers = seen.iter().filter(|(_, live)| has_list(live)).map(|(server, _)| *server);
        let servers: Vec<usize> = servers.collect();
        if servers.is_empty() {
            return None;
        }
        Some(self.merged_list(call, using, &servers, member).await)
    }

    async fn merged_list(
        &self,
        call: &Call,
        using: &ViewLease,
        servers: &[usize],
        member: &str,
    ) -> Result<Outcome, RpcError> {
        let cursor = match call.params.raw().members().find(|one| one.key() == "cursor") {
            None => None,
            Some(given) => {
                let text = given.text().map(|text| text.into_owned());
                let after = text.as_deref().and_then(|text| text.strip_prefix(CURSOR));
                Some(after.ok_or_else(|| RpcError::invalid_params("unknown or expired cursor"))?.to_owned())
            }
        };
        let parts = servers.iter().map(|server| self.list_part(call, using, *server, member));
        // What others list is shown even where a server fails; only where all fail is the first failure the answer.
        let (mut parts_known, mut failure) = (Vec::new(), None);
        for (part, server) in join_all(parts).await.into_iter().zip(servers) {
            match part {
                Ok(part) => parts_known.push(part),
                Err(outcome) => {
                    let name = &self.shared.upstreams[*server].server.name;
                    tracing::warn!(server = %name, method = call.method.name(), ?outcome, "list of a server omitted");
                    failure.get_or_insert(outcome);
                }
            }
        }
        if parts_known.is_empty()
            && let Some(outcome) = failure
        {
            return Ok(outcome);
        }
        let json = self.page_of(parts_known, member, cursor.as_deref())?;
        Ok(Outcome::Complete(Reply::raw(Revision::LATEST, json)))
    }

    /// Encodes the page after this cursor.
    fn page_of(&self, parts: Vec<ListPart>, member: &str, cursor: Option<&str>) -> Result<RawJson, RpcError> {
        // One server that gives no TTL makes the whole list stale at once.
        let ttl_ms = parts.iter().map(|part| part.ttl_ms).collect::<Option<Vec<_>>>();
        let ttl_ms = ttl_ms.and_then(|all| all.into_iter().min()).unwrap_or_default();
        // With rules, callers may be shown different lists, so no cache may share one between users.
        let is_public = parts.iter().all(|part| part.is_public) && self.shared.guard.is_none();
        let mut entries: Vec<_> = parts.into_iter().flat_map(|part| part.entries).collect();
        // In the order of URIs a cursor keeps its place, even if its entry has gone since.
        entries.sort_by(|one, two| one.0.cmp(&two.0));
        // A cursor names one entry.
        entries.dedup_by(|one, two| one.0 == two.0);
        let start = cursor.map_or(0, |cursor| entries.partition_point(|(uri, _)| uri.as_str() <= cursor));
        let size = self.shared.settings.page_size.max(1);
        let page: Vec<&(String, RawJson)> = entries[start..].iter().take(size).collect();
        let scope = if is_public { CacheScope::Public } else { CacheScope::Private };
        let mut result = serde_json::Map::new();
        if start + page.len() < entries.len()
            && let Some((last, _)) = page.last()
        {
            result.insert("nextCursor".to_owned(), format!("{CURSOR}{last}").into());
        }
        result.insert("resultType".to_owned(), "complete".into());
        result.insert("ttlMs".to_owned(), ttl_ms.into());
        result.insert("cacheScope".to_owned(), scope.as_str().into());
        let wrong = |error: serde_json::Error| RpcError::internal(error.to_string());
        // Entries stay as their servers wrote them: digests and numbers are of their text.
        let page: Vec<&str> = page.iter().map(|(_, entry)| entry.as_str()).collect();
        let rest = serde_json::to_string(&result).map_err(wrong)?;
        let rest = rest.strip_prefix('{').unwrap_or_default();
        RawJson::parse(format!("{{\"{member}\":[{}],{rest}", page.join(","))).map_err(wrong)
    }

    /// Returns all entries that one server lists. Returns an outcome if the server is not asked or fails.
    async fn list_part(
        &self,
        call: &Call,
        using: &ViewLease,
        server: usize,
        member: &str,
    ) -> Result<ListPart, Outcome> {
        let subject = format!("{METHOD_SUBJECT}{}", call.method.name());
        let shown = without_meta(call.params.raw());
        let what = TargetItem::Method(&subject, &shown);
        let mut passage = match self.admit(call, server, &what, using).await {
            ControlFlow::Continue(passage) => passage,
            ControlFlow::Break(stopped) => return Err(stopped),
        };
        let part = self.all_pages(call, using, (server, &what), member).await;
        if part.is_err()
            && let Some(passage) = &mut passage
        {
            passage.clear_labels();
        }
        let (outcome, part) = match part {
            Ok(part) => {
                let listed: Vec<&RawJson> = part.entries.iter().map(|(_, entry)| entry).collect();
                let listed = RawJson::from_serialize(&listed).unwrap_or_else(|_| RawJson::empty_object());
                let json = RawJson::parse(format!("{{\"{member}\":{listed}}}"));
                let json = json.unwrap_or_else(|_| RawJson::empty_object());
                (Ok(Outcome::Complete(Reply::raw(Revision::LATEST, json))), Some(part))
            }
            Err(error) => (Err(error), None),
        };
        match (self.record_outcome(passage, &call.context, &call.method, outcome).await, part) {
            (Ok(Outcome::Complete(_)), Some(part)) => Ok(part),
            (Ok(outcome), _) => Err(outcome),
            (Err(error), _) => Err(Outcome::Failed(error)),
        }
    }

    async fn all_pages(
        &self,
        call: &Call,
        using: &ViewLease,
        (server, what): (usize, &TargetItem<'_>),
        member: &str,
    ) -> Result<ListPart, RpcError> {
        let catalogue = using.catalogue();
        let name = &self.shared.upstreams[server].server.name;
        let mut part = ListPart { is_public: true, ..ListPart::default() };
        let (mut cursor, mut bytes, mut known) = (None, 0, HashSet::new());
        for page in 0..MAX_PAGES {
            // Anew for each page: `forward` uses up the lease, and the connection may be another one by now.
            let mut reached = self.reach(server, using).await?;
            if let Some(why) = self.block_reason_on_connection(server, what, &mut reached).await {
                reached.lease.finish();
                return Err(RpcError::invalid_params(why.message(name)));
            }
            let params = match &cursor {
                None => RawJson::empty_object(),
                Some(cursor) => RawJson::from(serde_json::json!({ "cursor": cursor })),
            };
            let onward = Call::new(call.method.clone(), params.clone(), call.context.clone());
            let way = ForwardRoute { server, reached, catalogue: Arc::clone(&catalogue) };
            let json = match self.forward(onward, params, way).await? {
                Outcome::Complete(Reply::Raw { json, .. }) => json,
                Outcome::Failed(error) => return Err(error),
                _ => return Err(not_a_list(&call.method, name)),
            };
            bytes += json.as_bytes().len();
            let next = part.take(&json, member, (name, &catalogue));
            let next = next.ok_or_else(|| not_a_list(&call.method, name))?;
            let is_last = page + 1 == MAX_PAGES || part.entries.len() > MAX_ENTRIES || bytes > MAX_BYTES;
            match next {
                // A cursor that comes twice would never end.
                Some(next) if !is_last && known.insert(next.clone()) => cursor = Some(next),
                Some(_) => {
                    tracing::warn!(server = %name, method = call.method.name(), "list of a server truncated");
                    break;
                }
                None => break,
            }
        }
        // The last page may have gone beyond the limit.
        part.entries.truncate(MAX_ENTRIES);
        Ok(part)
    }
}

impl ListPart {
    /// Adds a page and returns the server's cursor for the next one. `None` if the result is not a page.
    fn take(
        &mut self,
        page: &RawJson,
        member: &str,
        (server, catalogue): (&str, &MergedCatalogue),
    ) -> Option<Option<String>> {
        let value = |key: &str| page.members().find(|one| one.key() == key).map(|one| one.value());
        let text = |key: &str| Some(page.members().find(|one| one.key() == key)?.text()?.into_owned());
        let entries: Vec<RawJson> = value(member)?.decode().ok()?;
        let show = |uri: &str| catalogue.uris.show(server, uri, &template_matches);
        for entry in entries {
            let entry = with_shown_uris(&entry, 0, &show);
            let uri = entry.members().find(|one| one.key() == "uri");
            // Without a URI an entry has no place in the order, and no cursor could name it.
            let Some(uri) = uri.and_then(|uri| Some(uri.text()?.into_owned())) else { continue };
            self.entries.push((uri, entry));
        }
        let ttl_ms: Option<u64> = value("ttlMs").and_then(|ttl| ttl.decode().ok());
        let least = |known: u64| ttl_ms.map_or(known, |ttl| ttl.min(known));
        self.ttl_ms = self.ttl_ms.map(least).or(ttl_ms);
        let scope: Option<String> = text("cacheScope");
        self.is_public &= scope.as_deref() == Some(CacheScope::Public.as_str());
        Some(text("nextCursor"))
    }
}

fn not_a_list(method: &Method, server: &str) -> RpcError {
    RpcError::internal(format!(
        "the server `{server}` answered {} with a result that is not a list",
        method.name()
    ))
}
