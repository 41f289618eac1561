//! The documentation site can be built, and no link of it or of the repository's own pages is broken.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hospes_site::book::build_site;
use hospes_site::repository_links::check_files;
use hospes_site::site_links::check_site;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn lines<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_link_of_the_site_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    build_site(&root(), folder.path()).unwrap();
    let checked = check_site(folder.path()).unwrap();
    assert!(checked.broken.is_empty(), "{}", lines(&checked.broken));
    // So that an empty book does not pass.
    assert!(checked.pages > 20 && checked.references > 500, "{checked:?}");
}

#[test]
fn every_page_of_the_documentation_is_in_the_table_of_contents() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "SUMMARY.md" {
            assert!(summary.contains(&format!("({name})")), "docs/SUMMARY.md does not list {name}");
        }
    }
}

#[test]
fn no_link_of_the_pages_in_the_repository_is_broken() {
    let pages = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "CODE_OF_CONDUCT.md",
    ];
    let broken = check_files(&root(), &pages).unwrap();
    assert!(broken.is_empty(), "{}", lines(&broken));
}

/// A site of one page and one file, and what is wrong with the link to them.
fn reason_of(link: &str) -> Result<Option<String>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("index.html"), format!("<h1 id=top>A</h1><a href=\"{link}\">b</a>"))?;
    fs::create_dir(folder.path().join("sub"))?;
    fs::write(folder.path().join("sub/page.html"), "<h2 id=there>B</h2><a href=../index.html#top>c</a>")?;
    fs::write(folder.path().join("a.css"), "")?;
    let broken = check_site(folder.path())?.broken;
    assert!(broken.len() <= 1, "{broken:?}");
    Ok(broken.into_iter().next().map(|broken| broken.reason))
}

#[test]
fn broken_links_and_missing_anchors_are_found() {
    for sound in ["sub/page.html", "sub/page.html#there", "#top", "a.css", "https://example.org/x", ""] {
        assert_eq!(reason_of(sound).unwrap(), None, "{sound}");
    }
    for (broken, reason) in [
        ("sub/none.html", "there is no file `sub/none.html`"),
        ("sub/page.html#here", "`sub/page.html` has no anchor `here`"),
        ("#bottom", "`index.html` has no anchor `bottom`"),
        ("a.css#top", "`a.css` is no page and has no anchors"),
        ("../index.html", "the path leaves the site"),
        ("/index.html", "an absolute path depends on where the site is published"),
    ] {
        assert_eq!(reason_of(broken).unwrap().as_deref(), Some(reason), "{broken}");
    }
    assert!(reason_of("https://").unwrap().is_some());
}

#[test]
fn broken_links_in_markdown_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let text = "# One\n\n[a](b.md) [c](d.md#two) [e](d.md#three) [f](#one) [g](#four) [h](https://)\n";
    fs::write(folder.path().join("a.md"), text).unwrap();
    fs::write(folder.path().join("d.md"), "## Two\n").unwrap();
    let broken = check_files(folder.path(), &["a.md"]).unwrap();
    let links: Vec<&str> = broken.iter().map(|broken| &*broken.link).collect();
    assert_eq!(links, ["b.md", "d.md#three", "#four", "https://"]);
}
