// Where the bytes are: a squarified treemap (Bruls, Huizing, van Wijk, 2000) that opens level by level.

const SHOWN = 250; // areas of one level that are drawn on their own; the smaller ones are one area, which opens
const HEAD = 18; // height of the name above what is inside
const LEVELS = 6; // that are drawn inside of each other
const LEAST = 100; // square pixels that each part needs on average to be drawn inside an area that is not open
const LEAST_ALIKE = 800; // the same where no part is larger than the others: all or none can have a name
const NAMED = 24; // tensors from which those of one layer are drawn together

const KINDS = [
  ["code", "code", "machine code"], ["data", "data", "data of the program"], ["tensor", "tensor", "tensors"], ["text", "words", "texts"],
  ["payload", "payload", "other payloads"], ["header", "header", "headers, names, index"], ["debug", "debug", "symbols, debug information"],
  ["group", "group", "many smaller ones together"], ["rest", "rest", "padding, other bytes"],
];
const CLASS = Object.fromEntries([...KINDS.map(([kind, name]) => [kind, name]), ["blob", "blob"]]);

const area = ([name, offset, size, kind, detail, children]) => ({
  name: named(name), offset, size, kind, detail: detail || "", children: (children || []).map(area),
});

function entryArea(entry) {
  const children = byName(entry.parts.map(area));
  return { name: `[${entry.index}] ${entry.key}`, offset: entry.offset, size: entry.size, kind: "payload", detail: "", children, entry };
}

// Tensors by the parts of their names: "layers.0.attn.q" lies in "layers", that in "0", and so on; areas without a number of
// relatives stay as they are.
function byName(parts, start = 0, level = 0) {
  if (parts.length < NAMED || level > 8) return parts;
  const groups = new Map();
  for (const part of parts) {
    const end = part.name.slice(start).search(/[./]/);
    const key = part.kind === "tensor" && end >= 0 ? part.name.slice(0, start + end + 1) : "";
    groups.set(key, [...(groups.get(key) || []), part]);
  }
  if (groups.size === 1 && groups.has("")) return parts;
  return [...groups].flatMap(([key, list]) => {
    if (!key || list.length === 1) return list;
    const children = byName(list, key.length, level + 1);
    if (children.length === 1 && children[0].children.length) return children; // "model" has nothing but "model.layers"
    const name = key.slice(0, -1), common = children.some((child) => child.children.length) ? "" : distinct(children.map((child) => child.name), TOKENS)[2];
    const detail = `${grouped(list.length)} tensors${common ? ` *${common}` : ""}`;
    return { name, offset: -1, size: total(list), kind: "tensor", detail, title: common && `${name}: ${detail}`, children };
  });
}

// One area, or where there are many, one for each type key; those without a byte have no area, but are counted.
function entryAreas(list) {
  const each = list.filter((entry) => entry.size).map(entryArea);
  if (each.length <= SHOWN) return each;
  const groups = new Map(), empty = new Map();
  for (const one of each) groups.set(one.entry.key, [...(groups.get(one.entry.key) || []), one]);
  for (const entry of list) if (!entry.size) empty.set(entry.key, (empty.get(entry.key) || 0) + 1);
  return [...groups].map(([key, children]) => {
    const none = empty.get(key) || 0;
    if (children.length === 1 && !none) return children[0];
    const many = counted(children.length + none, "entry", "entries"), lines = none ? [[many], [`${grouped(none)} empty`]] : [[many]];
    const detail = none ? `${many}, ${grouped(none)} of them empty` : many;
    return { name: key, offset: -1, size: total(children), kind: "payload", detail, title: `${key}: ${detail}`, lines, children };
  });
}

const total = (areas) => areas.reduce((sum, one) => sum + one.size, 0);

function fileArea() {
  const children = data.areas.map(area);
  if (data.blob) {
    const inside = entryAreas(entries.filter((entry) => entry.offset >= 0));
    if (data.hidden[1]) {
      inside.push({ name: counted(data.hidden[0], "entry more", "entries more"), offset: -1, size: data.hidden[1], kind: "group", detail: "", children: [] });
    }
    if (data.blob.index) {
      inside.push({ name: "index", offset: data.blob.offset + data.blob.size - data.blob.index, size: data.blob.index, kind: "header", detail: "", children: [] });
    }
    const left = data.blob.size - total(inside);
    if (left > 0) inside.push({ name: "type keys, import tree, padding", offset: -1, size: left, kind: "header", detail: "", children: [] });
    children.push({ name: `blob ${data.blob.symbol}`, offset: data.blob.offset, size: data.blob.size, kind: "blob", detail: "", children: inside });
  }
  return { name: "file", offset: 0, size: data.size, kind: "blob", detail: "", children };
}

const order = new Intl.Collator("en", { numeric: true });
const inOrder = (areas) => areas.sort((a, b) => b.size - a.size || order.compare(a.name, b.name) || a.offset - b.offset);

// The parts of an area from large to small, of one size by their names; many small ones become one.
function partsOf(node) {
  const parts = inOrder(node.children.filter((child) => child.size > 0));
  const sum = total(parts);
  if (sum < node.size) {
    parts.push({ name: `rest of ${node.name}`, offset: -1, size: node.size - sum, kind: node.kind === "blob" ? "rest" : node.kind, detail: "", made: true, children: [] });
    inOrder(parts);
  }
  if (parts.length <= SHOWN + 1) return parts;
  const rest = parts.splice(SHOWN);
  const step = Math.max(SHOWN, Math.ceil(rest.length / SHOWN));
  for (let first = 0; first < rest.length; first += step) {
    const children = rest.slice(first, first + step);
    if (children.length === 1) parts.push(children[0]);
    else parts.push(smallOnes(children));
  }
  return inOrder(parts);
}

// Areas that are drawn as one, from large to small.
function smallOnes(children) {
  const largest = children[0].size, smallest = children[children.length - 1].size;
  const sizes = largest === smallest ? human(smallest) : `${human(smallest)} to ${human(largest)}`;
  const { name, rest } = groupName(children, sizes);
  const detail = rest ? `*${rest}` : "";
  return { name, offset: -1, size: total(children), kind: "group", detail, title: detail && `${name}: ${detail}`, children };
}

// Places for sizes (from large to small, none of them 0) in a rectangle: [x, y, width, height] each.
function squarify(sizes, x, y, width, height) {
  const places = [];
  let left = sizes.reduce((sum, size) => sum + size, 0);
  for (let start = 0; start < sizes.length;) {
    const side = Math.min(width, height), scale = (width * height) / left;
    let end = start, sum = 0, worst = Infinity;
    while (end < sizes.length) {
      const next = sum + sizes[end], across = next * scale;
      const ratio = Math.max((side * side * sizes[start] * scale) / (across * across), (across * across) / (side * side * sizes[end] * scale));
      if (ratio > worst) break;
      [worst, sum, end] = [ratio, next, end + 1];
    }
    const depth = side > 0 ? (sum * scale) / side : 0;
    let along = 0;
    for (; start < end; start++) {
      const share = (sizes[start] / sum) * side;
      places.push(width >= height ? [x, y + along, depth, share] : [x + along, y, share, depth]);
      along += share;
    }
    if (width >= height) [x, width] = [x + depth, Math.max(width - depth, 0)];
    else [y, height] = [y + depth, Math.max(height - depth, 0)];
    left -= sum;
  }
  return places;
}

function makeTreemap() {
  const WIDTH = 1160, HEIGHT = 520;
  let path = [fileArea()];
  const told = el("p", { class: "told", role: "status" });
  const crumbs = el("div", { class: "bar", "aria-label": "where the map is" });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "treemap of the file" });
  picture.addEventListener("keydown", (event) => steer(event));
  picture.addEventListener("pointerleave", () => tell([]));

  // What an area is, in words.
  function inWords(trail) {
    const node = trail[trail.length - 1], whole = path[0].size;
    const place = node.offset >= 0 ? ` at ${at(node.offset)}` : "";
    return `${show(node.name)}${node.detail ? " " + show(node.detail) : ""}: ${human(node.size)} (${grouped(node.size)} bytes)${place}, ${percent(node.size, whole)} of the file`;
  }

  function tell(trail) {
    const full = [...path, ...trail];
    told.replaceChildren(el("span", { class: "text" }, inWords(full)));
    if (trail.length > 1) told.append(el("span", { class: "soft" }, ` in ${show(full[full.length - 2].name)}`));
  }

  function open(trail) {
    const last = trail[trail.length - 1];
    if (last.entry) pick(last.entry.index, "map");
    if (last.children.length) path = [...path, ...trail];
    else if (trail.length > 1) path = [...path, ...trail.slice(0, -1)];
    else return;
    draw();
    focus(0);
  }

  function up() {
    if (path.length === 1) return;
    path = path.slice(0, -1);
    draw();
    focus(0);
  }

  const drawn = () => [...picture.querySelectorAll("g.cell")];
  function focus(i) {
    const all = drawn();
    if (!all.length) return;
    all.forEach((cell) => cell.setAttribute("tabindex", "-1"));
    const cell = all[Math.min(Math.max(i, 0), all.length - 1)];
    cell.setAttribute("tabindex", "0");
    cell.focus({ preventScroll: true });
  }

  function steer(event) {
    const all = drawn(), now = all.indexOf(document.activeElement);
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key in steps) focus(now + steps[event.key]);
    else if (event.key === "Home") focus(0);
    else if (event.key === "End") focus(all.length - 1);
    else if (event.key === "Escape" || event.key === "Backspace") up();
    else if ((event.key === "Enter" || event.key === " ") && now >= 0) open(all[now].trail);
    else return;
    event.preventDefault();
  }

  // What is drawn inside of an area; nothing where there is no room for it.
  function inside(node, width, height, depth) {
    if (depth >= LEVELS || !node.children.length || width <= 70 || height <= 60) return [];
    const parts = partsOf(node);
    const alike = parts.length > NAMED && parts[0].size < 2 * parts[parts.length - 1].size;
    return (width * height) / parts.length >= (alike ? LEAST_ALIKE : LEAST) ? parts : [];
  }

  // An area with its name and what is inside; `label`: of `labelsOf`.
  function cell(trail, label, [x, y, width, height], depth) {
    const node = trail[trail.length - 1];
    if (width < 1 || height < 1) return null;
    const parts = inside(node, width, height, depth);
    const kind = parts.length && node.kind !== "group" ? "blob" : CLASS[node.kind] || "rest";
    const group = svg("g", { class: `cell ${kind}`, tabindex: "-1", role: "button", "aria-label": inWords([...path, ...trail]) },
      svg("rect", { x, y, width, height, class: kind }));
    group.trail = trail;
    group.addEventListener("click", (event) => { event.stopPropagation(); open(trail); });
    for (const name of ["pointerover", "focus"]) {
      group.addEventListener(name, (event) => { event.stopPropagation(); tell(trail); });
    }
    if (parts.length) {
      const forms = [...(node.title ? [node.title] : []), node.name, ...label.forms];
      group.append(...drawLabel({ ...label, forms }, [], [x, y, width, HEAD]));
      const places = squarify(parts.map((part) => part.size), x + 2, y + HEAD, width - 4, height - HEAD - 2);
      group.append(...cells(trail, parts, places, depth + 1));
    } else {
      group.append(...drawLabel(label, node.lines || [[node.detail, human(node.size)]], [x, y, width, height]));
    }
    return group;
  }

  // Areas side by side.
  function cells(trail, parts, places, depth) {
    const labels = labelsOf(parts, trail[trail.length - 1]);
    return parts.map((part, i) => cell([...trail, part], labels.get(part), places[i], depth)).filter(Boolean);
  }

  function draw() {
    const node = path[path.length - 1];
    const parts = partsOf(node);
    const places = squarify(parts.map((part) => part.size), 0, 0, WIDTH, HEIGHT);
    picture.replaceChildren(...cells([], parts, places, 1));
    const first = picture.querySelector("g.cell");
    if (first) first.setAttribute("tabindex", "0");
    const trail = path.map((step, i) =>
      el("button", { type: "button", class: "plain crumb", disabled: i === path.length - 1, click: () => { path = path.slice(0, i + 1); draw(); } },
        show(step.name)));
    crumbs.replaceChildren(...trail.flatMap((button, i) => (i ? [el("span", { class: "soft" }, "›"), button] : [button])));
    tell([]);
  }

  draw();
  const legend = el("div", { class: "legend" }, ...KINDS.map(([, name, words]) =>
    el("span", null, svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, class: name })), words)));
  const hint = el("p", { class: "soft hint" }, "A click or Enter opens an area, Escape goes back, arrow keys go from area to area.");
  return el("div", null, crumbs, el("div", { class: "map" }, picture), told, legend, hint);
}
