//! Items that a server offers, as they were read from its lists.

use std::fmt;
use std::sync::Arc;

use hospes_model::{Method, Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool};

/// Items that a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct UpstreamListing {
    /// Tools of the server.
    pub tools: Arc<Vec<Tool>>,
    /// Prompts of the server.
    pub prompts: Arc<Vec<Prompt>>,
    /// Resources of the server.
    pub resources: Arc<Vec<Resource>>,
    /// Resource templates of the server.
    pub templates: Arc<Vec<ResourceTemplate>>,
    /// Entries and lists that could not be read; all others are available.
    pub problems: Vec<ListProblem>,
}

/// A list, or an entry of a list, that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListProblem {
    /// The method of the list.
    pub list: &'static str,
    /// Description of the problem.
    pub text: String,
    /// True if nothing of the list could be read.
    pub whole: bool,
}

impl fmt::Display for ListProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.list, self.text)
    }
}

impl UpstreamListing {
    /// Number of lists that could not be read at all.
    pub(crate) fn lost(&self) -> usize {
        self.problems.iter().filter(|problem| problem.whole).count()
    }

    /// Returns the lists that could not be read at all.
    pub(crate) fn lost_kinds(&self) -> ListKinds {
        let is_lost = |of: &[Method]| {
            let mut names = of.iter().filter_map(|method| method.info()).map(|info| info.name);
            names.any(|name| self.problems.iter().any(|problem| problem.whole && problem.list == name))
        };
        ListKinds {
            tools: is_lost(&[Method::ToolsList]),
            prompts: is_lost(&[Method::PromptsList]),
            resources: is_lost(&[Method::ResourcesList, Method::ResourceTemplatesList]),
        }
    }
}

/// Selection of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain data: the three lists that can change")]
pub struct ListKinds {
    /// The tools.
    pub tools: bool,
    /// The prompts.
    pub prompts: bool,
    /// The resources and their templates.
    pub resources: bool,
}

impl ListKinds {
    /// Returns the lists that a server with these capabilities has.
    #[must_use]
    pub fn offered(capabilities: &ServerCapabilities) -> Self {
        Self {
            tools: capabilities.tools.is_some(),
            prompts: capabilities.prompts.is_some(),
            resources: capabilities.resources.is_some(),
        }
    }

    /// Returns the lists whose changes a server with these capabilities reports.
    #[must_use]
    pub fn watched(capabilities: &ServerCapabilities) -> Self {
        Self {
            tools: capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true)),
            prompts: capabilities.prompts.as_ref().is_some_and(|prompts| prompts.list_changed == Some(true)),
            resources: capabilities.resources.as_ref().is_some_and(|list| list.list_changed == Some(true)),
        }
    }

    /// Returns true if a list is in both selections.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        (self.tools && other.tools) || (self.prompts && other.prompts) || (self.resources && other.resources)
    }

    /// Returns the lists of both selections.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            prompts: self.prompts || other.prompts,
            resources: self.resources || other.resources,
        }
    }

    /// Number of requests needed to read the lists.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.tools) + usize::from(self.prompts) + 2 * usize::from(self.resources)
    }

    /// Returns true if any list is selected.
    #[must_use]
    pub fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }
}
