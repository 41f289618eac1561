//! The folders and hosts that a rule names, compared with the readings of a string.

use std::fmt;
use std::sync::Arc;

use crate::destination::Destination;
use crate::file::{FollowLinks, Reading};
use crate::paths::{self, Text};
use crate::pattern::Doubt;
use crate::place::Place;
use crate::readings::{self, ANY, Candidates};

/// Folders that paths may be in.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    folders: Vec<String>,
    lower: Vec<String>,
    home: Option<String>,
    links: Option<Arc<dyn FollowLinks>>,
}

impl Folders {
    pub(crate) fn new(texts: &[String], reading: &Reading) -> Result<Self, String> {
        let mut all = Self {
            folders: Vec::new(),
            lower: Vec::new(),
            home: reading.home.clone(),
            links: reading.links.clone(),
        };
        for text in texts {
            let folder = all.folder(text)?;
            let lower = folder.to_lowercase();
            all.lower.extend([readings::compatible(&lower), lower]);
            all.folders.push(folder);
        }
        Ok(all)
    }

    /// # Errors
    /// When the text is no absolute path, or one that climbs.
    pub(crate) fn of(text: &str, reading: &Reading) -> Result<Self, String> {
        Self::new(&[text.to_owned()], reading)
    }

    fn folder(&self, text: &str) -> Result<String, String> {
        let whole =
            self.at_home(text).ok_or_else(|| format!("whose home is meant by `{text}` is not known"))?;
        if !is_absolute(&whole) || !paths::is_plain(&whole) {
            return Err(format!("`{text}` is not an absolute path that means just what it says"));
        }
        Ok(paths::resolved(&whole.replace('\\', "/")))
    }

    /// The text with the home folder in the place of its `~`; nothing when that is needed and not known.
    fn at_home(&self, text: &str) -> Option<String> {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => {
                self.home.as_ref().map(|home| format!("{home}{rest}"))
            }
            _ => Some(text.to_owned()),
        }
    }

    /// Whether the text, which is known to be a path, is in one of the folders.
    pub(crate) fn hold(&self, text: &Text<'_>, doubt: Doubt) -> bool {
        let path = paths::without_scheme(text.raw());
        match doubt {
            _ if text.is_too_long() => doubt == Doubt::Counts,
            Doubt::Refuses => !paths::is_far(text.raw()) && self.permit(path),
            Doubt::Counts => {
                let read = Candidates::of(text.raw());
                read.unclear.is_some()
                    || text.paths().iter().any(|path| self.may_hold(path))
                    || read.paths.keys().any(|path| self.may_hold(path))
                    || self.follows_into(path)
            }
        }
    }

    /// Whether a path is in one of the folders for every reader, also after its symbolic links.
    pub(crate) fn permit(&self, path: &str) -> bool {
        let turned = path.replace('\\', "/");
        if !is_absolute(path)
            || turned.starts_with("//")
            || !paths::is_plain(path)
            // Some servers replace variables in paths, or normalize them.
            || path.contains(['$', '`'])
            || readings::compatible(path).contains("..")
            || readings::compatible(path).matches(['/', '\\']).count() != turned.matches('/').count()
            || paths::is_magic(&turned) && !self.folders.iter().any(|folder| paths::is_magic(folder))
        {
            return false;
        }
        let resolved = paths::resolved(&turned);
        self.is_in(&resolved)
            && self.links.as_ref().is_none_or(|links| match links.follow(&resolved) {
                Ok(followed) => self.folders.iter().any(|folder| {
                    let target = links.follow(folder).unwrap_or_else(|_| folder.clone());
                    paths::is_under(&resolved, folder) && paths::is_under(&followed, &target)
                }),
                Err(_) => false,
            })
    }

    /// Whether a path in lower case may be in one of the folders for some reader, from wherever it is taken.
    pub(crate) fn may_hold(&self, path: &str) -> bool {
        let path = paths::without_scheme(path);
        let path = paths::without_marks(path);
        let trimmed = without_endings(path);
        let opened = paths::without_magic(path);
        [path, &trimmed, &opened].into_iter().any(|path| self.may_hold_resolved(&paths::resolved(path)))
    }

    fn may_hold_resolved(&self, path: &str) -> bool {
        if is_absolute(path) {
            return self.lowered().any(|folder| readings::may_be_under(path, folder));
        }
        if path.starts_with(ANY) && self.lowered().any(|folder| readings::may_be_under(path, folder)) {
            return true;
        }
        // What begins with a name for some home, or a variable, is below that.
        let below = path
            .strip_prefix(['~', '$', '%', ANY])
            .map(|rest| rest.split_once('/').map_or("", |(_, rest)| rest));
        if let (Some(below), Some(home)) = (below, &self.home) {
            let whole = paths::resolved(&format!("{home}/{below}").replace('\\', "/").to_lowercase());
            if self.lowered().any(|folder| readings::may_be_under(&whole, folder)) {
                return true;
            }
        }
        [Some(path), below].into_iter().flatten().any(|path| self.may_hold_relative(path))
    }

    /// A relative path may begin anywhere on the way to the folder, so also with any tail of that way.
    fn may_hold_relative(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').skip_while(|part| *part == "..").collect();
        let path = parts.join("/");
        self.lowered().any(|folder| {
            let folder: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
            folder.is_empty()
                || (0..folder.len())
                    .any(|from| !path.is_empty() && readings::may_be_under(&path, &folder[from..].join("/")))
        })
    }

    /// Whether an absolute path, or one at home, leads into one of the folders by symbolic links.
    pub(crate) fn follows_into(&self, path: &str) -> bool {
        let Some(links) = &self.links else { return false };
        let Some(whole) = self.at_home(path.trim()).filter(|whole| whole.starts_with('/')) else {
            return false;
        };
        let Ok(followed) = links.follow(&whole) else { return false };
        let followed = followed.to_lowercase();
        self.folders.iter().any(|folder| {
            let target = links.follow(folder).unwrap_or_else(|_| folder.clone());
            [folder.clone(), target].iter().any(|folder| paths::is_under(&followed, &folder.to_lowercase()))
        })
    }

    /// In lower case, and also normalized.
    fn lowered(&self) -> impl Iterator<Item = &str> {
        self.lower.iter().map(String::as_str)
    }

    fn is_in(&self, path: &str) -> bool {
        self.folders.iter().any(|folder| paths::is_under(path, folder))
    }
}

/// Without the dots, blanks and stream names that Windows drops at the end of each part.
fn without_endings(path: &str) -> String {
    let parts = path.split('/').enumerate().map(|(at, part)| match part {
        "." | ".." => part,
        _ if at == 0 && part.len() == 2 && part.ends_with(':') => part,
        _ => part.split(':').next().unwrap_or(part).trim_end_matches(['.', ' ']),
    });
    parts.collect::<Vec<_>>().join("/")
}

impl fmt::Display for Folders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folders: Vec<String> = self.folders.iter().map(|folder| format!("`{folder}`")).collect();
        f.write_str(&folders.join(" or "))
    }
}

/// Hosts that an argument may lead to.
#[derive(Clone, Debug)]
pub(crate) struct Hosts(Vec<Place>);

impl Hosts {
    pub(crate) fn new(texts: &[String], reading: &Reading) -> Result<Self, String> {
        let places = texts.iter().map(|text| match Place::new(text, reading)? {
            place if place.is_folder() => {
                Err(format!("`{text}` is a folder and no host; `under` is for those"))
            }
            place => Ok(place),
        });
        places.collect::<Result<_, _>>().map(Self)
    }

    /// Whether the text, which is known to be a URL, a mail address or a host, leads to one of them.
    pub(crate) fn hold(&self, text: &str, doubt: Doubt) -> bool {
        match doubt {
            Doubt::Refuses => match readings::exact(text) {
                Ok(found @ Destination::Host { .. }) => self.0.iter().any(|place| place.permits(&found)),
                _ => false,
            },
            Doubt::Counts => {
                let read = Candidates::of(text);
                read.unclear.is_some()
                    || read.hosts.keys().any(|host| self.0.iter().any(|place| place.may_be(host)))
            }
        }
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&places.join(" or "))
    }
}

/// `/…`, `C:\\…` or `C:/…`.
pub(crate) fn is_absolute(text: &str) -> bool {
    let drive = matches!(text.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    drive || text.starts_with('/')
}
