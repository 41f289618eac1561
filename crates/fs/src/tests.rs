use std::io::{Read as _, Write as _};

use super::*;

#[test]
fn a_private_file_is_for_its_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let mut file = create_private(&path).unwrap();
    file.write_all(b"secret").unwrap();
    assert!(!is_open_to_others(&path).unwrap());
    assert_eq!(create_private(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    // Others of the user can read it while it is open.
    assert_eq!(fs::read_to_string(&path).unwrap(), "secret");
    let mut text = String::new();
    open_private(&path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "secret", "an existing file keeps its content");
    let other = folder.path().join("other");
    drop(open_private(&other).unwrap());
    assert!(!is_open_to_others(&other).unwrap());
}

/// Stores of several processes open the same lock file at the same time.
#[test]
fn a_private_file_that_several_open_first_is_opened_by_all() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = folder.path().join(format!("{round}.lock"));
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let open = || {
                start.wait();
                open_private(&path).map(drop)
            };
            let opened: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            opened.into_iter().for_each(|opened| opened.join().unwrap().unwrap());
        });
        assert!(!is_open_to_others(&path).unwrap());
    }
}

#[test]
fn a_file_that_others_can_read_is_noticed_and_made_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, "x").unwrap();
    open_to_everybody(&path);
    assert!(is_open_to_others(&path).unwrap());
    assert!(restrict(&path).unwrap());
    assert!(!restrict(&path).unwrap(), "nothing is left to do");
    assert!(!is_open_to_others(&path).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    assert!(is_open_to_others(&folder.path().join("none")).is_err());
}

#[test]
fn a_private_folder_is_created_with_its_parents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    create_private_folder(&path).unwrap();
    create_private_folder(&path).unwrap();
    for folder in [path.parent().unwrap(), &path] {
        assert!(!is_open_to_others(folder).unwrap(), "{}", folder.display());
    }
    fs::write(path.join("file"), "x").unwrap();
    assert!(create_private_folder(&path.join("file")).is_err());
}

#[test]
fn a_temporary_file_takes_the_place_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    fs::write(&path, "old").unwrap();
    let mut new = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
    new.write_all(b"new").unwrap();
    persist(new, &path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    let lost = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
    persist(lost, &folder.path().join("none/config")).unwrap_err();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file is left");
}

/// A program that scans a new file holds it for a moment.
#[cfg(windows)]
#[test]
fn a_file_that_another_program_has_open_is_replaced_when_it_is_closed() {
    use std::os::windows::fs::OpenOptionsExt as _;

    /// `FILE_SHARE_READ`: no other process can replace or delete it.
    const READERS_ONLY: u32 = 1;

    let folder = tempfile::tempdir().unwrap();
    let (new, old) = (folder.path().join("new"), folder.path().join("old"));
    fs::write(&new, "new").unwrap();
    fs::write(&old, "old").unwrap();
    let hold = || fs::OpenOptions::new().read(true).share_mode(READERS_ONLY).open(&old).unwrap();
    let (mut held, mut attempts) = (Some(hold()), 0);
    retry_while_in_use(|| {
        attempts += 1;
        if attempts == 3 {
            held = None;
        }
        fs::rename(&new, &old)
    })
    .unwrap();
    assert_eq!((attempts, fs::read_to_string(&old).unwrap().as_str()), (3, "new"));
    fs::write(&new, "newer").unwrap();
    let _held = hold();
    rename(&new, &old).unwrap_err();
    assert_eq!(fs::read_to_string(&old).unwrap(), "new", "the old file stays");
}

#[cfg(unix)]
#[test]
fn a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    drop(create_private(&real).unwrap());
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert!(create_private(&link).is_err());
    assert!(is_open_to_others(&link).unwrap());
}

#[cfg(unix)]
fn open_to_everybody(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

#[cfg(windows)]
fn open_to_everybody(path: &Path) {
    use windows_permissions::constants::{SeObjectType, SecurityInformation};
    let list = "D:(A;;FR;;;WD)(A;;FA;;;SY)".parse::<windows_permissions::LocalBox<_>>().unwrap();
    let list: &windows_permissions::SecurityDescriptor = &list;
    windows_permissions::wrappers::SetNamedSecurityInfo(
        path,
        SeObjectType::SE_FILE_OBJECT,
        SecurityInformation::Dacl,
        None,
        None,
        list.dacl(),
        None,
    )
    .unwrap();
}

#[test]
fn a_private_file_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    // A process that was killed has left its temporary file.
    fs::write(folder.path().join(".hospes-key"), "half").unwrap();
    for content in ["one", "two"] {
        replace_private(&path, content.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        assert!(!is_open_to_others(&path).unwrap());
    }
    fs::create_dir(folder.path().join("folder")).unwrap();
    assert!(replace_private(&folder.path().join("folder"), b"x").is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "a temporary file is left");
}
