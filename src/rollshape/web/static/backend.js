// The Python behind the page: in a worker (static page) or on the local server. The same functions, the same JSON.

const isServer = document.querySelector('meta[name="backend"]').content === "server";
let worker = null;
let ready = null;
let next = 0;
const waiting = new Map();

export const hasRuns = isServer;

export function start(onProgress) {
  if (isServer) return Promise.resolve();
  ready ??= new Promise((resolve, reject) => {
    worker = new Worker("worker.js", { type: "module" });
    worker.onerror = (event) => reject(new Error(event.message || "The worker could not be started."));
    worker.onmessage = ({ data }) => {
      if (data.progress) onProgress(data.progress);
      else if (data.failed) reject(new Error(data.failed));
      else if (data.ready) { resolve(); keepFiles(); }
      else {
        waiting.get(data.id)(JSON.parse(data.document));
        waiting.delete(data.id);
      }
    };
  });
  return ready;
}

// Without a secure context or the right to store files, the page needs the network when it is opened.
function keepFiles() {
  navigator.serviceWorker?.register("offline.js").catch(() => {});
}

// Returns the document of a function of rollshape.web.api; {"error": …} if the request is wrong.
export function call(name, values) {
  const text = JSON.stringify(values);
  if (isServer) return post(name, text);
  return new Promise((resolve) => {
    next += 1;
    waiting.set(next, resolve);
    worker.postMessage({ id: next, name, arguments: text });
  });
}

async function post(name, text) {
  try {
    const response = await fetch(`api/${name}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: text });
    return await response.json();
  } catch {
    return { error: { rule: "server", message: "The server does not answer.", fix: "Start `rollshape ui` again.", alternatives: [] } };
  }
}

// Reads from the server only: runs, studies, probes.
export async function get(path, values = {}) {
  const query = new URLSearchParams(values).toString(); // also a list of pairs
  try {
    const response = await fetch(`api/${path}${query ? `?${query}` : ""}`);
    return await response.json();
  } catch {
    return { error: { rule: "server", message: "The server does not answer.", fix: "Start `rollshape ui` again.", alternatives: [] } };
  }
}
