// A figure that moves: a question, a drawing, settings by slider, touch and keyboard, and what the
// library answers, which runs in this page as WebAssembly.
//
//     define("02_roofline", { draw(data, at, about, width) -> {svg, height, title}, ... })
//
// draw is a function of data alone. With `recorded` the answers are those of NAME.json. drag(x, width, data, about, {y, at, held}) -> [setting, place]
// says what dragging in the drawing moves; `held` is the setting that this drag has begun to move. Without it, `dragged` names the setting that
// moves from left to right. `free`: dragging goes up and down, too; `tapped`: a click is enough.
// `steps` {setting, back, on}: buttons of these names, the keys + and -, and the wheel with Ctrl move a setting by one place. `plays`: a button lets
// this setting run to its end.
import { measured, picture } from "./drawing.js";

// The library in this page. An error stops it; it is started again.
class Machine {
  constructor(module) { this.module = module; this.begin(); }
  begin() {
    const nothing = new Proxy({}, { get: () => () => 52 }); // a system that has no such call
    this.exports = new WebAssembly.Instance(this.module, { wasi_snapshot_preview1: nothing }).exports;
    this.exports._initialize();
  }
  read(place) {
    const bytes = new Uint8Array(this.exports.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(place, bytes.indexOf(0, place)));
  }
  ask(request) {
    const bytes = new TextEncoder().encode(request + "\0");
    new Uint8Array(this.exports.memory.buffer).set(bytes, this.exports.request_room());
    try { return JSON.parse(this.read(this.exports.ask())); }
    catch (stopped) {
      const error = this.read(this.exports.said_last());
      this.begin();
      return { error };
    }
  }
}
// What was recorded when the site was made: figures whose code runs on no page, as ranks and the planner do.
class Record {
  constructor({ about, answers }) { Object.assign(this, { about, answers }); }
  ask(request) { return request === this.about.name ? this.about : this.answers[request]; }
}
const recorded = name => fetch(new URL(`${name}.json`, import.meta.url)).then(answer => answer.json()).then(all => new Record(all));

let machine;
const started = () => machine ??= fetch(new URL("figures.wasm", import.meta.url))
  .then(answer => answer.arrayBuffer()).then(bytes => WebAssembly.compile(bytes)).then(module => new Machine(module));

const make = (tag, properties = {}, ...inner) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...inner);
  return made;
};

const element = (name, figure) => class extends HTMLElement {
  async connectedCallback() {
    this.machine = await (figure.recorded ? recorded(name) : started());
    this.about = this.machine.ask(name);
    this.at = this.state() ?? this.about.settings.map(each => each.start);
    this.replaceChildren(...this.parts());
    this.update();
    new ResizeObserver(() => this.redraw()).observe(this);
    this.toggleAttribute("ready", true);
  }
  // A link's state: ?02_roofline=3.12.12.1
  state() {
    const given = new URLSearchParams(location.search).get(name)?.split(".").map(Number);
    const fits = given?.length === this.about.settings.length &&
      given.every((place, i) => Number.isInteger(place) && place >= 0 && place < this.about.settings[i].values.length);
    return fits ? given : null;
  }
  parts() {
    this.drawing = make("div", { className: ["drawing", figure.free && "free", figure.tapped && "tapped"].filter(Boolean).join(" ") });
    this.numbers = make("dl", { className: "numbers" });
    this.numbers.setAttribute("aria-live", "polite");
    this.code = make("code");
    const id = `question-${name}`;
    this.setAttribute("role", "group");
    this.setAttribute("aria-labelledby", id);
    this.inputs = this.about.settings.map((setting, i) => this.input(setting, i));
    this.drag();
    const copy = make("button", { type: "button", textContent: "Copy link to this state" });
    copy.onclick = () => this.copy(copy);
    const again = make("button", { type: "button", textContent: "Start again" });
    again.onclick = () => { this.at = this.about.settings.map(each => each.start); this.update(); };
    const settings = make("div", { className: figure.settings ?? "settings" }, ...this.inputs.map(each => each.label));
    const code = make("details", {}, make("summary", { textContent: "The same in C++" }), make("pre", {}, this.code));
    return [make("p", { id, className: "question", textContent: this.about.question }), this.drawing, ...this.hands(), settings, this.numbers,
      make("p", { className: "buttons" }, copy, again), code];
  }
  // What moves a setting beside its own control.
  hands() {
    const buttons = [...(figure.steps ? this.steppers(figure.steps) : []), ...(figure.plays === undefined ? [] : [this.player(figure.plays)])];
    return buttons.length ? [make("p", { className: "buttons" }, ...buttons)] : [];
  }
  // False at the end.
  step(i, by) {
    const place = this.at[i] + by;
    if (!(place >= 0 && place < this.about.settings[i].values.length)) return false;
    this.at[i] = place;
    this.update();
    return true;
  }
  steppers({ setting, back, on }) {
    let turned = 0; // a wheel turns in large steps, two fingers in small ones
    this.drawing.onwheel = event => {
      if (!event.ctrlKey) return; // the page is moved
      event.preventDefault();
      turned += event.deltaY;
      if (Math.abs(turned) < 40) return;
      this.step(setting, Math.sign(turned));
      turned = 0;
    };
    this.onkeydown = event => { if (event.key === "+") this.step(setting, -1); else if (event.key === "-") this.step(setting, 1); };
    return [[back, -1], [on, 1]].map(([textContent, by]) => make("button", { type: "button", textContent, onclick: () => this.step(setting, by) }));
  }
  // For readers who want no motion each press is one place.
  player(i) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches, words = still ? "Next moment" : "Play";
    const button = make("button", { type: "button", textContent: words });
    let timer;
    const stop = () => {
      timer = clearInterval(timer);
      button.textContent = words;
      this.numbers.setAttribute("aria-live", "polite"); // not read aloud while it plays
    };
    button.onclick = () => {
      if (timer) return stop();
      if (!this.step(i, 1)) this.step(i, -this.at[i]);
      if (still) return;
      this.numbers.setAttribute("aria-live", "off");
      button.textContent = "Stop";
      timer = setInterval(() => this.step(i, 1) || stop(), 150);
    };
    return button;
  }
  // A choice of words, a switch, or a slider.
  input(setting, i) {
    const value = make("output");
    let control;
    if (setting.words.length) {
      control = make("select", {}, ...setting.words.map((word, k) => make("option", { value: k, textContent: word })));
    } else if (setting.values.length === 2) {
      control = make("input", { type: "checkbox", title: setting.name });
    } else {
      control = make("input", { type: "range", min: 0, max: setting.values.length - 1, step: 1 });
    }
    control.oninput = () => { this.at[i] = control.type === "checkbox" ? +control.checked : +control.value; this.update(); };
    return { label: make("label", {}, make("span", { textContent: setting.name }), control, value), control, value };
  }
  drag() {
    let held; // the setting that this drag began to move
    const move = event => {
      const { left, top, width } = this.drawing.firstElementChild.getBoundingClientRect(), x = event.clientX - left;
      const [i, place] = figure.drag ? figure.drag(x, width, this.data, this.about, { y: event.clientY - top, at: this.at, held }) : this.across(x / width);
      held = i;
      if (i === undefined || place === this.at[i]) return;
      this.at[i] = place;
      this.update();
    };
    this.drawing.onpointerdown = event => { held = undefined; this.drawing.setPointerCapture(event.pointerId); move(event); };
    this.drawing.onpointermove = event => { if (this.drawing.hasPointerCapture(event.pointerId)) move(event); };
  }
  across(share) {
    if (figure.dragged === undefined) return [];
    const last = this.about.settings[figure.dragged].values.length - 1;
    return [figure.dragged, Math.round(Math.min(Math.max(share, 0), 1) * last)];
  }
  update() {
    this.data = this.machine.ask([name, ...this.at].join(" "));
    this.about.settings.forEach((setting, i) => {
      const { control, value } = this.inputs[i], now = setting.values[this.at[i]];
      if (control.type === "checkbox") control.checked = this.at[i] === 1; else control.value = this.at[i];
      value.textContent = setting.words.length ? "" : measured(now, setting.unit, 6);
      if (control.type === "range") control.setAttribute("aria-valuetext", value.textContent);
    });
    this.numbers.replaceChildren(...this.data.numbers.map(each => make("div", {}, make("dt", { textContent: each.name }),
      make("dd", { textContent: measured(each.value, each.unit, each.digits) }))));
    this.code.textContent = this.data.code;
    this.redraw();
  }
  redraw() {
    const width = Math.min(Math.round(this.clientWidth) || 360, 760), drawn = figure.draw(this.data, this.at, this.about, width);
    this.drawing.innerHTML = picture(name, width, drawn.height, drawn.title, drawn.svg);
  }
  async copy(button) {
    const address = new URL(location.href);
    address.search = new URLSearchParams({ [name]: this.at.join(".") });
    address.hash = this.id;
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      button.textContent = "Copied";
    } catch { // this page may not write there
      button.textContent = "It is in the address bar";
    }
    setTimeout(() => { button.textContent = "Copy link to this state"; }, 2000);
  }
};

export function define(name, figure) {
  if (globalThis.customElements) customElements.define("figure-" + name.replaceAll("_", "-"), element(name, figure));
  return figure;
}
