//! The webhooks of the server of this process: its answers, and requests that wait.

use std::time::Duration;

use eventcast::EventSink;
use http::Request;
use kube::Client;
use serde_json::Value;
use test_support::{LONG, until};
use tokio::runtime::Builder;

use crate::api_server::Webhook;
use crate::cluster::{Cluster, Role};

/// A time that passes in a test.
const SHORT: Duration = Duration::from_millis(20);

/// Returns the code, the `Retry-After` header and the body of the answer to a new event.
fn answer(cluster: &Cluster, webhook: Webhook) -> (u16, Option<String>, Value) {
    cluster.server().set_webhook(&cluster.namespace, Some(webhook));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = cluster.config();
        // Otherwise the client itself would try again after 429 and 503.
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let mut response = client.send(request(cluster, "web-0.1").map(Into::into)).await.unwrap();
        let delay = response.headers().get("retry-after").map(|delay| delay.to_str().unwrap().to_owned());
        let body = response.body_mut();
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        (response.status().as_u16(), delay, serde_json::from_slice(&body).unwrap())
    })
}

fn request(cluster: &Cluster, name: &str) -> Request<Vec<u8>> {
    let path = format!("/api/v1/namespaces/{}/events", cluster.namespace);
    let request = Request::post(path).header("content-type", "application/json");
    request.body(cluster.event(name).to_json().into_bytes()).unwrap()
}

#[test]
fn a_failed_webhook_is_an_internal_error_of_the_server() {
    let cluster = Cluster::fake();
    for (webhook, reason) in [
        (Webhook::Refuse500, "the server could not find the requested resource"),
        (Webhook::Hang(SHORT), "context deadline exceeded"),
    ] {
        let (code, delay, body) = answer(&cluster, webhook);
        assert_eq!((code, delay, &body["reason"]), (500, None, &"InternalError".into()), "{body}");
        let message = body["message"].as_str().unwrap();
        let start =
            "Internal error occurred: failed calling webhook \"deny.example.com\": failed to call webhook: ";
        assert!(message.starts_with(start) && message.ends_with(reason), "{message}");
    }
    assert!(cluster.server().events().is_empty());
}

#[test]
fn a_webhook_denies_with_any_code() {
    let cluster = Cluster::fake();
    for (webhook, code, delay) in
        [(Webhook::TooMany(5), 429, Some("5".to_owned())), (Webhook::Unavailable503, 503, None)]
    {
        let (answered, waits, body) = answer(&cluster, webhook);
        assert_eq!((answered, &waits, &body["code"]), (code, &delay, &code.into()), "{body}");
        let message = body["message"].as_str().unwrap();
        assert!(
            message.starts_with("admission webhook \"deny.example.com\" denied the request: "),
            "{message}"
        );
    }
    assert!(cluster.server().events().is_empty());
}

#[test]
fn a_slow_webhook_allows() {
    let cluster = Cluster::fake();
    let (code, _, body) = answer(&cluster, Webhook::Slow(SHORT));
    assert_eq!((code, &body["reason"]), (201, &"BackOff".into()), "{body}");
    let stored = cluster.server().stored();
    assert_eq!((stored[0].namespace.as_str(), stored[0].object.as_str()), (&*cluster.namespace, "web-0"));
}

#[test]
fn requests_that_wait_for_a_webhook_delay_no_others_and_end_with_their_clients() {
    const REQUESTS: usize = 300;
    let cluster = Cluster::fake();
    let server = cluster.server();
    server.set_webhook(&cluster.namespace, Some(Webhook::Hang(LONG)));
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = {
        let _entered = runtime.enter();
        Client::try_from(cluster.config()).unwrap()
    };
    for number in 0..REQUESTS {
        let (client, request) = (client.clone(), request(&cluster, &format!("web-0.{number}")));
        runtime.spawn(async move { client.request_text(request).await });
    }
    until(|| server.waiting_for_webhook(&cluster.namespace) == REQUESTS);
    let mut elsewhere = cluster.event("web-0.1");
    elsewhere.metadata.namespace = "default".into();
    elsewhere.involved_object.namespace = "default".into();
    cluster.sink_as(Role::Everywhere).create(&elsewhere).unwrap();
    assert_eq!(server.waiting_for_webhook(&cluster.namespace), REQUESTS);
    runtime.shutdown_background();
    until(|| server.waiting_for_webhook(&cluster.namespace) == 0);
    assert_eq!(server.events().len(), 1);
}
