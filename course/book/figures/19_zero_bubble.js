// Zero-bubble schedules: how weight gradients fill the idle time.
import { define } from "./figure.js";
import { timeline } from "./schedule.js";

export default define("19_zero_bubble", { dragged: 2, draw: (data, at, about, width) => timeline(data, width) });
