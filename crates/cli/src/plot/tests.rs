use roxmltree::{Document, Node};

use super::{Axis, Drawing, Line, Mark, Panel, Scale, WIDTH, svg};

const HOSTILE: &str = "<b a=\"1\">&'x' ]]> \u{1b}[2J\0\r\n\u{202e}\u{ffff}";
const SHOWN: &str = r#"<b a="1">&'x' ]]> \u{1b}[2J\u{0}\r\n\u{202e}"#;

/// The colours of some series, and the colour of the marks.
const FIRST: &str = "#0072B2";
const SECOND: &str = "#D55E00";
const FOURTH: &str = "#CC79A7";
const GREY: &str = "#777777";

fn line(label: &str, series: usize, places: &[(f64, f64)]) -> Line {
    Line { label: label.to_owned(), series, dashes: series, places: places.to_vec() }
}

fn panel(lines: Vec<Line>, marks: &[(f64, &str)]) -> Panel {
    Panel {
        x: Axis { label: "length".to_owned(), scale: Scale::Log },
        y: Axis { label: "lost".to_owned(), scale: Scale::Linear },
        lines,
        marks: marks.iter().map(|(at, label)| Mark { at: *at, label: (*label).to_owned() }).collect(),
    }
}

fn drawn(panels: Vec<Panel>) -> String {
    svg(&Drawing { title: "a title".to_owned(), panels }).expect("it can be drawn")
}

/// Returns all text in a drawing. Panics if the drawing is not well-formed.
fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect()
}

#[track_caller]
fn assert_has(texts: &[String], wanted: &[&str]) {
    for text in wanted {
        assert!(texts.iter().any(|found| found == text), "{text} is not among {texts:?}");
    }
}

#[test]
fn hostile_text_is_escaped_everywhere() {
    let hostile = || HOSTILE.to_owned();
    let axis = |scale| Axis { label: hostile(), scale };
    let panel = Panel {
        x: axis(Scale::Linear),
        y: axis(Scale::Log),
        lines: vec![Line { label: hostile(), series: 0, dashes: 0, places: vec![(1.0, 2.0), (9.0, 3.0)] }],
        marks: vec![Mark { at: 2.0, label: hostile() }],
    };
    let svg = svg(&Drawing { title: hostile(), panels: vec![panel] }).unwrap();
    let texts = texts(&svg);
    assert_eq!(texts.iter().filter(|text| text.contains("<b a=")).count(), 5, "{texts:?}");
    // One of the five strings may be truncated because it is too long.
    assert!(texts.iter().filter(|text| text.contains(SHOWN)).count() >= 4, "{texts:?}");
    let is_bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{ffff}');
    assert!(!svg.contains(is_bad), "{svg:?}");
}

#[test]
fn the_ends_of_the_axes_are_labelled() {
    let lines = vec![line("a", 0, &[(20.0, 93.0), (170.0, 50.0), (2000.0, 0.0)])];
    let texts = texts(&drawn(vec![panel(lines, &[])]));
    assert_has(&texts, &["20", "50", "100", "200", "500", "1,000", "2,000", "0", "80", "100"]);
    assert_has(&texts, &["a title", "length", "lost", "a"]);
}

#[test]
fn equal_lines_are_merged_and_share_a_label() {
    let falling = [(1.0, 100.0), (10.0, 40.0), (100.0, 0.0)];
    let nearly = [(1.0, 100.0), (10.0, 40.05), (100.0, 0.0)];
    let other = [(1.0, 100.0), (10.0, 60.0), (100.0, 0.0)];
    let lines = vec![
        line("drop_oldest", 0, &falling),
        line("wait", 1, &falling),
        line("wait_for", 2, &nearly),
        line("drop_incoming", 3, &other),
    ];
    let svg = drawn(vec![panel(lines, &[])]);
    assert_has(&texts(&svg), &["drop_oldest", "= wait", "≈ wait_for", "drop_incoming"]);
    // Only lines 0 and 3 have markers. Each of these lines has one marker at each of its three
    // points, and one marker next to its label.
    assert_eq!(svg.matches("<circle").count(), 4);
    assert_eq!(polylines(&svg, FOURTH, |points| points.len() == 5).len(), 4, "{svg}");
}

/// Returns all polylines in this colour whose points satisfy `wanted`.
fn polylines(svg: &str, stroke: &str, wanted: impl Fn(&[(i32, i32)]) -> bool) -> Vec<Vec<(i32, i32)>> {
    let document = Document::parse(svg).unwrap();
    let is_wanted = |node: &Node| node.has_tag_name("polyline") && node.attribute("stroke") == Some(stroke);
    let lines = document.descendants().filter(is_wanted);
    let points = |node: Node| {
        let pairs = node.attribute("points").unwrap_or_default().split_whitespace();
        let number = |text: &str| text.parse().unwrap();
        pairs.filter_map(|pair| pair.split_once(',')).map(|(x, y)| (number(x), number(y))).collect::<Vec<_>>()
    };
    lines.map(points).filter(|points| wanted(points)).collect()
}

#[test]
fn lines_that_overlap_differ_in_more_than_their_colour() {
    let first = line("a", 0, &[(1.0, 100.0), (10.0, 50.0), (100.0, 0.0)]);
    let second = line("b", 1, &[(1.0, 100.0), (10.0, 45.0), (100.0, 0.0)]);
    let svg = drawn(vec![panel(vec![first, second], &[])]);
    assert_eq!(svg.matches("<circle").count(), 4, "the markers of the first line");
    let is_square = |points: &[(i32, i32)]| points.len() == 5 && points.first() == points.last();
    assert_eq!(polylines(&svg, SECOND, is_square).len(), 4, "the markers of the second line");
    // The first line is solid, and the second line consists only of dashes.
    let across = |points: &[(i32, i32)]| points.last().unwrap().0 - points[0].0;
    assert_eq!(polylines(&svg, FIRST, |points| points.len() == 3 && across(points) > 300).len(), 1);
    let is_dash = |points: &[(i32, i32)]| points.len() <= 3 && (1..=10).contains(&across(points));
    assert!(polylines(&svg, SECOND, is_dash).len() > 20, "{svg}");
}

#[test]
fn a_mark_is_a_line_with_a_word() {
    let lines = || vec![line("a", 0, &[(20.0, 50.0), (2000.0, 0.0)])];
    let marks = [(300.0, "burst: 300"), (1000.0, "default: 1,000"), (19.0, "before"), (2001.0, "behind")];
    let svg = drawn(vec![panel(lines(), &marks)]);
    let texts = texts(&svg);
    assert_has(&texts, &["burst: 300", "default: 1,000"]);
    assert!(!texts.iter().any(|text| text == "before" || text == "behind"), "{texts:?}");
    let vertical = |svg: &str| {
        let is_vertical = |points: &[(i32, i32)]| points.len() == 2 && points[0].0 == points[1].0;
        let mut places: Vec<i32> =
            polylines(svg, GREY, is_vertical).iter().map(|points| points[0].0).collect();
        places.dedup();
        places
    };
    let [burst, default] = vertical(&svg)[..] else { panic!("{:?}", vertical(&svg)) };
    assert!(burst < default);
    assert!(vertical(&drawn(vec![panel(lines(), &[])])).is_empty());
}

/// Returns the left end, the right end, the vertical position and the contents of each text
/// element. The ends are in pixels, assuming a wide font in which all letters except W have the
/// same width.
fn boxes(svg: &str) -> Vec<(f64, f64, f64, String)> {
    let document = Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let place = |node: Node| {
        let number = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
        let text = node.text().unwrap_or_default().trim().to_owned();
        let width =
            text.chars().map(|c| if c == 'W' { 0.99 } else { 0.63 }).sum::<f64>() * number("font-size");
        // The label of the y axis is rotated.
        let width = if node.has_attribute("transform") { 10.0 } else { width };
        let left = match node.attribute("text-anchor") {
            Some("middle") => number("x") - width / 2.0,
            Some("end") => number("x") - width,
            _ => number("x"),
        };
        (left, left + width, number("y"), text)
    };
    texts.map(place).collect()
}

#[test]
fn text_stays_in_the_picture() {
    let long = "W".repeat(300);
    let lines: Vec<Line> = (0..90)
        .map(|number| {
            let end = f64::from(number);
            line(&format!("{number} {long}"), number as usize, &[(1.0, 50.0), (1e7, end)])
        })
        .collect();
    let marks = [(2.0, long.as_str()), (5e6, long.as_str()), (1e7, long.as_str())];
    let panel = panel(lines, &marks);
    let svg = svg(&Drawing { title: long.clone(), panels: vec![panel] }).unwrap();
    let height: f64 =
        Document::parse(&svg).unwrap().root_element().attribute("height").unwrap().parse().unwrap();
    for (left, right, y, text) in boxes(&svg) {
        assert!(left >= 0.0 && right <= f64::from(WIDTH), "{left} to {right}: {text}");
        assert!(y >= 8.0 && y <= height - 8.0, "{y}: {text}");
    }
    let labels: Vec<f64> =
        boxes(&svg).iter().filter(|(left, ..)| *left > 600.0).map(|(.., y, _)| *y).collect();
    for (at, y) in labels.iter().enumerate() {
        assert!(labels[at + 1..].iter().all(|other| (other - y).abs() >= 12.0), "two labels at {y}");
    }
    let rest = texts(&svg).into_iter().find(|text| text.ends_with(" more")).expect("a last row");
    let rest: usize = rest.trim_start_matches("and ").trim_end_matches(" more").parse().unwrap();
    assert!((60..90).contains(&rest), "{rest}");
}

#[test]
fn labels_stand_at_the_ends_of_their_lines() {
    let lines =
        vec![line("low", 0, &[(1.0, 90.0), (9.0, 10.0)]), line("high", 1, &[(1.0, 5.0), (9.0, 80.0)])];
    let svg = drawn(vec![panel(lines, &[])]);
    let boxes = boxes(&svg);
    let place = |name: &str| boxes.iter().find(|(.., text)| text == name).map(|(left, _, y, _)| (*left, *y));
    let (low, high) = (place("low").unwrap(), place("high").unwrap());
    assert!(low.0 > 600.0 && (low.0 - high.0).abs() < 1e-9 && low.1 > high.1 + 100.0, "{low:?} {high:?}");
}

#[test]
fn whatever_the_figures_are_there_is_a_drawing() {
    let cases: [&[(f64, f64)]; 7] = [
        &[],
        &[(5.0, 5.0)],
        &[(0.0, 0.0), (0.0, 0.0)],
        &[(f64::NAN, 1.0), (1.0, f64::INFINITY)],
        &[(1.0, f64::NAN), (2.0, 1.0), (3.0, 1.0)],
        &[(1e-300, 1e300), (1e300, 1e-300)],
        &[(999.0, 1e-9), (1001.0, 2e-9)],
    ];
    for places in cases {
        for scale in [Scale::Linear, Scale::Log] {
            let mut panel = panel(vec![line("a", 0, places)], &[(1.0, "one"), (f64::NAN, "none")]);
            (panel.x.scale, panel.y.scale) = (scale, scale);
            let texts = texts(&drawn(vec![panel]));
            assert!(texts.len() > 3, "{places:?}: {texts:?}");
        }
    }
    assert_eq!(texts(&drawn(Vec::new())), ["a title"]);
}
