//! Words of commands that a person copies into a shell.

/// Returns a word of a command that a person is to copy, in quotes if a shell would read it as something else.
pub fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@%+,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // PowerShell doubles a quote; other shells end the quotes for it.
    let quote = if cfg!(windows) { "''" } else { r"'\''" };
    format!("'{}'", word.replace('\'', quote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_command_is_one_word_of_a_shell() {
        for word in ["there", "https://e.example:1/mcp"] {
            assert_eq!(shell_word(word), word);
        }
        assert_eq!(shell_word("https://e.example/$(id)?a=b&c"), "'https://e.example/$(id)?a=b&c'");
        let quoted = shell_word("a';id'");
        assert_eq!(quoted, if cfg!(windows) { "'a'';id'''" } else { r"'a'\'';id'\'''" });
    }
}
