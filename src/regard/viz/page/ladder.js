// The ladder: one table of all variants, and their attention on the same sentences side by side.

const PARTS = { ladder: drawLadder, pictures: drawPictures, failures: drawFailures };
const FITTED = { pictures: drawPictures };
const gallery = { sentence: 0 };

function titled(entry) {
  return page.language === "zh" ? entry.zh : entry.en;
}

function drawLadder(parent) {
  const head = DATA.columns.map((key) => make("th", { scope: "col", title: say(`about_${key}`) }, say(`column_${key}`)));
  const rows = DATA.rows.map((row) => make("tr", {}, make("th", { scope: "row", title: row.settings }, titled(row),
    make("span", { class: "soft" }, row.paper)), DATA.columns.map((key) => cell(row.cells[key]))));
  parent.className = "card";
  refill(parent, make("h2", {}, say("ladder")), make("p", { class: "about" }, say("ladder_about")),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say("ladder") },
      make("table", { class: "ladder" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, say("variant")), head)),
        make("tbody", {}, rows))),
    make("dl", { class: "sentence-pair" }, DATA.columns.map((key) =>
      [make("dt", {}, say(`column_${key}`)), make("dd", { class: "soft" }, say(`about_${key}`))]).flat()));
}

function cell(value) {
  if (!value) return make("td", { class: "soft" }, "–");
  const element = make("td", { class: value.best ? "best" : null }, value.mean,
    value.deviation ? make("span", { class: "spread" }, ` ± ${value.deviation}`) : null);
  if (value.share !== null) element.style.setProperty("--share", `${Math.round(100 * value.share)}%`);
  return element;
}

function drawPictures(parent) {
  parent.hidden = !DATA.sentences.length;
  if (parent.hidden) return;
  const sentence = DATA.sentences[gallery.sentence];
  const options = DATA.sentences.map((_, n) => [n, String(n + 1)]);
  const variants = make("div", { class: "variants" });
  parent.className = "card";
  refill(parent, make("h2", {}, say("pictures")), make("p", { class: "about" }, say("pictures_about")),
    make("div", { class: "controls" }, choice(say("sentence"), options, gallery.sentence, (number) => {
      gallery.sentence = number;
      drawPictures(parent);
    })),
    make("dl", { class: "sentence-pair" },
      make("dt", {}, say("source")), make("dd", { dir: "auto" }, sentence.source),
      make("dt", {}, say("reference")), make("dd", { dir: "auto" }, sentence.reference)), variants);
  variants.replaceChildren(...sentence.pictures.map((picture) => make("figure", {})));
  const width = variants.firstChild.clientWidth;
  sentence.pictures.forEach((picture, n) => variants.children[n].append(...drawPicture(picture, sentence.reference, width)));
}

// The name of a variant, its output and its attention.
function drawPicture(picture, reference, width) {
  const right = picture.output === reference;
  const mark = make("span", { class: right ? "mark right" : "mark wrong", "aria-label": say(right ? "right" : "wrong") },
    right ? "✓ " : "✗ ");
  const caption = [make("figcaption", {}, titled(picture), make("span", { class: "soft" }, headName(picture.head))),
    make("p", { class: "written", dir: "auto" }, DATA.marked ? mark : null, picture.output || say("empty"))];
  if (!picture.map) return [...caption, make("p", { class: "soft" }, say(picture.has_attention ? "too_long" : "no_attention"))];
  const values = Uint8Array.from(atob(picture.map.weights), (char) => char.charCodeAt(0));
  const sheet = { rows: picture.map.rows, columns: picture.map.columns, values: Float32Array.from(values, (v) => v / 255),
    lift: (value) => value };
  const reading = make("p", { class: "reading", "aria-live": "polite" });
  const point = (row, column) => {
    view.mark(row, column);
    reading.replaceChildren(...(row === null && column === null ? [] : readOut(sheet, row, column)));
  };
  const view = matrixView(sheet, width, point);
  view.element.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") point(null, null);
  });
  return [...caption, make("div", { class: "scroll" }, view.element), reading];
}

function headName(selected) {
  if (!selected) return "";
  const [layer, head] = selected;
  if (!layer) return ` ${say("head_all")}`;
  return ` ${head ? say("head_one", { layer, head }) : say("head_mean", { layer })}`;
}

function drawFailures(parent) {
  parent.hidden = !DATA.failures.length;
  if (parent.hidden) return;
  parent.className = "card";
  refill(parent, make("h2", {}, say("failures")), make("p", { class: "about" }, say("failures_about")),
    make("dl", { class: "sentence-pair" }, DATA.failures.map((failure) =>
      [make("dt", {}, failure.variant), make("dd", { dir: "auto" }, failure.reason)]).flat()));
}
