//! Conversion of a fetched page to text for a model.

use std::rc::Rc;
use std::time::{Duration, Instant};

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use hospes::prelude::*;
use htmd::element_handler::Handlers;
use htmd::{Element, HtmlToMarkdown, Node};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::RcDom;

use super::web::FetchedPage;

/// Maximum depth of nested elements. Simplification recurses once for each level.
const MAX_DEPTH: usize = 256;
/// Maximum time to parse a page.
const PARSE_TIME: Duration = Duration::from_secs(5);
/// Number of bytes that are parsed between two checks of the time.
const CHUNK: usize = 16 * 1024;
/// Number of bytes at the beginning of a page in which its encoding may be declared.
const MAX_META_OFFSET: usize = 1024;
/// Elements whose text is not shown to readers.
const SKIPPED: [&str; 10] =
    ["head", "script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "aside"];
/// Elements that only format text. They are dropped if plain text is requested.
const PRESENTATION_TAGS: [&str; 14] =
    ["a", "b", "strong", "i", "em", "code", "h1", "h2", "h3", "h4", "h5", "h6", "span", "blockquote"];

/// Format in which a page is returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// HTML converted to Markdown; other text unchanged.
    #[default]
    Markdown,
    /// Like Markdown, without links and emphasis.
    Text,
    /// Unchanged.
    Raw,
}

impl FetchedPage {
    /// Returns the media type in lower case, without its parameters.
    pub(super) fn media_type(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or_default();
        kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    fn is_html(&self) -> bool {
        match self.media_type().as_str() {
            "text/html" | "application/xhtml+xml" => true,
            "" => {
                let start =
                    String::from_utf8_lossy(&self.body[..self.body.len().min(512)]).to_ascii_lowercase();
                start.contains("<html") || start.contains("<!doctype html")
            }
            _ => false,
        }
    }

    fn is_text(&self) -> bool {
        let kind = self.media_type();
        let (main, sub) = kind.split_once('/').unwrap_or((&kind, ""));
        match main {
            "text" => true,
            "application" | "image" | "model" => {
                let known = [
                    "json",
                    "xml",
                    "javascript",
                    "ecmascript",
                    "yaml",
                    "toml",
                    "sql",
                    "graphql",
                    "x-sh",
                    "x-www-form-urlencoded",
                ];
                let known = known.contains(&sub)
                    || matches!(sub, "x-yaml" | "x-ndjson" | "jsonl" | "x-javascript" | "rtf");
                known || sub.ends_with("+json") || sub.ends_with("+xml") || sub.ends_with("+yaml")
            }
            // Without a media type, a NUL byte distinguishes binary data from text.
            "" => !self.body.contains(&0),
            _ => false,
        }
    }

    /// Decodes the page to text, with the encoding from its media type, else from its content, else a guess.
    pub(super) fn text(&self) -> String {
        let named = self.kind.as_deref().and_then(charset_of);
        let said = || if self.is_html() { charset_in(&self.body) } else { None };
        // Old pages without a declared encoding are mostly windows-1252, in which every byte sequence is valid.
        let guessed = || if std::str::from_utf8(&self.body).is_ok() { UTF_8 } else { WINDOWS_1252 };
        let encoding = named.or_else(said).unwrap_or_else(guessed);
        // A byte-order mark takes precedence over all of these.
        encoding.decode(&self.body).0.into_owned()
    }

    /// Returns the page in this format.
    pub(super) fn shown(&self, format: Format) -> Result<String> {
        if !self.is_text() && !self.is_html() {
            let kind = Some(self.media_type()).filter(|kind| !kind.is_empty());
            let kind = kind.unwrap_or_else(|| "content without a media type".to_owned());
            return Err(Error::msg(format!("this is {kind}, {} bytes, not text", self.body.len())));
        }
        let text = self.text();
        if format == Format::Raw || !self.is_html() {
            Ok(text)
        } else {
            simplify_html(&text, format, PARSE_TIME)
        }
    }
}

/// Converts HTML to simple text.
fn simplify_html(html: &str, format: Format, time: Duration) -> Result<String> {
    let builder = HtmlToMarkdown::builder().skip_tags(SKIPPED.to_vec());
    let builder = match format {
        Format::Text => builder.skip_tags(vec!["img"]).add_handler(
            PRESENTATION_TAGS.to_vec(),
            |handlers: &dyn Handlers, element: Element<'_>| {
                let inside = handlers.walk_children(element.node).content;
                // Without its element, the text of a heading would run into the following text.
                let is_block = matches!(element.tag, "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "blockquote");
                Some(if is_block { format!("\n\n{}\n\n", inside.trim()) } else { inside }.into())
            },
        ),
        _ => builder,
    };
    let converter = builder.build();
    let tree = parsed(html, time)?.document.clone();
    // Checked before the conversion, whose recursion could overflow the stack.
    if is_too_deep(&tree) {
        return Err(Error::msg(format!(
            "this page nests elements more than {MAX_DEPTH} deep and cannot be simplified; use format = raw to show it"
        )));
    }
    Ok(converter.tree_to_markdown(&tree))
}

/// Parses HTML within a time limit, because parsing deeply nested pages takes quadratic time.
fn parsed(html: &str, time: Duration) -> Result<RcDom> {
    let mut parser = parse_document(RcDom::default(), ParseOpts::default());
    let (begun, mut left) = (Instant::now(), html);
    while !left.is_empty() {
        // The parser accepts whole characters only.
        let (chunk, rest) = left.split_at(left.ceil_char_boundary(CHUNK.min(left.len())));
        parser.process(StrTendril::from(chunk));
        left = rest;
        if begun.elapsed() > time {
            return Err(Error::msg("this page takes too long to simplify; use format = raw to show it"));
        }
    }
    Ok(parser.finish())
}

/// Returns true if the tree is nested too deeply. Measured without recursion.
fn is_too_deep(tree: &Rc<Node>) -> bool {
    let mut level = vec![Rc::clone(tree)];
    for _ in 0..MAX_DEPTH {
        level = level.iter().flat_map(|node| node.children.borrow().clone()).collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}

/// Returns the `charset` of a media type.
fn charset_of(kind: &str) -> Option<&'static Encoding> {
    let parameters = kind.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    Encoding::for_label(charsets.next()?.1.trim().trim_matches('"').as_bytes())
}

/// Returns the encoding that a page declares in a `meta` element.
fn charset_in(body: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(&body[..body.len().min(MAX_META_OFFSET)]).to_ascii_lowercase();
    let after =
        start.find("<meta").and_then(|meta| Some(&start[meta + start[meta..].find("charset=")? + 8..]))?;
    let label: String = after
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || "-_:.".contains(*c))
        .collect();
    let encoding = Encoding::for_label(label.as_bytes())?;
    // A page that was readable up to here is not UTF-16.
    Some(if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simplification recurses once for each level of a page.
    #[test]
    fn pages_that_are_too_deep_are_not_made_simple() {
        for tag in ["div", "b", "ul><li", "table><tr><td", "svg", "object"] {
            let deep = |times: usize| format!("<html>{}end", format!("<{tag}>").repeat(times));
            assert!(simplify_html(&deep(20), Format::Markdown, PARSE_TIME).is_ok(), "{tag}");
            let why = simplify_html(&deep(1000), Format::Markdown, PARSE_TIME).unwrap_err().to_string();
            assert!(why.contains("nests elements more than"), "{tag}: {why}");
        }
    }

    #[test]
    fn pages_that_take_too_long_are_given_up() {
        let long = format!("<html>{}", "<div>".repeat(1_000_000));
        let why = simplify_html(&long, Format::Markdown, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(why.contains("takes too long"), "{why}");
    }
}
