//! Messages of the attribute macro for input that it rejects. Input that it accepts is tested with the SDK.

#[test]
fn mistakes_are_explained_where_they_stand() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
