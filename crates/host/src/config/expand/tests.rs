use super::*;

fn variable(name: &str) -> Option<String> {
    let value = match name {
        "NAME" => "value",
        "EMPTY" => "",
        "NESTED" => "${NAME}",
        "HOSPES_INPUT_API_KEY" => "typed",
        _ => return None,
    };
    Some(value.to_owned())
}

fn scope(dialect: ConfigDialect) -> ExpansionScope<'static> {
    ExpansionScope {
        dialect,
        variable: &variable,
        home: Some(Path::new("/home/me")),
        workspace: Path::new("/some/space"),
        folder: Path::new("/etc/conf"),
        inputs: &[],
        allow_unset: false,
        secret: None,
        keep: false,
        asked: &[],
    }
}

fn expand(dialect: ConfigDialect, text: &str) -> String {
    scope(dialect).expand(text).unwrap().text.reveal().to_owned()
}

#[test]
fn every_form_is_understood() {
    for (text, expected) in [
        ("plain", "plain"),
        ("${NAME}", "value"),
        ("a${NAME}b${NAME}c", "avaluebvaluec"),
        ("${env:NAME}", "value"),
        ("${NONE:-text}", "text"),
        ("${NONE:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-text}", "text"),
        ("${NAME:-text}", "value"),
        ("${env:NONE:-a:-b}", "a:-b"),
        ("${userHome}/x", "/home/me/x"),
        ("${workspaceFolder}", "/some/space"),
        ("${workspaceFolderBasename}", "space"),
        ("${input:api-key}", "typed"),
        ("é${NAME}é", "évalueé"),
        ("$", "$"),
        ("$ {x} $5 }{", "$ {x} $5 }{"),
    ] {
        assert_eq!(expand(ConfigDialect::Own, text), expected, "{text}");
        assert_eq!(expand(ConfigDialect::Common, text), expected, "{text}");
    }
}

#[test]
fn nothing_is_expanded_twice() {
    assert_eq!(expand(ConfigDialect::Common, "${NESTED}"), "${NAME}");
}

#[test]
fn each_dialect_has_its_own_forms() {
    for (dialect, text, expected) in [
        (ConfigDialect::Own, "$${NAME}", "${NAME}"),
        (ConfigDialect::Common, "$${NAME}", "$value"),
        (ConfigDialect::Own, "$env:NAME", "$env:NAME"),
        (ConfigDialect::Common, "$env:NAME", "value"),
        (ConfigDialect::Common, "x$env:NAME", "x$env:NAME"),
        (ConfigDialect::Common, "$NAME", "$NAME"),
        (ConfigDialect::Gemini, "$NAME", "value"),
        (ConfigDialect::Gemini, "Bearer $NAME-$NAME.", "Bearer value-value."),
        (ConfigDialect::Gemini, "$5 $", "$5 $"),
        (ConfigDialect::OpenCode, "{env:NAME}/{x}", "value/{x}"),
        (ConfigDialect::Common, "{env:NAME}", "{env:NAME}"),
        (ConfigDialect::Codex, "${NAME} $NAME", "${NAME} $NAME"),
        (ConfigDialect::Crush, "$NAME ${NAME}", "value value"),
        (ConfigDialect::Continue, "a ${{ secrets.NAME }} ${{secrets.NAME}}", "a value value"),
        (ConfigDialect::Continue, "${{ inputs.x }}", "${{ inputs.x }}"),
    ] {
        assert_eq!(expand(dialect, text), expected, "{dialect:?} {text}");
    }
}

#[test]
fn kept_references_are_written_in_the_own_form() {
    for (dialect, text, expected) in [
        (ConfigDialect::Common, "a ${env:NONE} b", "a ${NONE} b"),
        (ConfigDialect::Common, "${NONE:-d}", "${NONE:-d}"),
        (ConfigDialect::Common, "$env:NONE", "${NONE}"),
        (ConfigDialect::Common, "${userHome}/x", "/home/me/x"),
        (ConfigDialect::Common, "${file:key}", "${file:/etc/conf/key}"),
        (ConfigDialect::Common, "${input:id}", "${input:id}"),
        (ConfigDialect::Common, "${command:pick}", "$${command:pick}"),
        (ConfigDialect::Common, "${secret:x}", "$${secret:x}"),
        (ConfigDialect::Own, "$${X} ${secret:x}", "$${X} ${secret:x}"),
        (ConfigDialect::Gemini, "Bearer $NONE.", "Bearer ${NONE}."),
        (ConfigDialect::Crush, "$NONE ${NONE}", "${NONE} ${NONE}"),
        (ConfigDialect::OpenCode, "{env:NONE}", "${NONE}"),
        (ConfigDialect::Codex, "${NONE} $NONE", "$${NONE} $NONE"),
        (ConfigDialect::Continue, "${{ secrets.NONE }}", "${input:NONE}"),
        (ConfigDialect::Goose, "Bearer ${ASKED}", "Bearer ${input:ASKED}"),
    ] {
        let asked = ["ASKED".to_owned()];
        let scope = ExpansionScope { keep: true, asked: &asked, ..scope(dialect) };
        assert_eq!(scope.expand(text).unwrap().text.reveal(), expected, "{dialect:?} {text}");
    }
    let scope = ExpansionScope { keep: true, ..scope(ConfigDialect::Common) };
    assert!(matches!(scope.expand("$${NONE}"), Err(ExpandError::Malformed { .. })));
}

#[test]
fn a_command_substitution_is_an_error_that_shows_no_arguments() {
    let failure = scope(ConfigDialect::Crush).expand("Bearer $(pass show s3cret)").unwrap_err();
    assert!(matches!(&failure, ExpandError::Command { shown } if shown == "$(pass …)"), "{failure:?}");
}

#[test]
fn secrets_are_looked_up_in_the_own_file_only() {
    let secret = |name: &str| match name {
        "there" => Ok(Some("s3cret".to_owned())),
        "locked" => Err("the keyring is locked".to_owned()),
        _ => Ok(None),
    };
    let own = ExpansionScope { secret: Some(&secret), ..scope(ConfigDialect::Own) };
    let text = own.expand("Bearer ${secret:there}").unwrap().text;
    assert_eq!((text.reveal(), text.written()), ("Bearer s3cret", "Bearer ${secret:there}"));
    assert!(
        matches!(own.expand("${secret:gone}"), Err(ExpandError::Secret { name, why: None }) if name == "gone")
    );
    assert!(matches!(own.expand("${secret:locked}"), Err(ExpandError::Secret { why: Some(_), .. })));
    for malformed in ["${secret:}", "${secret:a b}", "${secret:there:-x}"] {
        assert!(matches!(own.expand(malformed), Err(ExpandError::Malformed { .. })), "{malformed}");
    }
    let other = ExpansionScope { secret: Some(&secret), ..scope(ConfigDialect::Common) };
    assert_eq!(other.expand("${secret:there}").unwrap().text.reveal(), "${secret:there}");
}

#[test]
fn unset_is_an_error_in_every_form() {
    for (dialect, text) in [
        (ConfigDialect::Own, "a ${NONE}"),
        (ConfigDialect::Common, "${env:NONE}"),
        (ConfigDialect::Common, "$env:NONE"),
        (ConfigDialect::Gemini, "$NONE"),
        (ConfigDialect::OpenCode, "{env:NONE}"),
    ] {
        let failure = scope(dialect).expand(text).unwrap_err();
        assert!(matches!(&failure, ExpandError::Unset(name) if name == "NONE"), "{text} {failure:?}");
    }
}

#[test]
fn unset_can_be_let_through_literally() {
    for (dialect, text) in [
        (ConfigDialect::Own, "a ${NONE} b"),
        (ConfigDialect::Common, "$env:NONE"),
        (ConfigDialect::Common, "${input:none}"),
        (ConfigDialect::Common, "${file:/none/such}"),
        (ConfigDialect::Gemini, "$NONE"),
        (ConfigDialect::OpenCode, "{env:NONE}"),
    ] {
        let outcome = ExpansionScope { allow_unset: true, ..scope(dialect) }.expand(text).unwrap();
        assert_eq!(outcome.text.reveal(), text);
        assert_eq!(outcome.left.len(), 1, "{text}");
    }
}

#[test]
fn what_is_no_reference_is_an_error_at_home_and_literal_abroad() {
    for text in ["${not a name}", "${}", "${1}", "x ${NAME", "${command:pick}", "${A:=b}"] {
        let failure = scope(ConfigDialect::Own).expand(text).unwrap_err();
        assert!(matches!(failure, ExpandError::Malformed { .. }), "{text} {failure:?}");
        let outcome = scope(ConfigDialect::Common).expand(text).unwrap();
        assert_eq!(outcome.text.reveal(), text);
        assert_eq!(outcome.left.len(), 1, "{text}");
    }
}

#[test]
fn a_reference_in_a_default_is_refused_everywhere() {
    for dialect in [ConfigDialect::Own, ConfigDialect::Common] {
        let failure = scope(dialect).expand("${NONE:-${NAME}}").unwrap_err();
        assert!(
            matches!(&failure, ExpandError::Malformed { start, .. } if start == "${NONE}"),
            "{failure:?}"
        );
    }
}

#[test]
fn what_is_written_shows_neither_values_nor_defaults() {
    let text = scope(ConfigDialect::Own).expand("--key=${NAME} ${NONE:-hunter2}").unwrap().text;
    assert_eq!(text.written(), "--key=${NAME} ${NONE}");
}

#[test]
fn a_dollar_name_outside_gemini_is_pointed_out() {
    assert_eq!(scope(ConfigDialect::Common).expand("$TOKEN").unwrap().left, ["$TOKEN"]);
    assert!(scope(ConfigDialect::Common).expand("costs $5").unwrap().left.is_empty());
}

#[test]
fn files_are_read_without_their_last_line_break() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "abc\r\n").unwrap();
    let scope = ExpansionScope { folder: folder.path(), ..scope(ConfigDialect::OpenCode) };
    assert_eq!(scope.expand("<${file:key}|{file:./key}>").unwrap().text.reveal(), "<abc|abc>");
    assert!(
        matches!(scope.expand("${file:none}"), Err(ExpandError::File(path, _)) if path.ends_with("none"))
    );
}

#[test]
fn inputs_name_the_variable_that_answers_them() {
    let inputs = [("gh-token".to_owned(), "GitHub token".to_owned())];
    let scope = ExpansionScope { inputs: &inputs, ..scope(ConfigDialect::Common) };
    let ExpandError::Input { id, description, variable } = scope.expand("${input:gh-token}").unwrap_err()
    else {
        panic!("expected an input")
    };
    assert_eq!((id.as_str(), description.as_str()), ("gh-token", " (GitHub token)"));
    assert_eq!(variable, "HOSPES_INPUT_GH_TOKEN");
}

#[test]
fn a_tilde_is_the_home_folder() {
    let scope = scope(ConfigDialect::Own);
    let base = Path::new("/base");
    assert_eq!(scope.path(base, "~"), Path::new("/home/me"));
    assert_eq!(scope.path(base, "~/x"), Path::new("/home/me/x"));
    assert_eq!(scope.path(base, "~x"), Path::new("/base/~x"));
    assert_eq!(scope.path(base, "/x"), Path::new("/x"));
    assert_eq!(scope.path(base, "x"), Path::new("/base/x"));
}
