//! The files store beside other programs, other processes, and anything else in a directory.

mod damage;
mod fixture;
mod follow;
mod neighbour;
mod rivals;
mod search;
mod strays;
mod visible;
