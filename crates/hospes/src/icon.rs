//! Checks of a server's icon before it is fetched and before it is shown.
//!
//! The SDK fetches no icons. An application that shows icons checks here which may be fetched, how, and which contents
//! may be shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;

/// Maximum size of an icon in bytes.
pub const MAX_ICON_BYTES: usize = 1024 * 1024;
/// Maximum width and height of an icon in pixels.
pub const MAX_ICON_SIDE: u32 = 4096;
/// Maximum number of frames of an animated icon.
pub const MAX_ICON_FRAMES: u32 = 120;
/// Maximum number of redirects.
const MAX_REDIRECTS: u8 = 3;

/// Source of an icon.
///
/// ```
/// # use hospes::icon::IconSource;
/// let server = Some("https://example.com/mcp");
/// assert!(matches!(IconSource::of("https://example.com/icon.png", server), Ok(IconSource::Fetch(_))));
/// assert!(IconSource::of("https://elsewhere.test/icon.png", server).is_err());
/// assert!(IconSource::of("file:///etc/passwd", server).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IconSource {
    /// It came with its URI, and has been looked at.
    Here {
        /// Kind of image, detected from the content.
        kind: IconKind,
        /// The image.
        bytes: Vec<u8>,
    },
    /// It has to be fetched.
    Fetch(IconFetch),
}

/// Icon that may be fetched with `GET`. The HTTP client must send no personal data (no cookies, no `EndpointAuthorization`) and
/// must not follow redirects by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IconFetch {
    url: Url,
    redirects: u8,
}

/// Kind of an icon, detected from its content. Types given by the server or by an HTTP header are only hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IconKind {
    /// `image/png`
    Png,
    /// `image/jpeg`
    Jpeg,
    /// `image/webp`
    Webp,
    /// `image/svg+xml`, with nothing in it that runs or that is fetched from elsewhere.
    Svg,
}

/// Reason an icon is not fetched or not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IconError {
    /// Only `https:` and `data:` are.
    #[error("icon URIs must be https: or data: URIs")]
    Scheme,
    /// It is no URI, or its data cannot be read.
    #[error("invalid icon URI")]
    Malformed,
    /// Another server has it than the one that names it. (A server that is no web server can only give `data:` URIs.)
    #[error("the icon has a different origin than its server")]
    Origin,
    /// The URI holds a name or a password.
    #[error("the icon's URI contains credentials")]
    Credentials,
    /// It is redirected once too often.
    #[error("too many redirects for the icon")]
    Redirects,
    /// It is longer than [`MAX_ICON_BYTES`].
    #[error("the icon is over the limit of {MAX_ICON_BYTES} bytes")]
    TooLong,
    /// It is larger than [`MAX_ICON_SIDE`], or has more frames than [`MAX_ICON_FRAMES`].
    #[error("the icon is over the limit of {MAX_ICON_SIDE} pixels a side or {MAX_ICON_FRAMES} frames")]
    TooLarge,
    /// It is no PNG, JPEG, WebP or SVG image.
    #[error("unsupported icon format")]
    Kind,
    /// It could do more than be looked at.
    #[error("the icon contains scripts or external references")]
    Active,
}

impl IconSource {
    /// Looks at the URI of an icon. `server` is the URL of the server that names it, where it has one.
    ///
    /// # Errors
    /// When it must not be fetched, or (of a `data:` URI) not be shown.
    pub fn of(src: &str, server: Option<&str>) -> Result<Self, IconError> {
        // Not indexed: the URI is the server's, and byte 5 need not be a character boundary.
        if src.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
            let bytes = decode_data_uri(&src[5..])?;
            return Ok(Self::Here { kind: IconKind::of(&bytes)?, bytes });
        }
        let url = Url::parse(src).map_err(|_| IconError::Malformed)?;
        let server = server.and_then(|server| Url::parse(server).ok());
        check_url(&url, server.as_ref())?;
        Ok(Self::Fetch(IconFetch { url, redirects: 0 }))
    }
}

fn check_url(url: &Url, server: Option<&Url>) -> Result<(), IconError> {
    if url.scheme() != "https" {
        return Err(IconError::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(IconError::Credentials);
    }
    if server.is_some_and(|server| server.origin() == url.origin()) { Ok(()) } else { Err(IconError::Origin) }
}

impl IconFetch {
    /// From where.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// All the headers that go with it.
    #[must_use]
    pub fn headers(&self) -> [(&'static str, &'static str); 1] {
        [("accept", "image/png, image/jpeg, image/webp, image/svg+xml")]
    }

    /// Returns the fetch for a redirect. It must lead to the same origin with the same scheme.
    ///
    /// # Errors
    /// When it must not be followed.
    pub fn redirect(&self, location: &str) -> Result<Self, IconError> {
        if self.redirects >= MAX_REDIRECTS {
            return Err(IconError::Redirects);
        }
        let url = self.url.join(location).map_err(|_| IconError::Malformed)?;
        check_url(&url, Some(&self.url))?;
        Ok(Self { url, redirects: self.redirects + 1 })
    }
}

impl IconKind {
    /// Looks at an icon.
    ///
    /// # Errors
    /// When it must not be shown.
    pub fn of(bytes: &[u8]) -> Result<Self, IconError> {
        if bytes.len() > MAX_ICON_BYTES {
            return Err(IconError::TooLong);
        }
        let (kind, size) = match bytes {
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => (Self::Png, png_dimensions(bytes)),
            [0xff, 0xd8, 0xff, ..] => (Self::Jpeg, jpeg_dimensions(bytes)),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
                (Self::Webp, webp_dimensions(bytes))
            }
            _ => return check_svg(bytes).map(|()| Self::Svg),
        };
        let size = size.ok_or(IconError::Kind)?;
        let fits = |side: u32| (1..=MAX_ICON_SIDE).contains(&side);
        let fits = fits(size.width) && fits(size.height) && size.frames <= MAX_ICON_FRAMES;
        if fits { Ok(kind) } else { Err(IconError::TooLarge) }
    }

    /// Its media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Svg => "image/svg+xml",
        }
    }
}

struct IconDimensions {
    width: u32,
    height: u32,
    frames: u32,
}

/// The bytes of a `data:` URI, behind its scheme.
fn decode_data_uri(rest: &str) -> Result<Vec<u8>, IconError> {
    let (head, body) = rest.split_once(',').ok_or(IconError::Malformed)?;
    // Three bytes become four characters, or one byte three of them.
    if body.len() > 3 * MAX_ICON_BYTES {
        return Err(IconError::TooLong);
    }
    let bytes = percent_decode(body).ok_or(IconError::Malformed)?;
    // The head is the server's text, too: a slice that begins within a character would panic.
    if head.len() >= 7
        && head.is_char_boundary(head.len() - 7)
        && head[head.len() - 7..].eq_ignore_ascii_case(";base64")
    {
        return STANDARD.decode(bytes).map_err(|_| IconError::Malformed);
    }
    Ok(bytes)
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(bytes.next()?)? << 4 | digit(bytes.next()?)?
            }
            byte => byte,
        });
    }
    Some(out)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn le24(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 3)?;
    Some(u32::from(part[0]) | u32::from(part[1]) << 8 | u32::from(part[2]) << 16)
}

// Own code, because `imagesize` does not count frames, and `infer` tells only the kind.
fn png_dimensions(bytes: &[u8]) -> Option<IconDimensions> {
    if bytes.get(12..16)? != b"IHDR" {
        return None;
    }
    let mut size = IconDimensions { width: be32(bytes, 16)?, height: be32(bytes, 20)?, frames: 1 };
    let mut at = 8;
    // How many frames there are is said before the first of them.
    while let (Some(length), Some(kind)) = (be32(bytes, at), bytes.get(at + 4..at + 8)) {
        match kind {
            b"acTL" => size.frames = be32(bytes, at + 8)?,
            b"IDAT" => break,
            _ => {}
        }
        // Around a chunk's data there are twelve bytes: length, type and CRC.
        at = at.checked_add(usize::try_from(length).ok()?)?.checked_add(12)?;
    }
    Some(size)
}

fn jpeg_dimensions(bytes: &[u8]) -> Option<IconDimensions> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        match marker {
            // Padding.
            0xff => at += 1,
            // TEM, RST0 to RST7 and SOI are markers without a length.
            0x01 | 0xd0..=0xd8 => at += 2,
            // The picture begins, and its size was not said.
            0xd9 | 0xda => return None,
            _ => {
                let length = usize::from(u16::from_be_bytes(bytes.get(at + 2..at + 4)?.try_into().ok()?));
                // The frame headers; DHT, JPG and DAC have codes in the same range.
                if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
                    let side = |at: usize| {
                        Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
                    };
                    return Some(IconDimensions { height: side(at + 5)?, width: side(at + 7)?, frames: 1 });
                }
                // A segment's length counts its own two bytes; a smaller
                // value is malformed and read as an empty segment.
                at += 2 + length.max(2);
            }
        }
    }
}

fn webp_dimensions(bytes: &[u8]) -> Option<IconDimensions> {
    match bytes.get(12..16)? {
        b"VP8X" => {
            // This header stores both sides minus one.
            let (width, height) = (le24(bytes, 24)? + 1, le24(bytes, 27)? + 1);
            let mut frames = 0;
            let mut at = 12_usize;
            while let Some(kind) = bytes.get(at..at + 4) {
                frames += u32::from(kind == b"ANMF");
                let length = u32::from_le_bytes(bytes.get(at + 4..at + 8)?.try_into().ok()?);
                let length = usize::try_from(length).ok()?;
                // RIFF pads chunks of odd length with one byte.
                at = at.checked_add(8)?.checked_add(length)?.checked_add(length & 1)?;
            }
            Some(IconDimensions { width, height, frames: frames.max(1) })
        }
        b"VP8L" => {
            // Behind the signature byte 0x2f there are 14 bits for each side minus one.
            let bits = u32::from_le_bytes(bytes.get(21..25)?.try_into().ok()?);
            Some(IconDimensions { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1, frames: 1 })
        }
        b"VP8 " => {
            let side = |at: usize| {
                // The upper two bits of a side are a scale for the display.
                let side = u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
                Some(u32::from(side & 0x3fff))
            };
            Some(IconDimensions { width: side(26)?, height: side(28)?, frames: 1 })
        }
        _ => None,
    }
}

/// An SVG image that can only be looked at. In doubt it is refused: what is left out here are pictures, not texts.
fn check_svg(bytes: &[u8]) -> Result<(), IconError> {
    const ACTIVE: [&str; 14] = [
        "<!doctype",
        "<!entity",
        "<?xml-stylesheet",
        "<script",
        ":script",
        "foreignobject",
        "<iframe",
        "<embed",
        "<object",
        "<handler",
        "<animate",
        "<set",
        "@import",
        "javascript:",
    ];
    // In lower case, because an image that is put into a page is read by an HTML parser, which ignores case.
    let text = std::str::from_utf8(bytes).map_err(|_| IconError::Kind)?.to_ascii_lowercase();
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if !(start.starts_with("<svg")
        || (start.starts_with("<?xml") || start.starts_with("<!--")) && start.contains("<svg"))
    {
        return Err(IconError::Kind);
    }
    let refers = |word: &str| {
        // What follows must be a part of the picture itself.
        text.match_indices(word).any(|(at, _)| {
            let rest = text[at + word.len()..].trim_start_matches([' ', '\t', '\r', '\n', '=', '"', '\'']);
            !rest.starts_with('#')
        })
    };
    let reacts = text.match_indices("on").any(|(at, _)| {
        // Only behind a character that ends a name: `icon=` is no event handler, `onload=` is one.
        let begins = at > 0 && !text.as_bytes()[at - 1].is_ascii_alphanumeric();
        let rest = text[at + 2..].trim_start_matches(|c: char| c.is_ascii_alphabetic());
        begins && rest.trim_start().starts_with('=')
    });
    let active = ACTIVE.iter().any(|word| text.contains(word)) || refers("href") || refers("url(") || reacts;
    if active { Err(IconError::Active) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Option<&str> = Some("https://example.com/mcp");

    fn png_of(width: u32, height: u32, more: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend(b"\x08\x06\0\0\0CRC!");
        bytes.extend(more);
        bytes.extend(b"\0\0\0\0IDATCRC!");
        bytes
    }

    fn jpeg_of(width: u16, height: u16) -> Vec<u8> {
        let mut bytes = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08".to_vec();
        bytes.extend(height.to_be_bytes());
        bytes.extend(width.to_be_bytes());
        bytes.extend(b"\x01\x01\x11\0");
        bytes
    }

    fn webp_of(side: u32, frames: usize) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0".to_vec();
        for side in [side - 1; 2] {
            bytes.extend(&side.to_le_bytes()[..3]);
        }
        for _ in 0..frames {
            bytes.extend(b"ANMF\x02\0\0\0ab");
        }
        bytes
    }

    fn svg_of(inside: &str) -> Vec<u8> {
        format!("<svg xmlns=\"x\" onion-free=\"1\">{inside}</svg>").replace(" onion-free=\"1\"", "").into()
    }

    /// covers: ICON-01 ICON-02 ICON-09
    #[test]
    fn an_icon_is_what_its_content_says() {
        assert_eq!(IconKind::of(&png_of(32, 32, b"")), Ok(IconKind::Png));
        assert_eq!(IconKind::of(&jpeg_of(32, 16)), Ok(IconKind::Jpeg));
        assert_eq!(IconKind::of(&webp_of(32, 3)), Ok(IconKind::Webp));
        assert_eq!(IconKind::of(b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x1f\xc0\x07\0"), Ok(IconKind::Webp));
        assert_eq!(IconKind::of(&svg_of("<path d=\"M0 0\"/>")), Ok(IconKind::Svg));
        let declared = "<?xml version=\"1.0\"?>\n<svg><use href=\"#a\"/><g fill=\"url(#b)\"/></svg>";
        assert_eq!(IconKind::of(declared.as_bytes()), Ok(IconKind::Svg));
        for other in
            [&b"GIF89a"[..], b"<html><svg>", b"%PDF-1.7", b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xda"]
        {
            assert_eq!(IconKind::of(other), Err(IconError::Kind), "{other:?}");
        }
        // Whatever it is said to be.
        let html = format!("data:image/png;base64,{}", STANDARD.encode("<html></html>"));
        assert_eq!(IconSource::of(&html, None), Err(IconError::Kind));
        let png = format!("data:text/html;base64,{}", STANDARD.encode(png_of(1, 1, b"")));
        assert!(matches!(IconSource::of(&png, None), Ok(IconSource::Here { kind: IconKind::Png, .. })));
    }

    /// covers: ICON-04 ICON-07
    #[test]
    fn icons_come_from_their_server_or_with_their_uri() {
        let svg = "data:image/svg+xml,%3Csvg%3E%3C/svg%3E";
        assert!(matches!(IconSource::of(svg, None), Ok(IconSource::Here { kind: IconKind::Svg, .. })));
        assert!(IconSource::of("https://example.com:443/i.png", SERVER).is_ok());
        for (src, why) in [
            ("http://example.com/i.png", IconError::Scheme),
            ("javascript:alert(1)", IconError::Scheme),
            ("file:///etc/passwd", IconError::Scheme),
            ("ftp://example.com/i.png", IconError::Scheme),
            ("ws://example.com/i.png", IconError::Scheme),
            ("vscode://open", IconError::Scheme),
            ("i.png", IconError::Malformed),
            ("data:image/png;base64", IconError::Malformed),
            ("data:image/png;base64,%%%", IconError::Malformed),
            ("https://example.com:8443/i.png", IconError::Origin),
            ("https://cdn.example.com/i.png", IconError::Origin),
            ("https://ada:secret@example.com/i.png", IconError::Credentials),
        ] {
            assert_eq!(IconSource::of(src, SERVER), Err(why), "{src}");
        }
        assert_eq!(
            IconSource::of("https://example.com/i.png", None),
            Err(IconError::Origin),
            "no web server"
        );
    }

    /// covers: ICON-05 ICON-06
    #[test]
    fn an_icon_is_fetched_without_credentials_and_only_within_its_origin() {
        let Ok(IconSource::Fetch(fetch)) = IconSource::of("https://example.com/i.png", SERVER) else {
            panic!()
        };
        assert!(fetch.headers().iter().all(|(name, _)| *name == "accept"));
        let mut moved = fetch.clone();
        for place in ["/a.png", "b.png", "https://example.com/c.png"] {
            moved = moved.redirect(place).unwrap();
        }
        assert_eq!(moved.url(), "https://example.com/c.png");
        assert_eq!(moved.redirect("/d.png"), Err(IconError::Redirects));
        for (place, why) in [
            ("http://example.com/i.png", IconError::Scheme),
            ("file:///etc/passwd", IconError::Scheme),
            ("data:image/png;base64,AAAA", IconError::Scheme),
            ("//elsewhere.test/i.png", IconError::Origin),
            ("https://ada@example.com/i.png", IconError::Credentials),
        ] {
            assert_eq!(fetch.redirect(place), Err(why), "{place}");
        }
    }

    /// covers: ICON-08
    #[test]
    fn an_icon_has_bounds() {
        let frames = |count: u32| {
            let mut chunk = b"\0\0\0\x08acTL".to_vec();
            chunk.extend(count.to_be_bytes());
            chunk.extend(b"\0\0\0\0CRC!");
            chunk
        };
        assert_eq!(IconKind::of(&png_of(MAX_ICON_SIDE, 1, &frames(MAX_ICON_FRAMES))), Ok(IconKind::Png));
        for large in [
            png_of(MAX_ICON_SIDE + 1, 1, b""),
            png_of(1, u32::MAX, b""),
            png_of(0, 1, b""),
            png_of(1, 1, &frames(MAX_ICON_FRAMES + 1)),
            jpeg_of(1, 5000),
            webp_of(5000, 1),
            webp_of(8, 121),
        ] {
            assert_eq!(IconKind::of(&large), Err(IconError::TooLarge));
        }
        assert_eq!(IconKind::of(&vec![b' '; MAX_ICON_BYTES + 1]), Err(IconError::TooLong));
        let long = format!("data:image/png;base64,{}", "A".repeat(3 * MAX_ICON_BYTES + 1));
        assert_eq!(IconSource::of(&long, None), Err(IconError::TooLong));
    }

    /// covers: ICON-10
    #[test]
    fn a_picture_that_does_something_is_refused() {
        for inside in [
            "<script>x</script>",
            "<svg:SCRIPT/>",
            "<g onload=\"x\"/>",
            "<g\nonClick = 'x'/>",
            "<a href=\"https://elsewhere.test\"/>",
            "<use xlink:href = 'data:x'/>",
            "<a href=\"&#106;avascript:x\"/>",
            "<foreignObject/>",
            "<style>@import 'x'</style>",
            "<g style=\"fill:url(https://elsewhere.test)\"/>",
            "<animate/>",
        ] {
            assert_eq!(IconKind::of(&svg_of(inside)), Err(IconError::Active), "{inside}");
        }
        assert_eq!(
            IconKind::of(b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><svg/>"),
            Err(IconError::Active)
        );
    }

    use proptest::prelude::*;

    proptest! {
        /// covers: ICON-03
        #[test]
        fn no_bytes_and_no_uri_do_any_harm(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            start in 0_usize..4,
            src in "(data:|https://|https://example.com|http://example.com)?[a-z%0-9:/;,.@]{0,40}",
        ) {
            // Whatever the words that came with it: it is an image by its own bytes, or it is refused.
            let is_one = |kind, bytes: &[u8]| match kind {
                IconKind::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
                IconKind::Jpeg => bytes.starts_with(&[0xff, 0xd8]),
                IconKind::Webp => bytes.starts_with(b"RIFF"),
                IconKind::Svg => std::str::from_utf8(bytes).is_ok_and(|text| text.contains("<svg")),
            };
            let starts = [&png_of(1, 1, b"")[..], &jpeg_of(1, 1), &webp_of(1, 1), b"<svg"];
            for bytes in [[starts[start], &bytes].concat(), bytes] {
                prop_assert!(IconKind::of(&bytes).map_or(true, |kind| is_one(kind, &bytes)), "{bytes:?}");
            }
            match IconSource::of(&src, SERVER) {
                Ok(IconSource::Here { kind, bytes }) => prop_assert!(is_one(kind, &bytes), "{src}"),
                Ok(IconSource::Fetch(fetch)) => {
                    let own = fetch.url() == "https://example.com" || fetch.url().starts_with("https://example.com/");
                    prop_assert!(own, "{src}: {}", fetch.url());
                }
                Err(_) => {}
            }
        }
    }
}
