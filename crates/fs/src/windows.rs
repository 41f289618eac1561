//! Access lists of files. The calls of the system need `unsafe`; the crate `windows-permissions` has safe functions for
//! them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;

use windows_permissions::constants::{SeObjectType, SecurityInformation};
use windows_permissions::wrappers::{
    ConvertSecurityDescriptorToStringSecurityDescriptor, GetSecurityInfo, SetSecurityInfo,
};
use windows_permissions::{LocalBox, SecurityDescriptor, utilities};

use super::access_list;
use super::retry::retry_while_in_use;

/// `READ_CONTROL`: reading of the access list.
const READ_CONTROL: u32 = 0x0002_0000;
/// `WRITE_DAC`: changing of the access list.
const WRITE_DAC: u32 = 0x0004_0000;
/// `GENERIC_READ` and `GENERIC_WRITE`.
const READ_WRITE: u32 = 0xC000_0000;
/// `FILE_FLAG_BACKUP_SEMANTICS`, without which folders cannot be opened, and `FILE_FLAG_OPEN_REPARSE_POINT`, so that no
/// link is followed.
const ANY_ENTRY: u32 = 0x0220_0000;

pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).access_mode(READ_WRITE | READ_CONTROL | WRITE_DAC);
    // No other process can open it before its access list is set.
    let mut file = options.share_mode(0).open(path)?;
    let list = user().and_then(|user| set_list(&mut file, &access_list::of_private_file(&user)));
    drop(file);
    // Nothing is left that would look like a private file.
    list.map_err(|error| describe(path, &error)).inspect_err(|_| drop(fs::remove_file(path)))?;
    // Opened again, because nobody else could open it with the first handle.
    retry_while_in_use(|| open(path))
}

pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    // Another process that creates it at this moment has it for itself until its access list is set.
    match retry_while_in_use(|| open(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    match create_private(path) {
        // Another process was first, and may not have set the access list yet.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => retry_while_in_use(|| open(path)),
        result => result,
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    // It is empty, so that nobody can have read anything before its access list is set.
    change_list(path, access_list::of_private_folder)
}

pub(crate) fn is_open_to_others(path: &Path) -> io::Result<bool> {
    let list = SecurityInformation::Dacl;
    let file = OpenOptions::new().access_mode(READ_CONTROL).custom_flags(ANY_ENTRY).open(path)?;
    let descriptor = GetSecurityInfo(&file, SeObjectType::SE_FILE_OBJECT, list)?;
    let text = ConvertSecurityDescriptorToStringSecurityDescriptor(&descriptor, list)?;
    Ok(access_list::is_open_to_others(&text.to_string_lossy(), &user()?))
}

pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    change_list(path, access_list::of_private_file)
}

pub(crate) fn protection_hint(path: &Path) -> String {
    format!("icacls \"{}\" /inheritance:r /grant:r \"%USERNAME%:F\"", path.display())
}

/// Exchanges two files in one step, which Windows cannot do.
pub(crate) fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the security identifier of the user of this process, such as `S-1-5-21-…`.
fn user() -> io::Result<String> {
    utilities::current_process_sid().map(|user| user.to_string())
}

fn change_list(path: &Path, list: fn(&str) -> String) -> io::Result<()> {
    let change = || {
        let mut options = OpenOptions::new();
        let mut file = options.access_mode(READ_CONTROL | WRITE_DAC).custom_flags(ANY_ENTRY).open(path)?;
        set_list(&mut file, &list(&user()?))
    };
    retry_while_in_use(change).map_err(|error| describe(path, &error))
}

fn set_list(file: &mut File, list: &str) -> io::Result<()> {
    let descriptor: LocalBox<SecurityDescriptor> = list.parse()?;
    let Some(list) = descriptor.dacl() else { return Err(io::ErrorKind::InvalidData.into()) };
    // Protected: nothing is inherited from the folder.
    let what = SecurityInformation::Dacl | SecurityInformation::ProtectedDacl;
    SetSecurityInfo(file, SeObjectType::SE_FILE_OBJECT, what, None, None, Some(list), None)
}

fn describe(path: &Path, error: &io::Error) -> io::Error {
    let why = format!(
        "cannot set the access list of {}: {error}; use a folder on a volume that keeps access lists, such as NTFS",
        path.display()
    );
    io::Error::new(error.kind(), why)
}
