//! Forms of texts, as the format's schemas define them.

/// Returns true for an email address as the reference tool's schema library accepts it: plain letters, no quoted part,
/// and a domain with at least one dot.
pub(super) fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-');
    let local_is_right = !local.starts_with('.')
        && local.chars().all(|c| is_word(c) || matches!(c, '\'' | '.'))
        && local.ends_with(is_word);
    let Some((labels, last)) = domain.rsplit_once('.') else { return false };
    let is_label = |label: &str| {
        label.starts_with(|c: char| c.is_ascii_alphanumeric())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    local_is_right
        && !text.contains("..")
        && labels.split('.').all(is_label)
        && last.len() >= 2
        && last.chars().all(|c| c.is_ascii_alphabetic())
}

/// Returns true for an absolute URL of any scheme.
pub(super) fn is_url(text: &str) -> bool {
    url::Url::parse(text).is_ok()
}

/// Returns true for `WIDTHxHEIGHT`.
pub(super) fn is_icon_size(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('x').is_some_and(|(width, height)| is_number(width) && is_number(height))
}

/// Returns true for the form of a BCP 47 tag: parts of letters and digits, the first with two or more.
pub(super) fn is_locale(text: &str) -> bool {
    let is_part = |part: &str, least: usize| {
        (least..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let mut parts = text.split('-');
    parts.next().is_some_and(|first| is_part(first, 2)) && parts.all(|part| is_part(part, 1))
}

/// Returns true for a path with the placeholder `${locale}`.
pub(super) fn has_locale_placeholder(text: &str) -> bool {
    text.to_ascii_lowercase().contains("${locale}")
}

pub(super) fn is_not_empty(text: &str) -> bool {
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_email_address_has_plain_letters_and_a_domain_with_a_dot() {
        for good in ["a@b.co", "a.b@c.d-e.org", "o'neil+x_y-@x.io", "A@B.CO", "a@b-.co"] {
            assert!(is_email(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b.co",
            "a@b",
            "a@b.c",
            ".a@b.co",
            "a.@b.co",
            "a..b@c.de",
            "a@-b.co",
            "a@b.c1",
            "a@b@c.de",
            "é@b.co",
        ] {
            assert!(!is_email(bad), "{bad}");
        }
    }

    #[test]
    fn a_locale_has_parts_of_one_to_eight_letters() {
        for good in ["en", "en-US", "zh-Hans-CN", "12345678-1"] {
            assert!(is_locale(good), "{good}");
        }
        for bad in ["", "e", "en-", "en_US", "123456789", "en-123456789"] {
            assert!(!is_locale(bad), "{bad}");
        }
    }

    #[test]
    fn a_size_is_two_numbers() {
        assert!(is_icon_size("16x16") && is_icon_size("0x1"));
        for bad in ["16", "16x", "x16", "16X16", "16x16x16", "a16x16", "16x1６"] {
            assert!(!is_icon_size(bad), "{bad}");
        }
    }
}
