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

// -- what every page has -------------------------------------------------------------------------------------

function makeFacts() {
  return el("dl", { class: "facts" }, ...data.facts.flatMap(([label, value]) => [el("dt", null, label), el("dd", null, text(value))]));
}

function themeButton() {
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = el("button", { type: "button", click: () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; name(); } });
  const name = () => { button.textContent = dark() ? "light" : "dark"; };
  name();
  return button;
}

// The whole page: its file and what is said of it, a bar that leads to its sections, what stands before them, and sections: [id,
// title, element or null].
function showPage(what, said, all, ...before) {
  const name = data.file.split("/").pop(), sections = all.filter(([, , content]) => content);
  document.title = what ? `${show(name)}: ${what}` : `${show(name)}: mblob`;
  document.getElementById("page").replaceChildren(
    el("h1", null, text(name)),
    el("p", { class: "soft" }, text(data.file), said),
    el("nav", { "aria-label": "parts of this page" }, ...sections.map(([id, title]) => el("a", { href: `#${id}` }, title.replace(/ \(.*/, ""))), themeButton()),
    ...before.filter(Boolean),
    ...sections.map(([id, title, content]) => el("section", { id }, el("h2", null, title), content)),
  );
}
