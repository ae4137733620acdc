//! The font of a drawing, including font sizes and functions that fit text into a given width.

use plotters::prelude::*;
use unicode_width::UnicodeWidthChar as _;

use crate::support::text;

/// The font sizes in plotters' units. These numbers are a quarter larger than the sizes in pixels.
pub(super) const TITLE_SIZE: u32 = 18;
pub(super) const SIZE: u32 = 16;
pub(super) const SMALL: u32 = 14;
const DARK: RGBColor = RGBColor(0x22, 0x22, 0x22);

pub(super) fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&DARK)
}

/// Escapes text so that it can be shown in an XML document.
pub(super) fn plain(text: &str) -> String {
    // The replaced characters are the only ones that are safe on a terminal but not allowed in XML.
    text::plain(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// Returns the escaped text, truncated to this width in pixels.
pub(super) fn fitted(text: &str, width: u32, size: u32) -> String {
    const CUT: &str = "..";
    let text = plain(text);
    if text_width(&text, size) <= width {
        return text;
    }
    let mut shown = String::new();
    for c in text.chars() {
        shown.push(c);
        if text_width(&shown, size) + text_width(CUT, size) > width {
            shown.pop();
            break;
        }
    }
    shown + CUT
}

/// Estimates the width of the text in pixels, based on the widest of the usual fonts.
pub(super) fn text_width(text: &str, size: u32) -> u32 {
    let width = |c: char| match c {
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.0,
        'A'..='Z' | '=' | '≈' => 0.85,
        '\0'..='\u{7f}' => 0.65,
        other if other.width() == Some(0) => 0.0,
        _ => 1.0,
    };
    (text.chars().map(width).sum::<f64>() * f64::from(size) / 1.24).ceil() as u32
}
