//! What the tools promise: they stay in the workspace, they end, and they return what is there.

mod arguments;
mod background;
mod changing;
mod confined;
mod fixture;
mod reading;
mod running;
mod searching;
mod sessions;
