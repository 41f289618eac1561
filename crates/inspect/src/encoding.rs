//! Decoders of Base64 and hexadecimal digits, as far as texts use them.

/// Decodes Base64 in either alphabet, with or without padding. Returns `None` if it is no Base64.
pub(crate) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = text.get(..text.len() - padding)?;
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    (digits.len() % 4 != 1).then_some(bytes)
}

/// Decodes pairs of hexadecimal digits. A digit without a partner at the end is left out.
pub(crate) fn decode_hexadecimal(digits: impl Iterator<Item = char>) -> Option<Vec<u8>> {
    let digit = |ch: char| ch.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = digits.map(digit).collect::<Option<_>>()?;
    Some(digits.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]).collect())
}
