// A model's graph: boxes with lines between them, laid out by html/graph.py. It scrolls, grows and shrinks; arrow keys go from box to box.

const ZOOMS = [0.15, 0.25, 0.4, 0.6, 0.8, 1, 1.25, 1.6, 2];
const LEAST_ZOOM = 0.6; // of a graph that is shown first: smaller letters cannot be read

const box = ([node, kind, lines, x, y, width, height, after, title, operator, inputs, values]) =>
  ({ node, kind, lines, x, y, width, height, after, title, operator, inputs, values, up: [], down: [] });

// A line through its points, straight in layers and bent between them.
function curve(points) {
  let path = `M${points[0][0]},${points[0][1]}`;
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i - 1], [u, v] = points[i];
    path += x === u ? `V${v}` : `C${x},${(y + v) / 2} ${u},${(y + v) / 2} ${u},${v}`;
  }
  return path;
}

// options: {share: node -> part of the whole time or undefined}
function makeGraph(graph, options = {}) {
  const boxes = graph.boxes.map(box);
  const byNode = new Map(boxes.map((one) => [one.node, one]));
  for (const [from, to] of graph.edges) {
    byNode.get(from).down.push(byNode.get(to));
    byNode.get(to).up.push(byNode.get(from));
  }
  const state = { zoom: 1, chosen: null, found: [], at: -1 };
  const told = el("div", { class: "told card", role: "status" });
  const lines = graph.edges.map(([from, to, points]) => svg("path", { class: "line", d: curve(points), "data-from": from, "data-to": to }));
  for (const one of boxes) one.element = drawBox(one);
  const drawn = svg("svg", { viewBox: `0 0 ${graph.width} ${graph.height}`, role: "group", "aria-label": "graph of the model" },
    svg("g", null, ...lines), svg("g", null, ...boxes.map((one) => one.element)));
  const view = el("div", { class: "graph", keydown: press }, drawn);
  const smaller = el("button", { type: "button", "aria-label": "smaller", click: () => step(-1) }, "−");
  const larger = el("button", { type: "button", "aria-label": "larger", click: () => step(1) }, "+");
  const whole = el("button", { type: "button", click: () => zoomTo(fitting()) }, "whole");
  const input = el("input", { type: "search", placeholder: "find", "aria-label": "find a node by its name or operator", input: find, keydown: (event) => { if (event.key === "Enter") turn(event.shiftKey ? -1 : 1); } });
  const count = el("span", { class: "soft", role: "status" });

  function drawBox(one) {
    const part = options.share && options.share(one.node);
    const rows = one.lines.map((line, i) => svg("text", { x: one.x + 9, y: one.y + 17 + 16 * i, class: i ? "more" : null }, show(line)));
    if (one.after.length) {
      const name = byNode.get(one.after[0]).lines[0], more = one.after.length > 1 ? `, ${one.after.length - 1} more` : "";
      rows.push(svg("text", { x: one.x + 9, y: one.y + 17 + 16 * one.lines.length, class: "more" }, show(`↑ ${name.slice(0, 18)}${more}`)));
    }
    const bar = part ? svg("rect", { class: "heat", x: one.x, y: one.y, width: Math.max(one.width * Math.min(part, 1), 2), height: one.height, rx: 5 }) : null;
    const time = part !== undefined && part !== null ? `, ${percent(part, 1)} of the time` : "";
    return svg("g", {
      class: `box ${one.kind}`, tabindex: one === boxes[0] ? 0 : -1, role: "button", "aria-label": show(`${one.lines.join(", ")}${time}`),
      click: () => choose(one, false), focus: () => choose(one, false),
    }, svg("rect", { class: "frame", x: one.x, y: one.y, width: one.width, height: one.height, rx: 5 }), bar, ...rows);
  }

  const room = () => [view.clientWidth || 900, view.clientHeight || 500];
  const fitting = () => Math.max(ZOOMS[0] / 2, Math.min(1, room()[0] / graph.width, Math.max(500, room()[1]) / graph.height));

  // Zoom, and keep the middle of what is seen where it is.
  function zoomTo(zoom) {
    const [width, height] = room();
    const x = (view.scrollLeft + width / 2) / state.zoom, y = (view.scrollTop + height / 2) / state.zoom;
    state.zoom = zoom;
    drawn.setAttribute("width", Math.ceil(graph.width * zoom));
    drawn.setAttribute("height", Math.ceil(graph.height * zoom));
    view.scrollLeft = x * zoom - width / 2;
    view.scrollTop = y * zoom - height / 2;
    smaller.disabled = zoom <= ZOOMS[0];
    larger.disabled = zoom >= ZOOMS[ZOOMS.length - 1];
  }

  function step(by) {
    const next = by > 0 ? ZOOMS.find((zoom) => zoom > state.zoom * 1.01) : [...ZOOMS].reverse().find((zoom) => zoom < state.zoom * 0.99);
    if (next) zoomTo(next);
  }

  function choose(one, reveal) {
    if (state.chosen === one && !reveal) return;
    if (state.chosen) {
      state.chosen.element.classList.remove("chosen");
      state.chosen.element.setAttribute("tabindex", -1);
    }
    state.chosen = one;
    one.element.classList.add("chosen");
    one.element.setAttribute("tabindex", 0);
    const id = String(one.node);
    for (const line of lines) line.classList.toggle("on", line.dataset.from === id || line.dataset.to === id);
    if (reveal) {
      const [width, height] = room();
      view.scrollLeft = (one.x + one.width / 2) * state.zoom - width / 2;
      view.scrollTop = (one.y + one.height / 2) * state.zoom - height / 2;
    }
    tell(one);
  }

  function tell(one) {
    const facts = [];
    const add = (label, values) => { if (values.length) facts.push(el("dt", null, label), el("dd", null, ...values.flatMap((value, i) => [i ? ", " : "", value]))); };
    const part = options.share && options.share(one.node);
    add("operator", one.operator ? [text(one.operator)] : []);
    add("takes", one.inputs.map(text));
    add("gives", one.values.filter(Boolean).map(text));
    add("time", part !== undefined && part !== null ? [percent(part, 1)] : []);
    const far = one.after.slice(0, 8).map((node) => el("button", { type: "button", class: "plain", click: () => go(byNode.get(node)) }, show(byNode.get(node).lines[0])));
    add("from far above", far);
    told.replaceChildren(el("strong", null, text(one.title || one.lines[0])), el("span", { class: "soft" }, `  node ${one.node}, ${one.kind}`), el("dl", { class: "facts" }, ...facts));
  }

  function go(one) {
    if (!one) return;
    choose(one, true);
    one.element.focus({ preventScroll: true });
  }

  function press(event) {
    const one = state.chosen || boxes[0];
    const beside = (by) => {
      const row = boxes.filter((other) => other.y === one.y).sort((a, b) => a.x - b.x);
      return row[row.indexOf(one) + by];
    };
    const moves = {
      ArrowUp: () => go(one.up[0]), ArrowDown: () => go(one.down[0]), ArrowLeft: () => go(beside(-1)), ArrowRight: () => go(beside(1)),
      Home: () => go(boxes[0]), End: () => go(boxes[boxes.length - 1]), "+": () => step(1), "-": () => step(-1),
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey || !event.target.closest(".box")) return;
    event.preventDefault();
    moves[event.key]();
  }

  function find() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const heap = (one) => `${one.title} ${one.operator} ${one.lines.join(" ")}`.toLowerCase();
    state.found = words.length ? boxes.filter((one) => words.every((word) => heap(one).includes(word))) : [];
    for (const one of boxes) one.element.classList.toggle("found", state.found.includes(one));
    state.at = -1;
    turn(1);
  }

  function turn(by) {
    count.textContent = input.value.trim() ? `${grouped(state.found.length)} found` : "";
    if (!state.found.length) return;
    state.at = (state.at + by + state.found.length) % state.found.length;
    count.textContent = `${state.at + 1} of ${grouped(state.found.length)}`;
    choose(state.found[state.at], true);
  }

  const folded = graph.nodes - boxes.length - graph.left_out;
  const sentence = `${counted(boxes.length, "node", "nodes")}${folded ? `; ${counted(folded, "parameter is", "parameters are")} written on the operators that take them` : ""}.`;
  const left = graph.left_out ? el("p", { class: "cut" }, `The first ${counted(boxes.length, "node is", "nodes are")} drawn; ${grouped(graph.left_out)} more are in the file.`) : null;
  const element = el("div", null,
    el("div", { class: "bar" }, boxes.length > 10 ? input : null, count, el("span", { class: "grow" }), smaller, larger, whole),
    el("p", { class: "soft" }, sentence), left, view, told);
  // The size of the view is known when the page stands.
  const start = () => {
    zoomTo(Math.max(Math.min(1, room()[0] / graph.width), Math.min(LEAST_ZOOM, 1)));
    view.scrollTop = 0;
    const first = boxes[0];
    if (first) {
      tell(first);
      view.scrollLeft = Math.max(0, (first.x + first.width / 2) * state.zoom - room()[0] / 2);
    }
  };
  return { element, start };
}
