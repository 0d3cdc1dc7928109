"""A lesson's figures as questions, each before the section that answers it: the reader's answer is kept in the browser."""
import html
import json
import re

from repository import ROOT, text_of


def figure(page, where):
    """The number that the lesson's quoted output has, as `./yotta predict` finds it."""
    block = re.search(rf"^```output {re.escape(where['block'])}(?: [^\n]*)?\n(.*?)^```", page, re.M | re.S).group(1)
    return float(re.search(where["find"], block, re.M).group(1))


def answer(prediction, page):
    after = figure(page, prediction["answer"])
    if prediction["kind"] == "number":
        return f"{after:g}"
    before = figure(page, prediction["before"])
    if prediction["kind"] == "times":
        return f"{after / before:.3g} times"
    return "grows" if after > before else "shrinks" if after < before else "stays"


def form(topic, i, each, page):
    """A question in HTML, with its answer hidden."""
    question, why = html.escape(each["question"]), html.escape(each["why"])
    unit = html.escape(each.get("unit", ""))
    right = html.escape(f"{answer(each, page)} {each.get('unit', '')}".strip())
    return (f'<form class="predict" data-key="predict/{topic}/{i}"><label>{question} '
            f'<input type="text" autocomplete="off"> {unit}</label> <button type="submit">Show</button>'
            f'<p hidden><strong>{right}.</strong> {why}</p></form>')


def section_of(page, prediction):
    """Where the section begins whose output answers the question."""
    output = re.search(rf"^```output {re.escape(prediction['answer']['block'])}(?: [^\n]*)?$", page, re.M).start()
    return page.rindex("\n## ", 0, output)


def put_in(topic, page):
    """The lesson with each question before the section that answers it."""
    if not (ROOT / f"lessons/{topic}/predictions.json").exists():
        return page
    forms = {}
    for i, each in enumerate(json.loads(text_of(f"lessons/{topic}/predictions.json"))):
        forms.setdefault(section_of(page, each), []).append(form(topic, i, each, page))
    for place in sorted(forms, reverse=True):
        said = ["", "**Predict** before you read on. Your answer stays in this browser.", "", *forms[place]]
        page = page[:place] + "\n".join([*said, ""]) + page[place:]
    return page
