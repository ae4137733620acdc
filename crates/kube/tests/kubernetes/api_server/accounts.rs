//! Service accounts with their tokens, roles, and the bindings between roles and accounts.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Value, json};

use super::status::{self, Answer};

/// The prefix of the paths of roles and bindings.
const RBAC: [&str; 3] = ["apis", "rbac.authorization.k8s.io", "v1"];

/// A service account.
#[derive(Debug)]
pub(super) struct Account {
    namespace: String,
    name: String,
}

impl Account {
    /// Returns the account's user name, which is long.
    pub(super) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// An action for which an account needs permission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'r> {
    pub(super) verb: &'r str,
    pub(super) group: &'r str,
    pub(super) resource: &'r str,
    pub(super) namespace: &'r str,
}

/// A server's accounts, roles and bindings.
#[derive(Default)]
pub(super) struct Accounts {
    /// The objects, keyed by collection (such as `roles`), by namespace, and by name. The namespace
    /// of a cluster-wide object is an empty string.
    objects: BTreeMap<(String, String, String), Value>,
}

impl Accounts {
    /// Returns the account to which a token belongs.
    pub(super) fn of_token(&self, token: &str) -> Option<Account> {
        let (namespace, name) = token.strip_prefix("token-of:")?.split_once(':')?;
        self.get("serviceaccounts", namespace, name)?;
        Some(Account { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    fn get(&self, collection: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(collection.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    /// Returns whether a role bound to the account permits the request.
    pub(super) fn may(&self, account: &Account, request: &Request<'_>) -> bool {
        let applies = |collection: &str, namespace: &str| match collection {
            "clusterrolebindings" => true,
            "rolebindings" => namespace == request.namespace,
            _ => false,
        };
        let bindings = self.objects.iter().filter(|((kind, namespace, _), _)| applies(kind, namespace));
        bindings.filter(|(_, binding)| is_bound(binding, account)).any(|((_, namespace, _), binding)| {
            let role = &binding["roleRef"];
            let name = role["name"].as_str().unwrap_or_default();
            let role = match role["kind"].as_str() {
                Some("ClusterRole") => self.get("clusterroles", "", name),
                _ => self.get("roles", namespace, name),
            };
            role.is_some_and(|role| allows(role, request))
        })
    }

    /// Returns the response to a request about accounts, roles or bindings, or `None` if the path
    /// refers to something else.
    pub(super) fn answer(&mut self, method: &Method, path: &[&str], body: &[u8]) -> Option<Answer> {
        let (namespace, rest) = match *path {
            ["api", "v1", "namespaces", namespace, ref rest @ ..] => (namespace, rest),
            [a, b, c, "namespaces", namespace, ref rest @ ..] if [a, b, c] == RBAC => (namespace, rest),
            [a, b, c, ref rest @ ..] if [a, b, c] == RBAC => ("", rest),
            ["apis", "authorization.k8s.io", "v1", "subjectaccessreviews"] => {
                return Some(self.review(body));
            }
            _ => return None,
        };
        let (collection, name, part) = match *rest {
            [collection] => (collection, "", ""),
            [collection, name] => (collection, name, ""),
            [collection, name, part] => (collection, name, part),
            _ => return None,
        };
        let collections = ["serviceaccounts", "roles", "rolebindings", "clusterroles", "clusterrolebindings"];
        if !collections.contains(&collection) {
            return None;
        }
        let key = |name: &str| (collection.to_owned(), namespace.to_owned(), name.to_owned());
        Some(match (method.as_str(), part) {
            ("POST", "token") if self.objects.contains_key(&key(name)) => {
                Answer::new(201, json!({"status": {"token": format!("token-of:{namespace}:{name}")}}))
            }
            ("POST", "") => {
                let object: Value = serde_json::from_slice(body).unwrap_or_default();
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                if self.objects.contains_key(&key(name)) {
                    return Some(status::already_exists(collection, name));
                }
                self.objects.insert(key(name), object.clone());
                Answer::new(201, object)
            }
            ("DELETE", "") if self.objects.remove(&key(name)).is_some() => Answer::new(200, json!({})),
            _ => status::not_found(collection, name),
        })
    }

    /// Returns the response to a query about whether an account is permitted to do something.
    fn review(&self, body: &[u8]) -> Answer {
        let review: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        let asked = &review["spec"]["resourceAttributes"];
        let [verb, group, resource, namespace] =
            ["verb", "group", "resource", "namespace"].map(|field| text(&asked[field]));
        let user = text(&review["spec"]["user"]);
        let account = user.strip_prefix("system:serviceaccount:").and_then(|user| user.split_once(':'));
        let is_allowed = account.is_some_and(|(of, name)| {
            let account = Account { namespace: of.to_owned(), name: name.to_owned() };
            let request = Request { verb: &verb, group: &group, resource: &resource, namespace: &namespace };
            self.may(&account, &request)
        });
        Answer::new(201, json!({"status": {"allowed": is_allowed}}))
    }
}

fn is_bound(binding: &Value, account: &Account) -> bool {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    subjects.into_iter().any(|subject| {
        subject["kind"] == "ServiceAccount"
            && subject["namespace"] == account.namespace.as_str()
            && subject["name"] == account.name.as_str()
    })
}

fn allows(role: &Value, request: &Request<'_>) -> bool {
    let has = |list: &Value, word: &str| list.as_array().is_some_and(|list| list.contains(&json!(word)));
    role["rules"].as_array().into_iter().flatten().any(|rule| {
        has(&rule["apiGroups"], request.group)
            && has(&rule["resources"], request.resource)
            && has(&rule["verbs"], request.verb)
    })
}
