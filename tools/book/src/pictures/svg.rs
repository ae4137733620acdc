//! A small SVG writer, which draws boxes, labels, lines and arrows in whole pixels.
//!
//! A label may contain `code` between backticks. The writer estimates the width of each label based
//! on a wide font. The writer panics if two labels overlap, or if a label is wider than its box or
//! extends beyond the picture.

use std::fmt::Write;

use crate::palette::Meaning;

/// The width of every picture.
pub(crate) const WIDTH: i32 = 800;

/// The distance between two lines of text.
const LEADING: i32 = 16;

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#222}
.h{font-size:17px;font-weight:700}.b{font-weight:700}.s{text-decoration:line-through}.w{fill:#FFF}
.m{text-anchor:middle}.e{text-anchor:end}
.c{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}
polyline{fill:none;stroke-width:1.5}.guide{fill:none;stroke:#CCC;stroke-width:1}
.note{fill:#FFF;stroke:#CCC}";

/// A rectangle in the picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) w: i32,
    pub(crate) h: i32,
}

impl Area {
    pub(crate) fn new(x: i32, y: i32, w: i32, h: i32) -> Self {
        Self { x, y, w, h }
    }

    pub(crate) fn right(self) -> i32 {
        self.x + self.w
    }

    pub(crate) fn bottom(self) -> i32 {
        self.y + self.h
    }

    pub(crate) fn middle(self) -> (i32, i32) {
        (self.x + self.w / 2, self.y + self.h / 2)
    }

    fn overlaps(self, other: Self) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }
}

/// The part of the text that is placed at the given point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Font {
    Plain,
    Bold,
    Heading,
    Struck,
}

pub(crate) struct Svg {
    height: i32,
    body: String,
    texts: Vec<(Area, String)>,
}

impl Svg {
    /// Starts a picture. The title is also shown as the picture's heading. The description is for
    /// people who cannot see the picture.
    pub(crate) fn new(height: i32, title: &str, description: &str) -> Self {
        let mut svg = Self { height, body: String::new(), texts: Vec::new() };
        let (title, description) = (escape(title), escape(description));
        svg.line(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title desc\">"
        ));
        svg.line(&format!("<title id=\"title\">{title}</title>"));
        svg.line(&format!("<desc id=\"desc\">{description}</desc>"));
        svg.line(&format!("<style>{STYLE}"));
        for meaning in Meaning::ALL {
            let (class, fill, stroke) = (meaning.class(), meaning.fill(), meaning.line());
            svg.line(&format!(".{class}{{fill:{fill};stroke:{stroke}}}"));
        }
        svg.line("</style>");
        svg.line(&format!("<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#FFFFFF\"/>"));
        svg.text((16, 27), Anchor::Start, Font::Heading, &title);
        svg
    }

    /// Finishes the picture and returns the contents of the file.
    pub(crate) fn finish(mut self) -> String {
        let page = Area::new(0, 0, WIDTH, self.height);
        for (i, (area, text)) in self.texts.iter().enumerate() {
            let is_inside = area.x >= 0 && area.right() <= page.w && area.bottom() <= page.h;
            assert!(is_inside, "`{text}` leaves the picture");
            for (other, beside) in &self.texts[..i] {
                assert!(!area.overlaps(*other), "`{text}` overlaps `{beside}`");
            }
        }
        self.line("</svg>");
        self.body
    }

    fn line(&mut self, text: &str) {
        self.body.push_str(text);
        self.body.push('\n');
    }

    /// Draws the border and the background of a box.
    pub(crate) fn area(&mut self, area: Area, meaning: Meaning) {
        let Area { x, y, w, h } = area;
        let class = meaning.class();
        let more = match meaning {
            Meaning::Loss => " stroke-dasharray=\"4 2\"",
            Meaning::Gap => " rx=\"8\"",
            _ => "",
        };
        self.line(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"{more}/>"
        ));
    }

    /// Draws a thin frame around several elements.
    pub(crate) fn frame(&mut self, area: Area) {
        let Area { x, y, w, h } = area;
        self.line(&format!("<rect class=\"guide\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>"));
    }

    /// Draws a note, which consists of lines of text on a white background, on top of everything
    /// drawn so far.
    pub(crate) fn note(&mut self, at: (i32, i32), lines: &[&str]) {
        let wide = lines.iter().map(|text| width(Font::Plain, text)).max().unwrap_or(0);
        let count = i32::try_from(lines.len()).expect("a note has few lines");
        let (w, h) = (wide + 12, count * LEADING + 8);
        self.line(&format!(
            "<rect class=\"note\" x=\"{}\" y=\"{}\" width=\"{w}\" height=\"{h}\"/>",
            at.0, at.1
        ));
        self.lines((at.0 + 6, at.1 + LEADING), Anchor::Start, lines);
    }

    /// Draws a box with centred lines of text. If there are several lines, the first line is bold.
    pub(crate) fn boxed(&mut self, area: Area, meaning: Meaning, lines: &[&str]) {
        self.area(area, meaning);
        let count = i32::try_from(lines.len()).expect("a box has few lines");
        let (x, middle) = area.middle();
        let mut y = middle - (count - 1) * LEADING / 2 + 4;
        for (i, text) in lines.iter().enumerate() {
            let font = if i == 0 && count > 1 { Font::Bold } else { Font::Plain };
            let font = if meaning == Meaning::Loss && count == 1 { Font::Struck } else { font };
            assert!(width(font, text) <= area.w - 2, "`{text}` is wider than its box");
            self.write((x, y), Anchor::Middle, font, text, meaning == Meaning::End);
            y += LEADING;
        }
    }

    /// Draws lines of plain text, one below the other.
    pub(crate) fn lines(&mut self, at: (i32, i32), anchor: Anchor, lines: &[&str]) {
        let mut y = at.1;
        for text in lines {
            self.text((at.0, y), anchor, Font::Plain, text);
            y += LEADING;
        }
    }

    /// Draws one line of text. `at` is on the text's baseline.
    pub(crate) fn text(&mut self, at: (i32, i32), anchor: Anchor, font: Font, text: &str) {
        self.write(at, anchor, font, text, false);
    }

    fn write(&mut self, at: (i32, i32), anchor: Anchor, font: Font, text: &str, is_white: bool) {
        let (x, y) = at;
        let width = width(font, text);
        let (left, anchor) = match anchor {
            Anchor::Start => (x, ""),
            Anchor::Middle => (x - width / 2, "m"),
            Anchor::End => (x - width, "e"),
        };
        self.texts.push((Area::new(left, y - 9, width, 11), text.to_owned()));
        let font = match font {
            Font::Plain => "",
            Font::Bold => "b",
            Font::Heading => "h",
            Font::Struck => "s",
        };
        let white = if is_white { "w" } else { "" };
        let classes: Vec<&str> =
            [anchor, font, white].into_iter().filter(|class| !class.is_empty()).collect();
        let class = match classes.join(" ") {
            none if none.is_empty() => none,
            classes => format!(" class=\"{classes}\""),
        };
        let mut spans = String::new();
        for (i, span) in text.split('`').enumerate() {
            let span = escape(span);
            let (open, close) = if i % 2 == 1 { ("<tspan class=\"c\">", "</tspan>") } else { ("", "") };
            write!(spans, "{open}{span}{close}").expect("a string takes every text");
        }
        self.line(&format!("<text{class} x=\"{x}\" y=\"{y}\">{spans}</text>"));
    }

    /// Draws a line through the given points.
    pub(crate) fn path(&mut self, points: &[(i32, i32)], meaning: Meaning) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let (points, stroke) = (points.join(" "), meaning.line());
        let dashes = if meaning == Meaning::Loss { " stroke-dasharray=\"4 2\"" } else { "" };
        self.line(&format!("<polyline points=\"{points}\" stroke=\"{stroke}\"{dashes}/>"));
    }

    /// Draws a thin grey line, as a visual guide only.
    pub(crate) fn guide(&mut self, from: (i32, i32), to: (i32, i32)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.line(&format!("<path class=\"guide\" d=\"M{x1} {y1}L{x2} {y2}\"/>"));
    }

    /// Draws a line through the given points, with an arrowhead at the last point. The last segment
    /// must be horizontal or vertical.
    pub(crate) fn arrow(&mut self, points: &[(i32, i32)], meaning: Meaning) {
        self.path(points, meaning);
        let [.., (from_x, from_y), (x, y)] = points else { panic!("an arrow has two points") };
        let (along, down) = ((x - from_x).signum(), (y - from_y).signum());
        let (back_x, back_y) = (x - 8 * along, y - 8 * down);
        let (side_x, side_y) = (4 * down, 4 * along);
        self.line(&format!(
            "<polygon points=\"{x},{y} {},{} {},{}\" fill=\"{}\"/>",
            back_x + side_x,
            back_y + side_y,
            back_x - side_x,
            back_y - side_y,
            meaning.line()
        ));
    }

    /// Draws a legend of the colours in one line.
    pub(crate) fn legend(&mut self, y: i32, meanings: &[Meaning]) {
        let mut x = 16;
        for &meaning in meanings {
            self.area(Area::new(x, y, 16, 12), meaning);
            self.text((x + 22, y + 10), Anchor::Start, Font::Plain, meaning.name());
            x += 22 + width(Font::Plain, meaning.name()) + 14;
        }
    }
}

/// Estimates the width of the text in pixels, based on a font that is wider than most fonts.
pub(crate) fn width(font: Font, text: &str) -> i32 {
    let spans = text.split('`').enumerate();
    let thousandths: i32 = spans
        .flat_map(|(i, span)| span.chars().map(move |c| if i % 2 == 1 { 602 } else { char_width(c) }))
        .sum();
    let size = match font {
        Font::Plain | Font::Struck => 1200,
        Font::Bold => 1300,
        Font::Heading => 1850,
    };
    thousandths * size / 100_000
}

/// Returns the width of a character, in thousandths of the font's size.
fn char_width(c: char) -> i32 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ' ' | '\'' => 320,
        'f' | 't' | 'r' | '(' | ')' | 'I' | '-' => 400,
        'm' | 'w' | 'M' | 'W' => 940,
        'A'..='Z' | '+' | '=' | '≤' => 740,
        _ => 615,
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
