//! A chart: what a user pays against what the model still sees.
//!
//! Two panels share the horizontal axis (+all): names in view, and edits whose text is in view. The
//! rule of `chat` is a curve over its allowances; the corner that is aimed at is shaded.

use std::fmt::Write as _;

use super::report::Row;
use super::rules::Group;

/// What is aimed at: +all at most, recall and edl at least.
pub(super) const AIM: (f64, f64, f64) = (70.0, 98.0, 86.0);

const PANEL_WIDTH: f64 = 430.0;
const PANEL_HEIGHT: f64 = 330.0;
const TOP: f64 = 74.0;
const LEFT: f64 = 52.0;
const GAP: f64 = 66.0;
const WIDTH: f64 = LEFT + 2.0 * PANEL_WIDTH + GAP + 24.0;
const HEIGHT: f64 = TOP + PANEL_HEIGHT + 60.0;
/// How wide a letter of a label is, about.
const LETTER: f64 = 6.5;

/// One panel: where it is, and what it shows.
struct Panel<'a> {
    left: f64,
    title: &'a str,
    /// The range of +all and of the figure.
    x: (f64, f64),
    y: (f64, f64),
    aim: f64,
    figure: fn(&Row) -> f64,
    /// Boxes that labels keep clear of: left, top, right, bottom.
    taken: Vec<[f64; 4]>,
    out: String,
}

/// Draws the rules.
pub(super) fn picture(title: &str, rows: &[Row]) -> String {
    let costs = || rows.iter().map(|row| row.plus_all).filter(|cost| *cost <= 112.0);
    let low = ((costs().fold(AIM.0, f64::min) - 4.0) / 10.0).floor() * 10.0;
    let high = (costs().fold(100.0, f64::max) / 5.0).ceil() * 5.0 + 5.0;
    let panels = [
        ("names in view (recall, %)", 92.0, AIM.1, (|row| row.recall) as fn(&Row) -> f64),
        ("edits whose text is in view (edl, %)", 60.0, AIM.2, |row| row.edl),
    ];
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {HEIGHT:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"11.5\" fill=\"#333\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#fcfcfa\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"16\" font-weight=\"600\" fill=\"#111\">{title}</text>\n"
    );
    legend(&mut out);
    for (index, (title, floor, aim, figure)) in panels.into_iter().enumerate() {
        let left = LEFT + index as f64 * (PANEL_WIDTH + GAP);
        let (x, y) = ((low, high), (floor, 100.0 + (100.0 - floor) / 24.0));
        let taken = Vec::new();
        let mut panel = Panel { left, title, x, y, aim, figure, taken, out: String::new() };
        panel.frame();
        panel.curve(rows);
        panel.dots(rows);
        out.push_str(&panel.out);
    }
    let middle = WIDTH / 2.0;
    writeln!(
        out,
        "<text x=\"{middle}\" y=\"{:.0}\" text-anchor=\"middle\">what a person pays, fetching what is \
         missed included (+all, % of sending everything): further left is cheaper</text>\n</svg>",
        HEIGHT - 18.0
    )
    .expect("memory takes every write");
    out
}

/// The colours by group.
fn colour(group: Group, name: &str) -> &'static str {
    match group {
        _ if name == "chat" => "#d1361b",
        Group::Ours => "#1f6feb",
        Group::Curve => "#d1361b",
        Group::Others => "#7a5195",
        Group::Whole => "#111",
        Group::Control => "#999",
    }
}

fn legend(out: &mut String) {
    let entries = [
        ("#d1361b", "chat, the default"),
        ("#1f6feb", "other presets"),
        ("#7a5195", "common rules"),
        ("#999", "controls"),
        ("#2e9e5b", "the aim"),
    ];
    let mut x = LEFT;
    for (colour, text) in entries {
        writeln!(
            out,
            "<circle cx=\"{:.0}\" cy=\"46\" r=\"4.5\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"50\">{text}</text>",
            x + 4.0,
            x + 13.0
        )
        .expect("memory takes every write");
        x += 34.0 + LETTER * text.len() as f64;
    }
}

impl Panel<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn at_x(&self, cost: f64) -> f64 {
        let (low, high) = self.x;
        self.left + (cost.clamp(low, high) - low) / (high - low) * PANEL_WIDTH
    }

    fn at_y(&self, figure: f64) -> f64 {
        let (low, high) = self.y;
        TOP + (high - figure.clamp(low, high)) / (high - low) * PANEL_HEIGHT
    }

    /// The axes, the grid and the corner that is aimed at.
    fn frame(&mut self) {
        let (left, bottom, right) = (self.left, TOP + PANEL_HEIGHT, self.left + PANEL_WIDTH);
        let (aim_x, aim_y) = (self.at_x(AIM.0), self.at_y(self.aim));
        self.line(&format!(
            "<rect x=\"{left:.1}\" y=\"{TOP:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#2e9e5b\" \
             opacity=\"0.14\"/>",
            aim_x - left,
            aim_y - TOP
        ));
        let (mut cost, last) = self.x;
        while cost <= last {
            let x = self.at_x(cost);
            self.line(&format!(
                "<path d=\"M{x:.1} {TOP:.1}V{bottom:.1}\" stroke=\"#e4e4e0\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#777\">{cost:.0}</text>",
                bottom + 17.0
            ));
            cost += 10.0;
        }
        let step = if self.y.0 > 80.0 { 2.0 } else { 10.0 };
        let mut figure = self.y.0;
        while figure <= 100.0 {
            let y = self.at_y(figure);
            self.line(&format!(
                "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#e4e4e0\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#777\">{figure:.0}</text>",
                left - 7.0,
                y + 4.0
            ));
            figure += step;
        }
        let title = self.title;
        self.line(&format!(
            "<text x=\"{left:.1}\" y=\"{:.1}\" font-weight=\"600\">{title}</text>",
            TOP - 8.0
        ));
    }

    /// The rule of `chat` over its allowances, which are written at both ends.
    fn curve(&mut self, rows: &[Row]) {
        let curve: Vec<&Row> = rows.iter().filter(|row| row.group == Group::Curve).collect();
        let points: Vec<(f64, f64)> = curve
            .iter()
            .map(|row| (self.at_x(row.plus_all), self.at_y((self.figure)(row))))
            .collect();
        let Some(first) = points.first() else { return };
        let mut path = format!("M{:.1} {:.1}", first.0, first.1);
        for (x, y) in &points[1..] {
            write!(path, "L{x:.1} {y:.1}").expect("memory takes every write");
        }
        self.line(&format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"#d1361b\" stroke-width=\"1.8\" opacity=\"0.75\"/>"
        ));
        for (x, y) in &points {
            self.line(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" fill=\"#d1361b\"/>"));
            self.taken.push([x - 3.0, y - 3.0, x + 3.0, y + 3.0]);
        }
        for index in [0, curve.len() - 1] {
            let text = curve[index].name.trim_start_matches("chat ").to_owned();
            self.label(points[index], &text, "#d1361b", "normal");
        }
    }

    /// A dot for each of the other rules. One that is off the panel is at its edge, with its
    /// figure.
    fn dots(&mut self, rows: &[Row]) {
        let dots: Vec<&Row> = rows.iter().filter(|row| row.group != Group::Curve).collect();
        let places: Vec<(f64, f64)> = dots
            .iter()
            .map(|row| (self.at_x(row.plus_all), self.at_y((self.figure)(row))))
            .collect();
        for (row, (x, y)) in dots.iter().zip(&places) {
            let radius = if row.name == "chat" { 6.0 } else { 4.5 };
            let fill = colour(row.group, &row.name);
            self.line(&format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"#fcfcfa\"/>"
            ));
            self.taken.push([x - radius, y - radius, x + radius, y + radius]);
        }
        for (row, place) in dots.iter().zip(places) {
            let figure = (self.figure)(row);
            let mut text = row.name.clone();
            if row.plus_all > self.x.1 {
                write!(text, " ({:.0} →)", row.plus_all).expect("memory takes every write");
            } else if figure < self.y.0 {
                write!(text, " ({figure:.0} ↓)").expect("memory takes every write");
            }
            let weight = if row.name == "chat" { "700" } else { "normal" };
            self.label(place, &text, colour(row.group, &row.name), weight);
        }
    }

    /// Writes a label next to a point, where it covers nothing.
    fn label(&mut self, (x, y): (f64, f64), text: &str, fill: &str, weight: &str) {
        let width = LETTER * text.chars().count() as f64;
        let (right, left) = (self.left + PANEL_WIDTH + 8.0, self.left);
        let beside = [(9.0, 4.0), (-9.0 - width, 4.0), (-width / 2.0, -9.0), (-width / 2.0, 18.0)];
        let farther = (1..7).flat_map(|n| {
            let down = f64::from(n) * 12.0;
            [
                (9.0, 4.0 + down),
                (-9.0 - width, 4.0 + down),
                (9.0, 4.0 - down),
                (-9.0 - width, 4.0 - down),
            ]
        });
        let boxed = |(dx, dy): (f64, f64)| [x + dx, y + dy - 10.0, x + dx + width, y + dy + 2.0];
        let free = |place: &(f64, f64)| {
            let [l, t, r, b] = boxed(*place);
            let inside = l >= left && r <= right && t >= TOP - 4.0 && b <= TOP + PANEL_HEIGHT + 3.0;
            let clear =
                |other: &[f64; 4]| r <= other[0] || l >= other[2] || b <= other[1] || t >= other[3];
            inside && self.taken.iter().all(clear)
        };
        let place = beside.into_iter().chain(farther).find(free).unwrap_or(beside[0]);
        self.taken.push(boxed(place));
        let (tx, ty) = (x + place.0, y + place.1);
        self.line(&format!(
            "<text x=\"{tx:.1}\" y=\"{ty:.1}\" fill=\"{fill}\" font-weight=\"{weight}\">{text}</text>"
        ));
    }
}
