//! Framing of answers without a connection, for the tests of the readers.

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;

use super::StreamStyle;
use super::framing::{self, FramingError};
use crate::answer_draft::ReadError;

/// Framing of an answer of a media type.
pub(crate) struct TestFraming(framing::AnswerFraming);

impl TestFraming {
    pub(crate) fn of(kind: &str, style: StreamStyle) -> Self {
        let response = Response::builder().header(CONTENT_TYPE, kind).body(()).expect("a response");
        Self(framing::AnswerFraming::of(&response, style, 1 << 20))
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

fn said(trouble: FramingError) -> String {
    match trouble {
        FramingError::Read(error) => format!("{error:?}"),
        FramingError::TooLong => "too long".to_owned(),
    }
}
