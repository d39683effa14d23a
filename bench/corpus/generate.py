#!/usr/bin/env python3
"""Writes the sessions of this folder. The same every time: nothing here is real, and nothing is random
but the numbers drawn from a fixed seed.

    python3 bench/corpus/generate.py bench/corpus

Three kinds of sessions, as Claude Code writes them: work on code (reading, searching, editing, running
tests), research (long pages, notes), and plain talk. What matters for the measurement is what such
sessions have in common: files are read whole and again in part, edits replace text that was read,
replies use names that appeared long before, people pause.
"""

import json
import pathlib
import random
import sys
from datetime import datetime, timedelta, timezone

VERBS = "load parse merge flush retry schedule validate encode resolve collect".split()
NOUNS = "queue ledger invoice cursor journal tariff roster parcel beacon vault".split()
TYPES = "u64 String Option<Entry> Vec<Row> Result<Plan> bool".split()
FILES = ["src/main.rs", "src/store/ledger.rs", "src/store/journal.rs", "src/billing/invoice.rs",
         "src/billing/tariff.rs", "src/net/beacon.rs", "src/net/retry.rs", "tests/billing.rs"]


def module(rng, path):
    """A source file: a list of lines."""
    stem = path.split("/")[-1].split(".")[0]
    lines = [f"//! The {stem}: what it holds and what may be done to it.", "",
             "use std::collections::BTreeMap;", "", f"pub const {stem.upper()}_MAX: usize = {rng.randint(1000, 99999)};", ""]
    for _ in range(rng.randint(8, 22)):
        name = f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}_{rng.randint(10, 99)}"
        lines += [f"/// {name.replace('_', ' ').capitalize()}, unless the {rng.choice(NOUNS)} is closed.",
                  f"pub fn {name}(&mut self, {rng.choice(NOUNS)}: {rng.choice(TYPES)}) -> {rng.choice(TYPES)} {{"]
        for _ in range(rng.randint(3, 9)):
            a, b = rng.choice(NOUNS), rng.choice(VERBS)
            lines.append(rng.choice([
                f"    let {a}_{rng.randint(1, 40)} = self.{b}_{a}({rng.randint(1, 5000)})?;",
                f"    if self.{a}.len() > {rng.randint(10, 9000)} {{",
                f"        return Err(Error::{a.capitalize()}Full {{ at: {rng.randint(1, 900)} }});",
                "    }", f"    tracing::debug!(\"{b} {a}\");",
                f"    self.{a}.entry(key).or_default().push({b}_{rng.choice(NOUNS)});"]))
        lines += ["}", ""]
    return lines


class Session:
    def __init__(self, seed, name):
        self.rng, self.name = random.Random(seed), name
        self.at = datetime(2026, 3, 2, 9, 0, tzinfo=timezone.utc) + timedelta(days=seed)
        self.rows, self.parent, self.count = [], None, 0

    def row(self, kind, content, **more):
        self.count += 1
        uuid = f"{self.rng.getrandbits(32):08x}-0000-4000-8000-{self.count:012d}"
        self.at += timedelta(seconds=self.rng.randint(1, 12))
        message = {"role": kind, "content": content, **more}
        self.rows.append({"parentUuid": self.parent, "isSidechain": False, "cwd": "/srv/parcel", "sessionId": self.name,
                          "version": "2.1.0", "type": kind, "message": message, "uuid": uuid,
                          "timestamp": self.at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.count % 1000:03d}Z"})
        self.parent = uuid

    def ask(self, text, pause=30):
        self.at += timedelta(seconds=pause)
        self.row("user", text)

    def reply(self, *content):
        self.row("assistant", list(content), id=f"msg_{self.count:06d}", model="claude-sonnet-5", type="message",
                 usage={"input_tokens": 10, "output_tokens": 100})

    def say(self, text):
        self.reply({"type": "text", "text": text})

    def call(self, tool, inputs, result, text=None, error=False):
        call = f"toolu_{self.count:08d}"
        said = [{"type": "text", "text": text}] if text else []
        self.reply(*said, {"type": "tool_use", "id": call, "name": tool, "input": inputs})
        answer = {"type": "tool_result", "tool_use_id": call, "content": result}
        if error:
            answer["is_error"] = True
        self.row("user", [answer])

    def write(self, folder):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
        (folder / f"{self.name}.jsonl").write_text(text, encoding="utf-8")


def numbered(lines, first=1):
    return "\n".join(f"{n:>6}→{line}" for n, line in enumerate(lines, first))


def coding(seed, name, turns):
    s = Session(seed, name)
    rng = s.rng
    files = {path: module(rng, path) for path in FILES}
    functions = lambda path: [line.split("(")[0].split()[-1] for line in files[path] if line.startswith("pub fn")]
    for turn in range(turns):
        path = rng.choice(FILES)
        target = rng.choice(functions(path))
        s.ask(f"{rng.choice(['Fix', 'Extend', 'Simplify'])} `{target}` in {path}: it must respect "
              f"{rng.choice(NOUNS)} limits of {rng.randint(1000, 9000)}.", pause=rng.choice([20, 60, 90, 400, 900]))
        s.call("Grep", {"pattern": target, "path": "src"},
               "\n".join(f"{p}:{n}:{line}" for p in FILES for n, line in enumerate(files[p], 1)
                         if target in line or rng.random() < 0.03), text=f"Looking for `{target}`.")
        s.call("Read", {"file_path": path}, numbered(files[path]))
        for _ in range(rng.randint(1, 3)):
            lines = files[path]
            start = next((n for n, line in enumerate(lines) if target in line), 0)
            if rng.random() < 0.5:
                s.call("Read", {"file_path": path, "offset": start + 1, "limit": 30},
                       numbered(lines[start:start + 30], start + 1))
            at = min(start + rng.randint(1, 4), len(lines) - 3)
            old = lines[at:at + rng.randint(2, 3)]
            new = old[:1] + [f"    self.check_{rng.choice(NOUNS)}_{rng.randint(100, 999)}({rng.randint(1000, 9999)})?;"] + old[1:]
            lines[at:at + len(old)] = new
            s.call("Edit", {"file_path": path, "old_string": "\n".join(old), "new_string": "\n".join(new)},
                   f"The file {path} has been updated. Here's the result of running `cat -n` on a snippet:\n"
                   + numbered(lines[max(0, at - 4):at + 8], max(0, at - 4) + 1))
            tests = [f"test billing::{rng.choice(VERBS)}_{rng.choice(NOUNS)}_{n} ... \x1b[32mok\x1b[0m" for n in range(rng.randint(20, 90))]
            if rng.random() < 0.4:
                tests += ["", "failures:", f"---- {target} stdout ----",
                          f"thread '{target}' panicked at {path}:{at}: left: {rng.randint(1000, 9999)}, right: {rng.randint(1000, 9999)}"]
            s.call("Bash", {"command": "cargo test --quiet"}, "\n".join(tests), error="failures:" in tests)
            if rng.random() < 0.3:
                path = rng.choice(FILES)
                s.call("Read", {"file_path": path}, numbered(files[path]), text="This may concern another file, too.")
                target = rng.choice(functions(path))
        s.say(f"`{target}` in {path} now checks its limit, and the tests say so.")
    return s


def research(seed, name, turns):
    s = Session(seed, name)
    rng = s.rng
    sources = [f"https://example.org/{rng.choice(NOUNS)}/{rng.choice(VERBS)}-{rng.randint(100, 999)}" for _ in range(8)]
    notes = []
    for turn in range(turns):
        topic = rng.choice(NOUNS)
        s.ask(f"What is known about {topic} systems, and who measured them?", pause=rng.choice([60, 200, 700]))
        s.call("WebSearch", {"query": f"{topic} throughput measurements"},
               "\n\n".join(f"{n + 1}. {url}\n   Notes on the {rng.choice(NOUNS)}: {rng.randint(1000, 99999)} per hour" for n, url in enumerate(sources)))
        for url in rng.sample(sources, rng.randint(1, 3)):
            figure = f"{rng.choice(NOUNS).capitalize()}Bench{rng.randint(10, 99)}"
            text = [f"# The {topic} in practice", ""]
            for _ in range(rng.randint(12, 40)):
                text.append(" ".join(rng.choice(["the", "a", "of", "in", "with", "measured", "systems", "rate", "cost", "daily", "when", topic])
                                     for _ in range(rng.randint(20, 70))) + ".")
                if rng.random() < 0.15:
                    text.append(f"{figure} reported {rng.randint(10000, 99999)} a day on host_{rng.randint(1, 60)}.")
            text.append(f"Contact: {figure} group, report R{rng.randint(1000, 9999)}.")
            s.call("WebFetch", {"url": url, "prompt": f"{topic}: figures"}, "\n".join(text))
            notes.append(figure)
        known = rng.sample(notes, min(len(notes), 2))
        if turn % 3 == 2:
            s.call("Write", {"file_path": "notes.md", "content": "\n".join(f"- {note}" for note in notes)}, "File created successfully at: notes.md")
        s.say(f"{' and '.join(known)} measured it; the pages at {rng.choice(sources)} say most.")
    return s


def chat(seed, name, turns):
    s = Session(seed, name)
    rng = s.rng
    said = []
    for _ in range(turns):
        word = rng.choice(NOUNS)
        s.ask(f"How would you explain a {word} to {rng.choice(['a child', 'an accountant', 'my team'])}?", pause=rng.choice([40, 120, 600, 4000]))
        said.append(f"{word.capitalize()}Card{rng.randint(10, 99)}")
        s.say(f"Think of {rng.choice(said)}: " + " ".join(rng.choice("it holds what you need until you ask for more or less of that".split()) for _ in range(rng.randint(40, 160))) + ".")
    return s


def main():
    folder = pathlib.Path(sys.argv[1])
    for seed, name, turns in [(1, "coding-billing", 5), (2, "coding-network", 4), (3, "coding-store", 3)]:
        coding(seed, name, turns).write(folder)
    for seed, name, turns in [(4, "research-tariffs", 4), (5, "research-parcels", 3)]:
        research(seed, name, turns).write(folder)
    chat(6, "chat-words", 14).write(folder)


if __name__ == "__main__":
    main()
