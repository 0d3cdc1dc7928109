"""What the book reads of the repository: its version and commit, lessons by part, who owns a header."""
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = [("Start", 0, 0), ("One chip", 1, 8), ("Many chips", 9, 11),
         ("One model, many ranks", 12, 25), ("The whole machine", 26, 31)]


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def version():
    return re.search(r"project\(yotta VERSION ([0-9.]+)", text_of("CMakeLists.txt")).group(1)


def commit():
    """(short name, date) of the commit; without git, as in a tree that was handed out, the version alone."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%h %cs"]
    done = subprocess.run(command, capture_output=True, text=True)
    return tuple(done.stdout.split()) if done.returncode == 0 else ("without git", "")


def title_of(markdown):
    return re.search(r"^# (.+)$", markdown, re.M).group(1)


def topics(folder):
    """The names of a folder's topics, in order: "02_roofline"."""
    return sorted(p.name for p in (ROOT / folder).iterdir() if re.match(r"\d\d_", p.name))


def owners():
    """header -> the lesson that owns it, "" for foundations and machinery, in reading order."""
    pages = json.loads(text_of("lessons/pages.json"))
    found = {}
    for lesson in pages["lessons"]:
        for header in lesson["read_first"] + lesson.get("then", []):
            found[header] = lesson["lesson"]
    for header in pages["foundations"] + pages["machinery"]:
        found[header] = ""
    return found
