// The page as a whole: its language, its facts, and drawing everything again when something about the window changes.

function language() {
  const asked = window.location.hash.slice(1).toLowerCase();
  if (Object.hasOwn(WORDS, asked)) return asked;
  return (navigator.language || "en").toLowerCase().startsWith("zh") ? "zh" : "en";
}

function drawPage() {
  page.language = language();
  document.documentElement.lang = page.language === "zh" ? "zh-Hans" : "en";
  for (const button of document.querySelectorAll("#languages button")) {
    button.setAttribute("aria-pressed", String(button.dataset.lang === page.language));
  }
  document.getElementById("facts").replaceChildren(...DATA.facts.map(([key, value]) =>
    make("div", {}, make("dt", {}, called(key)), make("dd", { dir: "auto" }, value))));
  for (const [id, drawPart] of Object.entries(PARTS)) drawPart(document.getElementById(id));
  document.getElementById("footer").textContent = say("footer");
}

for (const button of document.querySelectorAll("#languages button")) {
  button.addEventListener("click", () => {
    window.location.hash = button.dataset.lang;
  });
}
window.addEventListener("hashchange", drawPage);
DARK.addEventListener("change", drawPage);
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnWidth) return; // a phone's address bar changes the height alone
  drawnWidth = window.innerWidth;
  for (const [id, fit] of Object.entries(FITTED)) fit(document.getElementById(id));
});
drawPage();
