//! Fingerprint of a server: its command line and program, or its URL.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

use aws_lc_rs::digest::{Context, SHA256};
use hospes_store::pins::{ServerFingerprint, Sha256Digest};
use parking_lot::Mutex;

use super::scripts::find_scripts;
use crate::config::{ServerConfig, ServerTransport, StdioTransport};

/// The largest program that is hashed.
const MAX_PROGRAM: u64 = 1 << 30;

/// Maximum number of programs whose hashes are cached.
const MAX_PROGRAMS: usize = 256;

/// Computes the fingerprint of a server. It hashes the program, if there is one, and the scripts on its command line,
/// because for `python server.py` the interpreter alone is not significant.
///
/// References to variables are used as written, because their values may be secret and change. Of the environment and
/// of headers, only the names are used. `inherited` are names of variables that the process gets from the host, if not
/// the usual few.
pub(crate) fn fingerprint(transport: &ServerTransport, inherited: Option<&[String]>) -> ServerFingerprint {
    let shown = transport.to_string();
    match transport {
        ServerTransport::Stdio(stdio) => {
            let program = program(stdio, inherited);
            let target = target_of(transport, program.as_deref());
            let hash =
                program.as_deref().and_then(|program| hash_all(program, &find_scripts(stdio, program)));
            let program = program.map(|program| program.to_string_lossy().into_owned());
            ServerFingerprint::new(target, shown).with_program(program, hash)
        }
        ServerTransport::Http(_) => ServerFingerprint::new(target_of(transport, None), shown),
        ServerTransport::Builtin(_) => {
            let target = target_of(transport, None);
            ServerFingerprint::new(target, format!("{shown} {}", env!("CARGO_PKG_VERSION")))
        }
    }
}

/// Computes the hash of a server's command line or URL, as in its [`fingerprint`]. It distinguishes servers of the same
/// name. Does not read the program.
pub(crate) fn target(config: &ServerConfig) -> Sha256Digest {
    let program = match &config.transport {
        ServerTransport::Stdio(stdio) => program(stdio, config.sandbox.environment.as_deref()),
        _ => None,
    };
    target_of(&config.transport, program.as_deref())
}

fn target_of(transport: &ServerTransport, program: Option<&Path>) -> Sha256Digest {
    let mut target = FingerprintHasher(Context::new(&SHA256));
    match transport {
        ServerTransport::Stdio(stdio) => {
            target.add("stdio");
            target.add(&program.unwrap_or_else(|| Path::new(stdio.command.reveal())).to_string_lossy());
            stdio.args.iter().for_each(|arg| target.add(arg.written()));
            // The marks keep names of variables apart from arguments.
            target.add("env");
            stdio.env.keys().for_each(|name| target.add(name));
            target.add("cwd");
            target.add(&stdio.cwd.as_deref().map(Path::to_string_lossy).unwrap_or_default());
        }
        ServerTransport::Http(http) => {
            target.add("http");
            target.add(http.url.written());
            // Where it really leads, without what might be secret.
            target.add(&http.url.reveal().origin().ascii_serialization());
            // Names of header fields are compared without regard to case (RFC 9110, section 5.1).
            http.headers.iter().for_each(|(name, _)| target.add(&name.to_ascii_lowercase()));
        }
        // Not which release it is of: what it offers is compared by itself, and a person is not asked anew about the rest.
        ServerTransport::Builtin(builtin) => {
            target.add("builtin");
            target.add(&builtin.name);
            builtin.args.iter().for_each(|arg| target.add(arg.written()));
        }
    }
    target.finish()
}

struct FingerprintHasher(Context);

impl FingerprintHasher {
    fn add(&mut self, part: &str) {
        self.0.update(&(part.len() as u64).to_be_bytes());
        self.0.update(part.as_bytes());
    }

    fn finish(self) -> Sha256Digest {
        digest(self.0)
    }
}

fn digest(context: Context) -> Sha256Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    Sha256Digest::new(bytes)
}

/// Returns the executed file, resolved as when the server is started.
fn program(stdio: &StdioTransport, inherited: Option<&[String]>) -> Option<PathBuf> {
    let command = Path::new(stdio.command.reveal());
    let here = stdio.cwd.clone().or_else(|| std::env::current_dir().ok())?;
    let path = stdio.search_path(inherited);
    let named = || std::path::absolute(here.join(command)).unwrap_or_else(|_| command.to_owned());
    match hospes_sandbox::resolve(command.as_os_str(), path.as_deref(), &here) {
        Ok(file) => Some(std::path::absolute(&file).unwrap_or(file)),
        // A path is the target even if there is no file yet.
        Err(_) if command.components().count() > 1 || command.is_absolute() => Some(named()),
        Err(_) => None,
    }
}

/// File metadata that distinguish versions of a file without reading it.
type FileStamp = (u64, Option<SystemTime>, u64, i128);

/// Interpreters are large, and many servers share one.
static PROGRAM_HASHES: LazyLock<Mutex<HashMap<PathBuf, (FileStamp, Sha256Digest)>>> =
    LazyLock::new(Mutex::default);

/// Returns the hash of a program, combined with those of its scripts if there are any. `None` if one of the files
/// cannot be read.
fn hash_all(program: &Path, scripts: &[PathBuf]) -> Option<Sha256Digest> {
    let program = hash(program)?;
    if scripts.is_empty() {
        return Some(program);
    }
    let mut all = Context::new(&SHA256);
    all.update(program.as_bytes());
    for script in scripts {
        all.update(hash(script)?.as_bytes());
    }
    Some(digest(all))
}

/// Returns the hash of a file. `None` if it cannot be read.
fn hash(path: &Path) -> Option<Sha256Digest> {
    let mut file = File::open(path).ok()?;
    // Of the open file, not of the path, where another file could be put in between.
    let found = file.metadata().ok().filter(|found| found.is_file() && found.len() <= MAX_PROGRAM)?;
    let stamp = stamp(&found);
    // Locked only for a look: hashing a large program takes long.
    let known = || PROGRAM_HASHES.lock();
    if let Some((at, digest)) = known().get(path)
        && *at == stamp
    {
        return Some(*digest);
    }
    let mut context = Context::new(&SHA256);
    let (mut buffer, mut read) = (vec![0; 1 << 16], 0);
    loop {
        let count = file.read(&mut buffer).ok()?;
        if count == 0 {
            break;
        }
        read += count as u64;
        // It may have grown since its length was looked at.
        if read > MAX_PROGRAM {
            return None;
        }
        context.update(&buffer[..count]);
    }
    let digest = digest(context);
    let mut known = known();
    if known.len() >= MAX_PROGRAMS {
        known.clear();
    }
    // With the stamp from before the reading: after a change meanwhile the entry does not match.
    known.insert(path.to_owned(), (stamp, digest));
    Some(digest)
}

#[cfg(unix)]
fn stamp(found: &Metadata) -> FileStamp {
    use std::os::unix::fs::MetadataExt as _;
    // The time of the last change of status cannot be set back by a program, unlike that of the modification.
    let changed = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
    (found.len(), found.modified().ok(), found.ino(), changed)
}

#[cfg(not(unix))]
fn stamp(found: &Metadata) -> FileStamp {
    (found.len(), found.modified().ok(), 0, 0)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::{ExpandedText, Secret};

    fn script(file: &Path, text: &str) {
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn stdio(command: &str, args: &[&str], path: &Path) -> ServerTransport {
        let ServerTransport::Stdio(mut stdio) = ServerTransport::stdio(command, args.iter().copied()) else {
            panic!()
        };
        stdio.env.insert("PATH".to_owned(), Secret::new(path.to_str().unwrap()));
        ServerTransport::Stdio(stdio)
    }

    #[test]
    fn a_program_is_found_where_the_child_finds_it_and_a_replaced_one_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("1"), folder.path().join("2"));
        for place in [&first, &second] {
            std::fs::create_dir(place).unwrap();
        }
        // Not executable, so it is not this one.
        std::fs::write(first.join("serve"), "x").unwrap();
        script(&second.join("serve"), "#!/bin/sh\n");
        let path = std::env::join_paths([&first, &second]).unwrap();
        let it = || fingerprint(&stdio("serve", &["--x"], Path::new(&path)), None);
        let before = it();
        assert_eq!(before.program.as_deref(), second.join("serve").to_str());
        assert!(before.program_hash.is_some());
        assert_eq!(it(), before);
        script(&second.join("serve"), "#!/bin/zsh");
        let after = it();
        assert_eq!(after.target, before.target);
        assert_ne!(after.program_hash, before.program_hash, "the same length, another content");
        script(&first.join("serve"), "#!/bin/sh\n");
        assert_ne!(it().target, before.target, "another file comes first");
    }

    /// A server that does not get the host's search path is started from the system's folders.
    #[test]
    fn a_search_path_that_the_child_does_not_get_finds_no_program() {
        let host = std::env::var_os("PATH");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let path = |own: Option<&str>, inherited: Option<&[String]>| {
            StdioTransport::search_path_of_child(own.map(Into::into), inherited)
        };
        assert!(host.is_some());
        assert_eq!(path(None, None), host);
        assert_eq!(path(None, Some(&names(&["LANG", "PATH"]))), host);
        assert_eq!(path(None, Some(&names(&["LANG"]))), None);
        assert_eq!(path(Some("/own"), Some(&names(&["LANG"]))), Some("/own".into()));
        let ServerTransport::Stdio(stdio) = ServerTransport::stdio("sh", []) else { panic!() };
        let found = program(&stdio, Some(&names(&["LANG"]))).unwrap();
        assert_eq!(found, hospes_sandbox::resolve("sh".as_ref(), None, Path::new("/")).unwrap());
    }

    #[test]
    fn another_script_is_another_program_and_other_data_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("package/sub")).unwrap();
        for name in ["python3.12", "serve"] {
            script(&at(name), "#!/bin/sh\n");
        }
        let files = [
            "server.py",
            "main",
            "notes.db",
            "hook.mjs",
            "module.py",
            "package/sub/__main__.py",
            "package/index.js",
        ];
        let hash_of = |command: &str, args: &[&str]| {
            let ServerTransport::Stdio(mut stdio) = stdio(command, args, folder.path()) else { panic!() };
            stdio.cwd = Some(folder.path().to_owned());
            fingerprint(&ServerTransport::Stdio(stdio), None).program_hash.unwrap()
        };
        for (command, args, counts) in [
            ("python3.12", &["server.py", "--db", "notes.db"][..], &["server.py"][..]),
            ("python3.12", &["-u", "main", "server.py"], &["main", "server.py"]),
            ("python3.12", &["-m", "module"], &["module.py"]),
            ("python3.12", &["-m", "package.sub"], &["package/sub/__main__.py"]),
            ("python3.12", &["package"], &["package/index.js"]),
            ("python3.12", &["--import=./hook.mjs", "main"], &["hook.mjs", "main"]),
            ("serve", &["server.py", "main", "notes.db"], &["server.py"]),
            ("serve", &["package"], &[]),
        ] {
            for file in files {
                std::fs::write(at(file), "one").unwrap();
            }
            for file in files {
                let before = hash_of(command, args);
                std::fs::write(at(file), "another").unwrap();
                let is_other = hash_of(command, args) != before;
                assert_eq!(is_other, counts.contains(&file), "{command} {args:?}: {file}");
            }
        }
        // As it was before there was a script.
        assert_eq!(hash_of("serve", &[]), hash(&at("serve")).unwrap());
    }

    /// A lasting decision used to end with each release.
    #[test]
    fn a_built_in_server_is_its_name_and_its_settings_in_every_release() {
        let target = |name: &str, args: &[&str]| {
            target_of(&ServerTransport::builtin(name, args.iter().copied()), None).to_string()
        };
        let given = target("files", &["--write", "/srv/notes"]);
        assert_eq!(given, "f2dc939b7b6f1f015b5f16f5cb01e4c4eb2f0e8054b182504640eec48b496cae");
        for (name, args) in [
            ("files", &["/srv/notes"][..]),
            ("files", &["--write", "/srv"]),
            ("files", &["--write /srv/notes"]),
            ("git", &["--write", "/srv/notes"]),
        ] {
            assert_ne!(given, target(name, args), "{name} {args:?}");
        }
        assert_ne!(target("fetch", &["--token", "a"]), target("fetch", &["--token", "b"]));
    }

    #[test]
    fn another_command_line_is_another_target_and_a_renewed_secret_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let target = |transport: &ServerTransport| fingerprint(transport, None).target;
        let given = stdio("sh", &["-c", "x"], folder.path());
        let others = [
            stdio("sh", &["-c x"], folder.path()),
            stdio("sh", &["-c", "x", "y"], folder.path()),
            stdio("bash", &["-c", "x"], folder.path()),
            ServerTransport::stdio("sh", ["-c", "x"]),
        ];
        for other in &others {
            assert_ne!(target(&given), target(other), "{other}");
        }
        let with = |value: &str| {
            let ServerTransport::Stdio(mut stdio) = ServerTransport::stdio("sh", []) else { panic!() };
            stdio.args.push(ExpandedText::literal("${KEY}"));
            stdio.env.insert("TOKEN".to_owned(), Secret::new(value));
            ServerTransport::Stdio(stdio)
        };
        assert_eq!(target(&with("a")), target(&with("b")));
        let url = |text: &str| ServerTransport::target(text).unwrap();
        assert_ne!(target(&url("https://a.example/mcp")), target(&url("https://b.example/mcp")));
        assert_ne!(target(&url("https://a.example/mcp")), target(&url("https://a.example/mcp2")));
        let unreadable = fingerprint(&ServerTransport::stdio("/no/such/program", []), None);
        assert_eq!(
            (unreadable.program.as_deref(), unreadable.program_hash),
            (Some("/no/such/program"), None)
        );
    }
}
