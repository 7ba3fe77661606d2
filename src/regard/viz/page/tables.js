// Tables of the task and confusion matrices, each in its own card.

function drawTables(parent) {
  refill(parent, ...DATA.tables.map((table) => make("section", { class: "card" },
    make("h2", {}, called(table.title, "title_")),
    has("about_", table.title) ? make("p", { class: "about" }, say(`about_${table.title}`)) : null,
    make("div", { class: "scroll" }, table.counts ? confusion(table) : dataTable(table)))));
}

function dataTable(table) {
  const heads = table.columns.map(([name, kind]) =>
    make("th", { scope: "col", class: kind === "text" ? null : "figure" }, called(name)));
  const rows = table.rows.map((row) => make("tr", {}, row.map((cell, n) => dataCell(cell, ...table.columns[n]))));
  return make("table", { class: "details" }, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows));
}

// A cell as text: percentages have two digits and a bar, counts have commas.
function dataCell(value, name, kind) {
  if (kind === "text") return make("td", { dir: "auto" }, value);
  const text = { percent: () => value.toFixed(2), count: () => value.toLocaleString("en"), number: () => digits(value) }[kind]();
  const cell = make("td", { class: kind === "percent" ? "figure share" : "figure" }, text);
  if (kind === "percent") cell.style.setProperty("--share", `${clamp(value, 0, 100)}%`);
  return cell;
}

// A row for each label, a column for each prediction; a cell is coloured by its share of the row.
function confusion({ labels, counts }) {
  const cell = (count, total, row, column) => {
    const share = total ? count / total : 0;
    const colour = heat(share);
    const box = make("td", { class: row === column ? "diagonal" : null,
      title: `${labels[row]} → ${labels[column]}: ${count.toLocaleString("en")} (${(100 * share).toFixed(1)} %)` },
    count ? count.toLocaleString("en") : "");
    box.style.background = `rgb(${colour.join(" ")})`;
    box.style.color = luminance(colour) > 0.36 ? "#10161d" : "#ffffff";
    return box;
  };
  const name = (text) => make("span", { dir: "auto", title: text }, label(text, 24).replaceAll("␣", " "));
  const heads = labels.map((text) => make("th", { scope: "col" }, name(text)));
  const rows = counts.map((row, r) => {
    const total = row.reduce((a, b) => a + b, 0);
    return make("tr", {}, make("th", { scope: "row" }, name(labels[r])), row.map((count, c) => cell(count, total, r, c)),
      make("td", { class: "total" }, total.toLocaleString("en")));
  });
  return make("table", { class: labels.length > 16 ? "confusion dense" : "confusion" },
    make("thead", {}, make("tr", {}, make("th", { class: "corner" }, say("matrix_corner")), heads,
      make("th", { scope: "col", class: "total" }, make("span", {}, say("total"))))), make("tbody", {}, rows));
}
