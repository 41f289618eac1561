use std::borrow::Cow;

use super::*;

fn kinds(text: &str) -> Vec<&'static str> {
    find_secrets(text).into_iter().map(|found| found.kind.as_str()).collect()
}

/// The letters of the alphabet and the digits, in an order without meaning. Tests build tokens of it, so that no scanner
/// takes this file for a leak.
fn random(length: usize) -> String {
    "q7Zr2WmX9cVb4NtY6kLpD8sHf3GjT5aRe1UoKi0QwAxSz".chars().cycle().take(length).collect()
}

fn hex(length: usize) -> String {
    "9f3b07c1e8d24a56b9e0731fd2c84a65".chars().cycle().take(length).collect()
}

/// A token with the checksum of GitHub and npm. The random part and its checksum are those of GitHub's announcement.
fn checksummed(prefix: &str) -> String {
    format!("{prefix}zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ{}", "0mLq17")
}

#[test]
fn tokens_of_known_services_are_found() {
    let jwt = format!(
        "{}.{}.{}",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
        random(43)
    );
    let upper = |length| random(length).to_ascii_uppercase();
    let lines = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
    for (token, kind) in [
        (checksummed("ghp_"), "GitHub token"),
        (checksummed("ghs_"), "GitHub token"),
        (format!("github_pat_{}_{}", random(22), random(59)), "GitHub token"),
        (checksummed("npm_"), "npm token"),
        (format!("AKIA{}", "QYLPMN5HHHFPZAM2"), "AWS access key"),
        (format!("xoxb-{}-{}", "123456789012", random(24)), "Slack token"),
        (
            format!("https://hooks.slack.com/services/T{}/B{}/{}", upper(9), upper(9), random(24)),
            "Slack webhook",
        ),
        (format!("sk_live_{}", random(24)), "Stripe key"),
        (format!("AIza{}", random(35)), "Google API key"),
        (format!("sk-ant-api03-{}", random(90)), "Anthropic key"),
        (format!("sk-proj-{}", random(90)), "OpenAI key"),
        (format!("sk-{}", random(48)), "API key"),
        (jwt, "JSON Web Token"),
        (format!("-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----"), "private key"),
        (
            format!("-----BEGIN OPENSSH PRIVATE KEY-----\\n{lines}\\n-----END OPENSSH PRIVATE KEY-----"),
            "private key",
        ),
        (format!("pypi-AgEIcHlwaS5vcmc{}", random(120)), "PyPI token"),
        (format!("AccountKey={}==", random(86)), "Azure storage key"),
        (format!("aB3{}Q~{}", 8, random(34)), "Azure client secret"),
        (format!("{}JQQJ99{}", random(52), random(26)), "Azure key"),
        (format!("glpat-{}", random(20)), "GitLab token"),
        (format!("SG.{}.{}", random(22), random(43)), "SendGrid key"),
        (format!("SK{}", hex(32)), "Twilio key"),
        (format!("dop_v1_{}", hex(64)), "DigitalOcean token"),
        (format!("{}:AA{}", 123_456_789, random(33)), "Telegram bot token"),
        (format!("hf_{}", random(34)), "Hugging Face token"),
    ] {
        for text in [token.clone(), format!("use {token} today"), format!("{{\"text\":\"a\\n{token}\"}}")] {
            assert_eq!(kinds(&text), [kind], "{text}");
        }
    }
}

#[test]
fn text_that_only_resembles_a_token_is_not_found() {
    let mut wrong = checksummed("ghp_");
    wrong.replace_range(10..11, "x");
    for text in [
        wrong.as_str(),
        &format!("ghp_{}", "x".repeat(36)),
        &format!("desk-{}", random(48)),
        &format!("task-{}", random(48)),
        &format!("sk-{}", "scikit-learn-and-other-libraries-for-python"),
        &format!("AKIA{}", "1234567890123456"),
        &format!("PAKIA{}", "QYLPMN5HHHFPZAM2"),
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.",
        "eyJhIjoxfQ.eyJiIjoyfQ.c2lnbmF0dXJlLXdpdGhvdXQtYWxn",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
        "a file that begins with -----BEGIN RSA PRIVATE KEY----- is a private key",
        "SG.com is a site, SG.a.b too",
        "SKU 1234567890, hf_hub_download, npm_config_registry, shpat_ and xoxb-",
        "key-value pairs and key-0123",
    ] {
        assert!(find_secrets(text).is_empty(), "{text}: {:?}", find_secrets(text));
    }
}

#[test]
fn random_values_beside_a_telling_name_are_found() {
    let secret = random(24);
    for text in [
        format!("api_key={secret}"),
        format!("\"apiKey\": \"{secret}\""),
        format!(r#"{{"text":"{{\"clientSecret\":\"{secret}\"}}"}}"#),
        format!("export GITHUB_TOKEN='{secret}'"),
        format!("Authorization: Bearer {secret}"),
        format!("aws_secret_access_key = {}/{}", random(20), random(19)),
        format!("<password>{secret}</password>"),
        format!("tool --token {secret} --verbose"),
        format!("DB_PASSWD={secret}."),
        format!("| auth | {} |", hex(40)),
        format!("session_token: {}", hex(32)),
        "password: Tr0ub4dor&3-horse-Battery".replace('&', "+"),
    ] {
        assert_eq!(kinds(&text), ["value of a secret"], "{text}");
    }
}

#[test]
fn ordinary_values_and_names_are_not_secrets() {
    for text in [
        "commit 9f3b07c1e8d24a56b9e0731fd2c84a65b9e0731f",
        "sha256: 9f3b07c1e8d24a56b9e0731fd2c84a65b9e0731f9f3b07c1e8d24a56b9e0731f",
        "integrity: sha512-q7Zr2WmX9cVb4NtY6kLpD8sHf3GjT5aRe1UoKi0QwAxSzq7Zr2WmX9cVb4NtY6kLpD8sHf3",
        "id: 6f1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
        "token: 6f1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
        "nextPageToken: CAUQAA9f3b07c1e8d24a56b9e0731fd2c84a65",
        "\"continuation_token\": \"q7Zr2WmX9cVb4NtY6kLpD8sHf3GjT5aRe1\"",
        "token_count: 12345678901234567890",
        "public_key = q7Zr2WmX9cVb4NtY6kLpD8sHf3GjT5aRe1",
        "author: Wolfgang-Amadeus-Mozart-1756",
        "key: photos/2026/05/03/IMG_20260503_102030.jpg",
        "\"key\": \"user.settings.notifications.email.enabled\"",
        "password: ${DATABASE_PASSWORD_FROM_VAULT}",
        "api_key: <your-api-key-from-the-dashboard>",
        "token: https://auth.example.com/oauth2/v1/token",
        "secret: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "The secret is that the tokenizer reads keywords, and authors type passwords on a keyboard.",
        "monkey=bananasAndOtherFruitsOfTheForest2",
        "password=short1A",
    ] {
        assert!(find_secrets(text).is_empty(), "{text}: {:?}", find_secrets(text));
    }
}

#[test]
fn a_text_without_secrets_needs_no_memory() {
    assert_eq!(find_secrets("nothing here").capacity(), 0);
    assert!(matches!(mask("nothing here"), Cow::Borrowed(_)));
}

#[test]
fn masked_texts_name_the_kind_and_keep_the_rest() {
    let token = checksummed("ghp_");
    assert_eq!(mask(&format!("ü {token} and token={token}.")), "ü [GitHub token] and token=[GitHub token].");
    assert_eq!(mask(&format!("password={} ü", random(30))), "password=[value of a secret] ü");
    let many = format!("{token} ").repeat(3 * MAX_SECRETS + 1);
    assert_eq!(mask(&many), "[GitHub token] ".repeat(3 * MAX_SECRETS + 1));
    assert_eq!(find_secrets(&many).len(), MAX_SECRETS);
}

/// The author of a text must not be able to keep the process busy with it. With work that grows as its square these
/// take minutes.
#[test]
fn a_long_text_of_beginnings_is_no_more_work_than_any_other() {
    const TIMES: usize = 20_000;
    for text in ["token=", "-----BEGIN PRIVATE KEY-----", "eyJ", "sk-", "key:", "eyJa.eyJ", "Q~1", "auth"] {
        let _ = find_secrets(&text.repeat(TIMES));
        let _ = mask(&text.repeat(TIMES));
    }
}

proptest::proptest! {
    #[test]
    fn any_text_can_be_searched_and_masked(text in "\\PC{0,20}(key[=:]|sk-|eyJ|-----BEGIN PRIVATE KEY-----|Q~|:AA|AKIA)\\PC{0,60}") {
        for found in find_secrets(&text) {
            assert!(text.get(found.range).is_some());
        }
        let _ = mask(&text);
    }
}
