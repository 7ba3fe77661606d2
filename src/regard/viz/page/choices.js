// Words of a translated sentence: unsure ones are marked; click one to choose another and let the rest follow, or to see
// what it looks at.

const UNSURE = 0.5; // a word with a less probable token is marked
const OFFERED = 8;
const LEAST_OFFERED = Math.log(0.0005);
const END = /^⟨.*⟩$/u;

// The text if its tokens are known: one sentence, as the search gave it. A glossary or a second sentence changes it.
function searchedText() {
  const text = app.translated?.text.trim();
  const known = app.run.beam > 0 && app.translated?.sentences.length < 2 && app.result?.hypotheses[0]?.text === text;
  return known ? text : "";
}

// Where tokens are in a text, in UTF-16 units as a browser counts; null if they are not its tokens.
function tokenPlaces(tokens, text) {
  let end = 0;
  const places = tokens.map((token, n) => {
    const written = token.replaceAll("␣", " ");
    const [start, length] = [end, n ? written.length : written.trimStart().length];
    end += length;
    return [start, end];
  });
  return tokens.join("").replaceAll("␣", " ").trim() === text ? places : null;
}

// ---- unsure words

function unsureBox() {
  if (!app.run.beam || !window.CSS?.highlights) return null;
  const input = make("input", { type: "checkbox", id: "unsure", onchange: () => {
    remember("unsure", input.checked ? "yes" : "");
    markUnsure();
  } });
  input.checked = remembered("unsure") === "yes";
  return make("label", { class: "tick-box", title: say("unsure_about", { percent: 100 * UNSURE }) }, input, say("unsure"));
}

async function markUnsure() {
  window.CSS?.highlights?.delete("unsure");
  const text = searchedText();
  if (!text || remembered("unsure") !== "yes") return;
  try {
    app.tree ??= await ask("beam", "beam", { run: app.run.name, example: exampleWith(app.prefix), width: app.width || null });
  } catch {
    return; // the beam's own view says why
  }
  const output = document.getElementById("output");
  if (!app.tree || app.tree.leaves[0] === null || output?.textContent !== app.translated?.text || searchedText() !== text) return;
  const path = pathTo(app.tree, app.tree.leaves[0]).map((n) => app.tree.nodes[n]).filter((node) => !END.test(node[TOKEN]));
  const places = tokenPlaces(path.map((node) => node[TOKEN]), text);
  const unsure = (places || []).filter((_, n) => Math.exp(path[n][LOG_PROB]) < UNSURE);
  const words = [...new Intl.Segmenter(app.target || "en", { granularity: "word" }).segment(text)].filter((word) => word.isWordLike)
    .map(({ index, segment }) => [index, index + segment.length]);
  const marked = words.filter(([start, end]) => unsure.some(([from, to]) => from < end && to > start));
  CSS.highlights.set("unsure", new Highlight(...marked.map((place) => rangeOf(output, ...place))));
}

// A range of characters in an element.
function rangeOf(element, start, end) {
  const range = new Range();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let done = 0;
  while (walker.nextNode()) {
    const { length } = walker.currentNode;
    if (start >= done && start <= done + length) range.setStart(walker.currentNode, start - done);
    if (end > done && end <= done + length) range.setEnd(walker.currentNode, end - done);
    done += length;
  }
  return range;
}

// ---- other words

// The word at the pointer, with its place in the text.
function wordAt(event, text) {
  const found = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  if (!found || !event.currentTarget.contains(found.offsetNode)) return null;
  const range = new Range();
  range.setStart(event.currentTarget, 0);
  range.setEnd(found.offsetNode, found.offset);
  const place = range.toString().length;
  const words = [...new Intl.Segmenter(app.target || "en", { granularity: "word" }).segment(text)];
  return words.find(({ index, segment }) => segment.trim() && index <= place && place <= index + segment.length
    && [...rangeOf(event.currentTarget, index, index + segment.length).getClientRects()].some((box) => box.left <= event.clientX
      && event.clientX <= box.right && box.top <= event.clientY && event.clientY <= box.bottom)) || null;
}

async function openWordMenu(event) {
  closeWordMenu();
  const text = searchedText();
  const word = text && window.getSelection().isCollapsed ? wordAt(event, text) : null;
  if (!word) return;
  const before = text.slice(0, word.index).trimEnd();
  const menu = make("div", { id: "word-menu", class: "card", role: "dialog", "aria-label": word.segment, onkeydown: (key) => {
    if (key.key === "Escape") closeWordMenu();
  } }, make("p", { class: "soft" }, say("loading")));
  const box = event.currentTarget.getBoundingClientRect();
  document.querySelector(".boxes").append(menu);
  const boxes = document.querySelector(".boxes").getBoundingClientRect();
  menu.style.insetBlockStart = `${event.clientY - boxes.top + 18}px`;
  menu.style.insetInlineStart = `${clamp(event.clientX - boxes.left, box.left - boxes.left, Math.max(0, boxes.width - 250))}px`;
  try {
    const tree = await ask("words", "beam", { run: app.run.name, example: exampleWith(before), width: OFFERED });
    if (!tree || !menu.isConnected) return;
    refill(menu, make("p", { class: "who" }, word.segment), offers(tree, before), make("button", { type: "button", class: "plain-button",
      onclick: () => showWhy(text, word) }, say("why")));
    menu.querySelector("button").focus({ preventScroll: true });
  } catch (error) {
    refill(menu, make("p", { class: "problem" }, error.message));
  }
}

function closeWordMenu() {
  document.getElementById("word-menu")?.remove();
}

// The example of the page with an output that begins with `prefix`.
function exampleWith(prefix) {
  const example = currentExample();
  return prefix ? { ...(typeof example === "string" ? { src: example } : example), prefix } : example;
}

// The most probable tokens after what comes before: those of the first step with a choice.
function offers(tree, before) {
  const steps = Map.groupBy(tree.nodes, (node) => node[STEP]);
  const first = [...steps.values()].find((nodes) => nodes.length > 1) || [];
  const tokens = first.filter((node) => !END.test(node[TOKEN]) && node[LOG_PROB] > LEAST_OFFERED).sort((a, b) => b[LOG_PROB] - a[LOG_PROB]).slice(0, OFFERED);
  return make("ol", { class: "offers" }, tokens.map((node) => {
    const share = 100 * Math.exp(node[LOG_PROB]);
    const button = make("button", { type: "button", class: "share", onclick: () => {
      app.prefix = `${before}${node[TOKEN].replaceAll("␣", " ")}`.trim();
      closeWordMenu();
      app.chosen = 0;
      inspect();
    } }, make("bdi", {}, label(node[TOKEN])), make("span", { class: "figure" }, `${share.toFixed(share < 10 ? 1 : 0)} %`));
    button.style.setProperty("--share", `${share}%`);
    return make("li", {}, button);
  }));
}

// Show the attention of a word's first token.
function showWhy(text, word) {
  closeWordMenu();
  const map = app.result.maps.find((each) => each.name === "cross") || app.result.maps[0];
  if (!map) return;
  const tokens = map.rows.filter((token) => !END.test(token));
  const row = (tokenPlaces(tokens, text) || []).findIndex(([, end]) => end > word.index);
  Object.assign(explorer, { kind: map.name, row: row < 0 ? null : row, column: null });
  app.tab = "attention";
  const inside = document.getElementById("inside");
  drawInside(inside);
  inside.querySelector(".stage")?.scrollIntoView({ block: "nearest" });
}
