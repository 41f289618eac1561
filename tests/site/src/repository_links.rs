//! The links of pages that are read in the repository: files and headings on the disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{BrokenLink, LinkTarget, read_target, resolve};

/// Checks the links of Markdown files, given as paths relative to the repository's top folder.
///
/// # Errors
///
/// If one of the files cannot be read.
pub fn check_files(root: &Path, files: &[&str]) -> Result<Vec<BrokenLink>> {
    let mut broken = Vec::new();
    for file in files {
        let page = MarkdownPage::read(root, file)?;
        for link in &page.links {
            if let Err(reason) = check_link(root, file, &page, link) {
                broken.push(BrokenLink::new(file, link, reason));
            }
        }
    }
    Ok(broken)
}

fn check_link(root: &Path, file: &str, page: &MarkdownPage, link: &str) -> Result<(), String> {
    let LinkTarget::Internal { path, anchor } = read_target(link)? else { return Ok(()) };
    if path.is_empty() {
        return page.check_anchor(file, anchor);
    }
    let Some(target) = resolve(file, &path) else { return Err("the path leaves the repository".to_owned()) };
    if !root.join(&target).exists() {
        return Err(format!("there is no file `{target}`"));
    }
    if anchor.is_none() {
        return Ok(());
    }
    if !target.ends_with(".md") {
        return Err(format!("`{target}` is no page and has no anchors"));
    }
    let other = MarkdownPage::read(root, &target).map_err(|error| format!("{error:#}"))?;
    other.check_anchor(&target, anchor)
}

/// Links and headings of a Markdown file.
#[derive(Debug, Default)]
struct MarkdownPage {
    links: Vec<String>,
    anchors: Vec<String>,
}

impl MarkdownPage {
    fn read(root: &Path, file: &str) -> Result<Self> {
        let text = fs::read_to_string(root.join(file)).with_context(|| file.to_owned())?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let count = seen.entry(slug.clone()).or_default();
                    page.anchors.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
                    *count += 1;
                }
                _ => {}
            }
        }
        page
    }

    fn check_anchor(&self, file: &str, anchor: Option<&str>) -> Result<(), String> {
        match anchor {
            Some(anchor) if !self.anchors.iter().any(|known| known == anchor) => {
                Err(format!("`{file}` has no heading with the anchor `{anchor}`"))
            }
            _ => Ok(()),
        }
    }
}

/// Anchor of a heading, as hosting services and mdBook form it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_of_hosting_services() {
        let page = MarkdownPage::parse("# A `tools/call`, twice\n\n## Why?\n\n## Why?\n");
        assert_eq!(page.anchors, ["a-toolscall-twice", "why", "why-1"]);
    }

    #[test]
    fn links_in_code_are_no_links() {
        let page = MarkdownPage::parse("[a](b.md) `[c](d.md)` ![e](f.png)\n\n[g]\n\n[g]: h.md#i\n");
        assert_eq!(page.links, ["b.md", "f.png", "h.md#i"]);
    }
}
