//! Cases of the contract. Each engine has to pass all of them, and each deliberately broken one fails one.

mod claims;
mod marks;
mod nodes;
mod ownership;
mod sessions;
mod streams;

use crate::fixture::ContractCase;

/// Lists functions as cases.
macro_rules! cases_of {
    ($($case:ident),* $(,)?) => {
        pub(crate) fn cases() -> Vec<crate::fixture::ContractCase> {
            use futures::FutureExt as _;
            vec![$(crate::fixture::ContractCase {
                name: stringify!($case),
                run: |fleet| $case(fleet).boxed_local(),
            }),*]
        }
    };
}
pub(crate) use cases_of;

/// All cases.
pub(crate) fn cases() -> Vec<ContractCase> {
    let parts = [
        nodes::cases(),
        sessions::cases(),
        ownership::cases(),
        claims::cases(),
        streams::cases(),
        marks::cases(),
    ];
    parts.into_iter().flatten().collect()
}
