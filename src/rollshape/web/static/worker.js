// Runs rollshape.geometry by Pyodide. Everything is fetched from the folder of the page.

import { loadPyodide } from "./pyodide/pyodide.mjs";

async function start() {
  postMessage({ progress: "Loading Python…" });
  const [python, bundle] = await Promise.all([
    loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href }),
    fetch(new URL("./rollshape.zip", import.meta.url)).then((response) => response.arrayBuffer()),
  ]);
  postMessage({ progress: "Loading the planner…" });
  python.unpackArchive(bundle, "zip", { extractDir: "/rollshape" });
  python.runPython("import sys; sys.path.insert(0, '/rollshape')");
  const { answer } = python.pyimport("rollshape.web.api");
  answer("planner", '{"num_envs": 64, "num_steps": 32}'); // the first call compiles and imports: not while somebody drags
  return answer;
}

try {
  const answer = await start();
  onmessage = ({ data }) => postMessage({ id: data.id, document: answer(data.name, data.arguments) });
  postMessage({ ready: true });
} catch (error) {
  postMessage({ failed: String(error) });
}
