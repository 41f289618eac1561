//! Lists of one server, read page by page.

use std::collections::HashSet;
use std::sync::Arc;

use hospes::client::UNREADABLE_ENTRIES;
use hospes::{BoxService, Call, Context, Peer, Service};
use hospes_model::{
    Meta, Method, Prompt, RawJson, Reply, Resource, ResourceTemplate, Revision, RpcError, Tool, code,
};

use crate::server::{
    CapabilitySet, CatalogueItem, ListKinds, ListProblem, UpstreamListing, complete, implementation,
};

/// The most pages that are read of one list.
pub const MAX_PAGES: usize = 256;
/// The most items that are kept of one list.
pub const MAX_ITEMS: usize = 10_000;

/// Maximum number of repeated keys of one list that are named.
const MAX_REPEATED: usize = 20;

/// Reads lists of one server.
#[derive(Debug)]
pub(crate) struct ListReader<'a> {
    pub(crate) service: &'a BoxService,
    pub(crate) peer: Arc<Peer>,
}

impl<'a> ListReader<'a> {
    pub(crate) fn new(service: &'a BoxService, abilities: CapabilitySet) -> Self {
        Self { service, peer: peer(abilities) }
    }

    /// Reads the lists in `kinds` into `listing`. A list that cannot be read keeps its old content, and an entry that
    /// cannot be read is left out. Both are reported as problems and do not affect the rest.
    pub(crate) async fn read(&self, kinds: ListKinds, listing: &mut UpstreamListing) {
        let tools = async { if kinds.tools { Some(self.tools().await) } else { None } };
        let prompts = async { if kinds.prompts { Some(self.prompts().await) } else { None } };
        let resources = async { if kinds.resources { Some(self.resources().await) } else { None } };
        let templates = async { if kinds.resources { Some(self.templates().await) } else { None } };
        let (tools, prompts, resources, templates) = tokio::join!(tools, prompts, resources, templates);
        let problems = &mut listing.problems;
        settle(&Method::ToolsList, tools, &mut listing.tools, problems);
        settle(&Method::PromptsList, prompts, &mut listing.prompts, problems);
        settle(&Method::ResourcesList, resources, &mut listing.resources, problems);
        // Not every server with resources has templates, and some say so in this way.
        let templates = templates.map(|read| match read {
            Err(error) if error.code == code::METHOD_NOT_FOUND => Ok(FetchedList::default()),
            read => read,
        });
        settle(&Method::ResourceTemplatesList, templates, &mut listing.templates, problems);
    }

    async fn tools(&self) -> Result<FetchedList<Tool>, RpcError> {
        let read = self.pages(Method::ToolsList, |reply| match reply {
            Reply::ListTools(list) => Some((list.tools, list.next_cursor, list.meta)),
            _ => None,
        });
        let mut tools = read.await?;
        // Applications that check what they are shown would lose all tools of all servers by it.
        let (good, bad) = tools.items.into_iter().partition(|tool| input_schema_fault(tool).is_none());
        tools.items = good;
        let bad: Vec<Tool> = bad;
        let name = |tool: Tool| {
            let fault = input_schema_fault(&tool).unwrap_or_default();
            format!("`{}` was left out: {fault}", tool.name)
        };
        tools.problems.extend(bad.into_iter().map(name));
        Ok(tools)
    }

    async fn prompts(&self) -> Result<FetchedList<Prompt>, RpcError> {
        self.pages(Method::PromptsList, |reply| match reply {
            Reply::ListPrompts(list) => Some((list.prompts, list.next_cursor, list.meta)),
            _ => None,
        })
        .await
    }

    async fn resources(&self) -> Result<FetchedList<Resource>, RpcError> {
        self.pages(Method::ResourcesList, |reply| match reply {
            Reply::ListResources(list) => Some((list.resources, list.next_cursor, list.meta)),
            _ => None,
        })
        .await
    }

    async fn templates(&self) -> Result<FetchedList<ResourceTemplate>, RpcError> {
        self.pages(Method::ResourceTemplatesList, |reply| match reply {
            Reply::ListResourceTemplates(list) => {
                Some((list.resource_templates, list.next_cursor, list.meta))
            }
            _ => None,
        })
        .await
    }

    async fn pages<T: CatalogueItem>(
        &self,
        method: Method,
        take: impl Fn(Reply) -> Option<(Vec<T>, Option<String>, Meta)>,
    ) -> Result<FetchedList<T>, RpcError> {
        let mut all = FetchedList::default();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        loop {
            let params = match &cursor {
                Some(cursor) => serde_json::json!({ "cursor": cursor }).into(),
                None => RawJson::empty_object(),
            };
            let call = Call::new(method.clone(), params, Context::new(Arc::clone(&self.peer)));
            let reply = complete(&method, self.service.call(call).await)?;
            let Some((items, next, meta)) = take(reply) else {
                return Err(RpcError::internal(format!(
                    "unexpected result type for {method}: expected a list"
                )));
            };
            all.items.extend(items);
            let unreadable: Vec<String> = meta.read(UNREADABLE_ENTRIES).unwrap_or_default();
            // Collected first, since the filter reads the list that is extended.
            all.problems.extend(
                unreadable.into_iter().filter(|fault| !all.problems.contains(fault)).collect::<Vec<_>>(),
            );
            // No further page is asked for then, so that a server cannot fill the memory with its list.
            if all.items.len() > MAX_ITEMS {
                all.problems.push(format!("only the first {MAX_ITEMS} entries are kept"));
                all.items.truncate(MAX_ITEMS);
                break;
            }
            let Some(next) = next else { break };
            if seen.len() + 1 >= MAX_PAGES {
                all.problems.push(format!("only the first {MAX_PAGES} pages are read"));
                break;
            }
            if !seen.insert(next.clone()) {
                all.problems
                    .push("its cursors repeat; only the pages before the repetition are kept".to_owned());
                break;
            }
            cursor = Some(next);
        }
        let repeated = remove_repeated(&mut all.items, CatalogueItem::key);
        if !repeated.is_empty() {
            tracing::warn!(%method, twice = repeated.len(), "duplicate list entries dropped; the first of each is kept");
        }
        all.problems.extend(repeated);
        Ok(all)
    }
}

/// Returns why a tool cannot be offered: applications refuse a list with a tool whose arguments are no object.
#[must_use]
pub fn input_schema_fault(tool: &Tool) -> Option<&'static str> {
    /// Only the member that counts, because a schema may be large.
    #[derive(serde::Deserialize)]
    struct RootType {
        #[serde(rename = "type")]
        kind: Option<serde_json::Value>,
    }

    if !tool.input_schema.is_object() {
        return Some("its inputSchema is not an object");
    }
    // A schema without a type admits an object.
    let kind = tool.input_schema.decode::<RootType>().ok()?.kind?;
    let admits =
        kind == "object" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"));
    (!admits).then_some("its inputSchema has another `type` than `object`")
}

/// Removes the items whose key another one before them has. Returns a sentence for each key.
pub fn remove_repeated<T>(items: &mut Vec<T>, key: impl Fn(&T) -> &str) -> Vec<String> {
    let (mut keys, mut repeated) = (HashSet::with_capacity(items.len()), Vec::new());
    // `retain` moves the items, so the set cannot borrow their keys.
    items.retain(|item| {
        let key = key(item);
        let is_first = keys.insert(key.to_owned());
        if !is_first {
            let sentence = format!("`{key}` is listed more than once; the first is kept");
            if repeated.len() < MAX_REPEATED && !repeated.contains(&sentence) {
                repeated.push(sentence);
            }
        }
        is_first
    });
    repeated
}

/// A fetched list.
struct FetchedList<T> {
    items: Vec<T>,
    /// Problems with entries of the list.
    problems: Vec<String>,
}

impl<T> Default for FetchedList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), problems: Vec::new() }
    }
}

/// Replaces a list that was read again, and its problems.
fn settle<T>(
    method: &Method,
    read: Option<Result<FetchedList<T>, RpcError>>,
    list: &mut Arc<Vec<T>>,
    problems: &mut Vec<ListProblem>,
) {
    let Some(read) = read else { return };
    let name = method.info().map_or("", |info| info.name);
    // What was found at the last reading is settled by this one, however it went.
    problems.retain(|problem| problem.list != name);
    match read {
        Ok(pages) => {
            *list = Arc::new(pages.items);
            let found = pages.problems.into_iter();
            problems.extend(found.map(|text| ListProblem { list: name, text, whole: false }));
        }
        Err(error) => {
            problems.push(ListProblem { list: name, text: error.message.into_owned(), whole: true });
        }
    }
}

/// Creates the peer that represents the host itself, for list requests.
pub(crate) fn peer(abilities: CapabilitySet) -> Arc<Peer> {
    Arc::new(Peer::new(Revision::LATEST, Some(implementation()), abilities.capabilities()))
}
