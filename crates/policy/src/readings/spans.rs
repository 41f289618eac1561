//! Paths with unknown parts, compared with folders.

/// Stands for any text, including slashes.
pub(crate) const ANY_TEXT: char = '\u{f0000}';
/// Stands for any text without a slash.
pub(super) const ANY_SEGMENT: char = '\u{f0001}';
/// Stands for one character other than a slash.
pub(super) const ANY_CHARACTER: char = '\u{f0002}';

/// Returns true if part of the text is unknown.
pub(crate) fn is_wild(text: &str) -> bool {
    text.contains([ANY_TEXT, ANY_SEGMENT, ANY_CHARACTER])
}

pub(crate) fn is_wildcard(one: char) -> bool {
    [ANY_TEXT, ANY_SEGMENT, ANY_CHARACTER].contains(&one)
}

/// Returns true if the part of a path may be `..`. No wildcard matches a leading dot.
pub(crate) fn may_be_parent(part: &str) -> bool {
    part.starts_with('.') && may_be(part, "..")
}

/// Replaces the parts of a path that may be `..` and resolves them.
pub(crate) fn resolve_possible_parents(path: &str) -> String {
    path.split('/').map(|part| if may_be_parent(part) { ".." } else { part }).collect::<Vec<_>>().join("/")
}

/// Returns true if the path may be below the folder, which has at least one part, or on the way there.
pub(crate) fn may_be_below(path: &str, folder: &str) -> bool {
    may_be_under(path, folder) || {
        let length = folder.split('/').count();
        let first: Vec<&str> = path.split('/').take(length).collect();
        is_wild(&first.join("/")) && may_be_under(&first.join("/"), folder)
    }
}

/// Returns true if the path may be the folder or below it.
pub(crate) fn may_be_under(path: &str, folder: &str) -> bool {
    if !path.contains([ANY_TEXT, ANY_SEGMENT, ANY_CHARACTER]) {
        return crate::paths::is_under(path, folder);
    }
    let folder = folder.trim_end_matches('/');
    // Nothing has to be tried before the first wildcard.
    let known = path.find([ANY_TEXT, ANY_SEGMENT, ANY_CHARACTER]).unwrap_or(path.len());
    let Some(rest) = folder.strip_prefix(&path[..known]) else {
        return path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    };
    let path: Vec<char> = path[known..].chars().collect();
    let mut states = vec![0];
    skip(&path, &mut states);
    for one in rest.chars() {
        let mut next = Vec::new();
        for &at in &states {
            match path.get(at) {
                Some(&ANY_TEXT) => next.push(at),
                Some(&ANY_SEGMENT) if one != '/' => next.push(at),
                Some(&ANY_CHARACTER) if one != '/' => next.push(at + 1),
                Some(&other) if other == one => next.push(at + 1),
                _ => (),
            }
        }
        // `skip` needs the states in order; without duplicates the pattern's length limits their number.
        next.sort_unstable();
        next.dedup();
        skip(&path, &mut next);
        states = next;
    }
    states.iter().any(|&at| matches!(path.get(at), None | Some(&('/' | ANY_TEXT))))
}

/// Adds the states after wildcards that match nothing. The states are in order.
fn skip(path: &[char], states: &mut Vec<usize>) {
    let mut from = 0;
    while let Some(&at) = states.get(from) {
        let may_be_nothing = matches!(path.get(at), Some(&(ANY_TEXT | ANY_SEGMENT)));
        if may_be_nothing && states.get(from + 1) != Some(&(at + 1)) {
            states.insert(from + 1, at + 1);
        }
        from += 1;
    }
}

/// Returns true if the name may match the known name.
pub(crate) fn may_be(name: &str, known: &str) -> bool {
    name.contains([ANY_TEXT, ANY_SEGMENT, ANY_CHARACTER]) && {
        let ended = format!("{name}/");
        may_be_under(&ended, known) && !known.contains('/')
    }
}
