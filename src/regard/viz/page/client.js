// Requests to the server of the page. A newer request of the same kind cancels the one before.

const underway = {};
const client = { key: "" };

// The answer of the server; null if a newer request has taken the place of this one.
async function ask(kind, path, body = null) {
  underway[kind]?.abort();
  const controller = new AbortController();
  underway[kind] = controller;
  const headers = { ...(body ? { "Content-Type": "application/json" } : {}),
    ...(client.key ? { Authorization: `Bearer ${client.key}` } : {}) };
  try {
    const response = await fetch(`page/${path}`, { method: body ? "POST" : "GET", headers, signal: controller.signal,
      body: body && JSON.stringify(body) });
    const answer = await response.json();
    if (response.ok) return answer;
    throw Object.assign(new Error(answer.error?.message || response.statusText), { code: answer.error?.code || "" });
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw error instanceof TypeError ? Object.assign(new Error(say("no_server")), { code: "no-server" }) : error;
  }
}

// Call `work` when nothing has happened for a moment.
function whenQuiet(work, milliseconds = 250) {
  let timer = null;
  return () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(work, milliseconds);
  };
}
