//! Files that look like secrets.

/// Number of bytes at the beginning of a file that are looked at.
pub(crate) const HEAD_BYTES: u64 = 64 * 1024;

/// Returns why a file looks like a secret, by its name and the beginning of its content.
pub(crate) fn secret_sign(name: &str, head: &[u8]) -> Option<&'static str> {
    let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let is_example = [".example", ".sample", ".template", ".dist"].iter().any(|end| file.ends_with(end));
    if (file == ".env" || file.starts_with(".env.")) && !is_example {
        return Some("has settings of an environment, usually with passwords");
    }
    if [".netrc", "_netrc", ".git-credentials", ".pypirc"].contains(&file.as_str()) {
        return Some("has passwords of a program");
    }
    if file == ".npmrc" && contains(head, b"_authToken") {
        return Some("has a token of npm");
    }
    if ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].contains(&file.as_str()) {
        return Some("has the name of a private key");
    }
    if [".p12", ".pfx", ".jks", ".keystore"].iter().any(|end| file.ends_with(end)) {
        return Some("has private keys of certificates");
    }
    has_private_key(head).then_some("has a private key")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Returns true for a private key in PEM. Programs that read keys have its first line, too, but no key behind it.
fn has_private_key(text: &[u8]) -> bool {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const LABEL: &[u8] = b"PRIVATE KEY-----";
    /// Length of a line of a key; the first lines of an encrypted one are headers.
    const LEAST_LINE: usize = 40;

    let mut rest = text;
    while let Some(at) = rest.windows(BEGIN.len()).position(|window| window == BEGIN) {
        rest = &rest[at + BEGIN.len()..];
        let mut lines = rest.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        if !lines.next().is_some_and(|line| line.ends_with(LABEL)) {
            continue;
        }
        let is_base64 = |line: &[u8]| {
            line.len() >= LEAST_LINE
                && line.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
        };
        if lines.take(5).any(is_base64) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_passwords_are_seen() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ";
        let key = format!("-----BEGIN RSA PRIVATE KEY-----\r\n{line}\r\n");
        let encrypted =
            format!("x\n-----BEGIN PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\n{line}\n");
        let cases = [
            (".env", ""),
            ("a/.ENV.local", ""),
            ("id_rsa", ""),
            ("cert.pfx", ""),
            (".netrc", ""),
            (".npmrc", "//x/:_authToken=y"),
            ("key.txt", key.as_str()),
            ("key.txt", encrypted.as_str()),
        ];
        for (name, content) in cases {
            assert!(secret_sign(name, content.as_bytes()).is_some(), "{name} {content}");
        }
    }

    #[test]
    fn examples_and_programs_are_no_secrets() {
        let public = "-----BEGIN PUBLIC KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n";
        let code = "const head = '-----BEGIN PRIVATE KEY-----\\n';\nconst next = 1;\n";
        for (name, content) in [
            (".env.example", ""),
            ("environment", ""),
            ("key.pub", public),
            ("pem.js", code),
            (".npmrc", "a=b"),
        ] {
            assert_eq!(secret_sign(name, content.as_bytes()), None, "{name}");
        }
    }
}
