//! Strings, and the text form of references.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use eventcast::{EventType, ObjectReference, Text};

#[test]
fn text_is_made_of_every_kind_of_string() {
    let long = "more than what fits into the value itself";
    let shared: Arc<str> = Arc::from(long);
    let texts = [
        Text::from(long),
        Text::from(long.to_owned()),
        Text::from(shared.clone()),
        Text::from(Cow::Borrowed(long)),
        Text::from(Cow::<'static, str>::Owned(long.to_owned())),
        Text::from(format_args!("more than {} the value itself", "what fits into")),
        Text::from_static(long),
        Text::from(&long.to_owned()),
        Text::from(long.to_owned().as_str()),
    ];
    assert_eq!(Text::from('ß'), "ß");
    for text in &texts {
        assert_eq!(text, long);
        assert_eq!(*text, texts[0]);
        assert_eq!(text.to_string(), long);
        assert_eq!(format!("{text:?}"), format!("{long:?}"));
    }
    // A literal passed to `from_static` stays at the same address, even after cloning. The same
    // holds for text in an `Arc`.
    assert_eq!(Text::from_static(long).clone().as_ptr(), long.as_ptr());
    assert_eq!(Text::from(format_args!("a literal")), "a literal");
    assert_eq!(texts[2].clone().as_ptr(), shared.as_ptr());
    assert_eq!(String::from(texts[1].clone()), long);
}

#[test]
fn text_is_looked_up_by_str() {
    let hasher = RandomState::new();
    assert_eq!(hasher.hash_one(Text::from("pod")), hasher.hash_one("pod"));
    let map = HashMap::from([(Text::from("pod".to_owned()), 1)]);
    assert_eq!(map.get("pod"), Some(&1));
    let (a, b) = (Text::from("a"), Text::from("b".to_owned()));
    assert!(a < b);
    assert_eq!(format!("{:>5}|{:.1}", Text::from("pod"), Text::from("pod")), "  pod|p");
}

#[test]
fn a_text_is_compared_with_every_string_type_in_both_directions() {
    let (text, owned) = (Text::from("pod"), "pod".to_owned());
    assert!(text == *"pod" && text == "pod" && text == owned);
    assert!(*"pod" == text && "pod" == text && owned == text);
    assert!(text != *"pods" && text != "pods" && text != format!("{owned}s"));
    assert!(*"pods" != text && "pods" != text && format!("{owned}s") != text);
}

#[test]
fn a_pair_becomes_a_reference_with_that_kind_and_name() {
    let pod = ObjectReference::new("Pod", "web-0");
    assert_eq!(ObjectReference::from(("Pod", "web-0")), pod);
    assert_eq!(ObjectReference::from((Text::from("Pod"), format!("web-{}", 0))), pod);
}

#[test]
fn a_reference_shows_what_it_has_and_nothing_that_controls_a_terminal() {
    assert_eq!(ObjectReference::new("Node", "n\r1").to_string(), r"Node/n\r1");
    assert_eq!(ObjectReference::default().to_string(), "");
}

#[test]
fn a_reference_is_read_from_its_text() {
    let pod = ObjectReference::new("Pod", "web-0").in_namespace("default");
    assert_eq!("Pod/default/web-0".parse(), Ok(pod.clone()));
    assert_eq!("Node/n 1".parse(), Ok(ObjectReference::new("Node", "n 1")));
    // A slash in a name cannot be distinguished from the separator between namespace and name.
    let disk = ObjectReference::new("Disk", "dev/sda");
    assert_eq!(disk.to_string().parse(), Ok(ObjectReference::new("Disk", "sda").in_namespace("dev")));
    let long = "x".repeat(100);
    for text in [
        "",
        "/",
        "Pod",
        "Pod/",
        "/web-0",
        "Pod//web-0",
        "Pod/default/",
        "Disk//dev/sda",
        "Pod/default/web-0/log",
        "Pod/a\\nb",
        "Pod/a\nb",
        "Pod/\u{1b}[2J",
        "Pod/web\u{200b}",
        &long,
    ] {
        let error = text.parse::<ObjectReference>().unwrap_err().to_string();
        let (shown, _) = error.strip_prefix("invalid reference `").unwrap().split_once('`').unwrap();
        assert!(shown.chars().count() <= 64 && !shown.contains(char::is_control), "{error}");
    }
    let set = HashSet::from([pod.clone(), "Pod/default/web-0".parse().unwrap()]);
    assert_eq!(set.len(), 1);
    assert!(HashSet::from([EventType::Normal]).contains(&"Normal".parse().unwrap()));
}
