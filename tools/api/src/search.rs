//! Checks that rustdoc's search finds certain words. The check reads the names and aliases of the
//! public items from rustdoc's JSON.
//!
//! An alias on a type in a private module is also in the JSON, but the search does not find that
//! alias. The search finds only aliases on the `pub use` that re-exports the type.

use std::collections::HashSet;

use serde_json::Value;

/// Words that people search for when they look for the library's features, one per line.
const WORDS: &str = include_str!("../../../docs/search-words.txt");

/// The JSON paths at which an item lists its children.
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

/// The names and aliases in the search index, in the normalised form that the search uses for
/// comparisons.
#[derive(Default)]
struct Found {
    names: Vec<String>,
    seen: HashSet<String>,
}

impl Found {
    /// Adds an item and all items inside it.
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
        // Skips trait implementations, because the trait defines the names of their methods.
        if item.pointer("/inner/impl/trait").is_some_and(|of| !of.is_null()) {
            return;
        }
        let children = CHILDREN.iter().filter_map(|place| item.pointer(place)?.as_array()).flatten();
        children.for_each(|child| self.add(json, child));
    }

    /// Returns whether the search finds a word, either as a whole name or, if the word does not
    /// contain a space, slash or hyphen, as a part of a name.
    fn has(&self, word: &str) -> bool {
        let word = normal(word);
        let is_single = !word.contains([' ', '/', '-']);
        self.names.iter().any(|name| *name == word || is_single && name.contains(&word))
    }
}

/// Returns a name in the normalised form that the search uses for comparisons.
fn normal(name: &str) -> String {
    name.to_lowercase().replace('_', "")
}

/// Returns the aliases in an attribute, such as `#[doc(alias = "Sender")]`.
fn aliases(attribute: &str) -> Vec<&str> {
    match attribute.split_once("doc(alias") {
        Some((_, aliases)) => aliases.split('"').skip(1).step_by(2).collect(),
        None => Vec::new(),
    }
}
