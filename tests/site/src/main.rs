//! `hospes-site FOLDER`: builds the documentation site into a folder, and checks it.

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hospes_site::book::build_site;
use hospes_site::site_links::check_site;

fn main() -> Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from).context("usage: hospes-site FOLDER")?;
    let folder = std::path::absolute(folder)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    build_site(&root, &folder)?;
    let checked = check_site(&folder)?;
    for broken in &checked.broken {
        writeln!(io::stderr(), "{broken}")?;
    }
    if !checked.broken.is_empty() {
        bail!("{} links of the site lead nowhere", checked.broken.len());
    }
    let (pages, index) = (checked.pages, folder.join("index.html"));
    writeln!(io::stdout(), "{pages} pages; open {}", index.display())?;
    Ok(())
}
