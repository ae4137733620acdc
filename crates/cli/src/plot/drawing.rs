//! The content of a drawing: panels, each with two axes, lines and marks.

/// A drawing.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub(crate) title: String,
    /// The panels, from top to bottom.
    pub(crate) panels: Vec<Panel>,
}

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    pub(crate) marks: Vec<Mark>,
}

/// A line from point to point, with markers.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    /// The number of the thing that the line is about. Lines about the same thing share their
    /// colour and their marker.
    pub(crate) series: usize,
    /// The number of the pattern of dashes. Number 0 is solid, 1 dashed, 2 dotted, 3 sparsely
    /// dotted. Lines that may be close to each other differ in it.
    pub(crate) dashes: usize,
    /// The points, in the order of x.
    pub(crate) places: Vec<(f64, f64)>,
}

/// A vertical line with a word. It is left out if it is outside the x axis.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) label: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The label, with the unit.
    pub(crate) label: String,
    pub(crate) scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    Linear,
    Log,
}
