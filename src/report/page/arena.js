// arena.js: the arena map. The x axis is time, the y axis is the address, and every lifetime is a
// rectangle. Only lifetimes in the visible range of time are visited. Rectangles smaller than a
// pixel are drawn once per pixel.

import { bytesText } from "./format.js";
import { CLASSES, longestTenant, stepAt, tensorAt } from "./facts.js";
import {
  clip,
  colour,
  depthColour,
  drawBytesAxis,
  drawLevel,
  drawTimeAxis,
  state,
} from "./view.js";

const MAP_TOP = 8, MAP_AXIS = 22, BLOCK = 128;

// The latest end in every block of lifetimes, so that blocks that ended earlier can be skipped.
function blockEnds(lives) {
  const ends = new Float64Array(Math.ceil(lives.count / BLOCK));
  for (let i = 0; i < lives.count; i++) {
    const block = Math.floor(i / BLOCK);
    ends[block] = Math.max(ends[block], lives.to[i]);
  }
  return ends;
}

// The first lifetime that begins after a time. Lifetimes are ordered by their beginning.
function firstAfter(lives, time) {
  let low = 0, high = lives.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lives.from[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function visit(facts, from, to, each) {
  const { lives } = facts.plan;
  facts.blockEnds ||= blockEnds(lives);
  const end = firstAfter(lives, to);
  for (let block = 0; block * BLOCK < end; block++) {
    if (facts.blockEnds[block] < from) continue;
    const stop = Math.min(end, (block + 1) * BLOCK);
    for (let i = block * BLOCK; i < stop; i++) if (lives.to[i] >= from) each(i);
  }
}

// Collects the rectangles of one colour into one path. `stamps` has, per pixel column, how far up
// it is drawn already.
class Painter {
  constructor(panel) {
    this.panel = panel;
    this.width = Math.ceil(panel.width) + 1;
    this.rows = Math.ceil(panel.height) + 1;
    this.stamps = new Uint16Array(this.width * this.rows);
    this.paths = new Map();
    this.seen = this.drawn = 0; // rectangles in all, and those that were not merged
  }

  add(key, x, y, width, height) {
    this.seen++;
    if (width < 1.5) {
      const at = Math.max(0, Math.round(x)) * this.rows + Math.max(0, Math.round(y));
      const tall = Math.ceil(height) + 1;
      if (this.stamps[at] >= tall) return;
      this.stamps[at] = tall;
    }
    let path = this.paths.get(key);
    if (path === undefined) this.paths.set(key, path = new Path2D());
    path.rect(x, y, Math.max(width, 0.8), Math.max(height, 0.3));
    this.drawn++;
  }

  fill(context) {
    for (const [key, path] of this.paths) {
      context.fillStyle = typeof key === "number" ? depthColour(key) : colour(key);
      context.fill(path);
    }
  }
}

// `shown()` returns the facts to draw, the largest address of the axis in bytes, and a budget or 0.
export function arenaView(graph, layering, shown) {
  const layers = Math.max(1, layering.layers.length - 1);
  const frame = (panel) => {
    const { most } = shown();
    const bottom = panel.height - MAP_AXIS;
    return { bottom, y: (bytes) => bottom - (bytes / most) * (bottom - MAP_TOP) };
  };

  function boxOf(panel, lives, life, y) {
    const x = Math.max(panel.x(lives.from[life]), panel.left - 2);
    const right = Math.min(panel.x(lives.to[life]), panel.left + panel.plot + 2);
    const top = y(lives.offset[life] + lives.bytes[life]);
    return [x, top, right - x, y(lives.offset[life]) - top];
  }

  function keyOf(facts, life) {
    if (state.colour === "kind") return CLASSES[facts.classes[life]].key;
    return Math.round((facts.layer[life] / layers) * 40) / 40;
  }

  function paint(panel, context, facts) {
    const { lives } = facts.plan;
    const { y } = frame(panel);
    const painter = new Painter(panel), edges = new Path2D(), faded = new Painter(panel);
    const labels = [];
    visit(facts, state.from, state.to, (life) => {
      const [x, top, width, height] = boxOf(panel, lives, life, y);
      const fades = state.matches !== null && !isMatch(facts, life);
      (fades ? faded : painter).add(keyOf(facts, life), x, top, width, height);
      if (width > 4 && height > 3) edges.rect(x + 0.5, top + 0.5, width - 1, height - 1);
      if (width > 44 && height > 13 && !fades) labels.push([life, x, top, width, height]);
    });
    context.globalAlpha = 0.18;
    faded.fill(context);
    context.globalAlpha = 1;
    painter.fill(context);
    context.globalAlpha = 0.45;
    context.strokeStyle = colour("panel");
    context.lineWidth = 1;
    context.stroke(edges);
    context.globalAlpha = 1;
    for (const label of labels) drawLabel(context, facts, ...label);
    panel.seen = painter.seen + faded.seen;
    panel.drawn = painter.drawn + faded.drawn;
  }

  function drawLabel(context, facts, life, x, top, width, height) {
    const tensor = longestTenant(facts, life);
    const name = tensor < 0 ? "workspace" : graph.tensorNames[tensor];
    const size = bytesText(facts.plan.lives.bytes[life]);
    context.fillStyle = inkOn(keyOf(facts, life));
    context.textAlign = "center";
    const fits = (text) => context.measureText(text).width < width - 8;
    const text = fits(name + "  " + size) ? name + "  " + size : name;
    if (fits(text)) context.fillText(text, x + width / 2, top + height / 2);
  }

  function isMatch(facts, life) {
    const tensor = facts.plan.lives.tensor[life];
    if (state.matches.has(tensor)) return true;
    return (facts.tenantsOf.get(life) || []).some((tenant) => state.matches.has(tenant.tensor));
  }

  function draw(panel, context) {
    const { facts, most, budget, peak } = shown();
    const { bottom, y } = frame(panel);
    drawBytesAxis(panel, context, MAP_TOP, bottom, most);
    drawTimeAxis(panel, context, bottom, MAP_TOP);
    clip(panel, context, () => paint(panel, context, facts));
    panel.y = y;
    if (budget > 0) {
      const text = "the budget leaves " + bytesText(budget);
      drawLevel(panel, context, y(budget), text, "budget", [], true);
    }
    const label = "peak " + bytesText(peak);
    drawLevel(panel, context, y(peak), label, "peak", [6, 3], false);
  }

  function mark(panel, context) {
    const { facts } = shown();
    const { lives } = facts.plan;
    const { y } = frame(panel);
    clip(panel, context, () => {
      for (const [what, width] of [[state.pinned, 3], [state.hover, 2]]) {
        if (what === null) continue;
        context.lineWidth = width;
        context.strokeStyle = colour("mark");
        for (const tensor of what.tensors || []) {
          for (const life of facts.livesOf.get(tensor) || []) {
            if (lives.to[life] < state.from || lives.from[life] > state.to) continue;
            const [x, top, wide, tall] = boxOf(panel, lives, life, y);
            context.strokeRect(x, top, Math.max(wide, 2), Math.max(tall, 2));
          }
        }
        if (what.life >= 0 && what.facts === facts) {
          context.strokeRect(...boxOf(panel, lives, what.life, y));
        }
      }
    });
  }

  // The lifetime at a point. If several are close, it is the smallest.
  function pick(panel, x, y) {
    const { facts } = shown();
    const { lives, steps } = facts.plan;
    const area = frame(panel);
    if (x < panel.left || y > area.bottom) return null;
    const time = panel.timeAt(x), slack = (state.to - state.from) / panel.plot;
    let best = -1, size = Infinity;
    visit(facts, time - slack, time + slack, (life) => {
      const [, top, , tall] = boxOf(panel, lives, life, area.y);
      if (y < top - 1 || y > top + tall + 1) return;
      const own = lives.bytes[life] * (lives.to[life] - lives.from[life]);
      const inside = lives.from[life] <= time && lives.to[life] >= time;
      if (own * (inside ? 1 : 2) < size) [best, size] = [life, own * (inside ? 1 : 2)];
    });
    const step = stepAt(steps, time);
    if (best < 0) return { time, step, facts, tensors: [], life: -1 };
    const inside = Math.min(Math.max(step, lives.first[best]), lives.last[best]);
    const tensor = tensorAt(facts, best, inside);
    return { time, step, facts, life: best, tensors: tensor < 0 ? [] : [tensor] };
  }

  return { draw, mark, pick };
}

// The colour of text: dark on light colours, light on dark ones.
export function inkOn(key) {
  if (typeof key === "number") return key > 0.45 ? "#111" : "#fff";
  return ["recomputed", "workspace", "internal", "input"].includes(key) ? "#111" : "#fff";
}
