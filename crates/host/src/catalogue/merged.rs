//! Merged lists of the offers of all servers, for one kind of application.

use std::collections::HashMap;
use std::sync::Arc;

use hospes_model::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Prompt, Reply,
    Resource, ResourceTemplate, Tool,
};

use super::labels;
use super::names::{NameCollision, ServerPrefixes, ShownNameMap};
use super::paged_list::{ItemLocation, PagedList};
use super::template;
use super::uris::ResourceUriMap;
use crate::config::ToolFilter;
use crate::server::{CatalogueItem, UpstreamListing};

/// URI of the resource with the status of the servers.
pub const STATUS_URI: &str = "hospes://status";
/// Under which URI the calling user's accounts at servers are, where servers have an account of each user.
pub const ACCOUNTS_URI: &str = "hospes://accounts";

/// Merged offers of all servers.
#[derive(Debug)]
pub(crate) struct MergedCatalogue {
    pub(crate) tools: Arc<PagedList<Tool>>,
    pub(crate) prompts: Arc<PagedList<Prompt>>,
    pub(crate) resources: Arc<PagedList<Resource>>,
    pub(crate) templates: Arc<PagedList<ResourceTemplate>>,
    pub(crate) uris: ResourceUriMap,
    /// Items that are not listed because their names or URIs collide or cannot carry a label; one sentence each.
    pub(crate) collisions: Vec<String>,
    /// True if every URI belongs to a single server.
    pub(crate) is_alone: bool,
}

/// Contribution of one server to the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct CatalogueSource<'a> {
    pub(crate) server: &'a str,
    pub(crate) filter: &'a ToolFilter,
    /// Filter of a profile, which narrows the server's own.
    pub(crate) narrowed: Option<&'a ToolFilter>,
    /// Listing of the server. `None` if it is not known yet.
    pub(crate) listing: Option<&'a UpstreamListing>,
}

impl CatalogueSource<'_> {
    /// Returns true if a tool of the server is shown.
    fn allows(&self, tool: &str) -> bool {
        self.filter.allows(tool) && self.narrowed.is_none_or(|narrowed| narrowed.allows(tool))
    }
}

impl MergedCatalogue {
    /// Merges `parts`, which are all servers in order, and the host's `own` resources and tools. Unchanged lists are reused, so that
    /// holders can detect changes by identity. With `only` one server, its own names are used.
    pub(crate) fn build(
        prefixes: &ServerPrefixes,
        parts: &[CatalogueSource<'_>],
        (own, own_tools): (&[Resource], &[Tool]),
        before: Option<&Self>,
        (only, page_size): (Option<&str>, usize),
    ) -> Self {
        let known: Vec<(usize, &CatalogueSource<'_>, &UpstreamListing)> =
            parts.iter().enumerate().filter_map(|(index, part)| Some((index, part, part.listing?))).collect();
        // Of what is shown: another server of the name may run for a profile, or have been replaced.
        let positions: HashMap<&str, usize> =
            known.iter().map(|(index, part, _)| (part.server, *index)).collect();
        let mut collisions = Vec::new();

        let uris = match only {
            Some(server) => ResourceUriMap::alone(server),
            None => uris(prefixes, &known),
        };
        let show = |server: &str, uri: &str| uris.show(server, uri, &template::matches);

        let tools = known.iter().flat_map(|(_, part, listing)| {
            let shown = listing.tools.iter().filter(|tool| part.allows(&tool.name));
            shown.map(|tool| (part.server, tool))
        });
        let tools: Vec<(&str, &Tool)> = tools.collect();
        let names = tools.iter().map(|(server, tool)| (*server, tool.name.as_str()));
        let (names, collided) = named_by(prefixes, only, names);
        collisions.extend(collided.iter().map(|collision| format!("tools {collision}")));
        let rename = |server: &str, tool: &Tool, name: &str| {
            let mut tool = tool.clone();
            tool.name = name.to_owned();
            labels::show_in(&mut tool.meta, |uri| show(server, uri));
            tool
        };
        let (mut shown, mut origins) = named(&tools, &names, &positions, |tool| &tool.name, rename);
        add_own_tools(own_tools, &mut shown, &mut origins, &mut collisions);
        let tools = PagedList::new(shown, origins, page_size);

        let prompts: Vec<(&str, &Prompt)> = known
            .iter()
            .flat_map(|(_, part, listing)| listing.prompts.iter().map(|prompt| (part.server, prompt)))
            .collect();
        let names = prompts.iter().map(|(server, prompt)| (*server, prompt.name.as_str()));
        let (names, collided) = named_by(prefixes, only, names);
        collisions.extend(collided.iter().map(|collision| format!("prompts {collision}")));
        let rename = |_: &str, prompt: &Prompt, name: &str| {
            let mut prompt = prompt.clone();
            prompt.name = name.to_owned();
            prompt
        };
        let (shown, origins) = named(&prompts, &names, &positions, |prompt| &prompt.name, rename);
        let prompts = PagedList::new(shown, origins, page_size);

        // First: the sort is stable and the first of equal URIs stays, so no server takes the place of these.
        let mut resources = own.to_vec();
        let mut templates = Vec::new();
        for (_, part, listing) in &known {
            let (listed, left_out): (Vec<_>, Vec<_>) =
                listing.resources.iter().partition(|one| !uris.is_unlabelable(part.server, &one.uri));
            collisions.extend(left_out.into_iter().map(|one| {
                let (uri, server) = (&one.uri, part.server);
                format!(
                    "resources: `{uri}` of the server `{server}` cannot be labeled with its server's name"
                )
            }));
            resources.extend(listed.into_iter().map(|resource| {
                let mut resource = resource.clone();
                resource.uri = show(part.server, &resource.uri);
                resource
            }));
            let listed = |one: &&ResourceTemplate| !uris.is_unlabelable(part.server, &one.uri_template);
            templates.extend(listing.templates.iter().filter(listed).map(|template| {
                let mut template = template.clone();
                template.uri_template = uris.show_template(part.server, &template.uri_template);
                template
            }));
        }
        // A server that lists a resource twice lists it once.
        resources.sort_by(|one, two| one.uri.cmp(&two.uri));
        resources.dedup_by(|one, two| one.uri == two.uri);
        templates.sort_by(|one, two| one.uri_template.cmp(&two.uri_template));
        templates.dedup_by(|one, two| one.uri_template == two.uri_template);

        Self {
            tools: kept(tools, before.map(|before| &before.tools)),
            prompts: kept(prompts, before.map(|before| &before.prompts)),
            resources: kept(
                PagedList::new(resources, HashMap::new(), page_size),
                before.map(|before| &before.resources),
            ),
            templates: kept(
                PagedList::new(templates, HashMap::new(), page_size),
                before.map(|before| &before.templates),
            ),
            is_alone: only.is_some() || parts.len() == 1 && !uris.has_labels(),
            uris,
            collisions,
        }
    }
}

/// Returns the shown names of tools or prompts: with the server's prefix, or the server's own names if it is the only
/// one.
fn named_by<'a>(
    prefixes: &ServerPrefixes,
    only: Option<&str>,
    items: impl Iterator<Item = (&'a str, &'a str)>,
) -> (ShownNameMap, Vec<NameCollision>) {
    match only {
        Some(_) => (ShownNameMap::unchanged(items), Vec::new()),
        None => ShownNameMap::build(prefixes, items),
    }
}

/// Returns the routes of all servers' URIs and their shown forms.
fn uris(
    prefixes: &ServerPrefixes,
    known: &[(usize, &CatalogueSource<'_>, &UpstreamListing)],
) -> ResourceUriMap {
    let of = |part: &CatalogueSource<'_>, tool: &Tool| part.allows(&tool.name);
    let named = known.iter().flat_map(|(_, part, listing)| {
        // Most tools have no `_meta`, and need not be looked into.
        let tools = listing.tools.iter().filter(|tool| !tool.meta.is_empty() && of(part, tool));
        tools.flat_map(|tool| labels::named_in(&tool.meta)).map(|uri| (part.server, uri))
    });
    let resources = known.iter().flat_map(|(_, part, listing)| {
        listing.resources.iter().map(|resource| (part.server, resource.uri.as_str()))
    });
    let templates = known.iter().flat_map(|(_, part, listing)| {
        listing.templates.iter().map(|template| (part.server, template.uri_template.as_str()))
    });
    ResourceUriMap::build(prefixes, resources, templates).with_named(named)
}

/// Adds the tools of the host. A server that is named like the host takes the place of none of them.
fn add_own_tools(
    own: &[Tool],
    shown: &mut Vec<Tool>,
    origins: &mut HashMap<Box<str>, ItemLocation>,
    collisions: &mut Vec<String>,
) {
    for tool in own {
        if origins.remove(tool.name.as_str()).is_some() {
            shown.retain(|shown| shown.name != tool.name);
            let name = &tool.name;
            collisions.push(format!("tools: `{name}` is the host's own, so that of a server is not listed"));
        }
        shown.push(tool.clone());
    }
}

/// Returns tools or prompts under their shown names, and the location of each.
fn named<T: CatalogueItem>(
    items: &[(&str, &T)],
    names: &ShownNameMap,
    positions: &HashMap<&str, usize>,
    name: impl Fn(&T) -> &String,
    rename: impl Fn(&str, &T, &str) -> T,
) -> (Vec<T>, HashMap<Box<str>, ItemLocation>) {
    let mut origins = HashMap::with_capacity(items.len());
    let mut shown = Vec::with_capacity(items.len());
    for (server, item) in items {
        let original = name(item);
        let (Some(under), Some(position)) = (names.shown(server, original), positions.get(server)) else {
            continue;
        };
        let place = ItemLocation { server: *position, name: original.as_str().into() };
        // A server that lists a name twice lists it once: the first.
        if origins.insert(under.into(), place).is_none() {
            shown.push(rename(server, item, under));
        }
    }
    (shown, origins)
}

fn kept<T: CatalogueItem>(now: PagedList<T>, before: Option<&Arc<PagedList<T>>>) -> Arc<PagedList<T>> {
    match before {
        Some(before) if before.is_same(&now) => Arc::clone(before),
        _ => Arc::new(now),
    }
}

/// Creates the resource that reports the status of the servers.
pub(crate) fn status_resource() -> Resource {
    Resource::new(STATUS_URI, "status")
        .with_title("Server status")
        .with_description(
            "The servers behind this endpoint, their status, and the problems of those not ready.",
        )
        .with_mime_type("application/json")
}

/// Creates the resource that reports the status of the calling user's accounts.
pub(crate) fn accounts_resource() -> Resource {
    Resource::new(ACCOUNTS_URI, "accounts")
        .with_title("Your accounts")
        .with_description(
            "Your accounts at these servers: which are connected, and where to disconnect them.",
        )
        .with_mime_type("application/json")
}

impl CatalogueItem for Tool {
    fn key(&self) -> &str {
        &self.name
    }

    fn list(items: Vec<Self>, next_cursor: Option<String>) -> Reply {
        let mut result = ListToolsResult::new(items);
        result.next_cursor = next_cursor;
        result.into()
    }
}

impl CatalogueItem for Prompt {
    fn key(&self) -> &str {
        &self.name
    }

    fn list(items: Vec<Self>, next_cursor: Option<String>) -> Reply {
        let mut result = ListPromptsResult::new(items);
        result.next_cursor = next_cursor;
        result.into()
    }
}

impl CatalogueItem for Resource {
    fn key(&self) -> &str {
        &self.uri
    }

    fn list(items: Vec<Self>, next_cursor: Option<String>) -> Reply {
        let mut result = ListResourcesResult::new(items);
        result.next_cursor = next_cursor;
        result.into()
    }
}

impl CatalogueItem for ResourceTemplate {
    fn key(&self) -> &str {
        &self.uri_template
    }

    fn list(items: Vec<Self>, next_cursor: Option<String>) -> Reply {
        let mut result = ListResourceTemplatesResult::new(items);
        result.next_cursor = next_cursor;
        result.into()
    }
}
