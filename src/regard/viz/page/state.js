// What a person typed and chose: a reload shows it again, and a link shows it to others.

const KEPT = "regard-page";

function currentState() {
  const { run, inputs, source, target, tab } = app;
  return { ...inputs, run: run.name, from: source, to: target, tab };
}

// A link to the page as it is: the part after # has the page language and the state, and never reaches the server.
function shareAddress() {
  const state = Object.entries(currentState()).filter(([, value]) => value);
  return `${window.location.href.split("#")[0]}#${page.language}/${new URLSearchParams(state)}`;
}

// The state in the link, else that before a reload; the link is used once, so that a reload shows later changes.
function takeState() {
  const [chosen, place] = window.location.hash.slice(1).split("/");
  if (place?.includes("=")) {
    window.history.replaceState(null, "", `#${chosen}`);
    return Object.fromEntries(new URLSearchParams(place));
  }
  try {
    return JSON.parse(window.sessionStorage.getItem(KEPT)) || {};
  } catch {
    return {};
  }
}

function keepState() {
  if (!app.run) return;
  try {
    window.sessionStorage.setItem(KEPT, JSON.stringify(currentState()));
  } catch {
    // a browser that keeps nothing, or a text that is too long for it
  }
}
