//! Archives that are opened and refused.

use std::fs;
use std::path::Path;

use hospes_bundle::archive::{EntryProblem, MAX_FILES, MAX_NAME_BYTES};
use hospes_bundle::{Bundle, BundleError};

use crate::zip::{Entry, archive, bundle, with_count};

fn open(bytes: Vec<u8>) -> Result<Bundle, BundleError> {
    Bundle::from_bytes(bytes)
}

fn why(bytes: Vec<u8>) -> String {
    match open(bytes) {
        Ok(bundle) => panic!("opened: {:?}", bundle.entries()),
        Err(error) => error.to_string(),
    }
}

/// Unpacks into a new folder. Returns the error, after a look at what is left.
fn unpack_error(bytes: Vec<u8>) -> String {
    let home = tempfile::tempdir().unwrap();
    let error = open(bytes).unwrap().unpack(&home.path().join("out")).unwrap_err();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "something is left after: {error}");
    error.to_string()
}

#[test]
fn a_bundle_is_unpacked_read_only_and_programs_stay_executable() {
    let files = [
        Entry::new("bin/run", b"#!/bin/sh\n").mode(0o100_755),
        Entry::stored("data/empty", b""),
        Entry { attributes: 0o40_755 << 16, ..Entry::stored("folder/", b"") },
        Entry::new("ünï.txt", "ä".repeat(100_000).as_bytes()).mode(0o104_777),
    ];
    let bundle = open(bundle(&files)).unwrap();
    assert_eq!(bundle.entries().len(), 6);
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a/b");
    bundle.unpack(&folder).unwrap();
    assert_eq!(fs::read(folder.join("bin/run")).unwrap(), b"#!/bin/sh\n");
    assert_eq!(fs::read_to_string(folder.join("ünï.txt")).unwrap(), "ä".repeat(100_000));
    assert!(folder.join("folder").is_dir());
    #[cfg(unix)]
    {
        let mode = |name: &str| {
            use std::os::unix::fs::PermissionsExt as _;
            fs::metadata(folder.join(name)).unwrap().permissions().mode()
        };
        // Not even what runs as another user stays.
        assert_eq!((mode("bin/run"), mode("ünï.txt")), (0o100_555, 0o100_555));
        assert_eq!((mode("manifest.json"), mode("data/empty")), (0o100_444, 0o100_444));
    }
    assert_eq!(names(folder.parent().unwrap()), ["b"], "a temporary folder is left");
    let again = bundle.unpack(&folder).unwrap_err().to_string();
    assert!(again.contains("exists"), "{again}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_program_without_modes_becomes_executable() {
    let manifest = crate::zip::MANIFEST
        .replace("\"node\", \"entry_point\": \"server.js\"", "\"binary\", \"entry_point\": \"server.js\"");
    let files = [("manifest.json", manifest.as_bytes()), ("server.js", b"#!/bin/sh\n"), ("other", b"")];
    let files = files.map(|(name, content)| Entry { attributes: 0, ..Entry::new(name, content) });
    let home = tempfile::tempdir().unwrap();
    open(archive(&files)).unwrap().unpack(&home.path().join("out")).unwrap();
    #[cfg(unix)]
    for (name, expected) in [("server.js", 0o555), ("other", 0o444)] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(home.path().join("out").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expected, "{name}");
    }
}

#[test]
fn names_that_are_unsafe_on_any_platform_are_refused() {
    let long = "a".repeat(MAX_NAME_BYTES + 1);
    let cases = [
        ("../out", "`..`"),
        ("a/../../out", "`..`"),
        ("/etc/passwd", "absolute"),
        ("a\\..\\out", "backslash"),
        ("C:out", "colon"),
        ("nul", "device"),
        ("x/com1.js", "device"),
        ("a\u{1b}[2J", "control"),
        ("a.", "dot or a space"),
        ("a//b", "empty part"),
        (long.as_str(), "512 bytes"),
    ];
    for (name, reason) in cases {
        let why = why(bundle(&[Entry::new(name, b"x")]));
        assert!(why.contains(reason), "{name:?}: {why}");
        assert!(!why.contains('\u{1b}'), "{why:?}");
    }
    let why = why(bundle(&[Entry {
        name: b"a\xff".to_vec(),
        local_name: b"a\xff".to_vec(),
        ..Entry::new("", b"")
    }]));
    assert!(why.contains("UTF-8"), "{why}");
}

#[test]
fn links_devices_and_pipes_are_refused() {
    for (mode, what) in [
        (0o120_777, "a link"),
        (0o060_666, "a device"),
        (0o020_666, "a device"),
        (0o010_666, "a pipe"),
        (0o140_666, "a pipe or a socket"),
        (0o040_755, "the other of a folder"),
    ] {
        let why = why(bundle(&[Entry::stored("x", b"/etc/passwd").mode(mode)]));
        assert!(why.contains(what), "{mode:o}: {why}");
    }
    let why = why(bundle(&[Entry::stored("x/", b"").mode(0o100_644)]));
    assert!(why.contains("folder"), "{why}");
}

#[test]
fn names_of_the_same_file_are_refused() {
    for (one, other) in [("a", "a"), ("Readme", "README"), ("é", "e\u{301}"), ("d/ſ", "D/s"), ("x", "x/")] {
        let second = if other.ends_with('/') {
            Entry::stored(other, b"").mode(0o40_755)
        } else {
            Entry::new(other, b"2")
        };
        let why = why(bundle(&[Entry::new(one, b"1"), second]));
        assert!(why.contains("the same file"), "{one:?} {other:?}: {why}");
    }
    for (file, inside) in [("a", "a/b"), ("A", "a/b/c")] {
        let why = why(bundle(&[Entry::new(file, b"1"), Entry::new(inside, b"2")]));
        assert!(why.contains("also the folder"), "{why}");
    }
}

#[test]
fn what_is_encrypted_or_compressed_otherwise_is_refused() {
    for flags in [1, 0x41, 0x2000] {
        let why = why(bundle(&[Entry { flags, ..Entry::new("x", b"x") }]));
        assert!(why.contains("encrypted"), "{why}");
    }
    for method in [9, 12, 14, 93, 99] {
        let why = why(bundle(&[Entry { method, ..Entry::new("x", b"x") }]));
        assert!(why.contains(&format!("method {method};")), "{why}");
    }
}

#[test]
fn bombs_are_refused_before_they_are_unpacked() {
    // A gigabyte that is stated.
    let big = Entry { size: 1 << 30, ..Entry::new("big", &[0; 1 << 20]) };
    assert!(why(bundle(&[big])).contains("536870912 bytes; that is the limit"));
    // A ratio that deflate reaches.
    let dense = Entry::new("dense", &vec![0; 8 << 20]);
    assert!(why(bundle(&[dense])).contains("at most 200 times larger"));
    // A ratio that hardly matters.
    assert!(open(bundle(&[Entry::new("small", &vec![0; 1 << 19])])).is_ok());
    // A size that is stated too small.
    let lying = Entry { size: 100, ..Entry::new("lying", &vec![0; 8 << 20]) };
    assert!(unpack_error(bundle(&[lying])).contains("\"lying\": its data is damaged"));
    // A size that is stated too large.
    let lying = Entry { size: 200, ..Entry::new("lying", &[0; 100]) };
    assert!(unpack_error(bundle(&[lying])).contains("\"lying\": its data is damaged"));
    // Many small files.
    let many: Vec<Entry> = (0..MAX_FILES - 1).map(|number| Entry::stored(&number.to_string(), b"")).collect();
    assert!(why(bundle(&many)).contains("20001 files and folders; at most 20000"));
    assert!(open(bundle(&many[1..])).is_ok());
    // More than are stated.
    let mut entries = vec![Entry::new("manifest.json", b"{}")];
    entries.extend_from_slice(&many[..10]);
    assert!(why(with_count(&entries, 3)).contains("more files than it states"));
    assert!(why(with_count(&entries, 30)).contains("fewer files than it states"));
}

#[test]
fn files_that_share_data_are_refused() {
    let kernel = Entry::new("0", &vec![0; 4 << 10]);
    // The same record for two names, and a record inside of another's data.
    let same = Entry { name: b"1".to_vec(), offset: Some(0), ..kernel.clone() };
    let why_same = why(archive(&[kernel, same]));
    assert!(why_same.contains("contradict") || why_same.contains("overlaps"), "{why_same}");
    let inner = archive(&[Entry::stored("1", b"inner")]);
    let outer = Entry::stored("0", &inner);
    let inside = Entry { offset: Some(30 + 1), ..Entry::stored("1", b"inner") };
    assert!(why(archive(&[outer, inside])).contains("overlaps"));
}

#[test]
fn records_that_contradict_each_other_are_refused() {
    let other_name = Entry { local_name: b"evil.js".to_vec(), ..Entry::new("good.js", b"x") };
    assert!(why(bundle(&[other_name])).contains("two names"));
    let two_sizes = Entry { size: 3, ..Entry::stored("x", b"12345") };
    assert!(why(bundle(&[two_sizes])).contains("two sizes"));
}

#[test]
fn damage_is_seen() {
    let wrong_crc = Entry { crc: 1, ..Entry::new("x", b"content") };
    assert!(unpack_error(bundle(&[wrong_crc])).contains("\"x\": its data is damaged"));
    let mut hidden = Entry::new("x", b"content");
    hidden.data.extend(b"hidden");
    hidden.compressed_size += 6;
    assert!(unpack_error(bundle(&[hidden])).contains("other data follows"));
    let whole = bundle(&[]);
    assert!(why(b"no zip".to_vec()).contains("no intact ZIP archive"));
    assert!(why(Vec::new()).contains("no intact ZIP archive"));
    for cut in [1, 10, 22, whole.len() / 2] {
        assert!(open(whole[..whole.len() - cut].to_vec()).is_err(), "cut by {cut}");
    }
    assert!(why([b"#!/bin/sh\n", whole.as_slice()].concat()).contains("begins with other data"));
    assert!(why([whole.as_slice(), b"more"].concat()).contains("4 bytes follow it"));
}

#[test]
fn a_bundle_without_a_manifest_is_none() {
    let why_none = why(archive(&[Entry::new("server.js", b"")]));
    assert_eq!(why_none, "the bundle has no manifest.json");
    let nested = why(archive(&[Entry::new("demo/manifest.json", b"{}"), Entry::new("demo/x", b"")]));
    assert!(nested.contains("there is one in \"demo\""), "{nested}");
}

#[test]
fn a_file_is_read_up_to_a_limit() {
    let bundle = open(bundle(&[Entry::new("x", b"12345")])).unwrap();
    assert_eq!(bundle.read_file("x", 5).unwrap(), b"12345");
    let error = bundle.read_file("x", 4).unwrap_err();
    assert!(
        matches!(error, BundleError::Entry { why: EntryProblem::TooLarge { size: 5, limit: 4 }, .. }),
        "{error}"
    );
    assert!(matches!(bundle.read_file("y", 5), Err(BundleError::NoSuchFile { .. })));
}

#[test]
fn the_digest_is_that_of_the_whole_file() {
    let bytes = bundle(&[]);
    let expected = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &bytes);
    let expected: String = expected.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(open(bytes.clone()).unwrap().sha256().unwrap(), expected);
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("x.mcpb");
    fs::write(&file, bytes).unwrap();
    assert_eq!(Bundle::open(&file).unwrap().sha256().unwrap(), expected);
    assert!(Bundle::open(home.path()).unwrap_err().to_string().starts_with("cannot open"));
}
