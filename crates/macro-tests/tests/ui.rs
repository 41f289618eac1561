//! What the attribute macro says to what it cannot accept; what it accepts is tested beside the SDK.

#[test]
fn mistakes_are_explained_where_they_stand() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
