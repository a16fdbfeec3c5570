// decode.js: decodes the data block into typed arrays. page_graph.c and page_plan.c write it. A
// column is base64 of integers with seven bits a byte, lowest first.

export const RUN = 0, FREE = 1, OFFLOAD = 2, FETCH = 3, WAIT = 4;
export const INPUT = 0, LABEL = 1, ACTIVATION = 4, INTERNAL = 5, GRADIENT = 6, LOSS = 7;
export const FORWARD = 0, BACKWARD = 1;
export const ROLES = [
  "input",
  "label",
  "parameter",
  "state",
  "activation",
  "internal",
  "gradient",
  "loss",
];
export const PHASES = ["forward", "backward", "update"];
const ALIGNMENT = 64;

function unsigned(text) {
  const bytes = atob(text);
  let count = 0;
  for (let i = 0; i < bytes.length; i++) count += bytes.charCodeAt(i) < 128 ? 1 : 0;
  const out = new Float64Array(count);
  let value = 0, scale = 1, at = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes.charCodeAt(i);
    value += (byte & 127) * scale;
    scale *= 128;
    if (byte < 128) {
      out[at++] = value;
      value = 0;
      scale = 1;
    }
  }
  return out;
}

function signed(text) {
  return unsigned(text).map((value) => value % 2 === 0 ? value / 2 : -(value + 1) / 2);
}

function sums(values) {
  for (let i = 1; i < values.length; i++) values[i] += values[i - 1];
  return values;
}

// Ids are stored plus one, with 0 for none. Decoded, none is -1.
function ids(text) {
  return Int32Array.from(unsigned(text), (value) => value - 1);
}

// Decode lists that follow each other, each after its length.
function lists(text, shift) {
  const values = unsigned(text);
  const out = [];
  for (let i = 0; i < values.length; i += values[i] + 1) {
    out.push(Array.from(values.subarray(i + 1, i + 1 + values[i]), (value) => value - shift));
  }
  return out;
}

export function aligned(bytes) {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

export function readData() {
  return JSON.parse(document.getElementById("data").textContent);
}

export function decodeGraph(raw) {
  const { tensors, ops } = raw;
  const graph = {
    tensorNames: tensors.names,
    role: Uint8Array.from(unsigned(tensors.role)),
    bytes: unsigned(tensors.bytes),
    producer: ids(tensors.producer),
    alias: ids(tensors.alias),
    stationary: Uint8Array.from(unsigned(tensors.stationary)),
    shapes: lists(tensors.shape, 0),
    opNames: ops.names,
    opKinds: ops.kinds,
    kind: Uint8Array.from(unsigned(ops.kind)),
    phase: Uint8Array.from(unsigned(ops.phase)),
    of: ids(ops.of),
    time: unsigned(ops.time),
    workspace: unsigned(ops.workspace),
    inputs: lists(ops.inputs, 1),
    outputs: lists(ops.outputs, 1),
  };
  graph.readers = graph.tensorNames.map(() => []);
  graph.inputs.forEach((inputs, op) => {
    for (const tensor of new Set(inputs)) graph.readers[tensor].push(op);
  });
  return graph;
}

// The times of every step: `start` and `end` on its own lane, which for a copy is a copy lane;
// `reach` and `leave` on the compute lane.
function decodeSteps(raw, graph) {
  const kind = Uint8Array.from(unsigned(raw.kind));
  const id = Int32Array.from(sums(signed(raw.id)));
  const starts = signed(raw.start), lengths = signed(raw.length);
  const count = kind.length;
  const steps = { count, kind, id };
  for (const key of ["start", "end", "reach", "leave"]) steps[key] = new Float64Array(count);
  let now = 0, end = 0;
  for (let i = 0; i < count; i++) {
    const start = now + starts[i];
    const length = lengths[i] + (kind[i] === RUN ? graph.time[id[i]] : 0);
    steps.start[i] = start;
    steps.end[i] = start + length;
    steps.reach[i] = now;
    if (kind[i] !== OFFLOAD && kind[i] !== FETCH) now = start + length;
    steps.leave[i] = now;
    end = Math.max(end, start + length);
  }
  if (end === 0) { // the costs have no times: every step counts as one
    for (let i = 0; i < count; i++) {
      steps.start[i] = steps.reach[i] = i;
      steps.end[i] = steps.leave[i] = i + 1;
    }
    end = count;
  }
  steps.total = end;
  return steps;
}

export function decodePlan(raw, graph) {
  const steps = decodeSteps(raw.steps, graph);
  const first = Int32Array.from(sums(signed(raw.lives.first)));
  const length = unsigned(raw.lives.length);
  const lives = {
    count: first.length,
    first,
    last: first.map((step, i) => step + length[i]),
    tensor: ids(raw.lives.tensor),
    bytes: unsigned(raw.lives.bytes).map((units) => units * ALIGNMENT),
    offset: unsigned(raw.lives.offset).map((units) => units * ALIGNMENT),
  };
  lives.from = Float64Array.from(lives.first, (step) => steps.count > 0 ? steps.reach[step] : 0);
  lives.to = Float64Array.from(lives.last, (step) => steps.count > 0 ? steps.leave[step] : 0);
  const tenants = {
    step: sums(unsigned(raw.tenants.step)),
    life: unsigned(raw.tenants.life),
    tensor: unsigned(raw.tenants.tensor),
  };
  return {
    steps,
    lives,
    tenants,
    measured: raw.measured === 1,
    predicted: raw.predicted,
    peak: raw.peak,
    peakStep: raw.peak_step,
    arena: raw.arena,
    host: raw.host,
    time: steps.total,
  };
}
