//! Replacement of variables in one pass.

use std::collections::{BTreeSet, HashMap};

use super::{
    BundlePlaces, BundlePlatform, LaunchPart, SecretUse, UnfilledReason, UnfilledVariable, UserValue,
    UserValues,
};
use crate::manifest::BundleManifest;

const OPTION_PREFIX: &str = "user_config.";

/// Replaces the variables of a command and notes where secrets went.
#[derive(Debug)]
pub(super) struct Expander<'m> {
    places: &'m BundlePlaces,
    platform: BundlePlatform,
    /// Options, with whether they are secrets.
    options: HashMap<&'m str, bool>,
    values: HashMap<&'m str, UserValue>,
    secrets: BTreeSet<(LaunchPart, &'m str)>,
    unfilled: Vec<UnfilledVariable>,
    /// Number of bytes that may still be put in.
    room: Option<usize>,
}

impl<'m> Expander<'m> {
    pub(super) fn new(
        manifest: &'m BundleManifest,
        places: &'m BundlePlaces,
        platform: BundlePlatform,
        given: &'m UserValues,
        limit: usize,
    ) -> Self {
        let values = manifest.user_config.iter().filter_map(|option| {
            let default = || option.default.as_ref().map(|value| in_default(value, places, platform));
            Some((option.key.as_str(), given.get(&option.key).cloned().or_else(default)?))
        });
        let options = manifest.user_config.iter().map(|option| (option.key.as_str(), option.sensitive));
        Self {
            places,
            platform,
            options: options.collect(),
            values: values.collect(),
            secrets: BTreeSet::new(),
            unfilled: Vec::new(),
            room: Some(limit),
        }
    }

    /// Replaces the variables in the program or an environment variable.
    pub(super) fn text(&mut self, text: &str, part: &LaunchPart) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            expanded.push_str(before);
            let Some(end) = from.find('}') else {
                rest = from;
                break;
            };
            let name = &from[2..end];
            match self.look_up(name) {
                Ok(value) => {
                    self.note_secret(name, part);
                    if self.has_room(value.len()) {
                        expanded.push_str(&value);
                    }
                    rest = &from[end + 1..];
                }
                Err(why) => {
                    if !name.contains("${") {
                        let is_whole_part = text.len() == end + 1 && start == 0;
                        let variable = name.to_owned();
                        self.unfilled.push(UnfilledVariable {
                            variable,
                            part: part.clone(),
                            why,
                            is_whole_part,
                        });
                    }
                    // Another variable may begin inside the braces.
                    expanded.push_str("${");
                    rest = &from[2..];
                }
            }
        }
        expanded.push_str(rest);
        self.has_room(text.len());
        expanded
    }

    /// Counts bytes. Once there is no room, nothing more is put in.
    fn has_room(&mut self, size: usize) -> bool {
        self.room = self.room.and_then(|room| room.checked_sub(size));
        self.room.is_some()
    }

    /// Replaces the variables in arguments. An argument that is one option becomes as many as it has values.
    pub(super) fn arguments(&mut self, args: &[String]) -> Vec<String> {
        let mut expanded: Vec<String> = Vec::with_capacity(args.len());
        for arg in args {
            let part = LaunchPart::Argument(expanded.len());
            let Some(key) = whole_option(arg) else {
                let arg = self.text(arg, &part);
                expanded.push(arg);
                continue;
            };
            let variable = format!("{OPTION_PREFIX}{key}");
            match self.value(key) {
                Some(UserValue::List(values)) => {
                    for value in values {
                        if !self.has_room(value.len()) {
                            break;
                        }
                        self.note_secret(&variable, &LaunchPart::Argument(expanded.len()));
                        expanded.push(value);
                    }
                }
                Some(value) if !value.to_text().is_empty() => {
                    self.note_secret(&variable, &part);
                    let value = value.to_text();
                    if self.has_room(value.len()) {
                        expanded.push(value);
                    }
                }
                found => {
                    let is_known = found.is_some() || self.options.contains_key(key);
                    let why = if is_known { UnfilledReason::Unset } else { UnfilledReason::Unknown };
                    self.unfilled.push(UnfilledVariable { variable, part, why, is_whole_part: true });
                    expanded.push(arg.clone());
                }
            }
        }
        expanded
    }

    /// Returns `None` if there was no room for all values.
    pub(super) fn finish(self) -> Option<(Vec<SecretUse>, Vec<UnfilledVariable>)> {
        self.room?;
        let secret = |(part, key): (LaunchPart, &str)| SecretUse { key: key.to_owned(), part };
        Some((self.secrets.into_iter().map(secret).collect(), self.unfilled))
    }

    fn look_up(&self, name: &str) -> Result<String, UnfilledReason> {
        let Some(key) = name.strip_prefix(OPTION_PREFIX) else {
            return place(name, self.places, self.platform).ok_or(UnfilledReason::Unknown);
        };
        match self.value(key) {
            Some(UserValue::List(_)) => Err(UnfilledReason::List),
            Some(value) => Ok(value.to_text()),
            None if self.options.contains_key(key) => Err(UnfilledReason::Unset),
            None => Err(UnfilledReason::Unknown),
        }
    }

    fn value(&self, key: &str) -> Option<UserValue> {
        self.values.get(key).cloned()
    }

    fn note_secret(&mut self, variable: &str, part: &LaunchPart) {
        let key = variable.strip_prefix(OPTION_PREFIX);
        if let Some((key, true)) = key.and_then(|key| self.options.get_key_value(key)) {
            self.secrets.insert((part.clone(), *key));
        }
    }
}

/// Returns the key if an argument is one option and nothing else.
fn whole_option(arg: &str) -> Option<&str> {
    let key = arg.strip_prefix("${")?.strip_prefix(OPTION_PREFIX)?.strip_suffix('}')?;
    (!key.is_empty() && !key.contains('}')).then_some(key)
}

fn place(name: &str, places: &BundlePlaces, platform: BundlePlatform) -> Option<String> {
    match name {
        "__dirname" => Some(places.bundle.clone()),
        "pathSeparator" | "/" => Some(platform.path_separator().to_owned()),
        "HOME" => places.home.clone(),
        "DESKTOP" => places.desktop.clone(),
        "DOCUMENTS" => places.documents.clone(),
        "DOWNLOADS" => places.downloads.clone(),
        _ => None,
    }
}

/// Replaces the variables of places in a default.
pub(super) fn in_default(value: &UserValue, places: &BundlePlaces, platform: BundlePlatform) -> UserValue {
    let fill = |text: &String| {
        const NAMES: [&str; 7] =
            ["__dirname", "pathSeparator", "/", "HOME", "DESKTOP", "DOCUMENTS", "DOWNLOADS"];

        let mut filled = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            filled.push_str(before);
            let name = from.find('}').map(|end| &from[2..end]).filter(|name| NAMES.contains(name));
            match name.and_then(|name| Some((name, place(name, places, platform)?))) {
                Some((name, folder)) => {
                    filled.push_str(&folder);
                    rest = &from[name.len() + 3..];
                }
                None => {
                    filled.push_str("${");
                    rest = &from[2..];
                }
            }
        }
        filled.push_str(rest);
        filled
    };
    match value {
        UserValue::Text(text) => UserValue::Text(fill(text)),
        UserValue::List(texts) => UserValue::List(texts.iter().map(fill).collect()),
        other => other.clone(),
    }
}
