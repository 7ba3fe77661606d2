// The whole page: its language and facts; it is drawn again if the window or the colour scheme changes.

function language() {
  const chosen = window.location.hash.slice(1).toLowerCase().split("/")[0] || remembered("language");
  if (Object.hasOwn(WORDS, chosen)) return chosen;
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
    remember("language", button.dataset.lang);
    const [, place] = window.location.hash.split("/");
    window.location.hash = place ? `${button.dataset.lang}/${place}` : button.dataset.lang;
  });
}
window.addEventListener("hashchange", () => {
  if (language() !== page.language) drawPage(); // else a link to another place of the page
});
for (const button of document.querySelectorAll("#themes button")) {
  button.addEventListener("click", () => {
    remember("theme", button.dataset.theme);
    showTheme(button.dataset.theme);
    drawPage();
  });
}
showTheme(remembered("theme") || "auto");
DARK.addEventListener("change", drawPage);
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnWidth) return; // the address bar of a phone changes only the height
  drawnWidth = window.innerWidth;
  for (const [id, fit] of Object.entries(FITTED)) fit(document.getElementById(id));
});
drawPage();
