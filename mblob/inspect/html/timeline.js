// When each node ran: a row for each thread, a bar for each node, in colours of the devices.

const LANE = 26, AXIS = 22; // heights of a row and of the line of times
const LETTER = 7.5; // pixels of a letter in a bar
const COLOURS = ["code", "payload", "tensor", "header", "group"]; // the first is the host's
const LONGEST = 64; // times the width of the page

// ran: {name, start, end, thread, device} in seconds of one run
function makeTimeline(ran, said) {
  const length = Math.max(...ran.map((one) => one.end), 1e-9);
  const threads = [...new Set(ran.map((one) => one.thread))].sort((a, b) => a - b);
  const devices = [...new Set(ran.map((one) => one.device))].sort((a, b) => b.startsWith("cpu") - a.startsWith("cpu") || (a < b ? -1 : 1));
  const colour = new Map(devices.map((device, i) => [device, COLOURS[i % COLOURS.length]]));
  const ordered = [...ran].sort((a, b) => a.start - b.start);
  const height = threads.length * LANE + AXIS;
  const lanes = svg("g", null), axis = svg("g", { class: "soft" });
  const drawn = svg("svg", { height, role: "img", "aria-label": `${counted(ran.length, "node", "nodes")} on ${counted(threads.length, "thread", "threads")} in ${duration(length)}` }, axis, lanes);
  const view = el("div", { class: "wide", tabindex: 0 }, drawn);
  const told = el("p", { class: "told", role: "status" }, "Point at a bar to see its times.");
  const smaller = el("button", { type: "button", "aria-label": "shorter", click: () => zoomTo(zoom / 2) }, "−");
  const larger = el("button", { type: "button", "aria-label": "longer", click: () => zoomTo(zoom * 2) }, "+");
  let zoom = 1;

  function bar(one) {
    const share = (one.end - one.start) / length, space = share * zoom * view.clientWidth;
    const fits = one.name.length * LETTER + 8 < space;
    const tell = () => told.replaceChildren(text(`${one.name}: ${duration(one.start)} to ${duration(one.end)}, ${duration(one.end - one.start)}, thread ${one.thread}, ${one.device}`));
    return svg("svg", { x: percentage(one.start), y: AXIS + threads.indexOf(one.thread) * LANE + 3, width: percentage(one.end - one.start), height: LANE - 6, pointerenter: tell },
      svg("title", null, show(one.name)), svg("rect", { class: colour.get(one.device), width: "100%", height: "100%", rx: 2 }),
      fits ? svg("text", { x: 5, y: LANE - 12 }, show(one.name)) : null);
  }

  const percentage = (seconds) => `${(100 * seconds) / length}%`;

  function draw() {
    const wanted = length / Math.max(2, (view.clientWidth * zoom) / 110), power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].find((n) => n * power >= wanted) * power;
    const ticks = Array.from({ length: Math.floor(length / step + 1e-9) + 1 }, (_, i) => i * step);
    axis.replaceChildren(...ticks.flatMap((tick) => [
      svg("line", { x1: percentage(tick), x2: percentage(tick), y1: 0, y2: height }),
      tick + 0.6 * step < length ? svg("text", { x: percentage(tick), dx: 4, y: 14 }, tick ? duration(tick) : "0") : null,
    ].filter(Boolean)));
    lanes.replaceChildren(...ordered.map(bar));
  }

  function zoomTo(value) {
    const middle = (view.scrollLeft + view.clientWidth / 2) / zoom;
    zoom = value;
    drawn.setAttribute("width", `${100 * zoom}%`);
    draw();
    view.scrollLeft = middle * zoom - view.clientWidth / 2;
    smaller.disabled = zoom <= 1;
    larger.disabled = zoom >= LONGEST;
  }

  const legend = devices.map((device) => el("span", null, svg("svg", { "aria-hidden": "true" }, svg("rect", { class: colour.get(device), width: 12, height: 12, rx: 2 })), text(device)));
  const names = threads.map((thread) => el("div", null, `thread ${thread}`));
  return {
    element: el("div", null, el("p", null, text(said)), el("div", { class: "bar legend" }, ...legend, el("span", { class: "grow" }), smaller, larger),
      el("div", { class: "timeline" }, el("div", { class: "lanes soft" }, ...names), view), told),
    start() { zoomTo(1); },
  };
}
