//! The drawing area and its dimensions.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::bounds::Bounds;

pub(super) type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Chart<'a, 'd> = ChartContext<'d, SVGBackend<'a>, Cartesian2d<Bounds, Bounds>>;

/// The width of a drawing, in pixels.
pub(super) const WIDTH: u32 = 960;
/// The heights of the title and of a panel, in pixels.
pub(super) const TITLE_HEIGHT: u32 = 40;
pub(super) const PANEL_HEIGHT: u32 = 400;
/// The margin around a drawing and its parts, in pixels.
pub(super) const MARGIN: u32 = 14;
