// Arrays of numbers from Python: unpacked, written and drawn as strips of coloured cells.

// An array of float32: its shape and its values; null stays null.
function unpack(packed) {
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed.floats), (char) => char.charCodeAt(0));
  return { shape: packed.shape, values: new Float32Array(bytes.buffer) };
}

// One row of a matrix.
function rowOf(array, row) {
  const width = array.shape[array.shape.length - 1];
  return array.values.subarray(row * width, (row + 1) * width);
}

// A number with a true minus sign; with three digits after the point, very small and large ones have an exponent.
function written(value, places = 3) {
  if (value === null || Number.isNaN(value)) return say("no_number");
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  const size = Math.abs(value);
  const text = places >= 3 && size !== 0 && (size < 10 ** -places || size >= 1e5) ? value.toExponential(1) : value.toFixed(places);
  return text.replace("-", "−");
}

// A number as a factor or term: negative ones in parentheses.
function term(value) {
  return value < 0 ? `(${written(value)})` : written(value);
}

function largest(...rows) {
  return Math.max(1e-9, ...rows.map((row) => row.reduce((most, value) => Math.max(most, Math.abs(value)), 0)));
}

const SIGNED = {
  light: { none: [240, 239, 233], more: [11, 107, 126], less: [212, 105, 30] },
  dark: { none: [36, 43, 53], more: [99, 199, 209], less: [240, 160, 90] },
};

// The colour of a number from -1 to 1: one hue for each sign, and the ground for 0.
function signedColour(share) {
  const { none, more, less } = isDark() ? SIGNED.dark : SIGNED.light;
  const to = share < 0 ? less : more;
  return none.map((from, n) => Math.round(from + (to[n] - from) * Math.min(1, Math.sqrt(Math.abs(share)))));
}

// A vector as a strip of cells; `full` is the size in full colour, `read(component)` is called with the cell pointed at.
function strip(values, full, name, read = () => {}) {
  const canvas = make("canvas", { class: "strip", role: "img", "aria-label": name });
  canvas.width = values.length;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  values.forEach((value, n) => {
    context.fillStyle = `rgb(${signedColour(value / full).join(" ")})`;
    context.fillRect(n, 0, 1, 1);
  });
  canvas.style.setProperty("--cells", values.length);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    read(clamp(Math.floor((event.clientX - box.left) / box.width * values.length), 0, values.length - 1));
  });
  canvas.addEventListener("pointerleave", () => read(null));
  return canvas;
}
