//! An answer's pieces for the tests of the readers, without a connection.

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;

use super::Style;
use super::frames::{self, Trouble};
use crate::draft::ReadError;

/// Framing of an answer of a media type.
pub(crate) struct Framing(frames::Framing);

impl Framing {
    pub(crate) fn of(kind: &str, style: Style) -> Self {
        let response = Response::builder().header(CONTENT_TYPE, kind).body(()).expect("a response");
        Self(frames::Framing::of(&response, style, 1 << 20))
    }

    pub(crate) fn feed(
        &mut self,
        chunk: &[u8],
        read: &mut dyn FnMut(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(), String> {
        self.0.feed(Bytes::copy_from_slice(chunk), read).map_err(said)
    }

    pub(crate) fn finish(
        &mut self,
        read: &mut dyn FnMut(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(), String> {
        self.0.finish(read).map_err(said)
    }
}

fn said(trouble: Trouble) -> String {
    match trouble {
        Trouble::Read(error) => format!("{error:?}"),
        Trouble::TooLong => "too long".to_owned(),
    }
}
