#!/usr/bin/python3
"""Tests of the book: check_site.py SITE PROGRAMS [--long]. Ends with "N passed, N failed, N skipped".

SITE is what `./yotta book` made, PROGRAMS the folder of book_figures, whose answers the figures'
numbers are compared with. What needs a browser is skipped, and said, where there is none. A browser
opens every page but those of the library's files, which are all alike: of them each sixth, with
--long each. With --long figures of real runs are run again, too.
"""
import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback

import site_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "course/book"))
import figures
import markdown_text
import repository
import single_file

try:
    import site_in_browser
except ImportError:  # python3-selenium is not installed
    site_in_browser = None


class Tests:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, []

    def run(self, name, complaints):
        """`complaints()` is a list: empty if all is well."""
        try:
            found = complaints()
        except Exception:  # a test that breaks off has failed; the others go on
            found = [traceback.format_exc()]
        if found:
            self.failed += 1
            print(f"FAILED: {name}: {len(found)} complaints")
            print("\n".join("    " + each for each in found[:20]), flush=True)
        else:
            self.passed += 1
            print(f"passed: {name}", flush=True)

    def skip(self, name, reason):
        self.skipped.append(f"{name}: {reason}")

    def end(self):
        if self.skipped:
            print("Not run:")
            print("\n".join("    " + each for each in self.skipped))
        print(f"{self.passed} passed, {self.failed} failed, {len(self.skipped)} skipped")
        return 1 if self.failed or not self.passed else 0


def every_lesson(site):
    """A lesson without its page, exercise or notebook."""
    lessons = [p.parent.name for p in sorted((ROOT / "lessons").glob("*/README.md"))]
    return [f"{folder}/{each}.html is not there" for each in lessons for folder in ("lessons", "exercises", "notebooks")
            if not (site / folder / f"{each}.html").exists()]


def answered_before_asked(site):
    found = []
    for file in sorted((ROOT / "lessons").glob("*/predictions.json")):
        topic = file.parent.name
        text = (site / f"lessons/{topic}.html").read_text(encoding="utf-8")
        for i, each in enumerate(json.loads(file.read_text(encoding="utf-8"))):
            asked, answered = text.find(f'data-key="predict/{topic}/{i}"'), text.find(f'id="{markdown_text.anchor(each["answer"]["block"])}"')
            if not 0 <= asked < answered:
                found.append(f"{topic}, question {i}: asked at {asked}, answered at {answered}")
    return found


def wrongly_broken():
    sentence, wide = "a" * 140, "a" * 115
    cases = [("output 05.unsafe", [sentence], " .wrapped"), ("", ["short", wide], " .wrapped"), ("output 03.ladder", [wide] * 5, " .dense"),
             ("", ["x " + "─" * 115] * 2, " .dense"), ("output 19.dual", ["rank 0   " + "0F0 " * 26], " .dense"), ("cpp", [sentence], ""), ("cpp", [wide], " .dense"), ("sh", ["short"], "")]
    return [f"{len(block)} lines of {len(block[-1])} in '{info}'" for info, block, kind in cases
            if markdown_text.wrapped(info, block) != kind]


def sources_linked(site):
    """A name leads to its definition, and the page to the lesson that teaches it."""
    text = (site / "reference/machine/roofline.hpp.html").read_text(encoding="utf-8")
    wanted = ['<a id="Roofline-ridge"></a>', '<a href="chip.hpp.html#Chip">', '../../lessons/02_roofline.html',
              '<a href="chip.hpp.html">']
    return [f"no '{each}'" for each in wanted if each not in text]


def too_large(site):
    text = site_files.read_one(site, "index.html")
    first = [site / "index.html"] + [(site / each).resolve() for each in text.loads]
    sizes = [("the first page", site_files.kilobytes(first), 300)]
    module = site / "figures/figures.wasm"
    if module.exists():
        scripts = [site / "figures" / name for name in ("figure.js", "drawing.js", "18_schedule.js", "schedule.js")]
        sizes.append(("a figure", site_files.kilobytes([module] + scripts), 200))
    for name, size, _ in sizes:
        print(f"    {name}: {size:.0f} kB")
    return [f"{name} has {size:.0f} kB, and {most} are the most" for name, size, most in sizes if size > most]


def opened(pages):
    files = [each for each in pages if each.startswith("reference/")]
    others = [each for each in pages if not each.startswith("reference/") and each != "404.html"]
    return others + (files if "--long" in sys.argv else files[::6])


def main():
    site, programs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tests, pages = Tests(), site_files.read(site)
    tests.run("every lesson has its page, exercise and notebook", lambda: every_lesson(site))
    tests.run("every link inside the book leads somewhere, its anchor too", lambda: site_files.lost_links(site, pages))
    tests.run("no page loads anything from another server", lambda: site_files.other_servers(pages))
    tests.run("every picture is described", lambda: site_files.unnamed_pictures(pages))
    tests.run("no mark of Markdown is left", lambda: site_files.left_markdown(site, pages))
    tests.run("long sentences are broken in blocks, tables and C++ are not", wrongly_broken)
    tests.run("each question stands before its answer", lambda: answered_before_asked(site))
    tests.run("names in sources lead to their definitions", lambda: sources_linked(site))
    tests.run("each figure's lines of C++ give its numbers", lambda: lines_that_fail(programs))
    tests.run("a lesson's program compiles as one file", single_files_that_fail)
    tests.run("pages and figures are small", lambda: too_large(site))
    in_browser = ["pages load without errors", "figures say what the library says", "words of figures can be read",
                  "the keyboard alone works every figure",
                  "dragging works every figure",
                  "buttons, the wheel and clicks move figures",
                  "a link brings back a figure's state", "what can be used has a name and contrast", "pages and pictures fit a phone, and formulas a screen"]
    if "--long" in sys.argv:
        tests.run("recorded figures have the same numbers in a second run", lambda: other_records(programs))
    missing = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    if site_in_browser is None:
        missing.append("python3-selenium")
    if missing:
        for each in in_browser:
            tests.skip(each, f"not installed: {', '.join(missing)} (Debian: apt-get install chromium chromium-driver python3-selenium)")
        return tests.end()
    tests.run("a browser that ends is said and counted", lambda: end_of_a_browser(site))
    in_a_browser(tests, in_browser, site, programs, opened(pages))
    return tests.end()


def other_records(programs):
    """Where the ranks' programs say something else than when the build recorded them."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([programs.parents[1] / "lessons/lesson_28_planner", "--sliders", f"{folder}/plans.html"], check=True, capture_output=True)
        for name in figures.recorded():
            subprocess.run([programs / "book_records", name, f"{folder}/{name}.json"], check=True)
        pairs = zip(figures.records(programs / "records"), figures.records(folder))
        return [f"{ours['about']['name']}: {line}" for ours, other in pairs for line in site_files.differences(ours, other)[:5]]


def in_a_browser(tests, names, site, programs, shown):
    """Runs what needs a browser. If it ends, what it was doing has failed and the rest is not run."""
    try:
        with site_in_browser.Browser(site) as browser:
            figures, wide = site_in_browser.Figures(browser, programs), []

            def visit():
                errors, too_wide = browser.visit(shown)
                wide.extend(too_wide)
                return errors

            complaints = [visit, figures.other_numbers, lambda: figures.unreadable,
                          figures.without_keyboard, figures.without_dragging, figures.without_hands, figures.lost_states,
                          lambda: browser.inaccessible(SHOWN), lambda: wide]
            run_while_it_lives(tests, browser, list(zip(names, complaints)), (site / "figures/figures.wasm").exists())
    except Exception:
        tests.run("a browser opens", lambda: [traceback.format_exc()])
        for each in names:
            tests.skip(each, "the browser did not open")


def run_while_it_lives(tests, browser, runs, moves):
    for i, (name, complaints) in enumerate(runs):
        if "figure" in name and not moves:
            tests.skip(name, "the figures stand still: the packages for WebAssembly are not installed")
            continue
        tests.run(name, complaints)
        why = browser.ended()
        if why:
            tests.run("the browser lives to the end", lambda: [f"after '{name}': {why}"])
            for other, _ in runs[i + 1:]:
                tests.skip(other, why)
            return


def end_of_a_browser(site):
    """A browser that crashes in the second of three tests: that fails, its end fails too, and the third is not run."""
    tests = Tests()
    with site_in_browser.Browser(site) as browser:
        runs = [("opens a page", lambda: browser.open("index.html") or []), ("crashes", browser.crash), ("comes too late", lambda: [])]
        with contextlib.redirect_stdout(io.StringIO()):
            run_while_it_lives(tests, browser, runs, True)
    counts = (tests.passed, tests.failed, len(tests.skipped))
    return [] if counts == (1, 2, 1) else [f"passed, failed, skipped: expected (1, 2, 1), found {counts}"]


def lines_that_fail(programs):
    """"The same in C++" of each figure, compiled and run: what it prints that the figure does not have."""
    program = programs / "book_figures"
    requests = [each for about in figures.ask(program, figures.ask(program, [""])[0]) for each in site_files.drawn(about, 6)]
    answers = {data["code"]: (request, data) for request, data in zip(requests, figures.ask(program, requests))}
    sources = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "course/book/figures").glob("[0-9]*.cpp"))]
    includes = sorted({line for text in sources for line in text.splitlines() if line.startswith('#include "yotta/')})
    functions = [f"void lines_{i}() {{\n{code}\n}}" for i, code in enumerate(answers)]
    calls = [f'  lines_{i}(); fmt::print("\\n{END_OF_LINES}\\n");' for i in range(len(answers))]
    text = "\n".join(["#include <fmt/format.h>", "#include <vector>"] + includes + functions + ["int main() {"] + calls + ["}"])
    with tempfile.TemporaryDirectory() as folder:
        compiler = "clang++-19" if shutil.which("clang++-19") else "c++"
        archives = sorted(map(str, programs.parents[1].glob("libyotta_compiled_*.a")))
        done = subprocess.run([compiler, "-std=c++20", "-march=native", "-DYOTTA_COMPILED", f"-I{ROOT}/include", "-x", "c++", "-", "-x", "none",
                               "-Wl,--start-group", *archives, "-Wl,--end-group", "-lfmt", "-lboost_context", "-pthread", "-o", f"{folder}/lines"],
                              input=text, capture_output=True, text=True)
        if done.returncode:
            return [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        ran = subprocess.run([f"{folder}/lines"], capture_output=True, text=True)
    if ran.returncode:
        return [f"the lines end with status {ran.returncode}: {ran.stderr[-300:]}"]
    said = ran.stdout.split(END_OF_LINES)
    return [each for (request, data), text in zip(answers.values(), said) for each in site_files.not_of_the_figure(request, data, text)]


END_OF_LINES = "end of a figure's lines"


def single_files_that_fail():
    """Lessons' programs as one file each, compiled alone: of one lesson, with --long of all."""
    found = []
    for topic in repository.topics("lessons") if "--long" in sys.argv else ["13_ddp"]:
        done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-"], input=single_file.single_file(topic),
                              capture_output=True, text=True)
        if done.returncode:
            found.append(f"{topic}: {done.stderr[:300]}")
    return found


# One page of each kind, for what is alike on all of them.
SHOWN = ["index.html", "lessons/02_roofline.html", "lessons/18_pipeline.html", "exercises/10_collectives.html",
         "notebooks/02_roofline.html", "reference/machine/roofline.hpp.html", "reference/names.html",
         "documents/commands.html", "benchmarks/index.html"]

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
