//! The content of a drawing, which consists of panels, each with two axes, lines and marks.

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

/// A polyline through data points, with markers.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    /// The index of the series. Lines of the same series share a colour and a marker.
    pub(crate) series: usize,
    /// The dash pattern, where 0 is solid, 1 is dashed, 2 is dotted, and 3 is sparsely dotted.
    /// Lines that may be close to each other have different patterns.
    pub(crate) dashes: usize,
    /// The data points, ordered by x.
    pub(crate) places: Vec<(f64, f64)>,
}

/// A vertical line with a label. The line is omitted if it is outside the x axis's range.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) label: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The label, including the unit.
    pub(crate) label: String,
    pub(crate) scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    Linear,
    Log,
}
