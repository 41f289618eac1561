//! Expansion of paths with wildcards in the file system.

use crate::file::LinkResolver;
use crate::readings;

/// Maximum number of names in one folder, and of paths to which one string expands.
const MAX_NAMES: usize = 256;
/// Maximum number of folders listed and paths followed for one rule and one call.
const MAX_LOOKUPS: usize = 512;

/// Expands paths with wildcards, within limits.
pub(crate) struct WildcardPaths<'a> {
    links: &'a dyn LinkResolver,
    looks: usize,
}

impl<'a> WildcardPaths<'a> {
    pub(crate) fn new(links: &'a dyn LinkResolver) -> Self {
        Self { links, looks: 0 }
    }

    /// Returns true if the lookup limit is exceeded; nothing more is expanded then.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.looks > MAX_LOOKUPS
    }

    /// Expands an absolute path to those that exist as links or folders; a path without wildcards is returned
    /// unchanged. Returns `None` if they are unknown or too many.
    pub(crate) fn expand(&mut self, path: &str) -> Option<Vec<String>> {
        let mut all = vec![String::new()];
        for part in path.split('/').skip(1) {
            if !readings::is_wild(part) {
                all.iter_mut().for_each(|one| {
                    one.push('/');
                    one.push_str(part);
                });
                continue;
            }
            let mut next = Vec::new();
            for one in &all {
                self.looks += 1;
                let folder = if one.is_empty() { "/" } else { one };
                let names = self.links.list_folders_and_links(folder, MAX_NAMES).ok()?;
                // Shell wildcards know classes and ignore case in ways that are not known here.
                let names = names
                    .into_iter()
                    .filter(|name| readings::may_be(&part.to_lowercase(), &name.to_lowercase()));
                next.extend(names.map(|name| format!("{one}/{name}")));
                if next.len() > MAX_NAMES || self.looks > MAX_LOOKUPS {
                    return None;
                }
            }
            all = next;
        }
        self.looks += all.len();
        (self.looks <= MAX_LOOKUPS).then_some(all)
    }
}
