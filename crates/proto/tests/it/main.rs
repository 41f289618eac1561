//! Tests of the protocol rules through their public interface.

mod pair;
mod robust;
