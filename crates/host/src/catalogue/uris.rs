//! Resource URIs of many servers on one endpoint.
//!
//! URIs are meaningful to people and models, so a URI stays unchanged if it can refer to only one server's resource. A
//! URI that could not be routed back is *wrapped*:
//!
//! ```text
//! file:///notes.txt   listed by `files` and by `backup`
//!   → hospes://files/file:///notes.txt
//!   → hospes://backup/file:///notes.txt
//! ```
//!
//! The original follows the server's [`ServerPrefix`] unchanged, without further percent-encoding. So unwrapping
//! removes a prefix and is exact for every URI. A template stays a template with the same expansion of its variables. A
//! valid URI stays valid, because a path may contain `:` and `//`, and a query stays the query.
//!
//! These URIs are wrapped:
//! - a URI listed by more than one server, for each of them;
//! - a template offered by more than one server, where templates that differ only in their variables' names count as
//!   the same;
//! - a template that does not begin with a literal scheme (`{+uri}` would claim every URI there is);
//! - a URI or template that itself begins with `hospes:`, as those of another Hospes behind this one do. A server
//!   therefore cannot list its way into the wrapped URIs of another.
//!
//! An incoming URI is routed by the first of these steps that yields exactly one server: the wrapping, an exact listed
//! URI, a matching template, the only server that uses its scheme, the only server. If a step yields several, the
//! result is [`RouteError::Ambiguous`] with the wrapped forms to use. Guessing would let a server that lists another
//! server's URI receive requests meant for the other one.
//!
//! URIs of `ui` and `skill` must keep their scheme, so they get the label inside whenever there are several servers:
//! `ui://clock/app.html` of `b` becomes `ui://b/clock/app.html`, even if no other server has it, so that a second one
//! renames nothing. An incoming one is routed by its label or, without a label, to the only server that lists it, names
//! it in a tool, or has a matching template.
//!
//! [`ResourceUriMap::show`] is the inverse for everything a server sends, listed or not (an updated sub-resource, a
//! link in a result): it leaves the URI unchanged if it would be routed back to that server, and wraps it otherwise.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::labels::LabelledUri;
use super::names::{ServerPrefix, ServerPrefixes};

/// The scheme of wrapped URIs.
pub const SCHEME: &str = "hospes";

/// Decides whether a URI is an expansion of a URI template: `(template, uri)`.
pub type UriTemplateMatcher<'a> = &'a dyn Fn(&str, &str) -> bool;

/// The stored mapping between shown resource URIs and the servers they belong to.
#[derive(Debug, Clone, Default)]
pub struct ResourceUriMap {
    prefixes: ServerPrefixes,
    listed: HashMap<String, BTreeSet<String>>,
    /// Unwrapped templates, with the servers that offer each; wrapped ones need no entry.
    templates: BTreeMap<String, BTreeSet<String>>,
    /// Template shapes (variables' names blanked), with the servers that offer each.
    shapes: HashMap<String, BTreeSet<String>>,
    schemes: HashMap<String, BTreeSet<String>>,
    /// The URIs that are not listed but named by a server's tools, with the servers.
    named: HashMap<String, BTreeSet<String>>,
    /// True if there are several servers, so that labels are needed.
    labels: bool,
    /// The only server, whose URIs are all shown unchanged.
    alone: Option<String>,
}

impl ResourceUriMap {
    /// Creates a map for a single server, whose URIs are shown unchanged.
    #[must_use]
    pub fn alone(server: &str) -> Self {
        Self { alone: Some(server.to_owned()), ..Self::default() }
    }

    /// Maps the resources and templates of all servers, both given as pairs of a server and a URI.
    ///
    /// Servers without a prefix are left out; the order does not matter.
    pub fn build<'a>(
        prefixes: &ServerPrefixes,
        resources: impl IntoIterator<Item = (&'a str, &'a str)>,
        templates: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let labels = prefixes.servers().nth(1).is_some();
        let mut uris = Self { prefixes: prefixes.clone(), labels, ..Self::default() };
        for (server, uri) in resources {
            if prefixes.of(server).is_none() || is_reserved(uri) {
                continue;
            }
            uris.listed.entry(uri.to_owned()).or_default().insert(server.to_owned());
            uris.note_scheme(server, uri);
        }
        for (server, template) in templates {
            if prefixes.of(server).is_none() || is_reserved(template) || scheme(template).is_none() {
                continue;
            }
            uris.templates.entry(template.to_owned()).or_default().insert(server.to_owned());
            uris.shapes.entry(shape(template)).or_default().insert(server.to_owned());
            uris.note_scheme(server, template);
        }
        uris
    }

    /// Adds URIs that the tools of servers name without listing them, as pairs of a server and a URI.
    #[must_use]
    pub fn with_named<'a>(mut self, named: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        for (server, uri) in named {
            if self.prefixes.of(server).is_some() && !is_reserved(&uri) {
                self.note_scheme(server, &uri);
                self.named.entry(uri).or_default().insert(server.to_owned());
            }
        }
        self
    }

    /// Returns whether URIs of some schemes carry a label.
    pub(crate) fn has_labels(&self) -> bool {
        self.labels
    }

    /// Returns the URI with its server's label, if its scheme requires one and the URI can have it.
    fn labelled(&self, server: &str, uri: &str) -> Option<String> {
        let labelled = LabelledUri::of(uri).filter(|_| self.labels)?;
        labelled.with(self.prefixes.of(server)?.as_str())
    }

    /// Returns true if a URI requires a label but cannot have one, so that it is not listed.
    pub(crate) fn is_unlabelable(&self, server: &str, uri: &str) -> bool {
        self.labels && LabelledUri::of(uri).is_some() && self.labelled(server, uri).is_none()
    }

    /// Returns the server named by the label of a URI, and the URI without it.
    fn unlabelled(&self, uri: &LabelledUri<'_>) -> Option<ResourceTarget<'_>> {
        let (label, own) = uri.split_label()?;
        Some(ResourceTarget { server: self.prefixes.server(label)?, uri: Cow::Owned(own) })
    }

    /// Returns the target of a URI without the label that its scheme requires: the only server that lists it, names it
    /// or has a matching template.
    fn route_bare<'a>(
        &'a self,
        uri: &'a str,
        matches: UriTemplateMatcher<'_>,
    ) -> Result<ResourceTarget<'a>, RouteError> {
        let exact = [&self.listed, &self.named].into_iter().filter_map(|all| all.get(uri)).flatten();
        let templates = self.templates.iter().filter(|(template, _)| matches(template, uri));
        let servers: BTreeSet<String> =
            exact.chain(templates.flat_map(|(_, servers)| servers)).cloned().collect();
        if servers.len() == 1 {
            return self.only(uri, &servers);
        }
        let users = || scheme(uri).and_then(|scheme| self.schemes.get(&scheme)).cloned().unwrap_or_default();
        let candidates = if servers.is_empty() { users() } else { servers };
        if candidates.is_empty() {
            return Err(RouteError::Unknown { uri: uri.to_owned() });
        }
        let shown = |server: &String| self.labelled(server, uri).unwrap_or_else(|| self.wrap(server, uri));
        Err(RouteError::Ambiguous { uri: uri.to_owned(), instead: candidates.iter().map(shown).collect() })
    }

    fn note_scheme(&mut self, server: &str, uri: &str) {
        if let Some(scheme) = scheme(uri) {
            self.schemes.entry(scheme).or_default().insert(server.to_owned());
        }
    }

    /// Returns the server that an application's URI belongs to, and the URI as that server knows it.
    pub fn route<'a>(
        &'a self,
        uri: &'a str,
        matches: UriTemplateMatcher<'_>,
    ) -> Result<ResourceTarget<'a>, RouteError> {
        if let Some(server) = &self.alone {
            return Ok(ResourceTarget { server, uri: uri.into() });
        }
        if is_reserved(uri) {
            return self.unwrap(uri).ok_or_else(|| RouteError::Unknown { uri: uri.to_owned() });
        }
        if let Some(labelled) = LabelledUri::of(uri).filter(|_| self.labels) {
            return match self.unlabelled(&labelled) {
                Some(target) => Ok(target),
                None => self.route_bare(uri, matches),
            };
        }
        if let Some(servers) = self.listed.get(uri) {
            return self.only(uri, servers);
        }
        // A set, because several templates of one server may match.
        let matching: BTreeSet<String> = self
            .templates
            .iter()
            .filter(|(template, _)| matches(template, uri))
            .flat_map(|(_, servers)| servers.iter().cloned())
            .collect();
        if !matching.is_empty() {
            return self.only(uri, &matching);
        }
        if let Some(servers) = scheme(uri).and_then(|scheme| self.schemes.get(&scheme)) {
            return self.only(uri, servers);
        }
        let mut servers = self.prefixes.servers();
        match (servers.next(), servers.next()) {
            (Some(server), None) => Ok(ResourceTarget { server, uri: uri.into() }),
            _ => Err(RouteError::Unknown { uri: uri.to_owned() }),
        }
    }

    /// Returns the server that an application's template (in a completion request) belongs to, and the template as that
    /// server knows it.
    pub fn route_template<'a>(&'a self, template: &'a str) -> Result<ResourceTarget<'a>, RouteError> {
        if let Some(server) = &self.alone {
            return Ok(ResourceTarget { server, uri: template.into() });
        }
        if let Some(target) =
            LabelledUri::of(template).filter(|_| self.labels).and_then(|labelled| self.unlabelled(&labelled))
        {
            return Ok(target);
        }
        if is_reserved(template) {
            return self.unwrap(template).ok_or_else(|| RouteError::Unknown { uri: template.to_owned() });
        }
        match self.shapes.get(&shape(template)) {
            Some(servers) => self.only(template, servers),
            // A completion may also name a plain resource, which a template never matches.
            None => self.route(template, &|_, _| false),
        }
    }

    /// Returns the URI under which an application sees `uri` of `server`.
    pub fn show(&self, server: &str, uri: &str, matches: UriTemplateMatcher<'_>) -> String {
        if let Some(labelled) = self.labelled(server, uri) {
            return labelled;
        }
        match self.route(uri, matches) {
            Ok(target) if target.server == server && target.uri == uri => uri.to_owned(),
            _ => self.wrap(server, uri),
        }
    }

    /// Returns the template under which an application sees `template` of `server`.
    pub fn show_template(&self, server: &str, template: &str) -> String {
        if self.alone.is_some() {
            return template.to_owned();
        }
        if let Some(labelled) = self.labelled(server, template) {
            return labelled;
        }
        let alone = self.shapes.get(&shape(template)).is_some_and(|servers| {
            servers.len() == 1 && servers.contains(server) && self.templates.contains_key(template)
        });
        if alone { template.to_owned() } else { self.wrap(server, template) }
    }

    fn wrap(&self, server: &str, uri: &str) -> String {
        let prefix =
            self.prefixes.of(server).map_or_else(|| ServerPrefix::of(server).key(), ServerPrefix::key);
        format!("{SCHEME}://{prefix}/{uri}")
    }

    fn unwrap<'a>(&'a self, uri: &'a str) -> Option<ResourceTarget<'a>> {
        // Case is the scheme's only freedom; the rest must be what `wrap` wrote.
        let rest = uri.get(SCHEME.len()..)?.strip_prefix("://")?;
        let (prefix, uri) = rest.split_once('/')?;
        Some(ResourceTarget { server: self.prefixes.server(prefix)?, uri: uri.into() })
    }

    fn only<'a>(
        &'a self,
        uri: &'a str,
        servers: &BTreeSet<String>,
    ) -> Result<ResourceTarget<'a>, RouteError> {
        let mut names = servers.iter().filter_map(|server| self.prefixes.canonical(server));
        // The number is that of the set: a server without a prefix must not make another one the only one.
        match (names.next(), servers.len()) {
            (Some(server), 1) => Ok(ResourceTarget { server, uri: uri.into() }),
            _ => Err(RouteError::Ambiguous {
                uri: uri.to_owned(),
                instead: servers.iter().map(|server| self.wrap(server, uri)).collect(),
            }),
        }
    }
}

/// A resource of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceTarget<'a> {
    /// The server, as the operator calls it.
    pub server: &'a str,
    /// The URI or template, as the server knows it.
    pub uri: Cow<'a, str>,
}

/// Reasons a URI cannot be routed to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No server has such a resource.
    #[error("no server offers the resource `{uri}`")]
    Unknown {
        /// The requested URI.
        uri: String,
    },
    /// Several servers may have it.
    #[error("several servers offer the resource `{uri}`; ask for one of {}", instead.join(", "))]
    Ambiguous {
        /// The requested URI.
        uri: String,
        /// The URIs to use in its place, one for each server.
        instead: Vec<String>,
    },
}

/// Returns true if a URI uses the host's own scheme, in any case.
fn is_reserved(uri: &str) -> bool {
    scheme(uri).is_some_and(|scheme| scheme == SCHEME)
}

/// Returns the scheme in lower case (RFC 3986, section 3.1), if the text begins with one.
fn scheme(uri: &str) -> Option<String> {
    let (scheme, _) = uri.split_once(':')?;
    let mut bytes = scheme.bytes();
    let valid = bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    valid.then(|| scheme.to_ascii_lowercase())
}

/// Returns a template with blank variable names but its operators and modifiers.
fn shape(template: &str) -> String {
    let mut shape = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((literal, tail)) = rest.split_once('{') {
        let Some((expression, after)) = tail.split_once('}') else { break };
        shape.push_str(literal);
        shape.push('{');
        shape.extend(
            expression.chars().filter(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '.'))),
        );
        shape.push('}');
        rest = after;
    }
    shape.push_str(rest);
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough of a matcher for these tests: every expression matches one path segment.
    fn matches(template: &str, uri: &str) -> bool {
        let Some((literal, rest)) = template.split_once('{') else { return template == uri };
        let Some((_, after)) = rest.split_once('}') else { return false };
        let Some(rest) = uri.strip_prefix(literal) else { return false };
        let end = rest.find('/').unwrap_or(rest.len());
        end > 0 && matches(after, &rest[end..])
    }

    fn uris(
        servers: &[&'static str],
        resources: &[(&str, &str)],
        templates: &[(&str, &str)],
    ) -> ResourceUriMap {
        let prefixes = ServerPrefixes::assign(servers.iter().copied()).unwrap();
        ResourceUriMap::build(&prefixes, resources.iter().copied(), templates.iter().copied())
    }

    fn route(uris: &ResourceUriMap, uri: &str) -> Result<(String, String), RouteError> {
        uris.route(uri, &matches).map(|target| (target.server.to_owned(), target.uri.into_owned()))
    }

    fn to(server: &str, uri: &str) -> Result<(String, String), RouteError> {
        Ok((server.to_owned(), uri.to_owned()))
    }

    #[test]
    fn a_uri_of_one_server_is_left_alone() {
        let uris = uris(&["files", "wiki"], &[("files", "file:///a"), ("wiki", "wiki://start")], &[]);
        assert_eq!(uris.show("files", "file:///a", &matches), "file:///a");
        assert_eq!(route(&uris, "file:///a"), to("files", "file:///a"));
        assert_eq!(route(&uris, "wiki://start"), to("wiki", "wiki://start"));
    }

    #[test]
    fn a_uri_of_two_servers_is_wrapped_for_both_and_never_guessed() {
        let uris =
            uris(&["files", "backup"], &[("files", "file:///a?b#c"), ("backup", "file:///a?b#c")], &[]);
        let shown = uris.show("files", "file:///a?b#c", &matches);
        assert_eq!(shown, "hospes://files/file:///a?b#c");
        assert_eq!(route(&uris, &shown), to("files", "file:///a?b#c"));
        assert_eq!(route(&uris, "HOSPES://Backup/file:///a?b#c"), to("backup", "file:///a?b#c"));
        assert_eq!(
            route(&uris, "file:///a?b#c").unwrap_err().to_string(),
            "several servers offer the resource `file:///a?b#c`; \
             ask for one of hospes://backup/file:///a?b#c, hospes://files/file:///a?b#c"
        );
    }

    #[test]
    fn an_unlisted_uri_goes_by_template_then_by_scheme() {
        let uris = uris(
            &["git", "wiki", "other"],
            &[("wiki", "wiki://start")],
            &[("git", "repo://{owner}/{name}"), ("other", "repo://{owner}/{name}/issues")],
        );
        assert_eq!(route(&uris, "repo://me/it"), to("git", "repo://me/it"));
        assert_eq!(route(&uris, "repo://me/it/issues"), to("other", "repo://me/it/issues"));
        assert_eq!(route(&uris, "wiki://unlisted/page"), to("wiki", "wiki://unlisted/page"));
        assert!(matches!(route(&uris, "repo://me/it/else/where"), Err(RouteError::Ambiguous { .. })));
        assert!(matches!(route(&uris, "else://where"), Err(RouteError::Unknown { .. })));
    }

    #[test]
    fn an_exact_uri_wins_over_a_neighbours_template() {
        let uris = uris(&["a", "b"], &[("a", "x://one")], &[("b", "x://{any}")]);
        assert_eq!(route(&uris, "x://one"), to("a", "x://one"));
        assert_eq!(route(&uris, "x://two"), to("b", "x://two"));
        // What `b` calls `x://one` must not be read from `a`.
        let shown = uris.show("b", "x://one", &matches);
        assert_eq!(shown, "hospes://b/x://one");
        assert_eq!(route(&uris, &shown), to("b", "x://one"));
    }

    #[test]
    fn the_only_server_gets_everything() {
        let uris = uris(&["one"], &[], &[]);
        assert_eq!(route(&uris, "x://anything"), to("one", "x://anything"));
        assert_eq!(route(&uris, "no scheme"), to("one", "no scheme"));
    }

    #[test]
    fn templates_alike_but_for_names_are_wrapped_and_stay_templates() {
        let uris = uris(
            &["a", "b"],
            &[],
            &[("a", "file:///{path}"), ("b", "file:///{file}"), ("a", "mem://{+key}"), ("b", "{+url}")],
        );
        assert_eq!(uris.show_template("a", "file:///{path}"), "hospes://a/file:///{path}");
        assert_eq!(uris.show_template("b", "file:///{file}"), "hospes://b/file:///{file}");
        assert_eq!(uris.show_template("a", "mem://{+key}"), "mem://{+key}");
        assert_eq!(uris.show_template("b", "{+url}"), "hospes://b/{+url}");
        for (server, template) in [("a", "file:///{path}"), ("a", "mem://{+key}"), ("b", "{+url}")] {
            let shown = uris.show_template(server, template);
            assert_eq!(uris.route_template(&shown), Ok(ResourceTarget { server, uri: template.into() }));
        }
        assert!(matches!(uris.route_template("file:///{path}"), Err(RouteError::Ambiguous { .. })));
        // An expansion of the wrapped template is the wrapped expansion.
        assert_eq!(route(&uris, "hospes://a/file:///x%2Fy"), to("a", "file:///x%2Fy"));
    }

    /// A server that lists a wrapped URI of its neighbour must not receive what is meant for the neighbour.
    #[test]
    fn nobody_lists_a_way_into_the_wrapped_uris_of_another() {
        let stolen = "hospes://a/file:///x";
        let uris = uris(
            &["a", "b"],
            &[("a", "file:///x"), ("b", "file:///x"), ("b", stolen)],
            &[("b", "hospes://a/{any}"), ("b", "Hospes://a/{any}")],
        );
        assert_eq!(route(&uris, stolen), to("a", "file:///x"));
        let shown = uris.show("b", stolen, &matches);
        assert_eq!(shown, "hospes://b/hospes://a/file:///x");
        assert_eq!(route(&uris, &shown), to("b", stolen));
        assert_eq!(uris.show_template("b", "Hospes://a/{any}"), "hospes://b/Hospes://a/{any}");
    }

    /// Two instances of one program, which write the same URIs.
    #[test]
    fn a_ui_resource_keeps_its_scheme_and_carries_its_server() {
        let clock = "ui://clock/app.html";
        let all =
            uris(&["a", "B"], &[("a", clock), ("B", clock)], &[("a", "ui://t/{x}"), ("B", "ui://t/{x}")]);
        assert_eq!(all.show("a", clock, &matches), "ui://a/clock/app.html");
        assert_eq!(all.show("B", clock, &matches), "ui://B/clock/app.html");
        assert_eq!(route(&all, "ui://b/clock/app.html"), to("B", clock), "case is free in a label");
        assert_eq!(all.show_template("a", "ui://t/{x}"), "ui://a/t/{x}");
        let refused = route(&all, clock).unwrap_err();
        let RouteError::Ambiguous { instead, .. } = refused else { panic!("{refused}") };
        assert_eq!(instead, ["ui://B/clock/app.html", "ui://a/clock/app.html"]);

        // A server that writes another's label does not take its place.
        let stolen = uris(&["a", "b"], &[("a", "ui://b/x"), ("b", "ui://x")], &[]);
        assert_eq!(stolen.show("a", "ui://b/x", &matches), "ui://a/b/x");
        assert_eq!(route(&stolen, "ui://b/x"), to("b", "ui://x"));

        // One that is used by one server alone carries its label all the same, and is known without.
        let one = uris(&["a", "b"], &[("a", clock)], &[]);
        assert_eq!(one.show("a", clock, &matches), "ui://a/clock/app.html");
        assert_eq!(route(&one, clock), to("a", clock));
        assert!(matches!(route(&one, "ui://other"), Err(RouteError::Ambiguous { instead, .. })
            if instead == ["ui://a/other"]));
        let named = uris(&["a", "b"], &[], &[]).with_named([("b", clock.to_owned())]);
        assert_eq!(route(&named, clock), to("b", clock));

        // Where there is one server alone, nothing is written anew.
        let alone = uris(&["a"], &[("a", clock)], &[]);
        assert_eq!(alone.show("a", clock, &matches), clock);
        assert_eq!(route(&alone, clock), to("a", clock));
        let alone = ResourceUriMap::alone("a");
        for uri in [clock, "hospes://a/x://y", "ui://a/x", "x"] {
            assert_eq!((alone.show("a", uri, &matches), route(&alone, uri)), (uri.to_owned(), to("a", uri)));
        }
    }

    #[test]
    fn a_wrapped_uri_of_nobody_is_unknown() {
        let uris = uris(&["a"], &[("a", "x://y")], &[]);
        for uri in ["hospes://nobody/x://y", "hospes:a/x://y", "hospes://a", "hospes:"] {
            assert!(matches!(route(&uris, uri), Err(RouteError::Unknown { .. })), "{uri}");
        }
    }

    /// Every URI that a server sends routes back to that server unchanged.
    #[test]
    fn show_then_route_is_the_identity() {
        let texts = [
            "file:///a",
            "file:///b",
            "FILE:///a",
            "x://y/z",
            "x://y",
            "hospes://a/x://y",
            "hospes://",
            "",
            "no scheme",
            "hospes:",
            "{+u}",
            "x://{v}",
            "1x://y",
            "ü://é",
            "a:b",
            "hospes://b/hospes://a/",
            "/",
            "ui://clock/app.html",
            "ui://b/app.html",
            "ui://[::1]/app.html",
            "UI://x",
            "ui:opaque",
            "skill://{name}/SKILL.md",
        ];
        let servers = ["a", "b", "Server C"];
        // Every server lists a different third of the texts, overlapping.
        let lists: Vec<(&str, &str)> = servers
            .iter()
            .enumerate()
            .flat_map(|(i, server)| {
                texts
                    .iter()
                    .enumerate()
                    .filter(move |(j, _)| (i + j) % 3 != 0)
                    .map(move |(_, t)| (*server, *t))
            })
            .collect();
        for (resources, templates) in [(&lists[..], &[][..]), (&[], &lists[..]), (&lists[..], &lists[..])] {
            let uris = uris(&servers, resources, templates);
            for server in servers {
                for uri in texts {
                    let shown = uris.show(server, uri, &matches);
                    assert_eq!(route(&uris, &shown), to(server, uri), "{server} {uri} shown as {shown}");
                }
            }
            for (server, template) in templates {
                let shown = uris.show_template(server, template);
                let target = uris.route_template(&shown);
                assert_eq!(
                    target,
                    Ok(ResourceTarget { server, uri: (*template).into() }),
                    "{server} {template} shown as {shown}"
                );
            }
        }
    }
}
