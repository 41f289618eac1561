//! Splitting of command lines, and parsing of environment files, without a shell.

/// Error of splitting a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitCommandError {
    /// A quotation mark has no partner.
    #[error("a closing quotation mark")]
    OpenQuote,
    /// The command line is empty.
    #[error("the name of a program")]
    Empty,
    /// It would need a shell.
    #[error("one program and its arguments (for pipes and the like, write `sh -c '…'`)")]
    Shell,
}

/// Splits a command line into the program and its arguments.
///
/// Words are separated by white space. Text in single quotes is literal; in double quotes only `\"` and `\\` are
/// escapes. Outside quotes a backslash escapes only a quotation mark or white space, so that Windows paths need no
/// doubling. No shell is involved: unquoted `|`, `&&`, `;`, `<` and `>` as separate words are errors, because they are
/// never meant as arguments.
pub fn split_command(line: &str) -> Result<Vec<String>, SplitCommandError> {
    let mut words = Vec::new();
    let mut characters = line.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        if characters.peek().is_none() {
            break;
        }
        let (mut word, mut quoted) = (String::new(), false);
        while let Some(character) = characters.next_if(|c| !c.is_whitespace()) {
            match character {
                '\'' => {
                    quoted = true;
                    loop {
                        match characters.next() {
                            Some('\'') => break,
                            Some(inner) => word.push(inner),
                            None => return Err(SplitCommandError::OpenQuote),
                        }
                    }
                }
                '"' => {
                    quoted = true;
                    loop {
                        match characters.next() {
                            Some('"') => break,
                            Some('\\') => {
                                word.push(characters.next_if(|c| matches!(c, '"' | '\\')).unwrap_or('\\'))
                            }
                            Some(inner) => word.push(inner),
                            None => return Err(SplitCommandError::OpenQuote),
                        }
                    }
                }
                '\\' => {
                    let escaped = characters.next_if(|c| c.is_whitespace() || matches!(c, '"' | '\''));
                    word.push(escaped.unwrap_or('\\'));
                }
                // `${NAME:-two words}` is one word.
                '$' if characters.peek() == Some(&'{') => {
                    word.push('$');
                    for inner in characters.by_ref() {
                        word.push(inner);
                        if inner == '}' {
                            break;
                        }
                    }
                }
                other => word.push(other),
            }
        }
        if !quoted && matches!(word.as_str(), "|" | "||" | "&" | "&&" | ";" | "<" | ">" | ">>" | "2>&1") {
            return Err(SplitCommandError::Shell);
        }
        words.push(word);
    }
    if words.is_empty() { Err(SplitCommandError::Empty) } else { Ok(words) }
}

/// Reads a file of `NAME=value` lines. The error is the number of the first invalid line.
///
/// Blank lines and lines beginning with `#` are skipped, `export` before a name is allowed, one pair of quotes
/// around a value is removed, and nothing is expanded.
pub(super) fn parse_env_file(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut variables = Vec::new();
    // Some editors put a byte order mark at the beginning.
    for (index, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let (name, value) = line.split_once('=').ok_or(index + 1)?;
        let (name, value) = (name.trim_end(), value.trim_start());
        if !is_env_name(name) {
            return Err(index + 1);
        }
        variables.push((name.to_owned(), unquote(value).ok_or(index + 1)?));
    }
    Ok(variables)
}

/// Returns true if operating systems accept the name; only shells are stricter.
pub(super) fn is_env_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c == '=' || c.is_whitespace() || c.is_control())
}

fn unquote(value: &str) -> Option<String> {
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (mut text, mut escaped) = (String::new(), false);
            let mut inner = value[1..].char_indices();
            loop {
                let (index, character) = inner.next()?;
                match character {
                    'n' if escaped => text.push('\n'),
                    't' if escaped => text.push('\t'),
                    'r' if escaped => text.push('\r'),
                    _ if escaped => text.push(character),
                    '\\' if quote == '"' => {
                        escaped = true;
                        continue;
                    }
                    _ if character == quote => {
                        // One for the opening mark, which `inner` leaves out, and one for the closing.
                        let rest = value[index + 2..].trim_start();
                        return (rest.is_empty() || rest.starts_with('#')).then_some(text);
                    }
                    _ => text.push(character),
                }
                escaped = false;
            }
        }
        // As in other readers, a comment needs a space before it: keys may hold `#`.
        _ => Some(value.split(" #").next().unwrap_or(value).trim_end().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_people_expect() {
        for (line, expected) in [
            ("npx -y foo", &["npx", "-y", "foo"][..]),
            ("  a\t b\n", &["a", "b"]),
            ("'/path with/x' \"a b\"c ''", &["/path with/x", "a bc", ""]),
            (r#""say \"hi\" \n \\""#, &[r#"say "hi" \n \"#]),
            (r"C:\Users\me\x.exe C:\a\ b", &[r"C:\Users\me\x.exe", r"C:\a b"]),
            (r"it\'s", &["it's"]),
            ("run ${DIR:-/a b}/x ${Y}", &["run", "${DIR:-/a b}/x", "${Y}"]),
            ("sh -c 'a | b && c'", &["sh", "-c", "a | b && c"]),
            ("echo '|' a|b", &["echo", "|", "a|b"]),
        ] {
            assert_eq!(split_command(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn what_needs_a_shell_or_a_quote_is_refused() {
        for (line, expected) in [
            ("a | b", SplitCommandError::Shell),
            ("a && b", SplitCommandError::Shell),
            ("a > b", SplitCommandError::Shell),
            ("a 'b", SplitCommandError::OpenQuote),
            ("a \"b", SplitCommandError::OpenQuote),
            (" ", SplitCommandError::Empty),
        ] {
            assert_eq!(split_command(line), Err(expected), "{line}");
        }
    }

    #[test]
    fn an_env_file_is_read_as_written() {
        let text = "# comment\n\nA=1\nexport B = two words # not this\nC='$A #x'\nD=\"a\\nb\\\"c\" # x\nE=\nF=a#b\r\n";
        let expected =
            [("A", "1"), ("B", "two words"), ("C", "$A #x"), ("D", "a\nb\"c"), ("E", ""), ("F", "a#b")];
        let read = parse_env_file(text).unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_bad_line_is_named() {
        for text in ["A=1\nnonsense\n", "A=1\n=x", "A=1\nB=\"open", "A=1\nB='x' y", "A=1\na b=c"] {
            assert_eq!(parse_env_file(text), Err(2), "{text}");
        }
    }
}
