//! Paginated lists.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use futures::Stream;
use futures::future::BoxFuture;
use hospes_model::{Meta, Method, Prompt, Reply, Resource, ResourceTemplate, Task, Tool};

use crate::client::connection::handle::Client;
use crate::client::connection::lenient_lists::UNREADABLE_ENTRIES;
use crate::client::error::CallError;
use crate::client::error::malformed;
use crate::client::link::{MAX_PAGES, OutgoingParams, OutgoingRequest, write_json_string};

/// Maximum number of omitted entries of which a list says why.
const MAX_UNREADABLE: usize = 100;

/// A page: its items, where the next one begins, and its metadata.
type ListingPage<T> = (Vec<T>, Option<String>, Meta);

/// A list of the server: a stream of its items that fetches pages on demand, or all items together.
///
/// ```no_run
/// # async fn f(client: hospes::client::Client) -> hospes::Result<()> {
/// let mut tools = client.tools();
/// while let Some(tool) = tools.next().await {
///     println!("{}", tool?.name);
/// }
/// let names: Vec<String> = client.prompts().all().await?.into_iter().map(|prompt| prompt.name).collect();
/// # Ok(())
/// # }
/// ```
#[must_use = "a list is not requested until it is polled"]
pub struct PaginatedStream<'c, T> {
    client: &'c Client,
    items: VecDeque<T>,
    next: NextPage<'c, T>,
    seen: HashSet<String>,
    refresh: bool,
    unreadable: Vec<String>,
}

enum NextPage<'c, T> {
    Ask(Option<String>),
    Asked(BoxFuture<'c, Result<ListingPage<T>, CallError>>),
    Failed(CallError),
    Done,
}

/// An item of a list.
pub trait Listed: Sized + Send + Unpin + 'static {
    #[doc(hidden)]
    const METHOD: Method;

    #[doc(hidden)]
    fn page(reply: Reply) -> Option<(Vec<Self>, Option<String>, Meta)>;
}

macro_rules! listed {
    ($($type:ident, $method:ident, $reply:ident, $items:ident;)+) => {$(
        impl Listed for $type {
            const METHOD: Method = Method::$method;

            fn page(reply: Reply) -> Option<(Vec<Self>, Option<String>, Meta)> {
                match reply {
                    Reply::$reply(result) => Some((result.$items, result.next_cursor, result.meta)),
                    _ => None,
                }
            }
        }
    )+};
}

listed! {
    Tool, ToolsList, ListTools, tools;
    Prompt, PromptsList, ListPrompts, prompts;
    Resource, ResourcesList, ListResources, resources;
    ResourceTemplate, ResourceTemplatesList, ListResourceTemplates, resource_templates;
    Task, TasksList, ListTasks, tasks;
}

impl<'c, T: Listed> PaginatedStream<'c, T> {
    pub(crate) fn new(client: &'c Client, offered: Result<(), CallError>) -> Self {
        let next = match offered {
            Ok(()) => NextPage::Ask(None),
            Err(error) => NextPage::Failed(error),
        };
        Self {
            client,
            items: VecDeque::new(),
            next,
            seen: HashSet::new(),
            refresh: false,
            unreadable: Vec::new(),
        }
    }

    /// Asks the server even for pages of which an answer is kept that is still fresh.
    pub fn refresh(mut self) -> Self {
        self.refresh = true;
        self
    }

    /// Fetches the whole list.
    ///
    /// # Errors
    /// If one of the pages cannot be fetched.
    pub async fn all(mut self) -> Result<Vec<T>, CallError> {
        let mut all = Vec::new();
        while let Some(item) = self.next().await {
            all.push(item?);
            // What has come with the same page needs no further waiting.
            all.extend(self.items.drain(..));
        }
        Ok(all)
    }

    /// Returns the next item, or `None` at the end.
    pub async fn next(&mut self) -> Option<Result<T, CallError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Returns the entries of the pages so far that were left out because they are invalid: one sentence each, with the
    /// name of the entry, or its number, and the reason. Each sentence is given once.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    fn add_unreadable(&mut self, meta: &Meta) {
        let faults: Vec<String> = meta.read(UNREADABLE_ENTRIES).unwrap_or_default();
        for fault in faults {
            // A server may repeat a page under new cursors.
            if self.unreadable.len() < MAX_UNREADABLE && !self.unreadable.contains(&fault) {
                self.unreadable.push(fault);
            }
        }
    }

    /// Follows a cursor. Any value is a cursor, even an empty string; only a missing cursor ends the list. A repeated
    /// cursor is an error, because the pages would never end.
    fn advance(&mut self, cursor: Option<String>) -> NextPage<'c, T> {
        let Some(cursor) = cursor else { return NextPage::Done };
        if self.seen.len() >= MAX_PAGES {
            return NextPage::Failed(malformed(&T::METHOD, "it has too many pages"));
        }
        if !self.seen.insert(cursor.clone()) {
            return NextPage::Failed(malformed(&T::METHOD, "its cursors repeat"));
        }
        NextPage::Ask(Some(cursor))
    }
}

impl<T: Listed> Stream for PaginatedStream<'_, T> {
    type Item = Result<T, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(item) = this.items.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            match &mut this.next {
                NextPage::Ask(cursor) => {
                    let (client, cursor, refresh) = (this.client, cursor.take(), this.refresh);
                    // Boxed, because the type of an `async fn`'s future cannot be named in a field.
                    this.next = NextPage::Asked(Box::pin(fetch_page(client, cursor, refresh)));
                }
                NextPage::Asked(page) => {
                    let page = ready!(page.as_mut().poll(cx));
                    this.next = match page {
                        Ok((items, cursor, meta)) => {
                            this.items = items.into();
                            this.add_unreadable(&meta);
                            this.advance(cursor)
                        }
                        Err(error) => NextPage::Failed(error),
                    };
                }
                NextPage::Failed(error) => {
                    let error = error.clone();
                    this.next = NextPage::Done;
                    return Poll::Ready(Some(Err(error)));
                }
                NextPage::Done => return Poll::Ready(None),
            }
        }
    }
}

async fn fetch_page<T: Listed>(
    client: &Client,
    cursor: Option<String>,
    refresh: bool,
) -> Result<ListingPage<T>, CallError> {
    let mut text = Vec::new();
    if let Some(cursor) = cursor {
        text.extend_from_slice(b"\"cursor\":");
        write_json_string(&mut text, &cursor);
    }
    let method = T::METHOD;
    let outgoing =
        OutgoingRequest { members: OutgoingParams::Text(&text), refresh, ..client.core.new_request(&method) };
    let reply = client.core.complete_request(outgoing, None).await?;
    T::page(reply).ok_or_else(|| malformed(&method, "unexpected result type"))
}

impl<T> fmt::Debug for PaginatedStream<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaginatedStream").finish_non_exhaustive()
    }
}
