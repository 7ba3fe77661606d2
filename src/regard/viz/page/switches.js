// Heads that are switched off: the server runs the model without them, and output and attention change at once.

explorer.switches = () => {
  const map = currentMap();
  const { layer, head, off } = explorer;
  const key = `${map.name}/${layer}/${head}`;
  const alone = layer !== MEAN && head !== MEAN && map.steps;
  const change = (next) => {
    explorer.off = new Set(next);
    if (next.length || app.run.task !== "translation") inspect();
    else refresh();
  };
  const toggle = make("button", { type: "button", class: "plain-button", id: "switch-head", disabled: !alone, title: say("switch_about"),
    "aria-pressed": String(off.has(key)), onclick: () => change(off.has(key) ? [...off].filter((each) => each !== key) : [...off, key]) },
  say(off.has(key) ? "switch_on" : "switch_off"));
  const names = [...off].map((each) => each.split("/")).map(([kind, l, h]) => `${called(kind, "name_")} ${Number(l) + 1}.${Number(h) + 1}`);
  const all = off.size ? make("button", { type: "button", class: "plain-button", id: "all-heads-on", onclick: () => change([]) }, say("all_on")) : null;
  return make("div", { class: "controls", id: "head-switch" }, toggle, all,
    make("span", { class: "soft", role: "status" }, off.size ? say("heads_off", { names: names.join(", ") }) : say("switch_about")));
};
