// Beside the text: a glossary, a file, the request as code, and a link.

function drawTools(parent) {
  const translates = app.run.task === "translation";
  refill(parent, translates ? glossaryBox() : null, codeBox(), make("button", { type: "button", class: "plain-button", id: "share",
    onclick: (event) => copyText(event.currentTarget, shareAddress(), say("share")) }, say("share")));
  showCode();
}

// Put a text on the clipboard, or, where a browser does not allow it, show it so that a person can copy it.
async function copyText(button, text, name) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    window.prompt(name, text);
    return;
  }
  button.textContent = say("copied");
  button.addEventListener("blur", () => {
    button.textContent = name;
  }, { once: true });
}

// ---- a glossary: one term on each line, "term = translation"

function glossaryBox() {
  const input = make("textarea", { id: "glossary", class: "field", rows: 3, dir: "auto", spellcheck: "false", "aria-label": say("glossary"),
    placeholder: say("glossary_example"), oninput: (event) => {
      app.inputs.glossary = event.target.value;
      app.typed();
    } });
  input.value = app.inputs.glossary || "";
  return make("details", { id: "glossary-box", open: Boolean(input.value) }, make("summary", {}, say("glossary")),
    make("p", { class: "soft" }, say("glossary_about")), input);
}

function glossaryTerms() {
  const pairs = (app.inputs.glossary || "").split("\n").map((line) => line.split("=").map((part) => part.trim()));
  return Object.fromEntries(pairs.filter((pair) => pair.length === 2 && pair.every(Boolean)));
}

// ---- files

function fileButton() {
  const note = make("span", { class: "soft", id: "file-note", role: "status" });
  const input = make("input", { type: "file", id: "file", accept: app.formats.join(","), "aria-label": say("file"), onchange: () => {
    translateFile(input.files[0], note);
    input.value = "";
  } });
  return make("span", { class: "file" }, make("label", { class: "plain-button", title: app.formats.join(" ") }, say("file"), input), note);
}

// Send a file to the server's /translate_file, and save the answer.
async function translateFile(file, note) {
  const form = new FormData();
  const fields = { file, source: app.source || "auto", target: app.target, api_key: client.key, glossary: JSON.stringify(glossaryTerms()) };
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  note.className = "soft";
  note.textContent = say("file_busy", { name: file.name });
  try {
    const answer = await (await fetch("translate_file", { method: "POST", body: form })).json();
    if (answer.error) throw new Error(answer.error.message || answer.error);
    const key = answer.translatedFileUrl.split("/download_file/")[1]; // digits, a point, and the name
    saveFile(decodeURIComponent(key).slice(key.indexOf(".") + 1), await (await fetch(`download_file/${key}`)).blob());
    note.textContent = say("file_done", { name: file.name });
  } catch (error) {
    note.className = "problem";
    note.textContent = error instanceof TypeError ? say("no_server") : error.message;
  }
}

// ---- the request as code

function codeBox() {
  return make("details", { id: "code", open: app.showsCode, ontoggle: (event) => {
    app.showsCode = event.target.open;
    showCode();
  } }, make("summary", {}, say("as_code")), make("div", {}));
}

function showCode() {
  const box = document.querySelector("#code > div");
  if (!box || !app.showsCode) return;
  refill(box, ...Object.entries(requestCode()).map(([name, code]) => make("div", { class: "snippet" },
    make("div", { class: "below" }, make("span", { class: "soft" }, name), make("button", { type: "button", class: "plain-button",
      onclick: (event) => copyText(event.currentTarget, code, say("copy")) }, say("copy"))),
    make("pre", { class: "code", id: `code-${name}` }, code))));
}

// What the page shows, asked with curl and with Python; JSON without null and booleans is Python, too.
function requestCode() {
  const { run, source, target } = app;
  const glossary = glossaryTerms();
  const translation = { text: app.inputs.src || "", ...(source ? { source } : {}), ...(target ? { target } : {}),
    ...(Object.keys(glossary).length ? { glossary } : {}), ...(app.runs.length > 1 ? { run: run.name } : {}) };
  const [path, body] = run.task === "translation" ? ["v1/translate", translation]
    : [`v1/predict/${encodeURIComponent(run.name)}`, { inputs: [formExample() ?? ""] }];
  const address = new URL(path, window.location.href.split("#")[0]).href;
  const json = JSON.stringify(body);
  const key = client.key ? { curl: ` -H "Authorization: Bearer $REGARD_API_KEY"`,
    python: `, headers={"Authorization": "Bearer " + os.environ["REGARD_API_KEY"]}` } : { curl: "", python: "" };
  return {
    curl: `curl '${address}' -H 'Content-Type: application/json'${key.curl} \\\n  -d '${json.replaceAll("'", "'\\''")}'`,
    Python: `${key.python ? "import os\n\n" : ""}import requests\n\nanswer = requests.post("${address}", json=${json}${key.python})\nprint(answer.json())`,
  };
}
