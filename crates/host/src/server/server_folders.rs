//! Folders of this machine that a server can reach, by its configuration.

use std::path::PathBuf;

use crate::config::{BuiltinTransport, ExpandedText, ServerConfig, ServerTransport, StdioTransport};

/// Folders in which a server can use files. It may be able to reach more: without a sandbox only the folders that its
/// configuration names are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFolders {
    /// Folders and files, as absolute paths.
    pub reachable: Vec<PathBuf>,
    /// Folder in which relative paths of a call begin. `None` if that is not known, as of any program.
    pub base: Option<PathBuf>,
    /// Folders below these that the server cannot reach.
    pub except: Vec<PathBuf>,
}

impl ServerFolders {
    /// Derives the folders from the configuration. A server on another machine has none.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        let mut folders = match &config.transport {
            ServerTransport::Builtin(builtin) if builtin.name == "files" => of_files(builtin),
            ServerTransport::Stdio(stdio) => match &config.sandbox.profile.files {
                Some(files) => {
                    Self { reachable: [&files.write[..], &files.read].concat(), ..Self::default() }
                }
                None => of_process(stdio, config.roots.as_deref().unwrap_or_default()),
            },
            _ => Self::default(),
        };
        for list in [&mut folders.reachable, &mut folders.except] {
            list.retain(|path| path.is_absolute());
        }
        folders
    }
}

/// Returns the folders of the built-in file server. Without arguments it serves the roots of each application, which
/// are not known here.
fn of_files(builtin: &BuiltinTransport) -> ServerFolders {
    let mut folders = ServerFolders::default();
    let mut arguments = builtin.args.iter().map(ExpandedText::reveal);
    while let Some(argument) = arguments.next() {
        match argument {
            "--except" => folders.except.extend(arguments.next().map(PathBuf::from)),
            _ => match argument.strip_prefix("--except=") {
                Some(folder) => folders.except.push(folder.into()),
                None if argument.starts_with('-') => {}
                None => folders.reachable.push(argument.into()),
            },
        }
    }
    // With several folders, a relative path is one of whichever has the entry.
    if let [only] = folders.reachable.as_slice() {
        folders.base = Some(only.clone()).filter(|only| only.is_absolute());
    }
    folders
}

/// Returns the folders that a command line names, and those that it is given as roots.
fn of_process(stdio: &StdioTransport, roots: &[PathBuf]) -> ServerFolders {
    let named = stdio.args.iter().map(|argument| PathBuf::from(argument.reveal()));
    // A file there is the program, such as a script, and no place to write to.
    let named = named.filter(|path| path.is_absolute() && path.is_dir());
    let reachable = named.chain(roots.iter().cloned()).chain(stdio.cwd.clone()).collect();
    ServerFolders { reachable, ..ServerFolders::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigLoader;

    fn folders(entry: &str) -> ServerFolders {
        let config = ConfigLoader::new().parse("h.toml", &format!("[servers.x]\n{entry}")).unwrap();
        ServerFolders::of(&config.servers[0])
    }

    #[test]
    fn the_file_server_has_its_arguments_without_the_excepted() {
        let found =
            folders("builtin = 'files'\nargs = ['/srv', '--write', '--except', '/srv/keys', 'relative']");
        assert_eq!(found.reachable, [PathBuf::from("/srv")]);
        assert_eq!(found.base, None, "relative paths may be in the folder `relative`");
        assert_eq!(found.except, [PathBuf::from("/srv/keys")]);
        assert_eq!(folders("builtin = 'time'\nargs = ['/srv']"), ServerFolders::default());
    }

    /// A program looks up relative paths in its working folder, or wherever it likes.
    #[test]
    fn only_the_file_server_with_one_folder_is_known_to_begin_relative_paths_there() {
        let base = |entry: &str| folders(entry).base;
        let one = "builtin = 'files'\nargs = ['--write', '/srv', '--except', '/srv/keys']";
        assert_eq!(base(one), Some(PathBuf::from("/srv")));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        for entry in [
            "builtin = 'files'\nargs = ['/srv', '/home']".to_owned(),
            "builtin = 'files'".to_owned(),
            "builtin = 'files'\nargs = ['srv']".to_owned(),
            format!("command = ['server', '{path}']"),
            format!("command = 'server'\ncwd = '{path}'\nroots = ['{path}']"),
            "command = 'server'\n[servers.x.sandbox]\nfiles = { write = ['/srv'] }".to_owned(),
        ] {
            assert_eq!(base(&entry), None, "{entry}");
        }
    }

    #[test]
    fn a_program_has_its_sandbox_or_the_folders_that_it_is_started_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let script = folder.path().join("server.js");
        std::fs::write(&script, "").unwrap();
        let command = format!("command = ['node', '{}', '{path}', '/no/such/folder']", script.display());
        assert_eq!(folders(&command).reachable, [PathBuf::from(path)]);
        let confined =
            format!("{command}\n[servers.x.sandbox]\nfiles = {{ write = ['/srv/out'], read = ['/srv/in'] }}");
        assert_eq!(folders(&confined).reachable, [PathBuf::from("/srv/out"), PathBuf::from("/srv/in")]);
    }

    #[test]
    fn a_server_on_another_machine_has_no_folders_here() {
        assert_eq!(folders("url = 'https://mcp.example/mcp'\nroots = ['/srv']"), ServerFolders::default());
    }
}
