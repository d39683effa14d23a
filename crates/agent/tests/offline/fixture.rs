//! A small project and earlier conversations about it, built again for every test.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{Fixed, MemoryStore, Message, Name, New, Owner, Sessions};

/// The files of the project.
const FILES: [(&str, &str); 10] = [
    (
        "README.md",
        r##"# Ferry

Ferry carries notifications from a shop to its customers: e-mail, text message and
web push. It is one binary and one PostgreSQL database.

## Getting started

```sh
make dev        # starts PostgreSQL in a container and the binary beside it
make check      # formatting, lints and tests, as the pipeline runs them
```

The first start creates the tables. Open http://localhost:7070 for the dashboard.

## Licence

Apache 2.0.
"##,
    ),
    (
        "docs/architecture.md",
        r##"# Architecture

## Overview

A request becomes a *parcel*. Parcels wait in the table `parcels` until a worker takes one. There
is no message broker: the table is the queue, and workers take rows with `SKIP LOCKED`.

## Delivery

Each channel has its own adapter behind the trait `Carrier`. An adapter tells whether a failure is
worth another attempt.

## Deduplication

A parcel has a fingerprint: recipient, template and the hour it was made. A second parcel with the
same fingerprint is dropped and counted, so that a shop which sends an order twice does not annoy
anyone.

## Time

All times are stored in UTC. Quiet hours are applied in the time zone of the recipient, between
22:00 and 07:00; what falls into them is held back until the morning.
"##,
    ),
    (
        "docs/operations.md",
        r##"# Operations

## Backups

The database is dumped every night at 02:30 to the bucket `ferry-vault` and kept for 35 days.
Restoring is practised on the first Monday of each quarter.

## Alerts

The on-call person is paged when more than 500 parcels have waited for ten minutes, or when a
carrier refuses every attempt for five.

## Upgrading

Migrations run at start-up behind a lock. Roll back by deploying the previous image; every
migration has to work with the version before it.
"##,
    ),
    (
        "docs/api.md",
        r##"# HTTP interface

## Authentication

Every request carries a bearer token. Tokens are made with `ferry token new` and can be revoked at
any time; they have no expiry of their own.

## POST /parcels

The body has `to`, `template` and `values`. The answer is 202 and the number of the parcel.

## Errors

Problems are told as `application/problem+json`. A shop that sends too fast gets 429 and the
header `Retry-After`.
"##,
    ),
    (
        "src/retry.rs",
        r##"//! When a failed delivery is tried again.

use std::time::Duration;

/// Attempts before a parcel is given up and put aside for a person to look at.
pub const ATTEMPTS_MAX: u32 = 7;

/// The pause before attempt `n`: doubles from two seconds, with up to a fifth of it at random so
/// that a thousand parcels do not come back in the same moment.
pub fn pause(attempt: u32, jitter: f64) -> Duration {
    let base = Duration::from_secs(2) * 2u32.pow(attempt.min(10));
    base.mul_f64(1.0 + jitter * 0.2)
}
"##,
    ),
    (
        "src/limiter.rs",
        r##"//! How fast a shop may send.

/// A bucket that fills at a steady pace. A full one allows a burst.
pub struct Bucket {
    tokens: f64,
    capacity: f64,
    per_second: f64,
}

impl Bucket {
    /// Takes a token, if one is there.
    pub fn take(&mut self, elapsed: f64) -> bool {
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.capacity);
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}
"##,
    ),
    (
        "src/main.rs",
        r##"//! The binary: reads the configuration, starts the workers and the HTTP server.

mod limiter;
mod retry;

fn main() {
    let workers = std::thread::available_parallelism().map_or(4, |n| n.get());
    for _ in 0..workers {
        start_worker();
    }
    serve();
}
"##,
    ),
    (
        "scripts/report.py",
        r##""""Monthly report: parcels per channel and shop, as CSV on standard output."""

import csv
import sys

COLUMNS = ["shop", "channel", "sent", "failed", "dropped"]


def write_report(rows):
    writer = csv.DictWriter(sys.stdout, fieldnames=COLUMNS)
    writer.writeheader()
    for row in rows:
        writer.writerow(row)
"##,
    ),
    (
        "config/default.toml",
        r##"# Every setting can be overridden by FERRY_<NAME>.

[http]
listen = "127.0.0.1:7070"
body_limit_kib = 256

[database]
url = "postgres://localhost/ferry"
pool_size = 12

[mail]
relay = "smtp.example.net:587"
sender = "no-reply@ferry.example"
"##,
    ),
    (
        "CHANGELOG.md",
        r##"# Changelog

## 2.3.0

- Web push: subscriptions that the browser has withdrawn are removed.
- The dashboard shows parcels by hour.

## 2.2.0

- Templates may be written in Markdown.
- Support for Python 3.8 in the scripts has ended.
"##,
    ),
];

/// What was said in earlier sessions: a name, then question and answer in turn.
const HISTORY: [(&str, &[&str]); 4] = [
    (
        "queue-choice",
        &[
            "Should we bring in RabbitMQ for the queue?",
            "Kafka and RabbitMQ would both work. But you already run PostgreSQL, and at 40 parcels a second a table with SKIP LOCKED is enough. One less thing to operate.",
            "Agreed, no broker then. Revisit if we ever pass 2,000 parcels a second.",
            "Noted: decision is PostgreSQL as the queue, to be revisited above 2,000 parcels per second.",
        ],
    ),
    (
        "sms-provider",
        &[
            "Compare Twilio and MessageBird for text messages in Germany and Austria.",
            "MessageBird is about 18 % cheaper there and has a direct route to all three Austrian carriers. Twilio has the better dashboard.",
            "Take MessageBird. Anna signs the contract by the end of March.",
            "Decided: MessageBird for text messages; Anna signs by the end of March.",
        ],
    ),
    (
        "dashboard-colours",
        &[
            "The dashboard is hard to read for people who are colour-blind. Ideas?",
            "Use the Okabe-Ito palette and mark failures with a hatched pattern besides the colour.",
            "Good, go with Okabe-Ito.",
            "Done: palette switched to Okabe-Ito, failures hatched.",
        ],
    ),
    (
        "incident-may",
        &[
            "Customers got the same e-mail three times on 14 May. Why?",
            "The clock of worker 3 was two hours ahead, so its parcels had fingerprints of another hour and passed the duplicate check. Fix: take the hour from the database, not from the worker.",
            "Do that, and add a check of clock drift at start-up.",
            "Both are in: the hour comes from the database, and a worker whose clock is off by more than five seconds refuses to start.",
        ],
    ),
];

/// Writes the project into a folder.
pub(crate) fn project(folder: &Path) {
    for (path, text) in FILES {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
}

/// The sessions with what was said before.
pub(crate) fn history() -> Sessions {
    let world = Arc::new(Fixed::default());
    let store = Arc::new(MemoryStore::new(world.clone()));
    let sessions = Sessions::new(store, Owner::local(), world.clone());
    for (name, said) in HISTORY {
        let new = New { name: Some(Name::new(name).expect("a name")), ..New::default() };
        let id = sessions.create(&new, None).expect("a session").id();
        for (index, text) in said.iter().enumerate() {
            let message = match index % 2 {
                0 => Message::user(*text),
                _ => Message::assistant(*text),
            };
            sessions.append(id, vec![message.into()]).expect("an append");
        }
        // Sessions created in the same minute would have ids with the same prefix.
        world.advance(Duration::from_secs(3_600));
    }
    sessions
}
