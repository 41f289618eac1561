//! The documentation site: pages that fit a phone, and a search that finds.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::time::{Duration, Instant};

use hospes_browser_tests::TestBrowser;
use hospes_site::book::build_site;

#[tokio::test(flavor = "multi_thread")]
async fn no_page_of_the_site_is_wider_than_a_phone_and_its_search_finds_pages() {
    let Some(browser) = TestBrowser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    build_site(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), folder.path()).unwrap();
    let url = |page: &str| format!("file://{}/{page}", folder.path().display());
    browser.resize_window(390, 844).await;
    let mut pages = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The page for printing has all others in it.
        if !name.ends_with(".html") || name == "print.html" {
            continue;
        }
        browser.open(&url(&name)).await;
        let width = browser.run("return document.documentElement.scrollWidth").await;
        assert!(width.as_u64().is_some_and(|width| width <= 390), "{name} is {width} pixels wide");
        pages += 1;
    }
    assert!(pages > 20, "{pages}");

    browser.open(&url("index.html?search=sandbox")).await;
    let begun = Instant::now();
    while browser.run("return document.querySelectorAll('#mdbook-searchresults li').length").await.as_u64()
        < Some(3)
    {
        assert!(begun.elapsed() < Duration::from_secs(30), "the search finds nothing");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
