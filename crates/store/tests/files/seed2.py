"""A small session manager, written from the description of the directory alone.

It knows nothing of Rethread. It keeps sessions as `<id>.json` with `metadata`, `messages` and
`contextSummary`, an `index.json` and a `last_session`, writes through a temporary file, and does
what programs of its kind do when they continue a session: it drops tool messages and repeated
ones, keeps the last hundred, gives new ids and times, and cuts previews by UTF-16 units.

    seed2.py DIR save NAME TEXT...          a session with these texts, user and assistant in turn
    seed2.py DIR continue ID TEXT...        goes on with a session
    seed2.py DIR rename ID NEW
    seed2.py DIR edit ID NUMBER TEXT        changes one message
    seed2.py DIR delete ID
    seed2.py DIR list | show ID | last | check
"""

import datetime
import json
import os
import random
import re
import string
import sys
import time

VERSION = "1.0"
ID = re.compile(r"^[a-zA-Z0-9_.-]+$")
RESERVED = {"index", "metadata", "last_session", "con", "prn", "aux", "nul"}
RESERVED |= {f"{port}{n}" for port in ("com", "lpt") for n in range(1, 5)}
KEEP = 100


def now():
    at = datetime.datetime.now(datetime.timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def fresh_id():
    at = datetime.datetime.now(datetime.timezone.utc)
    rand = "".join(random.choice(string.ascii_letters + string.digits + "_") for _ in range(4))
    return at.strftime("%Y-%m-%d-%H-%M-%S-") + f"{at.microsecond // 1000:03d}-{rand}"


def preview(text):
    """The first 200 UTF-16 units, as a program in JavaScript takes them."""
    units = text.encode("utf-16-le", "surrogatepass")[:400]
    return units.decode("utf-16-le", "surrogatepass")


def sanitized(name):
    name = re.sub(r"[^a-z0-9_.-]", "-", name.lower())
    return re.sub(r"-+", "-", name).strip("-")[:64]


class SessionManager:
    def __init__(self, folder, max_sessions=50):
        self.folder = folder
        self.max_sessions = max_sessions
        os.makedirs(folder, exist_ok=True)

    def path(self, session_id):
        if not ID.match(session_id) or ".." in session_id or session_id.lower() in RESERVED:
            raise ValueError(f"invalid session id: {session_id!r}")
        return os.path.join(self.folder, session_id + ".json")

    def write(self, path, text):
        temp = f"{path}.tmp.{int(time.time() * 1000)}-{random.randrange(10**9)}"
        try:
            with open(temp, "w", encoding="ascii") as file:
                file.write(text)
            os.rename(temp, path)
        except BaseException:
            os.unlink(temp)
            raise

    def index(self):
        with open(os.path.join(self.folder, "index.json"), encoding="utf-8") as file:
            index = json.load(file)
        if not isinstance(index["version"], str) or not isinstance(index["sessions"], dict):
            raise TypeError("not an index")
        return index

    def write_index(self, change):
        try:
            index = self.index()
        except FileNotFoundError:
            index = {"version": VERSION, "sessions": {}, "updatedAt": now()}
        change(index["sessions"])
        index["updatedAt"] = now()
        self.write(os.path.join(self.folder, "index.json"), json.dumps(index, indent=2))

    def last(self, session_id=None):
        path = os.path.join(self.folder, "last_session")
        if session_id is not None:
            self.write(path, session_id)
        with open(path, encoding="utf-8") as file:
            return file.read().strip()

    def save(self, session_id, messages, name=None, old=None):
        old = old or {}
        said = [m["content"] for m in messages if m["role"] == "user"]
        metadata = {
            "id": session_id,
            "name": name or old.get("name") or session_id,
            "createdAt": old.get("createdAt") or now(),
            "lastActivityAt": now(),
            "messageCount": len(messages),
            "firstMessage": preview(said[0]) if said else "",
            "provider": "acme",
            "model": "acme-1",
        }
        session = {"metadata": metadata, "messages": messages}
        self.write(self.path(session_id), json.dumps(session, indent=2))
        self.write_index(lambda sessions: sessions.__setitem__(session_id, metadata))
        self.last(session_id)
        return metadata

    def load(self, session_id):
        with open(self.path(session_id), encoding="utf-8") as file:
            return json.load(file)

    def list(self):
        sessions = self.index()["sessions"].values()
        return sorted(sessions, key=lambda m: m["lastActivityAt"], reverse=True)

    def go_on(self, session_id, texts):
        session = self.load(session_id)
        kept = []
        for message in session["messages"]:
            plain = {"role": message["role"], "content": message["content"]}
            if plain["role"] in ("user", "assistant") and plain not in kept[-1:]:
                kept.append(plain)
        kept += conversation(texts)
        for message in kept:
            message.update(id=fresh_id(), timestamp=now())
        return self.save(session_id, kept[-KEEP:], old=session["metadata"])

    def rename(self, session_id, new):
        session = self.load(session_id)
        new_id = sanitized(new)
        messages = [
            {"id": fresh_id(), "timestamp": now(), "role": m["role"], "content": m["content"]}
            for m in session["messages"]
        ]
        self.save(new_id, messages, name=new, old=session["metadata"])
        self.delete(session_id)
        self.last(new_id)

    def edit(self, session_id, number, text):
        session = self.load(session_id)
        session["messages"][number]["content"] = text
        self.save(session_id, session["messages"], old=session["metadata"])

    def delete(self, session_id):
        os.unlink(self.path(session_id))
        self.write_index(lambda sessions: sessions.pop(session_id, None))
        rest = self.list()
        if self.last() == session_id and rest:
            self.last(rest[0]["id"])

    def check(self):
        """Whether everything in the directory is as this program needs it."""
        problems = []

        def must(held, what):
            if not held:
                problems.append(what)

        text = {"id", "name", "createdAt", "lastActivityAt", "firstMessage", "provider", "model"}
        index = self.index()
        must(index["version"] == VERSION, "version")
        must(isinstance(index["updatedAt"], str), "updatedAt")
        for key, listed in index["sessions"].items():
            session = self.load(key)
            metadata = session["metadata"]
            must(metadata == listed, f"{key}: the index says something else than the file")
            must(metadata["id"] == key, f"{key}: id {metadata['id']}")
            for field in text:
                must(isinstance(metadata.get(field), str), f"{key}: {field}")
            for field in ("createdAt", "lastActivityAt"):
                datetime.datetime.fromisoformat(metadata[field].replace("Z", "+00:00"))
            must(metadata["messageCount"] == len(session["messages"]), f"{key}: messageCount")
            must(len(metadata["firstMessage"]) <= 200, f"{key}: firstMessage")
            must(isinstance(metadata.get("description", ""), str), f"{key}: description")
            must(isinstance(session.get("contextSummary", ""), str), f"{key}: contextSummary")
            for message in session["messages"]:
                for field in ("id", "role", "content", "timestamp"):
                    must(isinstance(message.get(field), str), f"{key}: a message's {field}")
                datetime.datetime.fromisoformat(message["timestamp"].replace("Z", "+00:00"))
        strays = {name[:-5] for name in os.listdir(self.folder) if name.endswith(".json")}
        strays -= {"index"} | set(index["sessions"])
        must(not strays, f"files that are not in the index: {sorted(strays)}")
        if index["sessions"]:
            must(self.last() in index["sessions"], f"last_session: {self.last()}")
        return problems


def conversation(texts):
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]


def main(folder, command, *rest):
    manager = SessionManager(folder)
    if command == "save":
        messages = conversation(rest[1:])
        for message in messages:
            message.update(id=fresh_id(), timestamp=now())
        session_id = sanitized(rest[0]) if rest[0] else fresh_id()
        print(manager.save(session_id, messages, name=rest[0] or None)["id"])
    elif command == "continue":
        manager.go_on(rest[0], rest[1:])
    elif command == "rename":
        manager.rename(rest[0], rest[1])
    elif command == "edit":
        manager.edit(rest[0], int(rest[1]), rest[2])
    elif command == "delete":
        manager.delete(rest[0])
    elif command == "list":
        print(json.dumps(manager.list()))
    elif command == "show":
        print(json.dumps(manager.load(rest[0])))
    elif command == "last":
        print(manager.last())
    elif command == "check":
        problems = manager.check()
        print("\n".join(problems))
        sys.exit(1 if problems else 0)


main(*sys.argv[1:])
