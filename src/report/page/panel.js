// panel.js: the texts of the page: the headline, the largest tensors of plain training, what holds
// the peak, and the details of what is selected.

import {
  aboveText,
  bytesText,
  changeText,
  countText,
  element,
  find,
  shareText,
  timeText,
} from "./format.js";
import { aligned, FETCH, OFFLOAD, PHASES, ROLES, RUN } from "./decode.js";
import {
  CLASSES,
  FATES,
  holdersAt,
  KEPT,
  layerFates,
  neediestOp,
  OFFLOADED,
  PASSING,
  RECOMPUTED,
  tensorAt,
} from "./facts.js";

const LISTED = 7;

export function swatch(key) {
  const hatched = key === "recomputed" ? " hatched" : "";
  return element("span", {
    class: "swatch" + hatched,
    style: { backgroundColor: `var(--${key})` },
  });
}

function chip(fate, text) {
  const { colour, label } = FATES[fate];
  return element("span", { class: "chip" }, swatch(colour), text || label);
}

export function shapeText(graph, tensor) {
  const shape = graph.shapes[tensor];
  return shape.length > 0 ? shape.join("\u00d7") : "";
}

// The fate of a tensor, in a few words.
export function fateText(graph, facts, tensor) {
  const fate = facts.fate[tensor];
  if (fate < 0) return ROLES[graph.role[tensor]];
  if (fate === RECOMPUTED) {
    const producer = graph.producer[tensor], times = facts.runs[producer] - 1;
    return `recomputed ${times}\u00d7, +${timeText(times * graph.time[producer])}`;
  }
  return FATES[fate].label;
}

export function stepText(graph, plan, step) {
  const { kind, id } = plan.steps;
  if (plan.steps.count === 0) return "";
  return kind[step] === RUN ? graph.opNames[id[step]] : graph.tensorNames[id[step]];
}

// ---- The head ----

// Sums over the tensors that the backward pass needs.
function fateSums(graph, facts) {
  const sums = FATES.map(() => ({ count: 0, bytes: 0 }));
  facts.fate.forEach((fate, tensor) => {
    if (fate < 0 || graph.alias[tensor] >= 0 || graph.producer[tensor] < 0) return;
    sums[fate].count++;
    sums[fate].bytes += aligned(graph.bytes[tensor]);
  });
  return sums;
}

function headline(fixed, facts, none) {
  const { plan } = facts;
  const here = plan.arena + fixed;
  if (none === null || none === facts) {
    return `A step by plain training needs ${bytesText(here)}.`;
  }
  const plain = none.plan.arena + fixed;
  const less = here < plain
    ? `One step fits in ${bytesText(here)} instead of ${bytesText(plain)}: ${
      shareText(plain - here, plain)
    } less memory`
    : `One step needs ${bytesText(here)}, as much as plain training`;
  // plain training was not measured, so there is nothing to compare a measured time with
  return less + (plan.measured ? "" : priceText(plan.time, none.plan.time)) + ".";
}

function priceText(time, plain) {
  const text = shareText(Math.abs(time - plain), plain);
  if (text === "0.0%" || text === "") return ", at no cost in time";
  return time > plain ? ` for ${text} more time` : `, in ${text} less time`;
}

function didText(graph, facts) {
  const sums = fateSums(graph, facts);
  const part = (fate, verb) =>
    sums[fate].count > 0
      ? `${verb} ${countText(sums[fate].count, "tensor", "tensors")} (${
        bytesText(sums[fate].bytes)
      })`
      : null;
  const parts = [
    part(KEPT, "keeps"),
    part(RECOMPUTED, "recomputes"),
    part(OFFLOADED, "offloads"),
  ].filter((text) => text !== null);
  if (parts.length === 0) return "";
  const last = parts.pop();
  const list = parts.length > 0 ? parts.join(", ") + " and " + last : last;
  return `Of the results that the backward pass reads again, this plan ${list}.`;
}

function tile(title, value, ...rest) {
  return element(
    "div",
    { class: "tile" },
    element("h2", {}, title),
    element("b", {}, value),
    ...rest,
  );
}

function note(text) {
  return element("span", {}, text);
}

function meter(most, bytes, mark) {
  const bar = element("div", { class: "meter" });
  const wide = (part) => (100 * Math.min(part / most, 1)).toFixed(2) + "%";
  bar.append(element("i", { style: { width: wide(bytes), background: "var(--activation)" } }));
  if (mark > 0) bar.append(element("u", { style: { left: `calc(${wide(mark)} - 2px)` } }));
  return bar;
}

// One total everywhere: the arena and the stationary memory, which is in every plan.
function memoryTile(data, entry, facts, none) {
  const { plan } = facts;
  const fixed = data.stationary;
  const budget = entry.budget > 0 ? entry.budget + fixed : 0;
  const plain = none === null ? 0 : none.plan.arena + fixed;
  const words = [];
  if (none !== null && none !== facts) words.push(`plain training ${bytesText(plain)}`);
  if (budget > 0) words.push(`budget ${bytesText(budget)}`);
  const parts = fixed > 0
    ? `arena ${bytesText(plan.arena)}, stationary ${bytesText(fixed)}`
    : `peak ${bytesText(plan.peak)}`;
  return tile(
    "Memory of a step",
    bytesText(plan.arena + fixed),
    meter(Math.max(plan.arena + fixed, budget, plain), plan.arena + fixed, budget),
    note(words.join(", ")),
    note(parts),
  );
}

function timeTile(data, facts, none) {
  const { plan } = facts;
  const words = [];
  if (plan.measured) words.push(`measured; predicted ${timeText(plan.predicted)}`);
  else if (data.machine !== "") words.push(`predicted for ${data.machine}`);
  if (none !== null && none !== facts && !plan.measured) {
    words.push(`plain ${timeText(none.plan.time)}`);
  }
  return tile("Time of a step", timeText(plan.time), note(words.join(", ")));
}

export function renderHead(page, entry, facts, none) {
  const { data, graph } = page;
  const { plan } = facts;
  const batch = data.batch > 0 ? `, batch ${data.batch}` : "";
  find("subtitle").textContent = `\u00b7 ${data.model}${batch} \u00b7 algorithm ${entry.algorithm}`;
  find("headline").textContent = headline(data.stationary, facts, none);
  find("did").textContent = didText(graph, facts);
  const tiles = [memoryTile(data, entry, facts, none), timeTile(data, facts, none)];
  tiles.push(tile(
    "Recomputed",
    countText(facts.reruns, "op", "ops"),
    note(facts.reruns > 0 ? `${timeText(facts.rerunTime)} of the step` : "nothing is run twice"),
  ));
  if (facts.outs > 0) {
    const waits = facts.wait > 0 ? `, ${timeText(facts.wait)} of waiting` : ", no waiting";
    tiles.push(tile("Offloaded", bytesText(facts.outBytes), note(`${facts.outs} copies${waits}`)));
  }
  if (entry.bound > 0) {
    const gap = plan.predicted - entry.bound;
    const text = `the bound of ${entry.algorithm} is ${timeText(entry.bound)}`;
    tiles.push(tile("From the bound", changeText(gap, entry.bound) || "0%", note(text)));
  }
  if (data.stationary > 0) {
    const text = data.whole
      ? "of the memory: parameters and optimiser that stay on the device"
      : "of the memory: parameters, gradients, optimiser; in every plan";
    tiles.push(tile("Stationary", bytesText(data.stationary), note(text)));
  }
  find("tiles").replaceChildren(...tiles);
}

// ---- The largest tensors ----

function holderRow({ page, facts, step, whole, choose, fates, wideTable }, life) {
  const { graph } = page;
  const tensor = tensorAt(facts.holders || facts, life, step);
  const { lives } = (facts.holders || facts).plan;
  const name = tensor < 0 ? "workspace" : graph.tensorNames[tensor];
  const share = (100 * lives.bytes[life]) / whole;
  const bar = element("div", { class: "meter" });
  bar.append(element("i", { style: { width: share + "%", background: "var(--peak)" } }));
  const row = element(
    "tr",
    { tabindex: 0 },
    element("td", { class: "name" }, name),
    wideTable
      ? element("td", { class: "shape" }, tensor < 0 ? "" : shapeText(graph, tensor))
      : null,
    element("td", { class: "number" }, bytesText(lives.bytes[life])),
    element("td", { class: "number percent" }, share.toFixed(1) + "%"),
    wideTable ? element("td", { class: "share" }, bar) : null,
  );
  if (fates) {
    const fate = tensor < 0 ? -1 : facts.fate[tensor];
    const text = tensor < 0 ? "workspace" : fateText(graph, facts, tensor);
    row.append(element("td", {}, fate < 0 ? text : chip(fate, text)));
  }
  const act = () => tensor >= 0 && choose(tensor);
  row.addEventListener("click", act);
  row.addEventListener("keydown", (event) => event.key === "Enter" && act());
  return row;
}

// `what` has page, facts, step, whole (bytes), choose, and, for the wide table at the top, fates.
function holderTable(what, holders) {
  const { facts, fates, wideTable } = what;
  const { lives } = (facts.holders || facts).plan;
  const table = element(
    "table",
    {},
    element(
      "tr",
      {},
      element("th", {}, "tensor"),
      wideTable ? element("th", { class: "shape" }, "shape") : null,
      element("th", { class: "number" }, "size"),
      element("th", { class: "number percent" }, "share"),
      wideTable ? element("th", { class: "share" }) : null,
      fates ? element("th", {}, "what Cairn did") : null,
    ),
  );
  const add = (from, to) => {
    for (const life of holders.slice(from, to)) {
      table.append(holderRow(what, life));
    }
  };
  add(0, LISTED);
  const rest = holders.length - LISTED;
  if (rest <= 0) return [table];
  const bytes = holders.slice(LISTED).reduce((sum, life) => sum + lives.bytes[life], 0);
  const more = element("button", { class: "link more" }, `and ${rest} more, ${bytesText(bytes)}`);
  more.addEventListener("click", () => {
    add(LISTED, LISTED + 500);
    more.remove();
  });
  return [table, more];
}

// The layers that hold memory at a step of `source`, largest first: tensors, bytes, and the bytes by
// what the plan of `facts` does with them.
function layerHolders(source, facts, step, holders) {
  const layers = new Map();
  for (const life of holders) {
    const layer = source.layer[life], tensor = tensorAt(source, life, step);
    if (!layers.has(layer)) {
      layers.set(layer, { layer, tensors: 0, bytes: 0, fates: FATES.map(() => 0) });
    }
    const sums = layers.get(layer), bytes = source.plan.lives.bytes[life];
    sums.tensors++;
    sums.bytes += bytes;
    if (tensor >= 0 && facts.fate[tensor] >= 0) sums.fates[facts.fate[tensor]] += bytes;
  }
  return [...layers.values()].sort((a, b) => b.bytes - a.bytes || a.layer - b.layer);
}

function layerRow(page, sums, whole, compares, choose) {
  const named = page.layering.layers[sums.layer];
  const bar = element("div", { class: "meter" });
  const share = (100 * sums.bytes) / whole;
  bar.append(element("i", { style: { width: share + "%", background: "var(--peak)" } }));
  const chips = FATES.map((fate, i) =>
    sums.fates[i] > 0 ? chip(i, `${fate.label} ${bytesText(sums.fates[i])}`) : null
  ).filter((made) => made !== null);
  const row = element(
    "tr",
    { tabindex: 0 },
    element("td", { class: "name" }, named === undefined ? "other" : named.name),
    element("td", { class: "shape" }, countText(sums.tensors, "tensor", "tensors")),
    element("td", { class: "number" }, bytesText(sums.bytes)),
    element("td", { class: "number percent" }, share.toFixed(1) + "%"),
    element("td", { class: "share" }, bar),
    compares ? element("td", {}, ...chips) : null,
  );
  const act = () => named !== undefined && choose(sums.layer);
  row.addEventListener("click", act);
  row.addEventListener("keydown", (event) => event.key === "Enter" && act());
  return row;
}

function layerTable(page, layers, whole, compares, choose) {
  const titles = element(
    "tr",
    {},
    element("th", {}, "layer"),
    element("th", { class: "shape" }, ""),
    element("th", { class: "number" }, "size"),
    element("th", { class: "number percent" }, "share"),
    element("th", { class: "share" }),
    compares ? element("th", {}, "what Cairn did") : null,
  );
  const rows = layers.slice(0, LISTED).map((sums) => layerRow(page, sums, whole, compares, choose));
  return element("table", {}, titles, ...rows);
}

// The largest layers at the peak of plain training, and what this plan does with their tensors.
export function renderBlame(page, facts, none, choose, chooseLayer) {
  const source = none || facts;
  const { plan } = source;
  const holders = holdersAt(source, plan.peakStep);
  const plain = source === facts ? "the peak" : "the peak of plain training";
  const text = ` ${bytesText(plan.peak)}, while ${stepText(page.graph, plan, plan.peakStep)} runs`;
  const what = {
    page,
    facts: { ...facts, holders: source },
    step: plan.peakStep,
    whole: plan.peak,
    choose,
    fates: source !== facts,
    wideTable: true,
  };
  const layers = layerHolders(source, facts, plan.peakStep, holders);
  find("blame").replaceChildren(
    element("h2", {}, `The largest layers at ${plain}`, element("span", {}, text)),
    layerTable(page, layers, plan.peak, source !== facts, chooseLayer),
    element(
      "details",
      { class: "table" },
      element("summary", {}, "tensor by tensor"),
      ...holderTable(what, holders),
    ),
  );
}

function classBar(facts, step) {
  const bar = element("div", { class: "bar" }), key = element("p", { class: "key" });
  CLASSES.forEach(({ key: name, label }, i) => {
    const bytes = facts.byClass.by[i][step];
    if (!(bytes > 0)) return;
    const share = (100 * bytes) / facts.total[step];
    bar.append(element("i", { style: { width: share + "%", background: `var(--${name})` } }));
    key.append(element("span", {}, swatch(name), `${label} ${bytesText(bytes)}`));
  });
  return [bar, key];
}

// The tensors at this plan's peak, and the op that sets the smallest budget.
export function peakDetails(page, entry, facts, choose) {
  const { plan } = facts;
  if (plan.steps.count === 0) return [];
  const step = plan.peakStep;
  const parts = [
    element("h2", {}, "At the peak of this plan"),
    element(
      "p",
      { class: "hint" },
      `${bytesText(plan.peak)} at step ${step} of ${plan.steps.count}, ` +
        `while ${stepText(page.graph, plan, step)} runs`,
    ),
    ...classBar(facts, step),
    ...holderTable({ page, facts, step, whole: plan.peak, choose }, holdersAt(facts, step)),
  ];
  const floor = [];
  if (entry.smallest > 0) {
    floor.push(
      `The smallest budget of ${entry.algorithm} is ` +
        `${aboveText(entry.smallest)}, set by ${entry.smallest_op}.`,
    );
  }
  const needy = neediestOp(page.graph);
  const fixed = page.data.whole ? 0 : page.data.stationary; // of a whole step it may be on the host
  if (needy.op >= 0) {
    floor.push(
      `No plan needs less than ${aboveText(needy.bytes + fixed)}: ` +
        `${page.graph.opNames[needy.op]} uses ${bytesText(needy.bytes)} at once.`,
    );
  }
  parts.push(element("p", { class: "hint", id: "floor" }, floor.join(" ")));
  return parts;
}

// ---- Two plans ----

export function renderDifference(page, one, two, choose) {
  const { graph } = page;
  const holder = find("difference");
  holder.hidden = two === null;
  if (two === null) return;
  const [a, b] = [one.facts.plan, two.facts.plan];
  const rows = [
    ["memory", a.arena, b.arena, bytesText],
    ["peak", a.peak, b.peak, bytesText],
    ["time of a step", a.time, b.time, timeText],
    ["recomputed ops", one.facts.reruns, two.facts.reruns, String],
    ["recomputing takes", one.facts.rerunTime, two.facts.rerunTime, timeText],
    ["offloaded", one.facts.outBytes, two.facts.outBytes, bytesText],
    ["waiting for copies", one.facts.wait, two.facts.wait, timeText],
  ];
  const table = element(
    "table",
    {},
    element(
      "tr",
      {},
      ...["", one.name, two.name, "difference"].map((text) => element("th", {}, text)),
    ),
  );
  for (const [name, x, y, text] of rows) {
    if (x === 0 && y === 0) continue;
    const change = y > 0 ? changeText(x - y, y) : "";
    const cells = [name, text(x), text(y), x === y ? "none" : change];
    table.append(element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
  }
  const differing = [];
  one.facts.fate.forEach((fate, tensor) => {
    if (fate >= 0 && fate !== two.facts.fate[tensor] && graph.alias[tensor] < 0) {
      differing.push(tensor);
    }
  });
  differing.sort((x, y) => graph.bytes[y] - graph.bytes[x] || x - y);
  const list = element("table", {});
  for (const tensor of differing.slice(0, 8)) {
    const row = element(
      "tr",
      { tabindex: 0, onclick: () => choose(tensor) },
      element("td", { class: "name" }, graph.tensorNames[tensor]),
      element("td", { class: "number" }, bytesText(graph.bytes[tensor])),
      element("td", {}, chip(one.facts.fate[tensor], fateText(graph, one.facts, tensor))),
      element("td", {}, chip(two.facts.fate[tensor], fateText(graph, two.facts, tensor))),
    );
    list.append(row);
  }
  const words = differing.length === 0
    ? "Every tensor has the same fate in both."
    : `${countText(differing.length, "tensor has", "tensors have")} another fate; the largest:`;
  holder.replaceChildren(
    element("h2", {}, `${one.name} against ${two.name}`),
    table,
    element("p", { class: "hint" }, words),
    list,
  );
}

// ---- Details ----

function pairs(list) {
  const out = element("dl", {});
  for (const [name, ...value] of list) {
    if (value.every((part) => part === "" || part === null)) continue;
    out.append(element("dt", {}, name), element("dd", {}, ...value));
  }
  return out;
}

function opLinks(page, ops, chooseOp) {
  return ops.slice(0, 12).flatMap((op, i) => [
    i > 0 ? ", " : "",
    element("button", { class: "link", onclick: () => chooseOp(op) }, page.graph.opNames[op]),
  ]).concat(ops.length > 12 ? [` and ${ops.length - 12} more`] : []);
}

function tensorLinks(page, tensors, choose) {
  return tensors.slice(0, 12).flatMap((tensor, i) => [
    i > 0 ? ", " : "",
    element(
      "button",
      { class: "link", onclick: () => choose(tensor) },
      page.graph.tensorNames[tensor],
    ),
    ` ${bytesText(page.graph.bytes[tensor])}`,
  ]).concat(tensors.length > 12 ? [` and ${tensors.length - 12} more`] : []);
}

// "0.00 ms to 12.3 ms (steps 0 to 99) at address 0", for each lifetime of the tensor.
function stayRows(facts, tensor) {
  const { lives } = facts.plan;
  return (facts.livesOf.get(tensor) || []).map((life, i) => [
    i === 0 ? "in memory" : "and again",
    `${timeText(lives.from[life])} to ${timeText(lives.to[life])}, ` +
    `steps ${lives.first[life]} to ${lives.last[life]}, at address ${
      lives.offset[life].toLocaleString("en")
    }`,
  ]);
}

function copyRows(facts, tensor) {
  const { steps } = facts.plan;
  const rows = [];
  for (let s = 0; s < steps.count; s++) {
    if (steps.id[s] !== tensor) continue;
    if (steps.kind[s] !== OFFLOAD && steps.kind[s] !== FETCH) continue;
    rows.push([
      steps.kind[s] === OFFLOAD ? "copied out" : "copied in",
      `${timeText(steps.start[s])} to ${timeText(steps.end[s])}`,
    ]);
  }
  return rows;
}

export function tensorDetails(page, facts, tensor, choose, chooseOp) {
  const { graph, layering } = page;
  const producer = graph.producer[tensor];
  const fate = facts.fate[tensor];
  const layer = layering.layers[layering.ofTensor[tensor]];
  const again = producer >= 0 ? facts.runs[producer] - 1 : 0;
  return [
    element("h2", {}, graph.tensorNames[tensor]),
    pairs([
      ["what", ROLES[graph.role[tensor]]],
      ["fate", fate >= 0 ? chip(fate, fateText(graph, facts, tensor)) : ""],
      ["shape", shapeText(graph, tensor)],
      [
        "size",
        `${bytesText(graph.bytes[tensor])}, ${graph.bytes[tensor].toLocaleString("en")} bytes`,
      ],
      ["layer", layer === undefined ? "" : layer.name],
      ...stayRows(facts, tensor),
      ...copyRows(facts, tensor),
      [
        "made by",
        ...(producer >= 0 ? opLinks(page, [producer], chooseOp) : ["it is there at the start"]),
      ],
      [
        "recomputed",
        again > 0 ? `${again}\u00d7, ${timeText(again * graph.time[producer])} in all` : "never",
      ],
      ["read by", ...opLinks(page, graph.readers[tensor], chooseOp)],
      [
        "shares with",
        ...(graph.alias[tensor] >= 0 ? tensorLinks(page, [graph.alias[tensor]], choose) : []),
      ],
    ]),
  ];
}

export function opDetails(page, facts, op, choose) {
  const { graph, layering } = page;
  const times = facts.runs[op];
  const { steps } = facts.plan;
  const when = [];
  for (let s = 0; s < steps.count && when.length < 6; s++) {
    if (steps.kind[s] === RUN && steps.id[s] === op) {
      when.push([
        when.length === 0 ? "runs" : "and again",
        `${timeText(steps.start[s])} to ${timeText(steps.end[s])}`,
      ]);
    }
  }
  const layer = layering.layers[layering.ofOp[op]];
  return [
    element("h2", {}, graph.opNames[op]),
    pairs([
      ["op", `${graph.opKinds[graph.kind[op]]}, ${PHASES[graph.phase[op]]}`],
      ["layer", layer === undefined ? "" : layer.name],
      ["time", timeText(graph.time[op])],
      [
        "run",
        countText(times, "time", "times") +
        (times > 1 ? `, ${timeText((times - 1) * graph.time[op])} more` : ""),
      ],
      ["workspace", graph.workspace[op] > 0 ? bytesText(graph.workspace[op]) : ""],
      ...when,
      ["reads", ...tensorLinks(page, graph.inputs[op], choose)],
      ["makes", ...tensorLinks(page, graph.outputs[op].filter((tensor) => tensor >= 0), choose)],
    ]),
  ];
}

export function layerDetails(page, facts, index, choose) {
  const { graph, layering } = page;
  const layer = layering.layers[index];
  const sums = layerFates(graph, facts, layer);
  const again = layer.ops.filter((op) => facts.runs[op] > 1);
  const cost = again.reduce((sum, op) => sum + (facts.runs[op] - 1) * graph.time[op], 0);
  const list = element("table", {});
  const tensors = layer.tensors.filter((tensor) =>
    graph.alias[tensor] < 0 && facts.fate[tensor] !== PASSING
  );
  for (const tensor of tensors.sort((a, b) => graph.bytes[b] - graph.bytes[a]).slice(0, 30)) {
    list.append(element(
      "tr",
      { tabindex: 0, onclick: () => choose(tensor) },
      element("td", { class: "name" }, graph.tensorNames[tensor]),
      element("td", { class: "number" }, bytesText(graph.bytes[tensor])),
      element("td", {}, chip(facts.fate[tensor], fateText(graph, facts, tensor))),
    ));
  }
  return [
    element("h2", {}, layer.name),
    pairs([
      ["forward ops", String(layer.ops.length)],
      ...FATES.map(({ label }, fate) => [label, sums[fate] > 0 ? bytesText(sums[fate]) : ""]),
      [
        "recomputing",
        again.length > 0 ? `${countText(again.length, "op", "ops")}, ${timeText(cost)}` : "",
      ],
    ]),
    list,
  ];
}

export function momentDetails(page, facts, step, choose) {
  const { plan } = facts;
  return [
    element("h2", {}, `Step ${step}: ${bytesText(facts.total[step])}`),
    pairs([
      ["time", timeText(plan.steps.reach[step])],
      ["runs", stepText(page.graph, plan, step)],
    ]),
    ...classBar(facts, step),
    ...holderTable({ page, facts, step, whole: facts.total[step], choose }, holdersAt(facts, step)),
  ];
}
