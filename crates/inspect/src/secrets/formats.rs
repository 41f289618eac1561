//! Formats of the tokens of known services.

use std::ops::Range;

use memchr::memmem;

/// Maximum length of a token without a fixed length, in bytes.
const MAX_TOKEN: usize = 4096;

/// Maximum length of a private key, in bytes.
const MAX_PRIVATE_KEY: usize = 32 * 1024;

/// Format of the tokens of one service.
#[derive(Debug)]
pub(super) struct SecretFormat {
    /// Text that each token contains, usually at its start.
    pub(super) prefix: &'static str,
    pub(super) kind: &'static str,
    body: TokenBody,
}

/// Form of the text after the prefix.
#[derive(Clone, Copy, Debug)]
enum TokenBody {
    /// Characters of an alphabet: at least the first number, at most the second.
    Text(Alphabet, usize, usize),
    /// Thirty characters and six of their checksum.
    Checksummed,
    /// Parts with these alphabets and lengths, separated by a character.
    Parts(u8, &'static [(Alphabet, usize, usize)]),
    /// A format with a function of its own. It receives the text and the start of the prefix.
    Own(fn(&str, usize) -> Option<Range<usize>>),
}

/// Characters of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alphabet {
    LowerHex,
    Hex,
    Upper,
    /// Capitals and the digits from 2 to 7, as in base 32.
    Base32,
    Alphanumeric,
    /// Letters, digits, `_` and `-`.
    Url,
    /// Letters, digits, `_`, `-` and `.`.
    Dotted,
    /// Letters, digits, `+`, `/` and `=`.
    Base64,
    /// Letters, digits, `+`, `/`, `=`, `_` and `-`.
    Base64OrUrl,
}

impl Alphabet {
    const fn has(self, byte: u8) -> bool {
        match self {
            Self::LowerHex => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Base32 => byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7'),
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Base64OrUrl => Self::Base64.has(byte) || Self::Url.has(byte),
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
        }
    }

    /// Returns the number of leading bytes in the alphabet, at most [`MAX_TOKEN`].
    fn run(self, bytes: &[u8]) -> usize {
        bytes.iter().take(MAX_TOKEN).take_while(|byte| self.has(**byte)).count()
    }
}

use Alphabet::{Alphanumeric, Base32, Base64, Base64OrUrl, Dotted, Hex, LowerHex, Upper, Url};
use TokenBody::{Checksummed, Own, Parts, Text};

const fn format(prefix: &'static str, kind: &'static str, body: TokenBody) -> SecretFormat {
    SecretFormat { prefix, kind, body }
}

/// All formats.
pub(super) static FORMATS: &[SecretFormat] = &[
    format("ghp_", "GitHub token", Checksummed),
    format("gho_", "GitHub token", Checksummed),
    format("ghu_", "GitHub token", Checksummed),
    format("ghs_", "GitHub token", Checksummed),
    format("ghr_", "GitHub token", Checksummed),
    format("github_pat_", "GitHub token", Parts(b'_', &[(Alphanumeric, 22, 22), (Alphanumeric, 59, 59)])),
    format("npm_", "npm token", Checksummed),
    format("AKIA", "AWS access key", Text(Base32, 16, 16)),
    format("ASIA", "AWS access key", Text(Base32, 16, 16)),
    format("ABIA", "AWS access key", Text(Base32, 16, 16)),
    format("ACCA", "AWS access key", Text(Base32, 16, 16)),
    format("xoxb-", "Slack token", Text(Url, 20, 255)),
    format("xoxp-", "Slack token", Text(Url, 20, 255)),
    format("xoxa-", "Slack token", Text(Url, 20, 255)),
    format("xoxr-", "Slack token", Text(Url, 20, 255)),
    format("xoxs-", "Slack token", Text(Url, 20, 255)),
    format("xoxc-", "Slack token", Text(Url, 20, 255)),
    format("xoxd-", "Slack token", Text(Dotted, 20, 400)),
    format("xoxe.", "Slack token", Text(Url, 20, 400)),
    format("xapp-", "Slack token", Text(Url, 20, 255)),
    format(
        "hooks.slack.com/services/",
        "Slack webhook",
        Parts(b'/', &[(Upper, 9, 12), (Upper, 9, 12), (Alphanumeric, 20, 32)]),
    ),
    format("sk_live_", "Stripe key", Text(Alphanumeric, 16, 255)),
    format("sk_test_", "Stripe key", Text(Alphanumeric, 16, 255)),
    format("rk_live_", "Stripe key", Text(Alphanumeric, 16, 255)),
    format("rk_test_", "Stripe key", Text(Alphanumeric, 16, 255)),
    format("whsec_", "webhook secret", Text(Base64, 24, 128)),
    format("AIza", "Google API key", Text(Url, 35, 35)),
    format("GOCSPX-", "Google client secret", Text(Url, 28, 28)),
    format("ya29.", "Google access token", Text(Dotted, 30, MAX_TOKEN)),
    format("sk-ant-", "Anthropic key", Text(Url, 32, 255)),
    format("sk-proj-", "OpenAI key", Text(Url, 32, 255)),
    format("sk-svcacct-", "OpenAI key", Text(Url, 32, 255)),
    format("sk-admin-", "OpenAI key", Text(Url, 32, 255)),
    format("sk-or-v1-", "OpenRouter key", Text(LowerHex, 64, 64)),
    format("sk-", "API key", Own(match_plain_key)),
    format("gsk_", "Groq key", Text(Alphanumeric, 52, 52)),
    format("xai-", "xAI key", Text(Alphanumeric, 80, 80)),
    format("pplx-", "Perplexity key", Text(Alphanumeric, 48, 48)),
    format("hf_", "Hugging Face token", Text(Alphanumeric, 34, 40)),
    format("r8_", "Replicate token", Text(Alphanumeric, 37, 37)),
    format("eyJ", "JSON Web Token", Own(match_jwt)),
    format("-----BEGIN ", "private key", Own(match_private_key)),
    format("AGE-SECRET-KEY-1", "age secret key", Text(Upper, 58, 58)),
    format("pypi-AgEIcHlwaS5vcmc", "PyPI token", Text(Url, 50, MAX_TOKEN)),
    format("pypi-AgENdGVzdC5weXBpLm9yZw", "PyPI token", Text(Url, 50, MAX_TOKEN)),
    format("rubygems_", "RubyGems key", Text(LowerHex, 48, 48)),
    format("dckr_pat_", "Docker Hub token", Text(Url, 27, 36)),
    format("AccountKey=", "Azure storage key", Own(match_azure_account_key)),
    format("SharedAccessKey=", "Azure access key", Own(match_azure_account_key)),
    format("Q~", "Azure client secret", Own(match_azure_client_secret)),
    format("JQQJ99", "Azure key", Own(match_azure_key)),
    format("glpat-", "GitLab token", Text(Dotted, 20, 255)),
    format("gldt-", "GitLab token", Text(Url, 20, 64)),
    format("glrt-", "GitLab token", Text(Dotted, 20, 255)),
    format("glcbt-", "GitLab token", Text(Url, 20, 64)),
    format("glptt-", "GitLab token", Text(LowerHex, 40, 40)),
    format("glagent-", "GitLab token", Text(Url, 50, 64)),
    format("glft-", "GitLab token", Text(Url, 20, 64)),
    format("glsoat-", "GitLab token", Text(Url, 20, 64)),
    format("SG.", "SendGrid key", Parts(b'.', &[(Url, 22, 22), (Url, 43, 43)])),
    format("SK", "Twilio key", Text(LowerHex, 32, 32)),
    format("key-", "Mailgun key", Text(LowerHex, 32, 32)),
    format("dop_v1_", "DigitalOcean token", Text(LowerHex, 64, 64)),
    format("doo_v1_", "DigitalOcean token", Text(LowerHex, 64, 64)),
    format("shpat_", "Shopify token", Text(Hex, 32, 32)),
    format("shpss_", "Shopify secret", Text(Hex, 32, 32)),
    format("shpca_", "Shopify token", Text(Hex, 32, 32)),
    format("sq0csp-", "Square secret", Text(Url, 43, 43)),
    format("sq0atp-", "Square token", Text(Url, 22, 22)),
    format("lin_api_", "Linear key", Text(Alphanumeric, 40, 40)),
    format("ntn_", "Notion token", Text(Alphanumeric, 43, 46)),
    format("ATATT3", "Atlassian token", Text(Base64OrUrl, 60, 400)),
    format("dapi", "Databricks token", Text(LowerHex, 32, 32)),
    format("glsa_", "Grafana token", Parts(b'_', &[(Alphanumeric, 32, 32), (Hex, 8, 8)])),
    format("hvs.", "Vault token", Text(Url, 24, 255)),
    format("hvb.", "Vault token", Text(Url, 90, 400)),
    format(":AA", "Telegram bot token", Own(match_telegram_token)),
    format("sbp_", "Supabase token", Text(LowerHex, 40, 40)),
    format("NRAK-", "New Relic key", Text(Upper, 27, 27)),
    format("PMAK-", "Postman key", Parts(b'-', &[(LowerHex, 24, 24), (LowerHex, 34, 34)])),
    format("sntrys_", "Sentry token", Text(Base64OrUrl, 60, 1024)),
    format("sntryu_", "Sentry token", Text(LowerHex, 64, 64)),
    format("pscale_tkn_", "PlanetScale token", Text(Dotted, 32, 64)),
    format("figd_", "Figma token", Text(Url, 38, 44)),
    format("dp.pt.", "Doppler token", Text(Alphanumeric, 43, 43)),
];

impl SecretFormat {
    /// Returns the token whose prefix is at this position.
    pub(super) fn match_at(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        // The search ignores case.
        let rest = bytes[at..].strip_prefix(self.prefix.as_bytes())?;
        let begin = at + self.prefix.len();
        let is_own = matches!(self.body, Own(_));
        if !is_own && !is_word_start(bytes, at, self.prefix) {
            return None;
        }
        let length = match self.body {
            Own(find) => return find(text, at),
            Text(alphabet, min, max) => Some(alphabet.run(rest)).filter(|run| (min..=max).contains(run))?,
            Checksummed => {
                let run = Alphanumeric.run(rest);
                (run == 36 && has_checksum(&rest[..36])).then_some(36)?
            }
            Parts(separator, parts) => match_parts(rest, separator, parts)?,
        };
        is_varied(&rest[..length]).then_some(at..begin + length)
    }
}

/// Returns true if the prefix does not continue a word: `desk-` has no `sk-`.
fn is_word_start(bytes: &[u8], at: usize, prefix: &str) -> bool {
    let starts_with_letter = prefix.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    let before = at.checked_sub(1).map(|before| bytes[before]);
    !starts_with_letter
        || is_after_escape(bytes, at)
        || before.is_none_or(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')))
}

/// Returns true after a line end or a tab as JSON writes them: `\n` is no part of a word.
fn is_after_escape(bytes: &[u8], at: usize) -> bool {
    at >= 2 && bytes[at - 2] == b'\\' && matches!(bytes[at - 1], b'n' | b'r' | b't')
}

/// Returns true unless the text is a placeholder such as `xxxxxxxx`.
fn is_varied(body: &[u8]) -> bool {
    let mut seen = [false; 256];
    let mut distinct = 0;
    for byte in body {
        if !std::mem::replace(&mut seen[usize::from(*byte)], true) {
            distinct += 1;
        }
    }
    distinct >= 6
}

fn match_parts(rest: &[u8], separator: u8, parts: &[(Alphabet, usize, usize)]) -> Option<usize> {
    let mut at = 0;
    for (index, (alphabet, min, max)) in parts.iter().enumerate() {
        if index > 0 {
            (rest.get(at) == Some(&separator)).then_some(())?;
            at += 1;
        }
        let run = alphabet.run(&rest[at..]);
        if !(*min..=*max).contains(&run) {
            return None;
        }
        at += run;
    }
    Some(at)
}

/// Compares the last six characters with the checksum of the others: their CRC-32 in base 62.
fn has_checksum(token: &[u8]) -> bool {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let (random, checksum) = token.split_at(token.len() - 6);
    let mut rest = crc32(random);
    let mut expected = [b'0'; 6];
    for digit in expected.iter_mut().rev() {
        *digit = DIGITS[(rest % 62) as usize];
        rest /= 62;
    }
    expected == *checksum
}

/// CRC-32 of ISO 3309, without a table: tokens are short.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let mask = (crc & 1).wrapping_neg();
            crc = (crc >> 1) ^ (0xedb8_8320 & mask);
        }
    }
    !crc
}

/// A key that begins with `sk-` and nothing else known: 32 letters and digits or more, of both kinds.
fn match_plain_key(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let rest = bytes[at..].strip_prefix(b"sk-")?;
    let run = Alphanumeric.run(rest);
    let body = &rest[..run];
    let is_key = (32..=128).contains(&run)
        && body.iter().any(u8::is_ascii_digit)
        && body.iter().any(u8::is_ascii_alphabetic)
        && is_varied(body);
    (is_key && is_word_start(bytes, at, "sk-")).then_some(at..at + 3 + run)
}

/// A signed JSON Web Token: a header that names an algorithm, claims, and a signature.
fn match_jwt(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if !is_word_start(bytes, at, "eyJ") || !bytes[at..].starts_with(b"eyJ") {
        return None;
    }
    let header = Url.run(&bytes[at..]);
    let claims_at = at + header + 1;
    let is_dot = |at: usize| bytes.get(at) == Some(&b'.');
    if !is_dot(at + header) || !bytes[claims_at..].starts_with(b"eyJ") {
        return None;
    }
    let claims = Url.run(&bytes[claims_at..]);
    let signature_at = claims_at + claims + 1;
    if !is_dot(claims_at + claims) {
        return None;
    }
    let signature = Url.run(&bytes[signature_at..]);
    let is_header = memmem::find(&decode_base64(&bytes[at..at + header]), b"\"alg\"").is_some();
    (signature >= 16 && is_header).then_some(at..signature_at + signature)
}

/// Decodes base 64 of the URL alphabet up to the first other character.
fn decode_base64(text: &[u8]) -> Vec<u8> {
    let (mut all, mut bits, mut count) = (Vec::with_capacity(text.len()), 0_u32, 0);
    for byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            all.push((bits >> count & 0xff) as u8);
        }
    }
    all
}

/// A private key in PEM, up to its end or the end of the text. The line ends may be escaped, as in JSON.
fn match_private_key(text: &str, at: usize) -> Option<Range<usize>> {
    const LABEL: &[u8] = b"PRIVATE KEY";
    let bytes = &text.as_bytes()[at..];
    if !bytes.starts_with(b"-----BEGIN ") {
        return None;
    }
    let label = memmem::find(&bytes[..bytes.len().min(64)], LABEL)?;
    let head = label + memmem::find(&bytes[label..bytes.len().min(label + 32)], b"-----")? + 5;
    let near = &bytes[head..bytes.len().min(head + MAX_PRIVATE_KEY)];
    // The body has no other dashes, so what follows it is its end, or another key.
    let body = memmem::find(near, b"-----").unwrap_or(near.len());
    let end = match near[body..].strip_prefix(b"-----END ") {
        Some(label) => {
            memmem::find(&label[..label.len().min(64)], b"-----").map_or(body, |at| body + 9 + at + 5)
        }
        None => body,
    };
    let body = &near[..body];
    let mut end = at + head + end;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // A mention of the line in a text has no key after it.
    let key = body.iter().filter(|byte| Base64.has(**byte)).count();
    (key >= 40 && is_varied(body)).then_some(at..end)
}

/// A key of a storage account, a service bus or an event hub: 32 or 64 bytes in base 64.
fn match_azure_account_key(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let begin = at + memchr::memchr(b'=', &bytes[at..])? + 1;
    let run = Base64.run(&bytes[begin..]);
    let body = &bytes[begin..begin + run];
    (matches!(run, 44 | 88) && body.ends_with(b"=") && is_varied(body)).then_some(begin..begin + run)
}

/// A client secret of Microsoft Entra: three characters and a digit before `Q~`, 31 to 34 after it.
fn match_azure_client_secret(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let begin = at.checked_sub(4)?;
    let has = |byte: &u8| Dotted.has(*byte) || *byte == b'~';
    let run = bytes[at + 2..].iter().take(64).take_while(|byte| has(byte)).count();
    let is_secret = bytes[at..].starts_with(b"Q~")
        && bytes[at - 1].is_ascii_digit()
        && bytes[begin..at - 1].iter().all(has)
        && (31..=34).contains(&run)
        && (begin == 0 || !bytes[begin - 1].is_ascii_alphanumeric() || is_after_escape(bytes, begin));
    (is_secret && is_varied(&bytes[at + 2..at + 2 + run])).then_some(begin..at + 2 + run)
}

/// A key of Azure's services with the signature of its format: 84 characters with `JQQJ99` after 52 of them.
fn match_azure_key(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let begin = at.checked_sub(52)?;
    let end = begin + 84;
    let key = bytes.get(begin..end)?;
    let is_apart =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let is_key = bytes[at..].starts_with(b"JQQJ99") && key.iter().all(u8::is_ascii_alphanumeric);
    let is_apart = (is_apart(begin.checked_sub(1)) || is_after_escape(bytes, begin)) && is_apart(Some(end));
    (is_key && is_apart).then_some(begin..end)
}

/// The token of a Telegram bot: its number before `:AA`, and 33 characters after it.
fn match_telegram_token(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let number = bytes[..at].iter().rev().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    let run = bytes[at..].strip_prefix(b":AA").map(|rest| Url.run(rest))?;
    let body = &bytes[at + 3..at + 3 + run];
    ((8..=10).contains(&number) && run == 33 && is_varied(body)).then_some(at - number..at + 3 + run)
}
