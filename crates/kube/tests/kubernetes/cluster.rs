//! A cluster to which the tests write events, which is either the server in `api_server` or the
//! cluster that `EVENTCAST_TEST_KUBECONFIG` names.
//!
//! An administrator creates a namespace, service accounts with roles, and tokens, and reads the
//! stored events. The tests' sinks never run as the administrator, because a server does not check
//! an administrator's permissions. The sinks run with the role that `docs/kubernetes.md` documents.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use eventcast::sink::SinkErrorKind;
use eventcast::{Event, EventSink, ObjectReference, SinkError, Text};
use eventcast_kube::KubernetesSink;
use http::{Method, Request};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use test_support::until;
use tokio::runtime::Runtime;

use super::api_server::{ADMIN, ApiServer};

/// The API group of roles and bindings, and the prefix of their paths.
const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_PATH: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The role with which a client sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Has the documented role in the test's namespace.
    Recorder,
    /// Has the documented role in all namespaces.
    Everywhere,
    /// May create events in all namespaces, and nothing else.
    Creator,
    /// Has no permissions.
    Nobody,
    /// Is unknown to the cluster.
    Stranger,
}

impl Role {
    /// Returns the groups, resources and verbs of the role's rule, or `None` if the role has no
    /// permissions.
    fn rule(self) -> Option<[&'static [&'static str]; 3]> {
        match self {
            Self::Recorder | Self::Everywhere => {
                Some([&["", "events.k8s.io"], &["events"], &["create", "patch", "update"]])
            }
            Self::Creator => Some([&[""], &["events"], &["create"]]),
            Self::Nobody | Self::Stranger => None,
        }
    }

    fn is_cluster_wide(self) -> bool {
        matches!(self, Self::Everywhere | Self::Creator)
    }
}

/// A new namespace in a cluster. Dropping a `Cluster` deletes the namespace and everything in it.
pub(crate) struct Cluster {
    pub(crate) namespace: String,
    /// The server in this process, or `None` for a real cluster.
    pub(crate) server: Option<ApiServer>,
    /// The administrator's configuration.
    config: Config,
    runtime: Runtime,
    client: Client,
    /// The tokens of the accounts created so far.
    tokens: Mutex<BTreeMap<Role, String>>,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        match env::var_os("EVENTCAST_TEST_KUBECONFIG") {
            None => Self::fake(),
            Some(file) => Self::of_kubeconfig(Path::new(&file)),
        }
    }

    /// Creates a namespace in the cluster that a kubeconfig names.
    pub(crate) fn of_kubeconfig(file: &Path) -> Self {
        Self::with(None, |runtime| {
            let kubeconfig = Kubeconfig::read_from(file).expect("a kubeconfig");
            let options = KubeConfigOptions::default();
            runtime
                .block_on(Config::from_custom_kubeconfig(kubeconfig, &options))
                .expect("a configuration in the kubeconfig")
        })
    }

    /// Starts the server in this process, regardless of the environment, so that a test can check
    /// behaviour that no real server shows on request.
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
        let tokens = Mutex::default();
        let cluster = Self { namespace, server, config, runtime, client, tokens };
        cluster.make_namespace(&cluster.namespace);
        cluster.token(Role::Recorder);
        if let Some(server) = &cluster.server {
            server.take_seen();
        }
        cluster
    }

    /// Returns the server in this process. Panics if the cluster is real.
    pub(crate) fn server(&self) -> &ApiServer {
        self.server.as_ref().expect("not for a real cluster")
    }

    /// Returns the configuration of a client with the documented role.
    pub(crate) fn config(&self) -> Config {
        self.config_as(Role::Recorder)
    }

    pub(crate) fn config_as(&self, role: Role) -> Config {
        let mut config = self.config.clone();
        config.auth_info = token(&self.token(role));
        config
    }

    pub(crate) fn sink(&self) -> KubernetesSink {
        self.sink_as(Role::Recorder)
    }

    pub(crate) fn sink_as(&self, role: Role) -> KubernetesSink {
        KubernetesSink::new(self.config_as(role)).unwrap()
    }

    /// Returns the user name by which the server knows a role's service account.
    pub(crate) fn user(&self, role: Role) -> String {
        let (namespace, name) = self.account(role);
        format!("system:serviceaccount:{namespace}:{name}")
    }

    /// Returns the namespace and the name of a role's account. If a role applies to all namespaces,
    /// its account is in `default`, so that the account outlives the test's namespace.
    fn account(&self, role: Role) -> (&str, String) {
        let name = format!("{role:?}").to_lowercase();
        if role.is_cluster_wide() {
            ("default", format!("{}-{name}", self.namespace))
        } else {
            (&self.namespace, name)
        }
    }

    /// Returns an event about a pod in the namespace.
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

    /// Returns the stored event with this name, or `None` if no such event is stored.
    pub(crate) fn stored(&self, name: &str) -> Option<Event> {
        let path = format!("/api/v1/namespaces/{}/events/{name}", self.namespace);
        let (code, body) = self.ask(Method::GET, &path, &Value::Null);
        (code == 200).then(|| Event::from_json(&body.to_string()).unwrap())
    }

    /// Sends a request as the administrator, and returns the status and the body of the response.
    pub(crate) fn ask(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        self.try_ask(method, path, body).unwrap_or_else(|error| panic!("{path}: {error:?}"))
    }

    fn try_ask(&self, method: Method, path: &str, body: &Value) -> Result<(u16, Value), kube::Error> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(body.into_bytes()).unwrap();
        match self.runtime.block_on(self.client.request_text(request)) {
            Ok(text) => Ok((200, serde_json::from_str(&text).unwrap_or_default())),
            Err(kube::Error::Api(status)) => Ok((status.code, json!(status.message))),
            Err(error) => Err(error),
        }
    }

    #[track_caller]
    fn must(&self, method: Method, path: &str, body: &Value) -> Value {
        let (code, answer) = self.ask(method, path, body);
        assert_eq!(code, 200, "{path}: {answer}");
        answer
    }

    pub(crate) fn make_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.must(Method::POST, "/api/v1/namespaces", &namespace);
    }

    /// Deletes the namespace, which then remains in the terminating state because an object in it
    /// cannot be deleted.
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

    /// Returns a role's token. Creates the role's account if it does not exist yet.
    fn token(&self, role: Role) -> String {
        if role == Role::Stranger {
            return "no-token-of-this-cluster".to_owned();
        }
        let mut tokens = self.tokens.lock().unwrap();
        tokens.entry(role).or_insert_with(|| self.make_account(role)).clone()
    }

    /// Creates a service account with the role's permissions, and returns a token for the account.
    fn make_account(&self, role: Role) -> String {
        let (namespace, name) = self.account(role);
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        self.must(Method::POST, &accounts, &account);
        if let Some([groups, resources, verbs]) = role.rule() {
            let kind = if role.is_cluster_wide() { "ClusterRole" } else { "Role" };
            let rule = json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
            let body = json!({"metadata": {"name": name}, "rules": [rule]});
            self.must(Method::POST, &self.rbac(role, "roles"), &body);
            let body = json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            });
            self.must(Method::POST, &self.rbac(role, "rolebindings"), &body);
        }
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = self.must(Method::POST, &format!("{accounts}/{name}/token"), &request);
        if role.rule().is_some() {
            self.wait_until_it_may(&self.user(role));
        }
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Returns the path of the collection that contains a role, or the role's binding.
    fn rbac(&self, role: Role, collection: &str) -> String {
        if role.is_cluster_wide() {
            format!("{RBAC_PATH}/cluster{collection}")
        } else {
            format!("{RBAC_PATH}/namespaces/{}/{collection}", self.namespace)
        }
    }

    /// Waits until the authorizer knows the user's role, which takes some time.
    fn wait_until_it_may(&self, user: &str) {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "resourceAttributes": {"namespace": self.namespace, "verb": "create", "resource": "events"},
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        until(|| self.must(Method::POST, path, &review)["status"]["allowed"] == true);
    }

    /// Returns the event as if another writer had repeated it, with count 2 and a different
    /// message.
    pub(crate) fn repeat_of(&self, name: &str) -> Event {
        let mut event = self.event(name);
        event.count = 2;
        event.message = Text::from("restarts again");
        event.last_timestamp = Some("2026-11-21T12:05:00Z".parse().unwrap());
        event
    }
}

impl Drop for Cluster {
    /// Deletes everything that the test created in a real cluster. Failures are ignored, because
    /// there may be no server, and the test may have failed for that reason.
    fn drop(&mut self) {
        if self.server.is_some() {
            return;
        }
        let delete = |path: String| drop(self.try_ask(Method::DELETE, &path, &Value::Null));
        let held = format!("/api/v1/namespaces/{}/configmaps/held", self.namespace);
        if let Ok((200, mut map)) = self.try_ask(Method::GET, &held, &Value::Null) {
            map["metadata"]["finalizers"] = json!([]);
            drop(self.try_ask(Method::PUT, &held, &map));
        }
        delete(format!("/api/v1/namespaces/{}", self.namespace));
        // Roles that apply to all namespaces are not deleted with the namespace.
        let Ok(tokens) = self.tokens.lock() else { return };
        for role in tokens.keys().filter(|role| role.is_cluster_wide()) {
            let (namespace, name) = self.account(*role);
            let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
            for path in [self.rbac(*role, "rolebindings"), self.rbac(*role, "roles"), accounts] {
                delete(format!("{path}/{name}"));
            }
        }
    }
}

/// Checks that a call was refused with this kind of error, and that the error's text contains these
/// words.
#[track_caller]
pub(crate) fn refused(answer: Result<Event, SinkError>, kind: SinkErrorKind, words: &[&str]) -> SinkError {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in {error}");
    }
    error
}

fn token(token: &str) -> AuthInfo {
    serde_json::from_value(json!({ "token": token })).unwrap()
}

/// Tests the code path for a real cluster, with the server in this process instead of a real
/// cluster.
#[test]
fn a_kubeconfig_leads_to_its_cluster() {
    let server = ApiServer::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, server.kubeconfig()).unwrap();
    let cluster = Cluster::of_kubeconfig(file.path());
    let stored = cluster.sink().create(&cluster.event("web-0.1")).unwrap();
    assert_eq!(cluster.stored("web-0.1"), Some(stored));
    assert_eq!(server.events().len(), 1);
    // The sink has the documented role in its namespace, and no other permissions.
    let mut elsewhere = cluster.event("web-0.2");
    elsewhere.metadata.namespace = "default".into();
    elsewhere.involved_object.namespace = "default".into();
    let refused = cluster.sink().create(&elsewhere).unwrap_err().to_string();
    assert!(refused.contains("cannot create resource \"events\""), "{refused}");
    cluster.sink_as(Role::Everywhere).create(&elsewhere).unwrap();
}

#[test]
fn the_role_of_the_tests_is_the_documented_one() {
    let document = include_str!("../../../../docs/kubernetes.md");
    let [groups, resources, verbs] = Role::Recorder.rule().unwrap();
    let rule = format!("apiGroups: {groups:?}\n    resources: {resources:?}\n    verbs: {verbs:?}\n");
    assert!(document.contains(&format!("rules:\n  - {rule}")), "{rule}");
}
