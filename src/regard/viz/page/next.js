// The most probable next tokens; a temperature below 1 sharpens their probabilities, one above 1 flattens them; a click writes one.

const next = { temperature: 1, words: false };

function drawNext(panel) {
  const translates = app.run.task === "translation";
  const bars = make("ol", { class: "offers", "aria-live": "polite" });
  const show = () => loadNext(bars);
  const later = whenQuiet(show, 120);
  const value = make("output", { for: "temperature" }, next.temperature.toFixed(1));
  const slider = make("input", { type: "range", id: "temperature", min: 0.1, max: 2, step: 0.1, value: next.temperature,
    oninput: () => {
      next.temperature = Number(slider.value);
      value.textContent = next.temperature.toFixed(1);
      later();
    } });
  const begun = make("input", { type: "text", id: "begun", class: "field", dir: "auto", spellcheck: "false", "aria-label": say("begun"),
    placeholder: say("begun"), oninput: (event) => {
      app.begun = event.target.value;
      later();
    } });
  begun.value = app.begun;
  refill(panel, make("p", { class: "about" }, say("next_about")), translates ? begun : null,
    make("div", { class: "controls" }, make("label", { class: "labelled", for: "temperature" }, say("temperature")), slider, value), bars);
  show();
}

async function loadNext(bars) {
  try {
    const found = await ask("next", "next", { run: app.run.name, example: currentExample(), prefix: app.begun, temperature: next.temperature });
    if (!found || !bars.isConnected) return;
    next.words = !found.tokens.some(([token]) => token.includes("␣"));
    refill(bars, ...found.tokens.map(([token, share]) => {
      const button = make("button", { type: "button", class: "share", disabled: END.test(token), onclick: () => writeToken(token) },
        make("bdi", {}, label(token, 24)), make("span", { class: "figure" }, `${(100 * share).toFixed(1)} %`));
      button.style.setProperty("--share", `${100 * share}%`);
      return make("li", {}, button);
    }));
  } catch (error) {
    refill(bars, make("li", { class: "problem" }, error.message));
  }
}

// Append a token to the text of a language model, or to the beginning of a translation.
function writeToken(token) {
  const written = token.replaceAll("␣", " ");
  if (app.run.task === "translation") {
    app.begun = `${app.begun}${written}`.trimStart();
    return drawInside(document.getElementById("inside"));
  }
  const [{ name }] = app.run.fields;
  app.inputs[name] = `${app.inputs[name]}${wordGap(app.inputs[name], written)}${written}`;
  drawAsk(document.getElementById("ask"));
  return app.typed();
}

// Tokens that are whole words have no mark for the space between them.
function wordGap(text, token) {
  return next.words && /[^\s\p{Script=Han}]$/u.test(text) && !/^\p{Script=Han}/u.test(token) ? " " : "";
}
