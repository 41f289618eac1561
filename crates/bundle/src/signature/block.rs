//! The block behind the ZIP: a marker, the length of the signature, the signature, and another marker.

/// Marker in front of a signature.
pub(crate) const BLOCK_HEADER: &[u8] = b"MCPB_SIG_V1";
/// Marker behind a signature.
const BLOCK_FOOTER: &[u8] = b"MCPB_SIG_END";
const LENGTH_BYTES: usize = 4;

/// Maximum size of a signature, in bytes.
pub const MAX_SIGNATURE_BYTES: u64 = 1024 * 1024;
/// Maximum size of a block, in bytes.
pub(crate) const MAX_BLOCK_BYTES: u64 =
    MAX_SIGNATURE_BYTES + (BLOCK_HEADER.len() + LENGTH_BYTES + BLOCK_FOOTER.len()) as u64;

/// Signature block of a file, if there is one.
#[derive(Debug)]
pub(crate) struct SignatureBlock {
    /// Size of what is signed: all bytes in front of the block.
    pub(crate) content_size: u64,
    pub(super) state: BlockState,
}

#[derive(Debug)]
pub(super) enum BlockState {
    None,
    Intact(Vec<u8>),
    Damaged(String),
}

impl SignatureBlock {
    /// Looks for a block at the end of a file. `tail` is its last bytes, at least those of the largest block.
    pub(crate) fn find(tail: &[u8], size: u64) -> Self {
        let Some(body) = tail.strip_suffix(BLOCK_FOOTER) else {
            return Self { content_size: size, state: BlockState::None };
        };
        let Some(start) = body.windows(BLOCK_HEADER.len()).rposition(|window| window == BLOCK_HEADER) else {
            let why = format!(
                "the mark at the end of a signature is there, and none at its beginning; a signature has at most \
                 {MAX_SIGNATURE_BYTES} bytes"
            );
            return Self { content_size: size - BLOCK_FOOTER.len() as u64, state: BlockState::Damaged(why) };
        };
        let content_size = size - (tail.len() - start) as u64;
        let fields = &body[start + BLOCK_HEADER.len()..];
        let state = match fields.split_first_chunk::<LENGTH_BYTES>() {
            Some((length, der)) if u32::from_le_bytes(*length) as usize == der.len() => {
                BlockState::Intact(der.to_vec())
            }
            Some((length, der)) => BlockState::Damaged(format!(
                "the signature block states {} bytes and has {}",
                u32::from_le_bytes(*length),
                der.len()
            )),
            None => BlockState::Damaged("the signature block has no length".to_owned()),
        };
        Self { content_size, state }
    }

    /// Takes note that another block begins at `end`, where the ZIP ends.
    pub(crate) fn reject_rest(&mut self, end: u64) {
        let why = match self.state {
            BlockState::None => "the signature block is cut off, or other data follows it",
            BlockState::Intact(_) | BlockState::Damaged(_) => {
                "there are two signature blocks; remove both and sign again"
            }
        };
        self.content_size = end;
        self.state = BlockState::Damaged(why.to_owned());
    }

    pub(crate) fn der(&self) -> Option<&[u8]> {
        match &self.state {
            BlockState::Intact(der) => Some(der),
            BlockState::None | BlockState::Damaged(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(der: &[u8]) -> Vec<u8> {
        let length = (der.len() as u32).to_le_bytes();
        [BLOCK_HEADER, &length, der, BLOCK_FOOTER].concat()
    }

    fn find(file: &[u8]) -> SignatureBlock {
        SignatureBlock::find(file, file.len() as u64)
    }

    #[test]
    fn a_block_is_what_its_length_says() {
        let file = [b"content".as_slice(), &block(b"der")].concat();
        let found = find(&file);
        assert_eq!((found.content_size, found.der()), (7, Some(b"der".as_slice())));
        for changed in [18, 19, 20, 21] {
            let mut file = file.clone();
            file[changed] ^= 1;
            assert_eq!((find(&file).content_size, find(&file).der()), (7, None));
        }
    }

    #[test]
    fn the_last_beginning_counts() {
        let file = [b"x".as_slice(), &block(b"one"), &block(b"two")].concat();
        let found = find(&file);
        assert_eq!(
            (found.content_size, found.der()),
            (1 + block(b"one").len() as u64, Some(b"two".as_slice()))
        );
    }

    #[test]
    fn a_block_without_its_beginning_is_damaged() {
        for file in [
            b"content MCPB_SIG_END".as_slice(),
            b"MCPB_SIG_END",
            b"MCPB_SIG_V1MCPB_SIG_END",
            b"MCPB_SIG_V1abMCPB_SIG_END",
        ] {
            assert!(matches!(find(file).state, BlockState::Damaged(_)), "{file:?}");
        }
    }

    #[test]
    fn a_block_that_does_not_end_the_file_is_none() {
        let cut = &block(b"der")[..10];
        for file in [cut, b"content", b"", &[block(b"der"), b"x".to_vec()].concat()] {
            let found = find(file);
            assert!(matches!(found.state, BlockState::None));
            assert_eq!(found.content_size, file.len() as u64);
        }
    }
}
