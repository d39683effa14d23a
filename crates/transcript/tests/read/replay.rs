//! The seeds of the fuzz targets, through every reader: they are small and strange on purpose.
//!
//! A seed is named after the format it must be recognised as, or `none`.

use std::path::{Path, PathBuf};

use rethread_core::Body;
use rethread_transcript::read::{Format, read, recognise};

use crate::support::{Collected, options};

fn seeds() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let files = std::fs::read_dir(folder).expect("the seeds are there");
    let mut seeds: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    seeds.sort();
    assert!(seeds.len() > 90, "only {} seeds", seeds.len());
    seeds
}

#[test]
fn every_seed_is_recognised_as_what_it_is_called_after() {
    for seed in seeds() {
        let name = seed.file_name().expect("a name").to_string_lossy().into_owned();
        let named = name.split('.').next().expect("a first part");
        let found = recognise(&seed).expect("it is looked at").map_or("none", Format::name);
        assert_eq!(found, named, "{name}");
    }
}

#[test]
fn every_reader_survives_and_accounts_for_every_seed() {
    for seed in seeds() {
        for format in Format::ALL {
            let mut collected = Collected::default();
            // A reader may refuse other formats.
            let Ok(account) = read(*format, &seed, &options(), &mut collected, &mut |_| {}) else {
                continue;
            };
            assert!(account.balances(), "{format:?} of {seed:?}: {account:?}");
            let explained = account.pairs + account.open + account.dropped;
            assert_eq!(account.calls, explained, "{format:?} of {seed:?}");
            for entry in collected.sessions.iter().flat_map(|(_, entries)| entries) {
                let json = entry.body.json();
                let again = Body::parse(entry.body.kind(), &json).expect("a log accepts it");
                assert_eq!(again.json(), json, "{format:?} of {seed:?}");
            }
        }
    }
}
