// What all parts of the page use: the data, text that cannot mislead, numbers for people, elements.

const data = JSON.parse(document.getElementById("data").textContent);

// Text of the file in one line: what is invisible, turns the direction of writing, or is heaped upon a letter, is shown by its number.
function show(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}]|(?<=^\p{M}*|\p{M}{3})\p{M}/gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

const named = (name) => name || '""';

function human(size) {
  if (size < 1024) return `${size} B`;
  let value = size;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    value /= 1024;
    if (value < 1024 || unit === "TiB") return `${value.toFixed(1)} ${unit}`;
  }
  return "";
}

const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
const at = (offset) => (offset < 0 ? "" : "0x" + offset.toString(16));
const counted = (n, one, many) => `${grouped(n)} ${n === 1 ? one : many}`;

function percent(part, whole) {
  if (!whole) return "0 %";
  const value = (100 * part) / whole;
  return value >= 0.1 || !part ? `${value.toFixed(1)} %` : "< 0.1 %";
}

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes, listeners (functions, by the name of their event) and children; strings become text, never markup.
function make(space, name, attributes, children) {
  const element = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const el = (name, attributes, ...children) => make("", name, attributes, children);
const svg = (name, attributes, ...children) => make(SVG, name, attributes, children);
const text = (value) => el("span", { class: "text" }, show(value));

// -- the rows of the data, by name ---------------------------------------------------------------------------

const entries = data.entries.map((row, index) => ({
  index, key: data.keys[row[0]], offset: row[1], size: row[2], imports: row[3], importCount: row[4], isData: row[5] === 1,
  alignment: row[6], digest: row[7], parts: row[8], problem: row[9], importers: [], kernels: [],
}));
for (const entry of entries) for (const i of new Set(entry.imports)) entries[i].importers.push(entry.index);
for (const kernel of data.kernels.rows) if (entries[kernel[0]]) entries[kernel[0]].kernels.push(kernel);

const listeners = [];
// Show one entry everywhere; whoever shows entries listens.
function pick(index, from) {
  for (const listener of listeners) listener(index, from);
}
