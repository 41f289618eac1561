use super::super::MemoryCredentialStore;
use super::*;

fn key(byte: u8) -> StoreKey {
    StoreKey::Random(Zeroizing::new([byte; 32]))
}

#[test]
fn all_stores_behave_alike() {
    let folder = tempfile::tempdir().unwrap();
    let file = FileCredentialStore::new(folder.path().join("credentials"), key(1));
    for store in [&MemoryCredentialStore::new() as &dyn CredentialStore, &file] {
        super::super::check_store_conformance(store);
    }
}

/// covers: AUTC-16
#[test]
fn a_file_tells_nothing_and_takes_no_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials");
    let store = FileCredentialStore::new(&path, StoreKey::passphrase("open sesame".to_owned()));
    store.write("tokens https://m", &"s3cret".into()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!text.contains("s3cret") && !text.contains("https"), "{text}");
    let again = FileCredentialStore::new(&path, StoreKey::passphrase("open sesame".to_owned()));
    assert_eq!(again.read("tokens https://m").unwrap().unwrap().expose_secret(), "s3cret");
    let wrong = FileCredentialStore::new(&path, StoreKey::passphrase("open barley".to_owned()));
    assert!(wrong.read("tokens https://m").unwrap_err().to_string().contains("passphrase"));
    assert!(wrong.write("x", &"y".into()).is_err(), "what cannot be read is not written over");
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(again.read("tokens https://m").is_err());
    fs::write(&path, b"something else").unwrap();
    assert!(again.write("x", &"y".into()).is_err());
}

/// A crash between the new file and its taking the old one's place.
#[test]
fn what_a_crash_leaves_is_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials");
    let store = FileCredentialStore::new(&path, key(1));
    store.write("a", &"1".into()).unwrap();
    fs::write(store.beside(".new"), b"half").unwrap();
    let after = FileCredentialStore::new(&path, key(1));
    assert_eq!(after.read("a").unwrap().unwrap().expose_secret(), "1");
    after.write("a", &"2".into()).unwrap();
    assert_eq!(store.read("a").unwrap().unwrap().expose_secret(), "2");
}

#[cfg(unix)]
#[test]
fn a_file_that_others_can_read_or_place_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials");
    let store = FileCredentialStore::new(&path, key(1));
    store.write("a", &"1".into()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = store.read("a").unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    assert!(store.write("a", &"2".into()).is_err());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    let linked = FileCredentialStore::new(&link, key(1));
    assert!(linked.read("a").is_err() && linked.write("a", &"2".into()).is_err());
    assert_eq!(store.read("a").unwrap().unwrap().expose_secret(), "1");
}

#[test]
fn two_writers_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = path.clone();
            scope.spawn(move || {
                let store = FileCredentialStore::new(path, key(1));
                for number in 0..5 {
                    store.write(&format!("{writer} {number}"), &"x".into()).unwrap();
                }
            });
        }
    });
    assert_eq!(FileCredentialStore::new(path, key(1)).names("").unwrap().len(), 20);
}

#[test]
fn a_key_is_made_once_and_kept_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let store = |key| FileCredentialStore::new(folder.path().join("credentials"), key);
    store(StoreKey::in_file(&path).unwrap()).write("a", &"1".into()).unwrap();
    let again = store(StoreKey::in_file(&path).unwrap());
    assert_eq!(again.read("a").unwrap().unwrap().expose_secret(), "1");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(StoreKey::in_file(&path).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::write(&path, b"short").unwrap();
    assert!(StoreKey::in_file(&path).is_err());
}

#[test]
fn what_no_key_opens_is_put_aside_and_can_be_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials");
    let (first, second) = (FileCredentialStore::new(&path, key(1)), FileCredentialStore::new(&path, key(2)));
    assert!(first.can_open().unwrap() && second.can_open().unwrap(), "there is nothing to be opened");
    first.write("a", &"1".into()).unwrap();
    assert!(first.can_open().unwrap() && !second.can_open().unwrap());
    let error = second.read("a").unwrap_err().to_string();
    assert!(error.contains("wrong key"), "{error}");
    let aside = second.set_aside().unwrap();
    second.write("a", &"2".into()).unwrap();
    assert_eq!(second.read("a").unwrap().unwrap().expose_secret(), "2");
    assert_ne!(aside, first.set_aside().unwrap(), "nothing is written over");
    fs::rename(&aside, &path).unwrap();
    assert_eq!(first.read("a").unwrap().unwrap().expose_secret(), "1");
}

#[test]
fn a_key_is_written_to_no_file_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    assert!(StoreKey::from_file(&path).unwrap().is_none());
    let (one, other) = (StoreKey::generate().unwrap(), StoreKey::generate().unwrap());
    assert!(!one.is_same(&other));
    one.to_file(&path).unwrap();
    assert!(other.to_file(&path).is_err());
    assert!(StoreKey::from_file(&path).unwrap().unwrap().is_same(&one));
    assert!(StoreKey::passphrase("x".to_owned()).to_file(&folder.path().join("other")).is_err());
    assert!(!folder.path().join("other").exists());
}
