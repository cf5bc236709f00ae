// Service worker of the static page: keeps its files, so that it also opens without a network.
// rollshape.web.build writes the constant BUILD above: the files of the page and a hash of them.
// Files of the page come from the network while there is one, so that nobody sees an old version; Pyodide's are large
// and belong to this build, so they are read from the cache.

const CACHE = `rollshape ${self.registration.scope} ${BUILD.version}`;

async function keep() {
  const cache = await caches.open(CACHE);
  await cache.addAll(BUILD.files);
}

async function removeOthers() {
  const prefix = `rollshape ${self.registration.scope} `;
  const names = (await caches.keys()).filter((name) => name.startsWith(prefix) && name !== CACHE);
  await Promise.all(names.map((name) => caches.delete(name)));
  await self.clients.claim(); // also for the page that is open: it loads some modules later
}

async function answer(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request, { ignoreSearch: true });
  if (kept && request.url.includes("/pyodide/")) return kept;
  try {
    return await fetch(request);
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}

self.addEventListener("install", (event) => event.waitUntil(keep()));
self.addEventListener("activate", (event) => event.waitUntil(removeOthers()));
self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(self.registration.scope)) event.respondWith(answer(event.request));
});
