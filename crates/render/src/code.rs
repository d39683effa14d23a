//! Splits code into pieces by their syntactic role.
//!
//! The grammars are loaded when the first line of a known language is highlighted, never before,
//! and stay loaded. Colours are not chosen here: a piece has a `Role`, and the output has a colour
//! for it.
//!
//! Grammars are regular expressions, and a hostile text can make one slow. So there are limits: for
//! the length of a line, and for the code in one document and the time it takes. Code beyond them
//! is shown without colours.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use syntect::parsing::{BasicScopeStackOp, ParseState, Scope, ScopeStack, SyntaxSet};

use crate::palette::Role;

/// Bytes of a line. Some expressions take quadratic time in the length of a line; longer lines are
/// minified files and data, which nobody reads by their colours.
const LINE_BYTES_MAX: usize = 500;

/// Bytes of code in one document: about 6,000 lines, half a second of work. More than anybody scrolls
/// through.
const CODE_BYTES_MAX: usize = 256 * 1_024;

/// Time for one document. Several times what the largest code takes; only a text that attacks a
/// grammar gets here.
const TIME_MAX: Duration = Duration::from_secs(3);

/// The first scopes that fit decide, so the longer one comes first.
const ROLES: [(&str, Role); 37] = [
    ("comment", Role::Comment),
    ("punctuation.definition.comment", Role::Comment),
    ("string", Role::String),
    ("punctuation.definition.string", Role::String),
    ("constant.character", Role::String),
    ("constant.other.placeholder", Role::Attribute),
    ("constant", Role::Number),
    ("support.constant", Role::Number),
    ("keyword", Role::Keyword),
    ("storage.type.numeric", Role::Number),
    ("storage.type.primitive", Role::Type),
    ("storage", Role::Keyword),
    ("support.type.property-name", Role::Attribute),
    ("support.type", Role::Type),
    ("support.class", Role::Type),
    ("entity.name.type", Role::Type),
    ("entity.name.class", Role::Type),
    ("entity.name.struct", Role::Type),
    ("entity.name.enum", Role::Type),
    ("entity.name.trait", Role::Type),
    ("entity.name.impl", Role::Type),
    ("entity.name.namespace", Role::Type),
    ("entity.other.inherited-class", Role::Type),
    ("entity.name.function", Role::Function),
    ("entity.name.macro", Role::Function),
    ("support.function", Role::Function),
    ("support.macro", Role::Function),
    ("variable.function", Role::Function),
    ("variable.language", Role::Keyword),
    ("entity.name.tag", Role::Keyword),
    ("entity.other.attribute-name", Role::Attribute),
    ("variable.annotation", Role::Attribute),
    ("meta.annotation", Role::Attribute),
    ("markup.inserted", Role::Added),
    ("markup.deleted", Role::Removed),
    ("meta.diff.range", Role::Attribute),
    ("meta.diff.header", Role::Heading),
];

/// Names models use for languages that the grammars call something else.
const ALIASES: [(&str, &str); 15] = [
    ("jsx", "tsx"),
    ("console", "bash"),
    ("shell-session", "bash"),
    ("shell", "bash"),
    ("zsh", "bash"),
    ("golang", "go"),
    ("jsonc", "json"),
    ("json5", "json"),
    ("jsonl", "json"),
    ("python3", "python"),
    ("c#", "cs"),
    ("csharp", "cs"),
    ("c++", "cpp"),
    ("elisp", "lisp"),
    ("patch", "diff"),
];

/// Names that ask for no colours, so that nothing is loaded for them.
const PLAIN: [&str; 6] = ["", "text", "txt", "plain", "plaintext", "output"];

struct Grammars {
    set: SyntaxSet,
    roles: Vec<(Scope, Role)>,
}

static GRAMMARS: OnceLock<Grammars> = OnceLock::new();

fn grammars() -> &'static Grammars {
    GRAMMARS.get_or_init(|| {
        let role = |(name, role): (&str, Role)| Some((Scope::new(name).ok()?, role));
        Grammars {
            set: two_face::syntax::extra_newlines(),
            roles: ROLES.into_iter().filter_map(role).collect(),
        }
    })
}

/// Whether the grammars for highlighting have been loaded. They take a moment and some megabytes,
/// so a program that never shows code must not load them.
pub fn grammars_are_loaded() -> bool {
    GRAMMARS.get().is_some()
}

/// Highlights the code of one document, block by block and line by line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Highlighter {
    /// Gone when the language is not known or a limit was reached.
    state: Option<State>,
    bytes: usize,
    spent: Duration,
}

#[derive(Debug, Clone)]
struct State {
    parser: ParseState,
    scopes: ScopeStack,
    /// The role of each open scope.
    roles: Vec<Option<Role>>,
    /// Roles that were looked up before.
    known: HashMap<Scope, Option<Role>>,
}

impl Highlighter {
    /// Begins a block in the language named after its opening fence. Loads the grammars if one is
    /// named.
    pub(crate) fn begin(&mut self, info: &str) {
        self.state = language(info).and_then(|name| {
            let syntax = grammars().set.find_syntax_by_token(&name)?;
            Some(State {
                parser: ParseState::new(syntax),
                scopes: ScopeStack::new(),
                roles: Vec::new(),
                known: HashMap::new(),
            })
        });
    }

    /// Whether lines are shown in one colour from here on.
    pub(crate) fn is_off(&self) -> bool {
        self.state.is_none()
    }

    /// The pieces of the next line, which has no line feed. Concatenated, they are the line.
    pub(crate) fn line<'l>(&mut self, line: &'l str) -> Vec<(&'l str, Option<Role>)> {
        let within = line.len() <= LINE_BYTES_MAX
            && self.bytes + line.len() < CODE_BYTES_MAX
            && self.spent <= TIME_MAX;
        if let (Some(state), true) = (&mut self.state, within) {
            let started = Instant::now();
            let pieces = state.line(line);
            self.bytes += line.len() + 1;
            self.spent += started.elapsed();
            if let Some(pieces) = pieces {
                return pieces;
            }
        }
        self.state = None;
        vec![(line, None)]
    }
}

impl State {
    fn line<'l>(&mut self, line: &'l str) -> Option<Vec<(&'l str, Option<Role>)>> {
        let changes = self.parser.parse_line(&format!("{line}\n"), &grammars().set).ok()?;
        let mut pieces: Vec<(&str, Option<Role>)> = Vec::new();
        let mut from = 0;
        for (at, change) in changes {
            let at = at.min(line.len());
            self.piece(line.get(from..at)?, &mut pieces);
            from = at;
            let State { scopes, roles, known, .. } = self;
            let hook = |change: BasicScopeStackOp, _: &[Scope]| match change {
                BasicScopeStackOp::Push(scope) => {
                    roles.push(*known.entry(scope).or_insert_with(|| role(scope)));
                }
                BasicScopeStackOp::Pop => {
                    roles.pop();
                }
            };
            scopes.apply_with_hook(&change, hook).ok()?;
        }
        self.piece(line.get(from..)?, &mut pieces);
        Some(pieces)
    }

    fn piece<'l>(&self, text: &'l str, pieces: &mut Vec<(&'l str, Option<Role>)>) {
        if !text.is_empty() {
            pieces.push((text, self.roles.iter().rev().find_map(|role| *role)));
        }
    }
}

fn role(scope: Scope) -> Option<Role> {
    let fits = |(prefix, _): &&(Scope, Role)| prefix.is_prefix_of(scope);
    grammars().roles.iter().find(fits).map(|(_, role)| *role)
}

/// The language in what follows the opening fence: `rust,ignore`, `{.rust}`, `rust title="a"`.
fn language(info: &str) -> Option<String> {
    let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}' | '.' | ':' | '=');
    let name = info.split(ends).find(|word| !word.is_empty())?.to_ascii_lowercase();
    if PLAIN.contains(&name.as_str()) {
        return None;
    }
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    Some(alias.map_or(name, |(_, known)| (*known).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(info: &str) -> Highlighter {
        let mut highlighter = Highlighter::default();
        highlighter.begin(info);
        highlighter
    }

    fn roles(info: &str, line: &str) -> Vec<(String, Option<Role>)> {
        let mut highlighter = begun(info);
        let pieces = highlighter.line(line);
        pieces.into_iter().map(|(text, role)| (text.to_owned(), role)).collect()
    }

    fn role_of(info: &str, line: &str, part: &str) -> Option<Role> {
        roles(info, line).into_iter().find(|(text, _)| text == part).and_then(|(_, role)| role)
    }

    #[test]
    fn pieces_have_the_role_a_reader_expects() {
        assert_eq!(role_of("rust", "fn main() {}", "fn"), Some(Role::Keyword));
        assert_eq!(role_of("rust", "fn main() {}", "main"), Some(Role::Function));
        assert_eq!(role_of("python", "x = 'a'  # why", " why"), Some(Role::Comment));
        assert_eq!(role_of("json", "{\"a\": 12}", "12"), Some(Role::Number));
        assert_eq!(role_of("diff", "+new", "new"), Some(Role::Added));
    }

    #[test]
    fn languages_are_known_by_the_names_models_use() {
        for info in [
            "rust",
            "Rust,ignore",
            "{.rust}",
            "rs",
            "python",
            "py",
            "python3",
            "js",
            "javascript",
            "ts",
            "typescript",
            "tsx",
            "jsx",
            "bash",
            "sh",
            "shell",
            "console",
            "json",
            "jsonc",
            "yaml",
            "yml",
            "toml",
            "html",
            "css",
            "sql",
            "go",
            "golang",
            "java",
            "kotlin",
            "swift",
            "c",
            "cpp",
            "c++",
            "c#",
            "csharp",
            "ruby",
            "php",
            "dockerfile",
            "diff",
            "patch",
            "xml",
            "markdown",
            "md",
            "lua",
            "perl",
            "r",
            "scala",
            "haskell",
            "elixir",
            "zig",
            "nix",
            "make",
        ] {
            assert!(begun(info).state.is_some(), "{info}");
        }
        for info in ["", "text", "plaintext", "nosuchlanguage", "🦀"] {
            assert!(begun(info).state.is_none(), "{info}");
        }
    }

    #[test]
    fn the_pieces_of_a_line_are_the_line() {
        for line in ["let x = \"漢字 👨‍👩‍👧‍👦\"; // é", "", "\t\t", "'''"] {
            let pieces = roles("rust", line);
            assert_eq!(pieces.into_iter().map(|(text, _)| text).collect::<String>(), line);
        }
    }

    #[test]
    fn a_line_beyond_the_limit_ends_the_highlighting_of_its_block() {
        for (bytes, coloured) in [(499, true), (500, true), (501, false)] {
            let mut highlighter = begun("rust");
            highlighter.line(&format!("//{}", "a".repeat(bytes - 2)));
            let is_coloured = highlighter.line("fn a() {}").len() > 1;
            assert_eq!(is_coloured, coloured, "{bytes} bytes");
        }
    }

    #[test]
    fn a_document_is_highlighted_up_to_its_limit() {
        let line = |bytes: usize| format!("\"{}\"", "a".repeat(bytes - 2));
        // With its line feed the last line ends one byte before the limit, at it, and after it.
        for (bytes, is_coloured) in [(126, true), (127, true), (128, false)] {
            let mut highlighter = begun("json");
            for at in 1..2_048 {
                if at == 1_000 {
                    // The blocks of a document are counted together.
                    highlighter.begin("json");
                }
                assert_eq!(highlighter.line(&line(127))[0].1, Some(Role::String), "line {at}");
            }
            let role = highlighter.line(&line(bytes))[0].1;
            assert_eq!(role.is_some(), is_coloured, "{bytes} bytes");
        }
    }
}
