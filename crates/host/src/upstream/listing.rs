//! What one server offers: its lists, read page by page.

use std::collections::HashSet;
use std::sync::Arc;

use hospes::{BoxService, Call, Context, Outcome, Peer, Service};
use hospes_model::{
    Answer, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Method,
    Prompt, RawJson, Reply, Resource, ResourceTemplate, Revision, RpcError, ServerCapabilities, Tool, code,
};

use super::abilities::Abilities;
use crate::catalogue::Item;

/// The most pages that are read of one list.
pub const MAX_PAGES: usize = 256;
/// The most items that are kept of one list.
pub const MAX_ITEMS: usize = 10_000;

/// What a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// Its tools.
    pub tools: Arc<Vec<Tool>>,
    /// Its prompts.
    pub prompts: Arc<Vec<Prompt>>,
    /// Its resources.
    pub resources: Arc<Vec<Resource>>,
    /// Its templates of resources.
    pub templates: Arc<Vec<ResourceTemplate>>,
    /// What could not be read, one sentence for each list; the others stand.
    pub problems: Vec<String>,
}

/// Which lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain data: the three lists that can change")]
pub struct Kinds {
    /// The tools.
    pub tools: bool,
    /// The prompts.
    pub prompts: bool,
    /// The resources and their templates.
    pub resources: bool,
}

impl Kinds {
    /// The lists a server with these capabilities has.
    #[must_use]
    pub fn offered(capabilities: &ServerCapabilities) -> Self {
        Self {
            tools: capabilities.tools.is_some(),
            prompts: capabilities.prompts.is_some(),
            resources: capabilities.resources.is_some(),
        }
    }

    /// The lists whose changes such a server tells of.
    #[must_use]
    pub fn watched(capabilities: &ServerCapabilities) -> Self {
        Self {
            tools: capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true)),
            prompts: capabilities.prompts.as_ref().is_some_and(|prompts| prompts.list_changed == Some(true)),
            resources: capabilities.resources.as_ref().is_some_and(|list| list.list_changed == Some(true)),
        }
    }

    /// How many requests it takes to read them.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.tools) + usize::from(self.prompts) + 2 * usize::from(self.resources)
    }

    /// Whether there is any.
    #[must_use]
    pub fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }
}

/// Reads lists of one server.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) service: &'a BoxService,
    pub(crate) peer: Arc<Peer>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(service: &'a BoxService, abilities: Abilities) -> Self {
        Self { service, peer: peer(abilities) }
    }

    /// Reads the lists in `kinds` into `listing`. A list that cannot be read keeps what it had, and is a problem
    /// told; it never takes the others with it.
    pub(crate) async fn read(&self, kinds: Kinds, listing: &mut Listing) {
        let mut problems = Vec::new();
        let mut note = |what: &str, error: &RpcError| problems.push(format!("{what}: {}", error.message));
        let tools = async { if kinds.tools { Some(self.tools().await) } else { None } };
        let prompts = async { if kinds.prompts { Some(self.prompts().await) } else { None } };
        let resources = async { if kinds.resources { Some(self.resources().await) } else { None } };
        let templates = async { if kinds.resources { Some(self.templates().await) } else { None } };
        let (tools, prompts, resources, templates) = tokio::join!(tools, prompts, resources, templates);
        match tools {
            Some(Ok(tools)) => listing.tools = Arc::new(tools),
            Some(Err(error)) => note("tools/list", &error),
            None => {}
        }
        match prompts {
            Some(Ok(prompts)) => listing.prompts = Arc::new(prompts),
            Some(Err(error)) => note("prompts/list", &error),
            None => {}
        }
        match resources {
            Some(Ok(resources)) => listing.resources = Arc::new(resources),
            Some(Err(error)) => note("resources/list", &error),
            None => {}
        }
        match templates {
            Some(Ok(templates)) => listing.templates = Arc::new(templates),
            // Not every server with resources has templates, and some say so in this way.
            Some(Err(error)) if error.code == code::METHOD_NOT_FOUND => {}
            Some(Err(error)) => note("resources/templates/list", &error),
            None => {}
        }
        listing.problems = problems;
    }

    async fn tools(&self) -> Result<Vec<Tool>, RpcError> {
        self.pages(Method::ToolsList, |reply| match reply {
            Reply::ListTools(list) => {
                Some(page(*list, |ListToolsResult { tools, next_cursor, .. }| (tools, next_cursor)))
            }
            _ => None,
        })
        .await
    }

    async fn prompts(&self) -> Result<Vec<Prompt>, RpcError> {
        self.pages(Method::PromptsList, |reply| match reply {
            Reply::ListPrompts(list) => {
                Some(page(*list, |ListPromptsResult { prompts, next_cursor, .. }| (prompts, next_cursor)))
            }
            _ => None,
        })
        .await
    }

    async fn resources(&self) -> Result<Vec<Resource>, RpcError> {
        self.pages(Method::ResourcesList, |reply| match reply {
            Reply::ListResources(list) => {
                Some(page(*list, |ListResourcesResult { resources, next_cursor, .. }| {
                    (resources, next_cursor)
                }))
            }
            _ => None,
        })
        .await
    }

    async fn templates(&self) -> Result<Vec<ResourceTemplate>, RpcError> {
        self.pages(Method::ResourceTemplatesList, |reply| match reply {
            Reply::ListResourceTemplates(list) => {
                let parts = |ListResourceTemplatesResult { resource_templates, next_cursor, .. }| {
                    (resource_templates, next_cursor)
                };
                Some(page(*list, parts))
            }
            _ => None,
        })
        .await
    }

    async fn pages<T: Item>(
        &self,
        method: Method,
        take: impl Fn(Reply) -> Option<(Vec<T>, Option<String>)>,
    ) -> Result<Vec<T>, RpcError> {
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = match &cursor {
                Some(cursor) => serde_json::json!({ "cursor": cursor }).into(),
                None => RawJson::empty_object(),
            };
            let call = Call::new(method.clone(), params, Context::new(Arc::clone(&self.peer)));
            let reply = complete(&method, self.service.call(call).await)?;
            let Some((items, next)) = take(reply) else {
                return Err(RpcError::internal(format!("the answer to {method} is no list")));
            };
            all.extend(items);
            match next {
                Some(next) if all.len() < MAX_ITEMS && seen.insert(next.clone()) => cursor = Some(next),
                Some(_) if all.len() < MAX_ITEMS => {
                    return Err(RpcError::internal(format!("{method} comes back to the same page")));
                }
                _ => break,
            }
        }
        let (listed, mut keys) = (all.len(), HashSet::with_capacity(all.len()));
        all.retain(|item| keys.insert(item.key().to_owned()));
        if all.len() < listed {
            tracing::warn!(%method, twice = listed - all.len(), "what is listed twice is kept once: the first");
        }
        if all.len() > MAX_ITEMS {
            tracing::warn!(%method, items = all.len(), max = MAX_ITEMS, "a list is cut");
            all.truncate(MAX_ITEMS);
        }
        Ok(all)
    }
}

/// The host itself, asking for a list.
pub(crate) fn peer(abilities: Abilities) -> Arc<Peer> {
    Arc::new(Peer::new(Revision::LATEST, Some(crate::implementation()), abilities.capabilities()))
}

fn page<R, T>(result: R, parts: impl Fn(R) -> (Vec<T>, Option<String>)) -> (Vec<T>, Option<String>) {
    parts(result)
}

/// The reply to a call that asks nothing.
pub(crate) fn complete(method: &Method, outcome: Outcome) -> Result<Reply, RpcError> {
    match outcome {
        Outcome::Complete(reply) => decoded(method, reply),
        Outcome::InputRequired(_) => Err(RpcError::internal(format!("the answer to {method} is a question"))),
        Outcome::Failed(error) => Err(error),
    }
}

/// A reply as its method's type, where it came as text.
pub(crate) fn decoded(method: &Method, reply: Reply) -> Result<Reply, RpcError> {
    match reply {
        Reply::Raw { revision, json, .. } => match Answer::decode(method, revision, &json) {
            Ok(Answer::Complete(reply)) => Ok(reply),
            Ok(_) => Err(RpcError::internal(format!("the answer to {method} is not the result"))),
            Err(error) => Err(RpcError::internal(chain(&error))),
        },
        Reply::Prepared(prepared) => decoded(method, prepared.reply().clone()),
        reply => Ok(reply),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}
