// What a person asks of which run, and what the server answered.

const app = {
  runs: null, limit: 10000, formats: [], showsCode: false, run: null, other: "", inputs: {}, source: "", target: "", tab: "attention",
  sentence: 0, chosen: 0, prefix: "", begun: "", translated: null, result: null, tree: null, problem: "", waiting: false, fixed: false,
  typed: () => {
    closeWordMenu();
    showBusy(currentExample() !== null);
    refreshLater();
  },
  choose: (number) => {
    app.chosen = number;
    inspect();
  },
  chooseSentence: (number) => {
    Object.assign(app, { sentence: number, chosen: 0, prefix: "" });
    inspect();
  },
};
const refreshLater = whenQuiet(() => refresh());

// Say at once that what is shown belongs to an earlier text, until the server has answered.
function showBusy(waiting) {
  app.waiting = waiting;
  for (const part of document.querySelectorAll("#output, #ask .answer, #inside, #compare")) part.ariaBusy = String(waiting);
  const sign = document.getElementById("busy");
  if (sign) sign.hidden = !waiting;
}

function busySign() {
  return make("span", { id: "busy", class: "busy", role: "status", hidden: !app.waiting }, say("busy"));
}

function drawAsk(parent) {
  parent.className = "card";
  document.querySelector("h1").textContent = say("title");
  if (!app.runs) return refill(parent, make("p", { class: "soft" }, app.problem || say("loading")), keyField());
  const form = make("div", { class: "form" });
  const tools = make("div", { class: "tools" });
  refill(parent, runChooser(), form, tools);
  drawTools(tools);
  return app.run.task === "translation" ? drawTranslation(form) : drawForm(form);
}

// A field for the key of a server that asks for one.
function keyField() {
  if (!["missing-key", "wrong-key"].includes(app.code)) return null;
  const input = make("input", { type: "password", id: "key", class: "field", autocomplete: "off", "aria-label": say("api_key"),
    placeholder: say("api_key") });
  return make("div", { class: "controls" }, input, make("button", { type: "button", class: "plain-button", onclick: () => {
    client.key = input.value;
    start();
  } }, say("use_key")));
}

function runChooser() {
  const named = (run) => `${run.name} · ${called(run.task, "task_")}`;
  const runs = app.runs.length > 1 ? make("select", { id: "run", "aria-label": say("run"), onchange: (event) =>
    chooseRun(app.runs.find((run) => run.name === event.target.value)) },
  app.runs.map((run) => make("option", { value: run.name, selected: run === app.run }, named(run))))
    : make("span", { class: "who" }, named(app.run));
  const others = app.runs.filter((run) => run !== app.run && run.task === app.run.task);
  const other = others.length ? make("label", { class: "labelled" }, say("compare_with"),
    make("select", { id: "other", "aria-label": say("compare_with"), onchange: (event) => {
      app.other = event.target.value;
      compare();
    } }, make("option", { value: "", selected: !app.other }, say("no_run")),
    others.map((run) => make("option", { value: run.name, selected: run.name === app.other }, run.name)))) : null;
  return make("div", { class: "run-bar" }, make("span", { class: "labelled" }, app.runs.length > 1 ? say("run") : null, runs),
    make("span", { class: "soft summary" }, app.run.model), other);
}

// Show a run; `state` has the texts and choices of a link or of the page before a reload.
function chooseRun(run, state = {}) {
  const { run: _, from = "", to = app.target, tab = app.tab, ...inputs } = state;
  Object.assign(app, { run, other: "", source: run.directions.some(([code]) => code === from) ? from : "", target: to, tab, inputs: { ...app.inputs, ...inputs }, sentence: 0, chosen: 0, translated: null, result: null, tree: null, problem: "" });
  Object.assign(explorer, { row: null, column: null, layer: MEAN, head: MEAN, off: new Set() });
  settleLanguages();
  if (run.task === "translation" && !app.inputs.src) app.inputs.src = startText();
  remember("run", run.name);
  forgetCurves();
  drawPage();
  app.typed();
}

// Ask for everything again: the text or another field has changed.
async function refresh() {
  if (!app.run) return null;
  Object.assign(app, { chosen: 0, problem: "", prefix: "", begun: "" });
  const { run } = app;
  const count = countTyped();
  try {
    if (count > app.limit) throw new Error(say("too_long", { count: grouped(count), limit: grouped(app.limit) }));
    if (run.task === "translation" && (app.inputs.src || "").trim()) {
      const answer = await translateText({ run: run.name, text: app.inputs.src, source: app.source || null,
        target: app.target || null, glossary: glossaryTerms() });
      if (!answer) return null;
      if (answer.source === app.target && avoidLanguage(answer.source)) return refresh();
      Object.assign(app, { translated: answer, sentence: clamp(app.sentence, 0, Math.max(0, answer.sentences.length - 1)) });
      drawTranslated();
    } else app.translated = null;
    return await inspect();
  } catch (error) {
    return fail(error);
  }
}

// The prediction of the chosen sentence or of the form, with its attention.
async function inspect() {
  const example = exampleWith(app.prefix);
  showBusy(example !== null);
  try {
    const result = example === null ? null : await ask("predict", "predict", { run: app.run.name, example, chosen: app.chosen, off: [...explorer.off] });
    if (result === null && example !== null) return;
    if (app.translated && result && (app.prefix || explorer.off.size)) app.translated = { ...app.translated, text: result.output[0], links: [] };
    Object.assign(app, { result, asked: example?.src || example, tree: null, trouble: "" });
    DATA.examples = result ? [{ source: result.input, reference: "", output: "", correct: null, maps: result.maps }] : [];
    explorer.example = 0;
    showAnswers();
    await compare();
  } catch (error) {
    if (!app.translated) return fail(error);
    Object.assign(app, { result: null, tree: null, trouble: error.message });
    showAnswers(); // the translation stays
  }
}

// The example that the views show; null if there is nothing to predict.
function currentExample() {
  if (app.run.task !== "translation") return formExample();
  const text = sentenceText();
  if (!text.trim()) return null;
  if (app.run.directions.length < 2) return text;
  const from = app.source || app.translated?.source; // a direction without data goes through a third language
  return { src: text, to: app.target, ...(from ? { from } : {}) };
}

function fail(error) {
  Object.assign(app, { problem: error.message, code: error.code, result: null, translated: null, tree: null });
  DATA.examples = [];
  showAnswers();
}

// Characters in the fields of the run, as Python counts them.
function countTyped() {
  return app.run.fields.reduce((sum, { name }) => sum + [...(app.inputs[name] || "")].length, 0);
}

function grouped(number) {
  return number.toLocaleString("en");
}

function showAnswers() {
  showBusy(false);
  showCode();
  if (app.run.task === "translation") drawTranslated();
  else drawAnswer();
  drawInside(document.getElementById("inside"));
}
