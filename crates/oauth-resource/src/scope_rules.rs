//! Scopes that calls need.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use hospes::Params;
use hospes_auth::Scopes;
use hospes_model::{Method, SubscriptionsListenParams};

/// Rules for the scopes that a call needs, and for scopes that imply others.
///
/// ```
/// # use hospes_auth::Scopes;
/// # use hospes_oauth_resource::ScopeRules;
/// let rules = ScopeRules::default()
///     .tool("delete", Scopes::parse("files:write"))
///     .implies("files", Scopes::parse("files:read files:write"));
/// assert!(rules.covers(&Scopes::parse("files"), &Scopes::parse("files:write")));
/// ```
#[derive(Clone, Default)]
pub struct ScopeRules {
    always: Scopes,
    methods: BTreeMap<Box<str>, Scopes>,
    named: HashMap<(&'static str, Box<str>), Scopes>,
    implied: HashMap<Box<str>, Scopes>,
    more: Option<Arc<ScopeFunction>>,
}

type ScopeFunction = dyn Fn(&Method, &Params) -> Scopes + Send + Sync;

impl ScopeRules {
    /// Sets scopes that every request needs in addition.
    #[must_use]
    pub fn always(mut self, scopes: Scopes) -> Self {
        self.always = scopes;
        self
    }

    /// Sets the scopes for a method, by name.
    #[must_use]
    pub fn method(mut self, method: &str, scopes: Scopes) -> Self {
        self.methods.insert(method.into(), scopes);
        self
    }

    /// Sets the scopes for calls of a tool.
    #[must_use]
    pub fn tool(self, name: &str, scopes: Scopes) -> Self {
        self.name("tools/call", name, scopes)
    }

    /// Sets the scopes for a prompt.
    #[must_use]
    pub fn prompt(self, name: &str, scopes: Scopes) -> Self {
        self.name("prompts/get", name, scopes)
    }

    /// Sets the scopes for reading a resource and subscribing to it. URIs are compared regardless of percent-encoding.
    #[must_use]
    pub fn resource(self, uri: &str, scopes: Scopes) -> Self {
        self.name("resources/read", &percent_decode(uri), scopes)
    }

    /// Declares that `scope` includes these scopes.
    #[must_use]
    pub fn implies(mut self, scope: &str, scopes: Scopes) -> Self {
        self.implied.insert(scope.into(), scopes);
        self
    }

    /// Adds a function that returns further required scopes, for example depending on arguments.
    #[must_use]
    pub fn also(mut self, more: impl Fn(&Method, &Params) -> Scopes + Send + Sync + 'static) -> Self {
        self.more = Some(Arc::new(more));
        self
    }

    fn name(mut self, method: &'static str, name: &str, scopes: Scopes) -> Self {
        self.named.insert((method, name.into()), scopes);
        self
    }

    /// Returns the scopes that every request needs.
    #[must_use]
    pub fn always_required(&self) -> &Scopes {
        &self.always
    }

    /// Returns true if calls differ in the scopes that they need.
    #[must_use]
    pub fn vary_by_call(&self) -> bool {
        !self.methods.is_empty() || !self.named.is_empty() || self.more.is_some()
    }

    /// Returns all scopes that this call needs.
    #[must_use]
    pub fn needed(&self, method: &Method, params: &Params) -> Scopes {
        let mut needed = self.always.clone();
        if let Some(scopes) = self.methods.get(method.name()) {
            needed = needed.union(scopes);
        }
        let view = params.view();
        let name = || view.name.as_deref().map(Box::from);
        let (kind, names): (_, Vec<Box<str>>) = match method {
            Method::ToolsCall => ("tools/call", name().into_iter().collect()),
            Method::PromptsGet => ("prompts/get", name().into_iter().collect()),
            Method::ResourcesRead | Method::ResourcesSubscribe => {
                ("resources/read", view.uri.iter().map(|uri| percent_decode(uri).into()).collect())
            }
            // Params that cannot be read open no stream.
            Method::SubscriptionsListen => {
                let listen = params.decode::<SubscriptionsListenParams>().ok();
                let uris = listen.map(|listen| listen.notifications.resource_subscriptions);
                let uris = uris.unwrap_or_default();
                ("resources/read", uris.iter().map(|uri| percent_decode(uri).into()).collect())
            }
            _ => ("", Vec::new()),
        };
        for name in names {
            if let Some(scopes) = self.named.get(&(kind, name)) {
                needed = needed.union(scopes);
            }
        }
        match &self.more {
            Some(more) => needed.union(&more(method, params)),
            None => needed,
        }
    }

    /// Returns true if `held` includes `needed`, by name or because another scope implies it.
    #[must_use]
    pub fn covers(&self, held: &Scopes, needed: &Scopes) -> bool {
        if held.contains_all(needed) {
            return true;
        }
        let mut all = held.clone();
        // Implied scopes may imply others. It ends even with circles, because every round adds a scope or
        // is the last.
        loop {
            let more = all.iter().filter_map(|scope| self.implied.get(scope));
            let wider = more.fold(all.clone(), |all, implied| all.union(implied));
            if wider.len() == all.len() {
                return all.contains_all(needed);
            }
            all = wider;
        }
    }
}

/// Decodes the percent-encoding of a URI for comparison. Confusing two URIs only requires more scopes, never fewer.
fn percent_decode(uri: &str) -> String {
    let mut rest = uri.as_bytes();
    let mut plain = Vec::with_capacity(rest.len());
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        // A `%` without two hexadecimal digits after it stands for itself.
        let decoded = digit(0).zip(digit(1)).filter(|_| *first == b'%');
        match decoded.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    // Bytes that are no UTF-8 all become the same character, which can only make two URIs equal.
    String::from_utf8_lossy(&plain).into_owned()
}

impl fmt::Debug for ScopeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { always, methods, named, implied, .. } = self;
        f.debug_struct("ScopeRules")
            .field("always", always)
            .field("methods", methods)
            .field("named", named)
            .field("implied", implied)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_the_same_however_it_is_written() {
        let rules = ScopeRules::default().resource("file:///srv/a%20b", Scopes::parse("files"));
        for method in [Method::ResourcesRead, Method::ResourcesSubscribe] {
            for uri in ["file:///srv/a%20b", "file:///srv/%61 b", "file:///%73rv/a b"] {
                let text = serde_json::json!({ "uri": uri }).to_string();
                let raw = hospes_model::RawJson::parse(text).unwrap();
                let params = Params::new(raw);
                assert_eq!(rules.needed(&method, &params), Scopes::parse("files"), "{uri}");
            }
        }
        let text = r#"{"notifications":{"resourceSubscriptions":["file:///other","file:///srv/%61%20b"]}}"#;
        let listen = Params::new(hospes_model::RawJson::parse(text.to_owned()).unwrap());
        assert_eq!(rules.needed(&Method::SubscriptionsListen, &listen), Scopes::parse("files"));
        assert_eq!(percent_decode("100%"), "100%");
        assert_eq!(percent_decode("%4"), "%4");
        assert_eq!(percent_decode("%zz%2"), "%zz%2");
    }
}
