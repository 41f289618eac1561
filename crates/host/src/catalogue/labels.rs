//! URIs with the server's label in place of the authority: `scheme://label/rest`.
//!
//! Some extensions require the scheme of a URI to stay unchanged: the document of an app begins with `ui://`, and the
//! last segments of a skill's URI are its name. So the label is inserted after `scheme://`, and the rest follows
//! unchanged. Removing the label restores the original of every URI.

use std::borrow::Cow;

use hospes_model::{Meta, RawJson};

/// Schemes whose URIs get the label inside.
const SCHEMES: [&str; 2] = ["ui", "skill"];

/// The members of `_meta` that hold such a URI themselves.
const META_KEYS: [&str; 2] = ["ui/resourceUri", "openai/outputTemplate"];

/// A URI of such a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LabelledUri<'a> {
    scheme: &'a str,
    /// Everything after `://`.
    rest: &'a str,
}

impl<'a> LabelledUri<'a> {
    /// Parses the URI if its scheme is one of these, ignoring case.
    pub(super) fn of(uri: &'a str) -> Option<Self> {
        let (scheme, rest) = uri.split_once("://")?;
        SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(Self { scheme, rest })
    }

    /// Returns the URI with a label. `None` if the original authority cannot be part of a path.
    pub(super) fn with(&self, label: &str) -> Option<String> {
        let authority = self.rest.split(['/', '?', '#']).next().unwrap_or_default();
        // An address in brackets is the one thing that an authority may have and a path may not.
        (!authority.contains(['[', ']'])).then(|| format!("{}://{label}/{}", self.scheme, self.rest))
    }

    /// Splits the URI into a possible label and the URI without it.
    pub(super) fn split_label(&self) -> Option<(&'a str, String)> {
        let (label, rest) = self.rest.split_once('/')?;
        Some((label, format!("{}://{rest}", self.scheme)))
    }
}

/// Returns whether a URI carries its label inside.
pub(crate) fn is_labelled(uri: &str) -> bool {
    LabelledUri::of(uri).is_some()
}

/// Returns the URIs in `_meta` of a tool.
pub(crate) fn named_in(meta: &Meta) -> Vec<String> {
    let nested = meta.get("ui").and_then(resource_uri).map(Cow::into_owned);
    let own = META_KEYS.iter().filter_map(|key| meta.read::<String>(key));
    let mut uris: Vec<String> = nested.into_iter().chain(own).filter(|uri| is_labelled(uri)).collect();
    uris.dedup();
    uris
}

/// Writes the URIs in `_meta` of a tool or of its result as they are shown.
pub(crate) fn show_in(meta: &mut Meta, show: impl Fn(&str) -> String) {
    if meta.is_empty() {
        return;
    }
    let shown = |uri: &str| {
        let shown = show(uri);
        // Only what changes is written anew; the rest stays as its server wrote it.
        if shown == uri { None } else { RawJson::from_serialize(&shown).ok() }
    };
    let nested = meta.get("ui").and_then(|ui| {
        let uri = resource_uri(ui).filter(|uri| is_labelled(uri))?;
        Some(ui.with_member("resourceUri", &shown(&uri)?))
    });
    if let Some(ui) = nested {
        meta.insert("ui", ui);
    }
    for key in META_KEYS {
        let uri = meta.read::<String>(key).filter(|uri| is_labelled(uri));
        if let Some(shown) = uri.and_then(|uri| shown(&uri)) {
            meta.insert(key, shown);
        }
    }
}

/// Returns the member `resourceUri`; of duplicates the last one, as most parsers do.
fn resource_uri(ui: &RawJson) -> Option<Cow<'_, str>> {
    ui.members().filter(|member| member.key() == "resourceUri").last()?.text()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_label_goes_in_and_out_again() {
        for uri in [
            "ui://get-time/mcp-app.html",
            "ui:///x",
            "ui://x",
            "ui://",
            "UI://x/%2e%2e/y?q=[1]#f",
            "skill://refunds/SKILL.md",
            "skill://{name}/{+path}",
            "ui://a/b/x",
        ] {
            let shown = LabelledUri::of(uri).unwrap().with("a").unwrap();
            let scheme = uri.split_once(':').unwrap().0;
            assert!(shown.starts_with(&format!("{scheme}://a/")), "{shown}");
            let cut = LabelledUri::of(&shown).unwrap();
            assert_eq!(cut.split_label(), Some(("a", uri.to_owned())));
        }
        assert_eq!(LabelledUri::of("ui://[::1]/x").unwrap().with("a"), None);
        for other in ["file:///x", "ui:x", "uix://x", "ui", "hospes://a/ui://x"] {
            assert_eq!(LabelledUri::of(other), None, "{other}");
        }
    }

    #[test]
    fn all_places_of_a_tools_metadata_are_written_and_nothing_else() {
        let meta = json!({
            "ui": { "visibility": ["app"], "resourceUri": "ui://x/y", "csp": { "connectDomains": ["https://a"] } },
            "ui/resourceUri": "ui://x/y", "openai/outputTemplate": "ui://x/z", "other": "ui://x/y",
        });
        let mut read: Meta = serde_json::from_value(meta.clone()).unwrap();
        assert_eq!(named_in(&read), ["ui://x/y", "ui://x/z"]);
        show_in(&mut read, |uri| uri.replacen("://", "://a/", 1));
        let mut expected = meta;
        expected["ui"]["resourceUri"] = "ui://a/x/y".into();
        expected["ui/resourceUri"] = "ui://a/x/y".into();
        expected["openai/outputTemplate"] = "ui://a/x/z".into();
        assert_eq!(serde_json::to_value(&read).unwrap(), expected);

        let odd = json!({ "ui": [1], "ui/resourceUri": 7, "openai/outputTemplate": "https://a/x" });
        let mut read: Meta = serde_json::from_value(odd.clone()).unwrap();
        show_in(&mut read, |_| "wrong".to_owned());
        assert_eq!(serde_json::to_value::<&Meta>(&read).unwrap(), odd);
        assert_eq!(named_in(&read), Vec::<String>::new());
        assert!(serde_json::to_value(Meta::default()).is_ok_and(|value: Value| value == json!({})));
    }
}
