//! The links, images and anchors of a built site.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::html::HtmlPage;
use crate::{BrokenLink, LinkTarget, read_target, resolve};

/// Result of checking a site.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckedSite {
    /// Number of HTML pages.
    pub pages: usize,
    /// Number of references in them, those to other sites included.
    pub references: usize,
    /// References that lead nowhere.
    pub broken: Vec<BrokenLink>,
}

/// Checks each reference of each HTML page below a folder.
///
/// # Errors
///
/// If a file cannot be read.
pub fn check_site(folder: &Path) -> Result<CheckedSite> {
    let mut files = BTreeMap::new();
    collect_files(folder, "", &mut files)?;
    let mut checked = CheckedSite { pages: 0, references: 0, broken: Vec::new() };
    for (file, page) in files.iter().filter_map(|(file, page)| Some((file, page.as_ref()?))) {
        checked.pages += 1;
        checked.references += page.references.len();
        for link in &page.references {
            if let Err(reason) = check_link(&files, file, page, link) {
                checked.broken.push(BrokenLink::new(file, link, reason));
            }
        }
    }
    Ok(checked)
}

/// Files of the site; those that are pages are parsed.
type SiteFiles = BTreeMap<String, Option<HtmlPage>>;

fn check_link(files: &SiteFiles, file: &str, page: &HtmlPage, link: &str) -> Result<(), String> {
    let LinkTarget::Internal { path, anchor } = read_target(link)? else { return Ok(()) };
    // The page for unknown addresses is shown at any depth, so its references begin at the top.
    let origin = if page.base.as_deref() == Some("/") { "index.html" } else { file };
    let target = if path.is_empty() { Some(file.to_owned()) } else { resolve(origin, &path) };
    let Some(target) = target else { return Err("the path leaves the site".to_owned()) };
    let target = if target.is_empty() { "index.html".to_owned() } else { target };
    let Some(found) = files.get(&target) else { return Err(format!("there is no file `{target}`")) };
    match (anchor, found) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(format!("`{target}` is no page and has no anchors")),
        (Some(anchor), Some(found)) => {
            let anchor = percent_encoding::percent_decode_str(anchor).decode_utf8_lossy();
            if found.anchors.contains(&*anchor) {
                Ok(())
            } else {
                Err(format!("`{target}` has no anchor `{anchor}`"))
            }
        }
    }
}

fn collect_files(folder: &Path, prefix: &str, files: &mut SiteFiles) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect_files(&entry.path(), &format!("{name}/"), files)?;
            continue;
        }
        let is_page = name.ends_with(".html");
        let page = is_page.then(|| fs::read_to_string(entry.path())).transpose();
        let page = page.with_context(|| name.clone())?.map(|text| HtmlPage::parse(&text));
        files.insert(name, page);
    }
    Ok(())
}
