//! A cluster to write events to: the server of `api_server`, or the cluster that
//! `EVENTCAST_TEST_KUBECONFIG` names.

use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use eventcast::{Event, EventSink, ObjectReference, Text};
use eventcast_kube::KubernetesSink;
use http::{Method, Request};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::api_server::{ADMIN, ApiServer, CREATOR, NOBODY};

/// A timeout so long that only a hang reaches it.
const LONG: Duration = Duration::from_secs(180);

/// The client that asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    Admin,
    /// May create events, and nothing else.
    Creator,
    /// May do nothing.
    Nobody,
    /// Is unknown to the cluster.
    Stranger,
}

/// A new namespace in a cluster. Dropping this deletes the namespace with everything in it.
pub(crate) struct Cluster {
    pub(crate) namespace: String,
    /// The server of this process. `None` for a real cluster.
    pub(crate) server: Option<ApiServer>,
    config: Config,
    runtime: Runtime,
    client: Client,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        match env::var_os("EVENTCAST_TEST_KUBECONFIG") {
            None => Self::fake(),
            Some(file) => Self::of_kubeconfig(Path::new(&file)),
        }
    }

    /// Makes a namespace in the cluster that a kubeconfig names.
    pub(crate) fn of_kubeconfig(file: &Path) -> Self {
        Self::with(None, |runtime| {
            let kubeconfig = Kubeconfig::read_from(file).expect("a kubeconfig");
            let options = KubeConfigOptions::default();
            runtime
                .block_on(Config::from_custom_kubeconfig(kubeconfig, &options))
                .expect("a configuration in the kubeconfig")
        })
    }

    /// Starts the server of this process, whatever the environment says, for behaviour that no real
    /// server shows on request.
    pub(crate) fn fake() -> Self {
        let server = ApiServer::start();
        let mut config = Config::new(server.url().parse().unwrap());
        config.auth_info = token(ADMIN);
        Self::with(Some(server), |_| config)
    }

    fn with(server: Option<ApiServer>, config: impl FnOnce(&Runtime) -> Config) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let config = config(&runtime);
        let client = {
            let _entered = runtime.enter();
            Client::try_from(config.clone()).expect("a client")
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let namespace = format!("eventcast-test-{now:x}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let cluster = Self { namespace, server, config, runtime, client };
        cluster.make_namespace(&cluster.namespace);
        if let Some(server) = &cluster.server {
            server.take_seen();
        }
        cluster
    }

    /// Returns the server. Panics if the cluster is not the one of this process.
    pub(crate) fn server(&self) -> &ApiServer {
        self.server.as_ref().expect("not for a real cluster")
    }

    pub(crate) fn config(&self) -> Config {
        self.config.clone()
    }

    pub(crate) fn sink(&self) -> KubernetesSink {
        KubernetesSink::new(self.config()).unwrap()
    }

    pub(crate) fn sink_as(&self, role: Role) -> KubernetesSink {
        let mut config = self.config();
        config.auth_info = match (role, &self.server) {
            (Role::Admin, _) => config.auth_info,
            (Role::Stranger, _) => token("no-token-of-this-cluster"),
            (Role::Creator, Some(_)) => token(CREATOR),
            (Role::Nobody, Some(_)) => token(NOBODY),
            (role, None) => token(&self.real_token(role)),
        };
        KubernetesSink::new(config).unwrap()
    }

    /// Returns the server's name for a role, which is a service account of the namespace.
    pub(crate) fn user(&self, role: Role) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, account(role))
    }

    /// Returns an event about a pod of the namespace.
    pub(crate) fn event(&self, name: &str) -> Event {
        let mut event = Event::default();
        event.metadata.name = name.to_owned().into();
        event.metadata.namespace = self.namespace.clone().into();
        event.involved_object = ObjectReference::new("Pod", "web-0").in_namespace(self.namespace.clone());
        event.reason = "BackOff".into();
        event.message = "restarts".into();
        event.type_ = "Warning".into();
        event.count = 1;
        event.first_timestamp = Some("2026-11-21T12:00:00Z".parse().unwrap());
        event.last_timestamp = event.first_timestamp;
        event
    }

    /// Returns the stored event of this name, or `None` if there is none.
    pub(crate) fn stored(&self, name: &str) -> Option<Event> {
        let path = format!("/api/v1/namespaces/{}/events/{name}", self.namespace);
        let (code, body) = self.ask(Method::GET, &path, &Value::Null);
        (code == 200).then(|| Event::from_json(&body.to_string()).unwrap())
    }

    /// Returns the status and the body of the answer that the administrator gets.
    pub(crate) fn ask(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(body.into_bytes()).unwrap();
        match self.runtime.block_on(self.client.request_text(request)) {
            Ok(text) => (200, serde_json::from_str(&text).unwrap_or_default()),
            Err(kube::Error::Api(status)) => (status.code, json!(status.message)),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    #[track_caller]
    fn must(&self, method: Method, path: &str, body: &Value) -> Value {
        let (code, answer) = self.ask(method, path, body);
        assert_eq!(code, 200, "{path}: {answer}");
        answer
    }

    fn make_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.must(Method::POST, "/api/v1/namespaces", &namespace);
    }

    /// Deletes the namespace, which then stays in termination, because something in it cannot be
    /// deleted.
    pub(crate) fn begin_termination(&self) {
        if self.server.is_none() {
            let held = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "held", "finalizers": ["example.com/held"]},
            });
            self.must(Method::POST, &format!("/api/v1/namespaces/{}/configmaps", self.namespace), &held);
        }
        self.must(Method::DELETE, &format!("/api/v1/namespaces/{}", self.namespace), &Value::Null);
    }

    /// Creates a service account with the rights of the role, and returns a token for it.
    fn real_token(&self, role: Role) -> String {
        let (core, rbac) = (
            format!("/api/v1/namespaces/{}", self.namespace),
            format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", self.namespace),
        );
        let name = account(role);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        self.must(Method::POST, &format!("{core}/serviceaccounts"), &account);
        if role == Role::Creator {
            let group = "rbac.authorization.k8s.io";
            let rule = json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create"]});
            let body = json!({"metadata": {"name": name}, "rules": [rule]});
            self.must(Method::POST, &format!("{rbac}/roles"), &body);
            let body = json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}],
            });
            self.must(Method::POST, &format!("{rbac}/rolebindings"), &body);
        }
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = self.must(Method::POST, &format!("{core}/serviceaccounts/{name}/token"), &request);
        let token = answer["status"]["token"].as_str().expect("a token").to_owned();
        if role == Role::Creator {
            self.wait_until_it_may(&self.user(role));
        }
        token
    }

    /// Waits until the authorizer knows the role, which takes a moment.
    fn wait_until_it_may(&self, user: &str) {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "resourceAttributes": {"namespace": self.namespace, "verb": "create", "resource": "events"},
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let start = std::time::Instant::now();
        while self.must(Method::POST, path, &review)["status"]["allowed"] != true {
            assert!(start.elapsed() < LONG, "the role does not come");
        }
    }

    /// Returns the event as another writer repeats it: with count 2 and another message.
    pub(crate) fn repeat_of(&self, name: &str) -> Event {
        let mut event = self.event(name);
        event.count = 2;
        event.message = Text::from("restarts again");
        event.last_timestamp = Some("2026-11-21T12:05:00Z".parse().unwrap());
        event
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.is_none() {
            let held = format!("/api/v1/namespaces/{}/configmaps/held", self.namespace);
            let (code, mut map) = self.ask(Method::GET, &held, &Value::Null);
            if code == 200 {
                map["metadata"]["finalizers"] = json!([]);
                self.ask(Method::PUT, &held, &map);
            }
            self.ask(Method::DELETE, &format!("/api/v1/namespaces/{}", self.namespace), &Value::Null);
        }
    }
}

fn account(role: Role) -> String {
    format!("{role:?}").to_lowercase()
}

fn token(token: &str) -> AuthInfo {
    serde_json::from_value(json!({ "token": token })).unwrap()
}

/// The way to a real cluster, with the server of this process in its place.
#[test]
fn a_kubeconfig_leads_to_its_cluster() {
    let server = ApiServer::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, server.kubeconfig()).unwrap();
    let cluster = Cluster::of_kubeconfig(file.path());
    let stored = cluster.sink().create(&cluster.event("web-0.1")).unwrap();
    assert_eq!(cluster.stored("web-0.1"), Some(stored));
    assert_eq!(server.events().len(), 1);
}
