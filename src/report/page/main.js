// main.js: builds the page. It keeps which plan is shown and what is selected, and stores both in
// the address bar.

import { bytesText, changeText, countText, element, find, timeText } from "./format.js";
import { decodeGraph, decodePlan, FETCH, OFFLOAD, readData, RUN } from "./decode.js";
import { CLASSES, FATES, findFacts, findLayers, stepAt } from "./facts.js";
import {
  changed,
  depthColour,
  followPointers,
  pan,
  Panel,
  readColours,
  setRange,
  state,
  zoom,
} from "./view.js";
import { arenaView } from "./arena.js";
import { memoryView, stretchOf } from "./memory.js";
import { lanesView } from "./lanes.js";
import { chainView } from "./chain.js";
import { drawSweep } from "./sweep.js";
import { renderSweepTable, renderTables } from "./tables.js";
import {
  fateText,
  layerDetails,
  momentDetails,
  opDetails,
  peakDetails,
  renderBlame,
  renderDifference,
  renderHead,
  shapeText,
  stepText,
  swatch,
  tensorDetails,
} from "./panel.js";

const data = readData();
const graph = decodeGraph(data.graph);
const layering = findLayers(graph);
const page = { data, graph, layering };
const { entries } = data;
const plans = new Map(); // decoded plans, by their place in the data
const noneEntry = entries.findIndex((entry) => entry.algorithm === "none");
let shown = 0, against = -1;

function factsOf(entry) {
  const place = entries[entry].plan;
  if (!plans.has(place)) {
    plans.set(place, findFacts(graph, layering, decodePlan(data.plans[place], graph)));
  }
  return plans.get(place);
}

function none() {
  return noneEntry < 0 ? null : factsOf(noneEntry);
}

function labelOf(entry) {
  const { name, budget } = entries[entry];
  return budget > 0 ? `${name}, ${bytesText(budget + data.stationary)}` : name;
}

// ---- The views ----

function scales() {
  const facts = factsOf(shown), other = against < 0 ? null : factsOf(against), plain = none();
  const { budget } = entries[shown];
  const arenas = [facts.plan.arena, budget, other === null ? 0 : other.plan.arena];
  const peaks = [facts.plan.peak, budget, other === null ? 0 : other.plan.peak];
  if (plain !== null) peaks.push(plain.plan.peak);
  return {
    facts,
    other,
    none: plain,
    budget,
    peak: facts.plan.peak,
    most: 1.06 * Math.max(1, ...arenas),
    tallest: 1.08 * Math.max(1, ...peaks),
  };
}

function shownPlans() {
  if (against < 0) return [{ facts: factsOf(shown), name: "" }];
  return [shown, against].map((entry) => ({ facts: factsOf(entry), name: entries[entry].name }));
}

const lanes = lanesView(graph, shownPlans);
const chain = chainView(graph, layering, shownPlans);
const arenaHeight = (width) => (width < 600 ? 220 : against >= 0 ? 230 : 300);
const views = {
  memory: new Panel(find("memory"), {
    height: (width) => (width < 600 ? 170 : 210),
    ...memoryView(scales),
  }),
  arena: new Panel(find("arena"), { height: arenaHeight, ...arenaView(graph, layering, scales) }),
  arena2: new Panel(find("arena2"), {
    height: (width) => (against < 0 ? 0 : arenaHeight(width)),
    ...arenaView(graph, layering, () => {
      const facts = factsOf(against < 0 ? shown : against);
      const budget = against < 0 ? 0 : entries[against].budget;
      return { ...scales(), facts, budget, peak: facts.plan.peak };
    }),
  }),
  lanes: new Panel(find("lanes"), lanes),
  chain: new Panel(find("chain"), { ...chain, time: false }),
};

// ---- Drawing, once a frame, when something changed ----

const LEVELS = ["mark", "range", "all"];
let pending = -1; // the highest level that must be drawn
const frames = { count: 0, spent: 0 }; // for measuring how long drawing takes

function schedule(what) {
  if (pending < 0) requestAnimationFrame(paint);
  pending = Math.max(pending, LEVELS.indexOf(what));
}

function paint() {
  const start = performance.now(), level = LEVELS[pending];
  pending = -1;
  for (const panel of Object.values(views)) {
    if (level === "all" || (level === "range" && panel.time)) panel.render();
    else panel.renderMark();
  }
  if (level === "mark") return;
  clearTimeout(printing);
  printing = setTimeout(drawPaper, 400);
  frames.count++;
  frames.spent += performance.now() - start;
}

// Prepare the printed pictures, in the colours of a light page, when nothing changes any more.
let printing = 0;

function drawPaper() {
  const root = document.documentElement;
  root.classList.add("paper");
  readColours();
  for (const panel of Object.values(views)) panel.renderPaper();
  root.classList.remove("paper");
  readColours();
}

state.listeners.push((what) => {
  schedule(what);
  if (what !== "mark") remember();
});

// ---- Which plan ----

function fillChoice(select, first, chosen) {
  const options = first === null ? [] : [element("option", { value: -1 }, first)];
  entries.forEach((_, i) => options.push(element("option", { value: i }, labelOf(i))));
  select.replaceChildren(...options);
  select.value = String(chosen);
}

function showPlan(entry, other, range) {
  shown = entry;
  against = other === entry ? -1 : other;
  const facts = factsOf(shown);
  state.whole = Math.max(1e-9, facts.plan.time, against < 0 ? 0 : factsOf(against).plan.time);
  const plain = none();
  if (plain !== null) {
    state.whole = Math.max(state.whole, plain.plan.time * stretchOf(facts.plan));
  }
  [state.from, state.to] = range || [0, state.whole];
  find("plan").value = String(shown);
  find("against").value = String(against);
  find("arena-against").hidden = against < 0;
  if (against >= 0) find("against-name").textContent = labelOf(against);
  renderHead(page, entries[shown], facts, plain);
  renderBlame(page, facts, plain, chooseTensor, chooseLayer);
  renderTables(page, facts);
  const two = against < 0 ? null : { name: labelOf(against), facts: factsOf(against) };
  renderDifference(page, { name: labelOf(shown), facts }, two, chooseTensor);
  renderKey();
  renderSweep();
  renderDetails();
  changed("all");
}

function keyPart(key, label) {
  return element("span", {}, swatch(key), label);
}

function renderKey() {
  const facts = factsOf(shown), kinds = [], ops = [];
  const used = new Set(facts.classes);
  if (state.colour === "kind") {
    CLASSES.forEach(({ key, label }, i) => used.has(i) && kinds.push(keyPart(key, label)));
  } else {
    const names = layering.layers.map((layer) => layer.name);
    const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map(depthColour).join(", ");
    const ramp = { background: `linear-gradient(90deg, ${stops})` };
    const [first, last] = [names[0] || "", names[names.length - 1] || ""];
    kinds.push(element("span", {}, first, element("span", { class: "ramp", style: ramp }), last));
  }
  if (none() !== null && none() !== facts) {
    const how = facts.plan.measured ? ", predicted and stretched" : "";
    kinds.push(keyPart("none", "plain training" + how));
  }
  if (against >= 0) kinds.push(keyPart("text", labelOf(against)));
  ops.push(keyPart("forward", "forward"), keyPart("backward", "backward"));
  if (facts.reruns > 0) ops.push(keyPart("recomputed", "recomputed"));
  if (facts.wait > 0) ops.push(keyPart("wait", "waiting"));
  if (facts.outs > 0) ops.push(keyPart("fetched", "copies"));
  find("memory-key").replaceChildren(...kinds);
  find("lanes-key").replaceChildren(...ops);
  find("chain-key").replaceChildren(
    ...FATES.slice(0, 3).map(({ colour, label }) => keyPart(colour, label)),
  );
}

function renderSweep() {
  if (data.sweep !== 1 || noneEntry < 0) return;
  find("sweep").hidden = false;
  const figures = entries.map((entry) => {
    const plan = data.plans[entry.plan];
    return { arena: plan.arena, time: plan.predicted };
  });
  drawSweep(find("plot"), find("legend"), {
    entries,
    figures,
    none: figures[noneEntry],
    chosen: shown,
    choose: (entry) => showPlan(entry, against),
  });
  renderSweepTable(entries, figures, figures[noneEntry], data.stationary);
}

// ---- What is selected ----

function pinTensor(tensor) {
  const producer = graph.producer[tensor];
  return {
    name: "t:" + graph.tensorNames[tensor],
    tensors: [tensor],
    ops: (producer >= 0 ? [producer] : []).concat(graph.readers[tensor]),
  };
}

function chooseTensor(tensor) {
  choose({ ...pinTensor(tensor), kind: "tensor", id: tensor });
}

function chooseOp(op) {
  const tensors = graph.outputs[op].filter((tensor) => tensor >= 0);
  choose({ name: "o:" + graph.opNames[op], kind: "op", id: op, ops: [op], tensors });
}

function chooseLayer(layer) {
  const { ops, tensors } = layering.layers[layer];
  choose({ name: "l:" + layer, kind: "layer", id: layer, layer, ops, tensors });
}

function choose(what) {
  state.pinned = what;
  renderDetails();
  changed("mark");
  remember();
}

function renderDetails() {
  const facts = factsOf(shown), holder = find("details"), what = state.pinned;
  const parts = what === null
    ? peakDetails(page, entries[shown], facts, chooseTensor).concat(
      element(
        "p",
        { class: "hint" },
        "Point at anything to see what it is. Click on it to keep its details here.",
      ),
    )
    : what.kind === "tensor"
    ? tensorDetails(page, facts, what.id, chooseTensor, chooseOp)
    : what.kind === "op"
    ? opDetails(page, facts, what.id, chooseTensor)
    : what.kind === "layer"
    ? layerDetails(page, facts, what.id, chooseTensor)
    : momentDetails(page, facts, Math.min(what.id, facts.plan.steps.count - 1), chooseTensor);
  if (what !== null && what.kind === "tensor") {
    parts.push(element("button", { onclick: () => zoomTo(what.id) }, "Zoom to its lifetime"));
  }
  holder.replaceChildren(...parts);
}

function zoomTo(tensor) {
  const facts = factsOf(shown), { lives } = facts.plan;
  const stays = facts.livesOf.get(tensor) || [];
  if (stays.length === 0) return;
  const from = Math.min(...stays.map((life) => lives.from[life]));
  const to = Math.max(...stays.map((life) => lives.to[life]));
  setRange(from - (to - from) * 0.1, to + (to - from) * 0.1);
}

function zoomToPeak() {
  const { plan } = factsOf(shown);
  const middle = plan.steps.reach[plan.peakStep];
  setRange(middle - state.whole * 0.04, middle + state.whole * 0.04);
  choose({ name: "s:" + plan.peakStep, kind: "moment", id: plan.peakStep, tensors: [], ops: [] });
}

// ---- Pointing ----

function tipText(found) {
  const { facts } = found;
  const { steps } = facts.plan;
  if (found.whole) {
    const layer = layering.layers[found.layer];
    return `${layer.name}\n${countText(layer.ops.length, "forward op", "forward ops")}`;
  }
  if (found.run) {
    const op = found.ops[0];
    const again = facts.again[found.step] ? ", recomputed" : "";
    return `${graph.opNames[op]}\n${graph.opKinds[graph.kind[op]]}${again}, ` +
      `${timeText(steps.end[found.step] - steps.start[found.step])}`;
  }
  if (found.copy) {
    const words = { [OFFLOAD]: "copied out", [FETCH]: "copied in" }[steps.kind[found.step]] ||
      "waited for";
    return `${graph.tensorNames[found.tensors[0]]}\n${words}, ` +
      `${timeText(steps.end[found.step] - steps.start[found.step])}`;
  }
  if (found.life >= 0) return lifeText(found);
  if (found.step === undefined || steps.count === 0) return "";
  return `${timeText(found.time)}: ${bytesText(facts.total[found.step])}\n` +
    `${steps.kind[found.step] === RUN ? "runs " : ""}${stepText(graph, facts.plan, found.step)}` +
    (found.moment ? "\nclick to see what is in memory" : "\nfree here");
}

function lifeText(found) {
  const { facts, life } = found;
  const { lives, steps } = facts.plan;
  const tensor = found.tensors.length > 0 ? found.tensors[0] : -1;
  const stay = `${timeText(lives.from[life])} to ${timeText(lives.to[life])}`;
  if (tensor < 0) {
    const op = graph.opNames[steps.id[lives.first[life]]];
    return `workspace of ${op}\n${bytesText(lives.bytes[life])}\n${stay}`;
  }
  const label = CLASSES[facts.classes[life]].label;
  return `${graph.tensorNames[tensor]}\n${bytesText(lives.bytes[life])}, ${label}` +
    `\n${shapeText(graph, tensor)}\n${stay}\n${fateText(graph, facts, tensor)}`;
}

function onHover(panel, x, y, event) {
  const tip = find("tip");
  const found = panel === null ? null : panel.pick(panel, x, y);
  const text = found === null ? "" : tipText(found);
  tip.hidden = text === "";
  if (text !== "") {
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 16 + box.width > innerWidth
      ? event.clientX - box.width - 12
      : event.clientX + 16;
    const top = Math.min(event.clientY + 14, innerHeight - box.height - 6);
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
  }
  if (found !== null && found.tensors.length === 1 && !found.run && !found.whole) {
    found.ops = pinTensor(found.tensors[0]).ops;
  }
  state.hover = found;
  changed("mark");
}

function onChoose(panel, x, y, event) {
  if (event.pointerType !== "mouse") onHover(panel, x, y, event);
  const found = panel.pick(panel, x, y);
  if (found === null) return choose(null);
  if (found.whole) chooseLayer(found.layer);
  else if (found.run) chooseOp(found.ops[0]);
  else if (found.tensors.length > 0) chooseTensor(found.tensors[0]);
  else if (found.life >= 0) {
    chooseOp(found.facts.plan.steps.id[found.facts.plan.lives.first[found.life]]);
  } else if (found.step !== undefined) {
    choose({ name: "s:" + found.step, kind: "moment", id: found.step, tensors: [], ops: [] });
  }
}

// ---- Searching ----

function search(query) {
  const wanted = query.trim().toLowerCase();
  state.query = query;
  const tensors = [], ops = [];
  if (wanted !== "") {
    graph.tensorNames.forEach((name, i) => name.toLowerCase().includes(wanted) && tensors.push(i));
    graph.opNames.forEach((name, i) => name.toLowerCase().includes(wanted) && ops.push(i));
  }
  state.matches = wanted === "" ? null : new Set(tensors);
  find("found").textContent = wanted === "" ? "" : String(tensors.length + ops.length);
  const list = find("results");
  const links = tensors.filter((tensor) => !graph.stationary[tensor]).slice(0, 20).map((tensor) =>
    element(
      "button",
      { class: "link", onclick: () => accept(() => chooseTensor(tensor)) },
      graph.tensorNames[tensor] + "  " + bytesText(graph.bytes[tensor]),
    )
  ).concat(
    ops.slice(0, 10).map((op) =>
      element("button", {
        class: "link",
        onclick: () => accept(() => chooseOp(op)),
      }, "op " + graph.opNames[op])
    ),
  );
  list.replaceChildren(...links);
  list.hidden = links.length === 0;
  changed("all");
}

function accept(act) {
  find("results").hidden = true;
  act();
}

// ---- The address bar ----

let remembering = 0;

function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    const words = new URLSearchParams();
    if (shown !== startPlan()) words.set("plan", String(shown));
    if (against !== startAgainst()) words.set("against", String(against));
    if (state.colour !== "kind") words.set("colour", state.colour);
    if (state.to - state.from < state.whole) {
      words.set("time", `${Math.round(state.from)}-${Math.round(state.to)}`);
    }
    if (state.query !== "") words.set("search", state.query);
    if (state.pinned !== null) words.set("at", state.pinned.name);
    const wanted = "#" + words.toString();
    if (wanted !== location.hash && !(wanted === "#" && location.hash === "")) {
      history.replaceState(null, "", wanted);
    }
  }, 150);
}

function pinnedBy(name) {
  if (!name) return null;
  const [kind, rest] = [name[0], name.slice(2)];
  const tensor = graph.tensorNames.indexOf(rest), op = graph.opNames.indexOf(rest);
  if (kind === "t" && tensor >= 0) return { ...pinTensor(tensor), kind: "tensor", id: tensor };
  if (kind === "o" && op >= 0) {
    const tensors = graph.outputs[op].filter((made) => made >= 0);
    return { name, kind: "op", id: op, ops: [op], tensors };
  }
  const number = Number(rest);
  if (kind === "l" && layering.layers[number] !== undefined) {
    const { ops, tensors } = layering.layers[number];
    return { name, kind: "layer", id: number, layer: number, ops, tensors };
  }
  if (kind === "s" && number >= 0) {
    return { name, kind: "moment", id: number, tensors: [], ops: [] };
  }
  return null;
}

function restore() {
  const words = new URLSearchParams(location.hash.slice(1));
  const place = (key, fallback) => {
    const number = Number(words.get(key) === null ? fallback : words.get(key));
    return Number.isInteger(number) && number < entries.length ? number : fallback;
  };
  state.colour = words.get("colour") === "layer" ? "layer" : "kind";
  find("colour").value = state.colour;
  state.pinned = pinnedBy(words.get("at"));
  const [from, to] = (words.get("time") || "").split("-").map(Number);
  showPlan(Math.max(0, place("plan", startPlan())), place("against", startAgainst()));
  if (to > from && from >= 0) setRange(from, to);
  const query = words.get("search") || "";
  find("search").value = query;
  if (query !== state.query) search(query);
  find("results").hidden = true;
}

// A sweep first shows the fastest plan that needs about half of the memory of plain training.
function startPlan() {
  if (data.sweep !== 1 || noneEntry < 0) return 0;
  const figure = (entry) => data.plans[entries[entry].plan];
  const small = entries.map((_, i) => i).filter((i) =>
    figure(i).arena <= 0.55 * figure(noneEntry).arena
  );
  return small.reduce((a, b) => (figure(b).predicted < figure(a).predicted ? b : a), small[0] || 0);
}

// A page of a plan against another one first shows the comparison.
function startAgainst() {
  return entries.findIndex((entry, i) => i > 0 && entry.against === 1);
}

// ---- Starting ----

function listen() {
  for (const panel of Object.values(views)) followPointers(panel, { onHover, onChoose });
  find("plan").addEventListener("change", () => showPlan(Number(find("plan").value), against));
  find("against").addEventListener("change", () => {
    showPlan(shown, Number(find("against").value));
  });
  find("colour").addEventListener("change", () => {
    state.colour = find("colour").value;
    renderKey();
    changed("all");
  });
  find("search").addEventListener("input", () => search(find("search").value));
  find("search").addEventListener("keydown", (event) => {
    const first = find("results").firstElementChild;
    if (event.key === "Enter" && first !== null) first.click();
  });
  document.addEventListener("click", (event) => {
    if (!find("search").parentElement.contains(event.target)) find("results").hidden = true;
  });
  find("zoom-in").addEventListener("click", () => zoom(0.6));
  find("zoom-out").addEventListener("click", () => zoom(1 / 0.6));
  find("zoom-all").addEventListener("click", () => setRange(0, state.whole));
  find("to-peak").addEventListener("click", zoomToPeak);
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", restore);
  new ResizeObserver(() => changed("all")).observe(find("memory"));
  let width = find("plot").clientWidth;
  new ResizeObserver(() => {
    if (width === find("plot").clientWidth) return;
    width = find("plot").clientWidth;
    renderSweep();
  }).observe(find("plot"));
  const repaint = () => {
    readColours();
    renderKey();
    changed("all");
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
}

function onKey(event) {
  if (event.target.closest("input, select, textarea") !== null) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    "+": () => zoom(0.6),
    "=": () => zoom(0.6),
    "-": () => zoom(1 / 0.6),
    "0": () => setRange(0, state.whole),
    "Home": () => setRange(0, state.whole),
    "ArrowLeft": () => pan(-0.2),
    "ArrowRight": () => pan(0.2),
    "p": zoomToPeak,
    "/": () => find("search").focus(),
    "Escape": () => {
      find("search").value = "";
      state.hover = null;
      find("tip").hidden = true;
      search("");
      choose(null);
    },
  };
  if (keys[event.key] === undefined) return;
  event.preventDefault();
  keys[event.key]();
}

function start() {
  readColours();
  fillChoice(find("plan"), null, 0);
  fillChoice(find("against"), "nothing", -1);
  find("plan-choice").hidden = entries.length < 2;
  const ops = countText(graph.opNames.length, "op", "ops");
  find("origin").textContent = `${data.model}: ${ops}, ${
    countText(graph.tensorNames.length, "tensor", "tensors")
  }. Made by Cairn; this file needs nothing else.`;
  listen();
  restore();
}

start();

// For tests, and for use in the console of the browser.
globalThis.cairn = {
  data,
  graph,
  state,
  views,
  frames,
  facts: () => factsOf(shown),
  chooseTensor,
  stepAt,
  changeText,
  setRange,
  zoom,
};
