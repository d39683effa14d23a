//! What a terminal can show, and what its user wants.

use crate::palette::Background;

/// Columns a narrower window is treated as having. Below that a list inside a quote leaves no room
/// for words.
pub(crate) const COLUMNS_MIN: usize = 20;

/// How many colours a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Colour {
    /// None, and no bold or italic text either: not a single escape sequence for looks.
    #[default]
    None,
    /// The sixteen that people choose themselves.
    Ansi16,
    /// The 256 of xterm.
    Ansi256,
    /// Any colour.
    TrueColour,
}

/// How text is written to a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    /// Columns of the window. No line is wider; windows narrower than 20 columns are treated as
    /// having 20.
    pub width: usize,
    /// How many colours there are.
    pub colour: Colour,
    /// What the colours are seen on.
    pub background: Background,
    /// Whether links are sent as OSC 8. Otherwise the address follows the text.
    pub links: bool,
    /// Whether nothing is drawn: marks are ASCII, and tables are read row by row. For screen readers
    /// and for terminals that know no other characters.
    pub plain: bool,
}

impl Style {
    /// No escape sequence at all, ASCII marks, tables as rows.
    pub fn plain(width: usize) -> Style {
        let background = Background::default();
        Style { width, colour: Colour::None, background, links: false, plain: true }
    }

    /// What the environment says about a terminal. `variable` looks a variable up:
    /// `|name| std::env::var(name).ok()`.
    ///
    /// `NO_COLOR` switches colours off and leaves links; `TERM=dumb` is plain. `COLORFGBG`, if a
    /// terminal sets it, distinguishes light from dark. Whether the output is a terminal at all is
    /// for the caller to find out.
    pub fn detect(width: usize, variable: impl Fn(&str) -> Option<String>) -> Style {
        let of = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = of("TERM").unwrap_or_default();
        if term.is_empty() || term == "dumb" {
            return Style::plain(width);
        }
        let colour = match of("COLORTERM").as_deref() {
            _ if of("NO_COLOR").is_some() => Colour::None,
            Some("truecolor" | "24bit") => Colour::TrueColour,
            _ if term.ends_with("-direct") => Colour::TrueColour,
            _ if term.contains("256color") => Colour::Ansi256,
            _ => Colour::Ansi16,
        };
        // "15;0" is white on black; 7 and 15 are the light ones among the sixteen.
        let behind = of("COLORFGBG").and_then(|both| both.rsplit(';').next()?.parse::<u8>().ok());
        let background = match behind {
            Some(7 | 9..=15) => Background::Light,
            Some(0..=6 | 8) => Background::Dark,
            _ => Background::Unknown,
        };
        // The Linux console and screen print what they do not understand.
        let links = !(term == "linux" || term.starts_with("screen"));
        Style { width, colour, background, links, plain: false }
    }

    pub(crate) fn columns(&self) -> usize {
        self.width.max(COLUMNS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(variables: &[(&str, &str)]) -> Style {
        Style::detect(80, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_terminal_gets_the_colours_it_says_it_has() {
        let colour = |variables: &[(&str, &str)]| detected(variables).colour;
        assert_eq!(colour(&[("TERM", "xterm")]), Colour::Ansi16);
        assert_eq!(colour(&[("TERM", "xterm-256color")]), Colour::Ansi256);
        assert_eq!(colour(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Colour::TrueColour);
        let unwanted = [("TERM", "xterm"), ("COLORTERM", "truecolor"), ("NO_COLOR", "1")];
        assert_eq!(colour(&unwanted), Colour::None);
        assert_eq!(colour(&[("TERM", "xterm"), ("NO_COLOR", "")]), Colour::Ansi16);
    }

    #[test]
    fn a_dumb_terminal_gets_no_escape_and_no_drawing() {
        assert_eq!(detected(&[("TERM", "dumb"), ("COLORTERM", "truecolor")]), Style::plain(80));
        assert_eq!(detected(&[]), Style::plain(80));
    }

    #[test]
    fn a_light_background_is_known_from_the_terminal() {
        let background = |value| detected(&[("TERM", "xterm"), ("COLORFGBG", value)]).background;
        assert_eq!(background("0;15"), Background::Light);
        assert_eq!(background("0;default;15"), Background::Light);
        assert_eq!(background("15;0"), Background::Dark);
        assert_eq!(background("nonsense"), Background::Unknown);
        assert_eq!(detected(&[("TERM", "xterm")]).background, Background::Unknown);
    }

    #[test]
    fn links_are_not_sent_where_they_would_be_printed() {
        assert!(detected(&[("TERM", "xterm")]).links);
        assert!(!detected(&[("TERM", "linux")]).links);
    }
}
