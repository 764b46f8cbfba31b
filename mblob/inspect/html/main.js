// The page from top to bottom.

function makeRemarks() {
  if (!data.remarks.rows.length) return null;
  return el("ul", { class: "remarks" },
    ...data.remarks.rows.map(([severity, code, message]) =>
      el("li", { class: severity === "error" ? "error" : null }, el("strong", null, `${show(severity)} `), text(message), el("span", { class: "soft" }, ` (${show(code)})`))),
    data.remarks.left_out ? el("li", null, `${grouped(data.remarks.left_out)} more`) : null);
}

// Everything of one entry, below the table.
function makeCard() {
  const card = el("div", { class: "card", role: "region", "aria-label": "the chosen entry", hidden: true });
  const links = (indices, total) => [
    ...indices.slice(0, 40).flatMap((i, k) => [k ? ", " : "", el("button", { type: "button", class: "plain", click: () => pick(i, "card") }, `[${i}] ${show(entries[i].key)}`)]),
    total > Math.min(indices.length, 40) ? `, ${grouped(total - Math.min(indices.length, 40))} more` : "",
  ];
  listeners.push((index) => {
    const entry = entries[index];
    const facts = [];
    const add = (label, ...value) => facts.push(el("dt", null, label), el("dd", null, ...value));
    if (entry.offset >= 0) {
      add("payload", `${grouped(entry.size)} bytes at ${at(entry.offset)} (${entry.offset})`);
      if (entry.alignment > 1) add("alignment", `${entry.alignment} bytes`);
      if (entry.digest) add("digest", el("code", null, entry.digest));
      if (entry.isData) add("opens", "without a loader");
    }
    if (entry.importCount) add("imports", ...links(entry.imports, entry.importCount));
    if (entry.importers.length) add("imported by", ...links(entry.importers, entry.importers.length));
    if (entry.problem) add("problem", text(entry.problem));
    const inside = entry.parts.length ? makeTable({
      label: "parts of the entry", rows: entry.parts, find: (p) => `${p[0]} ${p[4] || ""}`,
      columns: [
        { name: "part", of: (p) => named(p[0]) }, { name: "type and shape", of: (p) => p[4] || "" },
        { name: "offset", of: (p) => p[1], text: (p) => at(p[1]), num: true }, { name: "bytes", of: (p) => p[2], text: (p) => grouped(p[2]), num: true, large: true },
      ],
    }).element : null;
    const told = data.texts[index];
    const words = told ? el("div", null, el("h3", null, "Text"), el("pre", { class: "words" }, told[0].split(/\r?\n/).map((line) => show(line.replaceAll("\t", "  "))).join("\n")),
      told[1] ? el("p", { class: "soft" }, `${counted(told[1], "byte", "bytes")} more: mblob-pack extract`) : null) : null;
    const kernels = entry.kernels.length ? el("div", null, el("h3", null, "Kernels"), kernelTable(entry.kernels, 0)) : null;
    card.replaceChildren(el("h3", null, text(`[${index}] ${entry.key}`)), el("dl", { class: "facts" }, ...facts), words || "", inside || "", kernels || "");
    card.hidden = false;
  });
  return card;
}

function kernelTable(rows, leftOut) {
  return makeTable({
    label: "kernels", rows, leftOut, find: (k) => k.join(" "),
    columns: [
      { name: "kernel", of: (k) => named(k[1]) }, { name: "arguments", of: (k) => k[2], mono: true }, { name: "launch", of: (k) => k[3] },
      { name: "entry", of: (k) => k[0], num: true },
    ],
  }).element;
}

function makeEntries() {
  const table = makeTable({
    label: "entries", rows: entries, leftOut: data.hidden[0], key: (e) => e.index, find: (e) => `${e.index} ${e.key} ${e.digest}`,
    onPick: (e) => pick(e.index, "table"),
    columns: [
      { name: "index", of: (e) => e.index, num: false }, { name: "type key", of: (e) => e.key },
      { name: "bytes", of: (e) => e.size, text: (e) => (e.offset < 0 ? "" : grouped(e.size)), num: true, large: true },
      { name: "size", of: (e) => e.size, text: (e) => (e.offset < 0 ? "" : human(e.size)), num: true, large: true },
      { name: "offset", of: (e) => e.offset, text: (e) => at(e.offset), num: true },
      { name: "imports", of: (e) => e.importCount, text: (e) => grouped(e.importCount), num: true, large: true },
      { name: "digest", of: (e) => e.digest, text: (e) => (e.digest.length > 16 ? e.digest.slice(0, 16) + "…" : e.digest), mono: true },
    ],
  });
  const card = makeCard();
  const whole = el("div", null, table.element, card);
  listeners.push((index, from) => {
    table.reveal(index);
    if (from !== "map") card.scrollIntoView({ block: "nearest" });
  });
  return whole;
}

function makeTensors() {
  const inside = (parts) => parts.flatMap((part) => (part[3] === "tensor" ? [part] : inside(part[5] || [])));
  const rows = entries.flatMap((entry) => inside(entry.parts).map((part) => [entry.index, ...part]));
  if (!rows.length) return null;
  return makeTable({
    label: "tensors", rows, leftOut: data.parts_left_out, find: (t) => `${t[1]} ${t[5]}`,
    columns: [
      { name: "tensor", of: (t) => named(t[1]) }, { name: "type and shape", of: (t) => t[5] || "", mono: true },
      { name: "bytes", of: (t) => t[3], text: (t) => grouped(t[3]), num: true, large: true },
      { name: "offset", of: (t) => t[2], text: (t) => at(t[2]), num: true }, { name: "entry", of: (t) => t[0], num: true },
    ],
  }).element;
}

function makeFunctions() {
  const { rows, left_out } = data.functions;
  return rows.length ? makeTable({
    label: "functions", rows, leftOut: left_out, find: (f) => f.join(" "),
    columns: [{ name: "function", of: (f) => named(f[0]) }, { name: "convention", of: (f) => f[1] }, { name: "parameters", of: (f) => f[2], mono: true }],
  }).element : null;
}

// What each model takes and gives, and its graph.
function makeModels() {
  const place_of = (entry, name) => JSON.stringify([entry, name]);
  const graphs = new Map(data.graphs.rows.map((graph) => [place_of(graph.entry, graph.name), graph]));
  const values = (told) => told === null ? [el("dd", { class: "soft" }, "not told by the file")] : [
    ...told[0].map(([name, type]) => el("dd", null, text(named(name)), el("span", { class: "mono soft" }, type ? `  ${show(type)}` : ""))),
    told[1] ? el("dd", { class: "soft" }, `${grouped(told[1])} more`) : null, !told[0].length ? el("dd", { class: "soft" }, "nothing") : null,
  ];
  const cards = data.models.rows.map(([entry, kind, title, inputs, outputs, parameters], place) => {
    const facts = el("dl", { class: "model" }, el("dt", null, "takes"), ...values(inputs).filter(Boolean), el("dt", null, "gives"), ...values(outputs).filter(Boolean));
    const key = [place_of(entry, title), place_of(entry)].find((one) => graphs.has(one)); // of a program, one for each function
    const graph = graphs.get(key);
    graphs.delete(key);
    if (parameters[0].length) { // a graph has them written on its operators
      const list = el("details", null, el("summary", null, counted(parameters[0].length + parameters[1], "parameter", "parameters")), el("dl", { class: "held" }, ...values(parameters).filter(Boolean)));
      list.open = !graph;
      facts.append(el("dt", null, "holds"), el("dd", null, list));
    }
    return el("div", null, el("h3", null, el("button", { type: "button", class: "plain", click: () => pick(entry, "model") }, `[${entry}] ${show(title) || entries[entry].key}`),
      el("span", { class: "soft" }, `  ${kind}`)), facts, graph ? placed(makeGraph(graph), !place) : null);
  });
  const others = [...graphs.values()].map((graph) => el("div", null, el("h3", null, text(`[${graph.entry}] ${entries[graph.entry].key}${graph.name === undefined ? "" : ` ${show(graph.name)}`}`)), placed(makeGraph(graph), false)));
  const left = data.models.left_out ? el("p", { class: "soft" }, `${grouped(data.models.left_out)} more models: inspect --json has all`) : null;
  const more = data.graphs.left_out ? el("p", { class: "cut" }, `${counted(data.graphs.left_out, "graph is", "graphs are")} too large to draw on this page.`) : null;
  return cards.length || others.length || more ? el("div", null, ...cards, ...others, left || "", more || "") : null;
}

// A drawing that can be folded away; it is laid out when it is seen.
function placed(drawing, open) {
  const details = el("details", { class: "drawing" }, el("summary", null, "Graph"), drawing.element);
  let started = false;
  details.addEventListener("toggle", () => {
    if (details.open && !started) {
      started = true;
      drawing.start();
    }
  });
  details.open = open;
  return details;
}

function makeUndefined() {
  const { rows, left_out } = data.undefined;
  const columns = [{ name: "symbol", of: (s) => s[0], mono: true }];
  if (rows.some((s) => s[1])) columns.push({ name: "version", of: (s) => s[1], mono: true });
  if (rows.some((s) => s[2])) columns.push({ name: "provided by", of: (s) => s[2] });
  return rows.length ? makeTable({ label: "undefined symbols", rows, leftOut: left_out, find: (s) => s.join(" "), columns }).element : null;
}

// The number that `mblob-pack inspect` says; a library works without the weak ones.
function undefinedCount() {
  const { rows, left_out, weak } = data.undefined;
  return grouped(rows.length + left_out - weak) + (weak ? `, and ${grouped(weak)} weak` : "");
}

function makeHeaders() {
  const groups = data.headers.map((group) => makeGroup(group, group.blocks.length + group.left_out === 1));
  return el("div", null, ...groups);
}

showPage("", `, ${human(data.size)} (${grouped(data.size)} bytes)`, [
  ["tree", "Import tree", makeTree(), "left"],
  ["functions", `Functions (${grouped(data.functions.rows.length + data.functions.left_out)})`, makeFunctions(), "left"],
  ["models", "Models", makeModels(), "right"],
  ["bytes", "Where the bytes are", makeTreemap()],
  ["entries", `Entries (${grouped(entries.length + data.hidden[0])})`, makeEntries()],
  ["tensors", "Tensors", makeTensors()],
  ["kernels", "Kernels", data.kernels.rows.length ? kernelTable(data.kernels.rows, data.kernels.left_out) : null],
  ["undefined", `Undefined symbols (${undefinedCount()})`, makeUndefined()],
  ["headers", "Headers, byte by byte", makeHeaders()],
], makeFacts(), makeRemarks());
