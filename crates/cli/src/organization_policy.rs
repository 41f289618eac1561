//! Policy file of an organisation, which applies above the user's.

use std::io;
use std::path::{Path, PathBuf};

use hospes_policy::{Policy, PolicyLayer};

use crate::enforcement::{policy_environment, read_policy_in};
use crate::exit::{CliError, CliResult};
use crate::paths;

/// Policy file of the organisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrganizationPolicyFile {
    path: PathBuf,
    /// True if the file of the machine may be absent.
    is_optional: bool,
}

impl OrganizationPolicyFile {
    /// Finds the file: that of the machine, or else the one that the configuration names with `organization_policy`.
    ///
    /// # Errors
    /// If the configuration names another one than that of the machine, which it cannot replace.
    pub(crate) fn find(configured: Option<&Path>) -> CliResult<Self> {
        Self::choose(&paths::organization_policy_file(), configured)
    }

    /// Creates the file of this path, which has to exist.
    pub(crate) fn named(path: &Path) -> Self {
        Self { path: path.to_owned(), is_optional: false }
    }

    fn choose(of_machine: &Path, configured: Option<&Path>) -> CliResult<Self> {
        let Some(named) = configured else {
            return Ok(Self { path: of_machine.to_owned(), is_optional: true });
        };
        if is_there(of_machine)? && paths::absolute_path(of_machine) != paths::absolute_path(named) {
            let (file, named) = (paths::display_path(of_machine), paths::display_path(named));
            return Err(CliError::usage(format!(
                "`organization_policy` names {named}, and this machine has {file}, which it cannot replace"
            ))
            .hint("remove `organization_policy` from the configuration"));
        }
        Ok(Self::named(named))
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file exists, also if it cannot be read.
    ///
    /// # Errors
    /// If this cannot be found out.
    pub(crate) fn exists(&self) -> CliResult<bool> {
        Ok(!self.is_optional || is_there(&self.path)?)
    }

    /// Reads the file. Returns `None` if the machine has none.
    ///
    /// # Errors
    /// If it has a mistake or cannot be read, which is not the same as none.
    pub(crate) fn read(&self) -> CliResult<Option<Policy>> {
        if !self.exists()? {
            return Ok(None);
        }
        let environment = policy_environment().of_layer(PolicyLayer::Organization);
        read_policy_in(&self.path, &environment).map(Some).map_err(|failure| {
            failure.hint("it is the policy of your organisation; whoever manages this machine can correct it")
        })
    }
}

/// Returns true if there is a file of this name, also a link to one that does not exist.
fn is_there(file: &Path) -> CliResult<bool> {
    match file.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CliError::usage(format!(
            "cannot find out whether this machine has a policy of an organisation at {}",
            paths::display_path(file)
        ))
        .with_cause(&error)
        .hint("make its folder readable for you")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn read(file: &Path, configured: Option<&Path>) -> CliResult<Option<Policy>> {
        OrganizationPolicyFile::choose(file, configured)?.read()
    }

    #[test]
    fn the_file_of_the_machine_may_be_absent_and_cannot_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (machine, named) = (folder.path().join("policy.toml"), folder.path().join("named.toml"));
        assert!(read(&machine, None).unwrap().is_none());
        // A file that the configuration names has to be there.
        assert!(read(&machine, Some(&named)).unwrap_err().message.contains("named.toml"));
        std::fs::write(&named, "[[rule]]\ndecide = 'deny'\ndelegable = true\n").unwrap();
        assert_eq!(read(&machine, Some(&named)).unwrap().unwrap().rules().len(), 1);
        std::fs::write(&machine, "").unwrap();
        assert_eq!(read(&machine, None).unwrap().unwrap().rules().len(), 0);
        let refused = read(&machine, Some(&named)).unwrap_err();
        assert!(refused.message.contains("which it cannot replace"), "{refused:?}");
        assert!(read(&machine, Some(&machine)).unwrap().is_some());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_the_same_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let machine = folder.path().join("policy.toml");
        std::fs::create_dir(&machine).unwrap();
        let refused = read(&machine, None).unwrap_err();
        assert!(refused.hint.as_deref().is_some_and(|hint| hint.contains("organisation")), "{refused:?}");
        // A folder that is none hides whether there is one.
        let hidden = machine.join("below").join("policy.toml");
        assert!(read(&hidden, None).unwrap().is_none());
        std::fs::write(folder.path().join("file"), "").unwrap();
        let below_file = folder.path().join("file").join("policy.toml");
        assert!(read(&below_file, None).is_err());
        std::fs::remove_dir(&machine).unwrap();
        std::fs::write(&machine, "[[rule]]\ndecide = 'no'\n").unwrap();
        let refused = read(&machine, None).unwrap_err();
        assert!(refused.message.contains("unknown value `no`"), "{refused:?}");
        #[cfg(unix)]
        {
            std::fs::remove_file(&machine).unwrap();
            std::os::unix::fs::symlink(folder.path().join("gone"), &machine).unwrap();
            assert!(read(&machine, None).is_err(), "a link to nothing is a mistake");
        }
    }
}
