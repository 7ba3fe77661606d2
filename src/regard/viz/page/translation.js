// Translate as you type: two boxes, the languages above them, alignment between them, and the best alternatives below.

const SAMPLES = {
  en: ["The old man reads a book in the garden because the weather is good.", "I would like to drink a cup of coffee."],
  de: ["Wir sind nach Hause gegangen, weil es regnete.", "Wo ist der nächste Bahnhof?"],
  fr: ["Nous sommes rentrés à la maison parce qu'il pleuvait.", "Où est la gare la plus proche ?"],
  es: ["Volvimos a casa porque estaba lloviendo.", "¿Dónde está la estación más cercana?"],
  zh: ["我喜欢在早上喝一杯热茶。", "最近的火车站在哪里？"],
};

const LONG_TEXT = 200; // characters
const PROBABLE = 0.2; // a language that is less probable is not shown

function drawTranslation(parent) {
  const source = make("textarea", { id: "source", class: "field", dir: "auto", spellcheck: "false",
    "aria-label": say("source_text"), placeholder: say("type_here"),
    oninput: (event) => {
      app.inputs.src = event.target.value;
      showMirror(null);
      countCharacters();
      document.querySelector(".samples")?.remove();
      app.typed();
    },
    onpointermove: (event) => showLinks(app.translated && linksAt(app.translated.links, placeUnder(event))),
    onpointerleave: () => showLinks(null),
    ondragover: (event) => event.dataTransfer.types.includes("Files") && event.preventDefault(),
    ondrop: (event) => {
      const [file] = event.dataTransfer.files;
      if (!file) return;
      event.preventDefault();
      translateFile(file, document.getElementById("file-note"));
    },
    onclick: chooseSentenceAtCaret,
    onkeyup: chooseSentenceAtCaret });
  source.value = app.inputs.src || "";
  source.addEventListener("scroll", () => {
    document.querySelector(".mirror").scrollTop = source.scrollTop;
  });
  const output = make("div", { class: "field output", id: "output", tabindex: 0, role: "textbox", "aria-readonly": "true",
    "aria-label": say("translated_text"), "aria-live": "polite", dir: "auto", onclick: openWordMenu });
  refill(parent, make("div", { class: "boxes" },
    make("div", { class: "box" }, languageBar("source"), make("div", { class: "typed" },
      make("div", { class: "mirror field", "aria-hidden": "true", dir: "auto" }), source),
    make("div", { class: "below" }, make("span", { class: "soft figure", id: "count" }), fileButton())),
    make("div", { class: "box" }, languageBar("target"), output,
      make("div", { class: "below" }, make("span", { class: "soft figure", id: "score" }), busySign(), unsureBox(),
        make("button", { type: "button", class: "plain-button", id: "copy",
          onclick: (event) => copyText(event.currentTarget, app.translated?.text || "", say("copy")) }, say("copy"))))),
  samples(), make("div", { id: "best" }));
  linkKeys(output, showLinks, () => app.translated?.links || [], TARGET_START);
  output.addEventListener("keydown", (event) => {
    const box = event.key === "Enter" && output.querySelector(".marked")?.getBoundingClientRect();
    if (box) output.dispatchEvent(new MouseEvent("click", { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }));
  });
  countCharacters();
  drawTranslated();
}

// The languages of one side; a run that does not say its languages has none.
function languageBar(side) {
  const { directions } = app.run;
  if (!directions.length) return make("div", { class: "language-bar" }, make("span", { class: "soft" }, say(`${side}_text`)));
  const sources = [...new Set(directions.map(([from]) => from))].sort(byName);
  const targets = [...new Set(directions.filter(([from]) => !app.source || from === app.source).map(([, to]) => to))].sort(byName);
  const codes = side === "source" ? sources : targets;
  const choices = codes.map((code) => make("option", { value: code, selected: code === app[side] }, languageName(code)));
  if (side === "source") choices.unshift(make("option", { value: "", selected: !app.source }, say("detect")));
  const select = make("select", { "aria-label": say(`${side}_language`), onchange: (event) => {
    chooseLanguages({ [side]: event.target.value });
    drawAsk(document.getElementById("ask"));
    app.typed();
  } }, choices);
  const swap = make("button", { type: "button", class: "step", id: "swap", "aria-label": say("swap"), title: say("swap"),
    onclick: swapLanguages }, "⇄");
  return make("div", { class: "language-bar" }, side === "target" ? swap : null, select,
    side === "source" ? make("span", { class: "soft", id: "detected" }) : null);
}

function languageName(code) {
  try {
    return new Intl.DisplayNames([page.language], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

function byName(a, b) {
  return languageName(a).localeCompare(languageName(b), page.language);
}

// A person chooses languages: the target is remembered, and an example that was not changed fits them.
function chooseLanguages(change) {
  const isExample = Object.values(SAMPLES).flat().includes(app.inputs.src);
  Object.assign(app, change, { fixed: app.fixed || "target" in change });
  settleLanguages();
  if ("target" in change) remember("target", app.target);
  if (isExample) app.inputs.src = startText();
}

// If the chosen target cannot be reached from the source: the target chosen last, the browser's languages, the first.
function settleLanguages(besides = app.source) {
  const all = app.run.directions.filter(([from]) => !app.source || from === app.source).map(([, to]) => to);
  const targets = all.filter((code) => code !== besides);
  if (targets.includes(app.target)) return;
  const same = (code, wish) => code.toLowerCase().split("-")[0] === wish.toLowerCase().split("-")[0];
  const wishes = [remembered("target"), ...navigator.languages].flatMap((wish) => targets.filter((code) => same(code, wish)));
  app.target = wishes[0] || targets[0] || all[0] || "";
}

// The text is in the target language: take another target, unless a person chose this one; true if there is another.
function avoidLanguage(code) {
  if (app.fixed || app.source) return false;
  settleLanguages(code);
  if (app.target === code) return false;
  drawAsk(document.getElementById("ask"));
  return true;
}

function swapLanguages() {
  const from = app.source || app.translated?.source || "";
  const possible = app.run.directions.some(([a, b]) => a === app.target && b === from);
  if (!from || !possible) return;
  chooseLanguages({ source: app.target, target: from });
  if (app.translated) app.inputs.src = app.translated.text;
  drawAsk(document.getElementById("ask"));
  app.typed();
}

// The language of the examples: the source, else English or the first that leads to the target.
function sampleLanguage() {
  const sources = app.run.directions.filter(([, to]) => to === app.target).map(([from]) => from);
  return app.source || (sources.includes("en") ? "en" : sources.find((code) => SAMPLES[code]));
}

// The example that the page starts with.
function startText() {
  return SAMPLES[sampleLanguage()]?.[0] || "";
}

function samples() {
  const code = sampleLanguage();
  if (!SAMPLES[code] || (app.inputs.src && !SAMPLES[code].includes(app.inputs.src))) return null;
  return make("div", { class: "samples" }, SAMPLES[code].map((text) => make("button", { type: "button", class: "plain-button",
    lang: code, onclick: () => {
      app.inputs.src = text;
      drawAsk(document.getElementById("ask"));
      app.typed();
    } }, text)));
}

function countCharacters() {
  const [count, shown] = [countTyped(), document.getElementById("count")];
  shown.textContent = say("characters", { count: grouped(count), limit: grouped(app.limit) });
  shown.classList.toggle("problem", count > app.limit);
}

// Translate a text; of a long one, show what is known of its sentences while the others are translated.
async function translateText(body) {
  if (body.text.length > LONG_TEXT) {
    const sentences = [];
    const finished = await listen("translate", "translate/stream", body, (name, data) => {
      if (name === "partial" || name === "segment") sentences[data.segment] = data.translation;
      const output = document.getElementById("output");
      if (!output || name === "error") return;
      output.ariaBusy = "false"; // the sign stays: more follows
      output.textContent = sentences.filter(Boolean).join(" ");
    });
    if (!finished) return null;
  }
  return ask("translate", "translate", body); // the sentences are known to the server: this adds the alignment
}

// The translation with its links, what was detected, and the alternatives of the chosen sentence.
function drawTranslated() {
  const [output, best, score] = ["output", "best", "score"].map((id) => document.getElementById(id));
  if (!output) return;
  const shown = app.translated;
  if (app.problem) output.replaceChildren(make("span", { class: "problem" }, app.problem));
  else output.replaceChildren(...(shown ? linkedText(shown.text, shown.links, TARGET_START, showLinks) : []));
  const detected = document.getElementById("detected");
  const unsure = !app.source && shown?.problems?.includes("unsure-language");
  const guesses = ((!app.source && shown?.detected) || []).slice(0, unsure ? undefined : 1)
    .filter((guess) => guess.confidence >= PROBABLE)
    .map((guess) => `${languageName(guess.language)} ${Math.round(100 * guess.confidence)} %`);
  if (detected) detected.textContent = [...(unsure ? [say("unsure_language")] : []), ...guesses].join(", ");
  score.textContent = app.result && Number.isFinite(app.result.score) ? `${say("output_score")} ${written(app.result.score, 2)}` : "";
  markUnsure();
  refill(best, sentenceChooser(), alternatives(app.result?.hypotheses || [], app.chosen, app.choose));
}

// Mark linked words on both sides; null for none.
function showLinks(links) {
  const output = document.getElementById("output");
  if (!output) return;
  markLinked(output, links, TARGET_START);
  showMirror(links);
}

// A copy of the typed text behind the text box, in which words are marked: a text box itself has no marks.
function showMirror(links) {
  const mirror = document.querySelector(".mirror");
  const characters = [...(app.inputs.src || "")];
  const parts = [];
  let done = 0;
  for (const [start, end] of [...(links || [])].sort((a, b) => a[SOURCE_START] - b[SOURCE_START])) {
    if (start < done) continue;
    parts.push(characters.slice(done, start).join(""), make("mark", {}, characters.slice(start, end).join("")));
    done = end;
  }
  mirror.replaceChildren(...parts, characters.slice(done).join(""), "\n");
  mirror.scrollTop = document.getElementById("source").scrollTop;
}

// The place of the character under the pointer; -1 if the browser cannot tell.
function placeUnder(event) {
  const found = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  if (!found || found.offsetNode !== event.target) return -1;
  return [...event.target.value.slice(0, found.offset)].length;
}

// The sentences of a longer text: alternatives, attention and beam are those of one of them.
function sentenceChooser() {
  const count = app.translated?.sentences.length || 0;
  if (count < 2) return null;
  const step = (name, mark, to) => make("button", { type: "button", class: "step", "aria-label": say(name), title: say(name),
    disabled: to < 0 || to >= count, onclick: () => app.chooseSentence(to) }, mark);
  return make("div", { class: "sentence-chooser" }, step("previous_sentence", "‹", app.sentence - 1),
    make("span", {}, say("sentence_of", { number: app.sentence + 1, count })), step("next_sentence", "›", app.sentence + 1),
    make("bdi", { class: "soft" }, label(sentenceText(), 60).replaceAll("␣", " ")));
}

function sentenceText() {
  const span = app.translated?.sentences[app.sentence];
  return span ? [...app.inputs.src].slice(...span).join("") : (app.inputs.src || "").trim();
}

function chooseSentenceAtCaret(event) {
  const sentences = app.translated?.sentences || [];
  const place = [...event.target.value.slice(0, event.target.selectionStart)].length;
  const found = sentences.findIndex(([start, end]) => start <= place && place <= end);
  if (found >= 0 && found !== app.sentence) app.chooseSentence(found);
}
