#!/usr/bin/python3
"""Makes the book: a static site of the lessons, exercises, notebooks, documents and the library's pages.

    book.py --build DIR --programs DIR

mkdocs with the theme "material" makes the site; KaTeX sets the mathematics; ctags finds what names
stand for. What is here turns the repository into their input. No page asks another server for
anything.
"""
import argparse
import concurrent.futures
import functools
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import yaml

import exercises_notebooks
import figures
import markdown_text
import predictions
import source_pages
from repository import PARTS, ROOT, commit, owners, text_of, title_of, topics, version

HERE = pathlib.Path(__file__).parent
KATEX = pathlib.Path("/usr/share/javascript/katex")
DOCUMENTS = [("Learn", ["docs/syllabus.md", "docs/letters.md", "docs/where_we_differ.md",
                        "exercises/README.md"]),
             ("Use", ["README.md", "docs/installing.md", "docs/commands.md", "docs/using.md",
                      "docs/clusters.md"]),
             ("Teach", ["docs/instructors.md", "docs/instructors_course.md",
                        "docs/instructors_quizzes.md", "docs/instructors_quiz_answers.md"]),
             ("Change", ["CONTRIBUTING.md", "docs/architecture.md", "docs/adding_a_topic.md",
                         "docs/deploy.md", "docs/mutants.md", "CHANGELOG.md"])]


class Book:
    def __init__(self, out, programs):
        self.out = out
        self.slides = self.make_slides(programs.parent / "runner")
        self.pages = {}  # a page's place in the book -> its text
        self.places = {}  # a file of the repository -> its page
        self.bodies = {}  # a mark -> what makes the HTML that takes its place
        self.mathematics = markdown_text.Mathematics()
        self.figures = figures.Figures(programs, out / "pages")
        self.lost = []

    def make_slides(self, runner):
        """The topics whose slides there are: `./yotta slides` makes them from their outlines."""
        (self.out / "pages/slides").mkdir(parents=True)
        made = []
        for topic in topics("lessons"):
            if (ROOT / f"lessons/{topic}/slides.outline").exists():
                deck = self.out / f"pages/slides/{topic}.html"
                subprocess.run([str(runner), "slides", topic, "--out", str(deck)], check=True, capture_output=True)
                deck.write_text(deck.read_text(encoding="utf-8").replace(
                    "</section>", f'<p><a href="../lessons/{topic}.html">The lesson in the book</a></p></section>', 1), encoding="utf-8")
                made.append(topic)
        return made

    # -- Links --

    def link_from(self, page, file):
        """What turns a link in this file of the repository into one of its page in the book."""
        def link(target):
            if re.match(r"[a-z]+:|#", target):
                return target
            path, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(file), path))
            if path.endswith(".svg") and (ROOT / path).exists():
                place = self.picture(path)
            else:
                like = path.removeprefix("docs/example/")  # what is written as if it lay in the course
                place = next((self.places[p] for p in (path, path + "/README.md", like) if p in self.places), None)
            if place is None:
                self.lost.append(f"{file}: {target}")
                return target
            return markdown_text.relative(place, page) + ("#" + anchor if anchor else "")
        return link

    def picture(self, path):
        place = "pictures/" + os.path.basename(path)
        self.save(place, text_of(path))
        return place

    def save(self, place, text):
        file = self.out / "pages" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return place

    def add(self, file, page, text, topic=""):
        link = self.link_from(page, file)
        text = self.figures.put_in(text, page)
        self.pages[page] = markdown_text.convert(text, topic, self.mathematics, link)

    # -- Pages --

    def place_all(self):
        for topic in topics("lessons"):
            self.places[f"lessons/{topic}"] = f"lessons/{topic}.md"
            for file in sorted((ROOT / "lessons" / topic).glob("*.md")):
                more = "" if file.name == "README.md" else "_" + file.stem
                self.places[f"lessons/{topic}/{file.name}"] = f"lessons/{topic}{more}.md"
            self.places[f"notebooks_cpp/{topic}.ipynb"] = f"notebooks/{topic}.md"
        for topic in topics("exercises"):
            self.places[f"exercises/{topic}"] = self.places[f"exercises/{topic}/README.md"] = f"exercises/{topic}.md"
        for _, files in DOCUMENTS:
            for file in files:
                self.places[file] = "documents/" + os.path.basename(file).lower()
        self.places["README.md"] = "documents/readme.md"
        self.places["exercises/README.md"] = "documents/exercises.md"
        for file in sorted((ROOT / "bench/results").glob("*.md")):
            self.places[f"bench/results/{file.name}"] = f"benchmarks/{file.name}"
        self.places.update({"exercises": "documents/exercises.md", "lessons": "index.md",
                            "bench": "benchmarks/index.md", "bench/results": "benchmarks/index.md",
                            "notebooks_cpp": "index.md", "docs": "index.md",
                            "include/yotta": "reference/index.md", "include": "reference/index.md"})

    def place_sources(self):
        """The library's files, and whatever else a page of the book leads to."""
        files = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "include").rglob("*pp"))]
        for file in linked_files():
            if (ROOT / file).is_dir():
                self.places.setdefault(file, f"folders/{visible(file)}.md")
            elif file.endswith(".md"):
                self.places.setdefault(file, f"documents/{file}")
            elif file not in files and file not in self.places:
                files.append(file)
        for file in files:
            self.places[file] = "reference/" + visible(file.removeprefix("include/yotta/")) + ".md"
        return files

    def add_lessons(self):
        for topic in topics("lessons"):
            for file in sorted((ROOT / "lessons" / topic).glob("*.md")):
                path = f"lessons/{topic}/{file.name}"
                text = text_of(path)
                if file.name == "README.md":
                    title, rest = text.split("\n", 1)
                    text = "\n".join([title, "", self.around(topic), rest])
                    text = predictions.put_in(topic, text)
                self.add(path, self.places[path], text, topic)

    def around(self, topic):
        """Where the topic's other pages are, from the lesson."""
        links = [f"[Exercise](../../exercises/{topic}/README.md)"] if topic in topics("exercises") else []
        links.append(f"[Notebook](../../notebooks_cpp/{topic}.ipynb)")
        if topic in self.slides:
            links.append(f'<a href="../slides/{topic}.html">Slides</a>')
        return '<p class="around" markdown="1">' + " · ".join(links) + "</p>"

    def add_exercises(self):
        for topic in topics("exercises"):
            self.add(f"exercises/{topic}/README.md", f"exercises/{topic}.md",
                     exercises_notebooks.statement(topic), topic)

    def add_notebooks(self):
        for topic in topics("lessons"):
            page = f"notebooks/{topic}.md"
            pictures = {}

            def keep(name, text):
                pictures[name] = self.save("notebooks/pictures/" + name, text)
                return "book:" + name
            text = exercises_notebooks.notebook(topic, keep)
            self.add(f"notebooks_cpp/{topic}.ipynb", page, text, topic)
            self.pages[page] = re.sub(r"\(book:([^)]+)\)", r"(pictures/\1)", self.pages[page])

    def add_documents(self):
        for _, files in DOCUMENTS:
            for file in files:
                if (ROOT / file).exists():
                    self.add(file, self.places[file], text_of(file))
        rows = []
        for file in sorted((ROOT / "bench/results").glob("*.md"), reverse=True):
            path = f"bench/results/{file.name}"
            self.add(path, self.places[path], text_of(path))
            rows.append(f"- [{title_of(text_of(path))}]({file.name})")
        self.pages["benchmarks/index.md"] = "\n".join(
            ["# Benchmarks", "", "What was measured, with its machine, its date and its command. `./yotta bench` "
             "lists the benchmarks, and measures on yours.", ""] + rows) + "\n"

    def add_folders(self):
        """What lies in the folders that pages lead to, and texts of no other kind."""
        for path, page in list(self.places.items()):
            if page == f"documents/{path}":
                self.add(path, page, text_of(path))
            if not page.startswith("folders/"):
                continue
            out = [f"# {path}/", ""]
            for each in sorted(str(p.relative_to(ROOT)) for p in (ROOT / path).iterdir()):
                place = self.places.get(each)
                name = os.path.basename(each)
                out.append(f"- [{name}]({markdown_text.relative(place, page)})" if place else f"- {name}")
            self.pages[page] = "\n".join(out) + "\n"

    def add_sources(self, files):
        library = source_pages.Library(files)
        owner = owners()
        for file in files:
            page = self.places[file]

            def target(path, anchor, page=page):
                place = markdown_text.relative(self.places[path], page).removesuffix(".md") + ".html"
                return place + ("#" + anchor if anchor else "")
            mark = f"ysource{len(self.bodies)}ecruosy"
            self.bodies[mark] = functools.partial(source_pages.source_html, library, file, target)
            self.pages[page] = "---\nhide: [toc]\n---\n" + self.source_page(library, file, owner, mark)
        self.add_reference(library, owner)

    def source_page(self, library, file, owner, mark):
        name = file.removeprefix("include/yotta/")
        lesson = owner.get(name, "")
        out = [f"# {name}", ""]
        if lesson:
            place = markdown_text.relative(f"lessons/{lesson}.md", self.places[file])
            out += [f"Taught in [lesson {lesson[:2]}: {title_of(text_of(f'lessons/{lesson}/README.md'))}]({place}).", ""]
        rows, lines = [], text_of(file).splitlines()
        for each in library.by_file[file]:
            if each.scope == "" and each.kind not in ("macro", "namespace"):
                about = source_pages.summary(file, each.line, lines)
                rows.append(f"| [{each.name.replace('|', chr(92) + '|')}](#{each.anchor}) | {cell(about)} |")
        if rows and file.startswith("include/"):
            out += ["| name | what it is |", "|---|---|"] + rows + [""]
        return "\n".join(out + [mark, ""])

    def add_reference(self, library, owner):
        def entry(header):
            return f"- [{header}]({header}.md): {cell(source_pages.purpose(text_of('include/yotta/' + header)))}"

        by_lesson = ["# The library, by lesson", "", "Each page of the library, with the lesson that teaches it. "
                     "The same [by name](names.md).", ""]
        for topic in topics("lessons"):
            own = [h for h, lesson in owner.items() if lesson == topic]
            if own:
                by_lesson += [f"## {topic[:2]}. {title_of(text_of(f'lessons/{topic}/README.md'))}", ""]
                by_lesson += [entry(h) for h in own] + [""]
        by_lesson += ["## What everything uses", ""] + [entry(h) for h, lesson in owner.items() if not lesson]
        rooms = [f for f in library.files if f.startswith("include/") and f[14:] not in owner]
        by_lesson += ["", "## Engine rooms", ""] + [entry(f[14:]) for f in rooms]
        self.pages["reference/index.md"] = "\n".join(by_lesson) + "\n"
        names = ["# The library, by name", "", "Types, functions and constants. The same [by lesson](index.md).", ""]
        letter = ""
        for name in sorted(library.free, key=lambda n: (n.lower(), n)):
            public = [d for d in library.free[name] if d.file[14:] in owner]
            if not public or name.startswith(("operator", "_")):
                continue
            if name[0].upper() != letter:
                letter = name[0].upper()
                names += ["", f"## {letter}", ""]
            files = {d.file: d for d in reversed(public)}
            names.append(f"- `{name}`: " + ", ".join(
                f"[{file[14:]}]({file[14:]}.md#{d.anchor})" for file, d in sorted(files.items())))
        self.pages["reference/names.md"] = "\n".join(names) + "\n"

    def add_contents(self):
        short, date = commit()
        out = ["# Yotta", "", "How one large model is trained on many machines, in C++20: each technique is a page of "
               "a library, a lesson, and an exercise that explains your mistakes. " +
               ("Each lesson but the first has figures that move: they run the library's own pages in your browser." if self.figures.moves else
                "The figures stand still here: the site was made without the packages that compile them for browsers."), "",
               "[Begin with lesson 00](lessons/00_start.md){ .md-button .md-button--primary } "
               "[The library by lesson](reference/index.md){ .md-button }", ""]
        for part, first, last in PARTS:
            out += [f"## {part}", ""]
            for topic in topics("lessons"):
                if first <= int(topic[:2]) <= last:
                    out.append(f"- [{topic[:2]}. {title_of(text_of(f'lessons/{topic}/README.md'))}](lessons/{topic}.md)")
            out.append("")
        out += ["## Exercises and documents", "", "- [How exercises work](documents/exercises.md)",
                "- [Ways through the course](documents/syllabus.md)", "- [Benchmarks](benchmarks/index.md)",
                "- [All commands](documents/commands.md)", ""]
        self.pages["index.md"] = "\n".join(out)

    # -- The site --

    def navigation(self):
        nav = [{"Contents": "index.md"}]
        for part, first, last in PARTS:
            lessons = []
            for topic in topics("lessons"):
                if first <= int(topic[:2]) <= last:
                    title = f"{topic[:2]}. {title_of(text_of(f'lessons/{topic}/README.md'))}"
                    more = [{title_of(text_of(f)): p} for f, p in self.places.items()
                            if f.startswith(f"lessons/{topic}/") and p != f"lessons/{topic}.md" and p in self.pages and p.startswith("lessons/")]
                    lessons += [{title: f"lessons/{topic}.md"}] + more
            nav.append({part: lessons})
        nav.append({"Exercises": [{f"{t[:2]}. " + title_of(text_of(f"exercises/{t}/README.md")).split(": ", 1)[-1]: f"exercises/{t}.md"}
                                  for t in topics("exercises")]})
        nav.append({"Notebooks": [{title_of(self.pages[f"notebooks/{t}.md"]): f"notebooks/{t}.md"} for t in topics("lessons")]})
        for name, files in DOCUMENTS:
            nav.append({name: [self.places[f] for f in files if self.places[f] in self.pages]})
        nav.append({"The library": ["reference/index.md", "reference/names.md"]})
        nav.append({"Benchmarks": ["benchmarks/index.md"]})
        return nav

    def write(self):
        for page, text in self.pages.items():
            self.save(page, text)
        shutil.copytree(HERE / "style", self.out / "pages/style", dirs_exist_ok=True)
        for file in ["katex.min.css", *(f"fonts/{f.name}" for f in (KATEX / "fonts").glob("*.woff2"))]:
            (self.out / "pages/style" / file).parent.mkdir(exist_ok=True)
            shutil.copyfile(KATEX / file, self.out / "pages/style" / file)
        settings = yaml.safe_load((HERE / "mkdocs.yml").read_text())
        short, date = commit()
        settings.update({"docs_dir": str(self.out / "pages"), "site_dir": str(self.out / "site"),
                         "nav": self.navigation(),
                         "copyright": f"Yotta {version()}, commit {short} {date}"})
        settings["theme"]["custom_dir"] = str(HERE / "theme")
        (self.out / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")

    def make(self):
        """The site. mkdocs and KaTeX are programs of their own: this one colours the sources meanwhile."""
        with concurrent.futures.ThreadPoolExecutor() as others:
            site, formulas = others.submit(self.make_site), others.submit(self.set_mathematics)
            bodies = {mark: body() for mark, body in self.bodies.items()}
            site.result()
            self.finish(bodies, formulas.result())

    def make_site(self):
        done = subprocess.run(["/usr/bin/mkdocs", "build", "--strict", "-f", str(self.out / "mkdocs.yml")],
                              capture_output=True, text=True)
        if done.returncode:
            said = (done.stdout + done.stderr).splitlines()
            sys.exit("\n".join(["mkdocs could not make the site:"] + ([each for each in said if "WARNING" in each] or said)))

    def set_mathematics(self):
        done = subprocess.run(["node", str(HERE / "mathematics.js")], input=json.dumps(self.mathematics.formulas),
                              capture_output=True, text=True, env=dict(os.environ, NODE_PATH="/usr/share/nodejs"))
        if done.returncode:
            sys.exit(f"KaTeX: {done.stderr}")
        return json.loads(done.stdout)

    def finish(self, bodies, formulas):
        """Puts mathematics and sources in the place of their marks."""
        for file in (self.out / "site").rglob("*.html"):
            text = file.read_text(encoding="utf-8")
            new = re.sub(r"<p>(ysource\d+ecruosy)</p>", lambda m: bodies[m.group(1)], text)
            new = re.sub(r"ymath(\d+)htamy", lambda m: formulas[int(m.group(1))], new)
            if new != text:
                file.write_text(new, encoding="utf-8")
        index = self.out / "site/search/search_index.json"
        text = re.sub(r"ymath(\d+)htamy", lambda m: json.dumps(self.mathematics.formulas[int(m.group(1))]["tex"])[1:-1],
                      index.read_text(encoding="utf-8"))
        index.write_text(re.sub(r"ysource\d+ecruosy", "", text), encoding="utf-8")


def visible(path):
    """mkdocs leaves out files whose names begin with a dot."""
    return re.sub(r"(^|/)\.", r"\1dot-", path)


def cell(text):
    return html.escape(text, quote=False).replace("|", "\\|").replace("*", "\\*").replace("[", "\\[").replace("_", "\\_")


def linked_files():
    """Files of the repository that pages lead to."""
    found = []
    pages = [p for pattern in ("lessons/*/*.md", "exercises/*/README.md", "docs/*.md", "*.md", "bench/results/*.md",
                               "exercises/README.md", "notebooks_cpp/*.ipynb") for p in sorted(ROOT.glob(pattern))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            path = (page.parent / target).resolve()
            if path.is_relative_to(ROOT) and (path.is_dir() or path.is_file() and path.suffix in SOURCES):
                found.append(str(path.relative_to(ROOT)))
    return list(dict.fromkeys(found))


SOURCES = {".js", ".hpp", ".cpp", ".ipp", ".cu", ".h", ".json", ".cmake", ".sh", ".py", ".yml", ".inc", ".bash", ".txt", ".c",
           ".csv", ".outline", ".tsv", ".cff", ".md", ".ipynb", ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    options = parser.parse_args()
    out = options.build.resolve()
    shutil.rmtree(out / "pages", ignore_errors=True)
    book = Book(out, options.programs)
    book.place_all()
    files = book.place_sources()
    book.add_lessons()
    book.add_exercises()
    book.add_notebooks()
    book.add_documents()
    book.add_folders()
    book.add_sources(files)
    book.add_contents()
    book.write()
    if book.lost:
        sys.exit("links that lead to nothing in the book:\n" + "\n".join(book.lost))
    book.make()


if __name__ == "__main__":
    main()
