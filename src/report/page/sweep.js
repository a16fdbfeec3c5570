// sweep.js: memory against time, with a point for every plan. It is an SVG, so that text can be
// selected and printed. Where a bound is known, the area that no plan can reach is shaded.

import { bytesText, changeText, element, timeText } from "./format.js";

// In pixels. The plot is drawn as wide as there is room, so that its text has the same size on a
// phone.
const MOST_WIDTH = 760, LEAST_WIDTH = 300, TICK_WIDTH = 60;
const PLOT_HEIGHT = 380, PLOT_LEFT = 62, PLOT_TOP = 12, PLOT_BOTTOM = 46;
const SERIES = ["activation", "gradient", "fetched", "workspace", "internal", "recomputed", "text"];
const SHAPES = ["circle", "square", "up", "diamond", "down", "cross"];
const MOST_LONGER = 1; // time over plain training, 1 is twice its time; slower plans have a strip
const STRIP = 34; // pixels, above the plot, where there are slower plans

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function shape(kind, x, y, size) {
  const at = (list) =>
    "M" + list.map(([a, b]) => `${x + a * size},${y + b * size}`).join("L") + "Z";
  switch (kind) {
    case "square":
      return at([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]);
    case "up":
      return at([[0, -1.2], [1.1, 0.9], [-1.1, 0.9]]);
    case "down":
      return at([[0, 1.2], [1.1, -0.9], [-1.1, -0.9]]);
    case "diamond":
      return at([[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]);
    case "cross":
      return at([
        [-0.4, -1.2],
        [0.4, -1.2],
        [0.4, -0.4],
        [1.2, -0.4],
        [1.2, 0.4],
        [0.4, 0.4],
        [0.4, 1.2],
        [-0.4, 1.2],
        [-0.4, 0.4],
        [-1.2, 0.4],
        [-1.2, -0.4],
        [-0.4, -0.4],
      ]);
    default:
      return `M${x - size},${y}a${size},${size} 0 1,0 ${2 * size},0a${size},${size} 0 1,0 ${
        -2 * size
      },0Z`;
  }
}

// Entries with the same name are a series. Series with equal points are merged and get all their
// names.
function findSeries(entries, figures) {
  const byName = new Map();
  entries.forEach((entry, i) => {
    if (!byName.has(entry.name)) byName.set(entry.name, []);
    byName.get(entry.name).push(i);
  });
  const series = new Map();
  for (const [name, members] of byName) {
    const same = members.map((i) => figures[i].arena + ":" + figures[i].time).join(" ");
    if (series.has(same)) series.get(same).names.push(name);
    else series.set(same, { names: [name], members });
  }
  return [...series.values()];
}

function roundTick(most, count) {
  const power = 10 ** Math.floor(Math.log10(most / count));
  return [1, 2, 5, 10].map((step) => step * power).find((tick) => most / tick <= count);
}

// The corners of the area that cannot be reached: within `memory` no plan takes less than `time`.
function boundCorners(entries, none) {
  const known = entries.filter((entry) => entry.bound > 0 && entry.budget > 0)
    .map((entry) => ({
      memory: entry.budget / none.arena,
      time: entry.bound / none.time,
      name: entry.algorithm,
    }))
    .sort((a, b) => b.memory - a.memory);
  const corners = [];
  let time = 0;
  for (const corner of known) {
    if (corner.time <= time) continue;
    time = corner.time;
    corners.push(corner);
  }
  return corners;
}

// `figures` has the arena and the time of every entry; `choose(i)` shows an entry.
export function drawSweep(plot, legend, { entries, figures, none, chosen, choose }) {
  const width = Math.min(MOST_WIDTH, Math.max(LEAST_WIDTH, plot.clientWidth || MOST_WIDTH));
  const x = (share) => PLOT_LEFT + (share / mostMemory) * (width - PLOT_LEFT - 14);
  const longer = (i) => Math.min(figures[i].time / none.time - 1, MOST_LONGER);
  const slow = entries.some((_, i) => longer(i) >= MOST_LONGER);
  const top = PLOT_TOP + (slow ? STRIP : 0);
  const y = (longer) =>
    PLOT_HEIGHT - PLOT_BOTTOM -
    (Math.max(longer, 0) / mostTime) * (PLOT_HEIGHT - PLOT_BOTTOM - top);
  const height = (i) => longer(i) < MOST_LONGER ? y(longer(i)) : PLOT_TOP + STRIP / 2 - 4;
  const mostMemory = 1.05 * Math.max(...figures.map((figure) => figure.arena / none.arena));
  const shares = entries.map((_, i) => longer(i)).filter((share) => share < MOST_LONGER);
  const mostTime = 1.08 * Math.max(0.02, ...shares);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${PLOT_HEIGHT}`,
    role: "img",
    "aria-label": "Memory against time",
  });
  drawFrame(picture, width, x, y, mostMemory, mostTime);
  if (slow) drawStrip(picture, x, mostMemory);
  drawBound(picture, boundCorners(entries, none), x, y, mostTime);
  const series = findSeries(entries, figures);
  legend.replaceChildren();
  series.forEach(({ names, members }, k) => {
    const fill = `var(--${SERIES[k % SERIES.length]})`, kind = SHAPES[k % SHAPES.length];
    const sorted = [...members].sort((a, b) => figures[a].arena - figures[b].arena);
    const inside = sorted.filter((i) => longer(i) < MOST_LONGER);
    if (inside.length > 1) {
      const points = inside.map((i) => `${x(figures[i].arena / none.arena)},${y(longer(i))}`);
      picture.append(
        svg("polyline", {
          points: points.join(" "),
          fill: "none",
          stroke: fill,
          "stroke-width": 1.6,
        }),
      );
    }
    for (const i of sorted) {
      const share = figures[i].arena / none.arena;
      const point = svg("path", {
        d: shape(kind, x(share), height(i), i === chosen ? 6.5 : 4.5),
        fill,
        class: i === chosen ? "point chosen" : "point",
        tabindex: 0,
        "data-entry": i,
      }, svg("title", {}, pointText(entries[i], figures[i], none)));
      point.addEventListener("click", () => choose(i));
      point.addEventListener("keydown", (event) => event.key === "Enter" && choose(i));
      picture.append(point);
    }
    const mark = svg("svg", { width: 16, height: 14, viewBox: "0 0 16 14" });
    mark.append(svg("path", { d: shape(kind, 8, 7, 5), fill }));
    legend.append(element("div", {}, mark, " " + names.join(" = ")));
  });
  const bounded = boundCorners(entries, none).map((corner) => corner.name);
  if (bounded.length > 0) {
    const names = [...new Set(bounded)].join(", ");
    legend.append(element("div", {}, `shaded: no plan gets here, by the bound of ${names}`));
  }
  plot.replaceChildren(picture);
}

function pointText(entry, figure, none) {
  return `${entry.name}: ${bytesText(figure.arena)}, ${timeText(figure.time)} (` +
    `${changeText(figure.time - none.time, none.time)})`;
}

function drawFrame(picture, width, x, y, mostMemory, mostTime) {
  const line = (x1, y1, x2, y2) => picture.append(svg("line", { x1, y1, x2, y2, class: "axis" }));
  const most = Math.min(10, (width - PLOT_LEFT) / TICK_WIDTH);
  const tickX = roundTick(mostMemory, most), tickY = roundTick(mostTime, 7);
  for (let share = 0; share <= mostMemory; share += tickX) {
    line(x(share), y(0), x(share), y(mostTime));
    const at = { x: x(share), y: y(0) + 18, "text-anchor": "middle" };
    picture.append(svg("text", at, Math.round(100 * share) + "%"));
  }
  for (let longer = 0; longer <= mostTime; longer += tickY) {
    line(x(0), y(longer), x(mostMemory), y(longer));
    const at = { x: x(0) - 8, y: y(longer) + 4, "text-anchor": "end" };
    picture.append(svg("text", at, "+" + +(100 * longer).toFixed(1) + "%"));
  }
  const middle = (PLOT_LEFT + width) / 2, half = (PLOT_HEIGHT - PLOT_BOTTOM) / 2;
  picture.append(
    svg(
      "text",
      { x: middle, y: PLOT_HEIGHT - 6, "text-anchor": "middle" },
      "memory, of plain training",
    ),
    svg(
      "text",
      { x: 14, y: half, "text-anchor": "middle", transform: `rotate(-90 14 ${half})` },
      "time over plain training",
    ),
  );
}

// Plans that take more than twice as long, apart from the axis of time.
function drawStrip(picture, x, mostMemory) {
  const box = { x: x(0), y: PLOT_TOP - 6, width: x(mostMemory) - x(0), height: STRIP - 6 };
  picture.append(
    svg("rect", { ...box, class: "strip" }),
    svg("text", { x: x(0) - 8, y: PLOT_TOP + STRIP / 2 - 2, "text-anchor": "end" }, ">+100%"),
  );
}

function drawBound(picture, corners, x, y, mostTime) {
  if (corners.length === 0) return;
  let path = `M${x(0)},${y(0)}`;
  for (const corner of corners) { // from much memory to little, so upwards
    path += `H${x(corner.memory)}V${y(Math.min(corner.time - 1, mostTime))}`;
  }
  path += `H${x(0)}Z`;
  picture.append(svg("path", { d: path, class: "impossible" }));
}
