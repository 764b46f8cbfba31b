// Tables of any length: 100 rows at a time, sorted by any column, filtered by words.

const PAGE = 100;

// columns: {name, of: row -> value to sort by, text: row -> what is shown (default: of), num, mono}
// options: {label, rows, columns, find: row -> text to filter by, key: row -> id, onPick: row -> void, leftOut}
function makeTable(options) {
  const { rows, columns } = options;
  const haystack = rows.map((row) => options.find(row).toLowerCase());
  const state = { order: rows.map((_, i) => i), first: 0, column: -1, down: false, words: "", picked: null };
  const body = el("tbody");
  const told = el("span", { class: "soft", role: "status" });
  const input = el("input", { type: "search", placeholder: "filter", "aria-label": `filter ${options.label}`, input: filter });
  const back = el("button", { type: "button", click: () => turn(-PAGE) }, "previous");
  const next = el("button", { type: "button", click: () => turn(PAGE) }, "next");
  const heads = columns.map((column, i) =>
    el("th", { scope: "col", class: column.num ? "num" : null }, el("button", { type: "button", click: () => sort(i) }, column.name)));

  function filter() {
    state.words = input.value;
    state.first = 0;
    arrange();
  }

  function sort(i) {
    state.down = state.column === i ? !state.down : Boolean(columns[i].num && columns[i].large);
    state.column = i;
    state.first = 0;
    arrange();
  }

  function turn(by) {
    state.first += by;
    draw();
  }

  function arrange() {
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    state.order = rows.map((_, i) => i).filter((i) => words.every((word) => haystack[i].includes(word)));
    if (state.column >= 0) {
      const values = rows.map(columns[state.column].of);
      const sign = state.down ? -1 : 1;
      const less = (a, b) => (values[a] < values[b] ? -1 : values[a] > values[b] ? 1 : 0);
      state.order.sort((a, b) => sign * less(a, b) || a - b);
    }
    draw();
  }

  function draw() {
    const shown = state.order.slice(state.first, state.first + PAGE);
    heads.forEach((head, i) => {
      if (i === state.column) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.firstChild.textContent = columns[i].name + (i === state.column ? (state.down ? " ▼" : " ▲") : "");
    });
    body.replaceChildren(...shown.map(drawRow));
    const last = state.first + shown.length;
    const of = state.order.length === rows.length ? "" : ` (filtered from ${grouped(rows.length)})`;
    const more = options.leftOut ? `, ${grouped(options.leftOut)} more are not on this page: --json has all` : "";
    told.textContent = shown.length
      ? `${grouped(state.first + 1)} to ${grouped(last)} of ${grouped(state.order.length)}${of}${more}` : `none${of}`;
    back.disabled = state.first === 0;
    next.disabled = last >= state.order.length;
    back.hidden = next.hidden = state.order.length <= PAGE;
  }

  function drawRow(i) {
    const row = rows[i];
    const cells = columns.map((column, k) => {
      const value = show((column.text || column.of)(row));
      const inside = k === 0 && options.onPick
        ? el("button", { type: "button", class: "plain", click: () => options.onPick(row) }, value)
        : el("span", { class: "text" }, value);
      return el("td", { class: [column.num ? "num" : "", column.mono ? "mono" : ""].join(" ").trim() || null }, inside);
    });
    const id = options.key ? options.key(row) : null;
    return el("tr", { class: id !== null && id === state.picked ? "picked" : null }, ...cells);
  }

  // Turn to the page of a row and mark it.
  function reveal(id) {
    state.picked = id;
    const place = state.order.findIndex((i) => options.key(rows[i]) === id);
    if (place >= 0) state.first = place - (place % PAGE);
    draw();
  }

  arrange();
  const controls = rows.length > 10 ? el("div", { class: "bar" }, input, told, el("span", { class: "grow" }), back, next) : null;
  const table = el("table", { "aria-label": options.label }, el("thead", null, el("tr", null, ...heads)), body);
  return { element: el("div", null, controls, el("div", { class: "wide" }, table)), reveal };
}
