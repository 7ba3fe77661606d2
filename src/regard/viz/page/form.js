// The form of a run that does not translate: a field for each part of an example, and the prediction in its own form.

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
  refill(parent, make("div", { class: "boxes" }, make("div", { class: "box" }, fields),
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
