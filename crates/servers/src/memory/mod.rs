//! Server with a persistent knowledge graph: entities, observations and relations.

mod graph;
mod import;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use hospes::prelude::*;
use hospes::server::{Json, Resource, ServerHandle};
use hospes::{IntoServer, Server};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use graph::{Entity, KnowledgeGraph, MAX_ITEMS, Part, Relation};

pub use graph::MemoryError;

/// Default maximum number of entities: the setting `max_entities`.
const DEFAULT_MAX_ENTITIES: u32 = 100_000;
/// Maximum number of entities in the list of resources; all of them can be read.
const MAX_LISTED: u32 = 500;
/// URI of the resource with the whole graph.
const GRAPH: &str = "memory://graph";
/// Characters that are not encoded in a URI (RFC 3986, unreserved).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Configuration of the memory server: its file and limits.
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryConfig {
    file: PathBuf,
    import: Option<PathBuf>,
    max_entities: u32,
}

impl MemoryConfig {
    /// Uses this file, which is created if it does not exist, accessible to its owner alone.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), import: None, max_entities: DEFAULT_MAX_ENTITIES }
    }

    /// Imports a file of the reference server for memory (`memory.jsonl`) at the start. Known entities are left
    /// unchanged, so nothing is lost if the import is repeated.
    pub fn import(mut self, file: impl Into<PathBuf>) -> Self {
        self.import = Some(file.into());
        self
    }

    /// Sets the maximum number of entities; 100,000 by default.
    pub fn max_entities(mut self, entities: u32) -> Self {
        self.max_entities = entities;
        self
    }
}

/// Creates a server with a persistent memory across conversations.
///
/// The memory is a graph of entities with a type, observations of them, and relations between them. Its tools have the
/// names and arguments of the reference server for memory, which models may know, and files of that server can be
/// imported. The graph is stored in a SQLite file, which several processes may open concurrently, with full-text
/// search.
///
/// ```no_run
/// # async fn example() -> hospes::Result<()> {
/// use hospes_servers::{MemoryConfig, memory};
///
/// hospes::serve(memory(MemoryConfig::new("/home/me/memory.db"))?).await
/// # }
/// ```
///
/// | tool | description |
/// |---|---|
/// | `create_entities`, `create_relations`, `add_observations` | add data; existing data is not an error |
/// | `delete_entities`, `delete_relations`, `delete_observations` | delete data |
/// | `read_graph`, `search_nodes`, `open_nodes` | return all entities page by page, those with given words, or those with given names |
///
/// Every entity is a resource, `memory://entities/NAME`; the whole graph is `memory://graph`. Subscribers are notified
/// when this process changes it. (Changes of another process to the same file are visible to the next call, without a
/// notification.)
///
/// # Errors
/// If the file cannot be opened, or the file to import cannot be read.
pub fn memory(config: MemoryConfig) -> Result<Server, MemoryError> {
    let MemoryConfig { file, import, max_entities } = config;
    let mut graph = KnowledgeGraph::open(&file, max_entities)?;
    if let Some(file) = import {
        let missing = import::import(&mut graph, &file)?;
        if missing > 0 {
            tracing::warn!(file = %file.display(), missing, "relations with missing entities were skipped");
        }
    }
    let broken = |why: Error| MemoryError::Open { file: file.clone(), source: why.into() };
    let names = graph.names("", MAX_LISTED).map_err(broken)?;
    let memory = MemoryServer(Arc::new(Mutex::new(graph)));
    let mut server = memory.clone().into_server();
    for name in names {
        let memory = memory.clone();
        server = server.resource(listed(&name), move || {
            // The handler is called many times, and each future needs its own clones.
            let (memory, name) = (memory.clone(), name.clone());
            async move { memory.entity(name).await }
        });
    }
    Ok(server)
}

#[derive(Clone)]
struct MemoryServer(Arc<Mutex<KnowledgeGraph>>);

/// What was remembered.
#[derive(Serialize, JsonSchema)]
struct Created {
    /// Those that are new.
    entities: Vec<Entity>,
    /// The names of those that there were already; they were left as they are.
    existing: Vec<String>,
}

/// What was related.
#[derive(Serialize, JsonSchema)]
struct Related {
    /// Those that are new.
    relations: Vec<Relation>,
}

/// Something to remember of an entity.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Observing {
    entity_name: String,
    /// One fact each.
    contents: Vec<String>,
}

/// What was added.
#[derive(Serialize, JsonSchema)]
struct Observed {
    results: Vec<Added>,
}

/// What was added to one entity.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Added {
    entity_name: String,
    /// What was not known yet.
    added_observations: Vec<String>,
}

/// Something to forget of an entity.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Forgetting {
    entity_name: String,
    /// Word for word.
    observations: Vec<String>,
}

/// What was forgotten.
#[derive(Serialize, JsonSchema)]
struct Deleted {
    /// How many there were.
    deleted: usize,
}

/// Remembers from conversation to conversation: entities, what is known of them, and how they stand to one another. Search
/// for what you need before you answer, and add what you learn. Names are unique, and the same each time.
#[hospes::server(name = "memory", title = "Memory")]
impl MemoryServer {
    /// Remembers new entities. Those whose names are there already are left as they are; use `add_observations` for them.
    #[tool(title = "Create entities", destructive = false, idempotent, open_world = false)]
    async fn create_entities(
        &self,
        server: &ServerHandle,
        #[arg(length(min = 1, max = 1000))] entities: Vec<Entity>,
    ) -> Result<Json<Created>> {
        check_item_count(entities.len())?;
        let made = self.change(move |graph| {
            let mut made = Created { entities: Vec::new(), existing: Vec::new() };
            for entity in entities {
                if graph.create(&entity)? {
                    made.entities.push(entity)
                } else {
                    made.existing.push(entity.name)
                }
            }
            Ok(made)
        });
        let made = made.await?;
        // All entities can be read; a very long list of resources would help nobody.
        for entity in made.entities.iter().take(MAX_LISTED as usize) {
            // An entity that is already listed was created by another process, and can be read here as well.
            let (memory, name) = (self.clone(), entity.name.clone());
            let _ = server.add_resource(listed(&entity.name), move || {
                let (memory, name) = (memory.clone(), name.clone());
                async move { memory.entity(name).await }
            });
        }
        self.changed(server, made.entities.iter().map(|entity| &entity.name));
        Ok(Json(made))
    }

    /// Remembers how entities stand to one another. Both have to be there.
    #[tool(title = "Create relations", destructive = false, idempotent, open_world = false)]
    async fn create_relations(
        &self,
        server: &ServerHandle,
        #[arg(length(min = 1, max = 1000))] relations: Vec<Relation>,
    ) -> Result<Json<Related>> {
        check_item_count(relations.len())?;
        let made = self.change(move |graph| {
            let mut made = Vec::new();
            for relation in relations {
                match graph.relate(&relation)? {
                    Some(true) => made.push(relation),
                    Some(false) => {}
                    None => {
                        let Relation { from, to, .. } = &relation;
                        return Err(Error::msg(format!(
                            "unknown entity {from:?} or {to:?}: use create_entities first; nothing was stored"
                        )));
                    }
                }
            }
            Ok(Related { relations: made })
        });
        let made = made.await?;
        self.changed(server, made.relations.iter().flat_map(|relation| [&relation.from, &relation.to]));
        Ok(Json(made))
    }

    /// Remembers more of entities that are known.
    #[tool(title = "Add observations", destructive = false, idempotent, open_world = false)]
    async fn add_observations(
        &self,
        server: &ServerHandle,
        #[arg(length(min = 1, max = 1000))] observations: Vec<Observing>,
    ) -> Result<Json<Observed>> {
        check_item_count(observations.iter().map(|observing| observing.contents.len()).sum())?;
        let added = self.change(move |graph| {
            let mut results = Vec::new();
            for Observing { entity_name, contents } in observations {
                let Some(added_observations) = graph.observe(&entity_name, &contents)? else {
                    return Err(Error::msg(format!(
                        "unknown entity {entity_name:?}: use create_entities first; nothing was stored"
                    )));
                };
                results.push(Added { entity_name, added_observations });
            }
            Ok(Observed { results })
        });
        let added = added.await?;
        self.changed(server, added.results.iter().map(|added| &added.entity_name));
        Ok(Json(added))
    }

    /// Forgets entities, with all that is known of them and their relations.
    #[tool(title = "Delete entities", destructive, idempotent, open_world = false)]
    async fn delete_entities(
        &self,
        server: &ServerHandle,
        #[arg(name = "entityNames", length(min = 1, max = 1000))] names: Vec<String>,
    ) -> Result<Json<Deleted>> {
        check_item_count(names.len())?;
        let gone = self.change(move |graph| {
            let mut gone = Vec::new();
            for name in names {
                if graph.delete(&name)? {
                    gone.push(name);
                }
            }
            Ok(gone)
        });
        let gone = gone.await?;
        for name in &gone {
            server.remove_resource(&uri(name));
        }
        self.changed(server, &gone);
        Ok(Json(Deleted { deleted: gone.len() }))
    }

    /// Forgets some of what is known of entities.
    #[tool(title = "Delete observations", destructive, idempotent, open_world = false)]
    async fn delete_observations(
        &self,
        server: &ServerHandle,
        #[arg(length(min = 1, max = 1000))] deletions: Vec<Forgetting>,
    ) -> Result<Json<Deleted>> {
        check_item_count(deletions.iter().map(|forgetting| forgetting.observations.len()).sum())?;
        // The closure takes the deletions, and the names are needed after it.
        let names: Vec<String> = deletions.iter().map(|forgetting| forgetting.entity_name.clone()).collect();
        let gone = self.change(move |graph| {
            let forget =
                |forgetting: &Forgetting| graph.forget(&forgetting.entity_name, &forgetting.observations);
            deletions.iter().map(forget).sum::<Result<usize>>()
        });
        let deleted = gone.await?;
        self.changed(server, &names);
        Ok(Json(Deleted { deleted }))
    }

    /// Forgets how entities stand to one another.
    #[tool(title = "Delete relations", destructive, idempotent, open_world = false)]
    async fn delete_relations(
        &self,
        server: &ServerHandle,
        #[arg(length(min = 1, max = 1000))] relations: Vec<Relation>,
    ) -> Result<Json<Deleted>> {
        check_item_count(relations.len())?;
        let names: Vec<String> =
            relations.iter().flat_map(|relation| [relation.from.clone(), relation.to.clone()]).collect();
        let gone = self.change(move |graph| {
            let mut deleted = 0;
            for relation in &relations {
                deleted += usize::from(graph.unrelate(relation)?);
            }
            Ok(deleted)
        });
        let deleted = gone.await?;
        self.changed(server, &names);
        Ok(Json(Deleted { deleted }))
    }

    /// All that is remembered, page by page. To find something in particular, use `search_nodes`.
    #[tool(title = "Read the graph", read_only, idempotent, open_world = false)]
    async fn read_graph(
        &self,
        /// How many entities to pass over, as `next` of the answer before says.
        #[arg(default)]
        offset: u32,
        /// How many entities to read.
        #[arg(default = 200, range(min = 1, max = 1000))]
        limit: u32,
    ) -> Result<Json<Part>> {
        self.read_blocking(move |graph| graph.read(offset, limit.min(1000))).await.map(Json)
    }

    /// Finds entities by the words in their names, types and observations, the best first. Words may be beginnings.
    #[tool(title = "Search", read_only, idempotent, open_world = false)]
    async fn search_nodes(
        &self,
        #[arg(length(min = 1, max = 1000))] query: String,
        /// How many entities to find.
        #[arg(default = 20, range(min = 1, max = 200))]
        limit: u32,
    ) -> Result<Json<Part>> {
        self.read_blocking(move |graph| graph.search(&query, limit.min(200))).await.map(Json)
    }

    /// Entities by their names, with what is known of them and their relations.
    #[tool(title = "Open nodes", read_only, idempotent, open_world = false)]
    async fn open_nodes(&self, #[arg(length(min = 1, max = 1000))] names: Vec<String>) -> Result<Json<Part>> {
        check_item_count(names.len())?;
        self.read_blocking(move |graph| graph.open_nodes(&names)).await.map(Json)
    }

    /// The beginning of what is remembered.
    #[resource("memory://graph", name = "Graph", mime = "application/json")]
    async fn graph(&self) -> Result<Json<Part>> {
        self.read_blocking(|graph| graph.read(0, MAX_LISTED)).await.map(Json)
    }

    /// What is known of an entity, and how it stands to others.
    #[resource("memory://entities/{name}", name = "Entity", mime = "application/json")]
    async fn entity(&self, name: String) -> Result<Option<Json<Part>>> {
        let part = self.read_blocking(move |graph| graph.open_nodes(&[name])).await?;
        Ok(Some(part).filter(|part| !part.entities.is_empty()).map(Json))
    }

    #[complete(entity.name)]
    async fn names(&self, typed: &str) -> Result<Vec<String>> {
        let typed = typed.to_owned();
        self.read_blocking(move |graph| graph.names(&typed, 100)).await
    }
}

impl MemoryServer {
    async fn read_blocking<T: Send + 'static>(
        &self,
        look: impl FnOnce(&KnowledgeGraph) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let graph = Arc::clone(&self.0);
        // Locked on the blocking thread, because the holder may wait seconds for a writer in another process.
        let look = move || look(&graph.lock());
        tokio::task::spawn_blocking(look).await?
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&graph::GraphTransaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let graph = Arc::clone(&self.0);
        let change = move || graph.lock().change(change);
        tokio::task::spawn_blocking(change).await?
    }

    /// Notifies the subscribers of these entities, and those of the whole graph.
    #[expect(clippy::unused_self, reason = "beside the others")]
    fn changed<'n>(&self, server: &ServerHandle, names: impl IntoIterator<Item = &'n String>) {
        let mut names = names.into_iter().peekable();
        if names.peek().is_some() {
            server.resource_updated(GRAPH);
        }
        for name in names {
            server.resource_updated(&uri(name));
        }
    }
}

fn uri(name: &str) -> String {
    format!("memory://entities/{}", utf8_percent_encode(name, UNRESERVED))
}

fn listed(name: &str) -> Resource {
    Resource::new(uri(name)).name(name).description("Observations about it.").mime("application/json")
}

fn check_item_count(items: usize) -> Result<()> {
    if items <= MAX_ITEMS {
        Ok(())
    } else {
        Err(Error::msg(format!("at most {MAX_ITEMS} items are accepted at once")))
    }
}
