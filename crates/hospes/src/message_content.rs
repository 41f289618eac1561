//! Checks of the content of sampling messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hospes_model::SamplingMessageContentBlock;

/// Checks that content of a sampling message can be read (SAMP-24). Images and audio are Base64 and name their media
/// type.
pub(crate) fn check_message_content(content: &[SamplingMessageContentBlock]) -> Result<(), &'static str> {
    let media = content.iter().filter_map(|block| match block {
        SamplingMessageContentBlock::Image(image) => Some((&image.data, &image.mime_type)),
        SamplingMessageContentBlock::Audio(audio) => Some((&audio.data, &audio.mime_type)),
        _ => None,
    });
    for (data, kind) in media {
        if !kind.split_once('/').is_some_and(|(main, sub)| !main.is_empty() && !sub.is_empty()) {
            return Err("an image or audio block has an invalid mimeType");
        }
        if !is_base64(data.as_bytes()) {
            return Err("the data of an image or audio block is not valid Base64");
        }
    }
    Ok(())
}

fn is_base64(text: &[u8]) -> bool {
    // In pieces, because pictures are large and their bytes are not needed.
    let mut room = [0; 3 * 1024];
    let mut rest = text;
    while rest.len() > 4 * 1024 {
        let (part, more) = rest.split_at(4 * 1024);
        // Padding stands at the end alone.
        if part.ends_with(b"=") || STANDARD.decode_slice(part, &mut room).is_err() {
            return false;
        }
        rest = more;
    }
    STANDARD.decode_slice(rest, &mut room).is_ok()
}
