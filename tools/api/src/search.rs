//! The words that rustdoc's search has to find, from rustdoc's JSON: the names of the public items,
//! and their aliases.
//!
//! An alias on a type in a private module is also in the JSON, but the search does not find it. The
//! search finds the aliases on the `pub use` that re-exports the type.

use std::collections::HashSet;

use serde_json::Value;

/// Words that people type when they search for what the library offers, one per line.
const WORDS: &str = include_str!("../../../docs/search-words.txt");

/// The places in an item where its children are listed.
const CHILDREN: [&str; 8] = [
    "/inner/module/items",
    "/inner/struct/impls",
    "/inner/struct/kind/plain/fields",
    "/inner/enum/impls",
    "/inner/enum/variants",
    "/inner/variant/kind/struct/fields",
    "/inner/trait/items",
    "/inner/impl/items",
];

/// Returns the words that the search does not find.
pub(crate) fn missing(json: &Value) -> Vec<&'static str> {
    let mut found = Found::default();
    found.add(json, &json["root"]);
    WORDS.lines().filter(|word| !found.has(word)).collect()
}

/// The names and the aliases that the search has, as it compares them.
#[derive(Default)]
struct Found {
    names: Vec<String>,
    seen: HashSet<String>,
}

impl Found {
    /// Adds an item with everything in it.
    fn add(&mut self, json: &Value, id: &Value) {
        let Some(item) = json["index"].get(id.to_string()) else { return };
        if let Some(name) = item["name"].as_str().or(item["inner"]["use"]["name"].as_str()) {
            self.names.push(normal(name));
        }
        let attributes = item["attrs"].as_array().into_iter().flatten();
        let attributes = attributes.filter_map(|attribute| attribute["other"].as_str());
        self.names.extend(attributes.flat_map(aliases).map(normal));
        self.add_children(json, item);
        if let Some(shown) = item.pointer("/inner/use/id").map(Value::to_string)
            && self.seen.insert(shown.clone())
            && let Some(shown) = json["index"].get(shown)
        {
            self.add_children(json, shown);
        }
    }

    fn add_children(&mut self, json: &Value, item: &Value) {
        // The methods of a trait have their names from the trait.
        if item.pointer("/inner/impl/trait").is_some_and(|of| !of.is_null()) {
            return;
        }
        let children = CHILDREN.iter().filter_map(|place| item.pointer(place)?.as_array()).flatten();
        children.for_each(|child| self.add(json, child));
    }

    /// Returns whether the search finds a word: as a whole name, or as a part of a name if the word
    /// has no blank or slash.
    fn has(&self, word: &str) -> bool {
        let word = normal(word);
        let is_single = !word.contains([' ', '/', '-']);
        self.names.iter().any(|name| *name == word || is_single && name.contains(&word))
    }
}

/// Returns a name as the search compares it.
fn normal(name: &str) -> String {
    name.to_lowercase().replace('_', "")
}

/// Returns the aliases of an attribute, such as `#[doc(alias = "Sender")]`.
fn aliases(attribute: &str) -> Vec<&str> {
    match attribute.split_once("doc(alias") {
        Some((_, aliases)) => aliases.split('"').skip(1).step_by(2).collect(),
        None => Vec::new(),
    }
}
