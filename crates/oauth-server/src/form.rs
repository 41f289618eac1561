//! Request parameters, each at most once.

use std::collections::HashMap;

/// Parameters of a query or a form. Repeated parameters are detected and not chosen from (RFC 6749, section 3.1).
#[derive(Debug, Default)]
pub(super) struct RequestForm {
    fields: HashMap<String, String>,
    repeated: Option<String>,
}

/// Maximum number of parameters; further ones count as repeated.
const MAX_FIELDS: usize = 64;

impl RequestForm {
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut form = Self::default();
        for (name, value) in url::form_urlencoded::parse(text) {
            // RFC 6749, section 3.1: without a value it is as if it were not there.
            if value.is_empty() {
                continue;
            }
            let full = form.fields.len() >= MAX_FIELDS;
            if full || form.fields.contains_key(&*name) {
                form.repeated.get_or_insert_with(|| name.clone().into_owned());
                continue;
            }
            form.fields.insert(name.into_owned(), value.into_owned());
        }
        form
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Returns a repeated parameter, if there is one.
    pub(super) fn repeated(&self) -> Option<&str> {
        self.repeated.as_deref()
    }
}
