//! The subject of an HTTP request, as an authorizer sees it.

/// Subject of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSubject<'a> {
    /// MCP method, or another word in its place.
    pub(super) method: &'a str,
    /// Name of the item that the method addresses.
    pub(super) name: Option<&'a str>,
    /// True if no caller waits for it.
    pub(super) background: bool,
}

impl<'a> RequestSubject<'a> {
    pub(super) fn new(method: &'a str, name: Option<&'a str>) -> Self {
        Self { method, name, background: false }
    }

    pub(super) fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }
}
