//! Glob patterns for names and paths: `*`, `?`, `[a-z]`, `[!a-z]`, `{one,two}`, and `**` for any number of folders.

/// Maximum number of patterns to which one with braces may expand.
const MAX_ALTERNATIVES: usize = 64;
/// Maximum length of a pattern, in bytes.
const MAX_PATTERN: usize = 1024;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct GlobPattern {
    /// Alternatives after brace expansion, each split at slashes.
    alternatives: Vec<Vec<PatternPart>>,
}

#[derive(Debug)]
enum PatternPart {
    /// `**`: any number of folders.
    Folders,
    Name(Vec<PatternToken>),
}

#[derive(Clone, Debug)]
enum PatternToken {
    One(char),
    Any,
    Star,
    Class { ranges: Vec<(char, char)>, inverted: bool },
}

impl GlobPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > MAX_PATTERN || text.contains('\0') {
            return Err(format!("a pattern must have 1 to {MAX_PATTERN} bytes and no NUL"));
        }
        let alternatives = expand(text)?;
        let parts = |text: &String| {
            let mut parts = Vec::new();
            if !text.contains('/') {
                // A pattern without a slash matches a name in any folder.
                parts.push(PatternPart::Folders);
            }
            for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
                parts.push(if part == "**" {
                    PatternPart::Folders
                } else {
                    PatternPart::Name(tokens(part)?)
                });
            }
            Ok(parts)
        };
        Ok(Self { alternatives: alternatives.iter().map(parts).collect::<Result<_, String>>()? })
    }

    /// Returns true if a path, without a leading slash, matches.
    pub(super) fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        self.alternatives.iter().any(|parts| fits(parts, &names))
    }
}

/// Returns true if `parts` match all of `names`. Backtracking to the last `**` is sufficient, as with stars in a name,
/// so the time is at most the product of the lengths.
fn fits(parts: &[PatternPart], names: &[&str]) -> bool {
    let (mut part, mut name) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while name < names.len() {
        match parts.get(part) {
            Some(PatternPart::Folders) => {
                back = Some((part + 1, name));
                part += 1;
                continue;
            }
            Some(PatternPart::Name(tokens)) if name_fits(tokens, names[name]) => {
                part += 1;
                name += 1;
                continue;
            }
            _ => {}
        }
        let Some((after, from)) = back else { return false };
        back = Some((after, from + 1));
        part = after;
        name = from + 1;
    }
    parts[part..].iter().all(|part| matches!(part, PatternPart::Folders))
}

fn name_fits(tokens: &[PatternToken], name: &str) -> bool {
    let letters: Vec<char> = name.chars().collect();
    let (mut token, mut letter) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while letter < letters.len() {
        match tokens.get(token) {
            Some(PatternToken::Star) => {
                back = Some((token + 1, letter));
                token += 1;
                continue;
            }
            Some(other) if other.is(letters[letter]) => {
                token += 1;
                letter += 1;
                continue;
            }
            _ => {}
        }
        let Some((after, from)) = back else { return false };
        back = Some((after, from + 1));
        token = after;
        letter = from + 1;
    }
    tokens[token..].iter().all(|token| matches!(token, PatternToken::Star))
}

impl PatternToken {
    fn is(&self, letter: char) -> bool {
        match self {
            Self::One(own) => *own == letter,
            Self::Any => true,
            Self::Star => false,
            Self::Class { ranges, inverted } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *inverted
            }
        }
    }
}

fn tokens(part: &str) -> Result<Vec<PatternToken>, String> {
    let mut tokens = Vec::new();
    let mut letters = part.chars().peekable();
    while let Some(letter) = letters.next() {
        tokens.push(match letter {
            // Consecutive stars are equivalent to one, and each would add a backtracking position.
            '*' if matches!(tokens.last(), Some(PatternToken::Star)) => continue,
            '*' => PatternToken::Star,
            '?' => PatternToken::Any,
            '\\' => PatternToken::One(letters.next().ok_or("a \\ must be followed by a character")?),
            '[' => {
                let inverted = letters.next_if(|letter| matches!(letter, '!' | '^')).is_some();
                let mut ranges = Vec::new();
                loop {
                    let first = match letters.next() {
                        // As in POSIX, a leading `]` is literal.
                        Some(']') if !ranges.is_empty() => break,
                        Some(letter) => letter,
                        None => return Err(format!("the [ in {part:?} is not closed with ]")),
                    };
                    // A `-` before the `]` is literal.
                    if letters.peek() == Some(&'-') {
                        let mut ahead = letters.clone();
                        ahead.next();
                        if let Some(last) = ahead.next().filter(|last| *last != ']') {
                            letters = ahead;
                            ranges.push((first, last));
                            continue;
                        }
                    }
                    ranges.push((first, first));
                }
                PatternToken::Class { ranges, inverted }
            }
            other => PatternToken::One(other),
        });
    }
    Ok(tokens)
}

/// Expands the braces of a pattern to patterns without braces.
fn expand(text: &str) -> Result<Vec<String>, String> {
    let (mut done, mut todo) = (Vec::new(), vec![text.to_owned()]);
    while let Some(next) = todo.pop() {
        // Checked during expansion, because several pairs multiply.
        if done.len() + todo.len() >= MAX_ALTERNATIVES {
            return Err(format!("the braces expand to more than {MAX_ALTERNATIVES} patterns"));
        }
        let Some(open) = next.find('{') else {
            done.push(next);
            continue;
        };
        let (mut depth, mut starts, mut close) = (0, vec![open + 1], None);
        for (at, letter) in next.char_indices().skip_while(|(at, _)| *at < open) {
            match letter {
                '{' => depth += 1,
                '}' if depth == 1 => {
                    close = Some(at);
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 1 => starts.push(at + 1),
                _ => {}
            }
        }
        let close = close.ok_or_else(|| format!("the {{ in {text:?} is not closed with }}"))?;
        for (index, start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).map_or(close, |next| next - 1);
            todo.push(format!("{}{}{}", &next[..open], &next[*start..end], &next[close + 1..]));
        }
        if todo.len() > MAX_ALTERNATIVES {
            return Err(format!("the braces expand to more than {MAX_ALTERNATIVES} patterns"));
        }
    }
    Ok(done)
}
