//! Landlock rules for the file system.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use super::helper_task::{HelperTask, SYSTEM_PATHS, SYSTEM_SETTINGS};
use crate::SandboxNetwork;

/// First version that also restricts truncation; without it files could be emptied.
const REQUIRED_ABI: ABI = ABI::V3;
/// Newest version whose features are used if the kernel has them: devices, signals, abstract sockets.
const NEWEST_ABI: ABI = ABI::V6;

/// Devices that every program may use. Terminals are left out, because other terminals of the same user and their input
/// would be accessible.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Checks whether this kernel supports Landlock as required.
pub(crate) fn check_support() -> Result<(), String> {
    match ruleset(true, SandboxNetwork::None) {
        Ok(_) => Ok(()),
        Err(_) => Err("Landlock is disabled in this kernel or older than Linux 6.2".to_owned()),
    }
}

/// Returns the operations that a newer kernel would prevent but this one cannot. Devices and abstract sockets are
/// denied on older kernels too, because no such file is granted, and by seccomp.
pub(crate) fn missing_operations() -> Vec<String> {
    let signals = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .and_then(Ruleset::create);
    if signals.is_ok() {
        Vec::new()
    } else {
        vec!["signals to other processes (needs Linux 6.12)".to_owned()]
    }
}

/// Confines this process and its descendants.
pub(super) fn restrict(order: &HelperTask) -> Result<(), String> {
    let fail = |error: &dyn std::fmt::Display| format!("cannot confine it with Landlock: {error}");
    let mut ruleset = ruleset(order.files.is_some(), order.network).map_err(|error| fail(&error))?;
    if let Some(files) = &order.files {
        let read = AccessFs::from_read(NEWEST_ABI);
        let all = AccessFs::from_all(NEWEST_ABI);
        let mut grants: Vec<(PathBuf, BitFlags<AccessFs>, bool)> = Vec::new();
        grants.extend(SYSTEM_PATHS.iter().chain(&SYSTEM_SETTINGS).map(|path| (path.into(), read, false)));
        grants.push(("/proc".into(), read, false));
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir | AccessFs::IoctlDev;
        grants.extend(DEVICES.iter().map(|path| (path.into(), device, false)));
        grants.extend(order.command.first().map(|program| (program.into(), read, true)));
        grants.extend(files.read.iter().map(|path| (path.clone(), read, true)));
        grants.extend(files.write.iter().chain(&order.temporary).map(|path| (path.clone(), all, true)));
        for (path, access, is_needed) in grants {
            ruleset = match rule(&path, access) {
                Ok(rule) => ruleset.add_rule(rule).map_err(|error| fail(&error))?,
                Err(why) if is_needed => return Err(fail(&format!("{}: {why}", path.display()))),
                // Systems have different subsets of these paths; explicitly granted paths must exist.
                Err(_) => ruleset,
            };
        }
    }
    let status = ruleset.restrict_self().map_err(|error| fail(&error))?;
    // Best effort succeeds even if the kernel enforces nothing.
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(fail(&"the kernel does not enforce the rules"));
    }
    Ok(())
}

fn ruleset(files: bool, network: SandboxNetwork) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).scope(Scope::from_all(NEWEST_ABI))?;
    if network == SandboxNetwork::None {
        // In addition to seccomp, which denies sockets.
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST_ABI))?;
    }
    if files {
        ruleset = ruleset.handle_access(AccessFs::from_all(NEWEST_ABI))?;
        ruleset = ruleset
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED_ABI))?;
        // The rules may name rights that only newer kernels know.
        ruleset = ruleset.set_compatibility(CompatLevel::BestEffort);
    }
    ruleset.create()
}

fn rule(path: &Path, access: BitFlags<AccessFs>) -> Result<PathBeneath<PathFd>, String> {
    let is_folder = path.metadata().map_err(|error| error.to_string())?.is_dir();
    // The kernel rejects folder rights in a rule for a file.
    let access = if is_folder { access } else { access & AccessFs::from_file(NEWEST_ABI) };
    let file = PathFd::new(path).map_err(|error| error.to_string())?;
    Ok(PathBeneath::new(file, access))
}
