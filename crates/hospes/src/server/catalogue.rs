//! Registered items of a server, and their lists, page by page.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use hospes_model::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PreparedResult,
    Reply, RpcError,
};

use crate::server::cache_hint::CacheHint;
use crate::server::completed_argument::{ArgumentOwner, Completes};
use crate::server::cursor;
use crate::server::entries::{Completer, PromptEntry, ResourceEntry, TemplateEntry, ToolEntry};
use crate::server::error::RegisterError;
use crate::server::rules::Feature;
use crate::server::suggest::did_you_mean;

/// Everything that is registered.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerCatalogue {
    pub(crate) tools: EntryRegistry<ToolEntry>,
    pub(crate) prompts: EntryRegistry<PromptEntry>,
    pub(crate) resources: EntryRegistry<ResourceEntry>,
    pub(crate) templates: EntryRegistry<TemplateEntry>,
    pub(crate) completers: HashMap<Completes, Arc<Completer>>,
}

impl ServerCatalogue {
    pub(crate) fn complete(&mut self, what: Completes, completer: Completer) -> Result<(), RegisterError> {
        completer.check(&what)?;
        if let Some(arguments) = self.arguments_of(&what.of)
            && !arguments.contains(&&*what.argument)
        {
            let (of, argument) = (what.of().to_owned(), what.argument.into());
            return Err(RegisterError::NoSuchArgument { of, argument });
        }
        if self.completers.contains_key(&what) {
            let name = format!("{} of {}", what.argument, what.of());
            return Err(RegisterError::Duplicate { kind: "completion", name });
        }
        self.completers.insert(what, Arc::new(completer));
        Ok(())
    }

    /// The names of the arguments of a prompt or a template; none if there is no such.
    pub(crate) fn arguments_of(&self, of: &ArgumentOwner) -> Option<Vec<&str>> {
        match of {
            ArgumentOwner::Prompt(name) => {
                let arguments = &self.prompts.get(name)?.listed.arguments;
                Some(arguments.iter().map(|argument| argument.name.as_str()).collect())
            }
            ArgumentOwner::Template(template) => {
                if let Some(entry) = self.templates.get(template) {
                    return Some(entry.template.names().collect());
                }
                self.resources.get(template).map(|_| Vec::new())
            }
        }
    }

    /// Returns the feature that a caller must be allowed to use to complete an argument of `owner`.
    pub(crate) fn completed_feature<'a>(&self, owner: &'a ArgumentOwner) -> Feature<'a> {
        match owner {
            ArgumentOwner::Prompt(name) => Feature::Prompt(name),
            // A reference may name a resource by its URI, too.
            ArgumentOwner::Template(uri) if self.templates.get(uri).is_none() => Feature::Resource(uri),
            ArgumentOwner::Template(template) => Feature::ResourceTemplate(template),
        }
    }

    /// Adds all of `other` behind the present items.
    pub(crate) fn merge(&mut self, other: Self) -> Result<(), RegisterError> {
        self.tools.merge(other.tools)?;
        self.prompts.merge(other.prompts)?;
        self.resources.merge(other.resources)?;
        self.templates.merge(other.templates)?;
        for (what, completer) in other.completers {
            if self.completers.contains_key(&what) {
                let name = format!("{} of {}", what.argument, what.of());
                return Err(RegisterError::Duplicate { kind: "completion", name });
            }
            self.completers.insert(what, completer);
        }
        Ok(())
    }
}

/// Settings of lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListSettings {
    pub(crate) page_size: usize,
    pub(crate) cache: CacheHint,
}

/// Entry of a registry.
pub(crate) trait CatalogueEntry {
    /// Name of the kind in errors.
    const KIND: &'static str;
    /// Tag that distinguishes its cursors from those of other lists.
    const TAG: u8;
    /// Type of its entries in lists.
    type Listed: Clone;

    fn key(&self) -> &str;
    fn feature(&self) -> Feature<'_>;
    fn listed(&self) -> &Self::Listed;
    fn page(entries: Vec<Self::Listed>, next: Option<String>, cache: CacheHint) -> Reply;
}

macro_rules! entries {
    ($($entry:ident: $kind:literal $tag:literal $listed:ident by $key:ident in $result:ident as $feature:ident;)*) => { $(
        impl CatalogueEntry for $entry {
            const KIND: &'static str = $kind;
            const TAG: u8 = $tag;
            type Listed = hospes_model::$listed;

            fn key(&self) -> &str {
                &self.listed.$key
            }

            fn feature(&self) -> Feature<'_> {
                Feature::$feature(self.key())
            }

            fn listed(&self) -> &Self::Listed {
                &self.listed
            }

            fn page(entries: Vec<Self::Listed>, next: Option<String>, cache: CacheHint) -> Reply {
                let mut result = $result::new(entries);
                result.next_cursor = next;
                result.ttl_ms = cache.ttl_ms;
                result.cache_scope = cache.scope;
                result.into()
            }
        }
    )* };
}

entries! {
    ToolEntry: "tool" 1 Tool by name in ListToolsResult as Tool;
    PromptEntry: "prompt" 2 Prompt by name in ListPromptsResult as Prompt;
    ResourceEntry: "resource" 3 Resource by uri in ListResourcesResult as Resource;
    TemplateEntry: "resource template" 4 ResourceTemplate by uri_template in ListResourceTemplatesResult as ResourceTemplate;
}

/// Entries by name, and in the order in which they were registered (TOOL-40).
#[derive(Debug)]
pub(crate) struct EntryRegistry<E> {
    by_name: HashMap<Box<str>, (u64, Arc<E>)>,
    /// By their numbers, which grow.
    in_order: Vec<(u64, Arc<E>)>,
    last: u64,
    /// The pages that a reader who begins at the beginning gets, by the entry that they follow.
    pages: OnceLock<Vec<(u64, Arc<PreparedResult>)>>,
}

impl<E> Default for EntryRegistry<E> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), in_order: Vec::new(), last: 0, pages: OnceLock::new() }
    }
}

impl<E> Clone for EntryRegistry<E> {
    fn clone(&self) -> Self {
        Self {
            by_name: self.by_name.clone(),
            in_order: self.in_order.clone(),
            last: self.last,
            pages: self.pages.clone(),
        }
    }
}

impl<E: CatalogueEntry> EntryRegistry<E> {
    /// Returns true if there is, or ever was, an entry.
    pub(crate) fn was_ever_used(&self) -> bool {
        self.last > 0
    }

    pub(crate) fn get(&self, name: &str) -> Option<&E> {
        self.by_name.get(name).map(|(_, entry)| &**entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.in_order.iter().map(|(_, entry)| &**entry)
    }

    pub(crate) fn add(&mut self, entry: E) -> Result<(), RegisterError> {
        self.add_shared(Arc::new(entry))
    }

    fn add_shared(&mut self, entry: Arc<E>) -> Result<(), RegisterError> {
        let name = entry.key();
        if self.by_name.contains_key(name) {
            return Err(RegisterError::Duplicate { kind: E::KIND, name: name.to_owned() });
        }
        // No number is used twice, so that a cursor never points behind another entry than it was made for.
        self.last += 1;
        self.by_name.insert(name.into(), (self.last, Arc::clone(&entry)));
        self.in_order.push((self.last, entry));
        self.pages = OnceLock::new();
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some((number, _)) = self.by_name.remove(name) else { return false };
        if let Ok(place) = self.in_order.binary_search_by_key(&number, |(number, _)| *number) {
            self.in_order.remove(place);
        }
        self.pages = OnceLock::new();
        true
    }

    fn merge(&mut self, other: Self) -> Result<(), RegisterError> {
        other.in_order.into_iter().try_for_each(|(_, entry)| self.add_shared(entry))
    }

    /// Forgets the pages, when they are to be cut otherwise.
    pub(crate) fn clear_pages(&mut self) {
        self.pages = OnceLock::new();
    }

    /// The page that begins at `cursor`.
    ///
    /// # Errors
    /// `-32602` for a cursor that we did not give out (PAGE-13).
    pub(crate) fn page(
        &self,
        cursor: Option<&str>,
        listing: ListSettings,
        may: Option<&dyn Fn(Feature<'_>) -> bool>,
    ) -> Result<Reply, RpcError> {
        let after = match cursor {
            None => 0,
            Some(cursor) => cursor::read(E::TAG, cursor)
                .filter(|after| (1..=self.last).contains(after))
                .ok_or_else(|| RpcError::invalid_params("invalid cursor: begin again without one"))?,
        };
        // Pages are prepared for callers who may see everything.
        if may.is_some() {
            return Ok(self.build_page(after, listing, may).0);
        }
        let pages = self.pages.get_or_init(|| {
            let (mut pages, mut after) = (Vec::new(), Some(0));
            while let Some(begin) = after {
                let (page, next) = self.build_page(begin, listing, None);
                pages.push((begin, Arc::new(PreparedResult::new(page))));
                after = next;
            }
            pages
        });
        match pages.iter().find(|(begin, _)| *begin == after) {
            Some((_, page)) => Ok(Arc::clone(page).into()),
            // The list has changed since the cursor was given out.
            None => Ok(self.build_page(after, listing, None).0),
        }
    }

    /// The page after an entry, and the entry that the next one follows.
    fn build_page(
        &self,
        after: u64,
        listing: ListSettings,
        may: Option<&dyn Fn(Feature<'_>) -> bool>,
    ) -> (Reply, Option<u64>) {
        let begin = self.in_order.partition_point(|(number, _)| *number <= after);
        let allowed = |entry: &E| may.is_none_or(|may| may(entry.feature()));
        let mut rest = self.in_order[begin..].iter().filter(|(_, entry)| allowed(entry));
        let mut last = after;
        let entries = rest.by_ref().take(listing.page_size).map(|(number, entry)| {
            last = *number;
            entry.listed().clone()
        });
        let entries: Vec<E::Listed> = entries.collect();
        let next = rest.next().map(|_| last);
        (E::page(entries, next.map(|after| cursor::write(E::TAG, after)), listing.cache), next)
    }

    /// `-32602` for a name that nothing has which this caller may use.
    pub(crate) fn unknown_name_error(&self, name: &str, may: impl Fn(Feature<'_>) -> bool) -> RpcError {
        let shown = super::mistakes::shortened(name, 128);
        // A suggestion must not name what this caller may not use.
        let names = self.iter().filter(|entry| may(entry.feature())).map(CatalogueEntry::key);
        let meant = did_you_mean(name, names);
        RpcError::invalid_params(format!("unknown {}: {shown}{meant}", E::KIND))
    }
}
