"""The book in Chromium: errors, figures, keyboard, accessibility, a phone's width."""
import functools
import http.server
import json
import pathlib
import subprocess
import threading
import time

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from urllib3.exceptions import HTTPError

import site_files


# What its driver throws once the browser has ended.
ENDED = (WebDriverException, HTTPError, OSError)


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Browser:
    def __init__(self, site):
        self.site = pathlib.Path(site)

    def __enter__(self):
        handler = functools.partial(Files, directory=str(self.site))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.root = f"http://127.0.0.1:{self.server.server_port}/"
        options = webdriver.ChromeOptions()
        for each in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"):
            options.add_argument(each)
        options.page_load_strategy = "normal"
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_page_load_timeout(120)
        self.wide(1300)
        return self

    def __exit__(self, *_):
        try:
            self.driver.quit()
        except ENDED:
            pass
        self.server.shutdown()

    def ended(self):
        """Why nothing more can be asked of it; empty while it lives."""
        try:
            self.driver.title  # asks the browser
            return ""
        except ENDED as error:
            return f"the browser has ended: {str(error).splitlines()[0]}"

    def crash(self):
        self.driver.execute_cdp_cmd("Browser.crash", {})

    def wide(self, width):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})

    def open(self, page):
        self.driver.get(self.root + page)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def drag(self, x, y, to_x, to_y):
        for kind, at in (("mousePressed", (x, y)), ("mouseMoved", (to_x, to_y)), ("mouseReleased", (to_x, to_y))):
            self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": at[0], "y": at[1], "button": "left", "buttons": 1, "clickCount": 1})

    def wheel(self, x, y, turned, ctrl):
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": turned, "modifiers": 2 if ctrl else 0})

    def wants_no_motion(self, wish):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce" if wish else ""}]})

    def wait(self, script, what):
        """Until the script gives something true; two minutes, for machines that do other work."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            found = self.run("return " + script)
            if found:
                return found
            time.sleep(0.02)
        raise TimeoutError(f"{what} did not come: {script}")

    # -- Every page --

    def complaints(self, page):
        """What the page said in the console, and what it asked for in vain or elsewhere."""
        found = [f"{page}: {entry['message']}" for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            about = message.get("params", {})
            if message["method"] == "Network.requestWillBeSent":
                address = about["request"]["url"]
                if not address.startswith((self.root, "data:", "blob:", "chrome:", "about:")):
                    found.append(f"{page} asks {address}")
            if message["method"] == "Network.loadingFailed" and not about.get("canceled"):
                found.append(f"{page}: a request failed: {about.get('errorText')}")
        return found

    def visit(self, pages):
        """What is wrong on pages, and which are too wide: each is opened once."""
        found, wide = [], []
        for page in pages:
            self.open(page)
            if page.startswith("lessons/"):
                self.wait("[...document.querySelectorAll('.moving > :first-child')].every(e => e.localName.startsWith('figure-') "
                          "&& (!customElements.get(e.localName) || e.hasAttribute('ready')))", f"{page}: its figures")
            found += self.complaints(page)
            if page.startswith(("lessons/", "exercises/", "index")):
                wide += self.too_wide(page)
        return found, wide

    def too_wide(self, page):
        """What leaves the page's edge on a phone, pictures that are too small there, and formulas that are cut off on a screen."""
        self.wide(390)
        width = self.run("return document.documentElement.scrollWidth")
        found = [f"{page} is {width} pixels wide on a screen of 390"] if width > 390 else []
        found += [f"{page}: on a screen of 390 letters are too small: {each}" for each in self.run(SMALL_PICTURES)]
        self.wide(1300)
        return found + [f"{page}: cut off on a screen of 1300: {each}" for each in self.run(CUT_FORMULAS)]

    # -- Accessibility --

    def inaccessible(self, shown):
        found = []
        for page in shown:
            for scheme in ("default", "slate"):
                self.open(page)
                self.run("document.head.insertAdjacentHTML('beforeend', '<style>* { transition: none !important; }</style>');"
                         "document.body.setAttribute('data-md-color-scheme', arguments[0])", scheme)
                found += [f"{page}, {scheme}: {each}" for each in self.run(CONTRAST)]
            found += [f"{page}: {each}" for each in self.run(STRUCTURE)]
            found += self.unnamed(page)
        return found

    def unnamed(self, page):
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        found = []
        for node in nodes:
            role = node.get("role", {}).get("value")
            if node.get("ignored") or role not in ("button", "link", "slider", "checkbox", "combobox", "textbox", "image", "img"):
                continue
            if not str(node.get("name", {}).get("value", "")).strip():
                found.append(f"{page}: a {role} without a name: {json.dumps(node.get('properties', []))[:120]}")
        return found


class Figures:
    """The figures of all lessons, each on its page."""

    def __init__(self, browser, programs):
        self.browser, self.program = browser, pathlib.Path(programs) / "book_figures"
        self.names = self.native([""])[0]
        self.about = dict(zip(self.names, self.native(self.names)))
        self.recorded, self.unreadable = {}, []
        for file in sorted((browser.site / "figures").glob("*.json")):
            self.recorded[file.stem] = json.loads(file.read_text(encoding="utf-8"))
            self.about[file.stem] = self.recorded[file.stem]["about"]
        self.page = {}
        for file in sorted((browser.site / "lessons").glob("*.html")):
            for name in self.about:
                if f'id="figure-{name}"' in file.read_text(encoding="utf-8"):
                    self.page[name] = f"lessons/{file.name}"

    def native(self, requests):
        done = subprocess.run([str(self.program)], input="".join(each + "\n" for each in requests), capture_output=True,
                              text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def open(self, name, query=""):
        self.browser.open(self.page[name] + query)
        self.browser.wait(f"document.getElementById('figure-{name}').hasAttribute('ready')", name)

    def places(self, name):
        return [len(each["values"]) for each in self.about[name]["settings"]]

    def other_numbers(self):
        found = [f"no lesson shows the figure {name}" for name in self.about if name not in self.page]
        for name in self.page:
            self.open(name)
            requests = site_files.drawn(self.about[name])
            there = self.browser.run("const e = document.getElementById(arguments[0]);"
                                     "return arguments[1].map(r => e.machine.ask(r))", f"figure-{name}", requests)
            here = [self.recorded[name]["answers"][r] for r in requests] if name in self.recorded else self.native(requests)
            for request, ours, other in zip(requests, here, there):
                found += [f"{request}: {each}" for each in site_files.differences(ours, other)]
            self.unreadable += self.hidden_words(name, [list(map(int, each.split()[1:])) for each in requests])
        return found

    def hidden_words(self, name, settings):
        """Words of the drawing that are cut off, or lie over others, on a phone and on a screen."""
        found = []
        for width in (390, 1300):
            self.browser.wide(width)
            found += [f"{name}, {width} pixels wide: {each}" for each in self.browser.run(HIDDEN, f"figure-{name}", settings)]
        return found

    def without_keyboard(self):
        """Tab reaches every setting in turn, and a key moves each; then the buttons and the lines of C++, and Enter works them."""
        found = []
        for name in self.page:
            self.open(name)
            figure = f"const e = document.getElementById('figure-{name}'), now = document.activeElement;"
            self.browser.run(figure + "e.inputs[0].control.focus()")
            for i, setting in enumerate(self.about[name]["settings"]):
                control, here, kind, before = self.browser.run(
                    figure + f"return [now, now === e.inputs[{i}].control, now.type, e.at[{i}]]")
                if not here:
                    found.append(f"{name}: Tab does not come to '{setting['name']}'")
                    break
                control.send_keys(moving_key(kind, before, len(setting["values"])), Keys.TAB)
                if self.browser.run(figure + f"return e.at[{i}]") == before:
                    found.append(f"{name}: a key does not move '{setting['name']}'")
            else:
                found += [f"{name}: {each}" for each in self.below_the_settings(name)]
        return found

    def below_the_settings(self, name):
        """With the first button focused: what the buttons and the lines of C++ do wrong."""
        found, figure = [], f"const e = document.getElementById('figure-{name}');"
        moved = self.browser.run(figure + "return e.at.join('.')")

        def enter(label):
            now = self.browser.run("return document.activeElement")
            if now.text != label:
                found.append(f"Tab comes to '{now.text}', not to '{label}'")
            now.send_keys(Keys.ENTER)
            return now

        copy = enter("Copy link to this state")
        address = self.browser.run("return new URLSearchParams(location.search).get(arguments[0])", name)
        if address != moved:
            found.append(f"the link has the state {address}, expected {moved}")
        copy.send_keys(Keys.TAB)
        again = enter("Start again")
        if self.browser.run(figure + "return e.at") != [each["start"] for each in self.about[name]["settings"]]:
            found.append("it does not start again")
        again.send_keys(Keys.TAB)
        enter("The same in C++")
        code, is_open = self.browser.run(figure + "return [e.code.textContent, e.querySelector('details').open]")
        if not is_open or not code.strip():
            found.append("the same in C++ is not shown")
        return found

    def without_dragging(self):
        """A mouse that is pressed somewhere in the drawing and moved changes a setting."""
        found = []
        for name in self.page:
            self.open(name)
            figure = f"const e = document.getElementById('figure-{name}');"
            left, top, width, height = self.browser.run(
                figure + "e.drawing.scrollIntoView({block: 'center'}); const r = e.drawing.firstElementChild.getBoundingClientRect();"
                "return [r.left, r.top, r.width, r.height]")
            before = self.browser.run(figure + "return e.at.join()")
            for i in range(96):  # presses everywhere, as some figures are taken at a few places
                x, y = left + width * (0.06 + 0.12 * (i % 8)), top + height * (0.04 + 0.08 * (i // 8))
                self.browser.drag(x, y, left + width * (0.12 if x > left + width / 2 else 0.9), y)
                if self.browser.run(figure + "return e.at.join()") != before:
                    break
            else:
                found.append(f"{name}: dragging changes nothing")
        return found

    def at(self, name, i):
        return self.browser.run(f"return document.getElementById('figure-{name}').at[{i}]")

    def press(self, name, button):
        """Enter on one of the buttons under the drawing; what it says then."""
        there = self.browser.run("return [...document.getElementById(arguments[0]).querySelector('.drawing + .buttons').children]", f"figure-{name}")
        there[button].send_keys(Keys.ENTER)
        return there[button].text

    def drawn_at(self, name):
        """The corner of the drawing, and the width of its picture, when it is in the middle of the window."""
        return self.browser.run("const d = document.getElementById(arguments[0]).drawing; d.scrollIntoView({block: 'center'});"
                                "const r = d.firstElementChild.getBoundingClientRect(); return [r.left, r.top, r.width]", f"figure-{name}")

    def without_hands(self):
        """What the buttons under a drawing, + and -, the wheel with Ctrl, and a click do wrong."""
        return self.not_zoomed("09_zoom", 0) + self.not_played("15_breathing", 2) + self.not_clicked("30_kill")

    def not_zoomed(self, name, setting):
        found, last = [], self.places(name)[setting] - 1
        self.open(name)
        start = self.at(name, setting)

        def expect(what, place):
            if self.at(name, setting) != place:
                found.append(f"{name}: {what}: expected place {place}, found {self.at(name, setting)}")

        self.press(name, 0)
        expect("the first button", start - 1)
        self.press(name, 1)
        expect("the second button", start)
        self.browser.run("return document.activeElement").send_keys("+")
        expect("the key +", start - 1)
        self.browser.run("return document.activeElement").send_keys("-")
        expect("the key -", start)
        for _ in range(last + 1):
            self.press(name, 1)
        expect("the second button at the end", last)
        left, top, width = self.drawn_at(name)
        self.browser.wheel(left + width / 2, top + 40, -120, ctrl=True)
        self.browser.wait(f"document.getElementById('figure-{name}').at[{setting}] === {last - 1}", f"{name}: the wheel with Ctrl")
        before = self.browser.run("return scrollY")
        self.browser.wheel(left + width / 2, top + 40, -120, ctrl=False)
        self.browser.wait(f"scrollY < {before}", f"{name}: the wheel alone moves the page")
        expect("the wheel alone", last - 1)
        return found

    def not_played(self, name, setting):
        found = []
        self.open(name)
        before, now = self.at(name, setting), f"document.getElementById('figure-{name}').at[{setting}]"
        if self.press(name, 0) != "Stop":
            found.append(f"{name}: it does not play")
        self.browser.wait(f"{now} > {before + 2}", f"{name}: the third moment")
        if self.press(name, 0) != "Play":
            found.append(f"{name}: it does not stop")
        last = self.places(name)[setting] - 1
        self.open(name, f"?{name}=0.0.{last - 1}")
        self.press(name, 0)
        self.browser.wait(f"document.querySelector('#figure-{name} .drawing + .buttons').textContent === 'Play'", f"{name}: the end")
        self.press(name, 0)
        self.browser.wait(f"{now} < {last}", f"{name}: from the beginning again")
        self.browser.wants_no_motion(True)
        self.open(name)
        if self.press(name, 0) != "Next moment" or self.at(name, setting) != before + 1:
            found.append(f"{name}: a reader who wants no motion does not see the next moment, and no more")
        self.browser.wants_no_motion(False)
        return found

    def not_clicked(self, name):
        """The first GPU dies by a click, and lives by another one."""
        found = []
        self.open(name)
        left, top, _ = self.drawn_at(name)
        for expected in (1, 0):
            self.browser.drag(left + 100, top + 80, left + 100, top + 80)
            if self.at(name, 0) != expected:
                found.append(f"{name}: after a click the first GPU's switch is {self.at(name, 0)}, not {expected}")
        return found

    def lost_states(self):
        found = []
        for name in self.page:
            state = [n - 1 for n in self.places(name)]
            self.open(name, f"?{name}=" + ".".join(map(str, state)))
            if self.browser.run(f"return document.getElementById('figure-{name}').at") != state:
                found.append(f"{name}: a link to a state shows another")
        return found


def moving_key(kind, place, places):
    """The key that takes a switch, a slider or a choice from this place to another."""
    if kind == "checkbox":
        return Keys.SPACE
    last = place + 1 == places
    return {"range": (Keys.ARROW_RIGHT, Keys.ARROW_LEFT)}.get(kind, (Keys.ARROW_DOWN, Keys.ARROW_UP))[last]


SMALL_PICTURES = r"""
return [...document.querySelectorAll("article img")].filter(each => each.getBoundingClientRect().width < 0.7 * each.naturalWidth)
  .map(each => each.getAttribute("src"));
"""

CUT_FORMULAS = r"""
return [...document.querySelectorAll(".katex-display")].filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => each.querySelector("annotation").textContent.slice(0, 60));
"""

# Text whose contrast with the colour behind it is below 4.5, or 3 where it is large.
CONTRAST = r"""
const rgba = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length === 3 ? [...n, 1] : n; };
const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3])).concat(1);
const light = color => color.slice(0, 3).map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = element => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
};
const found = new Set(), walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement, words = walker.currentNode.textContent.trim();
  if (!words || element.closest("svg, .katex, .headerlink, [hidden], script, style") || !element.offsetParent) continue;
  const style = getComputedStyle(element), back = behind(element), front = over(rgba(style.color), back);
  const [a, b] = [light(front), light(back)].sort((x, y) => y - x), contrast = (a + 0.05) / (b + 0.05);
  const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
  if (contrast < (large ? 3 : 4.5)) found.add(`contrast ${contrast.toFixed(2)} of ${element.localName}.${element.className}: ${words.slice(0, 30)}`);
}
return [...found].slice(0, 8);
"""

# Words of a figure's drawing that its edge cuts off or that lie over each other, at these settings.
HIDDEN = r"""
const figure = document.getElementById(arguments[0]), found = new Set();
for (const at of arguments[1]) {
  figure.at = [...at];
  figure.update();
  const picture = figure.drawing.firstElementChild, edge = picture.getBoundingClientRect();
  const all = [...picture.querySelectorAll("text")].map(each => [each.textContent.trim(), each.getBoundingClientRect()]).filter(([words]) => words);
  all.forEach(([words, box], i) => {
    if (!(box.left > edge.left - 1 && box.right < edge.right + 1 && box.top > edge.top - 2 && box.bottom < edge.bottom + 2))
      found.add(`'${words}' is cut off at ${at}`);
    for (const [others, other] of all.slice(0, i))
      if (Math.min(box.right, other.right) - Math.max(box.left, other.left) > 2 && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 4)
        found.add(`'${words}' lies over '${others}' at ${at}`);
  });
}
return [...found].slice(0, 5);
"""

STRUCTURE = r"""
const found = [], headings = [...document.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)")].map(h => +h.localName[1]);
if (!document.documentElement.lang) found.push("the page names no language");
if (!document.title) found.push("the page has no title");
if (headings.filter(h => h === 1).length !== 1) found.push(`${headings.filter(h => h === 1).length} headings of the first level`);
headings.forEach((h, i) => { if (i && h > headings[i - 1] + 1) found.push(`a heading of level ${h} under one of level ${headings[i - 1]}`); });
const ids = new Set();
for (const e of document.querySelectorAll("[id]")) { if (ids.has(e.id)) found.push(`two elements are called ${e.id}`); ids.add(e.id); }
return found;
"""
