// memory.js: memory over time as stacked areas, with the curve of plain training behind them.

import { bytesText } from "./format.js";
import { BANDS, CLASSES, stepAt } from "./facts.js";
import {
  clip,
  colour,
  depthColour,
  drawBytesAxis,
  drawLevel,
  drawTimeAxis,
  state,
} from "./view.js";

const CURVE_TOP = 8, CURVE_AXIS = 22;

// The visible steps as [left, right, step]; times are multiplied by `stretch`. Of steps that share
// a pixel only the one with most memory is kept, so that no peak is lost.
function segmentsOf(panel, facts, stretch = 1) {
  const { steps } = facts.plan;
  const found = [];
  const first = Math.max(0, stepAt(steps, state.from / stretch) - 1);
  for (let s = first; s < steps.count && steps.reach[s] * stretch <= state.to; s++) {
    if (steps.leave[s] <= steps.reach[s]) continue;
    const left = panel.x(steps.reach[s] * stretch), right = panel.x(steps.leave[s] * stretch);
    const last = found[found.length - 1];
    if (last !== undefined && right - last[0] < 1) {
      if (facts.total[s] > facts.total[last[2]]) last[2] = s;
      last[1] = right;
    } else {
      found.push([left, right, s]);
    }
  }
  return found;
}

// The factor for predicted times that are shown beside measured ones: the measured time of the plan
// over its predicted time.
export function stretchOf(plan) {
  return plan.measured && plan.predicted > 0 ? plan.time / plan.predicted : 1;
}

// `shown()` returns the facts of the plan, of plain training, and of a plan to compare with (or
// null).
export function memoryView(shown) {
  const frame = (panel) => {
    const bottom = panel.height - CURVE_AXIS;
    const { tallest } = shown();
    return { bottom, y: (bytes) => bottom - (bytes / tallest) * (bottom - CURVE_TOP) };
  };

  function groups(facts) {
    if (state.colour === "kind") {
      return facts.byClass.by.map((column, i) => [column, colour(CLASSES[i].key)]);
    }
    return facts.byLayer.by.map((column, i) => [column, depthColour(i / (BANDS - 1))]);
  }

  function drawStack(context, segments, facts, y) {
    const base = new Float64Array(segments.length);
    for (const [column, fill] of groups(facts)) {
      const path = new Path2D();
      let any = false;
      segments.forEach(([left, right, s], i) => {
        if (!(column[s] > 0)) return;
        any = true;
        const top = y(base[i] + column[s]);
        path.rect(left, top, right - left + 0.3, y(base[i]) - top);
        base[i] += column[s];
      });
      context.fillStyle = fill;
      if (any) context.fill(path);
    }
  }

  function outline(segments, facts, y, closed) {
    const path = new Path2D();
    segments.forEach(([left, right, s], i) => {
      if (i === 0) path.moveTo(left, closed ? y(0) : y(facts.total[s]));
      path.lineTo(left, y(facts.total[s]));
      path.lineTo(right, y(facts.total[s]));
      if (closed && i === segments.length - 1) path.lineTo(right, y(0));
    });
    return path;
  }

  function draw(panel, context) {
    const { facts, none, other, tallest, budget, peak } = shown();
    const { bottom, y } = frame(panel);
    drawBytesAxis(panel, context, CURVE_TOP, bottom, tallest);
    drawTimeAxis(panel, context, bottom, CURVE_TOP);
    clip(panel, context, () => {
      if (none !== null && none !== facts) {
        const segments = segmentsOf(panel, none, stretchOf(facts.plan));
        context.fillStyle = colour("none");
        context.globalAlpha = 0.25;
        context.fill(outline(segments, none, y, true));
        context.globalAlpha = 1;
        context.strokeStyle = colour("none");
        context.lineWidth = 1.5;
        context.stroke(outline(segments, none, y, false));
      }
      drawStack(context, segmentsOf(panel, facts), facts, y);
      if (other !== null) {
        context.strokeStyle = colour("text");
        context.lineWidth = 2;
        context.stroke(outline(segmentsOf(panel, other), other, y, false));
      }
    });
    panel.y = y;
    const time = facts.plan.steps.count > 0 ? facts.plan.steps.reach[facts.plan.peakStep] : 0;
    if (none !== null && none !== facts) {
      const text = "plain training " + bytesText(none.plan.peak);
      drawLevel(panel, context, y(none.plan.peak), text, "soft", [2, 3], true);
    }
    if (budget > 0) {
      const text = "the budget leaves " + bytesText(budget);
      const close = none !== null && Math.abs(y(none.plan.peak) - y(budget)) < 16;
      drawLevel(panel, context, y(budget), text, "budget", [], true, close);
    }
    drawLevel(panel, context, y(peak), "peak " + bytesText(peak), "peak", [6, 3], false);
    drawPeak(panel, context, time, y(peak));
  }

  function drawPeak(panel, context, time, y) {
    const x = panel.x(time);
    if (x < panel.left || x > panel.left + panel.plot) return;
    context.fillStyle = colour("peak");
    context.beginPath();
    context.arc(x, y, 4, 0, 7);
    context.fill();
  }

  // Mark the times at which the marked tensors are in memory.
  function mark(panel, context) {
    const { facts } = shown();
    const { lives } = facts.plan;
    const { bottom } = frame(panel);
    clip(panel, context, () => {
      for (const [what, height] of [[state.pinned, 5], [state.hover, 3]]) {
        if (what === null) continue;
        context.fillStyle = colour("mark");
        for (const tensor of what.tensors || []) {
          for (const life of facts.livesOf.get(tensor) || []) {
            const x = panel.x(lives.from[life]);
            const width = Math.max(1.5, panel.x(lives.to[life]) - x);
            context.fillRect(x, bottom - height, width, height);
          }
        }
      }
    });
  }

  function pick(panel, x, y) {
    const { facts } = shown();
    if (x < panel.left || y > frame(panel).bottom) return null;
    const time = panel.timeAt(x), step = stepAt(facts.plan.steps, time);
    return { time, step, facts, tensors: [], life: -1, moment: true };
  }

  return { draw, mark, pick };
}
