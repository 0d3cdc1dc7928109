// Pipeline schedules: what makes the bubble smaller.
import { define } from "./figure.js";
import { timeline } from "./schedule.js";

export default define("18_schedule", { dragged: 2, draw: (data, at, about, width) => timeline(data, width) });
