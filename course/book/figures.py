"""Figures that move. A lesson marks the place of one with the comment <!-- figure 02_roofline -->.

Their first pictures are drawn here, from what the library answers on this machine; in a browser the
same library answers as WebAssembly.
"""
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys

from markdown_text import relative
from repository import ROOT

HERE = pathlib.Path(__file__).parent / "figures"
MARK = re.compile(r"^<!-- figure (\w+) -->$", re.M)


def ask(program, requests):
    done = subprocess.run([str(program)], input="".join(each + "\n" for each in requests), capture_output=True,
                          text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(about, places):
    return " ".join([about["name"], *map(str, places)])


def at_start(about):
    return request(about, [each["start"] for each in about["settings"]])


def planner_code(sequence, batch, gpus, card):
    link = f", request.cluster.levels[1].beta = 1e-9 / {card:g}" if gpus > 8 else ""
    return ("yotta::PlanRequest request;\n"
            "request.config = yotta::llama3_8b(), request.config.dtype = yotta::DType::bf16;\n"
            f'request.cluster = yotta::cluster_named("h100x{gpus:g}"){link};\n'
            f"request.sequence = {sequence:g}, request.tokens = {batch:g} << 20;\n"
            "const auto best = yotta::fastest_of(request, yotta::plain_layouts(request));\n"
            'fmt::print("{} s: {}\\n", best.figures[0], best.note);  // `./yotta plan` looks at all layouts')


def planner(page):
    """Lesson 28's table of plans, from the page that its program wrote: a figure of {about, answers by request}."""
    table = json.loads(re.search(r"const table = (\{.*?\});\nconst ", page.read_text(encoding="utf-8"), re.S).group(1))
    about = {"name": "28_planner", "settings": [dict(axis, words=[]) for axis in table["axes"]],
             "question": "Llama 3 8B on H100s: which layout trains it fastest, and when do network cards, long sequences "
                         "or small batches ask for another?"}
    answers, axes = {}, [axis["values"] for axis in table["axes"]]
    for places, (values, note) in zip(itertools.product(*(range(len(each)) for each in axes)), table["points"]):
        numbers = [{"name": f["name"], "unit": f["unit"], "value": v, "digits": 3} for f, v in zip(table["figures"], values)]
        answers[request(about, places)] = {"numbers": numbers, "rows": [{"name": "note", "values": [], "words": [note]}],
                                           "code": planner_code(*(each[place] for each, place in zip(axes, places)))}
    for ask_for, data in answers.items():  # what the chart along the cards is drawn from
        *others, last = ask_for.split()
        steps = [answers[" ".join([*others, str(k)])]["numbers"][0]["value"] for k in range(len(axes[-1]))]
        data["rows"].append({"name": "steps by cards", "values": steps, "words": []})
    return {"about": about, "answers": answers}


def recorded():
    """The names of the figures that book_records runs."""
    return sorted(file.stem for file in (HERE / "recorded").glob("[0-9]*.cpp"))


def records(folder):
    """The figures of real runs, from what the build has recorded: {about, answers by request}."""
    folder = pathlib.Path(folder)
    return [planner(folder / "plans.html")] + [json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in recorded()]


class Figures:
    def __init__(self, programs, out):
        """`programs` is where book_figures, the records and figures.wasm lie; `out` the folder of the site's pages."""
        program = pathlib.Path(programs) / "book_figures"
        self.folder = out / "figures"
        self.folder.mkdir(parents=True, exist_ok=True)
        names = ask(program, [""])[0]
        abouts = ask(program, names)
        known = [{"name": n, "about": a, "data": d} for n, a, d in zip(names, abouts, ask(program, map(at_start, abouts)))]
        for each in records(pathlib.Path(programs) / "records"):
            about, answers = each["about"], each["answers"]
            (self.folder / f"{about['name']}.json").write_text(json.dumps(each), encoding="utf-8")
            known.append({"name": about["name"], "about": about, "data": answers[at_start(about)]})
        self.questions = {each["name"]: each["about"]["question"] for each in known}
        done = subprocess.run(["node", str(HERE / "still.js"), str(self.folder)], input=json.dumps(known),
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"node could not draw the figures: {done.stderr}")
        self.titles = json.loads(done.stdout)
        module = pathlib.Path(programs) / "figures.wasm"
        self.moves = module.exists()
        if self.moves:
            shutil.copyfile(module, self.folder / "figures.wasm")
            for file in HERE.glob("*.js"):
                if file.name != "still.js":
                    shutil.copyfile(file, self.folder / file.name)

    def put_in(self, text, page):
        return MARK.sub(lambda found: self.html(found.group(1), page), text)

    def html(self, name, page):
        if name not in self.titles:
            sys.exit(f"{page}: there is no figure '{name}'; there are {', '.join(self.titles)}")
        folder, tag = relative("figures", page), "figure-" + name.replace("_", "-")
        lines = [f'<div class="moving"><{tag} id="figure-{name}"><p class="question">{self.questions[name]}</p>',
                 f'<picture><source media="(max-width: 600px)" srcset="{folder}/{name}_360.svg">'
                 f'<img src="{folder}/{name}_720.svg" alt="{self.titles[name]}"></picture></{tag}>']
        if self.moves:
            lines.append(f'<script type="module" src="{folder}/{name}.js"></script>')
        else:
            lines.append("<p>This figure stands still: the site was made without the packages that compile "
                         "figures for browsers (<code>./yotta doctor</code> names them).</p>")
        return "\n" + "\n".join(lines) + "</div>\n"
