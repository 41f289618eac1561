//! Origin of values: whether an argument of a call stands in a result that the conversation has read before.
//!
//! A text and a value are compared in several spellings ([`forms`]), each in its [`normal`] form. A value that is found
//! comes from the text, or at least could. One that is not found may still come from it, in a spelling that is not
//! known here: that it is not found is therefore never a reason to allow something.

pub mod bare;
pub mod fields;
pub mod forms;
pub mod index;
pub mod normal;
pub mod values;

pub use fields::{TextField, text_fields, value_fields};
pub use index::{TextIndex, TextMarks, ValueOrigin};
pub use values::{ArgumentValue, MAX_VALUES, ValueKind, argument_values};
