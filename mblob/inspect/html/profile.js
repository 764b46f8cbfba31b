// Where the time of a model went: a bar for each operator, its share, when it ran, and the graph with the same shares.

const BARS = 60; // rows that have a bar; the table has all
const seconds = new Map(data.rows.map((row) => [row[0], row[4]]));
const shareOf = (value) => (data.total > 0 ? value / data.total : 0);

function duration(value) {
  if (value >= 1) return `${value.toFixed(2)} s`;
  if (value >= 1e-3) return `${(value * 1e3).toFixed(2)} ms`;
  return value >= 1e-6 ? `${(value * 1e6).toFixed(1)} µs` : `${(value * 1e9).toFixed(0)} ns`;
}

function makeBars() {
  const most = Math.max(...data.rows.map((row) => row[4]), 1e-12);
  const lines = data.rows.slice(0, BARS).map(([, name, fn, , value, shape]) => el("li", null,
    el("div", { class: "label" }, text(name), el("span", { class: "mono soft" }, ` ${show(shape)}`), fn && fn !== name ? el("div", { class: "soft" }, text(fn)) : null),
    svg("svg", { "aria-hidden": "true" }, svg("rect", { class: "payload", width: `${(100 * value) / most}%`, height: "100%", rx: 2 })),
    el("span", { class: "amount" }, duration(value)), el("span", { class: "amount" }, percent(shareOf(value), 1))));
  const rest = data.rows.slice(BARS).reduce((sum, row) => sum + row[4], 0), more = data.rows.length - BARS;
  const left = more > 0 ? el("p", { class: "soft" }, `${grouped(more)} more rows take ${duration(rest)}, ${percent(shareOf(rest), 1)}: the table has them.`) : null;
  return el("div", null, el("ol", { class: "bars" }, ...lines), left || "", data.note ? el("p", { class: "soft" }, data.note) : "");
}

// Rows of the table for nodes of graphs, whose times are known.
const ran = data.rows.filter((row) => row[6] !== null).map(([, name, , , , , start, end, thread, device]) => ({ name, start, end, thread, device }));

function makeRows() {
  const columns = [
    { name: "node", of: (r) => r[0], num: true }, { name: "name", of: (r) => named(r[1]) }, { name: "function", of: (r) => r[2] },
    { name: "gives", of: (r) => r[5], mono: true }, { name: "calls", of: (r) => r[3], num: true, large: true },
    { name: "time", of: (r) => r[4], text: (r) => duration(r[4]), num: true, large: true },
    { name: "share", of: (r) => r[4], text: (r) => percent(shareOf(r[4]), 1), num: true, large: true },
    ...(ran.length ? [
      { name: "start", of: (r) => r[6], text: (r) => duration(r[6]), num: true }, { name: "end", of: (r) => r[7], text: (r) => duration(r[7]), num: true },
      { name: "thread", of: (r) => r[8], num: true }, { name: "device", of: (r) => r[9] },
    ] : []),
  ];
  return makeTable({ label: "time", rows: data.rows, leftOut: data.left_out, find: (r) => `${r[1]} ${r[2]} ${r[5]}`, columns }).element;
}

// What engines ran inside of regions.
function makePrimitives() {
  const columns = [
    { name: "region", of: (r) => named(r[0]) }, { name: "node", of: (r) => r[1] ?? "", num: true }, { name: "operator", of: (r) => named(r[2]) },
    { name: "primitive", of: (r) => r[3] }, { name: "implementation", of: (r) => r[4], mono: true }, { name: "threads", of: (r) => r[5], num: true },
    { name: "time", of: (r) => r[6], text: (r) => duration(r[6]), num: true, large: true },
    { name: "share", of: (r) => r[6], text: (r) => percent(shareOf(r[6]), 1), num: true, large: true },
  ];
  const find = (r) => `${r[0]} ${r[2]} ${r[3]} ${r[4]}`;
  return makeTable({ label: "primitives", rows: data.primitives, leftOut: data.primitives_left_out, find, columns }).element;
}

const drawing = data.graph && data.graph.boxes.length
  ? makeGraph(data.graph, { share: (node) => (seconds.has(node) ? shareOf(seconds.get(node)) : undefined) }) : null;
const timeline = ran.length ? makeTimeline(ran, data.said) : null;
showPage("where the time went", "", [
  ["bars", "Where the time went", data.rows.length ? makeBars() : el("p", null, "Nothing was called.")],
  ["timeline", "When each node ran", timeline && timeline.element],
  ["graph", "Graph", drawing && el("div", null, el("p", { class: "soft" }, "The coloured part at the left of a box is its share of the time."), drawing.element)],
  ["primitives", "Primitives of regions", data.primitives.length ? makePrimitives() : null],
  ["rows", "All rows", data.rows.length ? makeRows() : null],
], makeFacts());
if (drawing) drawing.start();
if (timeline) timeline.start();
