//! Puts tables into a document, between marks that say which is which.

use std::path::Path;

/// What one run writes: the sections of a document by name, and a picture.
pub(super) struct Written {
    /// The prefix of the names of its sections, and the name of its picture.
    pub(super) name: String,
    pub(super) sections: Vec<(&'static str, String)>,
    pub(super) picture: Option<String>,
}

impl Written {
    /// Writes every section that `economy.md` has a place for, and the picture next to it.
    ///
    /// # Errors
    ///
    /// I/O errors, and a document that has no place for any of the sections.
    pub(super) fn put(&self, docs: &Path) -> std::io::Result<()> {
        let document = docs.join("economy.md");
        let mut text = std::fs::read_to_string(&document)?;
        let mut found = false;
        for (section, content) in &self.sections {
            let mark = format!("<!-- {} {section}: written by the command -->\n", self.name);
            let Some((before, rest)) = text.split_once(&mark) else { continue };
            let Some((_, after)) = rest.split_once(END) else { continue };
            text = format!("{before}{mark}\n{content}\n{END}{after}");
            found = true;
        }
        if !found {
            let what = format!("{} has no section of `{}`", document.display(), self.name);
            return Err(std::io::Error::other(what));
        }
        std::fs::write(&document, text)?;
        match &self.picture {
            Some(picture) => {
                std::fs::write(docs.join(format!("economy-{}.svg", self.name)), picture)
            }
            None => Ok(()),
        }
    }
}

const END: &str = "<!-- end -->\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let document = folder.path().join("economy.md");
        let begin = "<!-- own table: written by the command -->\n";
        std::fs::write(&document, format!("before\n{begin}old\n{END}after\n")).expect("written");
        let written = Written {
            name: "own".into(),
            sections: vec![("table", "new\n".into()), ("other", "unused".into())],
            picture: Some("<svg/>".into()),
        };
        written.put(folder.path()).expect("written");
        let text = std::fs::read_to_string(&document).expect("read");
        assert_eq!(text, format!("before\n{begin}\nnew\n\n{END}after\n"));
        let picture = std::fs::read_to_string(folder.path().join("economy-own.svg"));
        assert_eq!(picture.expect("read"), "<svg/>");
        let other = Written { name: "other".into(), ..written };
        assert!(other.put(folder.path()).is_err(), "nothing to replace");
    }
}
