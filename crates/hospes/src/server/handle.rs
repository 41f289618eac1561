//! Changing a server while it runs.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::error::Error;
use crate::server::call_parts::{CallParts, FromCall};
use crate::server::catalogue::ServerCatalogue;
use crate::server::change_bus::ChangedList;
use crate::server::complete::IntoCompleter;
use crate::server::completed_argument::Completes;
use crate::server::entries::{PromptEntry, ResourceEntry, TemplateEntry, ToolEntry};
use crate::server::error::RegisterError;
use crate::server::handler::Handler;
use crate::server::prompt::{IntoPrompt, Prompt};
use crate::server::resource::{IntoResourceReader, Resource, Template};
use crate::server::result::IntoToolResult;
use crate::server::shared::ServerShared;
use crate::server::tool::Tool;

/// Changes what a running server offers, and tells those who listen.
///
/// From [`Server::handle`](crate::Server::handle), or taken by a handler as a parameter. A handle does not keep its
/// server alive: once that is dropped, additions fail with [`RegisterError::Gone`] and all else does nothing.
#[derive(Clone)]
pub struct ServerHandle(Weak<ServerShared>);

impl ServerHandle {
    pub(crate) fn of(shared: &Arc<ServerShared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    /// Adds a tool; see [`Server::tool`](crate::Server::tool).
    ///
    /// # Errors
    /// What [`Server::tool`](crate::Server::tool) would panic with.
    pub fn add_tool<H, P>(&self, tool: impl Into<Tool>, handler: H) -> Result<(), RegisterError>
    where
        H: Handler<P>,
        H::Output: IntoToolResult,
    {
        let entry = ToolEntry::new(tool.into(), handler)?;
        self.change(ChangedList::Tools, |catalogue| catalogue.tools.add(entry))
    }

    /// Removes a tool and returns false if there is none of that name. Running calls continue.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(ChangedList::Tools, |catalogue| catalogue.tools.remove(name))
    }

    /// Adds a prompt; see [`Server::prompt`](crate::Server::prompt).
    ///
    /// # Errors
    /// What [`Server::prompt`](crate::Server::prompt) would panic with.
    pub fn add_prompt<H, P>(&self, prompt: impl Into<Prompt>, handler: H) -> Result<(), RegisterError>
    where
        H: Handler<P>,
        H::Output: IntoPrompt,
    {
        let entry = PromptEntry::new(prompt.into(), handler)?;
        self.change(ChangedList::Prompts, |catalogue| catalogue.prompts.add(entry))
    }

    /// Removes a prompt and returns false if there is none of that name.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(ChangedList::Prompts, |catalogue| catalogue.prompts.remove(name))
    }

    /// Adds a resource; see [`Server::resource`](crate::Server::resource).
    ///
    /// # Errors
    /// What [`Server::resource`](crate::Server::resource) would panic with.
    pub fn add_resource<M>(
        &self,
        resource: impl Into<Resource>,
        source: impl IntoResourceReader<M>,
    ) -> Result<(), RegisterError> {
        let entry = ResourceEntry::new(resource.into(), source)?;
        self.change(ChangedList::Resources, |catalogue| catalogue.resources.add(entry))
    }

    /// Removes a resource and returns false if there is none at that URI.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.remove(ChangedList::Resources, |catalogue| catalogue.resources.remove(uri))
    }

    /// Adds a resource template; see [`Server::resource_template`](crate::Server::resource_template).
    ///
    /// # Errors
    /// What [`Server::resource_template`](crate::Server::resource_template) would panic with.
    pub fn add_resource_template<M>(
        &self,
        template: impl Into<Template>,
        source: impl IntoResourceReader<M>,
    ) -> Result<(), RegisterError> {
        let entry = TemplateEntry::new(template.into(), source)?;
        self.change(ChangedList::Resources, |catalogue| catalogue.templates.add(entry))
    }

    /// Removes a resource template and returns false if there is no such template.
    pub fn remove_resource_template(&self, template: &str) -> bool {
        self.remove(ChangedList::Resources, |catalogue| catalogue.templates.remove(template))
    }

    /// Adds a completion; see [`Server::complete`](crate::Server::complete).
    ///
    /// # Errors
    /// What [`Server::complete`](crate::Server::complete) would panic with.
    pub fn add_completion<M>(
        &self,
        what: Completes,
        values: impl IntoCompleter<M>,
    ) -> Result<(), RegisterError> {
        let completer = values.into_completer();
        let shared = self.0.upgrade().ok_or(RegisterError::Gone)?;
        shared.change(|catalogue| catalogue.complete(what, completer))
    }

    /// Notifies the subscribers of this resource that it has changed.
    pub fn resource_updated(&self, uri: &str) {
        if let Some(shared) = self.0.upgrade() {
            shared.bus.notify_resource_updated(uri);
        }
    }

    /// Returns the number of listeners for changes.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.0.upgrade().map_or(0, |shared| shared.bus.listeners())
    }

    /// Ends every stream of changes, as a server does that is about to stop (SUBS-08).
    pub fn end_subscriptions(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.bus.close();
        }
    }

    fn change(
        &self,
        list: ChangedList,
        change: impl FnOnce(&mut ServerCatalogue) -> Result<(), RegisterError>,
    ) -> Result<(), RegisterError> {
        let shared = self.0.upgrade().ok_or(RegisterError::Gone)?;
        shared.change(change)?;
        // After the change, because whoever is told asks for the list at once.
        shared.bus.notify_list_changed(list);
        Ok(())
    }

    fn remove(&self, list: ChangedList, remove: impl FnOnce(&mut ServerCatalogue) -> bool) -> bool {
        let Some(shared) = self.0.upgrade() else { return false };
        let removed = shared.change(|catalogue| Ok(remove(catalogue))).unwrap_or(false);
        if removed {
            shared.bus.notify_list_changed(list);
        }
        removed
    }
}

impl FromCall for ServerHandle {
    fn from_call(parts: &CallParts<'_>) -> Result<Self, Error> {
        Ok(Self::of(parts.shared))
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerHandle")
    }
}
