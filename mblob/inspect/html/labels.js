// What is written on an area of the map: as much of its name as fits, and always what tells it from the areas beside it.

const LINE = 16; // height of a line
const TOKENS = /\d+|\p{L}+|[^\d\p{L}]/gu; // a number or a word is never cut where ends in common are dropped
const COMPONENTS = /[^./]+/g;

// How many items all lists have in common at their start, and behind that at their end; each keeps one at least.
function commonEnds(lists) {
  const room = Math.min(...lists.map((list) => list.length)) - 1;
  const same = (item) => lists.every((list) => item(list) === item(lists[0]));
  let head = 0, tail = 0;
  while (head < room && same((list) => list[head])) head++;
  while (head + tail < room && same((list) => list[list.length - 1 - tail])) tail++;
  return [head, tail];
}

// The names of areas without what all of them begin and end with; [those, the beginning, the end].
function distinct(names, pattern) {
  if (names.length < 2) return [names, "", ""];
  const lists = names.map((name) => [...name.matchAll(pattern)]);
  if (lists.some((list) => !list.length)) return [names, "", ""];
  const [head, tail] = commonEnds(lists.map((list) => list.map((match) => match[0])));
  const spans = lists.map((list) => {
    const last = list[list.length - 1 - tail];
    return [list[head].index, last.index + last[0].length];
  });
  return [names.map((name, i) => name.slice(...spans[i])), names[0].slice(0, spans[0][0]), names[0].slice(spans[0][1])];
}

// Of each name the shortest run of its parts, at its start or else at its end, that no other name has there; the name
// itself where there is none.
function shortest(names, pattern, sides) {
  const of = names.map((name) => {
    const found = [...name.matchAll(pattern)];
    return {
      start: found.map((match) => name.slice(0, match.index + match[0].length)),
      end: found.map((match) => name.slice(match.index)).reverse(),
    };
  });
  const seen = new Map();
  const key = (side, run) => `${side} ${run}`;
  for (const runs of of) {
    for (const side of sides) for (const run of runs[side]) seen.set(key(side, run), (seen.get(key(side, run)) || 0) + 1);
  }
  return names.map((name, i) => {
    for (let n = 0; n < of[i].start.length; n++) {
      const side = sides.find((one) => seen.get(key(one, of[i][one][n])) === 1 && /[\p{L}\d]/u.test(of[i][one][n]));
      if (side) return of[i][side][n];
    }
    return name;
  });
}

// For each of some areas that lie side by side what may stand for its name, from the longest to the shortest, the names of
// those it must differ from, and how many letters a cut name must keep. An area inside of `outer` leaves out what that one's
// name says already. Only of names of tensors parts say something: a number of a layer. Of `.rodata` or a symbol they do not.
function labelsOf(parts, outer) {
  const inside = (node) => {
    const known = outer && outer.kind === "tensor" && node.kind === "tensor" && node.name.startsWith(outer.name);
    return known && node.name.length > outer.name.length + 1 ? node.name.slice(outer.name.length + 1) : node.name;
  };
  const whole = (node) => [inside(node), ...(node.made ? ["rest"] : node.entry ? [`[${node.entry.index}]`] : [])];
  const labels = new Map(parts.map((node) => [node, { forms: whole(node), peers: [], least: 8 }]));
  const tensors = parts.filter((node) => node.kind === "tensor" && !node.made), names = tensors.map(inside);
  const byComponent = distinct(names, COMPONENTS)[0], few = shortest(byComponent, COMPONENTS, ["start", "end"]);
  const byToken = distinct(few, TOKENS)[0], starts = shortest(byToken, TOKENS, ["start"]);
  tensors.forEach((node, i) => {
    const forms = [names[i], byComponent[i], few[i], byToken[i], byToken[i] === starts[i] || tensors.length === 1 ? byToken[i] : `${starts[i]}…`];
    labels.set(node, { forms: forms.filter((form, k) => form && (!k || form.length < forms[k - 1].length)), peers: few, least: 4 });
  });
  return labels;
}

// What a group of areas is called: how many of what, and the numbers that their names differ in or else their sizes; and
// `rest`, what the names have in common behind the numbers.
function groupName(children, sizes) {
  const kindOf = (child) => (child.entry ? "entry" : child.kind);
  const number = new Map();
  for (const child of children) number.set(kindOf(child), (number.get(kindOf(child)) || 0) + 1);
  const kind = [...number.keys()].reduce((most, one) => (number.get(one) > number.get(most) ? one : most));
  const many = counted(number.get(kind), ...({ tensor: ["tensor", "tensors"], entry: ["entry", "entries"] }[kind] || ["part", "parts"]));
  const others = children.length - number.get(kind), more = others ? ` and ${grouped(others)} more` : "";
  const [middles, head, rest] = distinct(children.filter((child) => kindOf(child) === kind).map((child) => child.name), TOKENS);
  const numbers = middles.map((middle) => (/^\d{1,15}$/.test(middle) ? Number(middle) : NaN)).sort((a, b) => a - b);
  if (numbers.length > 1 && numbers[numbers.length - 1] - numbers[0] === numbers.length - 1) {
    return { name: `${many} ${head}${numbers[0]}-${numbers[numbers.length - 1]}${more}`, rest };
  }
  const common = /[\p{L}\d]/u.test(head) ? ` ${head}*` : "";
  return { name: `${many}${common}${more} of ${sizes}`, rest: "" };
}

const pen = document.createElement("canvas").getContext("2d");
pen.font = `12px ${getComputedStyle(document.body).fontFamily}`; // as the style has it

const fits = (text, room) => pen.measureText(text).width <= room;

// The start or the end of a text with an ellipsis, whichever fewer of the others have in common with it; "" where so
// little room is left that it would say nothing, and of a number, which would be another one.
function clipped(form, peers, least, room) {
  const letters = [...form];
  if (/^(\d*|.*…|\[\d+\]|rest)$/.test(form)) return ""; // the shortest start that tells it from the others is one of the forms
  let most = Math.min(letters.length - 1, 500), kept = 0;
  const widest = (n) => Math.max(...[letters.slice(0, n), letters.slice(-n)].map((some) => pen.measureText(`${some.join("")}…`).width));
  while (kept < most) {
    const middle = (kept + most + 1) >> 1;
    if (widest(middle) <= room) kept = middle;
    else most = middle - 1;
  }
  if (kept < least) return "";
  const start = letters.slice(0, kept).join(""), end = letters.slice(-kept).join("");
  const sharing = (test) => peers.filter(test).length;
  return sharing((peer) => peer.startsWith(start)) <= sharing((peer) => peer.endsWith(end)) ? `${start}…` : `…${end}`;
}

// The label of an area at a place: its name, upright where only so it fits, and below it what it is: lines, of each the
// first form that fits.
function drawLabel({ forms, peers, least }, below, [x, y, width, height]) {
  const shown = forms.map((form) => show(form.slice(0, 500))), others = peers.map(show);
  const edge = Math.min(width, height) < 40 ? 2 : 4;
  const roomOf = (length, across) => (length >= LINE && across >= LINE ? length - 2 * edge : 0);
  const across = roomOf(width, height), upright = height > width ? roomOf(height, width) : 0;
  const whole = (room) => shown.find((form) => !form.endsWith("…") && fits(form, room));
  const short = (room) => shown.find((form) => fits(form, room)) || clipped(shown[shown.length - 1], others, least, room);
  const turned = (words) => svg("text", { transform: `translate(${x + 4} ${y + edge}) rotate(90)`, y: -1 }, words);
  if (!whole(across) && whole(upright)) return [turned(whole(upright))];
  const name = whole(across) || (across && short(across));
  if (!name) return upright && short(upright) ? [turned(short(upright))] : [];
  const rows = Math.floor((height - 2) / (LINE - 1)) - 1;
  const more = below.map((choices) => choices.map(show).find((form) => form && fits(form, across))).filter(Boolean);
  return [name, ...more.slice(0, rows)].map((words, row) => svg("text", { x: x + edge, y: y + 13 + row * (LINE - 1) }, words));
}
