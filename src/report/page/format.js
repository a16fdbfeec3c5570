// format.js: figures as text, and elements. Data is never read as HTML.

export function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    unit++;
  }
  return (unit === 0 ? value.toFixed(0) : value.toFixed(1)) + "\u00a0" + units[unit];
}

// Rounded up to what can be typed as a budget and suffices.
export function aboveText(bytes) {
  const unit = bytes < 2 ** 20 ? 2 ** 10 : 2 ** 20;
  return `${Math.ceil(bytes / unit)} ${unit === 2 ** 10 ? "KiB" : "MiB"}`;
}

export function timeText(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return ns.toFixed(0) + "\u00a0ns";
  if (size < 1e6) return (ns / 1e3).toFixed(1) + "\u00a0\u00b5s";
  if (size < 1e9) return (ns / 1e6).toFixed(2) + "\u00a0ms";
  return (ns / 1e9).toFixed(3) + "\u00a0s";
}

// With its sign: "+6.6%".
export function changeText(part, whole) {
  if (!(whole > 0)) return "";
  const percent = (100 * part) / whole;
  return (percent < 0 ? "\u2212" : "+") + Math.abs(percent).toFixed(1) + "%";
}

export function shareText(part, whole) {
  return whole > 0 ? ((100 * part) / whole).toFixed(1) + "%" : "";
}

export function countText(count, one, many) {
  return count.toLocaleString("en") + "\u00a0" + (count === 1 ? one : many);
}

// A new element. Children are elements or strings; strings always become text.
export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (name === "style") Object.assign(made.style, value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** @returns {any} the element with an id */
export function find(id) {
  return document.getElementById(id);
}
