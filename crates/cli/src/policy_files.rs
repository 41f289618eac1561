//! Policy files of a host: the user's and the organisation's, which are read again when they change.

use std::path::{Path, PathBuf};
use std::sync::Weak;

use hospes_host::PolicyEnforcer;
use hospes_policy::{Policy, Preset};

use crate::args::PresetChoice;
use crate::enforcement::{PolicyEffects, default_pin_mode, read_policy};
use crate::exit::{CliError, CliResult};
use crate::file_watch::FileWatch;
use crate::mistake_text::mistakes_first;
use crate::organization_policy::OrganizationPolicyFile;
use crate::output::CliOutput;
use crate::paths;

/// Policy files that apply.
#[derive(Clone, Debug)]
pub(crate) struct PolicyFiles {
    /// Policy file of the user, if there is one.
    pub(crate) user: Option<PathBuf>,
    pub(crate) organization: OrganizationPolicyFile,
}

/// Policies of the files, as they were read last without a mistake.
#[derive(Clone, Debug)]
pub(crate) struct LayeredPolicies {
    pub(crate) user: Option<Policy>,
    pub(crate) organization: Option<Policy>,
}

/// Reload of the policy files whenever they change.
#[derive(Debug)]
pub(crate) struct PolicyReload {
    files: PolicyFiles,
    preset: Option<PresetChoice>,
    policies: LayeredPolicies,
    user_watch: FileWatch,
    organization_watch: FileWatch,
}

impl PolicyFiles {
    /// Finds the named policy file of the user, or the default one if it exists, and the organisation's.
    pub(crate) fn find(named: Option<&Path>, organization: Option<&Path>) -> CliResult<Self> {
        Ok(Self { user: find_policy_file(named)?, organization: OrganizationPolicyFile::find(organization)? })
    }

    /// Finds the policy file of the user, as [`Self::find`] does, with this one of an organisation.
    pub(crate) fn with_organization(named: Option<&Path>, organization: &Path) -> CliResult<Self> {
        let organization = OrganizationPolicyFile::named(organization);
        Ok(Self { user: find_policy_file(named)?, organization })
    }

    /// Returns true if one of the files exists.
    pub(crate) fn has_rules(&self) -> CliResult<bool> {
        Ok(self.user.is_some() || self.organization.exists()?)
    }

    /// Reads the files.
    pub(crate) fn read(&self) -> CliResult<LayeredPolicies> {
        Ok(LayeredPolicies {
            organization: self.organization.read()?,
            user: self.user.as_deref().map(read_policy).transpose()?,
        })
    }
}

impl LayeredPolicies {
    /// Returns the policy that applies with the preset of the command line, which changes the user's layer alone. Without a
    /// policy file of the user, the default preset applies.
    pub(crate) fn in_force(&self, preset: Option<PresetChoice>) -> Option<Policy> {
        let user = match (self.user.clone(), preset) {
            (user, Some(PresetChoice::Off)) => user.map(Policy::without_preset),
            (Some(user), Some(PresetChoice::Preset(preset))) => Some(user.with_preset(preset)),
            (Some(user), None) => Some(user),
            (None, Some(PresetChoice::Preset(preset))) => Some(Policy::of_preset(preset)),
            (None, None) => Some(Policy::of_preset(Preset::default())),
        };
        match (user, self.organization.clone()) {
            (Some(user), Some(organization)) => Some(user.below(organization)),
            (None, Some(organization)) => Some(Policy::alone(organization)),
            (user, None) => user,
        }
    }
}

impl PolicyReload {
    /// Reads the files. They are followed from now on, also if one of them does not exist yet, so that rules apply as soon
    /// as they are written.
    pub(crate) fn begin(files: PolicyFiles, preset: Option<PresetChoice>) -> CliResult<Self> {
        let followed = files.user.clone().or_else(paths::policy_file);
        // Before the files are read, so that later writes are noticed.
        let user_watch = FileWatch::new(followed.clone().into_iter().collect());
        let organization_watch = FileWatch::new(vec![files.organization.path().to_owned()]);
        let policies = files.read()?;
        let files = PolicyFiles { user: followed, ..files };
        Ok(Self { files, preset, policies, user_watch, organization_watch })
    }

    /// Returns the policy that applies.
    pub(crate) fn policy(&self) -> Option<Policy> {
        self.policies.in_force(self.preset)
    }

    /// Reloads a policy file whenever it changes, for as long as the enforcer lives. A file that is unreadable changes
    /// nothing. If it is gone, its rules remain in effect, and new servers are accepted as without rules.
    pub(crate) async fn run(
        mut self,
        enforcer: Weak<PolicyEnforcer>,
        effects: PolicyEffects,
        output: CliOutput,
    ) {
        loop {
            // Both only wait for the next look, so that dropping one loses nothing.
            let (has_changed, is_organization) = tokio::select! {
                has_changed = self.user_watch.look() => (has_changed, false),
                has_changed = self.organization_watch.look() => (has_changed, true),
            };
            let Some(enforcer) = enforcer.upgrade() else { return };
            if !has_changed {
                continue;
            }
            if is_organization {
                self.reload_organization(&enforcer, &effects, output);
            } else {
                self.reload_user(&enforcer, &effects, output);
            }
        }
    }

    fn reload_user(&mut self, enforcer: &PolicyEnforcer, effects: &PolicyEffects, output: CliOutput) {
        let Some(file) = self.files.user.clone() else { return };
        let shown = paths::display_path(&file);
        if !file.exists() {
            effects.problems.set(&shown, None);
            // As long as its rules remain, so does the review of new servers that comes with them.
            output.warn(format_args!("{shown} was deleted; the previous rules remain in effect"));
            return;
        }
        match read_policy(&file) {
            Ok(policy) => {
                let rules = policy.rules().len();
                self.policies.user = Some(policy);
                self.apply("policy", (&shown, rules), enforcer, effects, output);
            }
            Err(failure) => report(&failure, &shown, effects, output),
        }
    }

    fn reload_organization(&mut self, enforcer: &PolicyEnforcer, effects: &PolicyEffects, output: CliOutput) {
        let file = &self.files.organization;
        let shown = paths::display_path(file.path());
        // A file that the configuration names has to be there, and counts as deleted here.
        if file.path().symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            effects.problems.set(&shown, None);
            output.warn(format_args!(
                "the organisation's policy {shown} was deleted; the previous rules remain in effect"
            ));
            return;
        }
        match file.read() {
            Ok(policy) => {
                let rules = policy.as_ref().map_or(0, |policy| policy.rules().len());
                self.policies.organization = policy.or_else(|| self.policies.organization.take());
                self.apply("organisation's policy", (&shown, rules), enforcer, effects, output);
            }
            Err(failure) => report(&failure, &shown, effects, output),
        }
    }

    /// Replaces the policy in force after a file was read.
    fn apply(
        &self,
        what: &str,
        (file, rules): (&str, usize),
        enforcer: &PolicyEnforcer,
        effects: &PolicyEffects,
        output: CliOutput,
    ) {
        effects.problems.set(file, None);
        let reviews = effects.pins.as_ref().is_some_and(|pins| pins.set(default_pin_mode(true)));
        let pins = if reviews { "; new servers wait for your review from now on" } else { "" };
        let policy = self.policy().unwrap_or_else(Policy::without_rules);
        let is_known = enforcer.policy().is_some_and(|known| known.version() == policy.version());
        if is_known && !reviews {
            return;
        }
        if !is_known {
            enforcer.replace_policy(policy);
        }
        let noun = if rules == 1 { "rule" } else { "rules" };
        output.say(format_args!("  {what} reloaded: {rules} {noun} from {file}{pins}"));
    }
}

/// Reports a file that cannot be used.
fn report(failure: &CliError, file: &str, effects: &PolicyEffects, output: CliOutput) {
    let mistakes = mistakes_first(&failure.message);
    output.warn(format_args!("{mistakes}; the previous rules remain in effect"));
    effects.problems.set(file, Some(mistakes));
}

/// Returns the named policy file, or the default one if it exists.
fn find_policy_file(named: Option<&Path>) -> CliResult<Option<PathBuf>> {
    match named {
        Some(file) if file.is_file() => Ok(Some(file.to_owned())),
        Some(file) => Err(CliError::usage(format!("--policy: file not found: {}", file.display()))),
        None => match paths::policy_file() {
            // Rules that cannot be reached are not the same as no rules.
            Some(file) if !file.is_file() && file.symlink_metadata().is_ok() => {
                let shown = paths::display_path(&file);
                Err(CliError::usage(format!(
                    "{shown} is no file that can be read, or a link to one that does not exist"
                ))
                .hint("restore the file of rules; to go without rules, remove it"))
            }
            file => Ok(file.filter(|file| file.is_file())),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use hospes_policy::{PolicyEnvironment, PolicyLayer};

    use super::*;

    #[test]
    fn no_option_of_the_user_removes_the_organisation() {
        let organization = "preset = 'cautious'\n[[rule]]\ndecide = 'deny'\n";
        let environment = PolicyEnvironment::default();
        let user = Policy::read("preset = 'open'\n", &environment).unwrap();
        let organization =
            Policy::read(organization, &environment.of_layer(PolicyLayer::Organization)).unwrap();
        for user in [None, Some(user)] {
            for choice in
                [None, Some(PresetChoice::Off), Some(PresetChoice::Preset(hospes_policy::Preset::Open))]
            {
                let policies =
                    LayeredPolicies { user: user.clone(), organization: Some(organization.clone()) };
                let policy = policies.in_force(choice).unwrap();
                assert_eq!(policy.preset(), Some(Preset::Cautious), "{choice:?}");
                assert_eq!(policy.organization().unwrap().rules().len(), 1);
            }
        }
        let nothing = LayeredPolicies { user: None, organization: None };
        assert!(nothing.in_force(Some(PresetChoice::Off)).is_none());
    }
}
