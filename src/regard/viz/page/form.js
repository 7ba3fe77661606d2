// The form of a run that does not translate: a field for each part of an example, and the prediction in its own form.

// Examples for the fields of each task, in English; {mask} is the model's own token.
const FORM_SAMPLES = {
  text: { classification: "A film to remember.", regression: "A man plays a guitar.", language: "The old man", pretraining: "The {mask} is here.",
    choice: "The man opened his umbrella because" },
  pair: "A man plays an instrument.",
  words: "The old man reads a book in the garden .",
  question: "Where does the old man read?",
  context: "The old man reads a book in the garden because the weather is good.",
  choices: "it was raining.\nhe was hungry.",
};

// A button that fills the blank form with an example.
function formSample(run) {
  const given = run.fields.map(({ name }) => [name, FORM_SAMPLES[name]?.[run.task] ?? FORM_SAMPLES[name]])
    .filter(([, text]) => typeof text === "string");
  if (given.length < run.fields.length || run.fields.some(({ name }) => app.inputs[name])) return null;
  return make("div", { class: "samples" }, make("button", { type: "button", class: "plain-button", onclick: () => {
    for (const [name, text] of given) app.inputs[name] = text.replace("{mask}", run.mask);
    drawAsk(document.getElementById("ask"));
    app.typed();
  } }, say("try_example")));
}

const MANY_LINES = ["text", "context", "words", "choices"];

function drawForm(parent) {
  const { run } = app;
  const fields = run.fields.map((field) => {
    const many = MANY_LINES.includes(field.name);
    const input = make(many ? "textarea" : "input", { id: `field-${field.name}`, rows: many ? (field.list ? 4 : 3) : null,
      type: many ? null : "text", dir: "auto", spellcheck: "false", class: "field",
      placeholder: called(`${run.task}_${field.name}`, "placeholder_") === `${run.task}_${field.name}` ? ""
        : say(`placeholder_${run.task}_${field.name}`, { mask: run.mask }),
      oninput: (event) => {
        app.inputs[field.name] = event.target.value;
        app.typed();
      } });
    input.value = app.inputs[field.name] || "";
    return make("div", { class: "form-field" }, make("label", { for: `field-${field.name}` }, fieldName(run, field)), input);
  });
  refill(parent, make("div", { class: "boxes" }, make("div", { class: "box" }, fields, formSample(run)),
    make("div", { class: "box" }, make("div", { class: "answer", "aria-live": "polite" }), busySign())));
  drawAnswer();
}

function fieldName(run, field) {
  const name = called(field.name, "field_");
  return field.required ? name : `${name} (${say("optional")})`;
}

// The example of the form; null if a required field is blank.
function formExample() {
  const example = {};
  for (const field of app.run.fields) {
    const text = (app.inputs[field.name] || "").trim();
    const value = field.list ? text.split("\n").map((line) => line.trim()).filter(Boolean) : text;
    if (field.required && (field.list ? value.length < 2 : !value)) return null;
    if (value.length) example[field.name] = value;
  }
  const [only] = Object.values(example);
  return app.run.fields.length === 1 ? only : example;
}

// The prediction: bars, marked words, a tree, or text.
function drawAnswer() {
  const box = document.querySelector("#ask .answer");
  if (!box) return;
  if (app.problem) return refill(box, make("p", { class: "problem" }, app.problem));
  if (!app.result) return refill(box, make("p", { class: "soft" }, say("type_here")));
  return refill(box, ...app.result.output.map((value) => make("div", { class: "output", dir: "auto" }, nodesOf(value, null))),
    app.result.output.length ? null : make("p", { class: "soft" }, say("nothing_found")),
    app.result.output.some((value) => value.picture) ? saveButtons(app.run.task, "", () => [...box.querySelectorAll(".picture > svg")]) : null);
}
