//! The menu below the line.

/// Something to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// The text to insert.
    pub(super) text: String,
    /// What is shown, made visible.
    pub(super) label: String,
    /// Its description.
    pub(super) about: String,
    /// Whether it is complete: Enter sends the line with it.
    pub(super) is_whole: bool,
}

impl Choice {
    /// A line that was sent before.
    pub(super) fn line(text: &str) -> Choice {
        let label = crate::out::one_line(text);
        Choice { text: text.to_owned(), label, about: String::new(), is_whole: false }
    }
}

/// A menu. Nothing in it is selected until someone moves in it.
#[derive(Debug)]
pub(super) struct Menu {
    choices: Vec<Choice>,
    chosen: Option<usize>,
    /// There are more than it offers.
    pub(super) has_more: bool,
}

impl Menu {
    /// A menu of these, of which there is at least one.
    pub(super) fn new(choices: Vec<Choice>) -> Menu {
        Menu { choices, chosen: None, has_more: false }
    }

    /// Moves down, or up; at an end, to the other.
    pub(super) fn step(&mut self, down: bool) {
        let all = self.choices.len();
        self.chosen = Some(match (self.chosen, down) {
            (None, true) => 0,
            (None, false) => all - 1,
            (Some(at), true) => (at + 1) % all,
            (Some(at), false) => (at + all - 1) % all,
        });
    }

    pub(super) fn is_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// The selected choice; the first if none is selected.
    pub(super) fn choice(&self) -> &Choice {
        &self.choices[self.chosen.unwrap_or(0)]
    }

    /// At most this many of the choices, around the selected one, and how many there are. Each with
    /// whether it is selected.
    pub(super) fn shown(&self, rows: usize) -> (Vec<(&Choice, bool)>, usize) {
        let at = self.chosen.unwrap_or(0);
        let from = at.saturating_sub(rows.saturating_sub(1)).min(self.choices.len());
        let choices = self.choices.iter().enumerate().skip(from).take(rows);
        let shown = choices.map(|(index, choice)| (choice, self.chosen == Some(index)));
        (shown.collect(), self.choices.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_is_always_shown() {
        let mut menu = Menu::new(["a", "b", "c", "d"].map(Choice::line).to_vec());
        let of = |menu: &Menu| -> String {
            let (shown, _) = menu.shown(2);
            shown
                .iter()
                .map(|(choice, is)| format!("{}{}", choice.text, if *is { "*" } else { "" }))
                .collect()
        };
        assert_eq!((of(&menu).as_str(), menu.is_chosen()), ("ab", false));
        let mut seen = Vec::new();
        for _ in 0..5 {
            menu.step(true);
            seen.push(of(&menu));
        }
        assert_eq!(seen, ["a*b", "ab*", "bc*", "cd*", "a*b"]);
        menu.step(false);
        assert_eq!(of(&menu), "cd*");
    }
}
