// The served page: ask, compare, and look inside.

const PARTS = { ask: drawAsk, compare: drawComparison, inside: drawInside };
const FITTED = { compare: drawComparison, inside: drawInside };

function insideTabs() {
  const { run, result } = app;
  const has = { attention: run.attention, arithmetic: run.attention && (!result?.maps.length || result.maps.some((map) => map.steps)),
    beam: run.beam > 0, next: run.next, vectors: run.vectors, training: run.curves, architecture: true };
  return Object.keys(has).filter((key) => has[key]);
}

function drawInside(parent) {
  parent.hidden = !app.run;
  if (parent.hidden) return;
  parent.className = "card";
  const tabs = insideTabs();
  if (!tabs.includes(app.tab)) [app.tab] = tabs;
  const panel = tabPanel(app.tab);
  const focused = parent.contains(document.activeElement) && document.activeElement.id;
  const bar = make("div", { class: "inside-bar" }, tabList(say("inside"), tabs.map((key) => [key, say(`tab_${key}`)]), app.tab,
    (key) => {
      app.tab = key;
      drawInside(parent);
    }), helpButton());
  parent.replaceChildren(bar, ...secondStep(), panel);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  VIEWS_INSIDE[app.tab](panel);
}

// A note if the views show another text than the one that was typed: its translation into a third language.
function secondStep() {
  if (app.run.task !== "translation" || !app.result || ["training", "architecture"].includes(app.tab)) return [];
  const [asked, read] = [app.asked, app.result.input].map((text) => text.split(/\s+/).join(" ").trim());
  return asked === read ? [] : [make("p", { class: "soft", id: "second-step" }, say("second_step", { text: read }))];
}

const VIEWS_INSIDE = {
  attention: (panel) => {
    if (!app.result?.maps.length) return refill(panel, waitingText());
    return drawAttention(panel);
  },
  arithmetic: (panel) => app.result?.maps.length ? drawArithmetic(panel, app.result.maps, (map, layer, head) => ask("head", "head",
    { run: app.run.name, example: exampleWith(app.prefix), chosen: app.chosen, map: map.name, layer, head })) : refill(panel, waitingText()),
  beam: (panel) => app.result ? showBeam(panel) : refill(panel, waitingText()),
  next: (panel) => app.result ? drawNext(panel) : refill(panel, waitingText()),
  vectors: (panel) => drawVectorForm(panel),
  training: (panel) => drawTraining(panel),
  architecture: (panel) => drawArchitecture(panel),
};

// The parts of the model as Python draws them; they stay the same as long as the run does.
async function drawArchitecture(panel) {
  const { name } = app.run;
  try {
    if (app.architecture?.name !== name) {
      const drawn = await ask("architecture", `architecture?run=${encodeURIComponent(name)}`);
      if (!drawn) return;
      app.architecture = { name, ...drawn };
    }
    const { text } = app.architecture;
    const shown = picture({ picture: app.architecture[page.language], text: text[page.language] ?? text });
    const save = make("button", { type: "button", class: "plain-button", id: "save-architecture",
      onclick: () => saveFile("architecture.svg", new Blob([app.architecture[page.language]], { type: "image/svg+xml" })) }, "SVG");
    if (panel.isConnected) refill(panel, make("p", { class: "about" }, say("architecture_about")), save, shown);
  } catch (error) {
    refill(panel, make("p", { class: "problem" }, error.message));
  }
}

function waitingText() {
  const problem = app.trouble || app.result?.problem;
  return make("p", { class: problem ? "problem" : "soft" }, problem || say("nothing_yet"));
}

// The beam of the chosen sentence, as wide as the search of the run or as a person likes.
async function showBeam(panel) {
  const widths = [...new Set([1, 2, 3, 4, 5, 6, app.run.beam])].sort((a, b) => a - b);
  const width = app.width || app.run.beam;
  const controls = make("span", { class: "labelled" }, say("width"), picker(say("width"), widths.map((n) => [n, String(n)]), width, (n) => {
    Object.assign(app, { width: n === app.run.beam ? 0 : n, tree: null });
    beam.node = null;
    showBeam(panel);
  }));
  try {
    app.tree ??= await ask("beam", "beam", { run: app.run.name, example: exampleWith(app.prefix), width: app.width || null });
    if (app.tree && panel.isConnected) drawBeam(panel, app.tree, controls);
  } catch (error) {
    refill(panel, make("p", { class: "problem" }, error.message));
  }
}

// Texts, one on each line, and their map.
function drawVectorForm(panel) {
  const map = make("div", {});
  const show = async () => {
    const texts = (app.inputs.lines || "").split("\n").map((line) => line.trim()).filter(Boolean);
    if (texts.length < 2) return refill(map, make("p", { class: "soft" }, say("two_texts")));
    try {
      const found = await ask("texts", "texts", { run: app.run.name, texts });
      return found && drawVectors(map, found);
    } catch (error) {
      return refill(map, make("p", { class: "problem" }, error.message));
    }
  };
  const later = whenQuiet(show);
  const input = make("textarea", { class: "field", id: "lines", rows: 5, dir: "auto", spellcheck: "false", "aria-label": say("texts_label"),
    placeholder: say("texts_label"), oninput: (event) => {
      app.inputs.lines = event.target.value;
      later();
    } });
  input.value = app.inputs.lines || "";
  refill(panel, make("p", { class: "about" }, say("vectors_about")), input, map);
  show();
}

// Ask which runs there are, and draw the page.
async function start() {
  try {
    const answer = await ask("runs", "runs");
    Object.assign(app, { runs: answer.runs, limit: answer.limit, formats: answer.formats, problem: "" });
    DATA.facts = [];
    const state = takeState();
    chooseRun(answer.runs.find((run) => run.name === (state.run || remembered("run"))) || answer.runs[0], state);
    beginTyping();
  } catch (error) {
    Object.assign(app, { problem: error.message, code: error.code });
    drawPage();
  }
}

// The cursor is in the first field, with an example selected; on a phone this would open the keyboard.
function beginTyping() {
  const field = document.querySelector("#ask textarea, #ask input.field");
  if (!window.matchMedia("(pointer: fine)").matches || !field) return;
  field.focus({ preventScroll: true });
  if (field.value && field.value === startText()) field.select();
}

document.addEventListener("keydown", shortcutKeys);
document.addEventListener("pointerdown", (event) => event.target.closest("#word-menu") || closeWordMenu());
window.addEventListener("pagehide", keepState);
window.addEventListener("hashchange", () => {
  if (app.runs && window.location.hash.includes("=")) start();
});
start();
