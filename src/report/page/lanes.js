// lanes.js: what runs when. The compute lane shows forward, backward and recomputed ops, and waits;
// below it are the two copy lanes.

import { BACKWARD, FETCH, OFFLOAD, RUN, WAIT } from "./decode.js";
import { stepAt } from "./facts.js";
import { clip, colour, drawTimeAxis, fitText, state } from "./view.js";

const LANE_TOP = 4, LANE_GAP = 4, LANE_AXIS = 22, COMPUTE = 26, COPY = 16;

// `shown()` returns a list of { facts, name }: one plan, or two to compare.
export function lanesView(graph, shown) {
  function rows() {
    const list = [];
    let y = LANE_TOP;
    for (const { facts, name } of shown()) {
      const add = (label, height, kinds) => {
        list.push({ facts, label, kinds, y, height });
        y += height + LANE_GAP;
      };
      add(name || "compute", COMPUTE, [RUN, WAIT]);
      if (facts.outs > 0) add("copy out", COPY, [OFFLOAD]);
      if (facts.ins > 0) add("copy in", COPY, [FETCH]);
    }
    return { list, bottom: y };
  }

  const height = () => rows().bottom + LANE_AXIS;

  function keyOf(facts, step) {
    const { kind, id } = facts.plan.steps;
    if (kind[step] === WAIT) return "wait";
    if (kind[step] !== RUN) return "fetched";
    if (facts.again[step]) return "recomputed";
    return graph.phase[id[step]] === BACKWARD ? "backward" : "forward";
  }

  // The visible steps of a lane as [left, right, step]. Steps that share a pixel and a colour are
  // merged.
  function visible(panel, row) {
    const { steps } = row.facts.plan;
    const found = [];
    const copies = row.kinds[0] !== RUN;
    const first = copies ? 0 : Math.max(0, stepAt(steps, state.from) - 1);
    for (let s = first; s < steps.count; s++) {
      if (steps.reach[s] > state.to) break;
      if (!row.kinds.includes(steps.kind[s]) || steps.end[s] <= steps.start[s]) continue;
      if (steps.end[s] < state.from || steps.start[s] > state.to) continue;
      const left = panel.x(steps.start[s]), right = panel.x(steps.end[s]);
      const last = found[found.length - 1];
      const same = last !== undefined && keyOf(row.facts, last[2]) === keyOf(row.facts, s);
      if (same && right - last[0] < 1.5) last[1] = Math.max(last[1], right);
      else found.push([left, right, s]);
    }
    return found;
  }

  function drawRow(panel, context, row) {
    const paths = new Map();
    const labels = [];
    for (const [left, right, step] of visible(panel, row)) {
      const key = keyOf(row.facts, step);
      if (!paths.has(key)) paths.set(key, new Path2D());
      const gap = right - left > 4 ? 0.7 : 0;
      paths.get(key).rect(left, row.y, Math.max(right - left - gap, 0.7), row.height);
      if (right - left > 40) labels.push([left, right, step, key]);
    }
    for (const [key, path] of paths) {
      context.fillStyle = colour(key);
      context.fill(path);
    }
    if (paths.has("recomputed")) hatch(panel, context, paths.get("recomputed"), row);
    for (const label of labels) drawName(context, row, ...label);
  }

  function drawName(context, row, left, right, step, key) {
    const { kind, id } = row.facts.plan.steps;
    const name = kind[step] === RUN ? graph.opNames[id[step]] : graph.tensorNames[id[step]];
    const text = kind[step] === WAIT ? "waits" : name;
    const from = Math.max(left, row.left), width = right - from;
    if (context.measureText(text).width > width - 6) return;
    context.fillStyle = key === "recomputed" || key === "wait" ? "#111" : "#fff";
    context.textAlign = "center";
    context.fillText(text, from + width / 2, row.y + row.height / 2 + 0.5);
  }

  // Hatch recomputed ops, so that they can be recognised without colours.
  function hatch(panel, context, path, row) {
    context.save();
    context.clip(path);
    context.strokeStyle = colour("panel");
    context.globalAlpha = 0.5;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = panel.left - row.height; x < panel.width; x += 6) {
      context.moveTo(x, row.y + row.height);
      context.lineTo(x + row.height, row.y);
    }
    context.stroke();
    context.restore();
  }

  function draw(panel, context) {
    const { list, bottom } = rows();
    drawTimeAxis(panel, context, bottom, LANE_TOP);
    for (const row of list) {
      row.left = panel.left;
      context.fillStyle = colour("soft");
      context.textAlign = "right";
      const label = panel.left < 70 ? row.label.replace("compute", "ops") : row.label;
      const fitting = fitText(context, label, panel.left - 8);
      context.fillText(fitting, panel.left - 6, row.y + row.height / 2);
      clip(panel, context, () => drawRow(panel, context, row));
    }
  }

  function mark(panel, context) {
    clip(panel, context, () => {
      context.strokeStyle = colour("mark");
      for (const row of rows().list) {
        const { steps } = row.facts.plan;
        for (const [what, width] of [[state.pinned, 3], [state.hover, 2]]) {
          if (what === null) continue;
          context.lineWidth = width;
          const ops = new Set(what.ops || []), tensors = new Set(what.tensors || []);
          const first = row.kinds[0] === RUN ? Math.max(0, stepAt(steps, state.from) - 1) : 0;
          for (let s = first; s < steps.count && steps.reach[s] <= state.to; s++) {
            if (!row.kinds.includes(steps.kind[s]) || steps.end[s] <= steps.start[s]) continue;
            const hit = steps.kind[s] === RUN ? ops.has(steps.id[s]) : tensors.has(steps.id[s]);
            if (!hit) continue;
            const x = panel.x(steps.start[s]);
            const wide = Math.max(2, panel.x(steps.end[s]) - x);
            context.strokeRect(x, row.y, wide, row.height);
          }
        }
      }
    });
  }

  function pick(panel, x, y) {
    const row = rows().list.find((one) => y >= one.y - 2 && y <= one.y + one.height + 2);
    if (row === undefined || x < panel.left) return null;
    const { steps } = row.facts.plan;
    const time = panel.timeAt(x);
    let best = -1, near = (3 * (state.to - state.from)) / panel.plot;
    for (const [, , s] of visible(panel, row)) {
      const inside = steps.start[s] <= time && steps.end[s] >= time;
      const away = inside
        ? 0
        : Math.min(Math.abs(steps.start[s] - time), Math.abs(steps.end[s] - time));
      if (away < near || (inside && best < 0)) [best, near] = [s, away];
    }
    if (row.kinds[0] === RUN && best >= 0) {
      const exact = stepAt(steps, time);
      if (row.kinds.includes(steps.kind[exact]) && steps.end[exact] > steps.start[exact]) {
        best = exact;
      }
    }
    if (best < 0) return { time, facts: row.facts, tensors: [], step: stepAt(steps, time) };
    const id = steps.id[best];
    if (steps.kind[best] !== RUN) {
      return { time, facts: row.facts, step: best, tensors: [id], copy: true };
    }
    const made = graph.outputs[id].filter((tensor) => tensor >= 0);
    return { time, facts: row.facts, step: best, ops: [id], tensors: made, run: true };
  }

  return { draw, mark, pick, height };
}
