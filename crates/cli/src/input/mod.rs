//! Reads events from files and pipes for all commands that process existing events.
//!
//! The library parses JSON. This module adds input sources, decoding, YAML, and a summary of the
//! problems that were found.

mod decode;
mod problems;
mod source;
mod yaml;
mod yaml_value;

use std::io::{self, BufRead};

use eventcast::event::{EventReader, ReadEvent};

pub(crate) use problems::{Problem, Problems, Reason};
pub(crate) use source::Source;

/// Calls `found` for each event and each problem. Returns an error if nothing at all can be read,
/// or if another program must decompress the input first.
pub(crate) fn read(
    reader: Box<dyn BufRead>,
    mut found: impl FnMut(Result<ReadEvent, Problem>),
) -> io::Result<()> {
    let (head, reader) = decode::peek(decode::decoded(reader)?, yaml::HEAD)?;
    if yaml::is_yaml(&head) {
        return yaml::read(reader, &mut found);
    }
    EventReader::new(reader).for_each(|event| found(event.map_err(Problem::from)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::read;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::fs;
    use std::io::{BufReader, Cursor, Write as _};

    /// Returns sample inputs in every format and encoding.
    fn forms() -> Vec<Vec<u8>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let mut forms: Vec<Vec<u8>> = paths.into_iter().map(|path| fs::read(path).unwrap()).collect();
        // Larger inputs do not add any formats, and would only make the test slower.
        forms.retain(|form| form.len() < 10_000);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&forms[0]).unwrap();
        forms.push(encoder.finish().unwrap());
        forms.push(b"- reason: a\n  message: >-\n    b\n\n    c\n- {reason: \"d\\n\", count: 0x1}\n---\na: &a [1]\nitems: [*a, *a]\n".to_vec());
        forms
    }

    fn mutated() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop::sample::select(vec![
            &b"{"[..],
            b"}",
            b"[",
            b"]",
            b"\"",
            b"\\",
            b",",
            b":",
            b": ",
            b"\n",
            b"\n---\n",
            b"- ",
            b"  ",
            b"\t",
            b"|\n",
            b"&a ",
            b"*a",
            b"!!binary ",
            b"<<: ",
            b"%",
            b"#",
            b"'",
            b"~",
            b"\0",
            b"\xff",
            b"\xff\xfe",
            b"\x1f\x8b",
            b"1e999",
        ]);
        let edit = (any::<prop::sample::Index>(), 0..6_usize, pieces);
        (prop::sample::select(forms()), prop::collection::vec(edit, 0..8)).prop_map(|(mut bytes, edits)| {
            for (place, removed, piece) in edits {
                let at = place.index(bytes.len() + 1);
                let end = (at + removed).min(bytes.len());
                bytes.splice(at..end, piece.iter().copied());
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        /// Every mutated input is read to its end without a panic, and no message contains control
        /// characters.
        #[test]
        fn no_input_panics(input in mutated()) {
            let len = input.len();
            let mut found = 0;
            let result = read(Box::new(BufReader::new(Cursor::new(input))), |event| {
                found += 1;
                if let Err(problem) = event {
                    assert!(!problem.text.contains(|c: char| c.is_control()), "{}", problem.text);
                }
            });
            prop_assert!(result.is_ok() || found == 0);
            // The decompressed input can be larger than the input itself.
            prop_assert!(found <= 1000 * (len + 1));
        }
    }
}
