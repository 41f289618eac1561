//! Conformance tests for all stores.

use secrecy::ExposeSecret as _;

use super::CredentialStore;

/// Tries everything that a store promises, on one that is empty and is so again afterwards. For tests of stores.
///
/// # Panics
/// When a promise is broken.
pub fn check_store_conformance(store: &dyn CredentialStore) {
    let failed = "a store that works";
    let read =
        |name: &str| store.read(name).expect(failed).map(|document| document.expose_secret().to_owned());
    assert_eq!(read("tokens x"), None);
    store.write("tokens x", &"s3cret".into()).expect(failed);
    store.write("tokens y", &"other".into()).expect(failed);
    store.write("registration https://as/x?y=1#z ü", &"third".into()).expect(failed);
    store.write("tokens x", &"s3cret2".into()).expect(failed);
    assert_eq!(read("tokens x").as_deref(), Some("s3cret2"), "the new in the place of the old");
    assert_eq!(read("tokens "), None, "a beginning is no name");
    let names = |beginning: &str| {
        let mut names = store.names(beginning).expect(failed);
        names.sort_unstable();
        names
    };
    assert_eq!(names("tokens "), ["tokens x", "tokens y"]);
    assert_eq!(names("registration "), ["registration https://as/x?y=1#z ü"]);
    assert_eq!(read("registration https://as/x?y=1#z ü").as_deref(), Some("third"));
    // As long as tokens of several kilobytes with their keys are, and of whatever they are made.
    let long = format!("{{\"access\":\"{}\\n\u{1f511}\"}}", "x".repeat(20_000));
    store.write("tokens y", &long.clone().into()).expect(failed);
    assert_eq!(read("tokens y"), Some(long));
    assert!(!format!("{store:?}").contains("s3cret"), "nothing is shown");
    for name in ["tokens x", "tokens x", "tokens of which there are none"] {
        drop(store.lock(name).expect(failed));
    }
    let lock = store.lock("tokens x").expect(failed);
    store.write("tokens x", &"renewed".into()).expect(failed);
    drop(lock);
    assert_eq!(read("tokens x").as_deref(), Some("renewed"), "whoever holds the lock writes");
    for name in ["tokens x", "tokens y", "tokens y", "registration https://as/x?y=1#z ü"] {
        store.remove(name).expect(failed);
        assert_eq!(read(name), None, "what is removed is gone, and may be removed again");
    }
    assert!(names("").is_empty());
}
