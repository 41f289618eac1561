//! The command of a bundle's server, with the values of a person filled in.

mod expand;
mod platform;
mod values;

use std::fmt;

use self::expand::Expander;
pub use self::platform::{BundlePlaces, BundlePlatform};
pub use self::values::{MAX_VALUE_BYTES, MAX_VALUES, UserValue, UserValues, ValueError};
use crate::manifest::{BundleManifest, McpConfig, ServerKind};

/// Maximum size of a command with all that is filled in, in bytes. Linux starts none that is larger.
pub const MAX_LAUNCH_BYTES: usize = 2 * 1024 * 1024;

/// Command of a server. [`fmt::Debug`] does not show sensitive values.
///
/// Bundles may name files relative to their folder: start the command with the folder of the bundle as the working
/// folder.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleLaunch {
    /// Program.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment variables, in the order of the manifest.
    pub env: Vec<(String, String)>,
    /// Where sensitive values are. One in the command or in an argument is visible in lists of processes.
    pub secrets: Vec<SecretUse>,
    /// Variables that nothing was put in place of.
    pub unfilled: Vec<UnfilledVariable>,
}

/// Part of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LaunchPart {
    /// The program.
    Command,
    /// The argument at this index.
    Argument(usize),
    /// The environment variable of this name.
    Environment(String),
}

impl LaunchPart {
    /// Returns true if other processes of the machine may see the part.
    #[must_use]
    pub const fn is_public(&self) -> bool {
        matches!(self, Self::Command | Self::Argument(_))
    }
}

impl fmt::Display for LaunchPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command => f.write_str("the command"),
            Self::Argument(index) => write!(f, "argument {}", index + 1),
            Self::Environment(name) => write!(f, "the variable {name}"),
        }
    }
}

/// Use of a sensitive value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecretUse {
    /// Key of the option.
    pub key: String,
    /// Part that holds the value.
    pub part: LaunchPart,
}

/// Variable that stays in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfilledVariable {
    /// Name of the variable, without `${` and `}`.
    pub variable: String,
    /// Part that holds it.
    pub part: LaunchPart,
    /// Reason.
    pub why: UnfilledReason,
    /// True if the part is this variable and nothing else.
    pub is_whole_part: bool,
}

/// Reason why a variable stays in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnfilledReason {
    /// An option without a value, or with an empty one as a whole argument.
    Unset,
    /// Several values inside a text. They only replace a whole argument.
    List,
    /// No option or place of this name.
    Unknown,
}

impl BundleLaunch {
    /// Removes arguments and environment variables that consist of an option without a value. A server would take the
    /// name of the variable for the value.
    #[must_use]
    pub fn without_unset(mut self) -> Self {
        let mut removed: Vec<LaunchPart> = Vec::new();
        for unfilled in &self.unfilled {
            if unfilled.is_whole_part && unfilled.why == UnfilledReason::Unset {
                removed.push(unfilled.part.clone());
            }
        }
        self.env.retain(|(name, _)| !removed.contains(&LaunchPart::Environment(name.clone())));
        let mut index = 0;
        self.args.retain(|_| {
            index += 1;
            !removed.contains(&LaunchPart::Argument(index - 1))
        });
        self.unfilled.retain(|unfilled| !removed.contains(&unfilled.part));
        let renumber = |part: &mut LaunchPart| {
            if let LaunchPart::Argument(index) = part {
                let before = |one: &&LaunchPart| matches!(one, LaunchPart::Argument(other) if other < index);
                *index -= removed.iter().filter(before).count();
            }
        };
        self.secrets.iter_mut().for_each(|secret| renumber(&mut secret.part));
        self.unfilled.iter_mut().for_each(|unfilled| renumber(&mut unfilled.part));
        self
    }

    /// Returns the sensitive values that lists of processes show.
    pub fn exposed_secrets(&self) -> impl Iterator<Item = &SecretUse> {
        self.secrets.iter().filter(|secret| secret.part.is_public())
    }

    fn is_secret(&self, part: &LaunchPart) -> bool {
        self.secrets.iter().any(|secret| secret.part == *part)
    }
}

impl fmt::Debug for BundleLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HIDDEN: &str = "[secret]";

        let shown = |part: LaunchPart, text: &'_ str| {
            if self.is_secret(&part) { HIDDEN.to_owned() } else { text.to_owned() }
        };
        let args = self.args.iter().enumerate();
        let args: Vec<String> = args.map(|(index, arg)| shown(LaunchPart::Argument(index), arg)).collect();
        let env = self.env.iter();
        let env: Vec<(&String, String)> =
            env.map(|(name, value)| (name, shown(LaunchPart::Environment(name.clone()), value))).collect();
        f.debug_struct("Launch")
            .field("command", &shown(LaunchPart::Command, &self.command))
            .field("args", &args)
            .field("env", &env)
            .field("secrets", &self.secrets)
            .field("unfilled", &self.unfilled)
            .finish()
    }
}

/// Refusal to make a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The bundle is for other platforms.
    #[error("the bundle is for {supported}, not for {platform}")]
    Platform {
        /// Platform that was asked for.
        platform: BundlePlatform,
        /// Platforms of the bundle.
        supported: String,
    },
    /// Larger than [`MAX_LAUNCH_BYTES`].
    #[error("the command with its values is larger than {MAX_LAUNCH_BYTES} bytes; that is the limit")]
    TooLarge,
    /// A required option has no value.
    #[error("{key}: a value is required")]
    Missing {
        /// Key of the option.
        key: String,
    },
    /// A value for no option.
    #[error("{key}: the bundle has no such option")]
    NoSuchOption {
        /// Key that was given.
        key: String,
    },
    /// A value that does not fit its option.
    #[error("{key}: {why}")]
    Value {
        /// Key of the option.
        key: String,
        /// Description of the mismatch.
        why: ValueError,
    },
}

impl BundleManifest {
    /// Makes the command of the server on a platform.
    ///
    /// The text is that of the reference tool's own function (`getMcpConfigForManifest`), with these differences:
    /// - A value is put in as it is. It is not searched for further variables, and `$` has no meaning in it.
    /// - Variables of places in a default are replaced, as the format's description promises.
    /// - Keys are compared as texts, not as patterns.
    /// - The values are checked against the types and limits of their options.
    /// - On Windows, the program of a `binary` server gets the ending `.exe` if it has none.
    /// - A `uv` server without a command is started with `uv run`.
    ///
    /// A required option needs a value in `values`; its default is only a proposal ([`BundleManifest::default_values`]).
    ///
    /// # Errors
    /// If the bundle is for other platforms, a value is missing, superfluous, or does not fit its option, or the command
    /// is larger than [`MAX_LAUNCH_BYTES`].
    pub fn launch(
        &self,
        places: &BundlePlaces,
        platform: BundlePlatform,
        values: &UserValues,
    ) -> Result<BundleLaunch, LaunchError> {
        if let Some(platforms) = &self.compatibility.platforms
            && !platforms.contains(&platform)
        {
            let names: Vec<&str> = platforms.iter().map(|platform| platform.as_str()).collect();
            let supported = if names.is_empty() { "no platform".to_owned() } else { names.join(", ") };
            return Err(LaunchError::Platform { platform, supported });
        }
        self.check_values(values)?;
        self.fill_in(places, platform, values, MAX_LAUNCH_BYTES).ok_or(LaunchError::TooLarge)
    }

    /// Makes the command with each variable in its own place, to show it and to see where each option goes.
    #[must_use]
    pub fn preview(&self, platform: BundlePlatform) -> BundleLaunch {
        let places = BundlePlaces {
            bundle: "${__dirname}".to_owned(),
            home: Some("${HOME}".to_owned()),
            desktop: Some("${DESKTOP}".to_owned()),
            documents: Some("${DOCUMENTS}".to_owned()),
            downloads: Some("${DOWNLOADS}".to_owned()),
        };
        let sample = |option: &crate::manifest::UserOption| {
            let text = format!("${{user_config.{}}}", option.key);
            if option.multiple { UserValue::List(vec![text]) } else { UserValue::Text(text) }
        };
        let values = self.user_config.iter().map(|option| (option.key.clone(), sample(option))).collect();
        // Each variable is replaced by itself: nothing grows.
        self.fill_in(&places, platform, &values, usize::MAX).unwrap_or_default()
    }

    /// Returns `None` if the command is larger than the limit.
    fn fill_in(
        &self,
        places: &BundlePlaces,
        platform: BundlePlatform,
        values: &UserValues,
        limit: usize,
    ) -> Option<BundleLaunch> {
        let (command, args, env) = self.command_on(platform);
        let mut expander = Expander::new(self, places, platform, values, limit);
        let mut command = expander.text(&command, &LaunchPart::Command);
        if self.server.kind == ServerKind::Binary
            && platform == BundlePlatform::Windows
            && lacks_ending(&command)
        {
            command.push_str(".exe");
        }
        let args = expander.arguments(&args);
        let env = env.into_iter().map(|(name, text)| {
            let value = expander.text(&text, &LaunchPart::Environment(name.clone()));
            (name, value)
        });
        let env = env.collect();
        let (secrets, unfilled) = expander.finish()?;
        Some(BundleLaunch { command, args, env, secrets, unfilled })
    }

    fn command_on(&self, platform: BundlePlatform) -> (String, Vec<String>, Vec<(String, String)>) {
        let of_uv = || McpConfig {
            command: "uv".to_owned(),
            args: ["run", "--directory", "${__dirname}", &self.server.entry_point]
                .map(str::to_owned)
                .to_vec(),
            ..McpConfig::default()
        };
        let config = self.server.mcp_config.clone().unwrap_or_else(of_uv);
        let found = config.platform_overrides.into_iter().find(|(name, _)| name == platform.as_str());
        let other = found.map(|(_, other)| other).unwrap_or_default();
        // An empty program counts as none, as in the reference tool.
        let command = other.command.filter(|command| !command.is_empty()).unwrap_or(config.command);
        (command, other.args.unwrap_or(config.args), other.env.unwrap_or(config.env))
    }

    fn check_values(&self, values: &UserValues) -> Result<(), LaunchError> {
        for (key, value) in values.iter() {
            let option =
                self.user_option(key).ok_or_else(|| LaunchError::NoSuchOption { key: key.to_owned() })?;
            // A required value that is empty is missing, which is reported below.
            if option.required && value.is_blank() {
                continue;
            }
            option.check(value).map_err(|why| LaunchError::Value { key: key.to_owned(), why })?;
        }
        let is_missing = |key: &str| values.get(key).is_none_or(UserValue::is_blank);
        match self.user_config.iter().find(|option| option.required && is_missing(&option.key)) {
            Some(option) => Err(LaunchError::Missing { key: option.key.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the defaults of the options with the variables of places replaced: what a person is proposed.
    #[must_use]
    pub fn default_values(&self, places: &BundlePlaces, platform: BundlePlatform) -> UserValues {
        let filled = |value: &UserValue| expand::in_default(value, places, platform);
        let values = self.user_config.iter();
        values.filter_map(|option| Some((option.key.clone(), filled(option.default.as_ref()?)))).collect()
    }
}

fn lacks_ending(command: &str) -> bool {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    !name.is_empty() && !name.contains('.')
}
