// The entries of a library, and the import tree. Branches are made when they are opened, so a module that is imported from many
// places, or a long chain, costs nothing.

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

const STEP = 100; // imports shown at a time
const OPEN_LEVELS = 3, OPEN_IMPORTS = 30; // what stands open at first

function entryLine(entry) {
  const also = entry.importers.length > 1 ? `, imported ${entry.importers.length} times` : "";
  const size = entry.offset < 0 ? "the library itself" : `${human(entry.size)} at ${at(entry.offset)}`;
  return [
    el("button", { type: "button", class: "plain", click: (event) => { event.preventDefault(); pick(entry.index, "tree"); } }, `[${entry.index}] ${show(entry.key)}`),
    el("span", { class: "soft" }, `  ${size}${also}`),
  ];
}

function node(entry, level) {
  if (!entry.imports.length) {
    const beyond = entry.importCount ? el("span", { class: "soft" }, `, ${counted(entry.importCount, "import", "imports")} not on this page`) : null;
    return el("div", { class: "leaf" }, ...entryLine(entry), beyond);
  }
  const count = el("span", { class: "soft" }, `, ${counted(entry.importCount, "import", "imports")}`);
  const details = el("details", { class: "node" }, el("summary", null, ...entryLine(entry), count));
  details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) unfold(details, entry, level, 0); });
  if (level < OPEN_LEVELS && entry.imports.length <= OPEN_IMPORTS) {
    details.open = true;
    unfold(details, entry, level, 0);
  }
  return details;
}

function unfold(details, entry, level, first) {
  const end = Math.min(first + STEP, entry.imports.length);
  for (const i of entry.imports.slice(first, end)) details.append(node(entries[i], level + 1));
  if (end < entry.imports.length) {
    const more = el("button", { type: "button", click: () => { more.remove(); unfold(details, entry, level, end); } },
      `${grouped(entry.imports.length - end)} more`);
    details.append(more);
  } else if (entry.importCount > entry.imports.length) {
    details.append(el("div", { class: "leaf soft" }, `${grouped(entry.importCount - entry.imports.length)} more, not on this page`));
  }
}

function makeTree() {
  return el("div", { class: "tree" }, node(entries[0], 0));
}
