// chain.js: the network as a chain of layers, in the order in which they run. A bar shows what the
// plan does with the results of a layer, in bytes; a cell under it shows the main fate as a letter.

import { FATES, KEPT, layerFates, OFFLOADED, PASSING, RECOMPUTED } from "./facts.js";
import { colour, fitText, shortBytes, state } from "./view.js";

const CHAIN_TOP = 8, CELL = 18, NAMES = 18;

// The fate of a whole layer: the one of most of the bytes that the backward pass needs.
export function mainFate(sums) {
  const needed = sums[KEPT] + sums[RECOMPUTED] + sums[OFFLOADED];
  if (needed === 0) return PASSING;
  return [KEPT, RECOMPUTED, OFFLOADED].reduce((a, b) => (sums[b] > sums[a] ? b : a));
}

// `shown()` returns a list of one or two { facts, name }.
export function chainView(graph, layering, shown) {
  const { layers } = layering;
  const fatesOf = (facts) => {
    facts.layerFates ||= layers.map((layer) => layerFates(graph, facts, layer));
    return facts.layerFates;
  };

  const height = () => (shown().length > 1 ? 170 : 118);

  function frame(panel) {
    const cells = shown().length;
    const bottom = panel.height - NAMES - cells * (CELL + 2);
    const width = panel.plot / Math.max(1, layers.length);
    let most = 1;
    for (const { facts } of shown()) {
      for (const sums of fatesOf(facts)) most = Math.max(most, sums[0] + sums[1] + sums[2]);
    }
    return { bottom, width, most };
  }

  function draw(panel, context) {
    const { bottom, width, most } = frame(panel);
    const list = shown();
    const share = list.length;
    context.textAlign = "right";
    context.fillStyle = colour("soft");
    context.fillText(shortBytes(most), panel.left - 6, CHAIN_TOP + 5);
    list.forEach(({ name }, k) => {
      const y = bottom + 3 + k * (CELL + 2) + CELL / 2;
      context.fillText(fitText(context, name || "fate", panel.left - 8), panel.left - 6, y);
    });
    layers.forEach((_, i) => {
      list.forEach(({ facts }, k) => {
        const sums = fatesOf(facts)[i];
        const x = panel.left + i * width + (k * width) / share;
        const wide = Math.max(width / share - (width > 5 ? 1 : 0), 0.6);
        let y = bottom;
        for (const fate of [KEPT, RECOMPUTED, OFFLOADED]) {
          const tall = (sums[fate] / most) * (bottom - CHAIN_TOP);
          context.fillStyle = colour(FATES[fate].colour);
          context.fillRect(x, y - tall, wide, tall);
          y -= tall;
        }
        const cell = bottom + 3 + k * (CELL + 2);
        context.fillStyle = colour(FATES[mainFate(sums)].colour);
        context.globalAlpha = mainFate(sums) === PASSING ? 0.35 : 1;
        context.fillRect(
          panel.left + i * width,
          cell,
          Math.max(width - (width > 3 ? 1 : 0), 0.6),
          CELL,
        );
        context.globalAlpha = 1;
        if (width > 16) letter(context, panel.left + (i + 0.5) * width, cell + CELL / 2, sums);
      });
    });
    drawNames(panel, context, width);
  }

  // The letters K, R and O distinguish fates without colours.
  function letter(context, x, y, sums) {
    const fate = mainFate(sums);
    if (fate === PASSING) return;
    context.fillStyle = fate === RECOMPUTED ? "#111" : "#fff";
    context.textAlign = "center";
    context.fillText(FATES[fate].label[0].toUpperCase(), x, y);
  }

  // Draw as many names as fit.
  function drawNames(panel, context, width) {
    context.fillStyle = colour("soft");
    context.textAlign = "left";
    let free = panel.left;
    layers.forEach((layer, i) => {
      const x = panel.left + i * width, length = context.measureText(layer.name).width;
      if (x < free || x + length > panel.left + panel.plot + 8) return;
      context.fillText(layer.name, x, panel.height - NAMES / 2 + 2);
      free = x + length + 12;
    });
  }

  function mark(panel, context) {
    const { bottom, width } = frame(panel);
    for (const [what, line] of [[state.pinned, 3], [state.hover, 2]]) {
      if (what === null) continue;
      const marked = new Set(what.layer >= 0 ? [what.layer] : []);
      for (const tensor of what.tensors || []) marked.add(layering.ofTensor[tensor]);
      for (const op of what.ops || []) marked.add(layering.ofOp[op]);
      context.strokeStyle = colour("mark");
      context.lineWidth = line;
      for (const layer of marked) {
        const x = panel.left + layer * width;
        context.strokeRect(
          x,
          CHAIN_TOP - 4,
          Math.max(width, 2),
          panel.height - NAMES - CHAIN_TOP + 4,
        );
      }
    }
    // mark the layers that run in the visible range of time
    const busy = busyLayers();
    context.fillStyle = colour("mark");
    if (busy !== null) {
      const x = panel.left + busy[0] * width;
      context.fillRect(x, bottom, (busy[1] - busy[0] + 1) * width, 2);
    }
  }

  function busyLayers() {
    if (state.to - state.from >= state.whole * 0.999) return null;
    const { steps } = shown()[0].facts.plan;
    let low = Infinity, high = -1;
    for (let s = 0; s < steps.count && steps.reach[s] <= state.to; s++) {
      if (steps.kind[s] !== 0 || steps.end[s] < state.from) continue;
      const layer = layering.ofOp[steps.id[s]];
      low = Math.min(low, layer);
      high = Math.max(high, layer);
    }
    return high < 0 ? null : [low, high];
  }

  function pick(panel, x, _y) {
    const { width } = frame(panel);
    const layer = Math.floor((x - panel.left) / width);
    if (x < panel.left || layer < 0 || layer >= layers.length) return null;
    const { tensors, ops } = layers[layer];
    return { layer, ops, tensors, facts: shown()[0].facts, whole: true };
  }

  return { draw, mark, pick, height };
}
