// facts.js: computes from a graph and a plan: layers, the class of each rectangle, the fate of each
// tensor, and the memory at every step.

import {
  ACTIVATION,
  aligned,
  BACKWARD,
  FETCH,
  FORWARD,
  GRADIENT,
  INPUT,
  INTERNAL,
  LABEL,
  LOSS,
  OFFLOAD,
  RUN,
  WAIT,
} from "./decode.js";

// The classes of rectangles. The colour of a class is --KEY of the style sheet.
export const CLASSES = [
  { key: "activation", label: "activation" },
  { key: "recomputed", label: "activation, recomputed" },
  { key: "fetched", label: "brought back from the host" },
  { key: "gradient", label: "gradient" },
  { key: "internal", label: "internal" },
  { key: "workspace", label: "workspace" },
  { key: "input", label: "input or label" },
];
const CLASS = Object.fromEntries(CLASSES.map((entry, i) => [entry.key, i]));

// The fates: what a plan does with a result of the forward pass.
export const FATES = [
  { key: "kept", label: "kept", colour: "activation" },
  { key: "recomputed", label: "recomputed", colour: "recomputed" },
  { key: "offloaded", label: "offloaded", colour: "fetched" },
  { key: "passing", label: "not needed again", colour: "input" },
];
export const KEPT = 0, RECOMPUTED = 1, OFFLOADED = 2, PASSING = 3;

export const BANDS = 12; // groups of layers in the stacked areas

// ---- Layers ----

function prefixOf(name, depth) {
  return name.split(".").slice(0, depth).join(".");
}

function groupsAt(names, depth) {
  let count = 0, last = null;
  for (const name of names) {
    const prefix = prefixOf(name, depth);
    if (prefix !== last) count++;
    last = prefix;
  }
  return count;
}

// Neighbouring forward ops whose names have the same prefix are a layer. The length of the prefix
// is such that there are at most 128 layers, or longer if there would be very few.
function depthOfLayers(names) {
  const deepest = Math.max(1, ...names.map((name) => name.split(".").length));
  let depth = 1;
  while (depth < deepest && groupsAt(names, depth + 1) <= 128) depth++;
  return groupsAt(names, depth) < 8 ? Math.min(depth + 1, deepest) : depth;
}

export function findLayers(graph) {
  const forward = [];
  graph.phase.forEach((phase, op) => phase === FORWARD && forward.push(op));
  const depth = depthOfLayers(forward.map((op) => graph.opNames[op]));
  const layers = [];
  const ofOp = new Int32Array(graph.opNames.length).fill(-1);
  for (const op of forward) {
    const name = prefixOf(graph.opNames[op], depth);
    if (layers.length === 0 || layers[layers.length - 1].name !== name) {
      layers.push({ name, ops: [], tensors: [] });
    }
    layers[layers.length - 1].ops.push(op);
    ofOp[op] = layers.length - 1;
  }
  let last = Math.max(0, layers.length - 1);
  graph.phase.forEach((phase, op) => {
    if (phase === FORWARD) return;
    if (graph.of[op] >= 0 && ofOp[graph.of[op]] >= 0) last = ofOp[graph.of[op]];
    ofOp[op] = last; // a sum of gradients belongs to the op before it
  });
  const ofTensor = Int32Array.from(graph.producer, (op, tensor) => {
    if (op >= 0) return ofOp[op];
    const reader = graph.readers[tensor][0];
    return reader === undefined ? 0 : ofOp[reader];
  });
  graph.producer.forEach((op, tensor) => {
    if (op >= 0 && graph.phase[op] === FORWARD) layers[ofOp[op]].tensors.push(tensor);
  });
  return { layers, ofOp, ofTensor };
}

// The op that needs most memory at once: its operands, results and workspace. No plan can need
// less.
export function neediestOp(graph) {
  let best = { op: -1, bytes: 0 };
  for (let op = 0; op < graph.opNames.length; op++) {
    const storages = new Set();
    for (const tensor of graph.inputs[op]) storages.add(storageOf(graph, tensor));
    let bytes = aligned(graph.workspace[op]);
    for (const tensor of storages) {
      if (!graph.stationary[tensor]) bytes += aligned(graph.bytes[tensor]);
    }
    if (bytes > best.bytes) best = { op, bytes };
  }
  return best;
}

export function storageOf(graph, tensor) {
  return graph.alias[tensor] >= 0 ? graph.alias[tensor] : tensor;
}

// ---- A plan ----

function classOf(graph, plan, again, life) {
  const tensor = plan.lives.tensor[life], step = plan.lives.first[life];
  if (tensor < 0) return CLASS.workspace;
  const role = graph.role[tensor];
  if (role === GRADIENT) return CLASS.gradient;
  if (role === INTERNAL) return CLASS.internal;
  const fetched = plan.steps.kind[step] === FETCH && plan.steps.id[step] === tensor;
  if (fetched) return CLASS.fetched;
  if (role === INPUT || role === LABEL) return CLASS.input;
  return plan.steps.kind[step] === RUN && again[step] ? CLASS.recomputed : CLASS.activation;
}

// Whether the backward pass reads the storage of a tensor, through the tensor or an alias.
function findNeeded(graph) {
  const needed = new Uint8Array(graph.role.length);
  graph.inputs.forEach((inputs, op) => {
    if (graph.phase[op] !== BACKWARD) return;
    for (const tensor of inputs) needed[tensor] = needed[storageOf(graph, tensor)] = 1;
  });
  return needed;
}

// The fate of each forward result and input; -1 for other tensors.
function findFates(graph, runs, offloaded) {
  const needed = findNeeded(graph);
  return Int8Array.from(graph.role, (role, tensor) => {
    const producer = graph.producer[tensor];
    if (offloaded[tensor]) return OFFLOADED;
    if (role === INPUT || role === LABEL) return KEPT;
    const made = role === ACTIVATION || role === INTERNAL || role === LOSS;
    if (!made || producer < 0) return -1;
    if (!needed[tensor]) return PASSING;
    return runs[producer] > 1 ? RECOMPUTED : KEPT;
  });
}

// The bytes of every group at every step, and their sum.
function memoryBy(plan, groups, groupOf) {
  const count = plan.steps.count;
  const by = Array.from({ length: groups }, () => new Float64Array(count + 1));
  const { lives } = plan;
  for (let i = 0; i < lives.count; i++) {
    const column = by[groupOf(i)];
    column[lives.first[i]] += lives.bytes[i];
    column[lives.last[i] + 1] -= lives.bytes[i];
  }
  const total = new Float64Array(count);
  for (const column of by) {
    for (let s = 1; s < count; s++) column[s] += column[s - 1];
    for (let s = 0; s < count; s++) total[s] += column[s];
  }
  return { by, total };
}

// How often each op runs, and what is copied. `again` says whether a step recomputes.
function countSteps(graph, { steps }) {
  const runs = new Int32Array(graph.opNames.length);
  const offloaded = new Uint8Array(graph.tensorNames.length);
  const again = new Uint8Array(steps.count);
  let reruns = 0, rerunTime = 0, wait = 0, outs = 0, outBytes = 0, ins = 0;
  for (let s = 0; s < steps.count; s++) {
    const id = steps.id[s], length = steps.end[s] - steps.start[s];
    if (steps.kind[s] === RUN && runs[id]++ > 0) {
      again[s] = 1;
      reruns++;
      rerunTime += length;
    } else if (steps.kind[s] === WAIT) {
      wait += length;
    } else if (steps.kind[s] === OFFLOAD) {
      offloaded[id] = 1;
      outs++;
      outBytes += aligned(graph.bytes[id]);
    } else if (steps.kind[s] === FETCH) {
      ins++;
    }
  }
  return { runs, offloaded, again, reruns, rerunTime, wait, outs, outBytes, ins };
}

// `livesOf`: the lifetimes of a tensor, in order. `tenantsOf`: the later tensors of a lifetime,
// each with the step at which it begins.
function findStays({ lives, tenants }) {
  const livesOf = new Map(), tenantsOf = new Map();
  const join = (map, key, value) => {
    if (!map.has(key)) map.set(key, []);
    map.get(key).push(value);
  };
  for (let i = 0; i < lives.count; i++) {
    if (lives.tensor[i] >= 0) join(livesOf, lives.tensor[i], i);
  }
  for (let i = 0; i < tenants.life.length; i++) {
    const tensor = tenants.tensor[i], life = tenants.life[i];
    join(tenantsOf, life, { tensor, step: tenants.step[i] });
    join(livesOf, tensor, life);
  }
  return { livesOf, tenantsOf };
}

export function findFacts(graph, layering, plan) {
  const { steps, lives } = plan;
  const counts = countSteps(graph, plan);
  const classes = Uint8Array.from(
    lives.tensor,
    (_, life) => classOf(graph, plan, counts.again, life),
  );
  const layer = Int32Array.from(
    lives.tensor,
    (tensor, life) =>
      tensor >= 0 ? layering.ofTensor[tensor] : layering.ofOp[steps.id[lives.first[life]]],
  );
  const depth = Math.max(1, layering.layers.length);
  const byClass = memoryBy(plan, CLASSES.length, (life) => classes[life]);
  return {
    plan,
    ...counts,
    ...findStays(plan),
    fate: findFates(graph, counts.runs, counts.offloaded),
    classes,
    layer,
    byClass,
    byLayer: memoryBy(plan, BANDS, (life) => Math.floor((layer[life] * BANDS) / depth)),
    total: byClass.total,
  };
}

// The lifetimes that are in memory at a step, largest first.
export function holdersAt(facts, step) {
  const { lives } = facts.plan;
  const found = [];
  for (let i = 0; i < lives.count && lives.first[i] <= step; i++) {
    if (lives.last[i] >= step) found.push(i);
  }
  return found.sort((a, b) => lives.bytes[b] - lives.bytes[a] || a - b);
}

// The tensor that a lifetime holds at a step: the last one that took over the storage.
export function tensorAt(facts, life, step) {
  let tensor = facts.plan.lives.tensor[life];
  for (const tenant of facts.tenantsOf.get(life) || []) {
    if (tenant.step <= step) tensor = tenant.tensor;
  }
  return tensor;
}

// The tensor that is in a lifetime for the longest time. The lifetime is named after it.
export function longestTenant(facts, life) {
  const { lives, steps } = facts.plan;
  let best = lives.tensor[life], longest = -1;
  let tensor = best, from = lives.from[life];
  for (const tenant of [...facts.tenantsOf.get(life) || [], null]) {
    const to = tenant === null ? lives.to[life] : steps.reach[tenant.step];
    if (to - from > longest) [best, longest] = [tensor, to - from];
    if (tenant !== null) [tensor, from] = [tenant.tensor, to];
  }
  return best;
}

// The last step that the compute lane has reached at a time.
export function stepAt(steps, time) {
  let low = 0, high = steps.count - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (steps.reach[middle] <= time) low = middle;
    else high = middle - 1;
  }
  // of steps that begin together, take the one that takes time
  while (low > 0 && steps.leave[low] <= time && steps.reach[low] === steps.reach[low - 1]) low--;
  return low;
}

// Bytes by fate of a layer's results. Aliases share storage and are counted with their root.
export function layerFates(graph, facts, layer) {
  const sums = [0, 0, 0, 0];
  for (const tensor of layer.tensors) {
    if (graph.alias[tensor] >= 0 || graph.stationary[tensor]) continue;
    if (facts.fate[tensor] >= 0) sums[facts.fate[tensor]] += aligned(graph.bytes[tensor]);
  }
  return sums;
}
