//! Splits Markdown into sentences.

use std::ops::Range;

use pulldown_cmark::{BrokenLink, Event, Options, Parser, Tag, TagEnd};

use crate::rust::Passage;

/// The placeholder for inline code without a space.
const CODE: &str = "X";

/// A paragraph, heading or table cell without its markup. `lines` contains the offset at which each
/// line begins, with the line number in the file. `codes` contains the offsets of inline code.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) text: String,
    lines: Vec<(usize, usize)>,
    codes: Vec<usize>,
}

impl Block {
    /// Returns the line number in the file that corresponds to an offset.
    pub(crate) fn line(&self, offset: usize) -> usize {
        let next = self.lines.partition_point(|(start, _)| *start <= offset);
        self.lines[next.saturating_sub(1)].1
    }

    /// Returns the range of each sentence in the text.
    pub(crate) fn sentences(&self) -> Vec<Range<usize>> {
        let (mut sentences, mut start, mut ends) = (Vec::new(), 0, false);
        for (i, c) in self.text.char_indices() {
            let begins = c.is_ascii_uppercase() || c.is_ascii_digit() || c == '"' || self.codes.contains(&i);
            if begins && ends && self.text[..i].ends_with(char::is_whitespace) {
                sentences.push(start..i);
                start = i;
            }
            ends = matches!(c, '.' | '!' | '?') || (ends && c.is_whitespace());
        }
        sentences.push(start..self.text.len());
        sentences
    }
}

/// Returns the paragraphs, headings and table cells in a passage, without its code blocks.
pub(crate) fn blocks(passage: &Passage) -> Vec<Block> {
    let starts: Vec<usize> =
        [0].into_iter().chain(passage.text.match_indices('\n').map(|(i, _)| i + 1)).collect();
    let line_of = |offset: usize| {
        let line = starts.partition_point(|start| *start <= offset) - 1;
        passage.lines[line.min(passage.lines.len() - 1)]
    };
    let (mut blocks, mut block, mut in_code) = (Vec::new(), Block::default(), false);
    // Rustdoc resolves links that Markdown alone does not.
    let mut resolve = |_: BrokenLink<'_>| Some(("".into(), "".into()));
    let options = Options::ENABLE_TABLES;
    let events = Parser::new_with_broken_link_callback(&passage.text, options, Some(&mut resolve));
    for (event, range) in events.into_offset_iter() {
        let piece = match &event {
            Event::Text(text) if !in_code => text,
            Event::Code(code) if code.contains(char::is_whitespace) => code,
            Event::Code(_) => CODE,
            Event::SoftBreak | Event::HardBreak => " ",
            Event::Start(tag) if is_inline(tag.to_end()) => continue,
            Event::End(tag) if is_inline(*tag) => continue,
            Event::Start(_) | Event::End(_) => {
                in_code = matches!(event, Event::Start(Tag::CodeBlock(_)));
                blocks.push(std::mem::take(&mut block));
                continue;
            }
            _ => continue,
        };
        if matches!(event, Event::Code(_)) {
            block.codes.push(block.text.len());
        }
        block.lines.push((block.text.len(), line_of(range.start)));
        block.text.push_str(piece);
    }
    blocks.push(block);
    blocks.retain(|block| !block.lines.is_empty());
    blocks
}

fn is_inline(tag: TagEnd) -> bool {
    matches!(tag, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

/// Returns whether text without a private phrase counts as a sentence, which requires at least two
/// words that are not code.
pub(crate) fn is_sentence(text: &str) -> bool {
    let is_word = |word: &&str| {
        word.trim_matches(|c: char| !c.is_alphanumeric()) != CODE && word.contains(char::is_alphabetic)
    };
    text.split_whitespace().filter(is_word).count() > 1
}
