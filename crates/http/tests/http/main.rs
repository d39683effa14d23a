//! The HTTP door, over real connections, against a real store and a scripted model.

mod agents;
mod bad;
mod browser;
mod chat;
mod client;
mod economy;
mod events;
mod gate;
mod openapi;
mod owners;
mod site;
mod unread;
mod verbs;
