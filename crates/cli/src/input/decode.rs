//! Decodes gzip and UTF-16.

use std::io::{self, BufRead, BufReader, Cursor, Read as _};

use encoding_rs_io::DecodeReaderBytes;
use flate2::bufread::MultiGzDecoder;

/// The magic bytes of compressed formats that another program must decompress, each with the
/// command that decompresses the format.
const COMPRESSED: [(&[u8], &str); 4] = [
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"\xfd7zXZ", "xz -dc"),
    (b"BZh", "bzip2 -dc"),
    (b"PK\x03\x04", "unzip -p"),
];

/// The maximum number of compression layers. Some archives compress logs that are already
/// compressed, and a file can be crafted that decompresses to itself endlessly.
const MAX_LAYERS: usize = 4;

/// Decodes gzip and UTF-16, which this function recognizes by their first bytes. Any other input is
/// passed through unchanged.
pub(crate) fn decoded(mut reader: Box<dyn BufRead>) -> io::Result<Box<dyn BufRead>> {
    for _ in 0..=MAX_LAYERS {
        let (head, rest) = peek(reader, 5)?;
        if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
            return Ok(Box::new(BufReader::new(DecodeReaderBytes::new(rest))));
        }
        if let Some((_, program)) = COMPRESSED.iter().find(|(magic, _)| head.starts_with(magic)) {
            let text = format!(
                "the input is compressed: decompress it first, as with '{program} FILE | eventcast ...'"
            );
            return Err(io::Error::other(text));
        }
        if !head.starts_with(b"\x1f\x8b") {
            return Ok(rest);
        }
        // A gzip file can consist of several members, for example after `cat a.gz b.gz`.
        reader = Box::new(BufReader::new(MultiGzDecoder::new(rest)));
    }
    let text = format!(
        "the input is compressed more than {MAX_LAYERS} times: decompress it first, as with 'gzip -dc'"
    );
    Err(io::Error::other(text))
}

/// Returns up to `len` bytes from the beginning of the input, and a reader that returns the whole
/// input.
pub(crate) fn peek(mut reader: Box<dyn BufRead>, len: usize) -> io::Result<(Vec<u8>, Box<dyn BufRead>)> {
    let mut head = Vec::new();
    let is_broken = reader.by_ref().take(len as u64).read_to_end(&mut head);
    match is_broken {
        // If some bytes were read, the error occurs again when the input is read past these bytes.
        Err(error) if head.is_empty() => return Err(error),
        _ => {}
    }
    Ok((head.clone(), Box::new(Cursor::new(head).chain(reader))))
}

#[cfg(test)]
mod tests {
    use super::decoded;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::{BufReader, Read as _, Write as _};

    fn text(bytes: Vec<u8>) -> std::io::Result<String> {
        let mut text = String::new();
        // Reads one byte at a time, as if from a pipe.
        decoded(Box::new(BufReader::with_capacity(1, std::io::Cursor::new(bytes))))?
            .read_to_string(&mut text)?;
        Ok(text)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn utf16(text: &str, is_little: bool) -> Vec<u8> {
        let bytes = |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
        format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn every_encoding_gives_the_same_text() {
        let expected = "{\"reason\": \"é 起動 \u{1f600}\"}\n";
        for bytes in [
            expected.as_bytes().to_vec(),
            utf16(expected, true),
            utf16(expected, false),
            gzip(expected.as_bytes()),
            gzip(&gzip(&utf16(expected, true))),
            [gzip(&expected.as_bytes()[..9]), gzip(&expected.as_bytes()[9..])].concat(),
        ] {
            assert_eq!(text(bytes).unwrap(), expected);
        }
        assert_eq!(text(Vec::new()).unwrap(), "");
        assert_eq!(text(b"{".to_vec()).unwrap(), "{");
    }

    #[test]
    fn what_others_must_decompress_is_named() {
        let error = text(b"\x28\xb5\x2f\xfd\0\0".to_vec()).unwrap_err();
        assert!(error.to_string().contains("decompress it first, as with 'zstd -dc FILE |"), "{error}");
    }

    #[test]
    fn an_input_that_is_compressed_again_and_again_is_an_error() {
        let layers = |count| (0..count).fold(b"{}".to_vec(), |bytes, _| gzip(&bytes));
        assert_eq!(text(layers(4)).unwrap(), "{}");
        for count in [5, 50] {
            let error = text(layers(count)).unwrap_err();
            assert!(
                error.to_string().starts_with("the input is compressed more than 4 times: decompress"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_truncated_compressed_file_is_an_error_after_its_events() {
        let whole = gzip("{}\n".repeat(20_000).as_bytes());
        let mut reader = decoded(Box::new(std::io::Cursor::new(whole[..whole.len() - 9].to_vec()))).unwrap();
        let mut text = Vec::new();
        assert!(reader.read_to_end(&mut text).is_err());
        assert!(!text.is_empty());
    }
}
