// The attention of every head: select an example and a kind of attention, then a head, then a token.

const MEAN = -1; // in place of a head: the mean of a layer's heads; in place of a layer too: the mean of everything
const VIEWS = { matrix: matrixView, lines: linesView, sentence: sentenceView };
const explorer = {
  example: 0, kind: "cross", layer: MEAN, head: MEAN, view: "matrix", lifted: false, row: null, column: null,
  off: new Set(), switches: () => null, // heads that are switched off, and the controls for it, on a served page
};

function drawAttention(parent) {
  const shown = DATA.examples.map((example, n) => [example, n]).filter(([example]) => example.maps.length);
  parent.hidden = !shown.length;
  if (parent.hidden) return;
  if (!DATA.examples[explorer.example].maps.length) explorer.example = shown[0][1];
  const map = currentMap();
  if (!parent.classList.contains("panel")) parent.className = "card";
  const stage = make("div", { class: "stage" });
  const meaning = say(has("about_", map.name) ? `about_${map.name}` : "about_other");
  refill(parent, make("h2", {}, say("attention")), make("p", { class: "about" }, say("attention_about")),
    controls(parent, shown), make("p", { class: "meaning" }, meaning),
    make("div", { class: "explorer" }, make("div", {}, overview(map, parent), explorer.switches()), stage));
  drawStage(stage, map);
}

function currentMap() {
  const maps = DATA.examples[explorer.example].maps;
  const map = maps.find((each) => each.name === explorer.kind) || maps[maps.length - 1];
  explorer.kind = map.name;
  explorer.layer = Math.min(explorer.layer, map.layers - 1);
  explorer.head = Math.min(explorer.head, map.heads - 1);
  return map;
}

// The weights of one layer and head (or a mean) as a sheet: names, values 0 to 1, and how the eye is helped.
function sheetOf(map, layer, head) {
  map.bytes ??= Uint8Array.from(atob(map.weights), (char) => char.charCodeAt(0));
  const size = map.rows.length * map.columns.length;
  const values = new Float32Array(size);
  const picked = [];
  for (let l = 0; l < map.layers; l += 1) {
    for (let h = 0; h < map.heads; h += 1) {
      if ((layer === MEAN || l === layer) && (head === MEAN || h === head)) picked.push(l * map.heads + h);
    }
  }
  for (const plane of picked) {
    for (let n = 0; n < size; n += 1) values[n] += map.bytes[plane * size + n] / 255 / picked.length;
  }
  return { rows: map.rows, columns: map.columns, values, lift: explorer.lifted ? Math.sqrt : (value) => value };
}

// Effective number of attended tokens: the exponential of the mean entropy of a row.
function spread(sheet) {
  const width = sheet.columns.length;
  let sum = 0;
  let count = 0;
  for (let row = 0; row < sheet.rows.length; row += 1) {
    const weights = sheet.values.subarray(row * width, (row + 1) * width);
    const total = weights.reduce((a, b) => a + b, 0);
    if (total === 0) continue;
    sum -= weights.reduce((entropy, w) => entropy + (w > 0 ? (w / total) * Math.log(w / total) : 0), 0);
    count += 1;
  }
  return count ? Math.exp(sum / count) : 0;
}

function choose(parent, change) {
  Object.assign(explorer, change);
  drawAttention(parent);
}

function goToExample(number) {
  const parent = document.getElementById("attention");
  choose(parent, { example: number, row: null, column: null });
  parent.scrollIntoView({ block: "start" });
  parent.querySelector("select, .thumb").focus({ preventScroll: true });
}

function controls(parent, shown) {
  const go = (number) => choose(parent, { example: number, row: null, column: null });
  const place = shown.findIndex(([, n]) => n === explorer.example);
  const option = ([example, n]) => make("option", { value: n, selected: n === explorer.example },
    `${n + 1}. ${label(plain(example.source), 60).replaceAll("␣", " ")}`);
  const select = make("select", { "aria-label": say("example"), dir: "auto",
    onchange: (event) => go(Number(event.target.value)) }, shown.map(option));
  const step = (name, mark, to) => make("button", { type: "button", class: "step", "aria-label": say(name), title: say(name),
    disabled: !shown[to], onclick: () => go(shown[to][1]) }, mark);
  const maps = DATA.examples[explorer.example].maps;
  const lift = make("input", { type: "checkbox", onchange: (event) => choose(parent, { lifted: event.target.checked }) });
  lift.checked = explorer.lifted;
  return make("div", { class: "controls" },
    shown.length > 1 ? make("div", { class: "chooser" }, step("previous", "‹", place - 1), select,
      step("next", "›", place + 1)) : null,
    choice(say("kind"), maps.map((map) => [map.name, called(map.name, "map_")]), explorer.kind,
      (kind) => choose(parent, { kind, row: null, column: null })),
    choice(say("view"), Object.keys(VIEWS).map((view) => [view, say(view)]), explorer.view,
      (view) => choose(parent, { view })),
    make("label", { class: "tick-box" }, lift, say("contrast")));
}

function headName(map, layer, head) {
  if (layer === MEAN) return say("all_mean");
  return say(head === MEAN ? "layer_mean" : "layer_head", { layer: layer + 1, head: head + 1, heads: map.heads });
}

// Every layer and head in small, a row a layer, with the mean of the heads at the end.
function overview(map, parent) {
  const heads = [...Array(map.heads).keys(), MEAN];
  const thumb = (layer, head) => {
    const sheet = sheetOf(map, layer, head);
    const canvas = make("canvas", { "aria-hidden": "true", class: sheet.columns.length > 64 ? "fine" : null });
    paintSmall(canvas, sheet);
    const name = headName(map, layer, head);
    const chosen = explorer.layer === layer && explorer.head === head;
    const off = explorer.off.has(`${map.name}/${layer}/${head}`);
    const button = make("button", { type: "button", class: off ? "thumb off" : "thumb", "aria-label": name, tabindex: chosen ? 0 : -1,
      title: `${name}\n${say("spread", { number: spread(sheet).toFixed(1), count: map.columns.length })}`,
      "aria-pressed": String(chosen),
      onclick: () => {
        Object.assign(explorer, { layer, head });
        for (const each of parent.querySelectorAll(".thumb")) {
          each.setAttribute("aria-pressed", String(each === button));
          each.tabIndex = each === button ? 0 : -1;
        }
        drawStage(parent.querySelector(".stage"), map);
        parent.querySelector("#head-switch")?.replaceWith(explorer.switches());
      } }, canvas);
    return button;
  };
  const rows = [...Array(map.layers).keys()].map((layer) => make("tr", {},
    make("th", { scope: "row" }, String(layer + 1)), heads.map((head) => make("td", {}, thumb(layer, head)))));
  rows.push(make("tr", {}, make("th", { scope: "row", colspan: map.heads + 1, class: "rest" }, say("all_layers")),
    make("td", {}, thumb(MEAN, MEAN))));
  const names = heads.map((head) => make("th", { scope: "col" }, head === MEAN ? say("mean") : String(head + 1)));
  const dense = map.heads > 6;
  const grid = make("table", { class: dense ? "overview dense" : "overview" },
    make("thead", {}, make("tr", {}, make("td", {}),
      make("th", { colspan: map.heads, class: "axis-name" }, say("head")), make("td", {})),
    make("tr", {}, make("th", { class: "axis-name" }, say("layer")), names)), make("tbody", {}, rows));
  grid.addEventListener("keydown", moveInGrid);
  const room = Math.min(parent.clientWidth - 90, dense ? 400 : 335);
  grid.style.setProperty("--thumb", `${clamp(Math.floor(room / (map.heads + 1)) - (dense ? 8 : 16), 18, 64)}px`);
  return make("div", { class: "scroll overview-room" }, grid);
}

// Arrow keys choose the next head or layer.
function moveInGrid(event) {
  const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const thumb = event.target.closest(".thumb");
  if (!move || !thumb) return;
  event.preventDefault();
  const rows = [...event.currentTarget.tBodies[0].rows].map((row) => [...row.querySelectorAll(".thumb")]);
  const row = rows.findIndex((thumbs) => thumbs.includes(thumb));
  const next = rows[clamp(row + move[0], 0, rows.length - 1)];
  const place = rows[row].length === 1 ? next.length - 1 : rows[row].indexOf(thumb); // all layers: below the mean
  const to = next[clamp(place + move[1], 0, next.length - 1)];
  to.focus();
  to.click();
}

// The chosen head, large, with a sentence that reads out what is pointed at.
function drawStage(stage, map) {
  const sheet = sheetOf(map, explorer.layer, explorer.head);
  const reading = make("p", { class: "reading", "aria-live": "polite" });
  const count = map.columns.length;
  const caption = make("div", { class: "caption" }, make("h3", {}, headName(map, explorer.layer, explorer.head)),
    make("span", { class: "soft", title: say("spread_about", { count }) },
      say("spread", { number: spread(sheet).toFixed(1), count })));
  const point = (row, column) => {
    Object.assign(explorer, { row, column });
    view.mark(row, column);
    reading.replaceChildren(...readOut(sheet, row, column));
  };
  const frame = make("div", { class: "scroll" });
  const title = `${called(map.name, "map_")}: ${headName(map, explorer.layer, explorer.head)}`;
  const save = explorer.view === "sentence" ? null : saveButtons(`attention-${map.name}`, title, () => [view.focus]);
  stage.replaceChildren(...[caption, reading, frame, make("div", { class: "below-stage" }, scale(), save)]);
  const view = VIEWS[explorer.view](sheet, stage.clientWidth, point);
  frame.append(view.element);
  view.element.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") point(null, null); // a finger that is lifted leaves what it chose
  });
  view.focus.addEventListener("keydown", (event) => keyed(event, sheet, point));
  point(explorer.row !== null && explorer.row < sheet.rows.length ? explorer.row : null, null);
}

function keyed(event, sheet, point) {
  const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Escape: [] }[event.key];
  if (!move) return;
  event.preventDefault();
  if (!move.length) return point(null, null);
  const step = (now, by, size) => now === null ? (by ? 0 : null) : clamp(now + by, 0, size - 1);
  if (explorer.view !== "matrix") return point(step(explorer.row, move[0] + move[1], sheet.rows.length), null);
  return point(step(explorer.row, move[0], sheet.rows.length), step(explorer.column, move[1], sheet.columns.length));
}

// The colours from 0 to 1.
function scale() {
  const canvas = make("canvas", { "aria-hidden": "true" });
  const steps = Array.from({ length: 64 }, (_, n) => n / 63);
  paintSmall(canvas, { rows: [""], columns: steps, values: steps, lift: explorer.lifted ? Math.sqrt : (value) => value });
  return make("p", { class: "scale" }, "0", canvas, "1");
}
