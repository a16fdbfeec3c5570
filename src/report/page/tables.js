// tables.js: every chart as a table, for readers who do not see it, or want the figures.

import { bytesText, changeText, element, find, timeText } from "./format.js";
import { FETCH, OFFLOAD, RUN, WAIT } from "./decode.js";
import { FATES, layerFates, tensorAt } from "./facts.js";

const ROWS = 20; // of the charts that have thousands of marks: the largest, or evenly spaced

function table(caption, heads, rows) {
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map((row) =>
    element("tr", {}, ...row.map((text) => element("td", {}, String(text))))
  );
  return element("table", {}, element("caption", {}, caption), head, ...body);
}

function place(id, caption, heads, rows) {
  find(id).replaceChildren(
    element("summary", {}, "as a table"),
    table(caption, heads, rows),
  );
}

function memoryRows(facts) {
  const { steps } = facts.plan;
  const rows = [];
  for (let k = 0; k < ROWS && steps.count > 0; k++) {
    const step = Math.round((k * (steps.count - 1)) / (ROWS - 1));
    rows.push([timeText(steps.reach[step]), step, bytesText(facts.total[step])]);
  }
  return rows;
}

function arenaRows(graph, facts) {
  const { lives } = facts.plan;
  const order = [...lives.bytes.keys()].sort((a, b) => lives.bytes[b] - lives.bytes[a] || a - b);
  return order.slice(0, ROWS).map((life) => {
    const tensor = tensorAt(facts, life, lives.first[life]);
    return [
      tensor < 0 ? "workspace" : graph.tensorNames[tensor],
      bytesText(lives.bytes[life]),
      bytesText(lives.offset[life]),
      timeText(lives.from[life]),
      timeText(lives.to[life]),
    ];
  });
}

const LANES = new Map([[RUN, "compute"], [WAIT, "compute: waits"], [OFFLOAD, "copies out"], [
  FETCH,
  "copies in",
]]);

function laneRows(graph, facts) {
  const { steps } = facts.plan;
  const length = (step) => steps.end[step] - steps.start[step];
  const order = [...steps.kind.keys()].filter((step) => LANES.has(steps.kind[step]))
    .sort((a, b) => length(b) - length(a) || a - b);
  return order.slice(0, ROWS).map((step) => [
    LANES.get(steps.kind[step]),
    steps.kind[step] === RUN ? graph.opNames[steps.id[step]] : graph.tensorNames[steps.id[step]],
    timeText(steps.start[step]),
    timeText(length(step)),
    facts.again[step] ? "yes" : "",
  ]);
}

function layerRows(page, facts) {
  return page.layering.layers.map((layer) => [
    layer.name,
    ...layerFates(page.graph, facts, layer).slice(0, 3).map(bytesText),
  ]);
}

export function renderTables(page, facts) {
  const { graph } = page;
  place("memory-table", "Memory over time", ["time", "step", "memory"], memoryRows(facts));
  place(
    "arena-table",
    "The largest rectangles of the arena map",
    ["tensor", "size", "address", "from", "to"],
    arenaRows(graph, facts),
  );
  place(
    "lanes-table",
    "The longest steps of the lanes",
    ["lane", "op or tensor", "begins", "takes", "recomputed"],
    laneRows(graph, facts),
  );
  place(
    "chain-table",
    "Bytes that the backward pass reads again, by layer",
    ["layer", ...FATES.slice(0, 3).map((fate) => fate.label)],
    layerRows(page, facts),
  );
}

export function renderSweepTable(entries, figures, none, fixed) {
  place(
    "sweep-table",
    "Memory against time",
    ["plan", "budget", "memory", "time", "over plain training"],
    entries.map((entry, i) => [
      entry.name,
      entry.budget > 0 ? bytesText(entry.budget + fixed) : "",
      bytesText(figures[i].arena + fixed),
      timeText(figures[i].time),
      changeText(figures[i].time - none.time, none.time),
    ]),
  );
}
