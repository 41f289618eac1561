//! Packing folders.

use std::fs;
use std::path::{Path, PathBuf};

use hospes_bundle::{Bundle, PackOptions, PackedBundle, pack};

use crate::zip::MANIFEST;

/// Folder with a bundle to be, and a place for the result.
struct Source {
    home: tempfile::TempDir,
}

impl Source {
    fn new(files: &[(&str, &str)]) -> Self {
        let source = Self { home: tempfile::tempdir().unwrap() };
        source.write("manifest.json", MANIFEST);
        source.write("server.js", "1;\n");
        files.iter().for_each(|(name, content)| source.write(name, content));
        source
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("source")
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn output(&self) -> PathBuf {
        self.home.path().join("demo.mcpb")
    }

    fn pack(&self) -> Result<PackedBundle, String> {
        pack(&self.folder(), &self.output(), PackOptions::default()).map_err(|error| {
            assert!(!self.output().exists(), "a bundle is left after: {error}");
            assert_eq!(
                fs::read_dir(self.home.path()).unwrap().count(),
                1,
                "something is left after: {error}"
            );
            error.to_string()
        })
    }
}

fn names(path: &Path) -> Vec<String> {
    Bundle::open(path).unwrap().entries().iter().map(|entry| entry.name.clone()).collect()
}

#[test]
fn the_same_folder_gives_the_same_bytes() {
    let source = Source::new(&[("b/c.txt", "c"), ("a.txt", "a")]);
    let first = source.pack().unwrap();
    let bytes = fs::read(source.output()).unwrap();
    // Another time, and another order of creation.
    let other = Source::new(&[("a.txt", "a"), ("b/c.txt", "c")]);
    let second = other.pack().unwrap();
    assert_eq!(fs::read(other.output()).unwrap(), bytes);
    assert_eq!((first.sha256, first.size), (second.sha256.clone(), bytes.len() as u64));
    assert_eq!(second.sha256, Bundle::open(&other.output()).unwrap().sha256().unwrap());
    assert_eq!(names(&other.output()), ["a.txt", "b/c.txt", "manifest.json", "server.js"]);
}
