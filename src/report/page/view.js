// view.js: shared by all views: the visible range of time, what is marked, the canvases, and
// pointer events.

const LEFT = 74, RIGHT = 14, NARROW_LEFT = 58;

// The state of the page. `listeners` are called with what changed: "all", "range" (the visible
// range of time; views without a time axis do not change) or "mark" (only the marks over the
// views).
export const state = {
  from: 0,
  to: 1,
  whole: 1, // time of the longest plan that is shown
  colour: "kind",
  query: "",
  matches: null, // tensors that the search found, or null
  hover: null, // what is under the pointer: { tensors, ops, layer, time }
  pinned: null, // what is selected, in the same form
  listeners: [],
};

export function changed(what) {
  for (const listener of state.listeners) listener(what);
}

export function setRange(from, to) {
  const least = state.whole / 1e6;
  const length = Math.min(Math.max(to - from, least), state.whole);
  let start = (from + to - length) / 2;
  start = Math.min(Math.max(start, 0), state.whole - length);
  if (start === state.from && start + length === state.to) return;
  state.from = start;
  state.to = start + length;
  changed("range");
}

export function zoom(factor, centre) {
  const at = centre === undefined ? (state.from + state.to) / 2 : centre;
  setRange(at - (at - state.from) * factor, at + (state.to - at) * factor);
}

export function pan(share) {
  const shift = (state.to - state.from) * share;
  const start = Math.min(Math.max(state.from + shift, 0), state.whole - (state.to - state.from));
  setRange(start, start + state.to - state.from);
}

// ---- Colours ----

let colours = {};

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = {};
  for (
    const key of [
      "activation",
      "recomputed",
      "fetched",
      "gradient",
      "internal",
      "workspace",
      "input",
      "text",
      "soft",
      "grid",
      "panel",
      "none",
      "peak",
      "budget",
      "mark",
      "forward",
      "backward",
      "wait",
    ]
  ) colours[key] = style.getPropertyValue("--" + key).trim();
  colours.dark = style.getPropertyValue("--dark").trim() === "1";
}

export function colour(key) {
  return colours[key];
}

// Colours along the depth of a network: from dark blue through grey to yellow. They differ in
// lightness, so that colour-blind readers can distinguish them (after the colour map "cividis").
export function depthColour(share) {
  const stops = [
    [0, 34, 78],
    [53, 69, 108],
    [102, 105, 112],
    [148, 142, 119],
    [200, 184, 102],
    [254, 232, 56],
  ];
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2), part = at - low;
  const mix = stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * part));
  if (colours.dark) mix.forEach((value, i) => mix[i] = Math.round(70 + value * 0.72));
  return `rgb(${mix.join(",")})`;
}

// ---- Canvases ----

// A view has two canvases: the drawing, and above it the marks. A third canvas is only for
// printing. `draw(panel, context)` and `mark(panel, context)` paint them. `pick(panel, x, y)`
// returns what is at a point.
export class Panel {
  constructor(holder, { height, draw, mark, pick, time = true }) {
    this.holder = holder;
    this.wanted = height; // in pixels, or a function of the width
    this.draw = draw;
    this.mark = mark;
    this.pick = pick;
    this.time = time; // whether it has the time axis
    this.scale = 1; // pixels of the device per pixel of the page
    this.base = document.createElement("canvas");
    this.over = document.createElement("canvas");
    this.over.className = "over";
    this.paper = document.createElement("canvas");
    this.paper.className = "paper";
    holder.append(this.base, this.over, this.paper);
    this.width = this.height = 0;
  }

  get left() {
    return this.width < 600 ? NARROW_LEFT : LEFT;
  }

  get plot() { // width of the area with the time axis
    return Math.max(10, this.width - this.left - RIGHT);
  }

  x(time) {
    return this.left + ((time - state.from) / (state.to - state.from)) * this.plot;
  }

  timeAt(x) {
    return state.from + ((x - this.left) / this.plot) * (state.to - state.from);
  }

  resize() {
    const scale = globalThis.devicePixelRatio || 1;
    const width = this.holder.clientWidth;
    const height = typeof this.wanted === "function" ? this.wanted(width) : this.wanted;
    this.holder.hidden = height === 0;
    if (width === this.width && height === this.height && scale === this.scale) return;
    Object.assign(this, { width, height, scale });
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.height = height + "px";
    }
    this.holder.style.height = height + "px";
  }

  context(canvas) {
    const context = canvas.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    return context;
  }

  render() {
    this.resize();
    if (this.height === 0) return;
    this.draw(this, this.context(this.base));
    this.renderMark();
  }

  // A browser prints a canvas as it was a frame ago. So the printed canvas is drawn beforehand.
  renderPaper() {
    this.paper.width = this.base.width;
    this.paper.height = this.base.height;
    if (this.height > 0) this.draw(this, this.context(this.paper));
  }

  renderMark() {
    if (this.height === 0) return;
    const context = this.context(this.over);
    const at = state.hover;
    if (this.time && at !== null && at.time !== undefined) {
      context.fillStyle = colour("soft");
      const x = this.x(at.time);
      if (x >= this.left && x <= this.width - RIGHT) context.fillRect(x, 0, 1, this.height);
    }
    this.mark(this, context);
  }
}

// Restrict drawing to the area with the time axis.
export function clip(panel, context, paint) {
  context.save();
  context.beginPath();
  context.rect(panel.left, 0, panel.plot, panel.height);
  context.clip();
  paint();
  context.restore();
}

// ---- Axes ----

// The smallest of 1, 2, 5 times a power of `base` that gives at most `most` ticks.
function tickOf(length, most, base) {
  let tick = base === 2 ? 1 : 1e-3;
  for (;;) {
    for (const step of base === 2 ? [1] : [1, 2, 5]) {
      if (length / (tick * step) <= most) return tick * step;
    }
    tick *= base;
  }
}

// "12.5 ms", with as many digits as neighbouring ticks need to differ.
function tickText(ns, tick) {
  const [unit, name] = tick >= 1e8
    ? [1e9, "s"]
    : tick >= 1e4
    ? [1e6, "ms"]
    : tick >= 10
    ? [1e3, "\u00b5s"]
    : [1, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(tick / unit) + 1e-9));
  return (ns / unit).toFixed(Math.min(digits, 6)) + " " + name;
}

export function drawTimeAxis(panel, context, y, top) {
  const tick = tickOf(state.to - state.from, panel.plot / 70, 10);
  context.textAlign = "center";
  for (let t = Math.ceil(state.from / tick) * tick; t <= state.to; t += tick) {
    const x = panel.x(t);
    context.fillStyle = colour("grid");
    context.fillRect(x, top, 1, y - top);
    context.fillStyle = colour("soft");
    const text = state.whole < 1 ? t.toPrecision(2) : tickText(t, tick);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, half), panel.width - half), y + 10);
  }
}

export function drawBytesAxis(panel, context, top, bottom, most) {
  const tick = tickOf(most, Math.max(2, (bottom - top) / 34), 2);
  context.textAlign = "right";
  for (let bytes = 0; bytes <= most; bytes += tick) {
    const y = bottom - (bytes / most) * (bottom - top);
    context.fillStyle = colour("grid");
    context.fillRect(panel.left, Math.round(y), panel.plot, 1);
    context.fillStyle = colour("soft");
    context.fillText(shortBytes(bytes), panel.left - 6, Math.max(y, top + 5));
  }
}

export function shortBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    unit++;
  }
  return +bytes.toFixed(2) + " " + units[unit];
}

// A horizontal line with a label above it, or below it if the line is at the upper edge.
export function drawLevel(panel, context, y, label, key, dash, right, below = false) {
  context.save();
  context.strokeStyle = context.fillStyle = colour(key);
  context.setLineDash(dash);
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(panel.left, y);
  context.lineTo(panel.left + panel.plot, y);
  context.stroke();
  context.setLineDash([]);
  const width = context.measureText(label).width;
  const x = right ? panel.left + panel.plot - width - 6 : panel.left + 6;
  const above = y > 16 && !below ? y - 8 : y + 9;
  context.globalAlpha = 0.85;
  context.fillStyle = colour("panel");
  context.fillRect(x - 3, above - 7, width + 6, 14);
  context.globalAlpha = 1;
  context.fillStyle = colour(key);
  context.textAlign = "left";
  context.fillText(label, x, above);
  context.restore();
}

// Shorten a name at its front so that it fits: names differ at their ends.
export function fitText(context, text, width) {
  let shown = text;
  for (let cut = 1; context.measureText(shown).width > width && cut < text.length; cut++) {
    shown = "\u2026" + text.slice(cut);
  }
  return shown;
}

// ---- Pointers and keys ----

// Wheel: zoom at the pointer; sideways or with shift: pan. Drag: pan. Two fingers: zoom. A click
// selects what is under the pointer.
export function followPointers(panel, { onHover, onChoose }) {
  const element = panel.over;
  const down = new Map();
  let moved = 0, spread = 0;
  const place = (event) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  element.addEventListener("wheel", (event) => {
    if (!panel.time) return;
    event.preventDefault();
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      pan(sideways / 800);
    } else {
      const unit = event.deltaMode === 1 ? 33 : 1;
      zoom(Math.exp(event.deltaY * unit * 0.0015), panel.timeAt(place(event)[0]));
    }
  }, { passive: false });
  element.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, place(event));
    moved = 0;
    element.setPointerCapture(event.pointerId);
    spread = spreadOf(down);
  });
  element.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    const last = down.get(event.pointerId);
    if (last === undefined) return onHover(panel, x, y, event);
    down.set(event.pointerId, [x, y]);
    moved += Math.abs(x - last[0]) + Math.abs(y - last[1]);
    if (!panel.time) return;
    if (down.size === 2) {
      const now = spreadOf(down);
      const centre = [...down.values()].reduce((sum, p) => sum + p[0] / 2, 0);
      if (now > 8 && spread > 8) zoom(spread / now, panel.timeAt(centre));
      spread = now;
    } else if (moved > 4) {
      pan((last[0] - x) / panel.plot);
    }
  });
  const up = (event) => {
    if (down.delete(event.pointerId) && moved <= 4 && event.type === "pointerup") {
      onChoose(panel, ...place(event), event);
    }
  };
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
  element.addEventListener("pointerleave", () => down.size === 0 && onHover(null));
}

function spreadOf(points) {
  const [a, b] = [...points.values()];
  return b === undefined ? 0 : Math.abs(a[0] - b[0]);
}
