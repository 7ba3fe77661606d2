// Requests to the server of the page. A newer request of the same kind cancels the one before.

const underway = {};
const client = { key: "" };

// The answer of the server; null if a newer request has taken the place of this one.
function ask(kind, path, body = null) {
  return request(kind, path, body, (response) => response.json());
}

// Events of the server, one after another: `tell(name, data)`; the value is true, or null as above.
function listen(kind, path, body, tell) {
  return request(kind, path, body, async (response) => {
    let text = "";
    for await (const part of readable(response.body.pipeThrough(new TextDecoderStream()))) {
      const events = (text + part).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const [, name, data] = event.match(/^event: (.*)\ndata: (.*)$/u);
        tell(name, JSON.parse(data));
      }
    }
    return true;
  });
}

async function* readable(stream) {
  const reader = stream.getReader(); // not every browser can iterate over a stream
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
}

async function request(kind, path, body, read) {
  underway[kind]?.abort();
  const controller = new AbortController();
  underway[kind] = controller;
  const headers = { ...(body ? { "Content-Type": "application/json" } : {}),
    ...(client.key ? { Authorization: `Bearer ${client.key}` } : {}) };
  try {
    const response = await fetch(`page/${path}`, { method: body ? "POST" : "GET", headers, signal: controller.signal,
      body: body && JSON.stringify(body) });
    if (response.ok) return await read(response);
    const answer = await response.json();
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
