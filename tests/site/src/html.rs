//! Anchors and references of an HTML page.

use std::collections::BTreeSet;

use html5ever::tendril::TendrilSink as _;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// Anchors and references of one page.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct HtmlPage {
    /// Values of `id`, and of `name` at links: what an anchor may name.
    pub anchors: BTreeSet<String>,
    /// Addresses of links, images, scripts and styles, in the order of the page.
    pub references: Vec<String>,
    /// Address that relative references begin at, if it is not the page itself.
    pub base: Option<String>,
}

impl HtmlPage {
    /// Parses a page as a browser does.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let dom = parse_document(RcDom::default(), ParseOpts::default()).one(text);
        let mut page = Self::default();
        page.read(&dom.document);
        page
    }

    fn read(&mut self, node: &Handle) {
        if let NodeData::Element { name, attrs, .. } = &node.data {
            let tag = &*name.local;
            for attribute in attrs.borrow().iter() {
                let value = attribute.value.trim();
                match (tag, &*attribute.name.local) {
                    (_, "id") | ("a", "name") => drop(self.anchors.insert(value.to_owned())),
                    ("base", "href") => self.base = Some(value.to_owned()),
                    (_, "href" | "src" | "poster" | "data") => self.references.push(value.to_owned()),
                    _ => {}
                }
            }
        }
        for child in node.children.borrow().iter() {
            self.read(child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_and_references_are_found_in_damaged_markup_too() {
        let page = HtmlPage::parse("<p id=a><a href='b.html#c'>x<img src=d.png></a></p><h2 id='e f'>y");
        assert_eq!(page.anchors, BTreeSet::from(["a".to_owned(), "e f".to_owned()]));
        assert_eq!(page.references, ["b.html#c", "d.png"]);
    }
}
