//! Extracts the prose and the test names from a Rust file.

use regex::Regex;

/// Markdown text, with the line number in the file for each of its lines.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    pub(crate) text: String,
    pub(crate) lines: Vec<usize>,
}

impl Passage {
    pub(crate) fn push(&mut self, text: &str, line: usize) {
        for (i, text) in text.split('\n').enumerate() {
            self.text.push_str(text);
            self.text.push('\n');
            self.lines.push(line + i);
        }
    }
}

/// The comments, documentation and documentation attributes in a file, and the file's code. In the
/// code, the comments, the documentation, the documentation attributes and the contents of all
/// literals are replaced with spaces of the same length.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) passages: Vec<Passage>,
    code: String,
    line: usize,
    /// The line number and the slashes of the last comment that begins a line.
    last: Option<(usize, &'static str)>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let mut source = Self { line: 1, ..Self::default() };
        let mut rest = text;
        while let Some(start) = rest.find(['/', '"', '\'']) {
            source.keep(&rest[..start]);
            rest = &rest[start..];
            let length = match rest.as_bytes() {
                [b'/', b'/', ..] => source.comment(rest),
                [b'/', b'*', ..] => source.block_comment(rest),
                [b'"', ..] => source.literal(rest),
                [b'\'', ..] => character_length(rest),
                _ => 0,
            };
            let length = if length > 0 {
                let blanks = |c| if c == '\n' { '\n' } else { ' ' };
                source.keep(&rest[..length].chars().map(blanks).collect::<String>());
                length
            } else {
                source.keep(&rest[..1]);
                1
            };
            rest = &rest[length..];
        }
        source.keep(rest);
        source
    }

    fn keep(&mut self, code: &str) {
        self.code.push_str(code);
        self.line += code.matches('\n').count();
    }

    /// Reads a comment and returns its length. The comment continues the previous comment if both
    /// comments are of the same kind.
    fn comment(&mut self, rest: &str) -> usize {
        let text = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let mark = ["////", "///", "//!", "//"].into_iter().find(|mark| text.starts_with(mark)).unwrap();
        let kind = if mark == "////" { "//" } else { mark };
        let is_alone = self.code.rsplit('\n').next().is_some_and(|before| before.trim().is_empty());
        if !is_alone || self.last != Some((self.line - 1, kind)) {
            self.passages.push(Passage::default());
        }
        self.last = is_alone.then_some((self.line, kind));
        let prose = &text[mark.len()..];
        // Only documentation can contain indented code blocks.
        let prose = if kind == "//" { prose.trim() } else { prose.strip_prefix(' ').unwrap_or(prose) };
        self.passages.last_mut().unwrap().push(prose, self.line);
        text.len()
    }

    /// Reads a block comment, which may contain other block comments. Returns its length.
    fn block_comment(&mut self, rest: &str) -> usize {
        let (mut depth, mut length) = (1_usize, 2);
        while depth > 0 && length < rest.len() {
            let (step, change) = match &rest.as_bytes()[length..] {
                [b'/', b'*', ..] => (2, 1),
                [b'*', b'/', ..] => (2, -1),
                _ => (1, 0),
            };
            (length, depth) = (length + step, depth.saturating_add_signed(change));
        }
        let mut passage = Passage::default();
        for (i, line) in rest[..length].lines().enumerate() {
            passage.push(line.trim().trim_matches(['/', '*', '!']).trim(), self.line + i);
        }
        self.passages.push(passage);
        length
    }

    /// Reads a string literal, which is prose if it is in a documentation attribute. Returns its
    /// length.
    fn literal(&mut self, rest: &str) -> usize {
        let before = self.code.trim_end_matches('#');
        let end = format!("\"{}", "#".repeat(self.code.len() - before.len()));
        let prefix = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
        let is_raw = matches!(prefix, Some("r" | "br" | "cr"));
        let length =
            if is_raw { rest[1..].find(&end).map(|i| i + end.len()) } else { quoted_length(&rest[1..]) };
        let length = length.map_or(rest.len(), |length| length + 1);
        let text = &rest[1..length - if is_raw { end.len() } else { 1 }];
        let before = before.strip_suffix('r').unwrap_or(before).trim_end();
        let attribute = before.rfind("#[").max(before.rfind("#![")).map_or("", |start| &before[start..]);
        let is_open = attribute.matches('[').count() > attribute.matches(']').count();
        if is_open && (attribute.ends_with("doc =") || attribute.contains("doc = concat!(")) {
            let mut passage = Passage::default();
            // An escaped newline is the only escape that matters for prose.
            passage.push(&if is_raw { text.to_owned() } else { text.replace("\\\n", "\n") }, self.line);
            self.passages.push(passage);
        }
        length
    }

    /// Returns the line number and the name of each test.
    pub(crate) fn test_names(&self, forms: &TestForms) -> Vec<(usize, &str)> {
        let line = |start: usize| self.code[..start].matches('\n').count() + 1;
        let functions = forms.functions.iter().flat_map(|form| form.captures_iter(&self.code));
        let named = functions.filter_map(|found| found.get(1));
        let mut names: Vec<_> = named.map(|name| (line(name.start()), name.as_str())).collect();
        for list in forms.lists.captures_iter(&self.code).filter_map(|found| found.get(1)) {
            let found = forms.last_words.captures_iter(list.as_str()).filter_map(|found| found.get(1));
            names.extend(found.map(|name| (line(list.start() + name.start()), name.as_str())));
        }
        names
    }
}

/// The forms in which tests can be declared.
pub(crate) struct TestForms {
    functions: [Regex; 2],
    lists: Regex,
    last_words: Regex,
}

impl TestForms {
    pub(crate) fn new() -> Result<Self, regex::Error> {
        let functions = [
            Regex::new(r"#\[(?:\w+::)*test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub )?(?:async )?fn (\w+)")?,
            // This form matches a function in `on_every_executor!`.
            Regex::new(r"async fn (\w+)\(executor\)")?,
        ];
        let lists = Regex::new(r"\b(?:models|tests)!\s*[\[({]([\w\s:,]*)")?;
        Ok(Self { functions, lists, last_words: Regex::new(r"(\w+)\s*(?:,|$)")? })
    }
}

/// Returns the length of a string's contents including the closing quotation mark.
fn quoted_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.map(|end| end + 1)
}

/// Returns the length of a character literal, or 0 for a lifetime.
fn character_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        // The escaped character may be a quotation mark.
        (Some((_, '\\')), _) => chars.find(|(_, c)| *c == '\'').map_or(0, |(end, _)| end + 1),
        (_, Some((end, '\''))) => end + 1,
        _ => 0,
    }
}
