//! Building the site.
//!
//! Some pages consist of a file that is read in the repository, too, such as ARCHITECTURE.md. Its links name files of the
//! repository. On the site, a link to a file that has a page becomes a link to this page. A link to another file becomes
//! plain text, because the site does not contain it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result};
use mdbook_driver::MDBook;
use mdbook_driver::book::Book;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use crate::{LinkTarget, read_target, resolve};

/// Builds the book of the repository at `root` into the folder `destination`.
///
/// # Errors
///
/// If `book.toml` or a chapter cannot be read, or the folder cannot be written.
pub fn build_site(root: &Path, destination: &Path) -> Result<()> {
    let mut book = MDBook::load(root).context("the book cannot be loaded")?;
    book.config.build.build_dir = destination.to_owned();
    let links = RepositoryLinks::read(&book.book);
    book.with_preprocessor(links);
    book.build().context("the book cannot be built")
}

/// Turns links to files of the repository into links to pages of the site.
#[derive(Default)]
struct RepositoryLinks {
    /// Pages by the file that they include, relative to the repository.
    pages: BTreeMap<String, String>,
    /// All pages.
    names: BTreeSet<String>,
    /// Files by the page that includes them.
    included: BTreeMap<String, Vec<String>>,
}

/// Folder of the pages in the repository.
const SOURCE: &str = "docs";

impl RepositoryLinks {
    fn read(book: &Book) -> Self {
        let mut links = Self::default();
        for chapter in book.chapters() {
            let Some(page) = chapter.path.as_ref().and_then(|path| path.to_str()) else { continue };
            links.names.insert(page.to_owned());
            let files =
                chapter.content.split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next());
            for file in files.filter_map(|file| resolve(&format!("{SOURCE}/{page}"), file.trim())) {
                links.pages.insert(file.clone(), page.to_owned());
                links.included.entry(page.to_owned()).or_default().push(file);
            }
        }
        links
    }

    /// Address on the site of a link in a file of the repository. `None` if the site does not contain its target.
    fn translate(&self, file: &str, link: &str) -> Option<String> {
        let Ok(LinkTarget::Internal { path, anchor }) = read_target(link) else {
            return Some(link.to_owned());
        };
        if path.is_empty() {
            return Some(link.to_owned());
        }
        let target = resolve(file, &path)?;
        let page = match self.pages.get(&target) {
            Some(page) => page.clone(),
            None => target.strip_prefix(&format!("{SOURCE}/"))?.to_owned(),
        };
        Some(match anchor {
            Some(anchor) => format!("{page}#{anchor}"),
            None => page,
        })
    }

    /// The text of a page with its inline links translated and one title.
    fn rewrite(&self, files: &[String], text: &str) -> String {
        let mut rewritten = text.to_owned();
        let mut titles = 0;
        let events: Vec<_> = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter().collect();
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        for (event, range) in &events {
            match event {
                Event::Start(Tag::Link { dest_url, .. }) => {
                    edits.extend(
                        self.edit_link(files, dest_url, &text[range.clone()])
                            .map(|link| (range.clone(), link)),
                    );
                }
                Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => titles += 1,
                _ => {}
            }
        }
        if titles > 1 {
            // The documentation of a module has sections of the first level; below a title they are of the second.
            let headings =
                events.iter().filter(|(event, _)| matches!(event, Event::Start(Tag::Heading { .. })));
            edits.extend(headings.skip(1).map(|(_, range)| (range.start..range.start, "#".to_owned())));
        }
        // From the end, so that the places of those before stay as they are.
        edits.sort_by_key(|(range, _)| range.start);
        for (range, replacement) in edits.into_iter().rev() {
            rewritten.replace_range(range, &replacement);
        }
        rewritten
    }

    /// Replacement of a link; `None` if it stays.
    fn edit_link(&self, files: &[String], link: &str, source: &str) -> Option<String> {
        // The page has links of its own beside those of the file.
        let path = link.split('#').next().unwrap_or_default();
        if path.is_empty() || self.names.contains(path) {
            return None;
        }
        // Links by reference have their address elsewhere; the pages use these for pages of the site only.
        let inside = source.strip_prefix('[')?.strip_suffix(&format!("]({link})"))?;
        Some(match files.iter().find_map(|file| self.translate(file, link)) {
            Some(address) => format!("[{inside}]({address})"),
            None => inside.to_owned(),
        })
    }
}

impl Preprocessor for RepositoryLinks {
    fn name(&self) -> &str {
        "repository-links"
    }

    fn run(&self, _context: &PreprocessorContext, mut book: Book) -> Result<Book> {
        book.for_each_chapter_mut(|chapter| {
            let Some(page) = chapter.path.as_ref().and_then(|path| path.to_str()) else { return };
            if let Some(files) = self.included.get(page) {
                chapter.content = self.rewrite(files, &chapter.content);
            }
        });
        Ok(book)
    }
}
