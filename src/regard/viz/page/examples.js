// The table of examples: search, filter by right or wrong, sort, and go to the attention of an example.

const table = { keep: "all", find: "", sort: "number", down: false };

function drawExamples(parent) {
  parent.hidden = !DATA.examples.length;
  if (parent.hidden) return;
  const judged = DATA.examples.some((example) => example.correct !== null);
  const body = make("div", { class: "scroll" });
  const fill = () => refill(body, exampleTable(judged, fill));
  const keep = make("div", { class: "keep" });
  const keepChoice = () => refill(keep, choice(say("mark"), ["all", "right", "wrong"].map((key) =>
    [key, `${say(key)} ${DATA.examples.filter((example) => kept(example, key)).length}`]), table.keep, (value) => {
    table.keep = value;
    keepChoice();
    fill();
  }));
  const find = make("input", { type: "search", placeholder: say("search"), "aria-label": say("search"), dir: "auto",
    oninput: (event) => {
      table.find = event.target.value;
      fill();
    } });
  find.value = table.find;
  if (judged) keepChoice();
  fill();
  parent.className = "card";
  const shaded = DATA.examples.map((example) => example.reference).find((text) => text.tokens);
  const about = shaded ? say("shaded_about", { full: shaded.full, unit: called(shaded.unit) }) : say("examples_about");
  refill(parent, make("h2", {}, say("examples")), referred() ? make("p", { class: "about" }, about) : null,
    DATA.examples.length > 1 ? make("div", { class: "controls" }, judged ? keep : null, find) : null, body);
}

// True if there are references; a sentence typed by a user has none.
function referred() {
  return DATA.examples.some((example) => plain(example.reference) !== "");
}

// True if references mark the source itself: then the source is not shown a second time.
function sourceMarked() {
  return DATA.examples.every((example) => example.reference.spans && example.reference.text === example.source);
}

function kept(example, which) {
  return which === "all" || example.correct === (which === "right");
}

function exampleTable(judged, fill) {
  const find = table.find.toLocaleLowerCase();
  const rows = DATA.examples.map((example, number) => ({ ...example, number }))
    .filter((example) => kept(example, table.keep))
    .filter((example) => ["source", "reference", "output"].map((key) => plain(example[key])).join("\n")
      .toLocaleLowerCase().includes(find));
  const by = table.sort;
  const order = {
    number: () => 0,
    mark: (a, b) => Number(a.correct) - Number(b.correct),
    confidence: (a, b) => (a.confidence ?? -1) - (b.confidence ?? -1),
  }[by] || ((a, b) => plain(a[by]).localeCompare(plain(b[by])));
  const compare = (a, b) => order(a, b) || a.number - b.number;
  rows.sort((a, b) => table.down ? compare(b, a) : compare(a, b));
  if (!rows.length) return make("p", { class: "about" }, say("none_found"));
  const confident = DATA.examples.some((example) => example.confidence !== null);
  const columns = ["number", ...(judged ? ["mark"] : []), ...(sourceMarked() ? [] : ["source"]),
    ...(referred() ? ["reference"] : []), "output", ...(confident ? ["confidence"] : [])];
  const seen = DATA.examples.some((example) => example.maps.length);
  return make("table", { class: "examples" },
    make("thead", {}, make("tr", {}, columns.map((key) => sortHead(key, fill)), seen ? make("td", {}) : null)),
    make("tbody", {}, rows.map((example) => exampleRow(example, columns, seen))));
}

function sortHead(key, fill) {
  const here = table.sort === key;
  const sort = () => {
    table.down = here && !table.down;
    table.sort = key;
    fill();
  };
  return make("th", { scope: "col", "aria-sort": here ? (table.down ? "descending" : "ascending") : null },
    make("button", { type: "button", onclick: sort }, say(key), make("span", { "aria-hidden": "true" },
      here ? (table.down ? " ↓" : " ↑") : "")));
}

function exampleRow(example, columns, seen) {
  const cells = {
    number: () => make("td", { class: "number" }, String(example.number + 1)),
    mark: () => judgement(example.correct),
    confidence: () => make("td", { class: "number", "data-name": say("confidence") },
      example.confidence === null ? "" : `${(100 * example.confidence).toFixed(1)} %`),
  };
  const text = (key, other) => make("td", { dir: "auto", "data-name": say(key) }, nodesOf(example[key], other));
  const others = { source: null, reference: sourceMarked() ? example.output : null, output: example.reference };
  return make("tr", {}, columns.map((key) => cells[key] ? cells[key]() : text(key, others[key])),
    seen ? make("td", {}, example.maps.length ? eye(example.number) : "") : null);
}

function judgement(correct) {
  if (correct === null) return make("td", { class: "mark" });
  const name = correct ? "right" : "wrong";
  return make("td", { class: `mark ${name}`, title: say(name), "aria-label": say(name) }, correct ? "✓" : "✗");
}

// The button that goes to the attention of an example.
function eye(number) {
  return make("button", { type: "button", class: "see", title: say("see"), "aria-label": `${say("see")}: ${number + 1}`,
    onclick: () => goToExample(number) },
  draw("svg", { viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": "true" },
    draw("path", { d: "M2 12 C6 5 18 5 22 12 C18 19 6 19 2 12Z" }), draw("circle", { cx: 12, cy: 12, r: 3.4 })));
}

// The output as text with <mark> around the words outside its longest common subsequence with the reference.
function compared(reference, output) {
  if (output === "") return [empty()];
  if (reference === "" || reference === output) return [output];
  const words = /\s+|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[\p{L}\p{M}\p{N}]+|[^\s]/gu;
  const [a, b] = [reference.match(words) || [], output.match(words) || []];
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const parts = [];
  for (let i = 0, j = 0; j < b.length;) {
    if (i < a.length && a[i] === b[j]) {
      parts.push(b[j]);
      i += 1;
      j += 1;
    } else if (i < a.length && common[i + 1][j] >= common[i][j + 1]) {
      i += 1;
    } else {
      parts.push(/^\s+$/.test(b[j]) ? b[j] : make("mark", {}, b[j]));
      j += 1;
    }
  }
  return parts;
}
