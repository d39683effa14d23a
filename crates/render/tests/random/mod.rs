//! Random Markdown that is reproducible from its seed.

/// A stream of numbers that is the same for the same seed (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }

    /// Random combinations of Markdown syntax. No link definitions: a
    /// stream does not look back for them.
    pub(crate) fn markdown(&mut self) -> String {
        const PIECES: [&str; 60] = [
            "\n",
            "\n",
            "\n",
            "\n\n",
            "\r\n",
            "\r",
            "\0",
            "  \n",
            " ",
            "  ",
            "    ",
            "\t",
            "a",
            "word ",
            "two words\n",
            "漢字",
            "👨‍👩‍👧‍👦",
            "é",
            "# ",
            "### ",
            "===\n",
            "---\n",
            "***\n",
            "- ",
            "* ",
            "+ ",
            "1. ",
            "2) ",
            "10. ",
            "- [ ] ",
            "- [x] ",
            "> ",
            ">",
            "```\n",
            "```rust\n",
            "~~~\n",
            "````\n",
            "`",
            "``",
            "*",
            "**",
            "_",
            "~~",
            "[a](https://e.org)",
            "[a]",
            "![i](x)",
            "<b>",
            "<div>\n",
            "<!-- ",
            "-->",
            "<br>",
            "</div>\n",
            "| a | b |\n",
            "|---|:-:|\n",
            "| c |\n",
            "|",
            "\\",
            "&#27;",
            "\u{1b}[31m",
            "https://e.org/a_b ",
        ];
        let count = 1 + self.below(30);
        (0..count).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }
}
