// Tabs: one of several panels is shown; arrow keys move between the tabs.

// `tabs` are [key, name]; `choose(key)` is called when another one is chosen.
function tabList(label, tabs, current, choose) {
  const buttons = tabs.map(([key, name]) => make("button", { type: "button", role: "tab", id: `tab-${key}`,
    "aria-selected": String(key === current), "aria-controls": "panel", tabindex: key === current ? 0 : -1,
    onclick: () => choose(key) }, name));
  const list = make("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons);
  list.addEventListener("keydown", (event) => {
    const place = tabs.findIndex(([key]) => key === current);
    const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const [key] = tabs[(to + tabs.length) % tabs.length];
    choose(key);
    document.getElementById(`tab-${key}`)?.focus();
  });
  return list;
}

function tabPanel(key) {
  return make("div", { class: "panel", id: "panel", role: "tabpanel", "aria-labelledby": `tab-${key}` });
}
