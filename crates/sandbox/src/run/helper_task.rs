//! The helper's task, passed in its arguments.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::SandboxError;
use crate::profile::{Confinement, SandboxFiles, SandboxMechanism, SandboxNetwork, SandboxProfile};

/// Stage of the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelperStage {
    /// Starts the server and supervises it.
    Supervise,
    /// Confines itself and becomes the server.
    Become,
}

/// Task of the helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HelperTask {
    pub(crate) stage: HelperStage,
    /// Id of the process whose end ends the helper: the host, or the first stage.
    pub(crate) parent: u32,
    pub(crate) means: SandboxMechanism,
    pub(crate) bubblewrap: Option<PathBuf>,
    pub(crate) files: Option<SandboxFiles>,
    pub(crate) network: SandboxNetwork,
    /// Folder for temporary files if `/tmp` cannot be used.
    pub(crate) temporary: Option<PathBuf>,
    /// Program and arguments of the server. Empty until the host has added them.
    pub(crate) command: Vec<OsString>,
}

impl HelperTask {
    /// Checks the granted paths here, so that the host can report problems with them.
    pub(crate) fn new(
        profile: &SandboxProfile,
        means: SandboxMechanism,
        bubblewrap: Option<PathBuf>,
        cwd: Option<&Path>,
    ) -> Result<Self, SandboxError> {
        let (mut files, mut network) = (profile.files.clone(), profile.network);
        // Without enforcement, the confinement shown to people must not list restrictions.
        if means == SandboxMechanism::Nothing {
            (files, network) = (None, SandboxNetwork::Host);
        }
        for path in files.iter().flat_map(|files| files.read.iter().chain(&files.write)) {
            let why = match path.metadata() {
                Ok(_) if path.is_absolute() => continue,
                Ok(_) => "it is not an absolute path".to_owned(),
                Err(error) => error.to_string(),
            };
            return Err(SandboxError::Path { path: path.clone(), why });
        }
        if let (Some(files), Some(cwd)) = (&files, cwd)
            && let Ok(real) = cwd.canonicalize()
            && !files.covers(&real)
        {
            return Err(SandboxError::Folder(cwd.to_owned()));
        }
        Ok(Self {
            stage: HelperStage::Supervise,
            parent: std::process::id(),
            means,
            bubblewrap,
            files,
            network,
            temporary: None,
            command: Vec::new(),
        })
    }

    pub(crate) fn confinement(&self) -> Confinement {
        let lacks = match self.means {
            SandboxMechanism::Landlock => super::landlock::missing_operations(),
            _ => Vec::new(),
        };
        Confinement { means: self.means, files: self.files.clone(), network: self.network, lacks }
    }

    /// Returns the arguments for this task, without the command.
    pub(crate) fn into_args(self) -> Vec<OsString> {
        let stage = match self.stage {
            HelperStage::Supervise => "supervise",
            HelperStage::Become => "become",
        };
        let mut args: Vec<OsString> = vec![stage.into(), "--parent".into(), self.parent.to_string().into()];
        args.extend(["--by".into(), self.means.as_str().into()]);
        let mut path = |flag: &str, path: PathBuf| args.extend([flag.into(), path.into_os_string()]);
        self.bubblewrap.into_iter().for_each(|file| path("--bubblewrap", file));
        self.temporary.into_iter().for_each(|folder| path("--temporary", folder));
        let is_confined = self.files.is_some();
        if let Some(files) = self.files {
            files.read.into_iter().for_each(|granted| path("--read", granted));
            files.write.into_iter().for_each(|granted| path("--write", granted));
        }
        args.extend(is_confined.then(|| "--files".into()));
        args.extend((self.network == SandboxNetwork::None).then(|| "--no-network".into()));
        args
    }

    /// Parses the arguments, and the command after `--`.
    pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut args = args.into_iter();
        let stage = match args.next().as_deref().and_then(OsStr::to_str) {
            Some("supervise") => HelperStage::Supervise,
            Some("become") => HelperStage::Become,
            _ => return Err("the stage is missing".to_owned()),
        };
        let (mut parent, mut means, mut files) = (None, None, SandboxFiles::default());
        let (mut bubblewrap, mut temporary) = (None, None);
        let (mut has_files, mut network) = (false, SandboxNetwork::Host);
        loop {
            let flag = args.next().ok_or("the command is missing")?;
            let mut value = || args.next().ok_or_else(|| format!("{} requires a value", flag.display()));
            match flag.to_str() {
                Some("--") => break,
                Some("--parent") => parent = value()?.to_str().and_then(|text| text.parse().ok()),
                Some("--by") => {
                    let all =
                        [SandboxMechanism::Nothing, SandboxMechanism::Bubblewrap, SandboxMechanism::Landlock];
                    let word = value()?;
                    means = all.into_iter().find(|means| word == means.as_str());
                }
                Some("--bubblewrap") => bubblewrap = Some(value()?.into()),
                Some("--temporary") => temporary = Some(value()?.into()),
                Some("--read") => files.read.push(value()?.into()),
                Some("--write") => files.write.push(value()?.into()),
                Some("--files") => has_files = true,
                Some("--no-network") => network = SandboxNetwork::None,
                // Never ignored: it could be a restriction that this version does not know.
                _ => return Err(format!("unknown option `{}`", flag.display())),
            }
        }
        let command: Vec<OsString> = args.collect();
        if command.is_empty() {
            return Err("the command is missing".to_owned());
        }
        let parent = parent.ok_or("--parent is missing")?;
        let means = means.ok_or("--by is missing")?;
        // A grant without the option that confines files would have no effect.
        let grants_any = !files.read.is_empty() || !files.write.is_empty();
        if grants_any && !has_files {
            return Err("--files is missing".to_owned());
        }
        let files = has_files.then_some(files);
        Ok(Self { stage, parent, means, bubblewrap, files, network, temporary, command })
    }
}

impl SandboxFiles {
    /// Returns true if `real`, a path without symbolic links, may be read.
    fn covers(&self, real: &Path) -> bool {
        let granted = self.read.iter().chain(&self.write).filter_map(|path| path.canonicalize().ok());
        let system = SYSTEM_PATHS.iter().map(PathBuf::from);
        granted.chain(system).any(|path| real.starts_with(path))
    }
}

/// Paths that every server may read and execute: programs and libraries.
pub(crate) const SYSTEM_PATHS: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

/// System settings that every server may read: names, certificates, the time zone. The rest of `/etc` contains secrets.
pub(crate) const SYSTEM_SETTINGS: [&str; 32] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/static",
    "/etc/timezone",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let plain = HelperTask::new(&SandboxProfile::new(), SandboxMechanism::Nothing, None, None).unwrap();
        let here = PathBuf::from("/");
        let mut confined = plain.clone();
        confined.stage = HelperStage::Become;
        confined.means = SandboxMechanism::Bubblewrap;
        confined.bubblewrap = Some("/usr/bin/bwrap".into());
        confined.files = Some(SandboxFiles::new().read(&here).write("/tmp").read("/--"));
        confined.network = SandboxNetwork::None;
        confined.temporary = Some("/tmp/x".into());
        for mut order in [plain, confined] {
            order.command = ["sh", "--files", "--", "-c"].map(OsString::from).to_vec();
            let command = order.command.clone();
            let args = order.clone().into_args().into_iter().chain(["--".into()]).chain(command);
            assert_eq!(HelperTask::parse(args), Ok(order));
        }
    }

    #[test]
    fn what_is_not_understood_starts_nothing() {
        for (args, why) in [
            ("", "the stage is missing"),
            ("run -- sh", "the stage is missing"),
            ("supervise --parent 1 --by landlock", "the command is missing"),
            ("supervise --parent 1 --by landlock --", "the command is missing"),
            ("supervise --by landlock -- sh", "--parent is missing"),
            ("supervise --parent 1 -- sh", "--by is missing"),
            ("supervise --parent 1 --by magic -- sh", "--by is missing"),
            ("supervise --parent 1 --by landlock --read / -- sh", "--files is missing"),
            ("supervise --parent 1 --no-net -- sh", "unknown option `--no-net`"),
            ("supervise --parent", "--parent requires a value"),
        ] {
            assert_eq!(
                HelperTask::parse(args.split_whitespace().map(OsString::from)),
                Err(why.to_owned()),
                "{args}"
            );
        }
    }

    #[test]
    fn what_cannot_be_granted_is_said() {
        let order = |files: SandboxFiles, cwd: Option<&Path>| {
            HelperTask::new(&SandboxProfile::new().with_files(files), SandboxMechanism::Landlock, None, cwd)
                .map(drop)
        };
        let gone = order(SandboxFiles::new().read("/nobody/has/this"), None).unwrap_err();
        assert!(
            matches!(&gone, SandboxError::Path { path, .. } if path == Path::new("/nobody/has/this")),
            "{gone}"
        );
        assert!(matches!(order(SandboxFiles::new().write("."), None), Err(SandboxError::Path { .. })));
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        assert_eq!(order(SandboxFiles::new().read(folder.path()), Some(&inner)), Ok(()));
        assert_eq!(
            order(SandboxFiles::new().read(&inner), Some(folder.path())),
            Err(SandboxError::Folder(folder.path().into()))
        );
        assert_eq!(order(SandboxFiles::new(), Some(Path::new("/usr/lib"))), Ok(()));
    }
}
