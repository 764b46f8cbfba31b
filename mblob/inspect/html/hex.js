// Headers byte by byte, with the name and meaning of each field; bytes and names light up together.

const WIDTH_OF_LINE = 16;

function makeBlock([title, offset, digits, fields]) {
  const owner = new Array(digits.length / 2);
  fields.forEach(([start, size], i) => owner.fill(i, start, start + size));
  const spans = fields.map(() => []);
  const dump = el("div", { class: "hex", "aria-hidden": "true" });
  for (let line = 0; line < owner.length; line += WIDTH_OF_LINE) {
    dump.append(el("span", { class: "at" }, (offset + line).toString(16).padStart(8, "0") + "  "));
    const end = Math.min(line + WIDTH_OF_LINE, owner.length);
    for (let start = line; start < end;) {
      let stop = start;
      while (stop < end && owner[stop] === owner[start]) stop++;
      const bytes = [];
      for (let k = start; k < stop; k++) bytes.push(digits.slice(2 * k, 2 * k + 2));
      const span = el("span", { "data-field": owner[start], class: owner[start] % 2 ? "odd" : null }, bytes.join(" "));
      spans[owner[start]].push(span);
      dump.append(span, stop < end ? " " : "");
      start = stop;
    }
    dump.append("\n");
  }
  const list = el("ul", { class: "fields", role: "listbox", tabindex: "0", "aria-label": `fields of ${show(title)}` });
  const names = fields.map(([start, size, name, says], i) =>
    el("li", { class: "field", role: "option", "data-field": i, title: `${size} bytes at ${at(offset + start)}` },
      el("span", { class: "text" }, show(name)), el("span", { class: "text" }, show(says))));
  list.append(...names);
  let now = -1;
  function light(i) {
    for (const [k, on] of [[now, false], [i, true]]) {
      if (!names[k]) continue;
      for (const element of [names[k], ...spans[k]]) element.classList.toggle("on", on);
      names[k].setAttribute("aria-selected", String(on));
    }
    now = i;
  }
  for (const half of [dump, list]) {
    half.addEventListener("pointerover", (event) => {
      const owner = event.target.closest("[data-field]");
      light(owner ? Number(owner.dataset.field) : -1);
    });
    half.addEventListener("pointerleave", () => light(-1));
  }
  list.addEventListener("keydown", (event) => {
    const to = { ArrowDown: Math.min(now + 1, names.length - 1), ArrowUp: Math.max(now - 1, 0), Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    light(to);
    names[to].scrollIntoView({ block: "nearest" });
  });
  return el("div", { class: "block" }, el("h3", null, text(title), el("span", { class: "soft" }, `  ${digits.length / 2} bytes at ${at(offset)}`)), dump, list);
}

function makeGroup(group, open) {
  const STEP_OF_BLOCKS = 20;
  const total = group.blocks.length + group.left_out;
  const count = total > 1 ? el("span", { class: "soft" }, ` (${grouped(total)})`) : null;
  const details = el("details", { class: "group" }, el("summary", null, group.title, count));
  let drawn = 0;
  function more() {
    const end = Math.min(drawn + STEP_OF_BLOCKS, group.blocks.length);
    details.append(...group.blocks.slice(drawn, end).map(makeBlock));
    drawn = end;
    if (drawn < group.blocks.length) {
      const button = el("button", { type: "button", click: () => { button.remove(); more(); } }, `${group.blocks.length - drawn} more`);
      details.append(button);
    } else if (group.left_out) details.append(el("p", { class: "soft" }, `${grouped(group.left_out)} more are not on this page.`));
  }
  details.addEventListener("toggle", () => { if (details.open && !drawn) more(); });
  if (open) {
    details.open = true;
    more();
  }
  return details;
}
