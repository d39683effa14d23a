//! The colours, by what they mean, for light and dark backgrounds.
//!
//! Every colour has a contrast of at least 4.5 to 1 with its background (WCAG AA for text), and no
//! meaning is carried by colour alone: links are underlined, headings bold, changed lines signed.
//! The stylesheet of the HTML output holds the same values.

/// The role of a piece of text, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Heading,
    Link,
    /// Marks that are not text: bullets, bars, rules, line numbers.
    Mark,
    /// Code that is not highlighted, and code in a sentence.
    Code,
    Comment,
    String,
    Number,
    Keyword,
    Type,
    Function,
    Attribute,
    Added,
    Removed,
}

/// The background a person looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Background {
    /// Dark text on white.
    Light,
    /// Light text on black.
    Dark,
    /// Unknown. Only those of the sixteen colours are used that can be read on both, even if the
    /// terminal has more: a user who changed the palette made it readable.
    #[default]
    Unknown,
}

pub(crate) type Rgb = (u8, u8, u8);

impl Role {
    #[cfg(test)]
    pub(crate) const ALL: [Role; 13] = [
        Role::Heading,
        Role::Link,
        Role::Mark,
        Role::Code,
        Role::Comment,
        Role::String,
        Role::Number,
        Role::Keyword,
        Role::Type,
        Role::Function,
        Role::Attribute,
        Role::Added,
        Role::Removed,
    ];

    /// The name of the class in HTML.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Role::Heading => "heading",
            Role::Link => "link",
            Role::Mark => "mark",
            Role::Code => "code",
            Role::Comment => "comment",
            Role::String => "string",
            Role::Number => "number",
            Role::Keyword => "keyword",
            Role::Type => "type",
            Role::Function => "function",
            Role::Attribute => "attribute",
            Role::Added => "added",
            Role::Removed => "removed",
        }
    }

    pub(crate) fn rgb(self, background: Background) -> Rgb {
        let (light, dark) = match self {
            Role::Heading => (0x0a3069, 0x79c0ff),
            Role::Link => (0x0969da, 0x58a6ff),
            Role::Mark => (0x656d76, 0x8b949e),
            Role::Code => (0x7d4e00, 0xe3b341),
            Role::Comment => (0x616a75, 0x8b949e),
            Role::String => (0x116329, 0x7ee787),
            Role::Number => (0x0550ae, 0x79c0ff),
            Role::Keyword => (0xcf222e, 0xff7b72),
            Role::Type => (0x953800, 0xffa657),
            Role::Function => (0x8250df, 0xd2a8ff),
            Role::Attribute => (0x0550ae, 0xa5d6ff),
            Role::Added => (0x116329, 0x56d364),
            Role::Removed => (0xa40e26, 0xff8983),
        };
        let [_, red, green, blue] = u32::to_be_bytes(match background {
            Background::Light => light,
            Background::Dark | Background::Unknown => dark,
        });
        (red, green, blue)
    }

    /// The colour among the 16 every terminal has, as its SGR number. What those look like is the
    /// person's choice: yellow, which vanishes on white, is used on dark only, and grey is the text's
    /// own colour made faint, because some themes make bright black the background.
    pub(crate) fn ansi(self, background: Background) -> u8 {
        if background == Background::Unknown {
            return match self {
                Role::Heading | Role::Link | Role::Number | Role::Attribute => 36,
                Role::Mark | Role::Comment => 2,
                Role::Code | Role::Type | Role::Function => 35,
                Role::String | Role::Added => 32,
                Role::Keyword | Role::Removed => 31,
            };
        }
        let dark = background == Background::Dark;
        match self {
            Role::Heading | Role::Link | Role::Number | Role::Attribute if dark => 96,
            Role::Heading | Role::Link | Role::Number | Role::Attribute => 34,
            Role::Mark | Role::Comment => 2,
            Role::Code | Role::Type if dark => 93,
            Role::Code | Role::Type => 35,
            Role::String | Role::Added if dark => 92,
            Role::String | Role::Added => 32,
            Role::Keyword | Role::Removed if dark => 91,
            Role::Keyword | Role::Removed => 31,
            Role::Function if dark => 95,
            Role::Function => 35,
        }
    }
}

/// The nearest of the 216 colours of xterm's cube and its 24 greys.
pub(crate) fn nearest_256((red, green, blue): Rgb) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |value: u8| {
        let distance = |index: &u8| STEPS[usize::from(*index)].abs_diff(value);
        (0..6).min_by_key(distance).unwrap_or(0)
    };
    let (r, g, b) = (step(red), step(green), step(blue));
    let cube = [r, g, b].map(|index| STEPS[usize::from(index)]);
    let grey = (0..24).min_by_key(|index| apart([8 + 10 * index; 3], (red, green, blue)));
    let grey = grey.unwrap_or(0);
    match apart([8 + 10 * grey; 3], (red, green, blue)) < apart(cube, (red, green, blue)) {
        true => 232 + grey,
        false => 16 + 36 * r + 6 * g + b,
    }
}

fn apart([r, g, b]: [u8; 3], (red, green, blue): Rgb) -> u32 {
    let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    square(r, red) + square(g, green) + square(b, blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance((red, green, blue): Rgb) -> f64 {
        let linear = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_colour_is_readable_on_its_background() {
        // White, the grey background of code on light pages, black, and the dark page.
        let light = [(0xff, 0xff, 0xff), (0xf6, 0xf8, 0xfa)];
        let dark = [(0, 0, 0), (0x0d, 0x11, 0x17), (0x16, 0x1b, 0x22)];
        for (role, light, dark) in [
            (Role::Added, (0xe6, 0xff, 0xec), (0x0f, 0x2a, 0x1a)),
            (Role::Removed, (0xff, 0xeb, 0xe9), (0x30, 0x14, 0x18)),
        ] {
            assert!(contrast(role.rgb(Background::Light), light) >= 4.5, "changed lines, light");
            assert!(contrast(role.rgb(Background::Dark), dark) >= 4.5, "changed lines, dark");
        }
        for role in Role::ALL {
            for page in light {
                let found = contrast(role.rgb(Background::Light), page);
                assert!(found >= 4.5, "{role:?} on light: {found:.2}");
            }
            for page in dark {
                let found = contrast(role.rgb(Background::Dark), page);
                assert!(found >= 4.5, "{role:?} on dark: {found:.2}");
            }
        }
    }

    #[test]
    fn colours_of_xterm_are_found_as_themselves() {
        assert_eq!(nearest_256((255, 255, 255)), 231);
        assert_eq!(nearest_256((0, 0, 0)), 16);
        assert_eq!(nearest_256((255, 0, 0)), 196);
        assert_eq!(nearest_256((138, 138, 138)), 245);
    }
}
