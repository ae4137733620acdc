//! The phrases that the measurement counts.

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::rust::TestForms;

/// A phrase's short name, its regular expression, and what to write instead.
///
/// A phrase is only a hint, because native writers sometimes use these phrases as well. Only the
/// share of all sentences matters.
type Phrase = (&'static str, &'static str, &'static str);

/// Phrases that other Rust libraries almost never use.
pub(crate) const PHRASES: [Phrase; 28] = [
    ("room", r"\b(room|makes? room|made room|making room)\b", "capacity, space; evicts"),
    (
        "give up",
        r"\bg(?:ive|ives|ave|iven|iving) (?:\w+ ){0,3}up\b",
        "drops, abandons (the bus's term), stops retrying",
    ),
    (
        "nobody",
        r"\b(nobody|somebody|everybody|anybody|whoever|no one|everyone)\b",
        "name the thread, type or caller",
    ),
    ("stands for", r"\bst(?:ands?|ood|anding) for\b", "represents; an aggregate event"),
    ("behind", r"\bbehind\b", "after; later in the queue"),
    ("moment", r"\bmoments?\b", "time, instant; or nothing"),
    ("says", r"\b(says?|said|saying)\b", "specifies, returns, indicates, documents"),
    ("comes", r"\b(comes?|came|coming)\b", "arrives, is received, is published, follows"),
    ("that of", r"\b(that of|those of|the one (?:that|which|of|before)|the other one)\b", "repeat the noun"),
    ("as X does", r"\bas (?:\S+ ){1,3}(?:does|do|did|says)\b", "like X; see X"),
    ("goes on", r"\b(?:go(?:es)?|going|went) on\b", "continues"),
    (
        "told",
        r"\b(?:is|are|be|been|was|were|has|have) told\b|\btells?\b|\b(?:hears?|heard|learns?|learned|learnt) of\b",
        "is notified, reports, receives, shows",
    ),
    ("answers for", r"\banswers? for\b", "is responsible for"),
    (
        "of the user's",
        r"\bof (?:the user's|yours|mine|its own|their own|one's own)\b",
        "user-supplied, your, its",
    ),
    ("for ever", r"\bfor ever\b", "forever, indefinitely"),
    ("texts", r"\btexts\b", "strings, messages"),
    (
        "forgets",
        r"\b(?:forg[eo]t(?:s|ten)?|remembers?|remembered)\b",
        "evicts; caches, stores (not of a person)",
    ),
    ("meanwhile", r"\bmeanwhile\b", "nothing; concurrently; until then"),
    ("lies", r"\blies?\b", "is, is in"),
    (
        "looks",
        r"\b(?:a|the|one|last|second|first|next|another|each) looks?\b|\blooks? (?:at|into|once|again)\b",
        "check, poll, inspects",
    ),
    ("held up", r"\b(?:held|hold|holds|holding) (?:up|back)\b", "blocks, delays"),
    ("by itself", r"\b(?:by itself|of itself|by themselves)\b", "automatically; alone"),
    ("what is", r"(?:^|[,;:] )what (?:is|was|has|had|comes|waits|follows|it)\b", "name the thing"),
    ("at once", r"\bat once\b", "immediately; at the same time"),
    (
        "seldom",
        r"\b(?:seldom|as a rule|now and then|in place of|of late)\b",
        "rarely, usually, sometimes, instead of",
    ),
    ("one after", r"\bone (?:after|behind) the other\b", "sequentially"),
    ("any more", r"\bthere (?:again|any more)\b|\bany more\b", "no longer, any longer"),
    (
        "stays away",
        r"\b(?:stays?|stayed|keeps?) away\b|\bis away\b|\bbe away\b",
        "is unavailable, is not reading, is offline",
    ),
];

/// The phrases, compiled to regular expressions.
pub(crate) struct Patterns {
    all: RegexSet,
    each: Vec<Regex>,
    pub(crate) tests: TestForms,
}

impl Patterns {
    /// Compiles the phrases. Matching is case-insensitive, and only ASCII letters count as letters.
    pub(crate) fn new() -> Result<Self, regex::Error> {
        let sources = PHRASES.map(|(_, source, _)| source);
        let compile = |source: &str| RegexBuilder::new(source).unicode(false).case_insensitive(true).build();
        Ok(Self {
            all: RegexSetBuilder::new(sources).unicode(false).case_insensitive(true).build()?,
            each: sources.into_iter().map(compile).collect::<Result<_, _>>()?,
            tests: TestForms::new()?,
        })
    }

    /// Returns the phrases in the text, each as its index in [`PHRASES`] and the offset of its
    /// first use.
    pub(crate) fn find(&self, text: &str) -> Vec<(usize, usize)> {
        let found = self.all.matches(text.as_bytes()).into_iter();
        found.filter_map(|phrase| Some((phrase, self.each[phrase].find(text.as_bytes())?.start()))).collect()
    }
}
