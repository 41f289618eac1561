//! Hidden characters of a text.
