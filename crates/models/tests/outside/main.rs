//! Our providers at servers that are not ours. `cargo xtask models` (a part of `cargo xtask test`) names the programs in
//! variables; started otherwise these tests say that they skip.

mod katan;
#[cfg(feature = "local-model")]
mod local;
mod program;
mod smollm;
