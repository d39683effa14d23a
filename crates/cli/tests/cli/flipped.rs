//! Some bytes of a store flipped: the short form of `cargo xtask faults damage`.

#[path = "../faults/flipped.rs"]
mod all;

/// Which bits are flipped. Another number tries others.
const SEED: u64 = 1;

#[test]
fn no_flipped_bit_changes_what_is_read_of_an_entry() {
    for (name, flips) in
        [("sqlite", all::sqlite as fn(u64, usize) -> Result<String, String>), ("files", all::files)]
    {
        let said = flips(SEED, 101).unwrap_or_else(|said| panic!("{name}: {said}"));
        println!("{name}: {said}");
    }
    // Without checking fingerprints, some entries would be read with wrong content.
    all::control(SEED, 11).expect_err("the flips hit what was said");
}
