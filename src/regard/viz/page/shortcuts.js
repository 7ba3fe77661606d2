// Keys that work anywhere on the page, and a list of them.

const SHORTCUTS = [["/", "key_type"], ["1 – 6", "key_tab"], ["← ↑ → ↓", "key_arrows"], ["Enter", "key_words"], ["Esc", "key_escape"], ["?", "key_help"]];

function shortcutKeys(event) {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "Escape" && typing) typing.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const tabs = document.querySelectorAll('#inside [role="tab"]');
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector("#ask textarea, #ask input.field")?.focus();
  } else if (event.key === "?") helpDialog().showModal();
  else if (tabs[Number(event.key) - 1]) tabs[Number(event.key) - 1].click();
}

function helpDialog() {
  const known = document.getElementById("help");
  const dialog = known || make("dialog", { id: "help", class: "card" });
  if (!known) document.body.append(dialog);
  dialog.setAttribute("aria-label", say("shortcuts"));
  refill(dialog, make("h2", {}, say("shortcuts")), make("dl", { class: "sentence-pair" }, SHORTCUTS.map(([keys, key]) =>
    [make("dt", {}, make("kbd", {}, keys)), make("dd", {}, say(key))]).flat()),
  make("button", { type: "button", class: "plain-button", onclick: () => dialog.close() }, say("close")));
  return dialog;
}

function helpButton() {
  return make("button", { type: "button", class: "plain-button", id: "help-button", "aria-label": say("shortcuts"), title: say("shortcuts"),
    onclick: () => helpDialog().showModal() }, "?");
}
