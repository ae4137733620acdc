//! Tests the bridge with real servers, which the tests start on free ports.
//!
//! `NATS_SERVER_BIN` names the server's program. By default, it is `nats-server` on the `PATH`. If
//! there is no such program, the tests are ignored, but they fail if `EVENTCAST_NATS=required` is
//! set. With `EVENTCAST_NATS=skip`, the tests are ignored in any case.
//!
//! `EVENTCAST_NATS_SCALE=10` makes the long tests ten times as long.

mod admin;
mod bridge;
mod certificates;
mod cluster;
mod faults;
mod incoming;
#[cfg(target_os = "linux")]
mod network;
mod outgoing;
mod reading;
#[cfg(feature = "nkeys")]
mod secrets;
mod server;
mod sign_in;
mod sink;
mod status;

use std::process::ExitCode;

use eventcast_nats::{BuildError, NatsPublisher, NatsSubscriber, RemoteWatcher};

/// The public types can be sent to other threads and shared with other threads.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<NatsPublisher>();
    is_send_and_sync::<NatsSubscriber>();
    is_send_and_sync::<BuildError>();
    const fn is_send<T: Send + 'static>() {}
    is_send::<RemoteWatcher<u64>>();
};

fn main() -> ExitCode {
    test_support::run([
        (server::missing(), with_a_server()),
        (server::missing(), with_a_status()),
        #[cfg(feature = "tls-ring")]
        (server::missing(), with_tls()),
        #[cfg(not(feature = "tls-ring"))]
        (server::missing(), test_support::tests![status::a_server_that_requires_tls_names_the_feature]),
        #[cfg(feature = "nkeys")]
        (
            server::missing(),
            test_support::tests![
                secrets::no_text_contains_a_secret,
                sign_in::an_nkey_carries_events,
                status::files_that_cannot_sign_in,
            ],
        ),
        #[cfg(unix)]
        (server::missing(), test_support::tests![status::a_password_that_changes]),
        #[cfg(target_os = "linux")]
        (status::no_small_disk(), test_support::tests![status::a_disk_that_is_full]),
        #[cfg(target_os = "linux")]
        (network::missing(), test_support::tests![network::a_link_that_is_cut_loses_and_repeats_nothing]),
    ])
}

fn with_a_server() -> Vec<test_support::Test> {
    test_support::tests![
        bridge::two_buses_share_their_events_without_a_loop,
        cluster::a_cluster_continues_without_its_leader,
        faults::twenty_kills_in_a_stream_of_events_lose_and_repeat_nothing,
        faults::an_outage_longer_than_the_window_repeats_nothing,
        incoming::a_new_reader_receives_events_once_it_is_ready,
        incoming::a_reader_without_a_bus_gets_events_with_their_places,
        incoming::a_filter_sees_its_own_gaps_exactly,
        incoming::a_restored_filter_reports_the_losses_of_its_subjects,
        incoming::a_purge_while_reading_is_a_gap,
        incoming::a_stop_between_messages_of_a_batch_loses_and_repeats_nothing,
        incoming::retention_takes_a_gap_of_the_exact_size,
        incoming::a_start_before_the_first_message_is_a_gap,
        incoming::fifty_restarts_at_random_times_lose_and_repeat_nothing,
        incoming::a_slow_bus_makes_the_server_keep_the_rest,
        incoming::a_bus_that_may_lose_gets_gaps_in_their_place,
        incoming::messages_of_others_are_passed_over_or_become_gaps,
        incoming::no_sum_of_hostile_numbers_overflows,
        incoming::a_consumer_that_is_deleted_is_made_again,
        incoming::a_reader_without_permission_reports_it,
        incoming::a_reader_waits_for_a_server_that_starts_late,
        outgoing::ten_thousand_events_of_three_subjects_reach_two_readers,
        outgoing::messages_hold_many_events_with_headers_that_place_them,
        outgoing::the_server_recognises_a_repeat,
        outgoing::a_repeat_outside_the_duplicate_window_is_skipped,
        outgoing::an_outage_loses_only_events_beyond_the_queue,
        outgoing::a_loss_that_nothing_follows_is_reported,
        outgoing::a_stream_created_late_receives_everything,
        outgoing::a_stream_that_is_deleted_is_created_again,
        outgoing::a_full_stream_refuses_until_it_has_space,
        outgoing::a_full_stream_may_cost_events,
        outgoing::a_full_stream_does_not_keep_the_bridge_from_its_end,
        outgoing::what_no_message_can_hold_is_lost_in_its_place,
        outgoing::a_message_that_has_become_too_large_is_cut,
        outgoing::a_message_waits_for_more_events_if_it_may,
        outgoing::a_heartbeat_carries_the_position_of_the_publisher,
        outgoing::both_sides_run_on_a_runtime_of_the_program,
        outgoing::a_refusal_is_reported_and_retried,
        outgoing::a_wrong_password_is_an_error_if_a_connection_is_required,
        outgoing::a_shutdown_without_a_server_reports_the_abandoned_events,
        outgoing::a_dropped_handle_leaves_the_rest_to_its_bridge,
        outgoing::the_end_of_the_bus_is_the_end_of_the_bridge,
        sink::the_stream_has_the_latest_state_of_each_event,
        sink::a_batch_has_one_answer_per_operation,
        sink::a_recording_survives_a_crash_of_the_server,
    ]
}

fn with_a_status() -> Vec<test_support::Test> {
    test_support::tests![
        sign_in::a_password_carries_events,
        sign_in::a_token_carries_events,
        status::a_refused_connection_is_reported,
        status::a_name_that_does_not_resolve_is_shown_after_the_first_attempt,
        status::each_server_of_a_list_is_named,
        status::a_port_of_something_else,
        status::a_stream_that_is_larger_than_the_storage,
        status::a_storage_that_is_full,
        status::a_server_without_jetstream,
        status::a_bridge_shows_the_side_that_is_worse_off,
    ]
}

#[cfg(feature = "tls-ring")]
fn with_tls() -> Vec<test_support::Test> {
    test_support::tests![
        sign_in::a_certificate_of_an_authority_carries_events,
        sign_in::certificates_of_both_sides_carry_events,
        sign_in::a_file_that_is_no_certificate_is_named,
        status::certificates_that_do_not_fit,
    ]
}
