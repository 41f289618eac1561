//! Table of the built-in labels: for each server its packages, and its tools by their labels.
//!
//! Names are exact. A package of another publisher, and a tool that is not listed, have no labels here. A tool is listed
//! only if its labels differ from those that a tool without labels has.

use super::{LabelSet, ToolLabels};
use crate::flow::CallEffect;

const fn labels(private: Option<bool>, untrusted: Option<bool>, outbound: bool) -> ToolLabels {
    ToolLabels { private, untrusted, outbound: Some(outbound), effect: None }
}

const fn with(labels: ToolLabels, effect: CallEffect) -> ToolLabels {
    ToolLabels { effect: Some(effect), ..labels }
}

/// Returns nothing that others have written, reaches nothing and changes nothing.
const PURE: ToolLabels = with(labels(Some(false), Some(false), false), CallEffect::None);
/// Returns data of the person in which others may have written.
const READ: ToolLabels = with(labels(Some(true), Some(true), false), CallEffect::None);
/// Returns data of the person that comes from the configuration or the account alone.
const READ_OWN: ToolLabels = with(labels(Some(true), None, false), CallEffect::None);
/// Returns data of the person, or what is at an address that is given to it.
const READ_ANYWHERE: ToolLabels = with(labels(Some(true), Some(true), true), CallEffect::None);
/// Sends its arguments to the web and returns what it finds there.
const READ_WEB: ToolLabels = with(labels(None, Some(true), true), CallEffect::None);
/// Returns what the current page shows.
const READ_PAGE: ToolLabels = with(labels(None, Some(true), false), CallEffect::None);
/// Returns what the current page shows, or keeps it in a file.
const KEEP_PAGE: ToolLabels = with(labels(None, Some(true), false), CallEffect::Reversible);
/// Returns data of the person. Its argument is a language in which changes can be written too.
const QUERY: ToolLabels = ToolLabels { outbound: None, ..labels(Some(true), Some(true), false) };
/// Writes data of the person, in which others may have written, over a file.
const SAVE: ToolLabels = with(labels(Some(true), Some(true), false), CallEffect::Irreversible);
/// Changes something of the person that the same server can change back.
const KEEP: ToolLabels = with(labels(None, None, false), CallEffect::Reversible);
/// Replaces or deletes something of the person.
const DESTROY: ToolLabels = with(labels(None, None, false), CallEffect::Irreversible);
/// Changes something that others see.
const SEND: ToolLabels = with(labels(None, None, true), CallEffect::Reversible);
/// Changes something that others see, and that cannot be taken back.
const COMMIT: ToolLabels = with(labels(None, None, true), CallEffect::Irreversible);
/// Runs code, which reads and reaches everything.
const RUN: ToolLabels = with(labels(Some(true), Some(true), true), CallEffect::Irreversible);

/// All sets, by kind of server.
pub(super) const SETS: &[LabelSet] = &[
    // Files and repositories.
    LabelSet {
        packages: &["npm:@modelcontextprotocol/server-filesystem", "oci:mcp/filesystem"],
        tools: &[
            (
                READ,
                "read_file read_text_file read_media_file read_multiple_files list_directory \
                 list_directory_with_sizes directory_tree search_files get_file_info",
            ),
            (READ_OWN, "list_allowed_directories"),
            (KEEP, "create_directory"),
            // Each of them can replace a file.
            (DESTROY, "write_file edit_file move_file"),
        ],
    },
    LabelSet {
        packages: &["pypi:mcp-server-git", "oci:mcp/git"],
        tools: &[
            (READ, "git_status git_diff_unstaged git_diff_staged git_log git_branch"),
            // In some versions their argument can be an option, which writes a file.
            (QUERY, "git_diff git_show"),
            (KEEP, "git_add git_commit git_create_branch"),
            (DESTROY, "git_reset git_checkout"),
        ],
    },
    // Forges.
    LabelSet {
        packages: &[
            "npm:@modelcontextprotocol/server-github",
            "oci:ghcr.io/github/github-mcp-server",
            "https://api.githubcopilot.com",
        ],
        tools: &[
            (READ_OWN, "get_me"),
            (
                READ,
                "actions_get actions_list get_code_scanning_alert get_commit get_dependabot_alert get_discussion \
                 get_discussion_comments get_file_blame get_file_contents get_gist get_issue get_job_logs get_label \
                 get_latest_release get_notification_details get_pull_request get_pull_request_comments \
                 get_pull_request_files get_pull_request_reviews get_pull_request_status get_release_by_tag \
                 get_repository_tree get_secret_scanning_alert get_tag get_team_members get_teams issue_read \
                 list_branches list_code_scanning_alerts list_commits list_dependabot_alerts list_discussions \
                 list_gists list_issues list_notifications list_org_repository_security_advisories \
                 list_pull_requests list_releases list_repository_collaborators list_repository_security_advisories \
                 list_secret_scanning_alerts list_tags projects_get projects_list pull_request_read search_code \
                 search_commits search_issues search_orgs search_pull_requests search_repositories search_users",
            ),
            (SEND, "remove_sub_issue"),
            (COMMIT, "assign_copilot_to_issue create_gist create_repository fork_repository"),
            (
                KEEP,
                "dismiss_notification manage_notification_subscription manage_repository_notification_subscription \
                 mark_all_notifications_read",
            ),
        ],
    },
    LabelSet {
        packages: &["npm:@modelcontextprotocol/server-gitlab", "npm:@zereight/mcp-gitlab"],
        tools: &[
            (READ_OWN, "whoami"),
            (
                READ,
                "get_branch_diffs get_commit get_commit_diff get_file_contents get_issue get_merge_request \
                 get_merge_request_diffs get_merge_request_notes get_pipeline get_pipeline_job \
                 get_pipeline_job_output get_project get_project_variable get_release get_repository_tree get_users \
                 get_wiki_page list_commits list_events list_issue_discussions list_issues list_merge_requests \
                 list_pipelines list_project_members list_project_variables list_projects list_releases list_todos \
                 list_wiki_pages mr_discussions my_issues search_code search_project_code search_repositories",
            ),
            (
                COMMIT,
                "create_pipeline create_project_variable create_release create_repository fork_repository \
                 play_pipeline_job retry_pipeline unprotect_branch update_project update_project_variable",
            ),
            (RUN, "execute_graphql"),
        ],
    },
    // Messages and mail.
    LabelSet {
        packages: &[
            "npm:@modelcontextprotocol/server-slack",
            "npm:@zencoderai/slack-mcp-server",
            "oci:mcp/slack",
        ],
        tools: &[(
            READ,
            "slack_list_channels slack_get_channel_history slack_get_thread_replies slack_get_users \
                 slack_get_user_profile",
        )],
    },
    LabelSet {
        packages: &["npm:slack-mcp-server"],
        tools: &[
            (
                READ,
                "attachment_get_data channels_list conversations_history conversations_replies \
                 conversations_search_messages conversations_unreads usergroups_list users_search",
            ),
            (KEEP, "conversations_mark"),
            (SEND, "reactions_remove"),
            // Membership of a group decides who reads what is sent to it.
            (COMMIT, "usergroups_create usergroups_me usergroups_update usergroups_users_update"),
        ],
    },
    LabelSet {
        packages: &["npm:@gongrzhe/server-gmail-autoauth-mcp"],
        tools: &[
            (READ, "search_emails read_email list_email_labels"),
            (READ_OWN, "list_filters get_filter"),
            (SAVE, "download_attachment"),
            (
                KEEP,
                "draft_email modify_email batch_modify_emails create_label update_label get_or_create_label",
            ),
            (SEND, "send_email"),
            // A filter can forward mail.
            (COMMIT, "create_filter create_filter_from_template"),
        ],
    },
    // Calendars and documents.
    LabelSet {
        packages: &["npm:@cocal/google-calendar-mcp"],
        tools: &[
            (READ, "list-calendars list-events search-events get-event get-freebusy"),
            (PURE, "get-current-time list-colors"),
        ],
    },
    LabelSet {
        packages: &["npm:@notionhq/notion-mcp-server", "oci:mcp/notion"],
        tools: &[
            (READ_OWN, "API-get-self"),
            (
                READ,
                "API-get-user API-get-users API-post-search API-get-block-children API-retrieve-a-block \
                 API-retrieve-a-page API-retrieve-a-page-property API-retrieve-a-comment API-retrieve-a-database \
                 API-retrieve-a-data-source API-query-data-source API-list-data-source-templates \
                 API-retrieve-page-markdown",
            ),
        ],
    },
    LabelSet {
        packages: &["https://mcp.notion.com"],
        tools: &[(READ, "notion-search notion-fetch notion-get-comments notion-get-teams notion-get-users")],
    },
    LabelSet {
        packages: &["pypi:mcp-atlassian", "oci:ghcr.io/sooperset/mcp-atlassian"],
        tools: &[
            (
                READ,
                "confluence_search confluence_get_page confluence_get_page_children confluence_get_page_history \
                 confluence_get_page_diff confluence_get_comments confluence_get_labels confluence_get_attachments \
                 confluence_search_user jira_search jira_get_issue jira_get_project_issues jira_get_all_projects \
                 jira_get_worklog jira_get_transitions jira_get_user_profile jira_search_fields \
                 jira_get_agile_boards jira_get_board_issues jira_get_sprint_issues",
            ),
            // Both decide who reads it.
            (COMMIT, "confluence_set_page_restrictions jira_add_watcher"),
        ],
    },
    // Databases.
    LabelSet {
        packages: &["npm:@modelcontextprotocol/server-postgres", "oci:mcp/postgres"],
        tools: &[
            // One query can hold several statements, and not all of them are within its read-only transaction.
            (QUERY, "query"),
        ],
    },
    LabelSet {
        packages: &["pypi:mcp-server-sqlite", "oci:mcp/sqlite"],
        tools: &[
            (READ, "read_query list_tables describe_table"),
            (DESTROY, "write_query"),
            (KEEP, "create_table append_insight"),
        ],
    },
    // Browsers and the web.
    LabelSet {
        packages: &["npm:@playwright/mcp", "oci:mcr.microsoft.com/playwright/mcp"],
        tools: &[
            (READ_WEB, "browser_navigate browser_navigate_back browser_tabs"),
            (READ_PAGE, "browser_find browser_hover browser_wait_for"),
            (
                KEEP_PAGE,
                "browser_console_messages browser_network_request browser_network_requests browser_snapshot \
                 browser_take_screenshot",
            ),
            (RUN, "browser_evaluate browser_run_code_unsafe browser_file_upload"),
        ],
    },
    LabelSet { packages: &["pypi:mcp-server-fetch", "oci:mcp/fetch"], tools: &[(READ_WEB, "fetch")] },
    LabelSet {
        packages: &["npm:@modelcontextprotocol/server-brave-search", "npm:@brave/brave-search-mcp-server"],
        tools: &[(
            READ_WEB,
            "brave_web_search brave_local_search brave_image_search brave_news_search brave_video_search \
                 brave_summarizer",
        )],
    },
    LabelSet {
        packages: &["npm:tavily-mcp"],
        tools: &[(READ_WEB, "tavily_search tavily_extract tavily_crawl tavily_map tavily_research")],
    },
    // Memory, time and thinking.
    LabelSet {
        packages: &["npm:@modelcontextprotocol/server-memory", "oci:mcp/memory"],
        tools: &[
            // Some of what was stored may be a text of others.
            (READ, "read_graph search_nodes open_nodes"),
            (KEEP, "create_entities create_relations add_observations"),
            (DESTROY, "delete_entities delete_observations delete_relations"),
        ],
    },
    LabelSet {
        packages: &["pypi:mcp-server-time", "oci:mcp/time"],
        tools: &[(PURE, "get_current_time convert_time")],
    },
    LabelSet {
        packages: &["npm:@modelcontextprotocol/server-sequential-thinking", "oci:mcp/sequentialthinking"],
        tools: &[
            // It returns counters alone.
            (PURE, "sequentialthinking"),
        ],
    },
    // Shells, clusters and payments.
    LabelSet {
        packages: &["npm:@wonderwhy-er/desktop-commander"],
        tools: &[
            (READ_ANYWHERE, "read_file"),
            (
                READ,
                "read_multiple_files list_directory get_file_info start_search get_more_search_results \
                 list_processes list_sessions read_process_output",
            ),
            (READ_OWN, "get_config"),
            (KEEP, "create_directory"),
            (DESTROY, "write_file write_pdf edit_block move_file set_config_value"),
            (RUN, "start_process interact_with_process force_terminate kill_process"),
        ],
    },
    LabelSet {
        packages: &["npm:kubernetes-mcp-server", "pypi:kubernetes-mcp-server"],
        tools: &[
            (
                READ,
                "configuration_contexts_list configuration_view events_list helm_list namespaces_list nodes_log \
                 nodes_stats_summary nodes_top pods_get pods_list pods_list_in_namespace pods_log pods_top \
                 projects_list resources_get resources_list",
            ),
            (
                RUN,
                "helm_install helm_uninstall pods_delete pods_exec pods_run resources_create_or_update \
                 resources_delete resources_scale",
            ),
        ],
    },
    LabelSet {
        packages: &["npm:mcp-server-kubernetes"],
        tools: &[
            (READ, "kubectl_get kubectl_describe kubectl_logs list_api_resources"),
            (
                RUN,
                "exec_in_pod install_helm_chart kubectl_apply kubectl_create kubectl_delete kubectl_generic \
                 kubectl_patch kubectl_rollout kubectl_scale node_management port_forward uninstall_helm_chart \
                 upgrade_helm_chart",
            ),
        ],
    },
    LabelSet {
        packages: &["npm:@stripe/mcp", "https://mcp.stripe.com"],
        tools: &[
            (
                READ,
                "list_customers list_products list_prices list_invoices list_payment_intents list_subscriptions \
                 list_coupons list_disputes stripe_api_read",
            ),
            (READ_OWN, "get_stripe_account_info retrieve_balance"),
            (READ_WEB, "search_documentation search_stripe_documentation"),
            (
                COMMIT,
                "create_customer create_product create_price create_invoice create_invoice_item finalize_invoice \
                 create_refund cancel_subscription update_subscription create_coupon update_dispute \
                 stripe_api_write",
            ),
        ],
    },
];
