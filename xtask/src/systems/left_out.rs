//! Tests for Windows that do not run under Wine, with the reason. Each name has to exist.

/// Tests of one crate that are left out for the same reason.
#[derive(Debug)]
pub(super) struct LeftOut {
    pub(super) package: &'static str,
    pub(super) reason: &'static str,
    pub(super) tests: &'static [&'static str],
}

const TIME: &str = "Wine is too slow for the time limit of the test";
const SHELL: &str = "the test starts programs of Unix, such as sh or cat";
const PATHS: &str = "the test expects the paths of Unix";

pub(super) const LEFT_OUT: [LeftOut; 8] = [
    LeftOut {
        package: "hospes-host",
        reason: "Wine ignores the flag of the first instance of a pipe",
        tests: &["callers::local_socket::tests::nobody_takes_the_name_of_a_socket_that_is_served"],
    },
    LeftOut {
        package: "hospes-servers",
        reason: "Git for Windows is not installed in Wine",
        tests: &["builtin::tests::every_tool_is_described"],
    },
    LeftOut {
        package: "hospes",
        reason: TIME,
        tests: &["transport::http_server::tests::modern::an_answer_does_not_wait_for_an_acknowledgement"],
    },
    LeftOut {
        package: "hospes",
        reason: SHELL,
        tests: &[
            "client::transport::child::tests::a_child_gets_a_clean_environment_and_what_it_was_given",
            "client::transport::child::tests::a_child_that_ends_at_end_of_input_is_not_signalled",
            "client::transport::child::tests::a_helper_that_outlives_its_wrapper_is_ended_with_it",
            "client::transport::child::tests::a_launcher_gets_the_command_and_its_variables_behind_a_prefix",
            "client::transport::child::tests::a_launcher_is_told_to_kill",
            "client::transport::child::tests::a_process_that_ends_with_the_runtime_is_told_of_as_well",
            "client::transport::child::tests::a_stubborn_child_is_terminated_then_killed_within_two_seconds",
            "client::transport::child::tests::the_end_of_stderr_is_kept_and_bounded",
            "client::transport::child::tests::the_end_of_the_runtime_kills_the_whole_group",
            "client::transport::child::tests::the_start_and_the_end_of_each_process_are_told_before_anybody_acts_on_them",
            "client::transport::child::tests::what_a_child_alone_was_told_is_hidden_in_its_stderr",
        ],
    },
    LeftOut {
        package: "hospes",
        reason: "the test expects a backslash to escape, which Windows has in paths",
        tests: &[
            "client::target::tests::a_command_line_is_split_as_a_shell_does_it",
            "client::target::tests::what_is_shown_can_be_pasted_and_holds_no_secret",
        ],
    },
    LeftOut {
        package: "hospes-host",
        reason: PATHS,
        tests: &[
            "config::applications::folders::tests::each_system_has_its_own_folders",
            "config::applications::folders::tests::existing_files_of_user_and_project_are_found",
            "config::applications::folders::tests::variables_move_folders_if_they_are_absolute",
            "config::expand::tests::kept_references_are_written_in_the_own_form",
            "config::own_file::tests::a_server_is_replaced_and_the_form_of_all_else_stays",
            "config::tests::files_that_cannot_be_read_are_named",
            "config::tests::foreign::kept_references_are_not_resolved",
            "config::tests::foreign::paths_with_spaces_stay_whole_in_the_files_of_others",
            "config::tests::foreign::the_sandbox_of_vs_code_is_kept_or_the_server_is_skipped",
            "config::tests::foreign::the_workspace_is_the_folder_above_an_applications_own",
            "config::tests::mistakes_in_our_format_are_named",
            "config::tests::our_format_understands_every_server_setting",
            "config::tests::sandbox::what_a_server_may_touch_is_read",
            "server::server_folders::tests::a_program_has_its_sandbox_or_the_folders_that_it_is_started_with",
            "server::server_folders::tests::only_the_file_server_with_one_folder_is_known_to_begin_relative_paths_there",
            "server::server_folders::tests::the_file_server_has_its_arguments_without_the_excepted",
        ],
    },
    LeftOut {
        package: "hospes-oauth",
        reason: TIME,
        tests: &[
            "oauth::tests::killed::a_write_that_was_killed_leaves_the_old_or_the_new",
            "oauth::tests::revoking::a_renewal_in_another_process_does_not_undo_signing_in",
        ],
    },
    LeftOut {
        package: "hospes-oauth",
        reason: SHELL,
        tests: &[
            "workload::tests::a_command_that_fails_gives_no_token",
            "workload::tests::files_and_commands_are_asked_each_time",
        ],
    },
];
